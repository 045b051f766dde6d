/* Where a majority rules: those who are one go on, whatever the others have promised, or live in. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* votes */
#include "core/record/ballot.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1000000, STEPS = 400 };

#define SECOND UINT64_C(1000000000)

/* Steps take long enough for newcomers to come while the job runs. */
static void open_flock(flock *f, uint32_t count, uint32_t founders) {
    flock_open(f, count, founders, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < count; i++) f->peers[i].seal_ns = 20000000;
    for (uint32_t i = 0; i < founders; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

static void expect_end(flock *f, uint32_t least) {
    cr_assert(flock_run(f, NULL, MOST_EVENTS), "at %.1f s", (double)f->now * 1e-9);
    flock_expect_done(f, least);
    flock_close(f);
}

static bool lives_with(const flock *f, uint32_t i, uint32_t members) {
    if (f->peers[i].brain == NULL) return false;
    gw_peer_status status = flock_status(f, i);
    return status.view != NULL && status.view->count == members && status.has_state;
}

static void add_seed(flock *f, uint32_t i, uint32_t seed) {
    gw_peer_config *c = &f->peers[i].config;
    c->seeds[c->seed_count++] = f->peers[seed].config.addrs[0];
}

/* A view of these peers and of so many strangers, one of which leads. */
static gw_view view_of_some(const flock *f, uint32_t first, uint32_t end, uint32_t strangers) {
    gw_view view = {.epoch = 40, .job = f->peers[0].brain->job};
    for (uint32_t i = first; i < end; i++)
        view.members[view.count++] = (gw_member){.id = f->peers[i].config.id, .boot = 1};
    for (uint32_t k = 0; k < strangers; k++)
        view.members[view.count++] = (gw_member){.id = {{0xFF, (uint8_t)k}}, .boot = 1};
    view.leader = view.members[end - first].id;
    gw_view_seal(&view);
    return view;
}

static gw_view view_with_strangers(const flock *f, uint32_t i, uint32_t strangers) {
    return view_of_some(f, i, i + 1, strangers);
}

/* Peer i has been somewhere else before: its record is that of a vote for this view, or of having been in it.
 * What follows the ballot there is as on the first peer's. */
static void give_record(flock *f, uint32_t i, const gw_view *view, bool installed) {
    gw_ballot first, own;
    const flock_peer *like = &f->peers[0];
    flock_peer *p = &f->peers[i];
    size_t bytes = flock_open_record(like, &first);
    p->record = malloc(like->record_length);
    cr_assert(p->record != NULL);
    memcpy(p->record, like->record, like->record_length);
    p->record_length = like->record_length;
    gw_ballot_open(&own, true);
    if (installed)
        gw_ballot_install(&own, view);
    else
        gw_ballot_vote(&own, view, view->epoch - 1);
    flock_close_record(p, &own, bytes);
    gw_ballot_close(&first);
}

/* It votes for a view of strangers, of which nobody else hears. */
static void promise_elsewhere(flock *f, uint32_t i) {
    const gw_view view = view_with_strangers(f, i, 2);
    gw_ballot_vote(&f->peers[i].brain->view.ballot, &view, view.epoch - 1);
}

/* ---- a promise of one ---- */

static bool all_have_links(const flock *f) {
    for (uint32_t a = 0; a < f->count; a++)
        for (uint32_t b = 0; b < f->count; b++)
            if (a != b && !f->peers[a].linked[b]) return false;
    return true;
}

static bool fifth_is_frozen(const flock *f) {
    return strcmp(flock_status(f, 4).phase, "changing the view") == 0;
}

/* Only the last of five peers has heard of a proposal with four newcomers, and has voted for it. The proposer
 * and the newcomers fall silent for good. */
Test(peer_majority, the_promise_of_one_does_not_hold_up_those_who_can_do_without_it) {
    flock f;
    open_flock(&f, 9, 5);
    f.breaks = (flock_break){.kind = GW_MSG_JOIN, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    for (uint32_t i = 5; i < 9; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, all_have_links, MOST_EVENTS));
    for (uint32_t i = 0; i < 5; i++) f.peers[i].seal_ns = 800000000; /* so that all ask within one step */
    flock_run_for(&f, SECOND);
    f.breaks = (flock_break){
        .kind = GW_MSG_PROPOSE, .from = 0, .to = -1, .times = 3, .quiet = true, .later_ns = 2 * SECOND};
    cr_assert(flock_run(&f, fifth_is_frozen, MOST_EVENTS));
    cr_assert_eq(f.peers[4].brain->view.voted.count, 9);
    for (uint32_t i = 1; i < 4; i++) cr_assert_neq(f.peers[i].brain->view.voted.count, 9);
    flock_kill(&f, 0);
    for (uint32_t i = 5; i < 9; i++) flock_kill(&f, i);
    for (uint32_t i = 1; i < 5; i++) f.peers[i].seal_ns = 20000000;
    expect_end(&f, 4);
}

/* A flock of one, to which somebody comes who has voted for strangers, or lived with them: it is admitted. */
static void come_from_elsewhere(bool installed) {
    flock f;
    open_flock(&f, 2, 1);
    const gw_view view = view_with_strangers(&f, 1, 2);
    give_record(&f, 1, &view, installed);
    flock_start(&f, 1);
    expect_end(&f, 2);
}

Test(peer_majority, a_newcomer_with_a_promise_does_not_hold_up_a_flock) {
    come_from_elsewhere(false);
}

Test(peer_majority, a_newcomer_with_a_view_that_leads_nowhere_does_not_hold_up_a_flock) {
    come_from_elsewhere(true);
}

static bool first_is_alone(const flock *f) {
    return lives_with(f, 0, 1);
}

static bool first_lives_with_second(const flock *f) {
    return lives_with(f, 0, 2);
}

static bool fourth_is_linked(const flock *f) {
    return f->peers[3].linked[0];
}

/* Three have become one. Who comes has voted for a view of many, none of whom is here but the one that
 * proposed it, which has not installed it and never will. */
Test(peer_majority, a_promise_to_somebody_who_is_here_asks_for_nothing) {
    flock f;
    open_flock(&f, 5, 3);
    flock_kill(&f, 2);
    cr_assert(flock_run(&f, first_lives_with_second, MOST_EVENTS));
    flock_kill(&f, 1);
    cr_assert(flock_run(&f, first_is_alone, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) flock_cut(&f, 4, i, true);
    flock_start(&f, 4);
    const gw_incarnation *life = &f.peers[4].config.incarnation;
    gw_view view = view_with_strangers(&f, 3, 6);
    view.leader = f.peers[4].config.id;
    view.members[view.count++] = (gw_member){.id = view.leader, .boot = life->boot, .nonce = life->nonce};
    gw_view_seal(&view);
    give_record(&f, 3, &view, false);
    flock_start(&f, 3);
    cr_assert(flock_run(&f, fourth_is_linked, MOST_EVENTS));
    flock_run_for(&f, SECOND);
    for (uint32_t i = 0; i < f.peers[0].brain->view.learned_count; i++)
        cr_assert(!f.peers[0].brain->view.learned_lived[i], "nobody lives in it");
    for (uint32_t i = 0; i < 4; i++) flock_mend(&f, 4, i);
    expect_end(&f, 3);
}

/* What it has on record it has voted for as well, before it was killed. */
static void vote_on_record(flock *f, uint32_t i, const gw_view *view) {
    gw_ballot ballot;
    size_t bytes = flock_open_record(&f->peers[i], &ballot);
    gw_ballot_vote(&ballot, view, view->epoch - 1);
    flock_close_record(&f->peers[i], &ballot, bytes);
}

static bool last_has_view(const flock *f) {
    return flock_status(f, f->count - 1).view != NULL;
}

/* All of seven are started again. The first of them have voted for one view of strangers. */
Test(peer_majority, promises_of_several_do_not_hold_up_a_founding) {
    for (uint32_t tellers = 2; tellers <= 3; tellers++) {
        flock f;
        open_flock(&f, 7, 7);
        const gw_view view = view_of_some(&f, 0, tellers, tellers + 4);
        for (uint32_t i = 0; i < 7; i++) flock_kill(&f, i);
        for (uint32_t i = 0; i < tellers; i++) vote_on_record(&f, i, &view);
        uint64_t since_ns = f.now;
        for (uint32_t i = 0; i < 7; i++) flock_start(&f, i);
        cr_assert(flock_run(&f, last_has_view, MOST_EVENTS), "%u", tellers);
        cr_expect_lt(f.now, since_ns + 120 * SECOND, "%u: %.1f s", tellers,
                     (double)(f.now - since_ns) * 1e-9);
        flock_close(&f);
    }
}

/* All but one, which has the latest state and a promise that leads nowhere, are started again. */
static void leave_the_state_to_one(flock *f, bool fast) {
    flock_open(f, 5, 5, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 5; i++) {
        f->peers[i].seal_ns = 20000000;
        f->peers[i].config.fast = fast;
    }
    add_seed(f, 0, 4);
    for (uint32_t i = 0; i < 5; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_run_for(f, SECOND);
    promise_elsewhere(f, 4);
    for (uint32_t i = 0; i < 4; i++) flock_kill(f, i);
    flock_run_for(f, SECOND);
    for (uint32_t i = 0; i < 4; i++) flock_start(f, i);
}

/* With float sums what was shown cannot be made again: an operator may force a view. */
Test(peer_majority, who_has_the_only_state_is_left_out_where_sums_are_exact) {
    flock f;
    leave_the_state_to_one(&f, false);
    expect_end(&f, 5);
    leave_the_state_to_one(&f, true);
    flock_run_for(&f, 300 * SECOND);
    cr_assert(flock_status(&f, 4).has_state);
    for (uint32_t i = 0; i < 4; i++) cr_assert_null(flock_status(&f, i).view);
    flock_close(&f);
}

/* ---- a view that only some have heard of ---- */

static bool third_lives_with_two(const flock *f) {
    return lives_with(f, 2, 3);
}

/* It was installed at its leader, which dies, and at a newcomer, which is started again: a majority of it
 * with a member of the view before, which has voted for it and cannot know. */
Test(peer_majority, who_was_in_the_latest_view_founds_with_those_who_have_missed_it) {
    flock f;
    open_flock(&f, 3, 2);
    add_seed(&f, 2, 1);
    f.breaks = (flock_break){.kind = GW_MSG_INSTALL, .from = 0, .to = 1, .times = UINT32_MAX, .quiet = true};
    flock_start(&f, 2);
    cr_assert(flock_run(&f, third_lives_with_two, MOST_EVENTS));
    flock_kill(&f, 0);
    flock_kill(&f, 2);
    flock_run_for(&f, SECOND);
    flock_start(&f, 2);
    expect_end(&f, 2);
}

static bool second_lives_with_one(const flock *f) {
    return lives_with(f, 1, 2);
}

static bool second_lives_with_three(const flock *f) {
    return lives_with(f, 1, 4);
}

static bool third_lives_with_newcomers(const flock *f) {
    return lives_with(f, 2, 3);
}

static bool newcomers_are_alone(const flock *f) {
    return lives_with(f, 3, 2) && lives_with(f, 4, 2);
}

/* While the first of three stands still, two newcomers come, and one after the other the others go. */
static void replace_all_but_the_first(flock *f) {
    open_flock(f, 5, 3);
    for (uint32_t i = 1; i < 5; i++)
        for (uint32_t seed = 1; seed < 5; seed++)
            if (seed != i && seed != 2) add_seed(f, i, seed);
    flock_stop(f, 0);
    cr_assert(flock_run(f, second_lives_with_one, MOST_EVENTS));
    flock_start(f, 3);
    flock_start(f, 4);
    cr_assert(flock_run(f, second_lives_with_three, MOST_EVENTS));
    flock_kill(f, 1);
    cr_assert(flock_run(f, third_lives_with_newcomers, MOST_EVENTS));
    flock_kill(f, 2);
    cr_assert(flock_run(f, newcomers_are_alone, MOST_EVENTS));
}

Test(peer_majority, who_slept_while_all_others_were_replaced_is_admitted) {
    flock f;
    replace_all_but_the_first(&f);
    flock_continue(&f, 0);
    expect_end(&f, 3);
}

/* Its time to wait for others was that of its own proposal. */
Test(peer_majority, who_leaves_a_view_has_not_waited_for_the_next_one) {
    flock f;
    replace_all_but_the_first(&f);
    flock_continue(&f, 0);
    do {
        f.peers[0].brain->view.wait_since_ns = f.now;
        cr_assert(!flock_run(&f, NULL, 1));
    } while (f.peers[0].brain->view.current.epoch > 0);
    cr_assert_eq(f.peers[0].brain->view.wait_since_ns, 0);
    flock_close(&f);
}

Test(peer_majority, those_who_come_back_do_not_wait_for_who_slept_through_their_view) {
    flock f;
    replace_all_but_the_first(&f);
    flock_kill(&f, 3);
    flock_kill(&f, 4);
    flock_continue(&f, 0);
    flock_run_for(&f, SECOND);
    flock_start(&f, 3);
    flock_start(&f, 4);
    expect_end(&f, 3);
}

/* A job was founded twice, in two places. The one flock is well; of the other one is left, in a later view.
 * They meet, and one dies of the first. */
Test(peer_majority, who_can_go_on_does_not_leave_its_view_for_a_later_one) {
    flock f;
    flock_open(&f, 6, 3, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 6; i++) {
        f.peers[i].seal_ns = 200000000;
        f.peers[i].config.fast = true;
    }
    for (uint32_t i = 4; i < 6; i++) add_seed(&f, i, 3);
    for (uint32_t i = 0; i < 9; i++) flock_cut(&f, i / 3, 3 + i % 3, true);
    for (uint32_t i = 0; i < 6; i++) flock_start(&f, i);
    flock_run_for(&f, 20 * SECOND);
    flock_kill(&f, 5);
    flock_run_for(&f, 3 * SECOND);
    flock_start(&f, 5);
    flock_run_for(&f, 5 * SECOND);
    cr_assert(lives_with(&f, 0, 3) && lives_with(&f, 3, 3));
    cr_assert_gt(flock_status(&f, 3).view->epoch, flock_status(&f, 0).view->epoch + 1);
    flock_kill(&f, 4);
    flock_kill(&f, 5);
    flock_run_for(&f, SECOND);
    for (uint32_t i = 0; i < 9; i++) flock_mend(&f, i / 3, 3 + i % 3);
    flock_run_for(&f, 5 * SECOND);
    flock_kill(&f, 2);
    while (!lives_with(&f, 0, 2)) {
        cr_assert(flock_status(&f, 0).has_state && flock_status(&f, 1).has_state);
        cr_assert(!flock_run(&f, NULL, 1) && f.now < 100 * SECOND);
    }
    flock_close(&f);
}

/* ---- hope ---- */

static bool first_is_hopeless(const flock *f) {
    return f->peers[0].brain->save.hopeless_ns != 0;
}

static bool first_proposes(const flock *f) {
    return f->peers[0].brain->view.attempt.active;
}

/* The time after which it gives up begins anew, whatever becomes of its proposal. */
Test(peer_majority, who_has_a_majority_again_has_hope) {
    flock f;
    open_flock(&f, 3, 3);
    for (uint32_t i = 1; i < 3; i++) flock_kill(&f, i);
    cr_assert(flock_run(&f, first_is_hopeless, MOST_EVENTS));
    flock_run_for(&f, 10 * SECOND);
    cr_assert(first_is_hopeless(&f) && !first_proposes(&f));
    flock_start(&f, 1);
    cr_assert(flock_run(&f, first_proposes, MOST_EVENTS));
    cr_assert(!first_is_hopeless(&f));
    flock_close(&f);
}

enum { SHRINKS = 7 };

static bool one_in_view_of_4(const flock *f) {
    return flock_in_view_of(f, 1, 4);
}

static bool one_in_view_of_3(const flock *f) {
    return flock_in_view_of(f, 1, 3);
}

static bool one_in_view_of_2(const flock *f) {
    return flock_in_view_of(f, 1, 2);
}

/* Seven are four, three, and then two, who end. Then the others are back, and ask the one of them who lives
 * in the view of seven to be admitted. They are more than half, but one was in the view of four, and another
 * in that of three as well, and of these two are gone for good. */
Test(peer_majority, those_who_cannot_all_do_without_who_is_gone_end) {
    static const uint32_t minority[] = {0, 2, 5}, rest[] = {1, 3, 4, 6}, last[] = {1, 4, 6};
    flock f;
    flock_open(&f, SHRINKS, SHRINKS, 1000000, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < SHRINKS; i++) f.peers[i].config.resume_timeout_ns = SECOND;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < 4; k++) flock_cut(&f, minority[i], rest[k], true);
    cr_assert(flock_run(&f, one_in_view_of_4, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_cut(&f, 3, last[i], true);
    cr_assert(flock_run(&f, one_in_view_of_3, MOST_EVENTS));
    flock_kill(&f, 4);
    cr_assert(flock_run(&f, one_in_view_of_2, MOST_EVENTS));
    for (uint32_t i = 1; i < SHRINKS; i++)
        if (i != 4) flock_kill(&f, i);
    for (uint32_t i = 0; i < SHRINKS; i++)
        for (uint32_t k = 0; k < SHRINKS; k++)
            if (k != i) flock_mend(&f, i, k);
    for (uint32_t i = 2; i < 6; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < SHRINKS; i++) {
        if (i == 1 || i == 6) continue;
        cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED, "peer %u", i);
        cr_expect_not_null(strstr(f.peers[i].finish_text, "the processes of the others have ended"),
                           "peer %u: %s", i, f.peers[i].finish_text);
    }
    flock_close(&f);
}

/* ---- a leader that does not answer ---- */

/* The leader, another, and a third one that is killed. */
static void lose_the_third(flock *f, uint32_t *leader, uint32_t *other, uint32_t *third) {
    open_flock(f, 3, 3);
    add_seed(f, 2, 1);
    *leader = flock_leader(f);
    *other = *leader == 0 ? 1 : 0;
    *third = 3 - *leader - *other;
    flock_kill(f, *third);
}

/* Datagrams pass. */
Test(peer_majority, where_no_link_to_the_leader_comes_up_other_members_are_asked) {
    flock f;
    uint32_t leader, other, third;
    lose_the_third(&f, &leader, &other, &third);
    flock_cut(&f, leader, other, false);
    flock_cut(&f, leader, third, false);
    flock_run_for(&f, 5 * SECOND);
    flock_start(&f, third);
    while (f.peers[other].finished + f.peers[third].finished < 2)
        cr_assert(!flock_run(&f, NULL, 1) && f.now < 600 * SECOND);
    cr_assert_eq(f.peers[other].finish, GW_FINISH_DONE);
    cr_assert_eq(f.peers[third].finish, GW_FINISH_DONE);
    flock_close(&f);
}

/* It has voted for a view of strangers. The other member has not. */
Test(peer_majority, where_the_leader_cannot_admit_other_members_are_asked) {
    flock f;
    uint32_t leader, other, third;
    lose_the_third(&f, &leader, &other, &third);
    promise_elsewhere(&f, leader);
    flock_run_for(&f, 5 * SECOND);
    flock_start(&f, third);
    expect_end(&f, 3);
}

/* The two others of its view come back. */
Test(peer_majority, those_who_are_a_majority_do_not_wait_for_a_leader_that_cannot_admit) {
    flock f;
    uint32_t leader, other, third;
    lose_the_third(&f, &leader, &other, &third);
    promise_elsewhere(&f, leader);
    flock_kill(&f, other);
    flock_run_for(&f, SECOND);
    flock_start(&f, other);
    flock_start(&f, third);
    expect_end(&f, 3);
}

/* One of five peers slept through a view of the others, and has no link to the one that is left in it. Each
 * of these two has a promise of its own. The other three are started again. */
Test(peer_majority, those_who_ask_two_in_vain_found_past_both) {
    flock f;
    open_flock(&f, 5, 5);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t seed = 3; seed < 5; seed++) add_seed(&f, i, seed);
    flock_stop(&f, 3);
    while (!lives_with(&f, 4, 4)) cr_assert(!flock_run(&f, NULL, 1) && f.now < 100 * SECOND);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_cut(&f, 3, 4, false);
    for (uint32_t i = 3; i < 5; i++) {
        gw_view view = {.epoch = 37 + i, .job = f.peers[i].brain->job, .count = 3};
        view.members[0] = (gw_member){.id = f.peers[i].config.id, .boot = 1};
        for (uint8_t k = 1; k < 3; k++)
            view.members[k] = (gw_member){.id = {{0xFF, (uint8_t)i, k}}, .boot = 1};
        view.leader = view.members[1].id;
        gw_view_seal(&view);
        gw_ballot_vote(&f.peers[i].brain->view.ballot, &view, view.epoch - 1);
    }
    flock_continue(&f, 3);
    flock_run_for(&f, 3 * SECOND);
    for (uint32_t i = 0; i < 3; i++) f.longer_ns[4][i] = 50000000;
    uint64_t since_ns = f.now;
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
    while (flock_status(&f, 2).view == NULL)
        cr_assert(!flock_run(&f, NULL, 1) && f.now < since_ns + 120 * SECOND);
    flock_close(&f);
}

/* Four of five come back; datagrams of the fifth, which lives in their view, pass, but no link to it. */
Test(peer_majority, those_who_are_a_majority_do_not_wait_for_a_link_to_who_is_left) {
    flock f;
    open_flock(&f, 5, 5);
    for (uint32_t i = 2; i < 5; i++) add_seed(&f, i, 1);
    for (uint32_t i = 1; i < 5; i++) {
        flock_kill(&f, i);
        flock_cut(&f, 0, i, false);
    }
    flock_run_for(&f, SECOND);
    for (uint32_t i = 1; i < 5; i++) flock_start(&f, i);
    while (flock_finished(&f, GW_FINISH_DONE) < 4) cr_assert(!flock_run(&f, NULL, 1) && f.now < 600 * SECOND);
    flock_close(&f);
}
