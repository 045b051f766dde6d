/* A run that is begun anew with --fresh, float sums: it goes on by itself, whatever its newcomers' disks have
 * of the run before. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { MOST_EVENTS = 1000000, STEPS = 4000, FEW_STEPS = 500 };

#define SECOND UINT64_C(1000000000)

/* The checkpoint has a later epoch than the flock's or the same; it is whole or in part; it is the end of its
 * run or not. */
static void keep_old_checkpoint(flock_peer *p, uint64_t epoch, bool whole, bool end) {
    p->saved_step = end ? STEPS : STEPS / 4;
    p->saved_epoch = epoch;
    p->saved_root = (gw_hash){{9, 9}};
    p->saved_ended = end;
    p->saved_chunks = gw_set_of(FLOCK_CHUNKS);
    if (whole)
        gw_set_fill(&p->saved_chunks);
    else
        gw_set_add(&p->saved_chunks, 0);
}

Test(peer_fresh, who_joins_does_not_bring_the_run_before_back) {
    for (uint32_t variant = 0; variant < 8; variant++) {
        const bool later = variant & 1, whole = variant & 2, end = variant & 4;
        flock f;
        flock_open(&f, 3, 2, STEPS, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = STEPS / 4;
        for (uint32_t i = 0; i < 3; i++) {
            f.peers[i].seal_ns = SECOND;
            f.peers[i].config.fast = f.peers[i].config.fresh = true;
        }
        keep_old_checkpoint(&f.peers[2], later ? 50 : 1, whole, end);
        flock_start(&f, 0);
        flock_start(&f, 1);
        cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
        cr_assert_eq(flock_status(&f, 0).view->epoch, 1);
        flock_start(&f, 2);
        uint64_t until = f.now + 15 * SECOND;
        while (!flock_in_view_of(&f, 0, 3) && f.now < until)
            cr_assert(!flock_run(&f, NULL, 1), "variant %u", variant);
        cr_expect(flock_in_view_of(&f, 0, 3), "variant %u waits for the rest of it", variant);
        flock_run_for(&f, 10 * SECOND);
        cr_expect_lt(flock_status(&f, 0).step, FEW_STEPS, "variant %u", variant);
        flock_close(&f);
    }
}

/* Two run the job, save, and end. It is begun anew by two others, whose directories are empty; one of the
 * first two is started with --fresh as well. Both flocks' first views have epoch 1: it is their names that
 * say whose is the later one. */
Test(peer_fresh, who_joins_does_not_bring_back_the_run_that_it_was_in) {
    for (uint8_t tag = 0; tag < 16; tag++) {
        flock f;
        flock_open(&f, 4, 2, STEPS, GW_QUORUM_MAJORITY);
        f.checkpoint_steps = 100;
        for (uint32_t i = 0; i < 4; i++) {
            f.peers[i].seal_ns = SECOND / 50;
            f.peers[i].config.fast = true;
            f.peers[i].config.id.bytes[5] = tag;
        }
        f.peers[1].config.seed_count = 0;
        f.peers[2].config.seeds[0] = f.peers[1].config.addrs[0];
        for (uint32_t i = 1; i < 3; i++) flock_start(&f, i);
        while (f.peers[2].checkpoints < 2 || f.peers[1].checkpoints < 2) cr_assert(!flock_run(&f, NULL, 1));
        for (uint32_t i = 1; i < 3; i++) flock_kill(&f, i);
        uint64_t old = f.peers[2].saved_step;
        for (uint32_t i = 0; i < 4; i++) {
            f.peers[i].config.fresh = true;
            f.peers[i].seal_ns = SECOND;
        }
        f.peers[2].config.seeds[0] = f.peers[0].config.addrs[0];
        flock_start(&f, 0);
        flock_start(&f, 3);
        while (!flock_in_view_of(&f, 0, 2) || flock_status(&f, 0).step < 5)
            cr_assert(!flock_run(&f, NULL, 1));
        flock_start(&f, 2);
        while (!flock_in_view_of(&f, 0, 3)) cr_assert(!flock_run(&f, NULL, 1));
        flock_run_for(&f, 5 * SECOND);
        cr_expect_lt(flock_status(&f, 0).step, old, "tag %u", tag);
        flock_close(&f);
    }
}

/* Whether it begins anew is the leader's to say where nobody has a state; the others are told of it either
 * way. */
Test(peer_fresh, where_not_all_say_so_it_is_told_what_became_of_it) {
    bool anew[2] = {false, false};
    for (uint32_t fresh = 0; fresh < 2; fresh++) {
        flock f;
        flock_open(&f, 2, 2, STEPS, GW_QUORUM_ANY);
        for (uint32_t i = 0; i < 2; i++) {
            keep_old_checkpoint(&f.peers[i], 0, true, false);
            f.peers[i].config.fresh = i == fresh;
            f.peers[i].seal_ns = SECOND;
        }
        flock_start_all(&f);
        while (!flock_in_view_of(&f, 0, 2)) cr_assert(!flock_run(&f, NULL, 1));
        flock_run_for(&f, SECOND / 2);
        anew[fresh] = flock_status(&f, 0).step < STEPS / 4;
        cr_expect_eq(anew[fresh], flock_leader(&f) == fresh);
        cr_expect_eq(flock_said(&f, 1 - fresh, "though the checkpoint of step 1000 is here"), anew[fresh]);
        cr_expect_eq(flock_said(&f, fresh, "start all with --fresh"), !anew[fresh]);
        flock_close(&f);
    }
    cr_expect_neq(anew[0], anew[1]);
}
