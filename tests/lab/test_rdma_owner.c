/* What fences do to those who ask for this peer's words: on a real device, with a guest that keeps its queue
 * pair and the key it was told, and knows even the one that it was not. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma/message.h"
#include "net/rdma/owner.h"
#include "tests/lab/rdma_rig.h"

#include <stdlib.h>
#include <string.h>

enum { RANGE = 1, GUESTS = 2 };

static const gw_peer_id ids[GUESTS] = {{{1}}, {{2}}};
static const gw_peer_id everybody[] = {{{1}}, {{2}}, {{9}}}, without_0[] = {{{2}}, {{9}}};

typedef struct fixture {
    rdma_rig rig;
    gw_words *words;
    gw_path_host host;
    gw_path path;
    gw_path_endpoint ends[GUESTS];
    gw_rdma_owner *owner;
    gw_rdma_guest guests[GUESTS]; /* guest 0 has a queue pair; guest 1 is only told */
    uint64_t *mine;               /* what guest 0's operations read and write */
    const gw_rdma_region *local;
} fixture;

static gw_rdma_words_message told[GUESTS]; /* last */

static void on_tell(gw_path_endpoint *end, const void *bytes, uint32_t count) {
    gw_rdma_message_body message;
    int guest = gw_peer_id_equal(&end->peer, &ids[1]);
    cr_assert_eq(gw_rdma_message_decode(bytes, count, &message), GW_RDMA_MESSAGE_WORDS);
    told[guest] = message.words;
}

static void move_fence(fixture *f, uint64_t epoch, const gw_peer_id *members, uint32_t count) {
    gw_err err;
    gw_fence fence = {.epoch = epoch, .view = {{(uint8_t)epoch}}};
    gw_rdma_owner_fence_begin(f->owner, members, count);
    cr_assert(gw_words_renew(f->words, &err), "%s", err.text);
    gw_rdma_owner_fence_end(f->owner, &fence);
}

static void open_fixture(fixture *f) {
    gw_err err;
    *f = (fixture){0};
    rdma_rig_open(&f->rig);
    f->words = gw_words_open(&err);
    cr_assert(f->words && gw_words_add(f->words, RANGE, 1, &err));
    f->host = (gw_path_host){.loop = f->rig.loop, .words = f->words, .tell = on_tell};
    f->path.host = &f->host;
    f->owner = gw_rdma_owner_open(&f->host, f->rig.memory, &err);
    cr_assert(f->owner, "%s", err.text);
    gw_words_set_domain(f->words, gw_rdma_owner_domain(f->owner));
    f->mine = aligned_alloc(4096, 4096);
    memset(f->mine, 0, 4096);
    f->local = gw_rdma_memory_take(f->rig.memory, f->mine, 4096, GW_RDMA_LOCAL, &err);
    for (int i = 0; i < GUESTS; i++) {
        f->ends[i] = (gw_path_endpoint){.path = &f->path, .peer = ids[i]};
        gw_rdma_guest_enter(&f->guests[i], f->owner, &f->ends[i]);
        gw_rdma_guest_stand(&f->guests[i]);
    }
    move_fence(f, 1, everybody, 3);
}

static void close_fixture(fixture *f) {
    rdma_rig_disconnect(&f->rig);
    for (int i = 0; i < GUESTS; i++) gw_rdma_guest_leave(&f->guests[i]);
    gw_rdma_memory_drop(f->rig.memory, f->local);
    gw_words_set_domain(f->words, NULL);
    gw_rdma_owner_close(f->owner);
    gw_words_close(f->words);
    rdma_rig_close(&f->rig);
    free(f->mine);
}

/* The guest dials. */
static void connect_guest(fixture *f) {
    static const gw_rdma_queue_options options = {.send_depth = 4};
    gw_err err;
    f->rig.queues[0] = gw_rdma_queue_open(f->rig.memory, &options, &err);
    f->rig.queues[1] = gw_rdma_guest_serve(&f->guests[0]);
    cr_assert(f->rig.queues[0] && f->rig.queues[1]);
    rdma_rig_connect_made(&f->rig);
    gw_rdma_guest_answered(&f->guests[0], f->rig.connections[1]);
    f->rig.connections[1] = NULL;
    f->rig.queues[1] = NULL;
}

static uint64_t held(const fixture *f) {
    uint64_t offset, bytes;
    cr_assert(gw_words_find(f->words, RANGE, &offset, &bytes));
    return gw_words_do(f->words, GW_WORD_LOAD, offset, 0, 0);
}

static gw_rdma_outcome ask(fixture *f, gw_rdma_verb verb, const gw_rdma_words_message *with,
                           uint64_t expected) {
    f->mine[0] = 99;
    gw_rdma_work work = {.verb = verb,
                         .local = (uint8_t *)f->mine,
                         .lkey = f->local->lkey,
                         .bytes = 8,
                         .remote = with->address + with->regions[0].offset,
                         .rkey = with->rkey,
                         .expected = expected,
                         .operand = 5};
    return rdma_rig_do(f->rig.queues[0], &work);
}

static const gw_rdma_verb verbs[] = {GW_RDMA_WRITE, GW_RDMA_CAS, GW_RDMA_FETCH_ADD, GW_RDMA_READ};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

/* A guest swaps 0 for 5 while it is a member, is expelled, and tries a verb with the key that it had, or with
 * the one that only the other member was told. */
static void try_expelled(gw_rdma_verb verb, bool new_key) {
    static fixture f;
    open_fixture(&f);
    connect_guest(&f);
    cr_assert_eq(ask(&f, GW_RDMA_CAS, &told[0], 0), GW_RDMA_DONE);
    cr_assert(f.mine[0] == 0 && held(&f) == 5);
    gw_rdma_words_message had = told[0];
    move_fence(&f, 2, without_0, 2);
    cr_assert_eq(told[0].address, 0, "it has been told that they are not for it");
    cr_assert(told[1].address != 0 && told[1].rkey != had.rkey);
    cr_assert_eq(ask(&f, verb, new_key ? &told[1] : &had, 5), GW_RDMA_REFUSED);
    cr_assert_eq(f.mine[0], 99, "nothing was read");
    cr_assert_eq(held(&f), 5);
    cr_assert_null(gw_rdma_guest_serve(&f.guests[0]), "nor may it dial");
    close_fixture(&f);
}

Test(rdma_owner, an_expelled_guest_does_nothing_with_its_old_key) {
    for (int i = 0; i < VERBS; i++) try_expelled(verbs[i], false);
}

Test(rdma_owner, an_expelled_guest_does_nothing_with_a_new_key_either) {
    for (int i = 0; i < VERBS; i++) try_expelled(verbs[i], true);
}

/* The fence moves while its queue pair is being connected. */
Test(rdma_owner, a_guest_that_is_expelled_while_it_dials_is_dismissed) {
    static fixture f;
    open_fixture(&f);
    cr_assert(gw_rdma_guest_serve(&f.guests[0]));
    move_fence(&f, 2, without_0, 2);
    gw_rdma_guest_answered(&f.guests[0], NULL);
    cr_assert_null(f.guests[0].queue);
    close_fixture(&f);
}

Test(rdma_owner, who_comes_back_is_told_and_may_dial) {
    static fixture f;
    open_fixture(&f);
    connect_guest(&f);
    move_fence(&f, 2, without_0, 2);
    move_fence(&f, 3, everybody, 3);
    cr_assert(told[0].address != 0 && told[0].fence.epoch == 3 && told[0].rkey == told[1].rkey);
    rdma_rig_disconnect(&f.rig);
    connect_guest(&f);
    cr_assert_eq(ask(&f, GW_RDMA_CAS, &told[0], 0), GW_RDMA_DONE);
    cr_assert_eq(held(&f), 5);
    close_fixture(&f);
}

Test(rdma_owner, keys_of_the_last_fences_are_not_used_again) {
    enum { FENCES = 40, LAST = 16 };
    static fixture f;
    uint32_t keys[FENCES];
    open_fixture(&f);
    for (uint32_t i = 0; i < FENCES; i++) {
        move_fence(&f, 2 + i, everybody, 3);
        keys[i] = told[0].rkey;
        for (uint32_t k = i > LAST ? i - LAST : 0; k < i; k++) cr_assert_neq(keys[k], keys[i]);
    }
    close_fixture(&f);
}
#endif
