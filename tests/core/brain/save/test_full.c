/* What a full disk gives up, where those who knew which checkpoint was complete are dead, or others have gone
 * on without it. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/outbox.h"
#include "core/brain/state.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1000000, LONG = 4000 };

#define SECOND UINT64_C(1000000000)

/* Opens a flock with slow steps and disks of little room. With quorum majority, sums are float. */
static void open_small(flock *f, uint32_t count, uint32_t founders, gw_quorum quorum, uint32_t keep,
                       uint32_t replicas) {
    flock_open(f, count, founders, LONG, quorum);
    f->checkpoint_steps = 4;
    for (uint32_t i = 0; i < count; i++) {
        f->peers[i].config.fast = quorum == GW_QUORUM_MAJORITY;
        f->peers[i].config.keep = keep;
        f->peers[i].config.replicas = replicas;
        f->peers[i].seal_ns = 10 * SECOND;
        f->peers[i].store.room = FLOCK_FILES;
    }
}

/* Float sums, three, which keep one checkpoint: the second one is recorded by all and called complete by the
 * leader, who dies with the news. The two who are left have all of the first and all of the second, and none
 * has all by itself. */
static void leader_dies_with_the_news(flock *f, uint32_t *a, uint32_t *b, gw_hash *first, gw_hash *second) {
    open_small(f, 3, 3, GW_QUORUM_MAJORITY, 1, 2);
    for (uint32_t i = 0; i < 3; i++) f->peers[i].config.id.bytes[5] = 3; /* so that chunks are placed so */
    flock_start_all(f);
    cr_assert(flock_run(f, flock_all_have_a_checkpoint, MOST_EVENTS));
    uint32_t leader = flock_leader(f);
    *a = (leader + 1) % 3;
    *b = (leader + 2) % 3;
    *first = f->peers[*a].saved_root;
    f->breaks =
        (flock_break){.kind = GW_MSG_COMPLETE, .from = (int)leader, .to = -1, .times = 2, .quiet = true};
    while (f->breaks.times > 0) cr_assert(!flock_run(f, NULL, 1));
    *second = f->peers[*a].saved_root;
    cr_assert_eq(f->peers[leader].checkpoints, 2);
    flock_kill(f, leader);
}

static void await_view_of_two(flock *f, uint32_t a, uint32_t b) {
    while (flock_status(f, a).view->count != 2 || flock_status(f, b).view->count != 2)
        cr_assert(!flock_run(f, NULL, 1));
}

static uint32_t both_have(const flock *f, uint32_t a, uint32_t b, const gw_hash *root) {
    return flock_chunks_of(&f->peers[a], root) | flock_chunks_of(&f->peers[b], root);
}

/* The next sum reaches `b` alone, and `a` fetches the state from it. */
static void fetch_once(flock *f, uint32_t a, uint32_t b) {
    f->sum_for = b + 1;
    uint32_t loads = f->peers[a].loads;
    while (f->peers[a].loads == loads) cr_assert(!flock_run(f, NULL, 1));
}

static void await_room_made(flock *f, uint32_t a, uint32_t b) {
    flock_await_room_made(f, a);
    flock_await_room_made(f, b);
}

static void expect_one_whole(const flock *f, uint32_t a, uint32_t b, const gw_hash *first,
                             const gw_hash *second) {
    uint32_t left = both_have(f, a, b, first), right = both_have(f, a, b, second);
    cr_expect(left == 7 || right == 7, "of the first there are %x, of the second %x", left, right);
}

/* Both disks are full. */
Test(peer_full, with_float_sums_who_fetched_keeps_the_same_one_as_the_others) {
    for (int fetches = 0; fetches < 2; fetches++) {
        flock f;
        uint32_t a, b;
        gw_hash first, second;
        leader_dies_with_the_news(&f, &a, &b, &first, &second);
        await_view_of_two(&f, a, b);
        cr_assert_eq(both_have(&f, a, b, &second), 7);
        f.peers[a].disk_full = f.peers[b].disk_full = true;
        flock_run_for(&f, SECOND);
        if (fetches) fetch_once(&f, a, b);
        await_room_made(&f, a, b);
        expect_one_whole(&f, a, b, &first, &second);
        flock_close(&f);
    }
}

/* One of the two does not hear that the next view is installed. In the one after it it has the same state as
 * the other. */
Test(peer_full, with_float_sums_who_missed_a_view_keeps_the_same_one_as_the_others) {
    flock f;
    uint32_t a, b;
    gw_hash first, second;
    leader_dies_with_the_news(&f, &a, &b, &first, &second);
    f.breaks = (flock_break){.kind = GW_MSG_INSTALL, .from = -1, .to = -1, .times = 1, .quiet = true};
    await_view_of_two(&f, a, b);
    cr_assert_eq(f.breaks.times, 0);
    f.peers[a].disk_full = f.peers[b].disk_full = true;
    await_room_made(&f, a, b);
    expect_one_whole(&f, a, b, &first, &second);
    flock_close(&f);
}

static void fill_disk(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    p->store.room = p->store.count;
}

static bool all_four_are_in(const flock *f) {
    for (uint32_t i = 0; i < 4; i++)
        if (flock_view(f, i) == NULL || flock_status(f, i).view->count != 4) return false;
    return true;
}

/* Exact sums. Two have a complete checkpoint, each all of it; two join; the next is recorded, and its leader
 * dies before it knows that it is complete. The three who are left find it whole. Two of them die, and
 * with them chunks of it: the last one's view finds it whole no longer. */
Test(peer_full, what_is_whole_no_longer_does_not_push_out_what_is_known_to_be) {
    flock f;
    open_small(&f, 4, 2, GW_QUORUM_ANY, 1, 2);
    flock_start(&f, 0);
    flock_start(&f, 1);
    while (f.peers[0].checkpoints == 0 || f.peers[1].checkpoints == 0) cr_assert(!flock_run(&f, NULL, 1));
    const gw_hash first = f.peers[0].saved_root;
    flock_start(&f, 2);
    flock_start(&f, 3);
    cr_assert(flock_run(&f, all_four_are_in, MOST_EVENTS));
    uint32_t leader = flock_leader(&f);
    cr_assert_lt(leader, 2);
    uint32_t last = 1 - leader;
    flock_peer *p = &f.peers[last];
    f.breaks =
        (flock_break){.kind = GW_MSG_RECORDED, .from = 2, .to = (int)leader, .times = 1, .quiet = true};
    while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 1));
    flock_run_for(&f, SECOND / 100);
    cr_assert_eq(f.peers[leader].checkpoints, 1, "nobody was told that the second is complete");
    const gw_hash second = p->saved_root;
    flock_kill(&f, leader);
    while (flock_status(&f, last).view->count != 3) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_eq(p->brain->save.found.step, 8);
    flock_kill(&f, 2);
    flock_kill(&f, 3);
    while (flock_status(&f, last).view->count != 1) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_neq(flock_chunks_of(p, &second), 7, "it is not whole here");
    cr_assert_eq(flock_chunks_of(p, &first), 7, "and the first is");
    cr_assert_eq(flock_status(&f, last).checkpoint_step, 4);
    fill_disk(&f, last);
    flock_await_room_made(&f, last);
    cr_expect_eq(
        flock_chunks_of(p, &first), 7,
        "the only acknowledged one had all its chunks here, and is left with %x; of the other there are %x",
        flock_chunks_of(p, &first), flock_chunks_of(p, &second));
    flock_close(&f);
}

/* Exact sums, two checkpoints kept. The first is complete. The second was found whole, and of a third nobody
 * knows that it is. */
Test(peer_full, of_two_that_are_kept_one_is_what_was_acknowledged) {
    flock f;
    open_small(&f, 4, 4, GW_QUORUM_ANY, 2, 3);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), next, odd = (leader + 2) % 4, last = (leader + 3) % 4;
    flock_peer *p = &f.peers[last];
    const gw_hash first = p->saved_root;
    f.breaks = (flock_break){
        .kind = GW_MSG_RECORDED, .from = (int)odd, .to = (int)leader, .times = 1, .quiet = true};
    while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 1));
    flock_run_for(&f, SECOND / 100);
    cr_assert_eq(p->saved_step, 8);
    flock_kill(&f, leader);
    while (flock_status(&f, last).view->count != 3) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_eq(p->brain->save.found.step, 8);
    next = flock_leader(&f);
    if (next == last) last = odd, p = &f.peers[last];
    f.breaks =
        (flock_break){.kind = GW_MSG_RECORDED, .from = (int)last, .to = (int)next, .times = 1, .quiet = true};
    while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 1));
    flock_run_for(&f, SECOND / 100);
    cr_assert_eq(p->saved_step, 9);
    cr_assert_eq(p->store.manifest_count, 3);
    uint32_t before = flock_chunks_of(p, &first);
    cr_assert_gt(before, 0);
    for (uint32_t i = 0; i < 4; i++) f.peers[i].disk_full = true;
    flock_await_room_made(&f, last);
    cr_assert_eq(flock_status(&f, last).checkpoint_step, 4, "it is all that is known to be complete");
    cr_expect_eq(flock_chunks_of(p, &first), before, "it keeps %d, and of the acknowledged one %x",
                 (int)p->retained, flock_chunks_of(p, &first));
    flock_close(&f);
}

/* Float sums, two checkpoints kept, by a peer that goes on from the second one in its next life. Should that
 * one turn out to be damaged there is the first. */
Test(peer_full, with_float_sums_a_next_life_keeps_what_it_does_not_know_to_be_behind_its_state) {
    flock f;
    open_small(&f, 1, 1, GW_QUORUM_MAJORITY, 2, 1);
    flock_peer *p = &f.peers[0];
    gw_hash roots[2];
    flock_start(&f, 0);
    for (uint32_t k = 0; k < 2; k++) {
        while (p->checkpoints <= k) cr_assert(!flock_run(&f, NULL, 1));
        roots[k] = p->saved_root;
    }
    const uint64_t step = p->saved_step;
    flock_kill(&f, 0);
    gw_inventory found[2] = {{.step = step, .root = roots[1], .epoch = p->saved_epoch},
                             {.step = step - 4, .root = roots[0], .epoch = p->saved_epoch}};
    for (uint32_t k = 0; k < 2; k++) {
        found[k].chunks = gw_set_of(FLOCK_CHUNKS);
        gw_set_fill(&found[k].chunks);
    }
    p->found = found;
    p->found_count = 2;
    p->disk_full = true;
    flock_start(&f, 0);
    flock_await_room_made(&f, 0);
    cr_assert_eq(flock_status(&f, 0).checkpoint_step, step);
    for (uint32_t k = 0; k < 2; k++) {
        cr_expect_eq(flock_chunks_of(p, &roots[k]), 7, "of the checkpoint %u there are %x", k,
                     flock_chunks_of(p, &roots[k]));
        gw_set_free(&found[k].chunks);
    }
    flock_close(&f);
}

static bool three_go_on(const flock *f) {
    for (uint32_t i = 2; i < 5; i++)
        if (flock_view(f, i) == NULL || flock_status(f, i).step < 10) return false;
    return true;
}

/* Float sums, five. The second has not heard that the second checkpoint is complete, and has recorded a
 * third, which nobody else has but the leader. The leader dies, the second is cut off, and the others are
 * started again: they go on from the second checkpoint. Then the second is back, and its disk is full. */
Test(peer_full, with_float_sums_a_record_that_was_given_up_does_not_hide_what_is_whole) {
    for (int later = 0; later < 2; later++) {
        flock f;
        open_small(&f, 5, 5, GW_QUORUM_MAJORITY, 1, 5);
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
        cr_assert_eq(flock_leader(&f), 0);
        flock_peer *p = &f.peers[1];
        f.breaks = (flock_break){.kind = GW_MSG_COMPLETE, .from = 0, .to = 1, .times = 1, .quiet = true};
        while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 1));
        const gw_hash second = p->saved_root;
        flock_run_for(&f, SECOND);
        for (uint32_t i = 2; i < 5; i++) {
            cr_assert_eq(f.peers[i].saved_step, 8);
            cr_assert_eq(f.peers[i].checkpoints, 2);
        }
        cr_assert_eq(flock_status(&f, 1).checkpoint_step, 4);
        if (later) {
            f.breaks = (flock_break){.kind = GW_MSG_MANIFEST, .from = 0, .to = -1, .times = 4, .quiet = true};
            while (f.breaks.times == 4) { /* the first to be sent to, rank 1, gets it */
                cr_assert(!flock_run(&f, NULL, 1));
                if (f.breaks.times == 0) break;
            }
            cr_assert_eq(f.breaks.times, 0);
            /* What the list would have had it write. */
            gw_save *s = &p->brain->save.open;
            cr_assert(s->active && s->step == 12);
            flock_peer *l = &f.peers[0];
            cr_assert_eq(l->saved_step, 12);
            gw_message list = gw_peer_about_view(l->brain, GW_MSG_MANIFEST);
            list.job = l->brain->job;
            list.manifest.step = 12;
            list.manifest.fingerprint = l->brain->save.open.fingerprint;
            list.manifest.hashes = l->brain->save.open.hashes;
            list.manifest.count = l->brain->save.open.known.size;
            uint8_t *bytes;
            size_t length = gw_message_encode(&list, &bytes);
            flock_tell(&f, 1,
                       (gw_event){.kind = GW_EV_MESSAGE,
                                  .peer = l->config.id,
                                  .message.bytes = bytes,
                                  .message.length = length});
            free(bytes);
            flock_run_for(&f, SECOND / 1000);
            cr_assert_eq(p->saved_step, 12);
        }
        flock_kill(&f, 0);
        for (uint32_t i = 2; i < 5; i++) flock_cut(&f, 1, i, true);
        for (uint32_t i = 2; i < 5; i++) flock_kill(&f, i);
        for (uint32_t i = 2; i < 5; i++) cr_assert_eq(f.peers[i].saved_step, 8);
        f.peers[2].config.seed_count = 0;
        for (uint32_t i = 3; i < 5; i++) f.peers[i].config.seeds[0] = f.peers[2].config.addrs[0];
        for (uint32_t i = 2; i < 5; i++) flock_start(&f, i);
        cr_assert(flock_run(&f, three_go_on, MOST_EVENTS));
        p->shown_step = 0; /* the others have waited for who holds what was shown, and made it again */
        for (uint32_t i = 2; i < 5; i++) flock_mend(&f, 1, i);
        while (flock_status(&f, 1).view == NULL || flock_status(&f, 1).view->count != 4 ||
               strcmp(flock_status(&f, 1).phase, "computing") != 0)
            cr_assert(!flock_run(&f, NULL, 1));
        for (uint32_t i = 1; i < 5; i++) f.peers[i].disk_full = true;
        uint32_t before = flock_chunks_of(p, &second);
        flock_await_room_made(&f, 1);
        cr_assert_eq(flock_status(&f, 2).checkpoint_step, 8);
        cr_expect_eq(flock_status(&f, 1).checkpoint_step, 8, "later %d: it knows %d", later,
                     (int)flock_status(&f, 1).checkpoint_step);
        cr_expect_eq(flock_chunks_of(p, &second), before,
                     "later %d: of what all go on from it had %x, and has %x", later, before,
                     flock_chunks_of(p, &second));
        flock_close(&f);
    }
}

/* Float sums, three, which keep one checkpoint: the first is complete, the second was recorded only. A sum
 * reaches one alone; it dies while the others fetch, who go on from the state that they have: that the first
 * checkpoint is behind. Both disks have room for another one if the second goes. */
Test(peer_full, with_float_sums_a_fetch_that_fails_does_not_fill_disks_for_ever) {
    for (int fetches = 0; fetches < 2; fetches++) {
        flock f;
        open_small(&f, 3, 3, GW_QUORUM_MAJORITY, 1, 2);
        for (uint32_t i = 0; i < 3; i++) f.peers[i].config.id.bytes[5] = 3;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
        uint32_t leader = flock_leader(&f), a = (leader + 1) % 3, b = (leader + 2) % 3;
        f.breaks = (flock_break){
            .kind = GW_MSG_RECORDED, .from = (int)b, .to = (int)leader, .times = 1, .quiet = true};
        while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 1));
        flock_run_for(&f, SECOND);
        cr_assert(f.peers[a].saved_step == 8 && f.peers[b].saved_step == 8);
        cr_assert(f.peers[a].checkpoints == 1 && f.peers[b].checkpoints == 1);
        if (fetches) {
            f.peers[a].load_ns = f.peers[b].load_ns = 5 * SECOND;
            f.peers[a].loads_to_fail = f.peers[b].loads_to_fail = 1; /* as the donor dies meanwhile */
            f.sum_for = leader + 1;
            f.peers[a].loads = f.peers[b].loads = 0;
            while (f.peers[a].loads == 0 || f.peers[b].loads == 0) cr_assert(!flock_run(&f, NULL, 1));
        }
        flock_kill(&f, leader);
        await_view_of_two(&f, a, b);
        while (strcmp(flock_status(&f, a).phase, "computing") != 0) cr_assert(!flock_run(&f, NULL, 1));
        for (uint32_t i = 0; i < 3; i++) f.peers[i].store.room = f.peers[i].store.count + 1;
        uint32_t before = f.peers[a].checkpoints;
        flock_run_for(&f, 900 * SECOND);
        cr_expect_gt(f.peers[a].checkpoints, before,
                     "fetches %d: a quarter of an hour later, at step %d, nothing is saved; known %d, of %d "
                     "chunks room %d",
                     fetches, (int)flock_status(&f, a).step, (int)f.peers[a].brain->save.saved_behind,
                     (int)f.peers[a].store.count, (int)f.peers[a].store.room);
        flock_close(&f);
    }
}

/* Float sums, five. The leader dies with the news of the second checkpoint; a sum reached one alone, from
 * which the others fetch, and which dies then. They have come from where it had come from. */
Test(peer_full, with_float_sums_who_fetched_finds_whole_what_the_other_had_come_from) {
    flock f;
    open_small(&f, 5, 5, GW_QUORUM_MAJORITY, 1, 4);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    const uint32_t leader = flock_leader(&f), one = (leader + 1) % 5, last = (leader + 2) % 5;
    f.breaks =
        (flock_break){.kind = GW_MSG_COMPLETE, .from = (int)leader, .to = -1, .times = 4, .quiet = true};
    while (f.breaks.times > 0) cr_assert(!flock_run(&f, NULL, 1));
    const gw_hash second = f.peers[last].saved_root;
    f.sum_for = one + 1;
    uint64_t step = flock_status(&f, one).step;
    while (flock_status(&f, one).step == step) cr_assert(!flock_run(&f, NULL, 1));
    f.peers[last].loads = 0;
    flock_kill(&f, leader);
    while (f.peers[last].loads == 0 || f.peers[last].brain->view.load_token != 0)
        cr_assert(!flock_run(&f, NULL, 1));
    flock_kill(&f, one);
    while (flock_status(&f, last).view->count != 3) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_eq(flock_status(&f, last).checkpoint_step, 4);
    uint32_t before = flock_chunks_of(&f.peers[last], &second);
    cr_assert_gt(before, 0);
    for (uint32_t i = 0; i < 5; i++) f.peers[i].disk_full = true;
    flock_await_room_made(&f, last);
    cr_expect_eq(flock_chunks_of(&f.peers[last], &second), before);
    flock_close(&f);
}

/* It is no reason to wait for anything, and shows all the same. */
Test(peer_full, who_asks_is_told_that_a_disk_cannot_be_written) {
    flock f;
    flock_open(&f, 2, 2, LONG, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 2; i++) f.peers[i].seal_ns = SECOND;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    cr_assert(flock_status(&f, 0).disk_writable && flock_status(&f, 1).disk_writable);
    f.peers[1].disk_full = true;
    flock_run_for(&f, 30 * SECOND);
    cr_expect(flock_status(&f, 0).disk_writable);
    cr_expect(!flock_status(&f, 1).disk_writable && !flock_status(&f, 1).waits);
    f.peers[1].disk_full = false;
    flock_run_for(&f, 120 * SECOND);
    cr_expect(flock_status(&f, 1).disk_writable);
    flock_close(&f);
}
