/* Where a majority rules nobody lives in a view before its leader, and a leader that has voted for another
 * view, or proposed another one, never installs the first; who was started again is no member of what was
 * proposed to its former life (core/record/ballot.h). The model check shows what comes of it without these
 * rules, but has them written down once more (tools/sim/model/forks.h); here are the brains. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/message.h"
#include "core/brain/state.h" /* votes */

#include <criterion/criterion.h>
#include <stdlib.h>

enum { MOST_EVENTS = 100000, STEPS = 4000 };

#define SECOND UINT64_C(1000000000)

static bool first_proposes(const flock *f) {
    return f->peers[0].brain->view.attempt.active && f->peers[1].brain->phase == GW_AT_FROZEN;
}

static bool first_lives_in_a_later_view(const flock *f) {
    return f->peers[0].brain->view.current.count == 2;
}

/* One of three peers that run dies. The first has proposed a view without it; the second has voted, and its
 * vote arrives after a second. Returns that view. */
static gw_view propose(flock *f) {
    flock_open(f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) f->peers[i].seal_ns = 20000000;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    f->breaks = (flock_break){
        .kind = GW_MSG_VOTE, .from = 1, .to = 0, .times = UINT32_MAX, .quiet = true, .later_ns = SECOND};
    flock_kill(f, 2);
    cr_assert(flock_run(f, first_proposes, MOST_EVENTS));
    const gw_view view = f->peers[0].brain->view.attempt.view;
    cr_assert_eq(view.count, 2);
    return view;
}

static void tell(flock *f, uint32_t i, uint32_t from, gw_message m) {
    uint8_t *bytes;
    m.job = f->peers[i].brain->job;
    size_t length = gw_message_encode(&m, &bytes);
    flock_tell(f, i,
               (gw_event){.kind = GW_EV_MESSAGE,
                          .peer = f->peers[from].config.id,
                          .message.bytes = bytes,
                          .message.length = length});
    free(bytes);
}

/* Whether it votes for a view that the other one proposes, on what it has installed. */
static bool votes(flock *f, uint32_t i, uint32_t from, gw_view *view) {
    const gw_peer *p = f->peers[i].brain;
    gw_view_seal(view);
    tell(f, i, from,
         (gw_message){.kind = GW_MSG_PROPOSE,
                      .epoch = view->epoch,
                      .name = view->name,
                      .propose.view = view,
                      .propose.base = {p->view.ballot.installed.epoch, p->view.ballot.installed.name}});
    return p->phase == GW_AT_FROZEN && gw_view_name_equal(&p->view.voted.name, &view->name);
}

/* That it never lives there, until it lives in another one. */
static void expect_given_up(flock *f, const gw_view *view) {
    cr_expect(!f->peers[0].brain->view.attempt.active ||
              !gw_view_name_equal(&f->peers[0].brain->view.attempt.view.name, &view->name));
    while (!first_lives_in_a_later_view(f)) cr_assert(!flock_run(f, NULL, 1));
    cr_expect(!gw_view_name_equal(&f->peers[0].brain->view.current.name, &view->name));
    flock_close(f);
}

Test(peer_attempts, who_votes_for_another_view_does_not_install_its_own) {
    flock f;
    const gw_view own = propose(&f);
    gw_view other = own;
    other.epoch++;
    other.leader = f.peers[1].config.id;
    cr_assert(votes(&f, 0, 1, &other));
    expect_given_up(&f, &own);
}

/* Its next proposal takes the first one back, and what it was voted does not count for the next. */
Test(peer_attempts, a_vote_for_one_view_is_none_for_the_next) {
    flock f;
    const gw_view own = propose(&f);
    tell(&f, 0, 1,
         (gw_message){
             .kind = GW_MSG_REFUSE, .epoch = own.epoch, .name = own.name, .refuse.why = GW_REFUSE_OLD});
    cr_assert(!f.peers[0].brain->view.attempt.active);
    cr_assert(flock_run(&f, first_proposes, MOST_EVENTS));
    const uint64_t since = f.now;
    expect_given_up(&f, &own);
    cr_expect_geq(f.now, since + SECOND);
}

static bool holds(const flock *f, uint32_t i, const gw_view *view) {
    const gw_ballot *ballot = &f->peers[i].brain->view.ballot;
    for (uint32_t k = 0; k < ballot->later_count; k++)
        if (gw_view_name_equal(&ballot->later[k].name, &view->name)) return true;
    return false;
}

/* The second proposes what the first refuses, and hears why. */
static void be_refused(flock *f, gw_view view) {
    view.leader = f->peers[1].config.id;
    cr_assert(!votes(f, 0, 1, &view));
    flock_run_for(f, 1000000);
}

/* As long as it waits for votes it may install what it has proposed: a word that it will not would have the
 * others go on without it. */
Test(peer_attempts, who_refuses_takes_back_what_it_has_given_up_and_nothing_else) {
    flock f;
    const gw_view own = propose(&f);
    be_refused(&f, own);
    cr_expect(f.peers[0].brain->view.attempt.active && holds(&f, 1, &own));
    tell(&f, 0, 1,
         (gw_message){
             .kind = GW_MSG_REFUSE, .epoch = own.epoch, .name = own.name, .refuse.why = GW_REFUSE_OLD});
    be_refused(&f, own);
    cr_expect(!f.peers[0].brain->view.attempt.active && !holds(&f, 1, &own));
    cr_expect(gw_view_name_equal(&f.peers[1].brain->view.voted.name, &own.name));
    expect_given_up(&f, &own);
}

static bool second_has_links(const flock *f) {
    return f->peers[1].linked[0] && f->peers[0].linked[1];
}

/* A promise binds who made it, and what that one did then is not known to its next life. */
Test(peer_attempts, who_was_started_again_does_not_vote_for_its_former_life) {
    flock f;
    gw_view view = propose(&f);
    flock_kill(&f, 1);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, second_has_links, MOST_EVENTS));
    flock_run_for(&f, SECOND / 10);
    gw_peer *p = f.peers[1].brain;
    view.epoch = p->view.ballot.highest + 1;
    cr_expect(!votes(&f, 1, 0, &view));
    const int own = gw_view_rank(&view, &p->config.id);
    view.epoch = p->view.ballot.highest + 1;
    view.members[own].boot = p->config.incarnation.boot;
    view.members[own].nonce = p->config.incarnation.nonce;
    cr_expect(votes(&f, 1, 0, &view), "it does for this one");
    flock_close(&f);
}
