/* What the brain decides, in a flock without faults other than the ones a test makes. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 400000 };

Test(peer, alone_it_runs_the_job_to_its_end) {
    flock f;
    flock_open(&f, 1, 1, 10, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 1);
    cr_assert_eq(f.peers[0].computed, 10 * FLOCK_SHARDS);
    flock_close(&f);
}

Test(peer, four_share_each_step_and_compute_no_shard_twice) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        flock_open(&f, 4, 4, 20, (gw_quorum)quorum);
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 4);
        uint32_t computed = 0;
        for (uint32_t i = 0; i < 4; i++) {
            computed += f.peers[i].computed;
            cr_assert_gt(f.peers[i].computed, 0);
            cr_assert(gw_hash_equal(&f.peers[i].final_root, &f.peers[0].final_root));
        }
        cr_assert_eq(computed, 20 * FLOCK_SHARDS);
        flock_close(&f);
    }
}

static void kill_one(gw_quorum quorum, bool leader) {
    flock f;
    flock_open(&f, 4, 4, 20, quorum);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t victim = flock_leader(&f);
    if (!leader) victim = (victim + 1) % 4;
    flock_kill(&f, victim);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

Test(peer, a_dead_follower_costs_no_step) {
    kill_one(GW_QUORUM_ANY, false);
}
Test(peer, a_dead_leader_costs_no_step) {
    kill_one(GW_QUORUM_ANY, true);
}
Test(peer, with_majorities_a_dead_follower_costs_no_step) {
    kill_one(GW_QUORUM_MAJORITY, false);
}
Test(peer, with_majorities_a_dead_leader_costs_no_step) {
    kill_one(GW_QUORUM_MAJORITY, true);
}

Test(peer, one_that_comes_late_is_admitted_and_works) {
    flock f;
    flock_open(&f, 4, 3, 1000, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_start(&f, 3);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 4);
    cr_assert_gt(f.peers[3].computed, 0);
    flock_close(&f);
}

Test(peer, killed_and_restarted_it_is_a_new_member) {
    flock f;
    flock_open(&f, 3, 3, 1000, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_kill(&f, 1);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_assert_gt(f.peers[1].step, 5);
    flock_close(&f);
}

Test(peer, all_killed_they_resume_from_the_checkpoint) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        flock_open(&f, 4, 4, 20, (gw_quorum)quorum);
        f.checkpoint_steps = 2;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        for (uint32_t i = 0; i < 4; i++) flock_kill(&f, i);
        uint32_t before = f.peers[0].computed + f.peers[1].computed + f.peers[2].computed;
        for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        uint32_t after = f.peers[0].computed + f.peers[1].computed + f.peers[2].computed;
        cr_assert_lt(after - before, 20 * FLOCK_SHARDS, "it did not start again from step 0");
        flock_close(&f);
    }
}

Test(peer, a_damaged_checkpoint_costs_only_itself) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    for (uint32_t i = 0; i < 2; i++) f.peers[i].damaged = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

Test(peer, a_minority_waits_when_a_majority_is_needed) {
    flock f;
    flock_open(&f, 5, 5, 50, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    uint64_t step = f.peers[3].step;
    cr_assert(!flock_run(&f, NULL, 20000));
    cr_assert_leq(f.peers[3].step, step + 1);
    cr_assert_leq(f.peers[4].step, step + 1);
    flock_close(&f);
}

Test(peer, the_operator_may_force_a_minority_to_go_on) {
    flock f;
    flock_open(&f, 5, 5, 50, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    cr_assert(!flock_run(&f, NULL, 20000));
    flock_tell(&f, 3, (gw_event){.kind = GW_EV_FORCE_VIEW});
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

Test(peer, another_job_is_turned_away_naming_both_values) {
    flock f;
    flock_open(&f, 3, 2, 5000, GW_QUORUM_ANY);
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].config.identity = "job=test\nlr=0.2\n";
    flock_start(&f, 2);
    for (int i = 0; i < 1000 && !f.peers[2].finished; i++) flock_run(&f, NULL, 100);
    cr_assert_eq(f.peers[2].finish, GW_FINISH_DENIED);
    cr_assert(strstr(f.peers[2].finish_text, "lr=0.1") != NULL, "%s", f.peers[2].finish_text);
    cr_assert(strstr(f.peers[2].finish_text, "lr=0.2") != NULL, "%s", f.peers[2].finish_text);
    cr_assert(!f.peers[0].finished && !f.peers[1].finished);
    flock_close(&f);
}

/* Before there is a flock: whoever is alone with its parameters goes, and is told both values. */
Test(peer, the_odd_one_of_three_is_turned_away) {
    for (uint32_t odd = 0; odd < 3; odd++) {
        flock f;
        flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
        f.peers[odd].config.identity = "job=test\nlr=0.2\n";
        flock_start_all(&f);
        cr_assert(!flock_run(&f, NULL, 2000));
        for (uint32_t i = 0; i < 3; i++) cr_assert_eq(f.peers[i].finished, i == odd, "peer %u of %u", i, odd);
        cr_assert_eq(f.peers[odd].finish, GW_FINISH_DENIED);
        cr_assert(strstr(f.peers[odd].finish_text, "theirs: lr=0.1, here: lr=0.2") != NULL, "%s",
                  f.peers[odd].finish_text);
        flock_kill(&f, odd);
        f.peers[odd].config.identity = "job=test\nlr=0.1\n";
        flock_start(&f, odd);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        flock_close(&f);
    }
}

/* Whoever comes first may be the odd one: the others are waited for. */
Test(peer, nobody_is_turned_away_before_all_are_here) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    f.peers[0].config.identity = "job=test\nlr=0.2\n";
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(!flock_run(&f, NULL, 2000));
    cr_assert(!f.peers[0].finished && !f.peers[1].finished);
    flock_start(&f, 2);
    cr_assert(!flock_run(&f, NULL, 2000));
    for (uint32_t i = 0; i < 3; i++) cr_assert_eq(f.peers[i].finished, i == 0, "peer %u", i);
    flock_close(&f);
}

Test(peer, of_two_that_differ_one_is_turned_away) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    f.peers[1].config.identity = "job=test\nlr=0.2\n";
    flock_start_all(&f);
    cr_assert(!flock_run(&f, NULL, 2000));
    cr_assert(!f.peers[0].finished);
    cr_assert_eq(f.peers[1].finish, GW_FINISH_DENIED);
    flock_close(&f);
}

Test(peer, a_sum_without_one_shard_is_not_applied_but_repaired) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[1].loses_shard = true;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    gw_peer_status status;
    gw_peer_status_get(f.peers[0].brain, &status);
    cr_assert_geq(status.shards_repaired, 1);
    flock_close(&f);
}

/* The shard is dealt again in another view; nobody sums what lacks it. */
Test(peer, a_shard_that_is_given_back_is_dealt_again) {
    for (uint32_t loser = 0; loser < 3; loser++) {
        for (uint32_t shards = 1; shards <= 2; shards++) {
            flock f;
            flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
            flock_start_all(&f);
            cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
            f.peers[loser].gives_back = shards;
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            flock_expect_done(&f, 3);
            cr_assert_geq(flock_status(&f, 0).shards_repaired, 1);
            for (uint32_t i = 0; i < 3; i++)
                cr_assert_eq(flock_said(&f, i, "is not applied"), 0, "loser %u", loser);
            flock_close(&f);
        }
    }
}

Test(peer, who_gives_back_three_shards_of_a_step_gives_up_and_the_others_go_on) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.reason = "no payload";
    f.peers[1].gives_back = 1000;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_eq(f.peers[1].finish, GW_FINISH_FAILED);
    cr_assert(strstr(f.peers[1].finish_text, "no payload") != NULL, "%s", f.peers[1].finish_text);
    cr_assert_geq(1000 - f.peers[1].gives_back, 3);
    flock_kill(&f, 1);
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* Two peers of different jobs meet, and the one with the higher id is turned away. */
Test(peer, one_peer_of_another_job_is_one_such_peer) {
    flock f;
    flock_open(&f, 2, 2, 20, GW_QUORUM_ANY);
    f.peers[1].config.identity = "job=test\nlr=0.2\n";
    flock_start_all(&f);
    cr_assert(!flock_run(&f, NULL, 2000));
    uint32_t away = f.peers[1].finished ? 1 : 0;
    cr_assert_eq(f.peers[away].finish, GW_FINISH_DENIED);
    cr_assert_not_null(strstr(f.peers[away].finish_text, "There is 1 such peer, and 1 like this one. "), "%s",
                       f.peers[away].finish_text);
    flock_close(&f);
}

/* One that would go on after a partition where the others wait, or where the others stop: the flock could go
 * on twice. */
Test(peer, another_rule_is_turned_away_naming_both) {
    for (int skips = 0; skips < 2; skips++) {
        flock f;
        flock_open(&f, 3, 2, 5000, GW_QUORUM_MAJORITY);
        flock_start(&f, 0);
        flock_start(&f, 1);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        if (skips)
            f.peers[2].config.skip_bad = true;
        else
            f.peers[2].config.quorum = GW_QUORUM_ANY;
        flock_start(&f, 2);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        const char *text = f.peers[2].finish_text, *part = skips
                                                               ? "theirs: on-bad=stop, here: on-bad=skip"
                                                               : "theirs: quorum=majority, here: quorum=any";
        cr_assert_eq(f.peers[2].finish, GW_FINISH_DENIED);
        cr_assert_not_null(strstr(text, part), "%s", text);
        for (uint32_t i = 0; i < 2; i++) cr_assert_eq(f.peers[i].finish, GW_FINISH_DONE);
        flock_close(&f);
    }
}

Test(peer, a_bad_element_stops_every_peer_alike) {
    static const gw_tensor tensors[] = {{.name = "weight"}, {.name = "weight.grad"}};
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].config.tensors = tensors;
        f.peers[i].config.tensor_count = 2;
    }
    f.peers[1].bad_shard = f.peers[2].bad_shard = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(f.peers[i].finish, GW_FINISH_FAILED);
        cr_assert_str_eq(f.peers[i].finish_text, f.peers[0].finish_text);
        cr_assert(strstr(f.peers[i].finish_text, "shard 4, tensor weight.grad, element 7") != NULL, "%s",
                  f.peers[i].finish_text);
    }
    flock_close(&f);
}

Test(peer, a_poison_shard_is_named_before_it_has_killed_all) {
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 5; i++) f.peers[i].dies_at_shard = 6;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    uint32_t survivors = 0;
    for (uint32_t i = 0; i < 5; i++) {
        if (f.peers[i].brain == NULL) continue;
        survivors++;
        cr_assert_eq(f.peers[i].finish, GW_FINISH_FAILED);
        cr_assert(strstr(f.peers[i].finish_text, "shard 6 ") != NULL, "%s", f.peers[i].finish_text);
    }
    cr_assert_eq(survivors, 2);
    flock_close(&f);
}

static bool somebody_died(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain == NULL) return true;
    return false;
}

static bool somebody_died_or_all_ended(const flock *f) {
    return somebody_died(f) || flock_finished(f, GW_FINISH_FAILED) == f->count;
}

static bool all_survivors_know(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && flock_status(f, i).view->count == f->count) return false;
    return true;
}

static uint64_t restart_ns;

static bool it_is_time_to_restart(const flock *f) {
    return f->now >= restart_ns || flock_finished(f, GW_FINISH_FAILED) > 0;
}

static void expect_named(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        cr_assert(strstr(f->peers[i].finish_text, "shard 6 of step 5 is poison") != NULL, "peer %u of %u: %s",
                  i, f->count, f->peers[i].finish_text);
}

/* Whoever crashes or fails is started again, at once or when all have: too few to remember anything for each
 * other. */
static void supervise(uint32_t count, gw_quorum quorum, bool at_once) {
    flock f;
    flock_open(&f, count, count, 20, quorum);
    f.checkpoint_steps = 2;
    for (uint32_t i = 0; i < count; i++) {
        f.peers[i].dies_at_shard = 6;
        f.peers[i].dies_at_step = 5;
        f.peers[i].persist_ns = 3000000;
    }
    flock_start_all(&f);
    uint32_t deaths = 0;
    while (flock_finished(&f, GW_FINISH_FAILED) < count) {
        cr_assert(flock_run(&f, at_once ? somebody_died_or_all_ended : NULL, MOST_EVENTS));
        restart_ns = f.now + 1000000; /* the news of the death comes before the next life */
        flock_run(&f, it_is_time_to_restart,
                  MOST_EVENTS); /* false: nobody is left to whom anything happens */
        for (uint32_t i = 0; i < count; i++) {
            bool died = f.peers[i].brain == NULL;
            deaths += died;
            cr_assert_lt(deaths, 6, "%u peers: nobody names the shard", count);
            bool all_ended = flock_finished(&f, GW_FINISH_FAILED) == count;
            if (!died && (!f.peers[i].finished || all_ended)) continue;
            flock_kill(&f, i);
            flock_start(&f, i);
        }
    }
    cr_expect_geq(deaths, 3);
    expect_named(&f);
    for (uint32_t i = 0; i < count; i++) flock_kill(&f, i); /* on restart as well */
    for (uint32_t i = 0; i < count; i++) f.peers[i].finish_text[0] = '\0';
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_named(&f);
    for (uint32_t i = 0; i < count; i++) flock_kill(&f, i); /* until it is mended */
    for (uint32_t i = 0; i < count; i++) {
        f.peers[i].dies_at_shard = -1;
        f.peers[i].config.forget_losses = true;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, count);
    flock_close(&f);
}

Test(peer, a_poison_shard_is_named_where_all_that_crash_are_started_again) {
    for (uint32_t count = 1; count <= 3; count++) {
        supervise(count, GW_QUORUM_ANY, true);
        supervise(count, GW_QUORUM_ANY, false);
        supervise(count, GW_QUORUM_MAJORITY, true);
        supervise(count, GW_QUORUM_MAJORITY, false);
    }
}

static bool survivors_are_careful(const flock *f) {
    return f->peers[0].careful || f->peers[1].careful;
}

/* Three lives were lost, and each peer knows of its own. Together they name the shard, and a peer that
 * installs their view ends at once: its INSTALL comes after the news that it left. */
Test(peer, who_hears_late_of_a_view_that_its_leader_has_left_names_the_shard_too) {
    for (uint32_t late = 0; late < 3; late++) {
        flock f;
        flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].fell = (gw_shard_death){.id = f.peers[i].config.id, .boot = 1, .step = 5, .shard = 6};
            f.peers[i].config.incarnation.boot = 1;
            f.longer_ns[i][late] = 50000000;
        }
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS), "peer %u waits for the others", late);
        expect_named(&f);
        flock_close(&f);
    }
}

/* Who dies next may forget who died before; that is all. */
Test(peer, a_careful_step_waits_for_a_disk_that_hangs_no_longer_than_a_second) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) {
        f.peers[i].persists_hang = true;
        f.peers[i].dies_at_shard = 6;
        f.peers[i].dies_at_step = 5;
    }
    flock_start_all(&f);
    cr_assert(flock_run(&f, somebody_died, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) f.peers[i].dies_at_shard = -1;
    uint64_t died_ns = f.now;
    while (!survivors_are_careful(&f)) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert_geq(f.now, died_ns + UINT64_C(1000000000));
    cr_assert_leq(f.now, died_ns + UINT64_C(5000000000));
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

static bool peer_2_is_left_behind(const flock *f) {
    return f->peers[0].step > f->peers[2].step + 5 && f->peers[1].step > f->peers[2].step + 5;
}

typedef enum unseen { AT_ONCE, LATER, WHILE_IT_SLEEPS } unseen;

/* Peer 3 dies at a shard, and two that have claimed another one are cut off from peer 2 and die: at once, or
 * when they have got further, of which it has heard by gossip, or has not, as it stands still meanwhile. */
static void die_unseen(unseen when) {
    enum { CLAIMED = 7 };
    flock f;
    flock_open(&f, 4, 4, 200, GW_QUORUM_MAJORITY);
    f.peers[3].dies_at_shard = FLOCK_SHARDS - 1;
    f.peers[3].dies_at_step = 5;
    flock_start_all(&f);
    cr_assert(flock_run(&f, survivors_are_careful, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++)
        flock_tell(&f, i, (gw_event){.kind = GW_EV_CLAIM, .claim.shard = CLAIMED});
    flock_run(&f, NULL, 12); /* until peer 2 has heard it */
    cr_assert_eq(f.peers[2].step, 5);
    if (when == WHILE_IT_SLEEPS) flock_stop(&f, 2);
    for (uint32_t i = 0; i < 2; i++) flock_cut(&f, 2, i, when == WHILE_IT_SLEEPS);
    if (when != AT_ONCE) {
        cr_assert(flock_run(&f, peer_2_is_left_behind, MOST_EVENTS));
        flock_run(&f, NULL, 2000); /* by now it has heard of that */
    }
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    for (uint32_t i = 0; i < 2; i++) flock_mend(&f, 2, i); /* who is dialled now refuses */
    if (when == WHILE_IT_SLEEPS) flock_continue(&f, 2);
    flock_run(&f, NULL, 2000);
    cr_assert_eq(f.peers[2].step, 5);
    cr_assert_eq(f.peers[2].finished, when == AT_ONCE, "%d: %s", (int)when, f.peers[2].finish_text);
    if (when == AT_ONCE) cr_assert_not_null(strstr(f.peers[2].finish_text, "shard 7 of step 5 is poison"));
    flock_close(&f);
}

Test(peer, who_has_done_what_it_claimed_was_not_lost_at_it) {
    die_unseen(AT_ONCE);
    die_unseen(LATER);
    die_unseen(WHILE_IT_SLEEPS);
}

typedef enum claiming { SILENT, STANDING, WITHDRAWN, FAR_WORKER, ONLY_WITHDRAWN } claiming;

static void claim(flock *f, uint32_t i, uint32_t worker, uint32_t shard) {
    flock_tell(f, i, (gw_event){.kind = GW_EV_CLAIM, .claim.worker = worker, .claim.shard = shard});
}

/* One shard has cost two lives, and a third is lost in this step, having said what it was at, or not. Whether
 * the shard is poison then. */
static bool third_makes_poison(claiming how) {
    enum { FAILED = FLOCK_SHARDS - 1 };
    flock f;
    flock_open(&f, 4, 4, 20, GW_QUORUM_ANY);
    f.peers[3].fails_at_shard = FAILED;
    f.peers[2].seal_ns = 100000000;
    flock_start_all(&f);
    cr_assert(flock_run(&f, survivors_are_careful, MOST_EVENTS));
    claim(&f, 0, 0, FAILED);
    if (how != SILENT && how != ONLY_WITHDRAWN) claim(&f, 1, 0, FAILED);
    if (how != SILENT && how != STANDING) claim(&f, 1, 0, GW_SHARD_ANY);
    if (how == FAR_WORKER) claim(&f, 1, 1000, FAILED);
    flock_run(&f, NULL, 12); /* until peer 2 has heard it */
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    bool poison = strstr(f.peers[2].finish_text, "shard 11 of step 0 is poison") != NULL;
    cr_assert_eq(f.peers[2].finish, poison ? GW_FINISH_FAILED : GW_FINISH_DONE, "%s", f.peers[2].finish_text);
    flock_close(&f);
    return poison;
}

Test(peer, who_said_that_it_was_through_was_at_nothing) {
    cr_assert(third_makes_poison(STANDING));
    cr_assert(third_makes_poison(SILENT), "whatever it was at");
    cr_assert_not(third_makes_poison(WITHDRAWN));
    cr_assert(third_makes_poison(FAR_WORKER), "what so many workers are at is not remembered");
    cr_assert(third_makes_poison(ONLY_WITHDRAWN), "others of its workers may be at something");
}

static bool second_is_out(const flock *f) {
    return flock_status(f, 2).view->count == 2 && flock_status(f, 3).view->count == 2;
}

static bool second_is_back(const flock *f) {
    return flock_status(f, 1).view != NULL && flock_status(f, 2).view->count == 3;
}

/* A peer claims a shard that has cost one life, is left behind, finishes the shard while no other hears it,
 * comes back within the step, and dies. The shard of the first life that was lost is not known. */
Test(peer, what_one_claimed_before_it_was_left_behind_is_not_what_it_died_of) {
    enum { CLAIMED = FLOCK_SHARDS - 1 };
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 5; i++) f.peers[i].rests = true;
    flock_start_all(&f);
    flock_run_for(&f, UINT64_C(10000000000));
    flock_kill(&f, 4);
    cr_assert(flock_run(&f, survivors_are_careful, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) claim(&f, i, 0, CLAIMED);
    flock_run_for(&f, UINT64_C(1000000000));
    flock_kill(&f, 0);
    flock_run_for(&f, UINT64_C(2000000000));
    for (uint32_t i = 2; i < 4; i++) flock_cut(&f, 1, i, true);
    cr_assert(flock_run(&f, second_is_out, MOST_EVENTS));
    claim(&f, 1, 0, GW_SHARD_ANY);
    for (uint32_t i = 2; i < 4; i++) flock_mend(&f, 1, i);
    cr_assert(flock_run(&f, second_is_back, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, 2).step, 0);
    flock_kill(&f, 1);
    for (uint32_t i = 2; i < 4; i++) flock_wake(&f, i);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* Evidence is worth no more than a try: where the record cannot be written, the flock goes on all the same.
 */
Test(peer, a_death_is_survived_by_those_whose_disks_cannot_note_it) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].persists_fail = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_kill(&f, flock_leader(&f));
    uint64_t killed_ns = f.now;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    cr_assert_lt(f.now - killed_ns, UINT64_C(1000000000));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* A run where any quorum will do notes losses in the record in which a run by majority left its promises. */
Test(peer, promises_of_a_run_by_majority_outlive_one_without) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_MAJORITY);
    f.checkpoint_steps = 2;
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
    size_t before = f.peers[0].record_length;
    uint8_t *record = malloc(before);
    memcpy(record, f.peers[0].record, before);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].config.quorum = GW_QUORUM_ANY;
    f.peers[1].dies_at_shard = 6;
    flock_start_all(&f);
    cr_assert(flock_run(&f, somebody_died, MOST_EVENTS));
    flock_run(&f, all_survivors_know, MOST_EVENTS);
    cr_assert_eq(f.peers[0].record_length, before + GW_SHARD_DEATH_BYTES);
    const size_t rest =
        4 + 4 + 8 + 4; /* numbers of losses, of convictions, what it has heard, and given up */
    cr_assert_arr_eq(f.peers[0].record, record, before - rest);
    free(record);
    flock_close(&f);
}

/* The same holds for a shard that no peer can compute: a peer that gives up leaves, which tells the others as
 * much, even if gossip about it is faster than the messages that it had sent before. */
static void fail_everywhere(uint64_t message_ns) {
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 5; i++) f.peers[i].fails_at_shard = 6;
    f.message_ns = message_ns;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    uint32_t failed = 0, named = 0;
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert_eq(f.peers[i].finish, GW_FINISH_FAILED);
        failed += strstr(f.peers[i].finish_text, "cannot be computed here") != NULL;
        named += strstr(f.peers[i].finish_text, "shard 6 of step") != NULL &&
                 strstr(f.peers[i].finish_text, "is poison") != NULL;
    }
    cr_assert_eq(failed, 3);
    cr_assert_eq(named, 2);
    flock_close(&f);
}

Test(peer, a_shard_that_nobody_can_compute_is_named_before_all_have_failed) {
    fail_everywhere(100000);
    fail_everywhere(5000000);
}

/* Devices that break down while they compute the same shard: it is not to blame, and the last one goes on. */
static void break_down(uint64_t message_ns) {
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) f.peers[i].breaks_at_shard = 6;
    f.message_ns = message_ns;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) {
        if (f.peers[i].finish == GW_FINISH_DONE) continue; /* it never came to that shard */
        cr_assert_eq(f.peers[i].finish, GW_FINISH_FAILED);
        cr_assert(strstr(f.peers[i].finish_text, "this peer leaves"), "%s", f.peers[i].finish_text);
    }
    cr_assert_eq(f.peers[4].finish, GW_FINISH_DONE);
    uint32_t broke = 0;
    for (uint32_t i = 0; i < 4; i++) broke += f.peers[i].finish == GW_FINISH_FAILED;
    cr_assert_geq(broke, 3, "%u broke down at the shard, which three would have made poison", broke);
    flock_close(&f);
}

Test(peer, devices_that_break_down_make_no_shard_poison) {
    break_down(100000);
    break_down(5000000);
}

static uint64_t missed_ns;

static bool has_ended(const flock_peer *p) {
    return p->brain != NULL && p->finished && p->finish == GW_FINISH_FAILED;
}

static bool somebody_failed(const flock *f) {
    bool failed = false;
    for (uint32_t i = 0; i < f->count; i++) failed |= has_ended(&f->peers[i]);
    return failed;
}

static bool somebody_is_missed(const flock *f) {
    return f->now >= missed_ns;
}

/* Runs until one has failed and what it said has arrived: its number. f->count: until all have ended. */
static uint32_t ended_process(flock *f) {
    if (!flock_run(f, somebody_failed, MOST_EVENTS)) return f->count;
    missed_ns = f->now + 10000000;
    uint32_t i = 0;
    while (!has_ended(&f->peers[i])) i++;
    cr_assert(flock_run(f, somebody_is_missed, MOST_EVENTS));
    return i;
}

/* Its datagrams are lost, and its address refuses connections then: as if it had been killed. */
Test(peer, who_broke_down_says_so_by_its_links_too) {
    flock f;
    flock_open(&f, 5, 5, 20, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t broke = 0;
    for (uint32_t i = 0; i < 4; i++) {
        f.peers[i].breaks_at_shard = 6;
        for (uint32_t k = 0; k < 5; k++) f.unheard[i][k] = i != k;
    }
    for (uint32_t i; (i = ended_process(&f)) < f.count; broke++) flock_kill(&f, i);
    cr_assert_eq(f.peers[4].finish, GW_FINISH_DONE, "%s", f.peers[4].finish_text);
    cr_assert_geq(broke, 3, "%u broke down at the shard, which three would have made poison", broke);
    flock_close(&f);
}

static void run_on_full_disks(uint32_t peers, uint32_t full, uint32_t checkpoints) {
    flock f;
    flock_open(&f, peers, peers, 12, GW_QUORUM_ANY);
    f.checkpoint_steps = 5;
    for (uint32_t i = 0; i < full; i++) f.peers[i].disk_full = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < peers; i++) {
        cr_assert_eq(f.peers[i].finish, full == peers ? GW_FINISH_UNSAVED : GW_FINISH_DONE);
        cr_assert(gw_hash_equal(&f.peers[i].final_root, &f.peers[0].final_root));
        cr_assert_eq(f.peers[i].checkpoints, checkpoints, "peer %u of %u: %u checkpoints", i, peers,
                     f.peers[i].checkpoints);
    }
    flock_close(&f);
}

Test(peer, a_checkpoint_that_nobody_could_store_is_not_called_complete) {
    run_on_full_disks(1, 1, 0);
    run_on_full_disks(3, 3, 0);
}

Test(peer, one_full_disk_costs_no_checkpoint) {
    run_on_full_disks(3, 1, 3);
}

Test(peer, stop_ends_the_whole_job_with_a_checkpoint) {
    flock f;
    flock_open(&f, 3, 3, 100000, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_tell(&f, flock_leader(&f), (gw_event){.kind = GW_EV_STOP});
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(f.peers[i].finish, GW_FINISH_STOPPED);
        cr_assert_eq(f.peers[i].saved_step, f.peers[i].step);
    }
    flock_close(&f);
}

static bool one_has_left(const flock *f) {
    return f->peers[2].finished;
}

Test(peer, who_leaves_politely_loses_nothing) {
    flock f;
    flock_open(&f, 3, 3, 300, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    flock_tell(&f, 2, (gw_event){.kind = GW_EV_LEAVE});
    cr_assert(!f.peers[2].finished, "not before its work of this step is in");
    cr_assert(flock_run(&f, one_has_left, MOST_EVENTS));
    cr_assert_eq(f.peers[2].finish, GW_FINISH_LEFT);
    flock_kill(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}
