/* A majority is lost for good, and an operator forces a view: of whoever is left, wherever it is asked for.
 */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { STEPS = 50, MOST_EVENTS = 400000 };
#define SECOND UINT64_C(1000000000)

static void force(flock *f, uint32_t i) {
    flock_tell(f, i, (gw_event){.kind = GW_EV_FORCE_VIEW});
}

static bool has_view(const flock *f, uint32_t i) {
    return flock_status(f, i).view != NULL;
}

Test(peer_force, who_was_in_no_view_founds_one_without_the_others) {
    flock f;
    flock_open(&f, 1, 3, STEPS, GW_QUORUM_MAJORITY);
    flock_start(&f, 0);
    flock_run_for(&f, 60 * SECOND);
    cr_assert(!has_view(&f, 0), "one of three founded a view");
    force(&f, 0);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 1);
    flock_close(&f);
}

/* Two of five peers are left. One still lives in the view; the other was started again, and cannot be
 * admitted. */
Test(peer_force, who_has_no_view_takes_those_with_it_who_cannot_go_on_in_theirs) {
    flock f;
    flock_open(&f, 5, 5, STEPS, GW_QUORUM_MAJORITY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 4; i++) flock_kill(&f, i);
    f.peers[3].config.seeds[0] = f.peers[4].config.addrs[0];
    flock_start(&f, 3);
    flock_run_for(&f, 60 * SECOND);
    cr_assert(has_view(&f, 4) && !has_view(&f, 3));
    force(&f, 3);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}

/* It would found the job anew, and nobody votes for that beside a flock: the operator is told where to ask.
 */
Test(peer_force, a_newcomer_says_that_others_are_to_be_asked) {
    flock f;
    flock_open(&f, 4, 3, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = 0; i < 3; i++) flock_start(&f, i);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    for (uint32_t i = 0; i < 2; i++) flock_kill(&f, i);
    f.peers[3].config.seeds[0] = f.peers[2].config.addrs[0];
    f.peers[3].config.seed_count = 1;
    flock_start(&f, 3);
    flock_run_for(&f, 60 * SECOND);
    force(&f, 3);
    cr_expect_eq(flock_said(&f, 3, "force it at one of them"), 1);
    flock_run_for(&f, 60 * SECOND);
    cr_assert(!has_view(&f, 3));
    force(&f, 2);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 2);
    flock_close(&f);
}
