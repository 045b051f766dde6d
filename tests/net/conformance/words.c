/* One-sided operations, as every kind of path must do them (conformance.h): every status, fences, bounds,
 * atomicity, broken links, large READs. */
#include "tests/net/conformance/conformance.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 1, DATA = 2, WORD_COUNT = 64, WORD_BYTES = WORD_COUNT * 8 };

/* Two peers; peer 1 has the regions, peer 0 requests. */
static rig *two_peers(uint32_t kinds, bool sealed, void *data, uint64_t bytes) {
    gw_err err;
    rig *r = rig_open_over(kinds, 2, 1, sealed);
    cr_assert(gw_transport_share_words(r->peers[1].transport, WORDS, WORD_COUNT, &err));
    if (data != NULL) cr_assert(gw_transport_register(r->peers[1].transport, DATA, data, bytes, &err));
    rig_fence_all(r, 1);
    return r;
}

/* A word of peer i, as the peer itself sees it. */
static uint64_t word_of(const rig *r, uint32_t i, uint64_t index) {
    return gw_transport_word_load(r->peers[i].transport, WORDS, index);
}

static gw_op op_on(uint32_t peer, gw_op_kind kind, uint64_t offset) {
    static uint64_t token;
    return (gw_op){.kind = kind,
                   .token = ++token,
                   .peer = rig_id(peer),
                   .fence = rig_fence(1),
                   .region = WORDS,
                   .offset = offset};
}

void conform_small_operations(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    rig_peer *p = &r->peers[0];
    uint64_t value = 42, two[2] = {5, 6};
    gw_op op = op_on(1, GW_OP_WRITE, 8);
    op.buffer = &value;
    op.bytes = 8;
    cr_assert_eq(rig_do(p, &op).status, GW_OP_OK);
    op = op_on(1, GW_OP_CAS, 8);
    op.expected = 42;
    op.operand = 43;
    gw_completion done = rig_do(p, &op);
    cr_assert(done.status == GW_OP_OK && done.value == 42 && done.kind == GW_OP_CAS);
    op.token++;
    done = rig_do(p, &op);
    cr_assert(done.status == GW_OP_MISMATCH && done.value == 43);
    op = op_on(1, GW_OP_FETCH_ADD, 8);
    op.operand = 7;
    done = rig_do(p, &op);
    cr_assert(done.status == GW_OP_OK && done.value == 43);
    op = op_on(1, GW_OP_READ, 0);
    op.buffer = two;
    op.bytes = sizeof two;
    cr_assert_eq(rig_do(p, &op).status, GW_OP_OK);
    cr_assert(two[0] == 0 && two[1] == 50);
    op.bytes = 8;
    op.offset = 8;
    cr_assert_eq(rig_do(p, &op).value, 50);
    rig_close(r);
}

void conform_out_of_bounds_misaligned_and_foreign_regions_are_denied(uint32_t kinds, bool sealed) {
    uint8_t data[100] = {0};
    uint64_t buffer[GW_WRITE_BYTES / 8] = {0};
    rig *r = two_peers(kinds, sealed, data, sizeof data);
    const struct {
        gw_op_kind kind;
        uint32_t region;
        uint64_t offset, bytes;
    } bad[] = {
        {GW_OP_CAS, WORDS, WORD_BYTES, 0},
        {GW_OP_CAS, WORDS, 4, 0},
        {GW_OP_CAS, WORDS, UINT64_MAX - 7, 0},
        {GW_OP_FETCH_ADD, WORDS, WORD_BYTES + 8, 0},
        {GW_OP_CAS, DATA, 0, 0},
        {GW_OP_CAS, 9, 0, 0},
        {GW_OP_WRITE, WORDS, WORD_BYTES - 8, 16},
        {GW_OP_WRITE, WORDS, 1, 8},
        {GW_OP_WRITE, WORDS, 0, 12},
        {GW_OP_WRITE, DATA, 0, 8},
        {GW_OP_READ, WORDS, 8, WORD_BYTES},
        {GW_OP_READ, WORDS, 0, 4},
        {GW_OP_READ, DATA, 1, 100},
        {GW_OP_READ, DATA, UINT64_MAX, 2},
        {GW_OP_READ, 15, 0, 8},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gw_op op = op_on(1, bad[i].kind, bad[i].offset);
        op.region = bad[i].region;
        op.bytes = bad[i].bytes;
        op.buffer = buffer;
        cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_DENIED, "case %zu", i);
    }
    for (uint32_t i = 0; i < WORD_COUNT; i++) cr_assert_eq(word_of(r, 1, i), 0);
    gw_op fine = op_on(1, GW_OP_READ, 99);
    fine.region = DATA;
    fine.bytes = 1;
    fine.buffer = buffer;
    cr_assert_eq(rig_do(&r->peers[0], &fine).status, GW_OP_OK);
    rig_close(r);
}

void conform_other_views_and_strangers_are_fenced_off(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    rig_peer *p = &r->peers[0];
    gw_op op = op_on(1, GW_OP_FETCH_ADD, 0);
    op.operand = 1;
    op.fence = rig_fence(2);
    cr_assert_eq(rig_do(p, &op).status, GW_OP_FENCED);
    op.fence = rig_fence(1);
    op.fence.view.bytes[3] ^= 1; /* the same epoch, in the other half of a partition */
    cr_assert_eq(rig_do(p, &op).status, GW_OP_FENCED);
    op.fence = (gw_fence){0};
    cr_assert_eq(rig_do(p, &op).status, GW_OP_FENCED);
    rig_move_fence(&r->peers[1], NULL, NULL, 0);
    cr_assert_eq(rig_do(p, &op).status, GW_OP_FENCED);
    op.fence = rig_fence(1);
    cr_assert_eq(rig_do(p, &op).status, GW_OP_FENCED);
    gw_peer_id alone = rig_id(1);
    rig_move_fence(&r->peers[1], &op.fence, &alone, 1); /* the right view, but the requester is no member */
    cr_assert_eq(rig_do(p, &op).status, GW_OP_FENCED);
    cr_assert_eq(word_of(r, 1, 0), 0);
    rig_fence_all(r, 1);
    cr_assert_eq(rig_do(p, &op).status, GW_OP_OK);
    rig_close(r);
}

void conform_nothing_of_the_old_view_happens_once_the_fence_has_moved(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    rig_peer *thief = &r->peers[0];
    gw_peer_id members[] = {rig_id(0), rig_id(1)};
    uint64_t done = 0, fenced = 0, posted = 0, unfenced_total = 0;
    for (uint64_t epoch = 1; epoch <= 50; epoch++) {
        gw_fence fence = rig_fence(epoch);
        rig_move_fence(&r->peers[1], &fence, members, 2);
        for (int i = 0; i < 40; i++) {
            gw_op op = op_on(1, GW_OP_FETCH_ADD, 0);
            op.fence = fence;
            op.operand = 1;
            gw_transport_post(thief->transport, &op);
            posted++;
        }
        gw_fence next = rig_fence(epoch + 1);
        rig_move_fence(&r->peers[1], &next, members, 2);
        uint64_t frozen = word_of(r, 1, 0);
        for (int i = 0; i < 40; i++) {
            gw_completion c = rig_completion(thief);
            done += c.status == GW_OP_OK;
            fenced += c.status == GW_OP_FENCED;
        }
        cr_assert_eq(word_of(r, 1, 0), frozen, "epoch %d", (int)epoch);
        unfenced_total = frozen;
    }
    cr_assert_eq(done + fenced, posted);
    cr_assert_eq(unfenced_total, done);
    rig_close(r);
}

/* Range words as in core/README.md, section 4, with a tag of 0: next in bits 20-39, end in bits 0-19. */
typedef struct thief {
    rig *r;
    uint32_t number;
    uint8_t *claimed;
    uint32_t doubles;
} thief;

static void claim(thief *t, uint64_t first, uint64_t end) {
    for (uint64_t i = first; i < end; i++)
        if (__atomic_fetch_add(&t->claimed[i], 1, __ATOMIC_SEQ_CST) != 0) t->doubles++;
}

static void *steal_all(void *argument) {
    thief *t = argument;
    rig_peer *p = &t->r->peers[t->number];
    uint64_t word = 0;
    gw_op read = {.kind = GW_OP_READ, .peer = rig_id(0), .fence = rig_fence(1), .region = WORDS, .bytes = 8};
    read.buffer = &word;
    cr_assert_eq(rig_do(p, &read).status, GW_OP_OK);
    for (;;) {
        uint64_t next = word >> 20, end = word & 0xfffff;
        if (next == end) return NULL;
        uint64_t middle = end - (end - next + 15) / 16; /* small steals, so that many collide */
        gw_op cas = {.kind = GW_OP_CAS, .peer = rig_id(0), .fence = rig_fence(1), .region = WORDS};
        cas.expected = word;
        cas.operand = next << 20 | middle;
        gw_completion c = rig_do(p, &cas);
        cr_assert(c.status == GW_OP_OK || c.status == GW_OP_MISMATCH);
        if (c.status == GW_OP_OK) claim(t, middle, end);
        word = c.status == GW_OP_OK ? cas.operand : c.value;
    }
}

void conform_seven_thieves_and_the_owner_claim_every_integer_once(uint32_t kinds, bool sealed) {
    enum { COUNT = 100000 };
    gw_err err;
    rig *r = rig_open_over(kinds, 8, 1, sealed);
    uint8_t *claimed = calloc(COUNT, 1);
    gw_transport *own = r->peers[0].transport;
    cr_assert(gw_transport_share_words(own, WORDS, WORD_COUNT, &err));
    gw_transport_word_store(own, WORDS, 0, COUNT);
    rig_fence_all(r, 1);
    pthread_t threads[8];
    thief thieves[8];
    for (uint32_t i = 1; i < 8; i++) {
        thieves[i] = (thief){r, i, claimed, 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, steal_all, &thieves[i]), 0);
    }
    thief owner = {r, 0, claimed, 0};
    uint64_t word = COUNT;
    while (word >> 20 != (word & 0xfffff)) {
        uint64_t next = word >> 20, take = next + 1;
        if (gw_transport_word_swap(own, WORDS, 0, &word, take << 20 | (word & 0xfffff))) {
            claim(&owner, next, take);
            word = gw_transport_word_load(own, WORDS, 0);
        }
    }
    uint32_t doubles = owner.doubles;
    for (uint32_t i = 1; i < 8; i++) {
        pthread_join(threads[i], NULL);
        doubles += thieves[i].doubles;
    }
    cr_assert_eq(doubles, 0);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(claimed[i], 1, "integer %d", i);
    free(claimed);
    rig_close(r);
}

void conform_a_large_read_beside_words(uint32_t kinds, bool sealed) {
    const uint64_t bytes = (16 << 20) + 13;
    uint8_t *data = malloc(bytes), *copy = calloc(bytes, 1);
    for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 31 + (i >> 12));
    rig *r = two_peers(kinds, sealed, data, bytes);
    gw_op read = op_on(1, GW_OP_READ, 5);
    read.region = DATA;
    read.bytes = bytes - 5;
    read.buffer = copy;
    gw_transport_post(r->peers[0].transport, &read);
    uint32_t swaps = 0;
    bool landed = false;
    while (!landed) { /* words are still served meanwhile */
        gw_op add = op_on(1, GW_OP_FETCH_ADD, 0);
        add.operand = 1;
        gw_transport_post(r->peers[0].transport, &add);
        gw_completion c = rig_completion(&r->peers[0]);
        if (c.token == read.token) {
            landed = true;
            cr_assert_eq(c.status, GW_OP_OK);
            c = rig_completion(&r->peers[0]);
        }
        cr_assert(c.token == add.token && c.status == GW_OP_OK);
        swaps++;
    }
    cr_assert_eq(word_of(r, 1, 0), swaps);
    cr_assert_eq(memcmp(copy, data + 5, bytes - 5), 0);
    rig_close(r);
    free(data);
    free(copy);
}

void conform_a_large_read_is_fenced_in_the_middle(uint32_t kinds, bool sealed) {
    const uint64_t bytes = 64 << 20;
    uint8_t *data = calloc(bytes, 1), *copy = malloc(bytes);
    rig *r = two_peers(kinds, sealed, data, bytes);
    gw_op read = op_on(1, GW_OP_READ, 0);
    read.region = DATA;
    read.bytes = bytes;
    read.buffer = copy;
    bool fenced = false;
    for (uint32_t round = 0; round < 100 && !fenced; round++) { /* the READ may be faster than the fence */
        rig_fence_all(r, 1);
        gw_transport_post(r->peers[0].transport, &read);
        rig_move_fence(&r->peers[1], NULL, NULL, 0);
        memset(data, 0xff, bytes); /* the memory is the caller's again, which the thread sanitizer checks */
        gw_op_status status = rig_completion(&r->peers[0]).status;
        cr_assert(status == GW_OP_FENCED || status == GW_OP_OK);
        fenced = status == GW_OP_FENCED;
    }
    cr_assert(fenced);
    rig_close(r);
    free(data);
    free(copy);
}

void conform_fetches_by_name(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    uint8_t *copy = malloc(2 << 20);
    gw_op fetch = {.kind = GW_OP_FETCH, .token = 1, .peer = rig_id(1), .buffer = copy, .bytes = 2 << 20};
    fetch.name.bytes[0] = 7;
    gw_completion c = rig_do(&r->peers[0], &fetch);
    cr_assert_eq(c.status, GW_OP_OK);
    cr_assert_eq(c.value, (1 << 20) - 1);
    for (uint64_t i = 0; i < c.value; i++) cr_assert_eq(copy[i], 7);
    fetch.bytes = 100; /* less than the answer has */
    cr_assert_eq(rig_do(&r->peers[0], &fetch).status, GW_OP_NOTFOUND);
    fetch.bytes = 2 << 20;
    fetch.name.bytes[0] = RIG_UNAVAILABLE;
    cr_assert_eq(rig_do(&r->peers[0], &fetch).status, GW_OP_UNAVAILABLE);
    fetch.name.bytes[0] = 9;
    cr_assert_eq(rig_do(&r->peers[0], &fetch).status, GW_OP_NOTFOUND);
    fetch.name.bytes[0] = 7;
    for (uint32_t i = 0; i < 100; i++)
        gw_transport_post(r->peers[0].transport, &fetch); /* more FETCHes than the window */
    for (uint32_t i = 0; i < 100; i++) cr_assert_eq(rig_completion(&r->peers[0]).status, GW_OP_OK);
    rig_close(r);
    free(copy);
}

void conform_without_a_link_nothing_is_sent(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    gw_op op = op_on(5, GW_OP_FETCH_ADD, 0);
    cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_UNREACHABLE);
    gw_peer_id victim = rig_id(1);
    gw_transport_unlink(r->peers[0].transport, &victim);
    rig_wait_downs(&r->peers[1], 1);
    op.peer = victim;
    cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_UNREACHABLE);
    rig_link(r, 0, 1);
    cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_OK);
    cr_assert_eq(rig_downs(&r->peers[0]), 0);
    rig_close(r);
}

void conform_abandoned_operations_complete_at_once(uint32_t kinds, bool sealed) {
    uint64_t bytes = 32 << 20;
    uint8_t *data = calloc(bytes, 1), *copy = malloc(bytes);
    rig *r = two_peers(kinds, sealed, data, bytes);
    rig_peer *p = &r->peers[0];
    for (uint32_t round = 0; round < 20; round++) {
        gw_op read = op_on(1, GW_OP_READ, 0);
        read.region = DATA;
        read.bytes = bytes;
        read.buffer = copy;
        gw_transport_post(p->transport, &read);
        gw_op add = op_on(1, GW_OP_FETCH_ADD, 0);
        add.operand = 1;
        bool adds = round % 2 == 0, read_done = false, add_done = false;
        if (adds) gw_transport_post(p->transport, &add);
        while (adds && !add_done) { /* so that some of the read is on its way, or all of it */
            gw_completion c = rig_completion(p);
            add_done = c.token == add.token;
            read_done = read_done || c.token == read.token;
            cr_assert_eq(c.status, GW_OP_OK);
        }
        gw_transport_abandon(p->transport, NULL);
        memset(copy, 1, bytes); /* the memory is the caller's again */
        if (!read_done) {
            gw_completion c = rig_completion(p);
            cr_assert_eq(c.token, read.token);
            cr_assert(c.status == GW_OP_UNKNOWN || c.status == GW_OP_UNREACHABLE || c.status == GW_OP_OK);
        }
        for (uint64_t i = 0; i < bytes; i++)
            if (copy[i] != 1) cr_assert_fail("byte written after the operation was abandoned");
    }
    gw_op add = op_on(1, GW_OP_FETCH_ADD, 0);
    cr_assert_eq(rig_do(p, &add).value, 10); /* the link works as before */
    cr_assert_eq(rig_downs(p) + rig_downs(&r->peers[1]), 0);
    rig_close(r);
    free(data);
    free(copy);
}

void conform_spinning_serves_alike(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    gw_transport_spin(r->peers[0].transport, true);
    gw_transport_spin(r->peers[1].transport, true);
    for (uint64_t i = 0; i < 200; i++) {
        gw_op op = op_on(1, GW_OP_FETCH_ADD, 0);
        op.operand = 1;
        cr_assert_eq(rig_do(&r->peers[0], &op).value, i);
        if (i == 100) rig_fence_all(r, 1); /* the fence gets the gate although the thread polls */
    }
    rig_close(r);
}

typedef struct adder {
    rig *r;
    _Atomic uint64_t epoch; /* the epoch whose fence it uses; 0: it ends */
    uint64_t done, unknown, fenced;
} adder;

static void *add_on(void *argument) {
    adder *a = argument;
    for (uint64_t epoch; (epoch = atomic_load(&a->epoch)) != 0;) {
        gw_op op = op_on(1, GW_OP_FETCH_ADD, 0);
        op.fence = rig_fence(epoch);
        op.operand = 1;
        gw_op_status status = rig_do(&a->r->peers[0], &op).status;
        a->done += status == GW_OP_OK;
        a->unknown += status == GW_OP_UNKNOWN;
        a->fenced += status == GW_OP_FENCED;
        cr_assert(status == GW_OP_OK || status == GW_OP_UNKNOWN || status == GW_OP_FENCED);
    }
    return NULL;
}

/* Operations that are reported as done have their effect after any number of moves of the fence, and no other
 * operations have. */
void conform_fences_that_move_under_thieves(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    adder a = {.r = r, .epoch = 1};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, add_on, &a), 0);
    for (uint64_t epoch = 2; epoch <= 300; epoch++) {
        uint64_t before = word_of(r, 1, 0);
        rig_fence_all(r, epoch);
        uint64_t moved = word_of(r, 1, 0);
        cr_assert_geq(moved, before);
        /* The thief still uses the old fence: nothing that it does takes effect. */
        cr_assert_eq(word_of(r, 1, 0), moved);
        atomic_store(&a.epoch, epoch);
    }
    atomic_store(&a.epoch, 0);
    pthread_join(thread, NULL);
    uint64_t total = word_of(r, 1, 0);
    cr_assert(total >= a.done && total <= a.done + a.unknown, "%lu done, %lu unknown, %lu there", a.done,
              a.unknown, total);
    rig_close(r);
}

void conform_an_answer_is_visible_to_its_owner(uint32_t kinds, bool sealed) {
    rig *r = two_peers(kinds, sealed, NULL, 0);
    for (uint64_t i = 1; i <= 500; i++) {
        uint64_t values[3] = {i, 2 * i, 3 * i}, seen[3];
        gw_op write = op_on(1, GW_OP_WRITE, 40);
        write.buffer = values;
        write.bytes = sizeof values;
        cr_assert_eq(rig_do(&r->peers[0], &write).status, GW_OP_OK);
        for (uint64_t k = 0; k < 3; k++) cr_assert_eq(word_of(r, 1, 5 + k), (k + 1) * i);
        gw_transport_word_store(r->peers[1].transport, WORDS, 6, 7 * i);
        gw_op read = op_on(1, GW_OP_READ, 40);
        read.buffer = seen;
        read.bytes = sizeof seen;
        cr_assert_eq(rig_do(&r->peers[0], &read).status, GW_OP_OK);
        cr_assert(seen[0] == i && seen[1] == 7 * i && seen[2] == 3 * i);
    }
    rig_close(r);
}
