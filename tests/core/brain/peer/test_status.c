/* What a peer shows to people. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 10000 };
#define SECOND_NS UINT64_C(1000000000)

static bool waits_for_two(const flock *f) {
    return strstr(flock_status(f, 0).waits_for, "1 here") != NULL;
}

static bool waits_for_one(const flock *f) {
    return strstr(flock_status(f, 0).waits_for, "2 here") != NULL;
}

static bool misses_its_seed(const flock *f) {
    return flock_said(f, 1, "no seed answers yet") > 0;
}

static bool has_begun(const flock *f) {
    return flock_in_view_of(f, 0, 3);
}

static bool is_ending(const flock *f) {
    return flock_status(f, 0).ends;
}

/* Notices of what a peer waits for come every two seconds at most. What it shows is never older than the
 * last of its decisions. */
Test(peer_status, what_a_peer_waits_for_is_shown_as_it_is_now) {
    flock f;
    flock_open(&f, 3, 3, 5, GW_QUORUM_ANY);
    flock_start(&f, 0);
    cr_assert(flock_run(&f, waits_for_two, MOST_EVENTS));
    uint64_t told_ns = f.now;
    cr_expect_eq(flock_said(&f, 0, "1 here"), 1);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, waits_for_one, MOST_EVENTS));
    cr_expect_lt(f.now - told_ns, SECOND_NS, "it shows who has come at once");
    cr_expect_eq(flock_said(&f, 0, "2 here"), 0, "and gives no more notices than before");
    flock_start(&f, 2);
    cr_assert(flock_run(&f, has_begun, MOST_EVENTS));
    cr_expect_str_eq(flock_status(&f, 0).waits_for, "", "in a view it waits for nobody");
    cr_expect_not(is_ending(&f));
    flock_tell(&f, 0, (gw_event){.kind = GW_EV_LEAVE});
    cr_expect(flock_run(&f, is_ending, MOST_EVENTS), "a peer that was asked to leave shows that it ends");
    flock_close(&f);
}

/* Seeds that answer within a second are the rule. */
Test(peer_status, that_no_seed_answers_is_said_after_a_second) {
    flock f;
    flock_open(&f, 2, 2, 5, GW_QUORUM_ANY);
    flock_start(&f, 1);
    uint64_t started_ns = f.now;
    cr_assert(flock_run(&f, misses_its_seed, MOST_EVENTS));
    cr_expect_geq(f.now - started_ns, SECOND_NS);
    cr_expect_lt(f.now - started_ns, 3 * SECOND_NS);
    flock_close(&f);
}

static gw_peer_contact_info known(const flock *f, uint32_t of, uint32_t by) {
    gw_peer_contact_info info = {0};
    cr_assert(gw_peer_contact_find(f->peers[by].brain, &f->peers[of].config.id, &info));
    return info;
}

static bool one_knows_that_zero_saved(const flock *f) {
    return f->peers[1].checkpoints >= 2 && known(f, 0, 1).checkpoint_step != UINT64_MAX;
}

static bool one_is_alone(const flock *f) {
    return flock_in_view_of(f, 1, 1) && flock_said(f, 1, "no peer that is here has all") > 0;
}

static bool third_is_in(const flock *f) {
    return flock_in_view_of(f, 2, 3);
}

/* The disk of one of them is full from the beginning: the other has all of each checkpoint. A third that
 * joins has nothing of them, and knows of them. */
Test(peer_status, a_checkpoint_is_there_only_while_its_holders_are) {
    flock f;
    flock_open(&f, 3, 2, 4000, GW_QUORUM_ANY);
    f.checkpoint_steps = 50;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = SECOND_NS / 10;
    f.peers[1].disk_full = f.peers[2].disk_full = true;
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, one_knows_that_zero_saved, 100 * MOST_EVENTS));
    uint64_t step = flock_status(&f, 1).whole_step;
    const gw_hash root = flock_status(&f, 1).checkpoint_root;
    cr_expect_eq(step, f.peers[0].saved_step);
    cr_expect_leq(known(&f, 0, 1).checkpoint_step, step, "gossip comes later");
    cr_expect_eq(known(&f, 1, 1).checkpoint_step, UINT64_MAX, "its own disk has nothing of it");
    cr_expect_eq(known(&f, 1, 0).checkpoint_step, UINT64_MAX, "and the other knows");
    cr_expect_not(gw_peer_checkpoint_is_away(f.peers[1].brain, &root));
    flock_start(&f, 2);
    cr_assert(flock_run(&f, third_is_in, 100 * MOST_EVENTS));
    cr_expect_eq(flock_status(&f, 2).whole_step, flock_status(&f, 0).whole_step, "the newcomer was told");
    flock_kill(&f, 2);
    flock_kill(&f, 0);
    cr_assert(flock_run(&f, one_is_alone, 100 * MOST_EVENTS));
    cr_expect_eq(flock_status(&f, 1).whole_step, UINT64_MAX);
    cr_expect_neq(flock_status(&f, 1).checkpoint_step, UINT64_MAX);
    const gw_hash newest = flock_status(&f, 1).checkpoint_root;
    cr_expect(gw_peer_checkpoint_is_away(f.peers[1].brain, &newest));
    flock_start(&f, 0);
    while (flock_status(&f, 1).whole_step == UINT64_MAX) cr_assert(!flock_run(&f, NULL, 10));
    flock_close(&f);
}
