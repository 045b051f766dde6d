/* As many peers as a view can have, and one more. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { MOST_EVENTS = 1000000, ALL = GW_MAX_MEMBERS + 1 };

static uint64_t wanted; /* steps, for the condition below */

static bool somebody_is_there(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && f->peers[i].step >= wanted) return true;
    return false;
}

static uint32_t without_view(const flock *f, uint32_t *which) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++)
        if (flock_status(f, i).view == NULL) *which = i, count++;
    return count;
}

/* All start together, and none has been told to begin alone. It asks to be admitted again and again. */
Test(peer_many, the_one_that_there_is_no_room_for_waits_and_keeps_nobody_waiting) {
    flock f;
    flock_open(&f, ALL, 1, 20, GW_QUORUM_ANY);
    f.peers[0].config.seeds[0] = f.peers[1].config.addrs[0];
    f.peers[0].config.seed_count = 1;
    for (uint32_t i = 0; i < ALL; i++) f.peers[i].seal_ns = 500000000;
    flock_start_all(&f);
    wanted = 5;
    cr_assert(flock_run(&f, somebody_is_there, MOST_EVENTS));
    cr_assert_lt(f.now, UINT64_C(6000000000), "five steps take 2.5 s");
    uint32_t last = 0, member = 0;
    cr_assert_eq(without_view(&f, &last), 1);
    member = (last + 1) % ALL;
    uint64_t views = flock_status(&f, member).views_installed;
    wanted = 12;
    cr_assert(flock_run(&f, somebody_is_there, MOST_EVENTS));
    cr_assert_eq(flock_status(&f, member).views_installed, views);
    cr_assert_eq(flock_said(&f, last, "as many as there can be"), 1);
    flock_kill(&f, member);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, ALL - 1);
    flock_close(&f);
}
