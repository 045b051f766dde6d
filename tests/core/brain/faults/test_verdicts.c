/* Verdicts that a peer does not hear, as it is cut off before: it goes on alone, and comes back ahead. */
#include "tests/core/brain/faults/convicted.h"

/* They fetch nothing of it. In a later view it is one of them again. */
Test(peer_verdicts, who_went_on_alone_is_bound_by_a_verdict_that_it_has_not_heard) {
    flock f;
    convict_and_part(&f, 3, 0);
    cr_assert_eq(f.peers[2].corruptions, 0, "it has not heard it");
    const uint32_t loads[3] = {f.peers[0].loads, f.peers[1].loads, f.peers[2].loads};
    const uint64_t step = f.peers[2].step;
    for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    f.peers[2].shown_step = 0; /* what it has shown alone is made again */
    cr_expect_lt(f.peers[2].step, step);
    cr_expect_eq(f.peers[2].corruptions, 1, "it hears it now");
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(f.peers[i].loads, loads[i] + (i == 2), "peer %u", i);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 0;
    RUN_UNTIL(f.peers[2].step >= step);
    flock_kill(&f, 1);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    cr_expect_eq(f.peers[2].loads, loads[2] + 1, "what it has fetched since counts");
    cr_expect_eq(f.peers[2].corruptions, 1, "once");
    flock_close(&f);
}

Test(peer_verdicts, what_a_convicted_peer_saved_alone_is_not_loaded) {
    for (int restart = 0; restart < 2; restart++) {
        flock f;
        convict_and_part(&f, 3, 2);
        flock_run_for(&f, SECONDS / 10);
        const uint32_t loads[2] = {f.peers[0].loads, f.peers[1].loads};
        if (restart) flock_kill(&f, 2);
        for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
        if (restart) flock_start(&f, 2);
        RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
        for (uint32_t i = 0; i < 2; i++)
            cr_expect_eq(f.peers[i].loads, loads[i], "peer %u, restart %d", i, restart);
        cr_expect_eq(f.peers[2].brain->faults.times_wrong, restart ? 0 : 1, "it was that life's");
        flock_kill(&f, 1); /* with it left out of that vote alone it is told again here */
        RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 2, 2));
        cr_expect_eq(f.peers[0].loads, loads[0], "in the next view");
        flock_close(&f);
    }
}

Test(peer_verdicts, they_outlast_a_rolling_restart_of_those_who_reached_them) {
    flock f;
    convict_and_part(&f, 3, 0);
    f.peers[2].seal_ns = SECONDS / 2;
    RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 1, 2));
    for (uint32_t i = 0; i < 2; i++) {
        f.peers[i].config.seed_count = 1;
        f.peers[i].config.seeds[0] = f.peers[1 - i].config.addrs[0];
        flock_kill(&f, i);
        flock_run_for(&f, 3 * SECONDS);
        flock_start(&f, i);
        RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 1, 2));
    }
    f.peers[2].seal_ns = 10 * SECONDS;
    const uint32_t loads[2] = {f.peers[0].loads, f.peers[1].loads};
    for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3));
    for (uint32_t i = 0; i < 2; i++) cr_expect_eq(f.peers[i].loads, loads[i], "peer %u", i);
    flock_close(&f);
}

Test(peer_verdicts, eight_lives_of_one_peer_do_not_push_out_anothers) {
    flock f;
    convict_and_part(&f, 4, 0);
    f.peers[2].seal_ns = 2 * SECONDS;
    f.peers[0].seal_ns = f.peers[1].seal_ns = f.peers[3].seal_ns = SECONDS;
    for (uint32_t k = 0; k < 8; k++) { /* 7: passes */
        RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 1, 2));
        flock_start(&f, 3);
        RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 3, 3));
        uint32_t told = f.peers[0].corruptions;
        f.peers[3].wrongs = 1;
        RUN_UNTIL(f.peers[0].corruptions > told);
        flock_run_for(&f, SECONDS / 100);
        flock_kill(&f, 3);
    }
    RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 1, 2));
    f.peers[2].seal_ns = SECONDS / 1000;
    RUN_UNTIL(f.peers[2].step >= f.peers[0].step + 5);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 10 * SECONDS;
    const uint32_t loads[2] = {f.peers[0].loads, f.peers[1].loads};
    for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    for (uint32_t i = 0; i < 2; i++) cr_expect_eq(f.peers[i].loads, loads[i], "peer %u", i);
    flock_close(&f);
}

static bool all_but_the_accused_have_testified(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        const gw_peer *p = f->peers[i].brain;
        uint32_t heard = 0;
        if (p->phase != GW_AT_DISPUTING) return false;
        for (uint32_t k = 0; k < p->view.current.count; k++)
            heard += p->faults.testimony.shard[k] == p->faults.dispute.shard + 1;
        if (i != 2 && heard < p->view.current.count - 1) return false;
    }
    return true;
}

Test(peer_verdicts, no_word_of_the_accused_is_needed_where_the_others_agree) {
    flock f;
    open_verified(&f, 4);
    f.breaks = (flock_break){.kind = GW_MSG_WITNESS, .from = 2, .to = -1, .times = UINT32_MAX, .quiet = true};
    f.peers[2].wrongs = 1;
    RUN_UNTIL(all_but_the_accused_have_testified(&f) || f.peers[0].corruptions > 0);
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 2) continue;
        flock_cut(&f, i, 2, true);
        f.peers[i].seal_ns = 10 * SECONDS;
    }
    f.breaks = (flock_break){0};
    cr_assert(flock_run(&f, is_ahead_alone, MOST_EVENTS));
    f.peers[2].seal_ns = 10 * SECONDS;
    const uint32_t loads = f.peers[0].loads;
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2) flock_mend(&f, i, 2);
    RUN_UNTIL(computing(&f, 0, 4) && computing(&f, 2, 4));
    cr_expect_eq(f.peers[0].loads, loads, "it fetched the state of the accused");
    flock_close(&f);
}

/* After a sum that all agreed about peer 2's state becomes another one, and a member dies before the next
 * sum. */
static void outvote_2(flock *pf, uint32_t *leader, uint32_t *stays, bool install_lost) {
    flock_open(pf, 4, 4, 400, GW_QUORUM_ANY);
    pf->verify = GW_VERIFY_WHOLE;
    flock_start_all(pf);
    cr_assert(flock_run(pf, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) pf->peers[i].seal_ns = 5 * SECONDS;
    flock_run_for(pf, SECONDS / 10);
    *leader = flock_leader(pf);
    cr_assert(*leader != 2 && pf->peers[2].step == pf->peers[*leader].step);
    uint32_t dies = *leader == 3 ? 1 : 3;
    *stays = 4 - *leader - dies;
    pf->peers[2].brain->state.fingerprint ^= 1;
    if (install_lost)
        pf->breaks =
            (flock_break){.kind = GW_MSG_INSTALL, .from = -1, .to = 2, .times = UINT32_MAX, .quiet = true};
    flock_kill(pf, dies);
    while (!flock_in_view_of(pf, *leader, 3) || !flock_in_view_of(pf, *stays, 3))
        cr_assert(!flock_run(pf, NULL, 1));
}

Test(peer_verdicts, who_is_outvoted_after_a_good_sum_is_named) {
    flock f;
    uint32_t leader, stays;
    outvote_2(&f, &leader, &stays, false);
    RUN_UNTIL(flock_in_view_of(&f, 2, 3));
    cr_expect_eq(f.peers[2].loads, 2, "it was outvoted, and fetched the state");
    cr_expect_gt(f.peers[leader].corruptions + f.peers[2].corruptions, 0, "nobody says so");
    cr_assert_eq(f.peers[leader].brain->faults.convictions.count, 1);
    cr_expect_eq(f.peers[leader].brain->faults.convictions.list[0].step, f.peers[leader].step - 1,
                 "the state of that step is the wrong one");
    cr_expect_eq(f.peers[leader].brain->faults.convictions.list[0].boot, f.peers[2].config.incarnation.boot);
    flock_close(&f);
}

Test(peer_verdicts, who_was_outvoted_and_cut_off_is_not_believed_later) {
    for (int proposer_dies = 0; proposer_dies < 2; proposer_dies++) {
        flock f;
        uint32_t leader, stays;
        outvote_2(&f, &leader, &stays, true);
        flock_cut(&f, leader, 2, true);
        flock_cut(&f, stays, 2, true);
        f.breaks = (flock_break){0};
        f.peers[2].seal_ns = SECONDS / 2;
        RUN_UNTIL(flock_in_view_of(&f, leader, 2));
        RUN_UNTIL(flock_in_view_of(&f, 2, 1) && f.peers[2].step > f.peers[stays].step + 4);
        f.peers[2].seal_ns = 5 * SECONDS;
        if (proposer_dies) {
            flock_kill(&f, leader);
            RUN_UNTIL(flock_in_view_of(&f, stays, 1));
        }
        const uint32_t loads = f.peers[stays].loads;
        if (!proposer_dies) flock_mend(&f, leader, 2);
        flock_mend(&f, stays, 2);
        RUN_UNTIL(flock_in_view_of(&f, 2, proposer_dies ? 2 : 3));
        flock_run_for(&f, SECONDS / 10);
        cr_expect_eq(f.peers[stays].loads, loads, "it fetched that state; proposer dies: %d", proposer_dies);
        flock_close(&f);
    }
}

/* It has heard that its state was wrong with the view in which it computes a shard wrong, and is cut off. */
Test(peer_verdicts, who_is_convicted_again_in_the_view_that_told_it_so_is_bound_as_well) {
    flock f;
    uint32_t leader, stays;
    outvote_2(&f, &leader, &stays, false);
    RUN_UNTIL(computing(&f, leader, 3) && computing(&f, stays, 3) && computing(&f, 2, 3));
    const uint64_t epoch = f.peers[2].brain->view.current.epoch;
    f.breaks = (flock_break){.kind = GW_MSG_WITNESS, .from = -1, .to = 2, .times = UINT32_MAX, .quiet = true};
    f.peers[2].wrongs = 1;
    const uint32_t before[2] = {f.peers[leader].corruptions, f.peers[stays].corruptions};
    RUN_UNTIL(f.peers[leader].corruptions > before[0] && f.peers[stays].corruptions > before[1]);
    cr_assert_eq(f.peers[2].brain->view.current.epoch, epoch);
    flock_cut(&f, leader, 2, true);
    flock_cut(&f, stays, 2, true);
    f.peers[leader].seal_ns = f.peers[stays].seal_ns = 10 * SECONDS;
    f.peers[2].seal_ns = SECONDS / 1000;
    f.breaks = (flock_break){0};
    RUN_UNTIL(flock_in_view_of(&f, 2, 1) && f.peers[2].step > f.peers[leader].step + 4);
    f.peers[2].seal_ns = 10 * SECONDS;
    const uint32_t loads[2] = {f.peers[leader].loads, f.peers[stays].loads};
    flock_mend(&f, leader, 2);
    flock_mend(&f, stays, 2);
    RUN_UNTIL(f.peers[2].finished);
    cr_expect_eq(f.peers[2].finish, GW_FINISH_FAILED, "its second fault");
    cr_expect_eq(f.peers[leader].loads, loads[0]);
    cr_expect_eq(f.peers[stays].loads, loads[1]);
    flock_close(&f);
}

/* By majority, with float sums: it alone still holds what all have agreed on, and shown. */
Test(peer_verdicts, what_was_shown_is_not_taken_back_for_a_conviction) {
    flock f;
    flock_open(&f, 3, 3, 60, GW_QUORUM_MAJORITY);
    f.verify = GW_VERIFY_WHOLE;
    f.checkpoint_steps = 4;
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].config.fast = true;
        f.peers[i].config.effects = false;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    convict_2(&f);
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    const uint64_t shown = f.peers[2].shown_step;
    f.peers[2].shown_step = 0;
    flock_start(&f, 0);
    RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 2, 2));
    cr_expect_geq(f.peers[0].step, shown);
    flock_close(&f);
}

static bool is_ahead_again(const flock *f) {
    return flock_in_view_of(f, 2, 1) && f->peers[2].step > f->peers[0].step + 6;
}

/* It has loaded what it saved before it heard, and the fetch of what the others hold fails. */
Test(peer_verdicts, what_a_convicted_peer_has_loaded_does_not_count_once_it_has_heard) {
    for (int unrecorded = 0; unrecorded < 2; unrecorded++) {
        flock f;
        convict_and_part(&f, 3, 2);
        flock_run_for(&f, SECONDS / 10);
        flock_kill(&f, 2);
        f.peers[2].persists_fail = unrecorded;
        for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
        f.breaks =
            (flock_break){.kind = GW_MSG_INSTALL, .from = -1, .to = 2, .times = UINT32_MAX, .quiet = true};
        flock_start(&f, 2);
        RUN_UNTIL(f.peers[2].brain->view.ballot.voted > 0);
        for (uint32_t i = 0; i < 2; i++) flock_cut(&f, i, 2, true);
        f.breaks = (flock_break){0};
        f.peers[2].seal_ns = SECONDS / 100;
        RUN_UNTIL(is_ahead_again(&f));
        f.peers[2].seal_ns = 10 * SECONDS;
        cr_assert_gt(f.peers[2].brain->view.loaded_epoch, f.peers[0].brain->faults.convictions.list[0].epoch);
        const uint32_t loads[2] = {f.peers[0].loads, f.peers[1].loads};
        f.peers[2].loads_to_fail = 1;
        for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
        RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
        cr_expect_eq(f.peers[2].loads_to_fail, 0);
        for (uint32_t i = 0; i < 2; i++)
            cr_expect_eq(f.peers[i].loads, loads[i], "%d: peer %u", unrecorded, i);
        cr_expect_eq(f.peers[2].brain->faults.times_wrong, 0, "it was another life's");
        flock_close(&f);
    }
}
