/* Verdicts that a peer does not hear, as it is cut off before: it goes on alone, and comes back ahead. */
#include "flock.h"

#include "core/peer_state.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 400000 };
#define SECONDS UINT64_C(1000000000)
#define RUN_UNTIL(condition)                                                                                 \
    while (!(condition)) cr_assert(!flock_run(&f, NULL, 1))

static bool computing(const flock *f, uint32_t i, uint32_t members) {
    return flock_in_view_of(f, i, members) && strcmp(flock_status(f, i).phase, "computing") == 0;
}

static bool others_know_the_verdict(const flock *f) {
    return f->peers[0].corruptions > 0 && f->peers[1].corruptions > 0;
}

static bool is_ahead_alone(const flock *f) {
    return flock_in_view_of(f, 2, 1) && f->peers[2].step > f->peers[0].step + 3;
}

/* Peer 2 of three is convicted by 0 and 1, is cut off before it hears so, and goes on alone. */
static void convict_and_part(flock *f, uint32_t count, uint64_t checkpoint_steps) {
    flock_open(f, count, 3, 400, GW_QUORUM_ANY);
    f->verify = GW_VERIFY_WHOLE;
    f->checkpoint_steps = checkpoint_steps;
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    f->breaks =
        (flock_break){.kind = GW_MSG_WITNESS, .from = -1, .to = 2, .times = UINT32_MAX, .quiet = true};
    f->peers[2].wrongs = 1;
    cr_assert(flock_run(f, others_know_the_verdict, MOST_EVENTS));
    for (uint32_t i = 0; i < count; i++) {
        if (i == 2) continue;
        flock_cut(f, i, 2, true);
        f->peers[i].seal_ns = 10 * SECONDS;
    }
    f->breaks = (flock_break){0};
    cr_assert(flock_run(f, is_ahead_alone, MOST_EVENTS));
    f->peers[2].seal_ns = 10 * SECONDS;
}

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
        for (uint32_t k = 0; k < p->view.count; k++) heard += p->testimony.shard[k] == p->dispute.shard + 1;
        if (i != 2 && heard < p->view.count - 1) return false;
    }
    return true;
}

Test(peer_verdicts, no_word_of_the_accused_is_needed_where_the_others_agree) {
    flock f;
    flock_open(&f, 4, 4, 400, GW_QUORUM_ANY);
    f.verify = GW_VERIFY_WHOLE;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
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
    flock_start_all(pf);
    cr_assert(flock_run(pf, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) pf->peers[i].seal_ns = 5 * SECONDS;
    flock_run_for(pf, SECONDS / 10);
    *leader = flock_leader(pf);
    cr_assert(*leader != 2 && pf->peers[2].step == pf->peers[*leader].step);
    uint32_t dies = *leader == 3 ? 1 : 3;
    *stays = 4 - *leader - dies;
    pf->peers[2].brain->fingerprint ^= 1;
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
    cr_expect_eq(f.peers[leader].brain->convictions.count, 1);
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

/* ---- what a vote may tell ---- */

typedef struct hearing { /* peer 1 tells of a conviction of peer 2, in view 3 at step 10 */
    uint64_t heard_epoch, installed_epoch;
    bool majority, others_have_it; /* the checkpoint of step 20 */
} hearing;

typedef struct believed { /* of peer 2, which told of a state, and of checkpoints of steps 30, 20 and 10 */
    bool state, convicted;
    uint32_t checkpoints, spared;
    uint64_t whole_step;
} believed;

static gw_report *told(uint32_t checkpoints) {
    gw_report *r = calloc(1, sizeof *r);
    cr_assert(r != NULL);
    r->inventory_count = checkpoints;
    for (uint32_t i = 0; i < checkpoints; i++)
        r->inventory[i] =
            (gw_inventory){.step = 30 - 10 * i, .root = {{(uint8_t)(30 - 10 * i)}}, .chunks = gw_set_of(4)};
    return r;
}

static believed discount(const hearing *h) {
    gw_attempt *attempt = calloc(1, sizeof *attempt);
    gw_install *install = calloc(1, sizeof *install);
    cr_assert(attempt != NULL && install != NULL);
    gw_report *knows = told(0), *tells = told(3);
    knows->convictions = (gw_convictions){.count = 1, .list = {{{{2}}, 3, 10}}};
    if (h->others_have_it) {
        knows->inventory_count = 1;
        knows->inventory[0] = (gw_inventory){.step = 20, .root = {{20}}, .chunks = gw_set_of(4)};
    }
    tells->has_state = true;
    tells->whole_step = 30;
    tells->heard_epoch = h->heard_epoch;
    tells->installed_epoch = h->installed_epoch;
    attempt->view.count = 2;
    attempt->view.members[0] = (gw_member){{{1}}, 1, 1};
    attempt->view.members[1] = (gw_member){{{2}}, 1, 1};
    attempt->reports[0] = knows;
    attempt->reports[1] = tells;
    gw_verdicts_discount(attempt, h->majority, install);
    const believed result = {tells->has_state, install->convictions.count == 1, tells->inventory_count,
                             install->spared_count, tells->whole_step};
    cr_expect(result.spared == 0 || gw_hash_equal(&install->spared[0], &knows->inventory[0].root));
    gw_report_free(knows);
    gw_report_free(tells);
    gw_install_free(install);
    free(attempt);
    return result;
}

Test(peer_verdicts, what_a_convicted_peer_tells_counts_for_nothing_until_it_has_heard) {
    for (int majority = 0; majority < 2; majority++) {
        const hearing not_yet = {2, 3, majority, false};
        believed b = discount(&not_yet);
        cr_expect(!b.state && b.convicted);
        cr_expect_eq(b.checkpoints, majority ? 3 : 1, "nobody saves alone where a majority rules");
        cr_expect_eq(b.whole_step, majority ? 30 : 0);
        const hearing by_now = {3, 3, majority, false};
        b = discount(&by_now);
        cr_expect(b.state && !b.convicted && b.checkpoints == 3 && b.whole_step == 30);
        const hearing in_a_later_view = {2, 4, majority, false};
        b = discount(&in_a_later_view);
        cr_expect_eq(b.state, majority, "alone, or with a majority that may have shown it");
        cr_expect_eq(b.convicted, !majority);
    }
}

Test(peer_verdicts, a_checkpoint_that_others_have_as_well_counts_and_stays) {
    const hearing shared = {2, 3, false, true};
    const believed b = discount(&shared);
    cr_expect(!b.state && b.convicted);
    cr_expect_eq(b.checkpoints, 2);
    cr_expect_eq(b.spared, 1);
}

/* ---- what is given up ---- */

/* Peer 2 has gone on alone, with checkpoints, and its disk hangs as it hears of its conviction. */
Test(peer_verdicts, what_a_disk_that_hangs_cannot_delete_is_told_no_more) {
    flock f;
    convict_and_part(&f, 3, 2);
    flock_run_for(&f, SECONDS / 10);
    const uint64_t alone = f.peers[2].saved_step;
    cr_assert_gt(alone, f.peers[0].step);
    f.peers[2].brain->disk_hangs = true;
    const uint32_t loads[2] = {f.peers[0].loads, f.peers[1].loads};
    for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    cr_expect_eq(f.peers[2].saved_step, alone, "it is there still");
    const gw_peer_inventory *known = &f.peers[2].brain->inventory;
    cr_expect(known->strays);
    for (uint32_t i = 0; i < known->count; i++) cr_expect_lt(known->list[i].step, alone);
    cr_expect(f.peers[2].brain->saved_step == UINT64_MAX || f.peers[2].brain->saved_step < alone);
    flock_kill(&f, 1);
    RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 2, 2));
    for (uint32_t i = 0; i < 1; i++) cr_expect_eq(f.peers[i].loads, loads[i]);
    flock_close(&f);
}

/* Who was convicted by a flock that counted far must hear one that has begun to count anew. */
Test(peer_verdicts, a_flock_that_begins_anew_counts_on_from_what_its_members_have_heard) {
    flock f;
    flock_open(&f, 3, 3, 400, GW_QUORUM_ANY);
    f.verify = GW_VERIFY_WHOLE;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].wrongs = 1;
    RUN_UNTIL(f.peers[2].corruptions > 0 && computing(&f, 2, 3));
    const uint64_t heard = f.peers[2].brain->heard_epoch;
    cr_assert_gt(heard, 0);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_start_all(&f);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    cr_expect_gt(f.peers[2].brain->view.epoch, heard);
    cr_expect_eq(f.peers[2].brain->heard_epoch, heard, "it is on record");
    flock_close(&f);
}
