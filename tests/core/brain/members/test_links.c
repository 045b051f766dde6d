/* Data links that do not come up, or are lost, beside control links that stand. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 400000, STEPS = 3000 };
#define SECONDS UINT64_C(1000000000)

/* The steps take time, so that the flock is still there when what is missing comes back. */
static void open_flock(flock *f, uint32_t count, gw_quorum quorum) {
    flock_open(f, count, count, STEPS, quorum);
    for (uint32_t i = 0; i < count; i++) f->peers[i].seal_ns = 50000000;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

static void lose_all(flock *f, uint32_t victim, bool own_fault) {
    for (uint32_t i = 0; i < f->count; i++)
        if (i != victim) flock_lose_data(f, victim, i, own_fault ? (int)victim : -1);
}

static void mend_all(flock *f, uint32_t victim) {
    for (uint32_t i = 0; i < f->count; i++)
        if (i != victim) flock_mend_data(f, victim, i);
}

static uint64_t least_step(const flock *f, uint32_t but) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < f->count; i++)
        if (i != but && flock_status(f, i).step < least) least = flock_status(f, i).step;
    return least;
}

/* Who is left out, and comes back when its data links do. */
static void starve(uint32_t count, gw_quorum quorum, bool leader, bool own_fault) {
    flock f;
    open_flock(&f, count, quorum);
    uint32_t victim = flock_leader(&f), other = (victim + 1) % count;
    if (!leader) victim = other, other = (victim + 1) % count;
    lose_all(&f, victim, own_fault);
    flock_run_for(&f, 16 * SECONDS);
    uint64_t before = least_step(&f, victim);
    flock_run_for(&f, 5 * SECONDS);
    cr_assert_gt(least_step(&f, victim), before + 10, "%u peers, quorum %d, leader %d", count, quorum,
                 leader);
    for (uint32_t i = 0; i < count; i++)
        if (i != victim) cr_assert(flock_in_view_of(&f, i, count - 1), "peer %u, leader %d", i, leader);
    cr_assert_gt(flock_said(&f, other, "no data link to peer"), 0u);
    cr_assert_gt(flock_said(&f, other, "no descriptor is left"), 0u);
    cr_assert_gt(flock_said(&f, victim, "waiting for its leader: no data link to peer"), 0u);
    mend_all(&f, victim);
    flock_run_for(&f, 10 * SECONDS);
    for (uint32_t i = 0; i < count; i++) cr_assert(flock_in_view_of(&f, i, count), "peer %u", i);
    flock_close(&f);
}

Test(peer_links, who_has_no_data_links_is_left_out_until_it_has) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++)
        for (uint32_t count = 3; count <= 5; count += 2)
            for (int leader = 0; leader <= 1; leader++)
                for (int own_fault = 0; own_fault <= 1; own_fault++)
                    starve(count, (gw_quorum)quorum, leader, own_fault);
}

Test(peer_links, of_two_without_a_data_link_one_goes_on) {
    for (int own_fault = 0; own_fault <= 1; own_fault++) {
        flock f;
        open_flock(&f, 2, GW_QUORUM_ANY);
        uint32_t leader = flock_leader(&f), stays = own_fault ? 1 - leader : leader;
        flock_lose_data(&f, 0, 1, own_fault ? (int)leader : -1);
        flock_run_for(&f, 16 * SECONDS);
        uint64_t before = flock_status(&f, stays).step;
        flock_run_for(&f, 3 * SECONDS);
        cr_assert(flock_in_view_of(&f, stays, 1));
        cr_assert_gt(flock_status(&f, stays).step, before + 10);
        flock_mend_data(&f, 0, 1);
        flock_run_for(&f, 10 * SECONDS);
        for (uint32_t i = 0; i < 2; i++) cr_assert(flock_in_view_of(&f, i, 2));
        flock_close(&f);
    }
}

/* It is asked for nothing, and costs the others nothing. */
Test(peer_links, a_newcomer_without_data_links_is_not_admitted) {
    flock f;
    flock_open(&f, 3, 2, STEPS, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 50000000;
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    lose_all(&f, 2, true);
    uint64_t epoch = flock_status(&f, 0).view->epoch;
    flock_start(&f, 2);
    flock_run_for(&f, 20 * SECONDS);
    cr_assert_eq(flock_status(&f, 0).view->epoch, epoch);
    cr_assert_gt(flock_said(&f, 0, "until it stands the two are in no view together"), 0u);
    mend_all(&f, 2);
    flock_run_for(&f, 5 * SECONDS);
    for (uint32_t i = 0; i < 3; i++) cr_assert(flock_in_view_of(&f, i, 3));
    flock_close(&f);
}

/* Its links are to blame that it cannot fetch the state: it does not give up over that. */
Test(peer_links, who_loses_its_data_links_as_it_fetches_the_state_waits_for_them) {
    flock f;
    flock_open(&f, 3, 2, STEPS, GW_QUORUM_ANY);
    for (uint32_t i = 0; i < 3; i++) f.peers[i].seal_ns = 50000000;
    f.peers[2].load_ns = SECONDS / 50;
    flock_start(&f, 0);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    f.peers[2].loads_to_fail = UINT32_MAX;
    flock_start(&f, 2);
    while (f.peers[2].loads == 0) cr_assert(!flock_run(&f, NULL, 1));
    lose_all(&f, 2, false);
    flock_run_for(&f, 20 * SECONDS);
    cr_assert(!f.peers[2].finished, "%s", f.peers[2].finish_text);
    for (uint32_t i = 0; i < 2; i++) cr_assert(flock_in_view_of(&f, i, 2));
    f.peers[2].loads_to_fail = 0;
    mend_all(&f, 2);
    flock_run_for(&f, 5 * SECONDS);
    for (uint32_t i = 0; i < 3; i++) cr_assert(flock_in_view_of(&f, i, 3));
    flock_close(&f);
}

/* Where the founders are too few without it they say what they wait for. */
Test(peer_links, who_founds_says_whose_data_link_is_missing) {
    flock f;
    flock_open(&f, 3, 3, 20, GW_QUORUM_ANY);
    lose_all(&f, 1, false);
    flock_start_all(&f);
    flock_run_for(&f, 20 * SECONDS);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(flock_status(&f, i).step, 0u);
        cr_assert_gt(flock_said(&f, i, "here; no data link to peer"), 0u);
    }
    mend_all(&f, 1);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* One that is gone again as soon as it stands has been missing all the time. */
Test(peer_links, a_data_link_that_never_lasts_is_missing) {
    flock f;
    open_flock(&f, 3, GW_QUORUM_ANY);
    uint32_t leader = flock_leader(&f), victim = (leader + 1) % 3;
    lose_all(&f, victim, false);
    for (uint32_t i = 0; i < 30; i++) {
        flock_run_for(&f, SECONDS);
        mend_all(&f, victim);
        flock_run_for(&f, SECONDS / 5);
        lose_all(&f, victim, false);
    }
    cr_assert(flock_in_view_of(&f, leader, 2));
    uint64_t epoch = flock_status(&f, leader).view->epoch;
    for (uint32_t i = 0; i < 10; i++) {
        mend_all(&f, victim);
        flock_run_for(&f, SECONDS / 5);
        lose_all(&f, victim, false);
        flock_run_for(&f, SECONDS);
    }
    cr_assert_eq(flock_status(&f, leader).view->epoch, epoch);
    mend_all(&f, victim);
    flock_run_for(&f, 5 * SECONDS);
    cr_assert(flock_in_view_of(&f, leader, 3));
    flock_close(&f);
}

/* A link that comes back in time is no reason for another view. */
Test(peer_links, a_data_link_that_comes_back_in_time_changes_no_view) {
    flock f;
    open_flock(&f, 3, GW_QUORUM_ANY);
    uint64_t epoch = flock_status(&f, 0).view->epoch;
    for (uint32_t i = 0; i < 10; i++) {
        f.peers[0].rests = f.peers[1].rests = f.peers[2].rests = true; /* no sum is under way */
        flock_run_for(&f, SECONDS);
        flock_lose_data(&f, 1, 2, -1);
        flock_run_for(&f, 3 * SECONDS);
        flock_mend_data(&f, 1, 2);
        flock_run_for(&f, SECONDS);
        for (uint32_t k = 0; k < 3; k++) flock_wake(&f, k);
        flock_run_for(&f, SECONDS);
    }
    cr_assert_eq(flock_status(&f, 0).view->epoch, epoch);
    flock_close(&f);
}
