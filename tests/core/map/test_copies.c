/* Outputs of peers are on two disks before they count, whoever lives; peers in virtual time, with messages that are lost. */
#include "core/map/copies.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PEERS = 4, MESSAGES = 4096 };

#define STEP_NS UINT64_C(1000000)

typedef struct world world;

typedef struct node {
    world *of;
    gw_map_copies *copies; /* NULL: it is dead */
    gw_peer_id id;
    uint64_t disk[PEERS]; /* bytes of each peer's file */
    bool broken;          /* it copies nothing */
} node;

struct world {
    uint64_t now_ns;
    double loss;
    gw_rng rng;
    node nodes[PEERS];
    struct {
        uint32_t from, to;
        size_t length;
        uint8_t *bytes;
    } messages[MESSAGES];
    uint32_t count;
};

static uint32_t place_of(const world *w, const gw_peer_id *id) {
    uint32_t i = 0;
    while (i < PEERS && !gw_peer_id_equal(&w->nodes[i].id, id)) i++;
    cr_assert_lt(i, PEERS);
    return i;
}

static void send(void *context, const gw_peer_id *to, const void *bytes, size_t length) {
    node *n = context;
    world *w = n->of;
    if (gw_rng_unit(&w->rng) < w->loss) return;
    cr_assert(w->count < MESSAGES && length <= GW_MAP_COPIES_MESSAGE_BYTES);
    uint8_t *copy = malloc(length);
    memcpy(copy, bytes, length);
    w->messages[w->count].from = (uint32_t)(n - w->nodes);
    w->messages[w->count].to = place_of(w, to);
    w->messages[w->count].length = length;
    w->messages[w->count++].bytes = copy;
}

static void tell_peers(world *w) {
    for (uint32_t i = 0; i < PEERS; i++) {
        gw_peer_id live[PEERS];
        uint32_t count = 0;
        for (uint32_t k = 0; k < PEERS; k++)
            if (k != i && w->nodes[k].copies != NULL) live[count++] = w->nodes[k].id;
        if (w->nodes[i].copies != NULL) gw_map_copies_set_peers(w->nodes[i].copies, live, count, w->now_ns);
    }
}

static void start(world *w, uint32_t place) {
    node *n = &w->nodes[place];
    gw_map_copies_sink sink = {n, send};
    n->copies = gw_map_copies_open(&n->id, &sink, w->now_ns);
    for (uint32_t k = 0; k < PEERS; k++)
        if (n->disk[k] > 0 || k == place)
            gw_map_copies_have(n->copies, &w->nodes[k].id, n->disk[k], w->now_ns);
    tell_peers(w);
}

static void end(world *w, uint32_t place, bool for_good) {
    gw_map_copies_close(w->nodes[place].copies);
    w->nodes[place].copies = NULL;
    if (for_good) memset(w->nodes[place].disk, 0, sizeof w->nodes[place].disk);
    tell_peers(w);
}

static world *open_world(uint32_t live, double loss) {
    world *w = calloc(1, sizeof *w);
    w->rng = gw_rng_seeded(7);
    w->now_ns = 1;
    w->loss = loss;
    for (uint32_t i = 0; i < PEERS; i++) {
        w->nodes[i].of = w;
        w->nodes[i].id.bytes[0] = (uint8_t)(i + 1);
    }
    for (uint32_t i = 0; i < live; i++) start(w, i);
    return w;
}

static void close_world(world *w) {
    for (uint32_t i = 0; i < w->count; i++) free(w->messages[i].bytes);
    for (uint32_t i = 0; i < PEERS; i++) gw_map_copies_close(w->nodes[i].copies);
    free(w);
}

static void step(world *w) {
    uint32_t count = w->count;
    w->now_ns += STEP_NS;
    for (uint32_t i = 0; i < count; i++) {
        const node *to = &w->nodes[w->messages[i].to];
        const gw_peer_id *from = &w->nodes[w->messages[i].from].id;
        if (to->copies != NULL)
            cr_assert(gw_map_copies_message(to->copies, from, w->messages[i].bytes, w->messages[i].length,
                                            w->now_ns));
        free(w->messages[i].bytes);
    }
    memmove(w->messages, w->messages + count, (w->count - count) * sizeof *w->messages);
    w->count -= count;
    for (uint32_t i = 0; i < PEERS; i++) {
        node *n = &w->nodes[i];
        gw_map_copies_errand e;
        if (n->copies == NULL) continue;
        if (gw_map_copies_next_deadline(n->copies) <= w->now_ns) gw_map_copies_tick(n->copies, w->now_ns);
        if (n->broken || !gw_map_copies_next(n->copies, &e, w->now_ns)) continue;
        uint32_t whose = place_of(w, &e.whose), from = place_of(w, &e.from);
        cr_assert(e.bytes > e.have && e.have == n->disk[whose]);
        if (w->nodes[from].copies == NULL || w->nodes[from].disk[whose] < e.bytes) {
            gw_map_copies_failed(n->copies, &e.whose, w->now_ns);
            continue;
        }
        n->disk[whose] = e.bytes - e.have > 700 ? e.have + 700 : e.bytes;
        gw_map_copies_have(n->copies, &e.whose, n->disk[whose], w->now_ns);
    }
}

static void run_for(world *w, double seconds) {
    for (uint64_t end_ns = w->now_ns + (uint64_t)(seconds * 1e9); w->now_ns < end_ns;) step(w);
}

static void write_own(world *w, uint32_t place, uint64_t bytes) {
    w->nodes[place].disk[place] += bytes;
    gw_map_copies_have(w->nodes[place].copies, &w->nodes[place].id, w->nodes[place].disk[place], w->now_ns);
}

/* On how many disks so many bytes of a peer's file are. */
static uint32_t disks(const world *w, uint32_t whose, uint64_t bytes) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < PEERS; i++) count += w->nodes[i].disk[whose] >= bytes;
    return count;
}

Test(copies, what_is_safe_is_on_a_second_disk_though_messages_are_lost) {
    world *w = open_world(3, 0.2);
    uint64_t safe = 0;
    for (int i = 0; i < 400; i++) {
        write_own(w, 1, 1000);
        for (int k = 0; k < 10; k++) step(w);
        uint64_t now = gw_map_copies_safe(w->nodes[1].copies);
        cr_assert_geq(now, safe);
        safe = now;
        cr_assert(safe == 0 || disks(w, 1, safe) >= 2);
    }
    run_for(w, 3);
    cr_assert_eq(gw_map_copies_safe(w->nodes[1].copies), 400000);
    cr_assert_eq(disks(w, 1, 1), 2, "one other peer copies it");
    close_world(w);
}

Test(copies, a_small_output_is_safe_after_three_messages) {
    world *w = open_world(3, 0);
    run_for(w, 2);
    write_own(w, 0, 100);
    run_for(w, 0.012);
    cr_assert_eq(gw_map_copies_safe(w->nodes[0].copies), 100);
    close_world(w);
}

Test(copies, a_peer_that_is_alone_is_safe_by_itself_and_only_when_it_knows_that) {
    world *w = open_world(1, 0);
    write_own(w, 0, 500);
    cr_assert_eq(gw_map_copies_safe(w->nodes[0].copies), 500);
    gw_map_copies_cut_off(w->nodes[0].copies);
    write_own(w, 0, 500);
    cr_assert_eq(gw_map_copies_safe(w->nodes[0].copies), 500);
    start(w, 2);
    cr_assert_eq(gw_map_copies_safe(w->nodes[0].copies), 500, "the other one has nothing yet");
    run_for(w, 3);
    cr_assert_eq(gw_map_copies_safe(w->nodes[0].copies), 1000);
    cr_assert_eq(disks(w, 0, 1000), 2, "what was safe alone is copied as well");
    close_world(w);
}

Test(copies, a_second_that_dies_or_does_nothing_is_replaced) {
    for (int does_nothing = 0; does_nothing < 2; does_nothing++) {
        world *w = open_world(4, 0);
        uint32_t second = 0;
        write_own(w, 0, 5000);
        run_for(w, 2);
        for (uint32_t i = 1; i < PEERS; i++)
            if (w->nodes[i].disk[0] > 0) second = i;
        cr_assert_eq(disks(w, 0, 5000), 2);
        if (does_nothing)
            w->nodes[second].broken = true;
        else
            end(w, second, true);
        write_own(w, 0, 1000);
        run_for(w, 8);
        cr_assert_eq(gw_map_copies_safe(w->nodes[0].copies), 6000);
        cr_assert_eq(disks(w, 0, 6000), 2);
        close_world(w);
    }
}

Test(copies, what_a_dead_peer_wrote_comes_to_two_disks_again) {
    world *w = open_world(4, 0.1);
    write_own(w, 3, 5000);
    run_for(w, 3);
    end(w, 3, true);
    cr_assert_eq(disks(w, 3, 5000), 1);
    run_for(w, 5);
    cr_assert_eq(disks(w, 3, 5000), 2);
    for (uint32_t i = 0; i < 3; i++) { /* the same once more */
        if (w->nodes[i].disk[3] == 0) continue;
        end(w, i, true);
        break;
    }
    run_for(w, 5);
    cr_assert_eq(disks(w, 3, 5000), 2);
    close_world(w);
}

Test(copies, a_disk_that_has_lost_something_is_noticed) {
    world *w = open_world(2, 0);
    write_own(w, 0, 5000);
    run_for(w, 2);
    end(w, 0, false);
    w->nodes[0].disk[0] = 4000;
    start(w, 0);
    cr_assert(!gw_map_copies_is_behind(w->nodes[0].copies));
    run_for(w, 2);
    cr_assert(gw_map_copies_is_behind(w->nodes[0].copies));
    cr_assert(!gw_map_copies_is_behind(w->nodes[1].copies));
    close_world(w);
}

Test(copies, malformed_messages_are_refused) {
    world *w = open_world(2, 0);
    gw_map_copies *c = w->nodes[0].copies;
    const gw_peer_id *from = &w->nodes[1].id;
    uint8_t bytes[4 + 40] = {1, 0, 1, 0};
    cr_assert(gw_map_copies_message(c, from, bytes, sizeof bytes, w->now_ns));
    cr_assert(!gw_map_copies_message(c, from, bytes, sizeof bytes - 1, w->now_ns));
    cr_assert(!gw_map_copies_message(c, from, bytes, 3, w->now_ns));
    bytes[1] = 2;
    cr_assert(!gw_map_copies_message(c, from, bytes, sizeof bytes, w->now_ns));
    bytes[1] = 0;
    bytes[0] = 9;
    cr_assert(!gw_map_copies_message(c, from, bytes, sizeof bytes, w->now_ns));
    close_world(w);
}
