/* Where a majority rules nobody lives in a view before its leader, and a leader that has voted for another
 * view, or proposed another one, never installs the first (core/ballot.h). The model check shows what comes
 * of it without that rule, which is written down there once more (tools/sim/forks.c); here are the brains. */
#include "flock.h"

#include "core/message.h"
#include "core/peer_state.h" /* votes */

#include <criterion/criterion.h>
#include <stdlib.h>

enum { MOST_EVENTS = 100000, STEPS = 4000 };

#define SECOND UINT64_C(1000000000)

static bool first_proposes(const flock *f) {
    return f->peers[0].brain->attempt.active && f->peers[1].brain->phase == GW_AT_FROZEN;
}

static bool first_lives_in_a_later_view(const flock *f) {
    return f->peers[0].brain->view.count == 2;
}

/* Of three that run one dies. The first has proposed a view without it; the second has voted, and is not
 * heard before a second has passed. Returns that view. */
static gw_view propose(flock *f) {
    flock_open(f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) f->peers[i].seal_ns = 20000000;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    f->breaks = (flock_break){
        .kind = GW_MSG_VOTE, .from = 1, .to = 0, .times = UINT32_MAX, .quiet = true, .later_ns = SECOND};
    flock_kill(f, 2);
    cr_assert(flock_run(f, first_proposes, MOST_EVENTS));
    const gw_view view = f->peers[0].brain->attempt.view;
    cr_assert_eq(view.count, 2);
    return view;
}

static void tell_first(flock *f, gw_message m) {
    uint8_t *bytes;
    m.job = f->peers[0].brain->job;
    size_t length = gw_message_encode(&m, &bytes);
    flock_tell(
        f, 0,
        (gw_event){.kind = GW_EV_MESSAGE, .peer = f->peers[1].config.id, .bytes = bytes, .length = length});
    free(bytes);
}

/* That it never lives there, until it lives in another one. */
static void expect_given_up(flock *f, const gw_view *view) {
    cr_expect(!f->peers[0].brain->attempt.active ||
              !gw_view_name_equal(&f->peers[0].brain->attempt.view.name, &view->name));
    while (!first_lives_in_a_later_view(f)) cr_assert(!flock_run(f, NULL, 1));
    cr_expect(!gw_view_name_equal(&f->peers[0].brain->view.name, &view->name));
    flock_close(f);
}

Test(peer_attempts, who_votes_for_another_view_does_not_install_its_own) {
    flock f;
    const gw_view own = propose(&f);
    gw_view other = own;
    other.epoch++;
    other.leader = f.peers[1].config.id;
    gw_view_seal(&other);
    tell_first(&f, (gw_message){.kind = GW_MSG_PROPOSE,
                                .epoch = other.epoch,
                                .name = other.name,
                                .view = &other,
                                .base_epoch = f.peers[0].brain->attempt.base_epoch,
                                .base = f.peers[0].brain->attempt.base});
    cr_assert(gw_view_name_equal(&f.peers[0].brain->voted.name, &other.name), "it votes for it");
    expect_given_up(&f, &own);
}

/* Its next proposal takes the first one back, and what it was voted does not count for the next. */
Test(peer_attempts, a_vote_for_one_view_is_none_for_the_next) {
    flock f;
    const gw_view own = propose(&f);
    tell_first(
        &f,
        (gw_message){.kind = GW_MSG_REFUSE, .epoch = own.epoch, .name = own.name, .refusal = GW_REFUSE_OLD});
    cr_assert(!f.peers[0].brain->attempt.active);
    cr_assert(flock_run(&f, first_proposes, MOST_EVENTS));
    const uint64_t since = f.now;
    expect_given_up(&f, &own);
    cr_expect_geq(f.now, since + SECOND);
}
