/* Faults that random schedules rarely hit: messages lost under a breaking link, two members that cannot reach
 * each other, a stop that its leader does not live to carry out, disks that fail half-way. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* votes */
#include "core/record/ballot.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 100000 };

/* ---- messages that are lost with their link ---- */

static void lose(gw_message_kind kind, gw_quorum quorum, bool leader_dies) {
    flock f;
    flock_open(&f, 4, 4, 20, quorum);
    f.checkpoint_steps = 3;
    f.breaks = (flock_break){.kind = kind, .from = -1, .to = -1, .times = 2};
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS), "%s", gw_message_name(kind));
    uint32_t victim = flock_leader(&f);
    if (!leader_dies) victim = (victim + 1) % 4;
    flock_kill(&f, victim);
    f.breaks.times = 2;
    uint64_t began = f.now;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "%s", gw_message_name(kind));
    cr_assert_lt(f.now - began, UINT64_C(20000000000), "%s: not within 20 s", gw_message_name(kind));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

Test(peer_faults, whatever_is_lost_with_a_link_is_said_again) {
    for (int kind = GW_MSG_HELLO; kind <= GW_MSG_ASK_SAVE; kind++) {
        if (kind == GW_MSG_HELLO || kind == GW_MSG_END) continue; /* links are not perfect, and see below */
        lose((gw_message_kind)kind, GW_QUORUM_ANY, false);
        lose((gw_message_kind)kind, GW_QUORUM_ANY, true);
        lose((gw_message_kind)kind, GW_QUORUM_MAJORITY, true);
    }
}

/* ---- links between two members ---- */

static void part_two(uint32_t count, gw_quorum quorum, bool link, bool with_leader) {
    flock f;
    flock_open_at_step_5(&f, count, 200, quorum);
    uint32_t leader = flock_leader(&f), a = with_leader ? leader : (leader + 1) % count,
             b = (leader + 2) % count;
    if (link)
        flock_cut(&f, a, b, false);
    else
        f.data_broken[a][b] = f.data_broken[b][a] = true;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "link %d leader %d", link, with_leader);
    cr_assert_geq(flock_finished(&f, GW_FINISH_DONE), count - 1);
    flock_close(&f);
}

Test(peer_faults, two_members_without_a_link_do_not_hold_up_the_others) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        part_two(4, (gw_quorum)quorum, true, false);
        part_two(4, (gw_quorum)quorum, true, true);
    }
}

Test(peer_faults, two_members_without_a_data_path_do_not_hold_up_the_others) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        part_two(4, (gw_quorum)quorum, false, false);
        part_two(4, (gw_quorum)quorum, false, true);
    }
}

/* It fails as often as it is let in again, once a minute, and the others go on. */
Test(peer_faults, who_is_behind_a_broken_path_waits_for_as_long_as_that_lasts) {
    flock f;
    flock_open_at_step_5(&f, 4, 900, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 4; i++) f.peers[i].apply_ns = UINT64_C(10000000000);
    f.data_broken[0][1] = f.data_broken[1][0] = true;
    flock_run_for(&f, UINT64_C(7200000000000));
    f.data_broken[0][1] = f.data_broken[1][0] = false;
    cr_assert(flock_run(&f, NULL, 10 * MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

/* All were killed and start again; two of them are alive, but never get a link to each other. */
static void resume_with_two_parted(gw_quorum quorum, uint32_t peers, uint32_t a, uint32_t b) {
    flock f;
    flock_open(&f, 4, peers, 60, quorum);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) flock_kill(&f, i);
    flock_cut(&f, a, b, false);
    flock_start_all(&f);
    uint64_t began = f.now;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "quorum %d peers %u: %u and %u", quorum, peers, a, b);
    cr_assert_geq(flock_finished(&f, GW_FINISH_DONE), 3, "quorum %d peers %u: %u and %u", quorum, peers, a,
                  b);
    cr_assert_lt(f.now - began, UINT64_C(20000000000));
    flock_close(&f);
}

Test(peer_faults, two_without_a_link_do_not_keep_the_others_from_going_on_from_a_checkpoint) {
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < a; b++) {
            resume_with_two_parted(GW_QUORUM_ANY, 1, a, b);
            resume_with_two_parted(GW_QUORUM_ANY, 4, a, b);
            resume_with_two_parted(GW_QUORUM_MAJORITY, 4, a, b);
        }
}

/* ---- reductions that nobody is to blame for ---- */

Test(peer_faults, reductions_that_fail_for_a_while_are_tried_again_less_and_less_often) {
    flock f;
    flock_open_at_step_5(&f, 3, 20, GW_QUORUM_ANY);
    uint64_t began = f.now;
    f.reductions_to_fail = 12;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_assert_gt(f.now - began, UINT64_C(30000000000));
    flock_close(&f);
}

Test(peer_faults, reductions_that_always_fail_end_the_run_saying_why) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        flock_open_at_step_5(&f, 3, 20, (gw_quorum)quorum);
        f.reductions_to_fail = UINT32_MAX;
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_assert_eq(flock_finished(&f, GW_FINISH_FAILED), 3);
        for (uint32_t i = 0; i < 3; i++)
            cr_assert(strstr(f.peers[i].finish_text, "in a row") != NULL &&
                          strstr(f.peers[i].finish_text, "no data connection") != NULL,
                      "%s", f.peers[i].finish_text);
        flock_close(&f);
    }
}

Test(peer_faults, a_sum_that_always_fails_its_checks_ends_the_run_naming_bucket_and_peers) {
    flock f;
    flock_open_at_step_5(&f, 3, 20, GW_QUORUM_ANY);
    f.sums_to_spoil = UINT32_MAX;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(flock_finished(&f, GW_FINISH_FAILED), 3);
    char id[GW_SHORT_TEXT];
    for (uint32_t i = 0; i < 3; i++)
        cr_assert(strstr(f.peers[i].finish_text, "bucket 4") != NULL &&
                      strstr(f.peers[i].finish_text, gw_peer_id_short(&f.peers[i].config.id, id)) != NULL,
                  "%s", f.peers[i].finish_text);
    flock_close(&f);
}

/* ---- stop and leave ---- */

static void expect_stopped(const flock *f, uint32_t least) {
    cr_assert_geq(flock_finished(f, GW_FINISH_STOPPED), least);
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL)
            cr_assert_eq(f->peers[i].finish, GW_FINISH_STOPPED, "peer %u: %s", i, f->peers[i].finish_text);
}

Test(peer_faults, a_stop_outlives_the_leader_that_was_asked) {
    flock f;
    flock_open_at_step_5(&f, 4, 5000, GW_QUORUM_ANY);
    uint32_t leader = flock_leader(&f);
    flock_tell(&f, (leader + 1) % 4, (gw_event){.kind = GW_EV_STOP});
    flock_kill(&f, leader);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_stopped(&f, 3);
    flock_close(&f);
}

Test(peer_faults, a_stop_lost_with_the_link_is_asked_for_again) {
    flock f;
    flock_open_at_step_5(&f, 4, 5000, GW_QUORUM_ANY);
    f.breaks = (flock_break){.kind = GW_MSG_ASK_STOP, .from = -1, .to = -1, .times = 1};
    flock_tell(&f, (flock_leader(&f) + 1) % 4, (gw_event){.kind = GW_EV_STOP});
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_stopped(&f, 4);
    flock_close(&f);
}

static bool two_have_left(const flock *f) {
    return flock_finished(f, GW_FINISH_LEFT) == 2;
}

Test(peer_faults, the_leader_and_another_leave_at_once) {
    flock f;
    flock_open_at_step_5(&f, 4, 2000, GW_QUORUM_ANY);
    uint32_t leader = flock_leader(&f), other = (leader + 1) % 4;
    f.breaks = (flock_break){.kind = GW_MSG_ASK_SAVE, .from = -1, .to = -1, .times = 1};
    flock_tell(&f, other, (gw_event){.kind = GW_EV_LEAVE});
    flock_tell(&f, leader, (gw_event){.kind = GW_EV_LEAVE});
    cr_assert(flock_run(&f, two_have_left, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++)
        cr_assert(!f.peers[i].finished || strstr(f.peers[i].finish_text, "without waiting") == NULL,
                  "peer %u: %s", i, f.peers[i].finish_text);
    flock_kill(&f, leader);
    flock_kill(&f, other);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

Test(peer_faults, the_saving_that_a_leaver_asked_for_outlives_the_leader) {
    flock f;
    flock_open_at_step_5(&f, 4, 5000, GW_QUORUM_ANY);
    uint32_t leader = flock_leader(&f), leaver = (leader + 1) % 4;
    flock_tell(&f, leaver, (gw_event){.kind = GW_EV_LEAVE});
    flock_kill(&f, leader);
    while (!f.peers[leaver].finished) cr_assert(!flock_run(&f, NULL, 10));
    cr_assert(strstr(f.peers[leaver].finish_text, "without waiting") == NULL, "%s",
              f.peers[leaver].finish_text);
    flock_close(&f);
}

/* ---- majorities ---- */

Test(peer_faults, a_founding_that_takes_many_attempts_succeeds_in_the_end) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_MAJORITY);
    f.cut[1][2] = f.cut[2][1] = true;
    flock_start_all(&f);
    cr_assert(!flock_run(&f, NULL, 40000));
    flock_mend(&f, 1, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

Test(peer_faults, a_checkpoint_without_a_record_does_not_make_a_majority) {
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 5; i++) {
        flock_kill(&f, i);
        f.peers[i].record_length = 0;
    }
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(!flock_run(&f, NULL, 20000));
    for (uint32_t i = 0; i < 2; i++) cr_assert_null(flock_status(&f, i).view, "two of five founded a view");
    flock_close(&f);
}

Test(peer_faults, the_operator_forces_a_view_after_a_majority_is_lost) {
    for (int restarted = 0; restarted < 2; restarted++) {
        flock f;
        flock_open(&f, 5, 5, 50, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 2;
        f.peers[4].config.seeds[f.peers[4].config.seed_count++] = f.peers[3].config.addrs[0];
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        for (uint32_t i = 0; i < 5; i++)
            if (i < 3 || restarted) flock_kill(&f, i);
        for (uint32_t i = 3; i < 5 && restarted; i++) flock_start(&f, i);
        cr_assert(!flock_run(&f, NULL, 20000));
        flock_tell(&f, 4, (gw_event){.kind = GW_EV_FORCE_VIEW});
        cr_assert(flock_run(&f, NULL, MOST_EVENTS), "restarted %d", restarted);
        flock_expect_done(&f, 2);
        flock_close(&f);
    }
}

static bool newcomer_is_linked(const flock *f) {
    return f->peers[3].brain != NULL && f->peers[0].linked[3] && f->peers[1].linked[3] &&
           f->peers[2].linked[3];
}

/* To the first peer, by the fourth, which that one's view does not have: all four, on a view of `base`, past
 * `listed` (NULL: past none). */
static void propose_on(flock *f, uint64_t base, gw_view *listed) {
    const gw_view *lived = flock_status(f, 0).view;
    const gw_peer_config *from = &f->peers[3].config;
    gw_view view = *lived;
    view.epoch = lived->epoch + 2;
    view.leader = from->id;
    view.members[view.count++] =
        (gw_member){.id = from->id, .boot = from->incarnation.boot, .nonce = from->incarnation.nonce};
    gw_view_seal(&view);
    gw_message m = {.kind = GW_MSG_PROPOSE,
                    .job = view.job,
                    .epoch = view.epoch,
                    .name = view.name,
                    .propose.view = &view,
                    .propose.base = {base, {{7}}},
                    .propose.listed = listed,
                    .propose.listed_count = listed != NULL};
    uint8_t *bytes;
    size_t length = gw_message_encode(&m, &bytes);
    flock_tell(
        f, 0,
        (gw_event){
            .kind = GW_EV_MESSAGE, .peer = from->id, .message.bytes = bytes, .message.length = length});
    free(bytes);
}

/* Three run, and a fourth is here that does not ask them to be admitted. */
static void open_with_a_stranger(flock *f) {
    flock_open(f, 4, 3, 1000000, GW_QUORUM_MAJORITY);
    f->breaks = (flock_break){.kind = GW_MSG_JOIN, .from = 3, .to = -1, .times = UINT32_MAX, .quiet = true};
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_start(f, 3);
    cr_assert(flock_run(f, newcomer_is_linked, MOST_EVENTS));
    cr_assert(!flock_run(f, NULL, 200), "gossip");
}

/* Members of a view go on, and one of them votes for that and for something else, and never hears that the
 * first of the two was installed. Whoever came to it there is no stranger who has been left behind: it would
 * drop its state, which may be the latest. */
Test(peer_faults, who_missed_a_view_votes_for_whoever_came_to_it_since) {
    flock f;
    open_with_a_stranger(&f);
    uint64_t epoch = flock_status(&f, 0).view->epoch;
    propose_on(&f, epoch, NULL);
    cr_assert_str_neq(flock_status(&f, 0).phase, "changing the view", "of an unknown view as old as its own");
    propose_on(&f, epoch + 1, NULL);
    cr_assert_str_eq(flock_status(&f, 0).phase, "changing the view");
    flock_close(&f);
}

/* A proposal lists only one of several views with the same peers. */
Test(peer_faults, who_lives_in_a_view_like_one_that_is_listed_votes) {
    flock f;
    open_with_a_stranger(&f);
    gw_view like = *flock_status(&f, 0).view, other;
    like.epoch++;
    other = like;
    other.members[2] = (gw_member){.id = {{0xFF}}, .boot = 1};
    other.leader = other.members[0].id;
    gw_view_seal(&like);
    gw_view_seal(&other);
    propose_on(&f, like.epoch - 1, &other);
    cr_assert_str_neq(flock_status(&f, 0).phase, "changing the view", "past one with other peers");
    propose_on(&f, like.epoch - 1, &like);
    cr_assert_str_eq(flock_status(&f, 0).phase, "changing the view");
    flock_close(&f);
}

/* ---- two halves ---- */

static bool one_view_of_four(const flock *f) {
    for (uint32_t i = 0; i < 4; i++) {
        gw_peer_status status = flock_status(f, i);
        if (status.view == NULL || status.view->count != 4) return false;
    }
    return true;
}

static bool two_views_of_two(const flock *f) {
    for (uint32_t i = 0; i < 4; i++) {
        gw_peer_status status = flock_status(f, i);
        if (status.view == NULL || status.view->count != 2) return false;
    }
    return true;
}

static void part_and_heal(uint64_t seal_ns) {
    flock f;
    flock_open(&f, 4, 4, 1000000, GW_QUORUM_ANY);
    /* The halves' boundaries come at different times. */
    for (uint32_t i = 0; i < 4; i++) f.peers[i].seal_ns = i < 2 ? seal_ns : seal_ns / 10 * 7;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) flock_cut(&f, a, b, true);
    cr_assert(flock_run(&f, two_views_of_two, MOST_EVENTS));
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++) flock_mend(&f, a, b);
    uint64_t mended = f.now;
    cr_assert(flock_run(&f, one_view_of_four, MOST_EVENTS), "steps of %llu ms",
              (unsigned long long)seal_ns / 1000000);
    cr_assert_lt(f.now - mended, UINT64_C(250000000) + seal_ns, "%llu ms",
                 (unsigned long long)(f.now - mended) / 1000000);
    flock_close(&f);
}

Test(peer_faults, two_halves_heal_when_steps_are_fast) {
    part_and_heal(0);
    part_and_heal(20000000);
}
Test(peer_faults, two_halves_heal_when_steps_are_slow) {
    part_and_heal(UINT64_C(20000000000));
}

/* ---- stopped and continued ---- */

static bool one_view_of_three(const flock *f) {
    for (uint32_t i = 0; i < 4; i++) {
        if (f->peers[i].stopped) continue;
        gw_peer_status status = flock_status(f, i);
        if (status.view == NULL || status.view->count != 3) return false;
    }
    return true;
}

static void stop_and_continue(uint32_t lost) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        for (uint32_t who = 0; who < 4; who++) {
            flock f;
            flock_open_at_step_5(&f, 4, 1000000, (gw_quorum)quorum);
            for (uint32_t i = 0; i < 4; i++) f.peers[i].seal_ns = 100000000;
            flock_stop(&f, who);
            cr_assert(flock_run(&f, one_view_of_three, MOST_EVENTS));
            f.breaks = (flock_break){
                .kind = GW_MSG_ASK_VIEW, .from = (int)who, .to = -1, .times = lost, .quiet = true};
            flock_continue(&f, who);
            cr_assert(flock_run(&f, one_view_of_four, MOST_EVENTS), "peer %u, %u lost", who, lost);
            flock_close(&f);
        }
    }
}

Test(peer_faults, who_stood_still_and_was_expelled_comes_back) {
    stop_and_continue(0);
}
Test(peer_faults, who_stood_still_asks_for_the_view_until_it_is_answered) {
    stop_and_continue(4);
}

/* ---- joining ---- */

Test(peer_faults, a_state_that_cannot_be_fetched_at_once_is_fetched_again) {
    flock f;
    flock_open(&f, 4, 3, 1000, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[3].loads_to_fail = 2;
    flock_start(&f, 3);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    flock_close(&f);
}

/* ---- proof of death ---- */

static const char *state_of(const flock *f, uint32_t seen_by, uint32_t i) {
    gw_peer_contact_info info;
    for (uint32_t k = 0; gw_peer_contact_at(f->peers[seen_by].brain, k, &info); k++)
        if (gw_peer_id_equal(&info.id, &f->peers[i].config.id)) return info.state;
    return "unknown";
}

static bool second_life_is_member(const flock *f) {
    gw_peer_status status;
    if (f->peers[0].brain == NULL) return false;
    gw_peer_status_get(f->peers[0].brain, &status);
    return status.view != NULL && gw_view_rank_of_life(status.view, &f->peers[1].config.id, 2,
                                                       f->peers[1].config.incarnation.nonce) >= 0;
}

/* The event that the present life of a peer refused a connection. */
static gw_event refusal_by(const flock_peer *peer) {
    return (gw_event){.kind = GW_EV_LINK_DOWN,
                      .peer = peer->config.id,
                      .link.incarnation = peer->config.incarnation,
                      .link.end = GW_LINK_REFUSED};
}

/* Peer 1 of three; returns the refusal of its first life. */
static gw_event start_one_again(flock *f, uint64_t steps) {
    flock_open_at_step_5(f, 3, steps, GW_QUORUM_ANY);
    gw_event refused = refusal_by(&f->peers[1]);
    flock_kill(f, 1);
    flock_start(f, 1);
    cr_assert(flock_run(f, second_life_is_member, MOST_EVENTS));
    return refused;
}

/* It was on its way while the peer was started again. */
Test(peer_faults, a_refusal_by_an_earlier_life_is_no_proof_that_a_later_one_is_dead) {
    flock f;
    gw_event refused = start_one_again(&f, 1000);
    flock_tell(&f, 0, refused);
    cr_expect_str_eq(state_of(&f, 0, 1), "alive");
    refused.link.incarnation = f.peers[1].config.incarnation;
    flock_tell(&f, 0, refused);
    cr_expect_str_eq(state_of(&f, 0, 1), "dead");
    flock_close(&f);
}

static bool three_seconds_have_passed(const flock *f) {
    static uint64_t since_ns;
    if (since_ns == 0) since_ns = f->now;
    return f->now >= since_ns + UINT64_C(3000000000);
}

/* The world has had no link to that life, and names the one before, or none. */
Test(peer_faults, a_refusal_proves_the_death_of_a_life_that_gossip_told_of_long_ago) {
    flock f;
    gw_event refused = start_one_again(&f, 100000);
    gw_event unknown = refused;
    unknown.link.incarnation = (gw_incarnation){0};
    flock_tell(&f, 0, unknown);
    cr_expect_str_eq(state_of(&f, 0, 1), "alive", "it may have been started again since");
    cr_assert(flock_run(&f, three_seconds_have_passed, 20 * MOST_EVENTS));
    flock_kill(&f, 1);
    flock_tell(&f, 0, refused);
    cr_expect_str_eq(state_of(&f, 0, 1), "dead");
    flock_close(&f);
}

/* A link was made with a life that gossip has not told of yet: when that one refuses, none is left. */
Test(peer_faults, a_refusal_by_a_later_life_proves_that_the_earlier_ones_are_dead) {
    flock f;
    flock_open_at_step_5(&f, 3, 1000, GW_QUORUM_ANY);
    gw_event refused = refusal_by(&f.peers[1]);
    refused.link.incarnation.boot++;
    refused.link.incarnation.nonce++;
    flock_kill(&f, 1);
    cr_assert_str_eq(state_of(&f, 0, 1), "alive");
    flock_tell(&f, 0, refused);
    cr_expect_str_eq(state_of(&f, 0, 1), "dead");
    flock_close(&f);
}

/* ---- states that cannot be fetched ---- */

/* More of them than the fetches of one state after which a peer gives up. */
Test(peer_faults, who_finds_one_checkpoint_damaged_after_another_begins_anew) {
    enum { FOUND = 7 };
    gw_inventory found[FOUND];
    flock f;
    flock_open(&f, 1, 1, 1000, GW_QUORUM_ANY);
    for (uint32_t k = 0; k < FOUND; k++) {
        found[k] = (gw_inventory){
            .step = 10 * (FOUND - k), .root.bytes = {(uint8_t)(k + 1)}, .chunks = gw_set_of(FLOCK_CHUNKS)};
        for (uint32_t chunk = 0; chunk < FLOCK_CHUNKS; chunk++) gw_set_add(&found[k].chunks, chunk);
    }
    f.peers[0].found = found;
    f.peers[0].found_count = FOUND;
    f.peers[0].damaged = true;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS), "%s", f.peers[0].finish_text);
    cr_assert_geq(f.peers[0].loads, FOUND);
    flock_close(&f);
    for (uint32_t k = 0; k < FOUND; k++) gw_set_free(&found[k].chunks);
}

/* They have it in their inventories, and would tell of it, and try to load it, until they give up. */
Test(peer_faults, a_checkpoint_of_which_no_manifest_is_left_is_not_gone_on_from) {
    enum { STEPS = 12 };
    for (uint32_t peers = 1; peers <= 4; peers++) {
        flock f;
        flock_open(&f, peers, peers, STEPS, GW_QUORUM_ANY);
        f.checkpoint_steps = 3;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
        for (uint32_t i = 0; i < peers; i++) flock_kill(&f, i);
        for (uint32_t i = 0; i < peers; i++) {
            f.peers[i].manifests_lost = true;
            f.peers[i].loads = 0;
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, peers);
        for (uint32_t i = 0; i < peers; i++) cr_expect_eq(f.peers[i].loads, 2, "the checkpoint's, and S_0");
        flock_close(&f);
    }
}

/* A newcomer whose every fetch fails, or brings other bits, leaves; the others go on without it. */
static void newcomer_cannot_fetch(bool other_bits, const char *why) {
    flock f;
    flock_open(&f, 3, 2, 1000, GW_QUORUM_ANY);
    f.reason = "the moon is full";
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    if (other_bits)
        f.peers[2].loads_other_bits = true;
    else
        f.peers[2].loads_to_fail = 1000;
    flock_start(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[2].finish, GW_FINISH_FAILED, "%s", f.peers[2].finish_text);
    cr_assert(strstr(f.peers[2].finish_text, "could not be fetched: ") != NULL &&
                  strstr(f.peers[2].finish_text, why) != NULL,
              "%s", f.peers[2].finish_text);
    cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), 2);
    flock_close(&f);
}

Test(peer_faults, who_cannot_fetch_the_state_leaves_and_says_why) {
    newcomer_cannot_fetch(false, "the moon is full");
    newcomer_cannot_fetch(true, "its fingerprint differs");
}

enum { FAILING_FETCHES = 8 };
static uint32_t failed_fetches;

static bool peer_1_fetches_again(const flock *f) {
    return f->peers[1].loads_to_fail < FAILING_FETCHES - failed_fetches;
}

static bool fetch_of_peer_1_has_failed(const flock *f) {
    return flock_said(f, 1, "could not be fetched") > failed_fetches || f->peers[1].finished;
}

/* The peer goes on even if that happens again and again. */
Test(peer_faults, who_cannot_fetch_the_state_because_its_sources_die_goes_on) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    f.peers[1].load_ns = 300000000;
    f.peers[1].loads_to_fail = FAILING_FETCHES;
    flock_start_all(&f);
    for (failed_fetches = 0; failed_fetches < FAILING_FETCHES; failed_fetches++) {
        cr_assert(flock_run(&f, peer_1_fetches_again, MOST_EVENTS));
        flock_kill(&f, 0);
        cr_assert(flock_run(&f, fetch_of_peer_1_has_failed, MOST_EVENTS));
        cr_assert_not(f.peers[1].finished, "%s", f.peers[1].finish_text);
        flock_start(&f, 0);
    }
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* Alone, from a checkpoint, in its second life. */
static void start_where_loads_fail(flock *f, uint32_t loads) {
    flock_open(f, 1, 1, 20, GW_QUORUM_ANY);
    f->checkpoint_steps = 2;
    flock_start(f, 0);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    flock_kill(f, 0);
    f->peers[0].load_ns = 1000000000;
    f->peers[0].loads_to_fail = loads;
    flock_start(f, 0);
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
}

Test(peer_faults, who_cannot_reach_the_holders_of_a_checkpoint_tries_for_half_a_minute) {
    flock f;
    start_where_loads_fail(&f, FAILING_FETCHES);
    flock_expect_done(&f, 1);
    flock_close(&f);
    start_where_loads_fail(&f, 1000);
    cr_assert_eq(f.peers[0].finish, GW_FINISH_FAILED);
    cr_assert(strstr(f.peers[0].finish_text, "could not be fetched") != NULL, "%s", f.peers[0].finish_text);
    cr_assert_geq(1000 - f.peers[0].loads_to_fail, 25);
    cr_assert_leq(1000 - f.peers[0].loads_to_fail, 35);
    flock_close(&f);
}

/* Whoever is started again has yet to find what of the checkpoint is damaged on its disk. */
Test(peer_faults, who_cannot_fetch_a_checkpoint_waits_for_holders_that_are_started_again) {
    const uint64_t pause_ns = UINT64_C(10000000000);
    flock f;
    flock_open(&f, 2, 2, 1000, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].load_ns = UINT64_C(1000000000);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].loads_to_fail = 1000;
    flock_start_all(&f);
    for (int times = 0; times < 6; times++) {
        flock_run_for(&f, pause_ns);
        cr_assert_not(f.peers[1].finished, "after %d: %s", times, f.peers[1].finish_text);
        flock_kill(&f, 0);
        flock_start(&f, 0);
    }
    cr_assert(flock_run(&f, NULL, MOST_EVENTS), "it tries for ever");
    cr_assert_not_null(strstr(f.peers[1].finish_text, "could not be fetched"), "%s", f.peers[1].finish_text);
    flock_close(&f);
}

/* ---- a part of a sum that changed in memory ---- */

Test(peer_faults, who_finds_its_own_part_damaged_has_it_dealt_again) {
    flock f;
    flock_open_at_step_5(&f, 3, 20, GW_QUORUM_ANY);
    f.peers[1].part_damaged = true;
    f.sums_to_spoil = 1;
    uint32_t computed = f.peers[1].computed;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_assert_eq(flock_said(&f, 1, "its part of the sum changed in memory"), 1);
    cr_assert_eq(f.peers[1].corruptions, 1);
    cr_assert_gt(f.peers[1].computed, computed);
    flock_close(&f);
}

static bool second_has_refused_twice(const flock *f) {
    return flock_said(f, 1, "is not applied") == 2;
}

/* Its memory is bad for good. It may be a while until it knows: whoever sees a wrong sum first ends the
 * others' checks. */
static void leave_for_bad_memory(bool knows_late) {
    flock f;
    flock_open_at_step_5(&f, 3, 20, GW_QUORUM_ANY);
    f.peers[1].spoils_sums = true;
    if (knows_late) cr_assert(flock_run(&f, second_has_refused_twice, MOST_EVENTS));
    f.peers[1].part_damaged = true;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_assert_not_null(strstr(f.peers[1].finish_text, "the machine is faulty"), "%s", f.peers[1].finish_text);
    cr_assert_eq(f.peers[1].corruptions, 2);
    cr_assert_eq(flock_finished(&f, GW_FINISH_DONE), 2);
    flock_kill(&f, 1);
    flock_expect_done(&f, 2);
    flock_close(&f);
}

Test(peer_faults, whose_part_is_damaged_again_leaves_and_the_others_go_on) {
    leave_for_bad_memory(false);
    leave_for_bad_memory(true);
}

/* ---- last words that others bring ---- */

/* Who gives up reaches one of the others only; the links of all tell of its death before that one does. */
static void bring_last_words(uint64_t message_ns) {
    flock f;
    flock_open_at_step_5(&f, 5, 40, GW_QUORUM_ANY);
    f.reason = "the moon is full";
    f.message_ns = message_ns;
    for (uint32_t i = 0; i < 5; i++) {
        f.peers[i].fails_at_shard = 6;
        for (uint32_t k = 0; k < 5; k++) f.parted[i][k] = i != k && (i + 1) % 5 != k && (k + 1) % 5 != i;
    }
    uint32_t named = 0, failed = 0;
    for (int n = 0; n < 20000; n++) {
        if (flock_run(&f, NULL, 1)) break;
        for (uint32_t i = 0; i < 5; i++) {
            if (f.peers[i].brain == NULL || !f.peers[i].finished) continue;
            cr_assert_eq(f.peers[i].finish, GW_FINISH_FAILED, "%s", f.peers[i].finish_text);
            failed++;
            named += strstr(f.peers[i].finish_text, "shard 6 of step") != NULL &&
                     strstr(f.peers[i].finish_text, "is poison") != NULL;
            flock_kill(&f, i);
        }
    }
    cr_assert_eq(failed + flock_finished(&f, GW_FINISH_FAILED), 5);
    cr_assert_geq(named, 1, "%u failed", failed);
    flock_close(&f);
}

Test(peer_faults, a_shard_is_named_by_last_words_that_come_after_the_death) {
    bring_last_words(100000);
    bring_last_words(200000000); /* gossip is faster than votes */
}

/* ---- shards that were computed together ---- */

/* Three lives of this peer were lost while they computed these; what it says of it. */
static const char *named(const uint32_t *shards, uint32_t count) {
    static char text[600];
    gw_shard_death fell[24];
    flock f;
    flock_open(&f, 1, 1, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3 * count; i++)
        fell[i] = (gw_shard_death){
            .id = f.peers[0].config.id, .boot = 1 + i / count, .step = 5, .shard = shards[i % count]};
    f.peers[0].config.incarnation.boot = 3;
    f.peers[0].fell_before = fell;
    f.peers[0].fell_before_count = 3 * count;
    flock_start(&f, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[0].finish, GW_FINISH_FAILED);
    memcpy(text, f.peers[0].finish_text, sizeof text);
    flock_close(&f);
    return text;
}

Test(peer_faults, of_shards_computed_together_all_are_named_that_it_may_be) {
    static const uint32_t shards[] = {5, 4, 9, 7, 8, 6};
    static const char *const texts[] = {"shard 5 of step 5 is poison:",
                                        "shard 4 or 5 of step 5 is poison:",
                                        "shard 4, 5 or 9 of step 5 is poison:",
                                        "shard 4, 5, 7 or 9 of step 5 is poison:",
                                        "shard 4, 5, 7, 8 or one of 1 more of step 5 is poison:",
                                        "shard 4, 5, 6, 7 or one of 2 more of step 5 is poison:"};
    for (uint32_t count = 1; count <= 6; count++) {
        const char *text = named(shards, count);
        cr_expect_eq(strncmp(text, texts[count - 1], strlen(texts[count - 1])), 0, "%s", text);
    }
}

/* ---- what is said of a checkpoint ---- */

Test(peer_faults, who_has_not_read_a_checkpoint_has_not_resumed) {
    flock f;
    flock_open(&f, 2, 2, 60, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    f.peers[1].reads_hang = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[0].finish, GW_FINISH_DONE, "%s", f.peers[0].finish_text);
    cr_expect(f.peers[0].resuming == 1 && f.peers[0].resumed == 1);
    cr_expect(f.peers[1].resuming == 1 && f.peers[1].resumed == 0);
    flock_close(&f);
}
