/* Where a majority rules: promises that lead nowhere, and what is not to be left behind for them. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* votes */
#include "core/record/ballot.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1000000, STEPS = 4000 };

#define SECOND UINT64_C(1000000000)

static void open_flock(flock *f, uint32_t count, uint32_t founders, bool fast) {
    flock_open(f, count, founders, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < count; i++) {
        f->peers[i].seal_ns = 20000000;
        f->peers[i].config.fast = fast;
    }
    for (uint32_t i = 0; i < founders; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

static void add_seed(flock *f, uint32_t i, uint32_t seed) {
    gw_peer_config *c = &f->peers[i].config;
    c->seeds[c->seed_count++] = f->peers[seed].config.addrs[0];
}

static bool has_view(const flock *f, uint32_t i) {
    return flock_view(f, i) != NULL;
}

static gw_view view_of_some(const flock *f, uint32_t first, uint32_t end, uint32_t strangers, uint8_t salt,
                            uint64_t epoch) {
    gw_view view = {.epoch = epoch, .job = f->peers[first].brain->job};
    for (uint32_t i = first; i < end; i++)
        view.members[view.count++] = (gw_member){.id = f->peers[i].config.id, .boot = 1};
    for (uint32_t k = 0; k < strangers; k++)
        view.members[view.count++] = (gw_member){.id = {{0xFF, salt, (uint8_t)k}}, .boot = 1};
    view.leader = view.members[end - first].id;
    gw_view_seal(&view);
    return view;
}

/* Float sums: the fourth was fetching the state when the others went on without it. It comes back, and has an
 * old state. Only the third of the others lives in the latest view, with a promise that leads nowhere; the
 * first two are started again. */
Test(peer_promises, an_old_state_is_not_gone_on_from_while_who_holds_the_latest_is_here) {
    flock f;
    open_flock(&f, 4, 3, true);
    add_seed(&f, 3, 2);
    for (uint32_t i = 0; i < 2; i++) add_seed(&f, i, 2);
    f.peers[3].load_ns = 40 * SECOND;
    flock_start(&f, 3);
    while (!has_view(&f, 3)) cr_assert(!flock_run(&f, NULL, 1));
    uint64_t old_step = f.peers[0].step;
    flock_run_for(&f, SECOND / 2);
    for (uint32_t i = 0; i < 3; i++) flock_cut(&f, 3, i, true);
    flock_run_for(&f, 15 * SECOND);
    cr_assert(flock_status(&f, 2).view->count == 3);
    uint64_t shown = f.peers[2].shown_step;
    cr_assert_gt(shown, old_step + 10);
    gw_view w = view_of_some(&f, 2, 3, 2, 1, 40);
    gw_ballot_vote(&f.peers[2].brain->view.ballot, &w, 39);
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    flock_run_for(&f, SECOND);
    for (uint32_t i = 0; i < 3; i++) flock_mend(&f, 3, i);
    while (f.now < 70 * SECOND && (f.peers[3].brain->view.load_token != 0))
        cr_assert(!flock_run(&f, NULL, 1));
    for (uint32_t i = 0; i < 2; i++) flock_start(&f, i);
    uint64_t since = f.now;
    while (!has_view(&f, 0) && f.now < since + 300 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    flock_run_for(&f, 5 * SECOND);
    cr_expect(!has_view(&f, 0) || f.peers[0].step >= shown,
              "at %.1f s, step %d of a state at step %d that lives", (double)(f.now - since) * 1e-9,
              (int)f.peers[0].step, (int)f.peers[2].step);
    flock_close(&f);
}

/* Float sums, in a view: the first was cut off while the others went on without it. Two of these are started
 * again, one is gone, and one, which has the state, has a promise that leads nowhere; what it gossips of
 * itself is not heard. */
Test(peer_promises, an_old_view_is_not_gone_on_from_while_who_holds_the_latest_state_is_here) {
    flock f;
    open_flock(&f, 5, 5, true);
    for (uint32_t i = 0; i < 5; i++) add_seed(&f, i, 3);
    for (uint32_t i = 1; i < 5; i++) flock_cut(&f, 0, i, true);
    flock_run_for(&f, 15 * SECOND);
    cr_assert(flock_status(&f, 3).view->count == 4);
    uint64_t shown = f.peers[3].shown_step;
    gw_view w = view_of_some(&f, 3, 4, 2, 1, 40);
    gw_ballot_vote(&f.peers[3].brain->view.ballot, &w, 39);
    flock_kill(&f, 1);
    flock_kill(&f, 2);
    flock_kill(&f, 4);
    flock_run_for(&f, SECOND);
    f.blobs_lost = &f.peers[3].config.id;
    f.longer_ns[3][0] = 5000000;
    for (uint32_t i = 1; i < 5; i++) flock_mend(&f, 0, i);
    flock_start(&f, 1);
    flock_start(&f, 2);
    uint64_t since = f.now;
    while (!has_view(&f, 1) && f.now < since + 300 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    flock_run_for(&f, 5 * SECOND);
    cr_expect(!has_view(&f, 1) || f.peers[1].step >= shown,
              "at %.1f s, step %d of a state at step %d that lives", (double)(f.now - since) * 1e-9,
              (int)f.peers[1].step, (int)f.peers[3].step);
    flock_close(&f);
}

/* The last of five alone has heard of a proposal with seven newcomers, and has voted for it. All are started
 * again, but for who proposed it and the newcomers, who are gone for good. */
static bool member_is_frozen(const flock *f) {
    return f->peers[4].brain->view.voted.count > 6 && f->peers[4].brain->record.since_ns == 0;
}

static bool all_have_links(const flock *f) {
    for (uint32_t a = 0; a < f->count; a++)
        for (uint32_t b = 0; b < f->count; b++)
            if (a != b && !f->peers[a].linked[b]) return false;
    return true;
}

static void restart_with_a_lost_promise(bool fast) {
    flock f;
    open_flock(&f, 12, 5, fast);
    f.breaks = (flock_break){.kind = GW_MSG_JOIN, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    for (uint32_t i = 5; i < 12; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, all_have_links, MOST_EVENTS));
    for (uint32_t i = 0; i < 5; i++) f.peers[i].seal_ns = 800000000;
    flock_run_for(&f, SECOND);
    f.breaks = (flock_break){
        .kind = GW_MSG_PROPOSE, .from = 0, .to = -1, .times = 3, .quiet = true, .later_ns = 2 * SECOND};
    cr_assert(flock_run(&f, member_is_frozen, MOST_EVENTS));
    for (uint32_t i = 0; i < 12; i++) flock_kill(&f, i);
    for (uint32_t i = 1; i < 5; i++) f.peers[i].seal_ns = 20000000;
    for (uint32_t i = 2; i < 5; i++) add_seed(&f, i, 1);
    uint64_t since = f.now;
    for (uint32_t i = 1; i < 5; i++) flock_start(&f, i);
    while (!has_view(&f, 1) && f.now < since + 600 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(has_view(&f, 1), "%.1f s", (double)(f.now - since) * 1e-9);
    flock_close(&f);
}

Test(peer_promises, that_of_one_does_not_hold_up_a_restart_of_all) {
    restart_with_a_lost_promise(false);
}

Test(peer_promises, that_of_one_without_a_state_does_not_hold_up_a_restart_of_all) {
    restart_with_a_lost_promise(true);
}

/* All of a flock are started again, and with them somebody who has never been in it, and has voted for a view
 * of strangers. */
static void restart_with_a_newcomer(bool fast) {
    flock f;
    open_flock(&f, 4, 3, fast);
    for (uint32_t i = 0; i < 3; i++) add_seed(&f, i, 3);
    flock_peer *p = &f.peers[3];
    p->record = malloc(f.peers[0].record_length);
    memcpy(p->record, f.peers[0].record, f.peers[0].record_length);
    p->record_length = f.peers[0].record_length;
    gw_ballot own, first;
    size_t bytes = flock_open_record(&f.peers[0], &first);
    gw_ballot_open(&own, true);
    gw_view w = view_of_some(&f, 0, 0, 2, 1, 40);
    w.members[w.count++] = (gw_member){.id = p->config.id, .boot = 1};
    gw_view_seal(&w);
    gw_ballot_vote(&own, &w, 39);
    flock_close_record(p, &own, bytes);
    gw_ballot_close(&first);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_start(&f, 3);
    flock_run_for(&f, 3 * SECOND);
    uint64_t since = f.now;
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
    while (!has_view(&f, 0) && f.now < since + 600 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(has_view(&f, 0), "%.1f s", (double)(f.now - since) * 1e-9);
    flock_close(&f);
}

Test(peer_promises, that_of_a_newcomer_does_not_hold_up_a_restart_of_all) {
    restart_with_a_newcomer(false);
}

Test(peer_promises, that_of_a_newcomer_without_a_state_does_not_hold_up_a_restart_of_all) {
    restart_with_a_newcomer(true);
}

/* The leader of three has proposed a view with four newcomers, and only the third has heard of it. The leader
 * is cut off, and the newcomers are gone: the second hears of that promise. Then the leader came back and
 * proposed these three, for which both voted, and which takes the other promise back. It died before it sent
 * INSTALL. The third is started again. */
Test(peer_promises, a_promise_that_was_taken_back_is_not_asked_for) {
    flock f;
    open_flock(&f, 3, 3, false);
    add_seed(&f, 2, 1);
    cr_assert_eq(flock_leader(&f), 0);
    uint64_t base = flock_status(&f, 0).view->epoch;
    const gw_incarnation *life = &f.peers[0].config.incarnation;
    gw_view w = view_of_some(&f, 1, 3, 4, 1, base + 1);
    w.members[w.count++] = (gw_member){.id = f.peers[0].config.id, .boot = life->boot, .nonce = life->nonce};
    w.leader = f.peers[0].config.id;
    gw_view_seal(&w);
    gw_view w2 = *flock_status(&f, 0).view;
    w2.epoch = base + 30;
    gw_view_seal(&w2);
    gw_ballot_vote(&f.peers[2].brain->view.ballot, &w, base);
    flock_kill(&f, 0);
    flock_run_for(&f, 5 * SECOND);
    cr_assert_gt(flock_said(&f, 1, "only 2 of the 7"), 0);
    cr_assert_lt(f.peers[1].brain->view.ballot.highest, base + 30);
    gw_ballot_vote(&f.peers[1].brain->view.ballot, &w2, base);
    f.peers[1].brain->view.voted = w2;
    flock_kill(&f, 2);
    gw_ballot ballot;
    size_t bytes = flock_open_record(&f.peers[2], &ballot);
    if (ballot.later_count == 0) gw_ballot_vote(&ballot, &w, base);
    gw_ballot_vote(&ballot, &w2, base);
    cr_assert_eq(ballot.later_count, 1);
    flock_close_record(&f.peers[2], &ballot, bytes);
    flock_run_for(&f, SECOND);
    flock_start(&f, 2);
    uint64_t since = f.now;
    while (!has_view(&f, 2) && f.now < since + 150 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(has_view(&f, 2), "%.1f s", (double)(f.now - since) * 1e-9);
    flock_close(&f);
}

static bool first_is_linked_to_the_third(const flock *f) {
    return f->peers[0].linked[2] && f->peers[2].brain != NULL;
}

/* Two run a job. The first, which is enough of them, has voted for a view of a third one, who has given it
 * up, and of somebody who is gone. The third cannot take that back by a proposal, nor vote for one of the
 * first: an earlier life of it has voted for a view of strangers. The second dies. */
Test(peer_promises, the_word_of_who_has_given_up_its_proposal_frees_who_voted_for_it) {
    flock f;
    open_flock(&f, 3, 2, false);
    add_seed(&f, 2, 0);
    f.breaks = (flock_break){.kind = GW_MSG_JOIN, .from = 2, .to = -1, .times = UINT32_MAX, .quiet = true};
    flock_start(&f, 2);
    cr_assert(flock_run(&f, first_is_linked_to_the_third, MOST_EVENTS));
    flock_run_for(&f, SECOND);
    const gw_incarnation *life = &f.peers[2].config.incarnation;
    gw_view of_strangers = view_of_some(&f, 2, 3, 2, 1, 30), given_up = view_of_some(&f, 0, 1, 1, 2, 40);
    given_up.members[given_up.count++] =
        (gw_member){.id = f.peers[2].config.id, .boot = life->boot, .nonce = life->nonce};
    given_up.leader = f.peers[2].config.id;
    gw_view_seal(&given_up);
    gw_ballot_vote(&f.peers[2].brain->view.ballot, &of_strangers, 29);
    for (uint32_t i = 0; i < 3; i += 2) gw_ballot_vote(&f.peers[i].brain->view.ballot, &given_up, 0);
    f.breaks = (flock_break){0};
    flock_kill(&f, 1);
    const uint64_t since = f.now;
    while (!has_view(&f, 2) && f.now < since + 60 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(has_view(&f, 2) && flock_in_view_of(&f, 0, 2), "%.1f s", (double)(f.now - since) * 1e-9);
    flock_close(&f);
}

/* A job was founded twice, in two places, by views of one epoch. One member is left of the view with the
 * lower name; the members of the other are started again. */
Test(peer_promises, who_is_left_of_another_view_of_the_same_epoch_does_not_hold_up_a_founding) {
    flock f;
    flock_open(&f, 6, 3, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 6; i++) f.peers[i].seal_ns = 200000000;
    for (uint32_t i = 4; i < 6; i++) add_seed(&f, i, 3);
    for (uint32_t i = 0; i < 9; i++) flock_cut(&f, i / 3, 3 + i % 3, true);
    for (uint32_t i = 0; i < 6; i++) flock_start(&f, i);
    flock_run_for(&f, 20 * SECOND);
    cr_assert(has_view(&f, 0) && has_view(&f, 3));
    const gw_view *a = flock_status(&f, 0).view, *b = flock_status(&f, 3).view;
    cr_assert_eq(a->epoch, b->epoch);
    bool first_higher = gw_view_compare(a, b) > 0;
    uint32_t high = first_higher ? 0 : 3, low = 3 - high;
    for (uint32_t i = 1; i < 3; i++) flock_kill(&f, low + i);
    flock_run_for(&f, SECOND);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, high + i);
    for (uint32_t i = 0; i < 9; i++) flock_mend(&f, i / 3, 3 + i % 3);
    for (uint32_t i = 0; i < 3; i++) add_seed(&f, high + i, low);
    for (uint32_t i = 0; i < 3; i++) add_seed(&f, high + i, high);
    uint64_t since = f.now;
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, high + i);
    while (!has_view(&f, high) && f.now < since + 60 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(has_view(&f, high), "%.1f s", (double)(f.now - since) * 1e-9);
    flock_close(&f);
}

/* Four of seven are started again, one is gone, and two crash in turn, a second after they began. */
Test(peer_promises, two_that_crash_again_and_again_do_not_hold_up_a_founding) {
    flock f;
    open_flock(&f, 7, 7, false);
    for (uint32_t i = 0; i < 7; i++) flock_kill(&f, i);
    uint64_t since = f.now;
    for (uint32_t i = 0; i < 4; i++) flock_start(&f, i);
    flock_start(&f, 4);
    for (uint32_t life = 0; life < 200 && !has_view(&f, 0); life++) {
        flock_run_for(&f, SECOND);
        flock_start(&f, 4 + (life + 1) % 2);
        flock_run_for(&f, SECOND / 10);
        flock_kill(&f, 4 + life % 2);
    }
    cr_expect(has_view(&f, 0), "%.1f s", (double)(f.now - since) * 1e-9);
    cr_expect_lt(f.now, since + 60 * SECOND);
    flock_close(&f);
}

/* Who lives on without a view knows all others from before. These are started again, one each second, as
 * hosts come up after a power cut: there is no need to found with half of them, and to admit the rest one by
 * one. */
Test(peer_promises, who_comes_the_first_time_since_a_power_cut_is_waited_for) {
    enum { COUNT = 13 };
    for (int knows = 0; knows < 2; knows++) {
        flock f;
        flock_open(&f, COUNT, COUNT, 100000, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 50;
        for (uint32_t i = 0; i < COUNT; i++) f.peers[i].seal_ns = 20000000;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        flock_run_for(&f, 20 * SECOND);
        for (uint32_t i = 1; i < COUNT; i++) flock_cut(&f, 0, i, true);
        flock_run_for(&f, 20 * SECOND);
        for (uint32_t i = 1; i < COUNT; i++) flock_mend(&f, 0, i);
        while (flock_status(&f, 0).view != NULL) cr_assert(!flock_run(&f, NULL, 1));
        for (uint32_t i = 1; i < COUNT; i++) flock_kill(&f, i);
        flock_run_for(&f, 5 * SECOND);
        gw_peer *brain = f.peers[0].brain;
        for (uint32_t i = 0; i < brain->members.contact_count && !knows; i++)
            brain->members.contacts[i].came_ns = 0;
        uint64_t before = brain->view.views_installed;
        for (uint32_t i = 1; i < COUNT; i++) {
            flock_start(&f, i);
            flock_run_for(&f, SECOND);
        }
        flock_run_for(&f, 30 * SECOND);
        cr_assert(flock_status(&f, 0).view != NULL && flock_status(&f, 0).view->count == COUNT);
        cr_expect_leq(brain->view.views_installed - before, 2, "knows %d: %d views", knows,
                      (int)(brain->view.views_installed - before));
        flock_close(&f);
    }
}

/* Four of fourteen are back after a power cut; the others crash again and again, two seconds after they
 * began, and are started again ten seconds later. */
Test(peer_promises, who_crashes_every_twelve_seconds_is_not_waited_for) {
    enum { GOOD = 4, BAD = 10, ALL = GOOD + BAD };
    flock f;
    flock_open(&f, ALL, ALL, STEPS, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < ALL; i++) {
        f.peers[i].seal_ns = SECOND;
        f.peers[i].config.replicas = ALL;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    for (uint32_t i = 0; i < ALL; i++) flock_kill(&f, i);
    uint64_t since = f.now;
    for (uint32_t i = 0; i < GOOD; i++) flock_start(&f, i);
    bool found = false;
    for (uint32_t tick = 0; tick < 250 && !found;
         tick++) { /* of 1.2 s: one begins, one begun 2.4 s ago ends */
        uint32_t i = GOOD + tick % BAD, dies = GOOD + (tick + BAD - 2) % BAD;
        flock_kill(&f, dies);
        flock_start(&f, i);
        flock_run_for(&f, 1200000000);
        found = flock_status(&f, 0).view != NULL;
    }
    cr_expect(found && f.now < since + 60 * SECOND, "after %.1f s: %d", (double)(f.now - since) * 1e-9,
              found);
    flock_close(&f);
}

/* ---- what a proposal lists of promises that others tell of ---- */

/* Three, in one view, of which the first leads. */
static gw_view open_three(flock *f) {
    open_flock(f, 3, 3, false);
    cr_assert_eq(flock_leader(f), 0);
    return *flock_status(f, 0).view;
}

static void learn(flock *f, const gw_peer_id *from, const gw_view *view) {
    gw_peer *p = f->peers[0].brain;
    p->view.learned_from[p->view.learned_count] = *from;
    p->view.learned_lived[p->view.learned_count] = false;
    p->view.learned[p->view.learned_count++] = *view;
}

/* The first proposes the three once more, and installs that before anybody else loses patience with it. */
static void expect_next_view(flock *f, const gw_view *last) {
    flock_tell(f, 0, (gw_event){.kind = GW_EV_FORCE_VIEW});
    flock_run_for(f, SECOND);
    const gw_view *next = flock_status(f, 0).view;
    cr_assert_gt(next->epoch, last->epoch);
    cr_expect(gw_peer_id_equal(&next->leader, &f->peers[0].config.id));
    cr_expect_eq(next->count, 3);
}

/* There are two promises: to a view whose leader's life is gone, and to a later one with the same peers whose
 * leader is here, and which therefore demands nothing. */
Test(peer_promises, of_two_with_the_same_peers_the_one_that_asks_for_something_is_listed) {
    flock f;
    gw_view base = open_three(&f), gone = base, here = base;
    gone.epoch = base.epoch + 1;
    gone.members[gw_view_rank(&gone, &gone.leader)].nonce ^= 1;
    gw_view_seal(&gone);
    here.epoch = base.epoch + 2;
    here.leader = f.peers[1].config.id;
    gw_view_seal(&here);
    gw_ballot_vote(&f.peers[2].brain->view.ballot, &gone, base.epoch);
    learn(&f, &f.peers[2].config.id, &here);
    expect_next_view(&f, &base);
    flock_close(&f);
}

/* Its leader installed it, and nobody else has heard of that: its vote says nothing of it unless asked. */
Test(peer_promises, what_its_leader_alone_lives_in_is_listed) {
    flock f;
    gw_view base = open_three(&f), lived = base;
    lived.epoch = base.epoch + 1;
    lived.leader = f.peers[1].config.id;
    gw_view_seal(&lived);
    gw_ballot_install(&f.peers[1].brain->view.ballot, &lived);
    expect_next_view(&f, &base);
    flock_close(&f);
}
