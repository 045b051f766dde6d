/* Proposals that are made again and again, are refused, or wait for somebody; and what is said of that. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/members/contacts.h"
#include "core/brain/save/leave.h"
#include "core/brain/state.h" /* votes */
#include "core/brain/view/admit.h"
#include "core/brain/view/joiners.h"
#include "core/record/ballot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 100000 };

/* ---- a proposer that is started again and again ---- */

static uint32_t absent; /* for the condition below */

static bool all_are_frozen(const flock *f) {
    bool frozen = true;
    for (uint32_t i = 0; i < f->count; i++)
        frozen &= f->peers[i].brain == NULL || strcmp(flock_status(f, i).phase, "changing the view") == 0 ||
                  strcmp(flock_status(f, i).phase, "forming the first view") == 0;
    return frozen;
}

static bool first_waits_for_peers(const flock *f) {
    return strcmp(flock_status(f, 0).phase, "waiting for peers") == 0;
}

/* One of the first three peers, which found by majority, is absent, and has the only copies of some chunks.
 * All were killed, and the other two are to wait for it. */
static void lose_the_holder_of_chunks(flock *f, uint32_t count) {
    flock_open(f, count, 3, 20, GW_QUORUM_MAJORITY);
    f->checkpoint_steps = 2;
    for (uint32_t i = 0; i < 3; i++) f->peers[i].config.replicas = 1;
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(f, i);
    absent = gw_set_count(&f->peers[2].saved_chunks) > 0 ? 2 : 1;
    cr_assert_gt(gw_set_count(&f->peers[absent].saved_chunks), 0);
}

/* The first of the other two has proposed, has both votes, and waits. */
static void wait_with_a_proposal(flock *f, uint32_t count) {
    lose_the_holder_of_chunks(f, count);
    flock_start(f, 3 - absent);
    flock_start(f, 0);
    cr_assert(flock_run(f, all_are_frozen, MOST_EVENTS));
    cr_assert(!flock_run(f, NULL, 50), "their votes");
}

/* Each life of the one that proposes has the other's vote. */
Test(peer_proposals, however_often_a_proposer_starts_again_others_can_vote) {
    flock f;
    lose_the_holder_of_chunks(&f, 3);
    flock_start(&f, 3 - absent);
    for (int life = 0; life < GW_BALLOT_LATER + 6; life++) {
        flock_kill(&f, 0);
        flock_start(&f, 0);
        cr_assert(flock_run(&f, all_are_frozen, MOST_EVENTS), "life %d", life);
        cr_assert(!flock_run(&f, NULL, 50), "their votes");
    }
    flock_start(&f, absent);
    uint64_t began = f.now;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_lt(f.now - began, UINT64_C(30000000000));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* It had a majority, which is cut off and dies, and those who come at that moment are none: it waits as if it
 * had proposed nothing, and when nobody comes back it gives up. */
Test(peer_proposals, who_widens_its_proposal_in_vain_waits_for_peers_again) {
    for (int back = 0; back < 2; back++) {
        flock f;
        wait_with_a_proposal(&f, 5);
        flock_cut(&f, 0, 3 - absent, true);
        flock_start(&f, 3);
        flock_start(&f, 4);
        cr_assert(flock_run(&f, first_waits_for_peers, MOST_EVENTS));
        flock_mend(&f, 0, 3 - absent);
        flock_kill(&f, 3 - absent);
        if (back) {
            flock_start(&f, absent);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            flock_expect_done(&f, 4);
        } else {
            flock_kill(&f, 3);
            flock_kill(&f, 4);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            cr_assert_eq(f.peers[0].finish, GW_FINISH_FAILED);
        }
        flock_close(&f);
    }
}

/* It may be one that cannot go on. Whoever lives in another view, and was in none that the proposal comes
 * after, does not belong into it. */
Test(peer_proposals, a_member_with_a_view_of_its_own_belongs_into_a_proposal_that_waits) {
    flock f;
    wait_with_a_proposal(&f, 3);
    const gw_peer *first = f.peers[0].brain;
    cr_assert(first->view.attempt.deciding);
    gw_contact contact = *gw_peer_contact(f.peers[0].brain, &f.peers[3 - absent].config.id);
    contact.has_view = true;
    contact.view_name = (gw_view_name){{9}};
    contact.offered = (gw_view_name){0};
    cr_expect(gw_joiners_misses(first, &contact));
    gw_view_name names[GW_MAX_ABSORBED];
    uint32_t count = 0;
    cr_expect(gw_joiners_absorb(first, &contact, names, &count));
    cr_expect(count == 1 && gw_view_name_equal(&names[0], &contact.view_name), "its view is taken in");
    contact.id.bytes[0] ^= 0xFF;
    cr_expect_not(gw_joiners_misses(first, &contact));
    flock_close(&f);
}

/* For longer than it is waited for those who are absent: they are waited for when it is back. */
Test(peer_proposals, a_wait_that_ended_with_a_voter_begins_anew_when_it_is_back) {
    flock f;
    wait_with_a_proposal(&f, 3);
    flock_kill(&f, 3 - absent);
    uint64_t until_ns = f.now + 2 * f.peers[0].config.resume_timeout_ns;
    while (f.now < until_ns) cr_assert(!flock_run(&f, NULL, 10));
    flock_start(&f, 3 - absent);
    until_ns = f.now + f.peers[0].config.resume_timeout_ns / 2;
    while (f.now < until_ns) cr_assert(!flock_run(&f, NULL, 10));
    flock_start(&f, absent);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(flock_said(&f, i, "beginning at step"), 0);
    flock_close(&f);
}

/* It was asked to leave in a view that it is out of; a moment later its proposal would have been settled. */
Test(peer_proposals, who_leaves_does_not_conclude_its_proposal_at_the_same_moment) {
    flock f;
    wait_with_a_proposal(&f, 3);
    gw_peer *first = f.peers[0].brain;
    cr_assert(first->view.attempt.deciding);
    first->save.leaving = true;
    first->save.leave_ns = f.now;
    uint64_t due_ns = gw_leave_until(first);
    first->config.resume_timeout_ns = due_ns - first->view.wait_since_ns;
    while (!f.peers[0].finished) {
        if (first->view.attempt.resend_ns > due_ns) first->view.attempt.resend_ns = due_ns;
        cr_assert(!flock_run(&f, NULL, 1));
    }
    cr_assert_eq(f.now, due_ns);
    cr_assert_eq(f.peers[0].finish, GW_FINISH_LEFT, "%s", f.peers[0].finish_text);
    cr_assert(strcmp(flock_status(&f, 0).phase, "finished") == 0);
    flock_close(&f);
}

/* What it waits for would begin with the state, and the disk, of one that is gone. */
Test(peer_proposals, a_proposal_that_waits_does_not_count_on_a_voter_that_died) {
    flock f;
    wait_with_a_proposal(&f, 3);
    cr_assert(f.peers[0].brain->view.attempt.deciding);
    flock_kill(&f, 3 - absent);
    uint64_t killed_ns = f.now;
    cr_assert(flock_run(&f, first_waits_for_peers, MOST_EVENTS));
    cr_assert_lt(f.now - killed_ns, UINT64_C(5000000000));
    flock_start(&f, absent);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

static void add_stranger(gw_view *view, uint8_t number) {
    view->leader = (gw_peer_id){{0xFF, number}};
    view->members[view->count++] = (gw_member){.id = view->leader, .boot = 1};
}

/* Gives a peer promises that build on each other, so that none is taken back. They are led by a stranger,
 * which never comes, or by the leader of the last view. */
static void promise(flock_peer *p, uint32_t count, bool stranger) {
    gw_ballot ballot;
    size_t bytes = flock_open_record(p, &ballot);
    while (ballot.later_count < count) {
        gw_view next = ballot.installed;
        next.epoch = ballot.voted + 1;
        if (stranger) add_stranger(&next, 0);
        gw_view_seal(&next);
        gw_ballot_vote(&ballot, &next, ballot.voted);
    }
    flock_close_record(p, &ballot, bytes);
}

static void promise_no_more(uint32_t full, bool stranger, uint32_t done) {
    flock f;
    flock_open_at_step_5(&f, 5, 20, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 5; i++) flock_kill(&f, i);
    promise(&f.peers[full], GW_BALLOT_LATER, stranger); /* it can make no more */
    flock_start_all(&f);
    flock_tell(&f, full, (gw_event){.kind = GW_EV_FORCE_VIEW}); /* it must not, whoever asks */
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "peer %u", full);
    cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), done, "peer %u", full);
    cr_assert_eq(flock_said(&f, full, "64 views were promised here") > 0, stranger, "%s", f.peers[full].said);
    flock_close(&f);
}

Test(peer_proposals, who_can_promise_no_more_is_left_out) {
    for (uint32_t full = 0; full < 5; full++) promise_no_more(full, true, 4);
}

/* A later life of who led them proposes: what was promised to the one before comes down to one. */
Test(peer_proposals, who_can_promise_no_more_votes_for_what_makes_room) {
    for (uint32_t full = 0; full < 5; full++) promise_no_more(full, false, 5);
}

static const gw_report *vote_of_new_life(const flock *f) {
    for (uint32_t i = 1; i < 3; i++) {
        const gw_attempt *a = &f->peers[i].brain->view.attempt;
        for (uint32_t rank = 0; a->active && rank < a->view.count; rank++) {
            const gw_peer_id *id = &a->view.members[rank].id;
            if (gw_peer_id_equal(id, &f->peers[0].config.id) && a->reports[rank] != NULL)
                return a->reports[rank];
        }
    }
    return NULL;
}

static bool new_life_voted(const flock *f) {
    return vote_of_new_life(f) != NULL;
}

/* A view that it has promised may never have been: what is on its disk need not come from there. */
Test(peer_proposals, a_new_life_tells_a_view_that_it_lived_in_from_one_that_it_promised) {
    for (uint32_t promises = 0; promises < 2; promises++) {
        flock f;
        flock_open_at_step_5(&f, 3, 2000, GW_QUORUM_MAJORITY);
        uint64_t lived = flock_status(&f, 0).view->epoch;
        flock_kill(&f, 0);
        promise(&f.peers[0], promises, false);
        uint32_t other = flock_leader(&f) == 1 ? 2 : 1;
        for (uint32_t i = 0; i < 3; i++) f.longer_ns[other][i] = 2000000; /* its vote is the last */
        flock_start(&f, 0);
        cr_assert(flock_run(&f, new_life_voted, MOST_EVENTS), "%u", promises);
        const gw_report *vote = vote_of_new_life(&f);
        cr_expect_not(vote->has_state);
        cr_expect_eq(vote->installed_epoch, lived);
        cr_expect_eq(vote->promised_epoch, promises > 0 ? lived + promises : 0);
        flock_close(&f);
    }
}

static bool first_has_2_checkpoints(const flock *f) {
    return f->peers[0].checkpoints == 2;
}

static const gw_report *own_vote(const flock *f, uint32_t proposer) {
    const gw_attempt *a = &f->peers[proposer].brain->view.attempt;
    return a->active ? a->reports[gw_view_rank(&a->view, &f->peers[proposer].config.id)] : NULL;
}

/* Others may hold other bits of that state, and have to go back; or what a peer that is convicted tells
 * counts if these tell it as well. */
Test(peer_proposals, who_has_a_state_tells_its_checkpoints_from_the_oldest_kept_one_on) {
    flock f;
    flock_open(&f, 3, 3, 2000, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    flock_start_all(&f);
    cr_assert(flock_run(&f, first_has_2_checkpoints, MOST_EVENTS));
    flock_run(&f, NULL, 100);
    uint32_t leader = flock_leader(&f);
    flock_kill(&f, (leader + 1) % 3);
    const gw_report *vote;
    while ((vote = own_vote(&f, leader)) == NULL) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert(vote->has_state && vote->step >= 8);
    cr_assert_eq(vote->inventory_count, 2);
    cr_assert_eq(vote->inventory[0].step, 8);
    cr_assert_eq(vote->inventory[1].step, 4);
    flock_close(&f);
}

/* The rest of one may be on the others' disks. */
Test(peer_proposals, who_has_a_state_and_knows_of_no_whole_checkpoint_tells_all_that_are_on_its_disk) {
    flock f;
    flock_open(&f, 3, 3, 2000, GW_QUORUM_ANY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = UINT64_C(1000000000);
    f.breaks =
        (flock_break){.kind = GW_MSG_COMPLETE, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    flock_start_all(&f);
    cr_assert(flock_run(&f, first_has_2_checkpoints, MOST_EVENTS));
    uint32_t leader = flock_leader(&f), next = leader == 0 ? 1 : 0;
    f.breaks.times = 0;
    flock_kill(&f, leader);
    const gw_report *vote;
    while ((vote = own_vote(&f, next)) == NULL) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert(vote->has_state && vote->step >= 8);
    cr_assert_eq(vote->whole_step, 0);
    cr_assert_eq(vote->inventory_count, 2);
    cr_assert_eq(vote->inventory[1].step, 4);
    flock_close(&f);
}

static bool others_have_2_checkpoints(const flock *f) {
    return f->peers[1].checkpoints >= 2 && f->peers[2].checkpoints >= 2;
}

/* It has been cut off, and has the state from others since, who have told it that they have gone on from the
 * last checkpoint that it knows of. Those know of another. */
Test(peer_proposals, with_float_sums_a_vote_tells_what_is_whole_if_its_state_goes_on_from_that) {
    flock f;
    flock_open(&f, 3, 3, 2000, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].config.fast = true;
        f.peers[i].seal_ns = UINT64_C(1000000000);
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_cut(&f, 0, 1, true);
    flock_cut(&f, 0, 2, true);
    cr_assert(flock_run(&f, others_have_2_checkpoints, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 0).checkpoint_step, 4);
    flock_mend(&f, 0, 1);
    flock_mend(&f, 0, 2);
    while (flock_status(&f, 0).step < 9) cr_assert(!flock_run(&f, NULL, 1));
    uint32_t leader = flock_leader(&f);
    cr_assert_neq(leader, 0);
    flock_kill(&f, 3 - leader);
    f.peers[leader].persist_ns = 5000000; /* its own vote is the last */
    const gw_attempt *a = &f.peers[leader].brain->view.attempt;
    while (!a->active || a->reports[0] == NULL) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert(gw_peer_id_equal(&a->view.members[0].id, &f.peers[0].config.id));
    cr_expect(a->reports[0]->has_state);
    cr_expect_eq(a->reports[0]->whole_step, 4);
    while (flock_status(&f, leader).view->count != 2) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect_eq(f.peers[leader].brain->view.installed->whole_step, 8);
    flock_close(&f);
}

/* ---- whom to ask to be admitted ---- */

/* The third and the fourth can ask the first, which has just found again that it cannot propose: when it
 * looks next, both have. */
static bool two_can_ask(const flock *f) {
    const flock_peer *first = &f->peers[0];
    return first->linked[2] && first->linked[3] && f->peers[1].linked[2] && f->peers[1].linked[3] &&
           first->brain->agenda.propose_at_ns >= f->now + UINT64_C(500000000);
}

static bool third_is_in_a_view_of_four(const flock *f) {
    gw_peer_status status = flock_status(f, 2);
    return status.view != NULL && status.view->count == 4 && status.has_state;
}

/* Three of five peers die, and two of them come back, to a view of four. The second never hears that it was
 * installed, and stays in the view of five. Then the first, which leads, and the fourth die. */
static void miss_a_view_of_four(flock *f) {
    flock_open(f, 5, 5, 50, GW_QUORUM_MAJORITY);
    gw_peer_config *fourth = &f->peers[3].config;
    fourth->seeds[fourth->seed_count++] = f->peers[1].config.addrs[0]; /* the first will be dead */
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 2; i < 5; i++) flock_kill(f, i);
    cr_assert(!flock_run(f, NULL, 200), "news of it");
    f->breaks = (flock_break){.kind = GW_MSG_JOIN, .from = -1, .to = -1, .times = UINT32_MAX, .quiet = true};
    for (uint32_t i = 2; i < 4; i++) flock_start(f, i);
    cr_assert(flock_run(f, two_can_ask, MOST_EVENTS));
    f->breaks = (flock_break){.kind = GW_MSG_INSTALL, .from = 0, .to = 1, .times = UINT32_MAX, .quiet = true};
    cr_assert(flock_run(f, third_is_in_a_view_of_four, MOST_EVENTS));
    flock_kill(f, 0);
    flock_kill(f, 3);
    cr_assert(!flock_run(f, NULL, 200), "news of it");
    gw_peer_status second = flock_status(f, 1), third = flock_status(f, 2);
    cr_assert_eq(second.view->count, 5);
    cr_assert_eq(second.step, third.step);
}

/* The larger view leads nowhere: one of its members is left. In the later one two of four need a third. */
Test(peer_proposals, who_comes_back_asks_those_of_the_latest_view) {
    flock f;
    miss_a_view_of_four(&f);
    flock_start(&f, 3);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "%s", f.peers[3].said);
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* ---- what is said of waiting ---- */

static void cannot_propose(flock *f, uint32_t here, uint32_t of, uint64_t epoch) {
    char said[120];
    snprintf(said, sizeof said, "only %u of the %u members of view %lu can be reached", here, of, epoch);
    cr_assert(!flock_run(f, NULL, 20000));
    cr_assert_gt(flock_said(f, 0, said), 0, "not '%s' but %s", said, f->peers[0].said);
}

Test(peer_proposals, who_has_no_majority_of_its_view_says_so) {
    flock f;
    flock_open_at_step_5(&f, 5, 50, GW_QUORUM_MAJORITY);
    uint64_t epoch = flock_status(&f, 0).view->epoch;
    for (uint32_t i = 2; i < 5; i++) flock_kill(&f, i);
    cannot_propose(&f, 2, 5, epoch);
    flock_close(&f);
}

/* They have all of their own, and two of them promised two strangers to go on with them. */
Test(peer_proposals, who_has_no_majority_of_a_view_that_it_promised_says_of_which) {
    flock f;
    flock_open_at_step_5(&f, 3, 50, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    gw_view next = {0};
    for (uint32_t k = 0; k < 2; k++) {
        gw_ballot ballot;
        size_t bytes = flock_open_record(&f.peers[k], &ballot);
        if (k == 0) next = ballot.installed;
        next.epoch = ballot.voted + 3;
        next.count = 1;
        for (uint8_t i = 0; i < 2; i++)
            next.members[next.count++] = (gw_member){.id = {{0xFF, i}}, .boot = 1};
        next.leader = next.members[1].id;
        gw_view_seal(&next);
        gw_ballot_vote(&ballot, &next, ballot.voted);
        flock_close_record(&f.peers[k], &ballot, bytes);
    }
    flock_start_all(&f);
    cannot_propose(&f, 1, 3, next.epoch);
    flock_close(&f);
}

/* Each of the two that are here; one has proposed. */
Test(peer_proposals, who_is_frozen_for_a_proposal_that_waits_waits_too) {
    flock f;
    lose_the_holder_of_chunks(&f, 3);
    flock_start(&f, 0);
    flock_start(&f, 3 - absent);
    cr_assert(flock_run(&f, all_are_frozen, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) cr_assert(i == absent || !flock_status(&f, i).waits);
    uint64_t frozen_ns = f.now;
    while (f.now < frozen_ns + UINT64_C(3000000000)) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert(all_are_frozen(&f));
    uint32_t told = 0;
    char said[120], id[GW_SHORT_TEXT];
    for (uint32_t i = 0; i < 3; i++) {
        if (i == absent) continue;
        cr_assert(flock_status(&f, i).waits);
        gw_peer_id_short(&f.peers[3 - absent - i].config.id, id);
        snprintf(said, sizeof said, ", which peer %s has proposed", id);
        told += flock_said(&f, i, said) > 0;
    }
    cr_assert_eq(told, 1, "the one that has not proposed");
    flock_start(&f, absent);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) cr_assert(!flock_status(&f, i).waits);
    flock_close(&f);
}

/* Two promised forty each, of other peers each time, to those who never come. */
Test(peer_proposals, who_must_list_more_views_than_a_proposal_holds_says_so) {
    flock f;
    flock_open_at_step_5(&f, 3, 50, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    for (uint32_t i = 0; i < 2; i++) {
        gw_ballot ballot;
        size_t bytes = flock_open_record(&f.peers[i], &ballot);
        for (uint32_t k = 0; k < 40; k++) {
            gw_view next = ballot.installed;
            next.epoch = ballot.voted + 1;
            add_stranger(&next, (uint8_t)(40 * i + k));
            gw_view_seal(&next);
            gw_ballot_vote(&ballot, &next, ballot.voted);
        }
        flock_close_record(&f.peers[i], &ballot, bytes);
    }
    flock_start_all(&f);
    cr_assert(!flock_run(&f, NULL, 20000));
    cr_assert_gt(flock_said(&f, 0, "more than 64 views were promised") +
                     flock_said(&f, 1, "more than 64 views were promised"),
                 0, "%s", f.peers[0].said);
    flock_close(&f);
}

/* The newest checkpoint of the first peer lacks chunks, of which it has never had all, or which are
 * damaged. */
static void run_without_chunks(flock *f, bool met_another) {
    flock_open(f, 2, 1, 20, GW_QUORUM_ANY);
    flock_peer *p = &f->peers[0];
    p->saved_step = 8;
    p->saved_root = (gw_hash){{9}};
    p->saved_chunks = gw_set_of(FLOCK_CHUNKS);
    gw_set_add(&p->saved_chunks, 0);
    p->config.known_count = met_another;
    p->config.known[0] = f->peers[1].config.addrs[0];
    flock_start(f, 0);
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
    flock_expect_done(f, 1);
    cr_expect_eq(flock_said(f, 0, "nobody here has all of it: beginning at step 0"), 1, "%s", p->said);
}

/* It leads itself: nobody else can have been started with --fresh. */
Test(peer_proposals, who_has_met_nobody_does_not_say_that_it_waits_for_those_who_have_the_chunks) {
    flock f;
    run_without_chunks(&f, false);
    cr_expect_gt(flock_said(&f, 0,
                            "step 8 is known, but some of its chunks are damaged or gone here, and no other "
                            "peer has been met from this directory: waiting 20 s for one"),
                 0, "%s", f.peers[0].said);
    cr_expect_eq(flock_said(&f, 0, "--fresh"), 0, "%s", f.peers[0].said);
    flock_close(&f);
    run_without_chunks(&f, true);
    cr_expect_gt(flock_said(&f, 0, "are on peers that are not here; waiting for them"), 0, "%s",
                 f.peers[0].said);
    flock_close(&f);
}
