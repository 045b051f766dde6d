/* What a peer that is convicted tells, and what it gives up once it hears so. */
#include "core/brain/faults/verdicts.h"
#include "tests/core/brain/faults/convicted.h"

#include <stdlib.h>

/* ---- what a vote may tell ---- */

enum { KNOWS, TELLS, THIRD, VOTERS }; /* peers 1, 2 and 3 */
enum { LATER = 40 };                  /* the view that they vote for */

typedef struct voters { /* 1 knows that 2 was convicted, in view 3 at step 10; 3 knows nothing */
    gw_attempt *attempt;
    gw_install *install;
    gw_report *told[VOTERS];
} voters;

static gw_inventory checkpoint(uint64_t step) {
    return (gw_inventory){.step = step, .root = {{(uint8_t)step}}, .chunks = gw_set_of(4)};
}

/* 2 tells of a state of step 30, and of checkpoints of steps 30, 20 and 10; the others of nothing. */
static voters assemble(void) {
    voters v = {.attempt = calloc(1, sizeof *v.attempt), .install = calloc(1, sizeof *v.install)};
    cr_assert(v.attempt != NULL && v.install != NULL);
    v.attempt->view.count = VOTERS;
    v.attempt->view.epoch = LATER;
    for (uint32_t i = 0; i < VOTERS; i++) {
        v.told[i] = v.attempt->reports[i] = calloc(1, sizeof *v.told[i]);
        cr_assert(v.told[i] != NULL);
        v.attempt->view.members[i] = (gw_member){{{(uint8_t)(i + 1)}}, 1, 1};
    }
    gw_report *r = v.told[TELLS];
    r->has_state = true;
    r->step = r->whole_step = 30;
    r->whole_root = (gw_hash){{30}};
    r->recorded_epoch = 2;
    r->installed_epoch = 3;
    for (; r->inventory_count < 3; r->inventory_count++)
        r->inventory[r->inventory_count] = checkpoint(30 - 10 * (uint64_t)r->inventory_count);
    v.told[KNOWS]->convictions = (gw_convictions){.count = 1, .list = {{{{2}}, 3, 10, 0}}};
    return v;
}

static void discount(voters *v, bool majority) {
    gw_verdicts_unite(v->attempt, majority, &v->install->convictions);
    gw_verdicts_discount(v->attempt, majority, v->install);
    gw_verdicts_spare(v->attempt, v->install);
}

static void dismiss(voters *v) {
    for (uint32_t i = 0; i < VOTERS; i++) gw_report_free(v->told[i]);
    gw_install_free(v->install);
    free(v->attempt);
}

/* As long as it is not on record it is told so again, as a later life of it may have to be. */
Test(peer_verdicts_kept, what_a_convicted_peer_tells_counts_for_nothing_until_it_has_heard) {
    typedef struct hearing {
        uint64_t heard, recorded;
        bool counts, told_again;
    } hearing;
    const hearing all[] = {{2, 2, false, true},
                           {3, 2, true, true},
                           {3, 3, true, false},
                           {LATER, LATER, false, true},
                           {LATER, 2, false, true}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        voters v = assemble();
        bool counts = all[k].counts;
        v.told[TELLS]->heard_epoch = all[k].heard;
        v.told[TELLS]->recorded_epoch = all[k].recorded;
        discount(&v, false);
        cr_expect_eq(v.told[TELLS]->has_state, counts, "%zu", k);
        cr_expect_eq(v.told[TELLS]->inventory_count, counts ? 3 : 1, "%zu", k);
        cr_expect_eq(v.told[TELLS]->whole_step, counts ? 30 : 0, "%zu", k);
        cr_expect_eq(v.install->convictions.count, all[k].told_again, "%zu", k);
        cr_expect_eq(v.install->spared_count, 0, "%zu", k);
        dismiss(&v);
    }
}

/* Nobody saves alone, and a state that all agree on may have been shown. */
Test(peer_verdicts_kept, where_a_majority_rules_its_state_counts_in_a_later_view_or_if_nobody_else_has_it) {
    typedef struct hearing {
        uint64_t step, installed_epoch;
        bool others_have_it, counts;
    } hearing;
    const hearing all[] = {{30, 3, true, false},  /* what it has made since */
                           {30, 3, false, false}, /* what others saw to be wrong */
                           {30, 4, true, true},   /* in a later view all agreed on it */
                           {10, 3, true, false},
                           {10, 3, false, true}}; /* what all had agreed on before */
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        voters v = assemble();
        v.told[TELLS]->step = all[k].step;
        v.told[TELLS]->installed_epoch = all[k].installed_epoch;
        v.told[THIRD]->has_state = all[k].others_have_it;
        v.told[THIRD]->installed_epoch = 3;
        discount(&v, true);
        cr_expect_eq(v.told[TELLS]->has_state, all[k].counts, "%zu", k);
        cr_expect_eq(v.install->convictions.count, !all[k].counts, "%zu", k);
        cr_expect_eq(v.told[TELLS]->inventory_count, 3);
        dismiss(&v);
    }
}

/* Its own disk may have taken nothing of it. */
Test(peer_verdicts_kept, a_checkpoint_that_others_know_as_well_counts_and_stays) {
    for (int refused = 0; refused < 2; refused++) {
        voters v = assemble();
        if (refused) {
            v.told[THIRD]->whole_step = 20;
            v.told[THIRD]->whole_root = (gw_hash){{20}};
        } else {
            v.told[THIRD]->inventory[v.told[THIRD]->inventory_count++] = checkpoint(20);
        }
        discount(&v, false);
        cr_expect_not(v.told[TELLS]->has_state);
        cr_expect_eq(v.told[TELLS]->inventory_count, 2);
        cr_assert_eq(v.install->spared_count, 1);
        cr_expect(gw_hash_equal(&v.install->spared[0], &(gw_hash){{20}}));
        dismiss(&v);
    }
}

/* Somebody was away who knows of an earlier one, which has been heard since. */
Test(peer_verdicts_kept, an_old_conviction_makes_no_new_one_reach_further_back) {
    voters v = assemble();
    v.told[KNOWS]->convictions.list[0] = (gw_conviction){{{2}}, 20, 25, 0};
    v.told[THIRD]->convictions = (gw_convictions){.count = 1, .list = {{{{2}}, 3, 10, 0}}};
    v.told[TELLS]->recorded_epoch = 3;
    discount(&v, false);
    cr_expect_eq(v.install->convictions.list[0].step, 25);
    cr_expect_eq(v.told[TELLS]->inventory_count, 2);
    dismiss(&v);
}

/* ---- what is given up ---- */

/* Nothing is deleted at once; the next checkpoint does that. A later life of the peer does not bring it back
 * either. */
Test(peer_verdicts_kept, what_is_given_up_is_told_no_more_though_it_is_on_the_disk) {
    flock f;
    convict_and_part(&f, 3, 2);
    flock_run_for(&f, SECONDS / 10);
    const uint64_t alone = f.peers[2].saved_step;
    cr_assert_gt(alone, f.peers[0].step);
    const uint32_t loads[2] = {f.peers[0].loads, f.peers[1].loads};
    for (uint32_t i = 0; i < 2; i++) flock_mend(&f, i, 2);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    cr_expect_eq(f.peers[2].saved_step, alone, "it is there still");
    const gw_peer *brain = f.peers[2].brain;
    for (uint32_t i = 0; i < brain->inventory.count; i++) cr_expect_lt(brain->inventory.list[i].step, alone);
    cr_expect(brain->save.saved_step == UINT64_MAX || brain->save.saved_step < alone);
    flock_run_for(&f, SECONDS / 10);
    flock_kill(&f, 2);
    RUN_UNTIL(computing(&f, 0, 2) && computing(&f, 1, 2));
    flock_start(&f, 2);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    for (uint32_t i = 0; i < 2; i++) cr_expect_eq(f.peers[i].loads, loads[i], "peer %u", i);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 0;
    RUN_UNTIL(f.peers[2].saved_step > alone);
    cr_expect_eq(f.peers[2].brain->save.given_up.count, 0, "the flock has come to it");
    flock_close(&f);
}

static bool both_went_on(const flock *f) {
    return flock_in_view_of(f, 2, 2) && flock_in_view_of(f, 3, 2) && f->peers[2].step > f->peers[0].step + 8;
}

/* A fourth peer, of whom nobody has doubts, has joined the convicted one, and knows both checkpoints to be
 * complete, whether its own disk took them or not. */
Test(peer_verdicts_kept, checkpoints_that_an_innocent_peer_knows_stay_on_the_convicted_ones_disk) {
    for (int full = 0; full < 2; full++) {
        flock f;
        flock_open(&f, 4, 3, 400, GW_QUORUM_ANY);
        f.verify = GW_VERIFY_WHOLE;
        f.checkpoint_steps = 2;
        for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        convict_2(&f);
        for (uint32_t i = 0; i < 2; i++) {
            for (uint32_t k = 2; k < 4; k++) flock_cut(&f, i, k, true);
            f.peers[i].seal_ns = 60 * SECONDS;
        }
        f.peers[3].disk_full = full;
        f.peers[3].config.seeds[0] = f.peers[2].config.addrs[0];
        f.peers[2].seal_ns = f.peers[3].seal_ns = SECONDS / 20;
        flock_start(&f, 3);
        cr_assert(flock_run(&f, both_went_on, MOST_EVENTS));
        f.peers[2].seal_ns = f.peers[3].seal_ns = 60 * SECONDS;
        flock_run_for(&f, SECONDS / 5);
        const gw_peer *innocent = f.peers[3].brain, *convicted = f.peers[2].brain;
        cr_assert_eq(innocent->save.kept_count, 2);
        const gw_hash older = innocent->save.kept[0].root, newer = innocent->save.kept[1].root;
        for (uint32_t i = 0; i < 2; i++)
            for (uint32_t k = 2; k < 4; k++) flock_mend(&f, i, k);
        RUN_UNTIL(computing(&f, 0, 4) && computing(&f, 2, 4));
        cr_expect_neq(convicted->faults.heard_epoch, 0);
        cr_expect(gw_peer_inventory_find(&convicted->inventory, &newer) != NULL, "full %d", full);
        cr_expect(full || gw_peer_inventory_find(&convicted->inventory, &older) != NULL);
        flock_close(&f);
    }
}

/* Who was convicted by a flock that counted far must hear one that has begun to count anew. */
Test(peer_verdicts_kept, a_flock_that_begins_anew_counts_on_from_what_its_members_have_heard) {
    flock f;
    open_verified(&f, 3);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].wrongs = 1;
    RUN_UNTIL(f.peers[2].corruptions > 0 && computing(&f, 2, 3));
    const uint64_t heard = f.peers[2].brain->faults.heard_epoch;
    cr_assert_gt(heard, 0);
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    flock_start_all(&f);
    RUN_UNTIL(computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    cr_expect_gt(f.peers[2].brain->view.current.epoch, heard);
    cr_expect_eq(f.peers[2].brain->faults.heard_epoch, heard, "it is on record");
    flock_close(&f);
}

/* 2 is, and has heard it, but its disk takes no record of that. */
static const gw_peer *convict_unrecorded(flock *f) {
    open_verified(f, 3);
    for (uint32_t i = 0; i < 3; i++) f->peers[i].seal_ns = SECONDS / 20;
    f->peers[2].persists_fail = true;
    f->peers[2].wrongs = 1;
    while (f->peers[2].corruptions == 0 || !computing(f, 2, 3)) cr_assert(!flock_run(f, NULL, 1));
    const gw_peer *convicted = f->peers[2].brain;
    cr_assert_gt(convicted->faults.heard_epoch, 0);
    cr_assert_eq(convicted->faults.recorded_epoch, 0);
    return convicted;
}

/* What it holds since it has from the others, and no longer does it bring what it had before. */
Test(peer_verdicts_kept, who_has_heard_holds_what_counts_though_its_disk_is_full) {
    flock f;
    const gw_peer *convicted = convict_unrecorded(&f);
    const uint32_t loads[3] = {f.peers[0].loads, f.peers[1].loads, f.peers[2].loads};
    f.sum_for = 3;
    RUN_UNTIL(f.sum_for == 0 && computing(&f, 0, 3) && computing(&f, 1, 3) && computing(&f, 2, 3));
    cr_expect_eq(convicted->faults.recorded_epoch, 0);
    for (uint32_t i = 0; i < 3; i++) cr_expect_eq(f.peers[i].loads, loads[i] + (i < 2), "peer %u", i);
    flock_close(&f);
}

Test(peer_verdicts_kept, who_has_heard_has_it_recorded_though_its_disk_is_full_for_a_while) {
    flock f;
    const gw_peer *convicted = convict_unrecorded(&f);
    flock_run_for(&f, 3 * SECONDS);
    cr_expect_eq(convicted->faults.recorded_epoch, 0);
    cr_expect_not(f.peers[2].finished, "that is worth no failing: %s", f.peers[2].finish_text);
    f.peers[2].persists_fail = false;
    flock_run_for(&f, 2 * SECONDS);
    cr_expect_eq(convicted->faults.recorded_epoch, convicted->faults.heard_epoch);
    flock_close(&f);
}
