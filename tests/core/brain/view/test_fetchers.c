/* Float sums: a peer that lives in a later view than that of its state, which it is fetching, or could not
 * fetch. It must not go on from the old state while the holder of the latest is away for a moment, and it
 * must not hold up others for it. */
#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h" /* votes */
#include "core/record/ballot.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 1000000, STEPS = 4000 };

#define SECOND UINT64_C(1000000000)

static void open_flock(flock *f, uint64_t checkpoint_steps) {
    flock_open(f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    f->checkpoint_steps = checkpoint_steps;
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].seal_ns = 20000000;
        f->peers[i].config.fast = true;
    }
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(gw_view_rank(flock_status(f, 0).view, &f->peers[i].config.id), (int)i);
}

static bool computes(const flock *f, uint32_t i) {
    return strcmp(flock_status(f, i).phase, "computing") == 0;
}

/* It has voted for a view of strangers that nobody will hear of again. */
static void flock_promise(flock *f, uint32_t i) {
    gw_peer *brain = f->peers[i].brain;
    gw_view w = {.epoch = 40, .job = brain->job, .count = 3};
    w.members[0] = (gw_member){.id = brain->config.id, .boot = brain->config.incarnation.boot};
    for (uint8_t k = 1; k < 3; k++) w.members[k] = (gw_member){.id = {{0xFF, k}}, .boot = 1};
    w.leader = w.members[1].id;
    gw_view_seal(&w);
    gw_ballot_vote(&brain->view.ballot, &w, 39);
}

/* The first is cut off while the others go on; one of these dies. It is admitted again, is half of the view
 * of two, with its lowest, and fetches, when a cut of 10 seconds parts it from who has the state. That one
 * lives, and --resume-timeout is 20 seconds. (godwit sim --seed 662000934 shows the same.) */
Test(peer_fetchers, an_old_state_is_not_gone_on_from_as_who_has_the_latest_is_cut_off) {
    flock f;
    open_flock(&f, STEPS); /* the first is far away */
    for (uint32_t i = 1; i < 3; i++) flock_cut(&f, 0, i, true);
    flock_run_for(&f, 10 * SECOND);
    cr_assert(flock_in_view_of(&f, 1, 2) && flock_in_view_of(&f, 2, 2));
    flock_kill(&f, 2);
    flock_run_for(&f, 5 * SECOND);
    cr_assert(flock_in_view_of(&f, 1, 1));
    f.peers[0].load_ns = 5 * SECOND;
    f.peers[0].loads_to_fail = 1;
    flock_mend(&f, 0, 1);
    while (!flock_in_view_of(&f, 0, 2) || !flock_in_view_of(&f, 1, 2)) cr_assert(!flock_run(&f, NULL, 1));
    uint64_t shown = f.peers[1].shown_step;
    cr_assert_gt(shown, flock_status(&f, 0).step + 10);
    flock_cut(&f, 0, 1, true);
    uint64_t since = f.now;
    while (!computes(&f, 0) && f.now < since + 10 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(!computes(&f, 0), "after %.1f s it goes on from step %d: %d was shown, and who has it lives",
              (double)(f.now - since) * 1e-9, (int)flock_status(&f, 0).step, (int)shown);
    flock_mend(&f, 0, 1);
    flock_run_for(&f, 20 * SECOND);
    cr_expect_geq(flock_status(&f, 1).step, shown, "who had shown step %d is made to go back to %d",
                  (int)shown, (int)flock_status(&f, 1).step);
    flock_close(&f);
}

/* The third was cut off while the others went on, and saved; it is admitted again, and cannot fetch. It has
 * an old state, which those checkpoints lead on from, and a promise that leads nowhere. The others are
 * started again with all that they had on disk. */
Test(peer_fetchers, an_old_state_does_not_hold_up_a_restart_of_all_others) {
    for (int forgets = 1; forgets >= 0; forgets--) {
        flock f;
        open_flock(&f, 50);
        for (uint32_t i = 0; i < 2; i++) flock_cut(&f, 2, i, true);
        flock_run_for(&f, 15 * SECOND);
        cr_assert(flock_in_view_of(&f, 0, 2) && flock_in_view_of(&f, 1, 2));
        uint64_t old_step = flock_status(&f, 2).step;
        f.peers[2].load_ns = 5 * SECOND;
        f.peers[2].loads_to_fail = 1;
        for (uint32_t i = 0; i < 2; i++) flock_mend(&f, 2, i);
        while (!flock_in_view_of(&f, 2, 3)) cr_assert(!flock_run(&f, NULL, 1));
        flock_run_for(&f, SECOND);
        cr_assert(flock_in_view_of(&f, 0, 3) && flock_in_view_of(&f, 1, 3));
        for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
        cr_assert_gt(f.peers[0].saved_step, old_step + 10);
        flock_promise(&f, 2);
        if (forgets) f.peers[2].brain->state.present = false;
        flock_run_for(&f, 8 * SECOND);
        cr_assert_eq(f.peers[2].brain->view.load_token, 0);
        f.peers[0].config.seeds[f.peers[0].config.seed_count++] = f.peers[1].config.addrs[0];
        for (uint32_t i = 0; i < 2; i++) flock_start(&f, i);
        uint64_t since = f.now;
        while (!flock_in_view_of(&f, 0, 2) && !flock_in_view_of(&f, 0, 3) && f.now < since + 600 * SECOND)
            cr_assert(!flock_run(&f, NULL, 1));
        bool go_on = flock_in_view_of(&f, 0, 2) || flock_in_view_of(&f, 0, 3);
        cr_expect(go_on, "forgets %d: a checkpoint of step %d is whole, and waits for a state of step %d",
                  forgets, (int)f.peers[0].saved_step, (int)old_step);
        flock_close(&f);
    }
}

/* One of three is started again; the view that admits it is installed by the leader and by it, and both lose
 * power before anything is done in it. The third has not heard of that view: it lives in the one before, with
 * the state of all that was shown, and has a promise that leads nowhere. */
Test(peer_fetchers, who_installed_a_later_view_and_forgot_needs_the_state_of_the_one_before) {
    flock f;
    open_flock(&f, 50);
    uint32_t lead = flock_leader(&f), holder = (lead + 1) % 3, third = (lead + 2) % 3;
    flock_kill(&f, third);
    flock_run_for(&f, 8 * SECOND);
    cr_assert(flock_in_view_of(&f, lead, 2) && flock_in_view_of(&f, holder, 2) && flock_leader(&f) == lead);
    f.breaks = (flock_break){
        .kind = GW_MSG_INSTALL, .from = (int)lead, .to = (int)holder, .times = UINT32_MAX, .quiet = true};
    gw_peer_config *c = &f.peers[third].config;
    c->seeds[c->seed_count++] = f.peers[lead].config.addrs[0];
    flock_start(&f, third);
    while (!flock_in_view_of(&f, third, 3)) cr_assert(!flock_run(&f, NULL, 1));
    cr_assert(flock_in_view_of(&f, lead, 3) && flock_in_view_of(&f, holder, 2));
    f.breaks.kind = 0;
    uint64_t shown = f.peers[holder].shown_step, saved = f.peers[lead].saved_step;
    flock_kill(&f, lead);
    flock_kill(&f, third);
    flock_promise(&f, holder);
    c->seeds[c->seed_count++] = f.peers[holder].config.addrs[0];
    c = &f.peers[lead].config;
    c->seeds[c->seed_count++] = f.peers[holder].config.addrs[0];
    flock_run_for(&f, SECOND);
    cr_assert(flock_status(&f, holder).has_state && flock_status(&f, holder).step > saved + 5);
    flock_start(&f, lead);
    flock_start(&f, third);
    uint64_t since = f.now;
    while (!computes(&f, lead) && f.now < since + 300 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
    cr_expect(!computes(&f, lead) || flock_status(&f, lead).step >= shown,
              "after %.1f s they go on from step %d of a checkpoint: who has shown step %d is here",
              (double)(f.now - since) * 1e-9, (int)flock_status(&f, lead).step, (int)shown);
    flock_close(&f);
}

static bool two_have_saved_100(const flock *f) {
    return f->peers[1].checkpoints >= 2 && f->peers[2].checkpoints >= 2;
}

/* The first is cut off, the others go on, save, and are started again. All are back; that checkpoint is whole
 * on their disks, but twice the fetch of it fails, for no fault of any disk. */
Test(peer_fetchers, a_whole_checkpoint_is_not_passed_over_for_an_old_state) {
    for (int forgets = 1; forgets >= 0; forgets--) {
        flock f;
        open_flock(&f, 50);
        for (uint32_t i = 1; i < 3; i++) flock_cut(&f, 0, i, true);
        cr_assert(flock_run(&f, two_have_saved_100, MOST_EVENTS));
        uint64_t old_step = flock_status(&f, 0).step, saved = f.peers[1].saved_step;
        cr_assert(saved > old_step + 50 && f.peers[2].saved_step == saved);
        flock_kill(&f, 1);
        flock_kill(&f, 2);
        for (uint32_t i = 0; i < 3; i++) f.peers[i].loads_to_fail = 2;
        if (forgets) f.peers[0].brain->state.present = false;
        for (uint32_t i = 1; i < 3; i++) flock_mend(&f, 0, i);
        flock_start(&f, 1);
        flock_start(&f, 2);
        uint64_t since = f.now;
        flock_run_for(&f, SECOND);
        while (!computes(&f, 1) && f.now < since + 300 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
        cr_expect(computes(&f, 1));
        cr_expect_geq(flock_status(&f, 1).step, saved,
                      "forgets %d: after %.1f s all go on from step %d, and a checkpoint of step %d is whole",
                      forgets, (double)(f.now - since) * 1e-9, (int)flock_status(&f, 1).step, (int)saved);
        flock_close(&f);
    }
}

static void leave_the_first_behind(flock *f, bool fresh) {
    flock_open(f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
    f->checkpoint_steps = 50;
    for (uint32_t i = 0; i < 3; i++) {
        f->peers[i].seal_ns = 20000000;
        f->peers[i].config.fast = true;
        f->peers[i].config.fresh = fresh;
    }
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 1; i < 3; i++) flock_cut(f, 0, i, true);
    cr_assert(flock_run(f, two_have_saved_100, MOST_EVENTS));
}

/* The first was started with --fresh, as all were when the job began. It is cut off, the others go on and
 * save, and are started again without --fresh. All are back, and all of that checkpoint is here. */
Test(peer_fetchers, a_whole_checkpoint_is_not_passed_over_for_an_old_state_of_who_began_anew_once) {
    for (int fresh = 0; fresh < 2; fresh++) {
        flock f;
        leave_the_first_behind(&f, fresh);
        uint64_t saved = f.peers[1].saved_step;
        /* It comes back, and hears that the others have gone on without it. */
        for (uint32_t i = 1; i < 3; i++) flock_mend(&f, 0, i);
        while (flock_status(&f, 0).view != NULL) cr_assert(!flock_run(&f, NULL, 1));
        uint64_t old_step = flock_status(&f, 0).step;
        cr_assert_gt(saved, old_step + 50);
        for (uint32_t i = 1; i < 3; i++) {
            flock_kill(&f, i);
            f.peers[i].config.fresh = false;
        }
        flock_run_for(&f, SECOND);
        for (uint32_t i = 1; i < 3; i++) flock_start(&f, i);
        uint64_t since = f.now;
        flock_run_for(&f, SECOND);
        while (!computes(&f, 1) && f.now < since + 120 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
        cr_expect(computes(&f, 1));
        cr_expect_geq(flock_status(&f, 1).step, saved,
                      "fresh %d: after %.1f s all go on from step %d, and a checkpoint of step %d is whole",
                      fresh, (double)(f.now - since) * 1e-9, (int)flock_status(&f, 1).step, (int)saved);
        flock_close(&f);
    }
}

/* As above, but the first is cut off until the others have been started again: nobody who lived in the view
 * that saved is there to tell it that they have gone on without it. */
Test(peer_fetchers, a_whole_checkpoint_is_not_passed_over_for_who_never_heard_that_it_was_left_behind) {
    for (int fresh = 0; fresh < 2; fresh++) {
        flock f;
        leave_the_first_behind(&f, fresh);
        uint64_t saved = f.peers[1].saved_step, old_step = flock_status(&f, 0).step;
        uint64_t shown = f.peers[1].shown_step;
        cr_assert_gt(saved, old_step + 50);
        for (uint32_t i = 1; i < 3; i++) {
            flock_kill(&f, i);
            f.peers[i].config.fresh = false;
        }
        for (uint32_t i = 1; i < 3; i++) flock_mend(&f, 0, i);
        for (uint32_t i = 1; i < 3; i++) flock_start(&f, i);
        uint64_t since = f.now;
        flock_run_for(&f, SECOND);
        while (!computes(&f, 1) && f.now < since + 120 * SECOND) cr_assert(!flock_run(&f, NULL, 1));
        cr_expect(computes(&f, 1));
        cr_expect_geq(
            flock_status(&f, 1).step, saved,
            "fresh %d: after %.1f s all go on from step %d (%d were shown), and a checkpoint of step "
            "%d is whole",
            fresh, (double)(f.now - since) * 1e-9, (int)flock_status(&f, 1).step, (int)shown, (int)saved);
        flock_close(&f);
    }
}

/* Exact sums. The job was run to a checkpoint, and is begun anew with --fresh on all. Nothing is saved yet.
 * One after the other (`stopped` of them) is stopped for so long that the others go on without it, and
 * admitted again; then the last one dies. */
Test(peer_fetchers, who_was_left_behind_once_does_not_end_fresh) {
    for (uint32_t stopped = 0; stopped < 3; stopped++) {
        flock f;
        flock_open(&f, 3, 3, STEPS, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 1000;
        for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 1000000;
        flock_start_all(&f);
        cr_assert(flock_run(&f, flock_all_have_a_checkpoint, MOST_EVENTS));
        uint64_t old = f.peers[0].saved_step;
        cr_assert_eq(old, 1000);
        for (uint32_t i = 0; i < 3; i++) flock_kill(&f, i);
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].config.fresh = true;
            f.peers[i].seal_ns = 500000000;
        }
        for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
        while (!flock_in_view_of(&f, 0, 3) || !computes(&f, 0)) cr_assert(!flock_run(&f, NULL, 1));
        cr_assert_lt(flock_status(&f, 0).step, 100);
        for (uint32_t i = 0; i < stopped; i++) {
            uint32_t other = (i + 1) % 3;
            flock_stop(&f, i);
            while (!flock_in_view_of(&f, other, 2)) cr_assert(!flock_run(&f, NULL, 1));
            flock_run_for(&f, 2 * SECOND);
            flock_continue(&f, i);
            while (!flock_in_view_of(&f, i, 3) || !flock_in_view_of(&f, 2, 3) || !computes(&f, i))
                cr_assert(!flock_run(&f, NULL, 1));
        }
        uint64_t before = flock_status(&f, 2).step;
        cr_assert_lt(before, 500);
        flock_kill(&f, 2);
        while (!flock_in_view_of(&f, 0, 2) || !flock_in_view_of(&f, 1, 2) || !computes(&f, 0))
            cr_assert(!flock_run(&f, NULL, 1));
        cr_expect_lt(flock_status(&f, 0).step, before + 20,
                     "stopped %u: from step %d of what was begun anew to step %d of the checkpoint that was "
                     "to be ignored",
                     stopped, (int)before, (int)flock_status(&f, 0).step);
        flock_close(&f);
    }
}
