/* Sums of which bits change between two members: what one sent is not what came to the other. */
#include "flock.h"

#include "core/peer_state.h" /* path_failures */

#include <criterion/criterion.h>
#include <string.h>

enum { STEPS = 12, MOST_EVENTS = 400000 };

/* In so many sums from step 5 on bits of what a peer, which does not lead, sends or receives change. */
static uint32_t run(flock *f, uint32_t peers, uint32_t changes, bool received) {
    flock_open(f, peers, peers, STEPS, GW_QUORUM_ANY);
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = (flock_leader(f) + 1) % peers;
    f->peers[faulty].changes = changes;
    f->peers[faulty].changes_received = received;
    cr_assert(flock_run(f, NULL, MOST_EVENTS));
    return faulty;
}

/* How many of the others have told of a corruption of this peer. */
static uint32_t others_named(const flock *f, uint32_t faulty) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++)
        count += i != faulty && f->peers[i].corruptions > 0 &&
                 gw_peer_id_equal(&f->peers[i].corrupt, &f->peers[faulty].config.id);
    return count;
}

Test(peer_changes, one_bit_costs_another_sum_and_its_sender_is_named) {
    for (uint32_t peers = 2; peers <= 5; peers++) {
        flock f;
        uint32_t faulty = run(&f, peers, 1, false);
        flock_expect_done(&f, peers);
        cr_expect_eq(others_named(&f, faulty), 1, "%u peers", peers);
        cr_expect_eq(f.peers[faulty].corruptions, 0, "%u peers", peers);
        flock_close(&f);
    }
}

/* Each time between it and another neighbour: once it fetches its state anew. */
Test(peer_changes, who_changes_bits_twice_is_found_and_goes_on) {
    for (uint32_t peers = 3; peers <= 5; peers++) {
        for (int received = 0; received < 2; received++) {
            flock f;
            uint32_t faulty = run(&f, peers, 2, received);
            flock_expect_done(&f, peers);
            cr_expect_gt(f.peers[faulty].corruptions, 0, "%u peers, %d", peers, received);
            for (uint32_t i = 0; i < peers; i++)
                cr_expect_eq(f.peers[i].loads, i == faulty ? 2 : 1, "%u peers, %d: peer %u", peers, received,
                             i);
            flock_close(&f);
        }
    }
}

Test(peer_changes, a_machine_that_goes_on_changing_bits_has_to_leave) {
    for (uint32_t peers = 3; peers <= 5; peers++) {
        for (int received = 0; received < 2; received++) {
            flock f;
            uint32_t faulty = run(&f, peers, UINT32_MAX, received);
            cr_expect_eq(f.peers[faulty].finish, GW_FINISH_FAILED);
            cr_expect_not_null(strstr(f.peers[faulty].finish_text, "the machine is faulty"), "%s",
                               f.peers[faulty].finish_text);
            flock_kill(&f, faulty);
            flock_expect_done(&f, peers - 1);
            flock_close(&f);
        }
    }
}

/* It alone has had a sum, and its state comes with other bits to both of the others: they make the step
 * again, and it fetches what they come to. */
Test(peer_changes, a_state_that_nobody_can_fetch_from_its_only_holder_is_made_again) {
    flock f;
    flock_open(&f, 3, 3, STEPS, GW_QUORUM_ANY);
    flock_start_all(&f);
    cr_assert(flock_run(&f, flock_at_step_5, MOST_EVENTS));
    uint32_t faulty = (flock_leader(&f) + 1) % 3;
    f.peers[faulty].changes_lent = true;
    f.sum_for = faulty + 1;
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    cr_expect_gt(f.peers[faulty].corruptions, 0);
    flock_close(&f);
}

/* One of two, and nobody can tell which: neither goes on alone. */
Test(peer_changes, two_that_are_all_stop_the_job) {
    flock f;
    run(&f, 2, UINT32_MAX, false);
    for (uint32_t i = 0; i < 2; i++) {
        cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED);
        cr_expect_not_null(strstr(f.peers[i].finish_text, "nobody can tell in whose memory"), "%s",
                           f.peers[i].finish_text);
    }
    flock_close(&f);
}
