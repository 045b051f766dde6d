/* Worker processes that end at a shard: the shard is computed by another one, given back after the second,
 * and named as poison after the third where no peer can compute it. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 1000000, STEPS = 20, SHARD = 6, STEP = 5 };

static void open_flock(flock *f, uint32_t count) {
    flock_open(f, count, count, STEPS, GW_QUORUM_ANY);
    f->checkpoint_steps = 2;
    f->reason = "worker 7 was killed for lack of memory";
}

/* Every process of this peer ends at the shard. */
static void end_processes(flock *f, uint32_t i) {
    f->peers[i].ends_process = SHARD;
    f->peers[i].ends_at_step = STEP;
}

static void expect_named(const flock *f, uint32_t i) {
    cr_assert_eq(f->peers[i].finish, GW_FINISH_FAILED);
    cr_assert_not_null(strstr(f->peers[i].finish_text, "shard 6 of step 5 is poison"), "peer %u: %s", i,
                       f->peers[i].finish_text);
}

/* Its own processes are the only lives. It names the shard after three, also in its next life, and begins
 * anew once it is told that the shard is mended. */
Test(worker_losses, a_peer_alone_names_a_poison_shard) {
    flock f;
    open_flock(&f, 1);
    end_processes(&f, 0);
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_named(&f, 0);
    cr_assert_not_null(
        strstr(f.peers[0].finish_text, "3 so far; here: worker 7 was killed for lack of memory"), "%s",
        f.peers[0].finish_text);
    /* The deal after the second loss has the shard tried twice before the brain is heard. */
    cr_assert_leq(f.peers[0].processes, 4);
    uint32_t processes = f.peers[0].processes;
    flock_kill(&f, 0);
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    expect_named(&f, 0);
    cr_assert_eq(f.peers[0].processes, processes);
    flock_kill(&f, 0);
    f.peers[0].ends_process = -1;
    f.peers[0].config.forget_losses = true;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 1);
    flock_close(&f);
}

/* All peers name it, whichever of them computed it, and few processes are lost. */
Test(worker_losses, peers_name_a_poison_shard_together) {
    for (uint32_t count = 2; count <= 5; count++) {
        flock f;
        open_flock(&f, count);
        for (uint32_t i = 0; i < count; i++) end_processes(&f, i);
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        uint32_t processes = 0, named = 0;
        for (uint32_t i = 0; i < count; i++) {
            processes += f.peers[i].processes;
            /* One that has given it back three times has left before. */
            if (strstr(f.peers[i].finish_text, "cannot be computed here") != NULL) continue;
            expect_named(&f, i);
            named++;
        }
        cr_assert_geq(named, 1);
        cr_assert_leq(processes, 4 * count, "%u peers lost %u processes", count, processes);
        flock_close(&f);
    }
}

/* A machine on which every process ends makes no shard poison for the others. */
Test(worker_losses, one_bad_machine_does_not_end_the_job) {
    for (uint32_t bad = 0; bad < 3; bad++) {
        flock f;
        open_flock(&f, 3);
        end_processes(&f, bad);
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        for (uint32_t i = 0; i < 3; i++)
            cr_assert_null(strstr(f.peers[i].finish_text, "poison"), "%s", f.peers[i].finish_text);
        if (f.peers[bad].finish == GW_FINISH_FAILED) flock_kill(&f, bad);
        flock_expect_done(&f, 2);
        for (uint32_t i = 0; i < 3; i++) cr_assert_eq(flock_said(&f, i, "is not applied"), 0);
        flock_close(&f);
    }
}

/* Somebody kills them, or their peer does as it drops their shard. */
Test(worker_losses, those_that_others_killed_count_for_nothing) {
    static const gw_worker_loss kinds[] = {GW_WORKER_KILLED, GW_WORKER_DROPPED};
    for (int k = 0; k < 2; k++) {
        flock f;
        open_flock(&f, 1);
        end_processes(&f, 0);
        f.peers[0].ends_by = kinds[k];
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        cr_assert_geq(f.peers[0].processes, 10);
        flock_expect_done(&f, 1);
        flock_close(&f);
    }
}

static bool owes(const flock *f) {
    return f->peers[0].owes_now;
}

/* The report of a frozen peer names the shard as claimed, and then the second process ends at it. The view
 * that counts on the shard must change, before a sum without it is made and refused. */
Test(worker_losses, a_shard_that_is_given_back_by_a_frozen_peer_is_dealt_again) {
    flock f;
    open_flock(&f, 3);
    f.peers[0].owes = 1; /* of its own part of the deal */
    flock_start_all(&f);
    cr_assert(flock_run(&f, owes, MOST_EVENTS));
    flock_kill(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    cr_assert(!f.peers[0].owes_now);
    for (uint32_t i = 0; i < 2; i++)
        cr_assert_eq(flock_said(&f, i, "is not applied"), 0, "peer %u summed without the shard", i);
    flock_close(&f);
}
