/* Jobs that go on from the state of another job: a checkpoint that is there before any peer is. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>

enum { MOST_EVENTS = 1000000, STEPS = 60, FIRST = 30 };

#define SECOND UINT64_C(1000000000)

/* The peer has the state from which the job goes on, or so many chunks of it, on its disk. */
static void give_first_state(flock_peer *p, uint32_t first_chunk, uint32_t chunks) {
    p->saved_step = FIRST;
    p->saved_root = (gw_hash){{9, 9}};
    p->saved_chunks = gw_set_of(FLOCK_CHUNKS);
    for (uint32_t i = 0; i < chunks; i++) gw_set_add(&p->saved_chunks, first_chunk + i);
}

static void open_branch(flock *f, uint32_t count, uint32_t founding, gw_quorum quorum) {
    flock_open(f, count, founding, STEPS, quorum);
    for (uint32_t i = 0; i < count; i++) f->peers[i].config.first_step = FIRST;
}

Test(peer_branch, peers_without_the_first_state_fetch_it) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        open_branch(&f, 3, 3, (gw_quorum)quorum);
        give_first_state(&f.peers[1], 0, FLOCK_CHUNKS);
        flock_start_all(&f);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        flock_close(&f);
    }
}

Test(peer_branch, nobody_begins_before_the_first_state_is_whole) {
    flock f;
    open_branch(&f, 3, 1, GW_QUORUM_ANY);
    give_first_state(&f.peers[0], 0, 1);
    flock_start(&f, 0);
    flock_start(&f, 2);
    flock_run_for(&f, 200 * SECOND); /* far longer than --resume-timeout */
    for (uint32_t i = 0; i < 3; i += 2) cr_assert(f.peers[i].computed == 0 && !f.peers[i].finished);
    cr_assert_gt(flock_said(&f, 0, "some of its chunks are on peers that are not here") +
                     flock_said(&f, 2, "some of its chunks are on peers that are not here"),
                 0);
    give_first_state(&f.peers[1], 1, FLOCK_CHUNKS - 1);
    flock_start(&f, 1);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    flock_close(&f);
}

/* Under a majority rule it could begin with no other than itself, as could another one. */
Test(peer_branch, a_job_that_goes_on_begins_with_as_many_peers_as_it_is_for) {
    for (int quorum = GW_QUORUM_ANY; quorum <= GW_QUORUM_MAJORITY; quorum++) {
        flock f;
        open_branch(&f, 3, 2, (gw_quorum)quorum);
        for (uint32_t i = 0; i < 3; i++) give_first_state(&f.peers[i], 0, FLOCK_CHUNKS);
        flock_start(&f, 0);
        flock_run_for(&f, 200 * SECOND);
        cr_assert(f.peers[0].computed == 0 && !f.peers[0].finished);
        cr_assert_gt(flock_said(&f, 0, "2 peers: 1 here"), 0, "%s", f.peers[0].said);
        flock_start(&f, 1);
        flock_start(&f, 2);
        cr_assert(flock_run(&f, NULL, MOST_EVENTS));
        flock_expect_done(&f, 3);
        flock_close(&f);
    }
}

Test(peer_branch, a_peer_that_does_not_know_the_first_state_begins_nothing) {
    flock f;
    flock_open(&f, 1, 1, STEPS, GW_QUORUM_ANY);
    f.peers[0].config.first_step = GW_STEP_UNKNOWN;
    flock_start(&f, 0);
    flock_run_for(&f, 200 * SECOND);
    cr_assert(f.peers[0].computed == 0 && !f.peers[0].finished);
    cr_assert_gt(flock_said(&f, 0, "no peer here knows from which checkpoint the job goes on"), 0, "%s",
                 f.peers[0].said);
    flock_close(&f);
}
