/* Sums of which bits change between two members: what one sent is not what came to the other. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/faults/path_errors.h"
#include "core/brain/state.h" /* path_failures */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, MANY_STEPS = 400, MOST_EVENTS = 400000 };

static bool somebody_has_finished(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && f->peers[i].finished) return true;
    return false;
}

/* The first one, for some steps. */
static bool goes_on_alone(const flock *f) {
    return flock_in_view_of(f, 0, 1) && f->peers[0].step >= f->peers[1].step + 5;
}

/* In so many sums from step 5 on bits of what a peer, which does not lead, sends or receives change. */
static uint32_t run(flock *f, uint32_t peers, uint32_t changes, bool received) {
    flock_open(f, peers, peers, STEPS, GW_QUORUM_ANY);
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = (flock_leader(f) + 1) % peers;
    f->peers[faulty].changes = changes;
    f->peers[faulty].changes_received = received;
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
    return faulty;
}

/* How many of the others have told of a corruption of this peer. */
static uint32_t others_named(const flock *f, uint32_t faulty) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++)
        count += i != faulty && f->peers[i].corruptions > 0 &&
                 gw_peer_id_equal(&f->peers[i].corrupt, &f->peers[faulty].config.id);
    return count;
}

Test(peer_changes, one_bit_costs_another_sum_and_its_sender_is_named) {
    for (uint32_t peers = 2; peers <= 5; peers++) {
        flock f;
        uint32_t faulty = run(&f, peers, 1, false);
        flock_expect_done(&f, peers);
        cr_expect_eq(others_named(&f, faulty), 1, "%u peers", peers);
        cr_expect_eq(f.peers[faulty].corruptions, 0, "%u peers", peers);
        flock_close(&f);
    }
}

/* Each time between it and another neighbour: once it fetches its state anew. */
Test(peer_changes, who_changes_bits_twice_is_found_and_goes_on) {
    for (uint32_t peers = 3; peers <= 5; peers++) {
        for (int received = 0; received < 2; received++) {
            flock f;
            uint32_t faulty = run(&f, peers, 2, received);
            flock_expect_done(&f, peers);
            cr_expect_gt(f.peers[faulty].corruptions, 0, "%u peers, %d", peers, received);
            for (uint32_t i = 0; i < peers; i++)
                cr_expect_eq(f.peers[i].loads, i == faulty ? 2 : 1, "%u peers, %d: peer %u", peers, received,
                             i);
            flock_close(&f);
        }
    }
}

static bool two_have_named_the_leader(const flock *f) {
    return others_named(f, flock_leader(f)) == 2;
}

/* The member is not convicted again either if those that reported it do not hear of it and report it in a
 * view of their own. */
Test(peer_changes, who_changes_bits_twice_is_found_once) {
    flock f;
    flock_open(&f, 4, 4, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = flock_leader(&f);
    f.peers[faulty].changes = 2;
    cr_assert(flock_run(&f, two_have_named_the_leader, MOST_EVENTS));
    f.breaks =
        (flock_break){.kind = GW_MSG_INSTALL, .from = (int)faulty, .to = -1, .times = 3, .quiet = true};
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    cr_expect_eq(f.peers[faulty].brain->faults.times_wrong, 1);
    flock_close(&f);
}

static bool two_have_named_the_faulty(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (others_named(f, i) == 2) return true;
    return false;
}

static bool all_that_run_compute(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && f->peers[i].brain->phase != GW_AT_COMPUTING) return false;
    return true;
}

/* Before anybody has judged it dies, and those who have told of it need it for a majority. */
Test(peer_changes, what_an_earlier_life_changed_is_not_held_against_the_next_one) {
    flock f;
    flock_open(&f, 5, 5, STEPS, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = (flock_leader(&f) + 1) % 5;
    f.peers[faulty].changes = 2;
    cr_assert(flock_run(&f, two_have_named_the_faulty, MOST_EVENTS));
    for (uint32_t i = 0; i < 5; i++)
        if (i == faulty || f.peers[i].brain->faults.path_errors.count == 0) flock_kill(&f, i);
    flock_start(&f, faulty);
    cr_assert(flock_run(&f, all_that_run_compute, MOST_EVENTS));
    cr_expect_eq(f.peers[faulty].brain->faults.times_wrong, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

Test(peer_changes, a_machine_that_goes_on_changing_bits_has_to_leave) {
    for (uint32_t peers = 3; peers <= 5; peers++) {
        for (int received = 0; received < 2; received++) {
            flock f;
            uint32_t faulty = run(&f, peers, UINT32_MAX, received);
            cr_expect_eq(f.peers[faulty].finish, GW_FINISH_FAILED);
            cr_expect_not_null(strstr(f.peers[faulty].finish_text, "the machine is faulty"), "%s",
                               f.peers[faulty].finish_text);
            flock_kill(&f, faulty);
            flock_expect_done(&f, peers - 1);
            flock_close(&f);
        }
    }
}

/* It alone has had a sum, and its state comes with other bits to both of the others: they make the step
 * again, and it fetches what they come to. */
Test(peer_changes, a_state_that_nobody_can_fetch_from_its_only_holder_is_made_again) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = (flock_leader(&f) + 1) % 3;
    f.peers[faulty].changes_lent = true;
    f.sum_for = faulty + 1;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_expect_gt(f.peers[faulty].corruptions, 0);
    flock_close(&f);
}

/* One of two, and nobody can tell which: neither goes on alone. */
Test(peer_changes, two_that_are_all_stop_the_job) {
    flock f;
    run(&f, 2, UINT32_MAX, false);
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED);
        cr_expect_not_null(strstr(f.peers[i].finish_text, "nobody can tell in whose memory"), "%s",
                           f.peers[i].finish_text);
    }
    flock_close(&f);
}

/* It fetches nothing else, ends, and the other goes on as it did before. */
Test(peer_changes, a_newcomer_that_cannot_fetch_leaves_who_was_alone_alone) {
    for (uint32_t behind = 0; behind < 2; behind++) {
        flock f;
        flock_open(&f, 2, 1 + behind, MANY_STEPS, GW_QUORUM_ANY);
        for (uint32_t i = 0; i <= behind; i++) flock_start(&f, i);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        if (behind > 0) { /* with a state, but one that counts for nothing by now */
            flock_stop(&f, 1);
            cr_assert(flock_run(&f, goes_on_alone, MOST_EVENTS));
            flock_continue(&f, 1);
        } else {
            flock_start(&f, 1);
        }
        f.peers[1].changes_fetched = true;
        cr_assert(flock_run(&f, somebody_has_finished, MOST_EVENTS));
        cr_expect_eq(f.peers[1].finish, GW_FINISH_FAILED);
        cr_expect_not_null(strstr(f.peers[1].finish_text, "could not be fetched"), "%s",
                           f.peers[1].finish_text);
        flock_kill(&f, 1);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 1);
        flock_close(&f);
    }
}

static bool has_failed(const flock_peer *p) {
    return p->brain != NULL && p->finished && p->finish == GW_FINISH_FAILED;
}

static bool some_fail_or_all_finish(const flock *f) {
    bool some = false, all = true;
    for (uint32_t i = 0; i < f->count; i++) {
        some |= has_failed(&f->peers[i]);
        all &= f->peers[i].brain == NULL || f->peers[i].finished;
    }
    return some || all;
}

/* Only these, a bit each, leave before the end, or are left out: how many have left. */
static uint32_t run_without(flock *f, uint32_t faulty) {
    uint32_t left = 0, before = 1;
    while (before != left) {
        before = left;
        cr_assert(flock_run(f, some_fail_or_all_finish, 10 * MOST_EVENTS), "of %u, %x", f->count, faulty);
        for (uint32_t i = 0; i < f->count; i++) {
            if (!has_failed(&f->peers[i])) continue;
            cr_assert(faulty >> i & 1, "of %u, %x: %u: %s", f->count, faulty, i, f->peers[i].finish_text);
            left++;
            flock_kill(f, i);
        }
    }
    for (uint32_t i = 0; i < f->count; i++)
        if (faulty >> i & 1) flock_kill(f, i);
    flock_expect_done(f, f->count - (uint32_t)__builtin_popcount(faulty));
    return left;
}

/* Whoever it has to do with accuses it, and is accused by it. */
Test(peer_changes, a_machine_that_changes_what_it_sends_and_receives_has_to_leave) {
    for (uint32_t peers = 3; peers <= 9; peers++) {
        for (uint32_t faulty = 0; faulty < 2 * peers; faulty++) {
            flock f;
            flock_open(&f, peers, peers, MANY_STEPS, GW_QUORUM_ANY);
            flock_start_all(&f);
            cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
            f.small_sums = faulty >= peers;
            f.peers[faulty % peers].changes = UINT32_MAX;
            f.peers[faulty % peers].changes_both = true;
            cr_expect_eq(run_without(&f, 1u << faulty % peers), 1, "of %u: %u", peers, faulty);
            flock_close(&f);
        }
    }
}

/* What they send, receive, or either; also where they are opposite each other in the ring, so that their
 * neighbours are the same two. */
static void run_with_two(uint32_t peers, uint32_t one, uint32_t other, uint32_t kind) {
    const uint32_t faulty[2] = {one, other};
    flock f;
    flock_open(&f, peers, peers, MANY_STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.small_sums = kind >= 3;
    for (int k = 0; k < 2; k++) {
        f.peers[faulty[k]].changes = UINT32_MAX;
        f.peers[faulty[k]].changes_received = kind % 3 == 1;
        f.peers[faulty[k]].changes_both = kind % 3 == 2;
    }
    cr_expect_geq(run_without(&f, 1u << one | 1u << other), 1, "%u: of %u: %u, %u", kind, peers, one, other);
    flock_close(&f);
}

/* Where two that receive are accused by few others as each fails first, who is between them may be taken for
 * the one. */
Test(peer_changes, two_machines_that_change_bits_have_to_leave) {
    for (uint32_t kind = 0; kind < 6; kind++)
        for (uint32_t peers = kind == 4 ? 6 : 4; peers <= 7; peers++)
            for (uint32_t pair = 0; pair < peers * peers; pair++)
                if (pair / peers < pair % peers) run_with_two(peers, pair / peers, pair % peers, kind);
}

static bool sum_has_been_spoilt(const flock *f) {
    return f->sums_to_spoil == 0;
}

/* It says nothing of what was seen before. */
Test(peer_changes, a_sum_that_is_refused_acquits_nobody) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = (flock_leader(&f) + 1) % 3;
    f.peers[faulty].changes = f.sums_to_spoil = 1;
    cr_assert(flock_run(&f, sum_has_been_spoilt, MOST_EVENTS));
    f.peers[faulty].changes = 1;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_expect_eq(f.peers[faulty].loads, 2);
    flock_close(&f);
}

static bool the_others_go_on(const flock *f) {
    return flock_in_view_of(f, 1, 2) && flock_in_view_of(f, 2, 2);
}

Test(peer_changes, a_state_that_came_changed_is_fetched_from_another) {
    flock f;
    flock_open(&f, 3, 3, MANY_STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_kill(&f, 0); /* which has the lowest rank */
    cr_assert(flock_run(&f, the_others_go_on, MOST_EVENTS));
    uint32_t loads = f.peers[0].loads;
    f.peers[1].changes_lent = true;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_expect_eq(f.peers[0].loads, loads + 2, "%u", f.peers[0].loads - loads);
    flock_close(&f);
}

/* Nobody else could go on from there. */
Test(peer_changes, newcomers_that_cannot_fetch_leave_the_only_holder_its_state) {
    flock f;
    flock_open(&f, 3, 1, MANY_STEPS, GW_QUORUM_ANY);
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[1].changes_fetched = f.peers[2].changes_fetched = true;
    for (uint32_t i = 1; i < 3; i++) flock_start(&f, i);
    run_without(&f, 1u << 1 | 1u << 2);
    cr_expect_eq(f.peers[0].loads, 1);
    flock_close(&f);
}

static bool saved_later(const flock *f) {
    return f->peers[0].checkpoints > f->peers[2].checkpoints + 3;
}

static bool the_last_is_found(const flock *f) {
    return f->peers[2].corruptions > 0 && gw_peer_id_equal(&f->peers[2].corrupt, &f->peers[2].config.id);
}

/* It had no state that could be wrong. */
Test(peer_changes, who_is_found_as_it_fetches_its_first_state_keeps_its_checkpoints) {
    flock f;
    flock_open(&f, 3, 3, MANY_STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 5;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    flock_kill(&f, 2);
    cr_assert(flock_run(&f, saved_later, MOST_EVENTS));
    f.peers[2].changes_fetched = true;
    flock_start(&f, 2);
    uint32_t saved = f.peers[2].brain->inventory.count;
    cr_assert_gt(saved, 0);
    cr_assert(flock_run(&f, the_last_is_found, MOST_EVENTS));
    cr_expect_eq(f.peers[2].brain->inventory.count, saved);
    cr_expect_eq(f.peers[2].brain->save.given_up.count, 0);
    f.peers[2].changes_fetched = false;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* ---- who is judged ---- */

enum { MEMBERS = 3, JUDGES = 9 }; /* in a view of this epoch */

typedef struct told { /* 1 tells of what 0 sent in view 5, 2 in view 6, as in its life 1 */
    uint64_t boot;    /* which one it is in */
    uint64_t heard[MEMBERS];
    int judged;
} told;

static int judge(const told *t) {
    gw_peer *p = calloc(1, sizeof *p);
    gw_install *i = calloc(1, sizeof *i);
    cr_assert(p != NULL && i != NULL);
    gw_attempt *a = &p->view.attempt;
    a->view.count = MEMBERS;
    a->view.epoch = JUDGES;
    for (uint32_t k = 0; k < MEMBERS; k++) {
        a->view.members[k] = (gw_member){.id = {{(uint8_t)(k + 1)}}, .boot = k == 0 ? t->boot : 1};
        a->reports[k] = calloc(1, sizeof *a->reports[k]);
        cr_assert_not_null(a->reports[k]);
        a->reports[k]->has_state = true;
        a->reports[k]->heard_epoch = t->heard[k];
        if (k == 0) continue;
        a->reports[k]->path_errors =
            (gw_path_errors){.count = 1, .from = {a->view.members[0].id}, .epoch = {4 + k}, .boot = {1}};
    }
    int judged = gw_path_errors_judge(p, i);
    cr_expect(judged < 0 || i->convictions.list[0].boot == t->boot);
    for (uint32_t k = 0; k < MEMBERS; k++) gw_report_free(a->reports[k]);
    gw_install_free(i);
    free(p);
    return judged;
}

Test(peer_changes, what_was_seen_counts_until_one_of_the_two_has_heard_or_the_sender_has_died) {
    const told all[] = {{1, {0, 0, 0}, 0}, {1, {4, 4, 4}, 0},  {1, {5, 0, 0}, -1}, {1, {0, 5, 0}, -1},
                        {1, {0, 0, 5}, 0}, {1, {0, 0, 6}, -1}, {2, {0, 0, 0}, -1}, {1, {JUDGES, 0, 0}, 0}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        cr_expect_eq(judge(&all[k]), all[k].judged, "%zu", k);
}

/* Who has told of it may not have been in the view that found who it was. */
Test(peer_changes, what_was_seen_before_somebody_was_found_is_forgotten) {
    for (uint64_t found = 4; found <= 6; found++) {
        gw_peer *p = calloc(1, sizeof *p);
        gw_install *i = calloc(1, sizeof *i);
        cr_assert(p != NULL && i != NULL);
        p->faults.path_errors = (gw_path_errors){.count = 1, .from = {{{1}}}, .epoch = {5}, .boot = {1}};
        i->view.epoch = JUDGES;
        i->convictions = (gw_convictions){.count = 1, .list = {{.id = {{1}}, .epoch = found}}};
        gw_path_errors_view_begins(p, i);
        cr_expect_eq(p->faults.path_errors.count, found < 5);
        gw_install_free(i);
        free(p);
    }
}
