/* While the last state is stored, which may take long: peers die, and are back. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { STEPS = 6, MOST_EVENTS = 400000, LEAVER = 2 };
#define SECOND UINT64_C(1000000000)

static bool all_at_the_end(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (flock_status(f, i).step < STEPS) return false;
    return true;
}

static void start_again(flock *f, uint32_t i) {
    flock_kill(f, i);
    flock_run_for(f, 5 * SECOND);
    flock_start(f, i);
    flock_run_for(f, 5 * SECOND);
}

/* No shard of the last state kills anybody: who comes back is admitted however often, and no view is proposed
 * for somebody that it leaves out. */
Test(peer_ending, who_dies_again_and_again_at_the_last_state_is_admitted_each_time) {
    for (int quorum = 0; quorum < 2; quorum++) {
        flock f;
        flock_open(&f, 3, 3, STEPS, quorum == 0 ? GW_QUORUM_ANY : GW_QUORUM_MAJORITY);
        f.peers[LEAVER].config.seeds[0] = f.peers[1].config.addrs[0];
        for (uint32_t i = 0; i < 3; i++) f.peers[i].save_ns = 200 * SECOND;
        flock_start_all(&f);
        cr_assert(flock_run(&f, all_at_the_end, MOST_EVENTS));
        for (int times = 0; times < 4; times++) start_again(&f, LEAVER);
        const gw_view *view = flock_status(&f, 0).view;
        cr_assert_not_null(view);
        cr_expect_eq(view->count, 3);
        uint64_t epoch = view->epoch;
        flock_run_for(&f, 20 * SECOND);
        cr_expect_eq(flock_status(&f, 0).view->epoch, epoch);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        flock_close(&f);
    }
}
