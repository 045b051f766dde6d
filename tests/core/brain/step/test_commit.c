/* When a step may be shown (core/brain/commit.c). That what is shown is right, comes in order and never twice
 * is checked by the flock itself, in every test. */
#include "tests/core/brain/flock/flock.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 100000, STEPS = 12 };

static void run_with_slow_peer(gw_quorum quorum, uint32_t *early) {
    flock f;
    flock_open(&f, 3, 3, STEPS, quorum);
    f.checkpoint_steps = 4;
    f.peers[1].apply_ns = 50000000;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, 3);
    *early = 0;
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(f.peers[i].shown_step, STEPS, "peer %u showed %lu steps", i, f.peers[i].shown_step);
        cr_expect_eq(flock_status(&f, i).committed_step, STEPS);
        *early += f.peers[i].showed_early;
    }
    flock_close(&f);
}

Test(commit, where_a_majority_rules_a_step_is_shown_when_all_members_hold_its_state) {
    uint32_t early;
    run_with_slow_peer(GW_QUORUM_MAJORITY, &early);
    cr_assert_eq(early, 0);
    run_with_slow_peer(GW_QUORUM_ANY, &early);
    cr_assert_eq(early, 2, "where nothing depends on who takes part, nobody waits to show it");
}

/* `flipped` peers from `who` on get other bits, and they are fewer than the others. They have nothing to show
 * of the step: it is the others' state that they go on from. */
static void flip(uint32_t count, uint32_t who, uint32_t flipped, uint64_t step) {
    flock f;
    flock_open(&f, count, count, STEPS, GW_QUORUM_MAJORITY);
    for (uint32_t i = who; i < who + flipped; i++) f.peers[i].flip_step = step;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    flock_expect_done(&f, count);
    for (uint32_t i = 0; i < count; i++) {
        bool dropped = i >= who && i < who + flipped && step == STEPS;
        cr_expect_eq(f.peers[i].shown_step, dropped ? STEPS - 1 : STEPS, "peer %u", i);
        cr_expect_eq(flock_status(&f, i).committed_step, STEPS);
    }
    uint32_t named = 0;
    for (uint32_t i = 0; i < count; i++) named += f.peers[i].corruptions;
    cr_expect_geq(named, flipped, "those with other bits are named");
    flock_close(&f);
}

Test(commit, members_with_other_bits_take_the_quorums_state_before_the_step_is_shown) {
    flip(3, 1, 1, 6);
    flip(5, 0, 2, 6);
    flip(7, 4, 3, 6);
}

/* Half of the peers, from `who` on, get other bits. */
static void flip_half(uint32_t count, uint32_t who, uint64_t step, gw_quorum quorum) {
    flock f;
    flock_open(&f, count, count, STEPS, quorum);
    for (uint32_t i = who; i < who + count / 2; i++) f.peers[i].flip_step = step;
    flock_start_all(&f);
    cr_assert(flock_run(&f, NULL, MOST_EVENTS));
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED, "peer %u", i);
        cr_expect_not_null(strstr(f.peers[i].finish_text, "nobody can tell which are right"), "peer %u: %s",
                           i, f.peers[i].finish_text);
    }
    flock_close(&f);
}

Test(commit, where_as_many_hold_other_bits_nobody_goes_on) {
    for (uint32_t who = 0; who < 2; who++) {
        flip_half(2, who, 6, GW_QUORUM_MAJORITY);
        flip_half(4, 2 * who, 6, GW_QUORUM_MAJORITY);
        flip_half(2, who, 6, GW_QUORUM_ANY);
        flip_half(4, 2 * who, 6, GW_QUORUM_ANY);
    }
}

static bool all_at_step_6(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (flock_status(f, i).step != 6) return false;
    return true;
}

/* Another dies before the next sum shows it: whoever proposes the next view finds it out, and says so. */
Test(commit, where_as_many_vote_with_other_bits_nobody_goes_on) {
    for (uint32_t victim = 0; victim < 3; victim++)
        for (int any = 0; any < 2; any++) {
            flock f;
            flock_open(&f, 3, 3, STEPS, any ? GW_QUORUM_ANY : GW_QUORUM_MAJORITY);
            f.peers[(victim + 1) % 3].flip_step = 6;
            flock_start_all(&f);
            cr_assert(flock_run(&f, all_at_step_6, MOST_EVENTS));
            flock_kill(&f, victim);
            cr_assert(flock_run(&f, NULL, MOST_EVENTS));
            uint32_t heard = 0;
            for (uint32_t i = 0; i < 3; i++) {
                if (i == victim) continue;
                const char *text = f.peers[i].finish_text;
                cr_expect_eq(f.peers[i].finish, GW_FINISH_FAILED, "peer %u", i);
                cr_expect_not_null(strstr(text, "nobody can tell which are right"), "peer %u: %s", i, text);
                heard += strstr(text, "(told by peer ") != NULL;
            }
            cr_expect_eq(heard, 1, "one has proposed the view, and told the other");
            flock_close(&f);
        }
}

/* No reduction follows. */
Test(commit, other_bits_of_the_last_step_show_in_the_final_checkpoint) {
    flip(3, 0, 1, STEPS);
    flip(3, 2, 1, STEPS);
    flip(5, 2, 2, STEPS);
}
