/* What happens when there is no memory, one allocation after another: an error or a rumour less, and nothing
 * leaks or breaks. The linker gives this suite's code the functions below in place of the C library's. */
#include "tests/core/gossip/world.h"

#include "core/state/layout.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

static int granted = -1; /* so many more, and then one is refused; negative: all are granted */

static bool refused(void) {
    return granted >= 0 && granted-- == 0;
}

void *__wrap_malloc(size_t bytes) {
    return refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    return refused() ? NULL : __real_realloc(memory, bytes);
}

enum { MANY = 1000 }; /* more allocations than anything here makes */

/* `attempt` is tried with its first allocation refused, its second and so on; how many it makes. */
static int refuse_each(bool (*attempt)(gw_err *err)) {
    for (int nth = 0; nth < MANY; nth++) {
        gw_err err = {0};
        granted = nth;
        bool done = attempt(&err);
        bool all_granted = granted >= 0;
        granted = -1;
        cr_assert_eq(done, all_granted, "allocation %d", nth);
        if (done) return nth;
        cr_assert_eq(err.code, GW_E_NOMEM, "allocation %d: %s", nth, err.text);
    }
    return MANY;
}

static bool open_gossip(gw_err *err) {
    static gossip_world w;
    gw_gossip_config config = gossip_config(&w);
    gw_gossip *gossip = NULL;
    if (!gw_gossip_create(&config, &gossip, err)) return false;
    gw_gossip_destroy(gossip);
    return true;
}

Test(memory, gossip_without_memory_is_an_error) {
    cr_assert_geq(refuse_each(open_gossip), 4);
}

enum { STRANGERS = 40 };

static gw_peer_id stranger(uint32_t number) {
    return (gw_peer_id){{'s', (uint8_t)number}};
}

static gw_addr strangers_address(uint32_t number) {
    return (gw_addr){.family = 4, .ip = {10, 1, 0, (uint8_t)number}, .port = 1000};
}

/* All the strangers. */
static bool make_roster(gw_gossip_roster **roster, gw_err *err) {
    gw_gossip_member members[STRANGERS] = {0};
    for (uint32_t i = 0; i < STRANGERS; i++)
        members[i] = (gw_gossip_member){.id = stranger(i),
                                        .incarnation = {.boot = 1, .nonce = 10},
                                        .addr = {strangers_address(i)},
                                        .addr_count = 1};
    return gw_gossip_roster_create(members, STRANGERS, roster, err);
}

static bool enroll_gossip(gw_err *err) {
    static gossip_world w;
    gw_gossip_config config = gossip_config(&w);
    gw_gossip *gossip = NULL;
    gw_gossip_roster *roster = NULL;
    bool done = make_roster(&roster, err) && gw_gossip_create(&config, &gossip, err) &&
                gw_gossip_enroll(gossip, roster, err);
    gw_gossip_destroy(gossip);
    gw_gossip_roster_destroy(roster);
    return done;
}

Test(memory, gossip_with_a_roster_and_no_memory_is_an_error) {
    cr_assert_geq(refuse_each(enroll_gossip), 10);
}

static bool make_layout(gw_err *err) {
    static const gw_tensor tensors[] = {
        {.name = "p", .dtype = GW_F32, .role = GW_STATE, .rank = 1, .dim = {10}},
        {.name = "g", .role = GW_SUMMED, .rank = 1, .dim = {10}}};
    gw_plan plan = {.tensors = tensors, .tensor_count = 2};
    gw_layout layout;
    if (!gw_layout_make(&plan, 0, &layout, err)) return false;
    gw_layout_free(&layout);
    return true;
}

Test(memory, a_layout_without_memory_is_an_error) {
    cr_assert_eq(refuse_each(make_layout), 5);
}

/* Bob tells of all strangers, each with a blob, and that every fourth is suspect. */
static void hear_of_all(gossip_world *w, uint32_t version) {
    for (uint32_t i = 0; i < STRANGERS; i++) {
        gw_peer_id id = stranger(i);
        gw_addr addr = strangers_address(i);
        gw_gossip_record record =
            gossip_about(&id, &addr, i % 4 == 0 ? GW_GOSSIP_IS_SUSPECT : GW_GOSSIP_IS_ALIVE, 1, version);
        record.accuser = bob;
        record.has_meta = true;
        record.meta_version = version;
        record.meta = (const uint8_t *)"blob";
        record.meta_bytes = 4;
        gossip_hear_rumour(w, &record);
    }
}

static void assert_that_all_are_known(const gossip_world *w, uint32_t version) {
    cr_assert_eq(gw_gossip_count(w->gossip), 1 + STRANGERS);
    cr_assert_eq(w->gossip->live, 1 + STRANGERS);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        gw_peer_id id = stranger(i);
        const gw_gossip_member *member = gw_gossip_find(w->gossip, &id);
        cr_assert_not_null(member, "%u", i);
        cr_assert_eq(member->state, i % 4 == 0 ? GW_GOSSIP_IS_SUSPECT : GW_GOSSIP_IS_ALIVE, "%u", i);
        cr_assert_eq(member->meta_version, version, "%u", i);
        cr_assert_arr_eq(member->meta, "blob", 4);
    }
}

/* With a roster the strangers are known from the start, but not what is heard of them. */
static void hears_it_again(const gw_gossip_roster *roster) {
    int nth = 0;
    for (bool all_granted = false; !all_granted && nth < MANY; nth++) {
        gossip_world w;
        gossip_world_enroll(&w, roster);
        granted = nth;
        hear_of_all(&w, 1);
        gw_gossip_set_meta(w.gossip, "mine", 4, w.now_ns);
        all_granted = granted >= 0;
        granted = -1;
        if (all_granted) assert_that_all_are_known(&w, 1);
        hear_of_all(&w, 2);
        assert_that_all_are_known(&w, 2);
        gossip_run(&w, GOSSIP_SECOND);
        const gw_gossip_member *self = gw_gossip_self(w.gossip);
        cr_assert_eq(self->meta_bytes, 4, "allocation %d", nth);
        cr_assert_arr_eq(self->meta, "mine", 4);
        gw_gossip_destroy(w.gossip);
    }
    cr_assert(nth > STRANGERS && nth < MANY, "%d", nth);
}

Test(memory, what_gossip_has_no_memory_for_it_learns_when_it_hears_it_again) {
    hears_it_again(NULL);
    gw_gossip_roster *roster;
    gw_err err;
    cr_assert(make_roster(&roster, &err));
    hears_it_again(roster);
    gw_gossip_roster_destroy(roster);
}
