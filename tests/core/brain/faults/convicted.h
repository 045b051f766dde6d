/* A peer that others have found wrong, and that is cut off before it hears so. */
#ifndef GODWIT_TESTS_CORE_BRAIN_FAULTS_CONVICTED_H
#define GODWIT_TESTS_CORE_BRAIN_FAULTS_CONVICTED_H

#include "tests/core/brain/flock/flock.h"

#include "core/brain/state.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST_EVENTS = 400000 };
#define SECONDS UINT64_C(1000000000)
#define RUN_UNTIL(condition)                                                                                 \
    while (!(condition)) cr_assert(!flock_run(&f, NULL, 1))

static inline bool computing(const flock *f, uint32_t i, uint32_t members) {
    return flock_in_view_of(f, i, members) && strcmp(flock_status(f, i).phase, "computing") == 0;
}

static inline bool others_know_the_verdict(const flock *f) {
    return f->peers[0].corruptions > 0 && f->peers[1].corruptions > 0;
}

static inline bool is_ahead_alone(const flock *f) {
    return flock_in_view_of(f, 2, 1) && f->peers[2].step > f->peers[0].step + 3;
}

/* All of its members are founders, at step 5, and compute every shard twice. */
static inline void open_verified(flock *f, uint32_t count) {
    flock_open(f, count, count, 400, GW_QUORUM_ANY);
    f->verify = GW_VERIFY_WHOLE;
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
}

/* 0 and 1 convict 2, which does not hear so. */
static inline void convict_2(flock *f) {
    f->breaks =
        (flock_break){.kind = GW_MSG_WITNESS, .from = -1, .to = 2, .times = UINT32_MAX, .quiet = true};
    f->peers[2].wrongs = 1;
    cr_assert(flock_run(f, others_know_the_verdict, MOST_EVENTS));
    f->breaks = (flock_break){0};
}

/* It is cut off before it hears so, and goes on alone. */
static inline void convict_and_part(flock *f, uint32_t count, uint64_t checkpoint_steps) {
    flock_open(f, count, 3, 400, GW_QUORUM_ANY);
    f->verify = GW_VERIFY_WHOLE;
    f->checkpoint_steps = checkpoint_steps;
    for (uint32_t i = 0; i < 3; i++) flock_start(f, i);
    cr_assert(flock_run(f, flock_at_step_5, MOST_EVENTS));
    convict_2(f);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 2) continue;
        flock_cut(f, i, 2, true);
        f->peers[i].seal_ns = 10 * SECONDS;
    }
    cr_assert(flock_run(f, is_ahead_alone, MOST_EVENTS));
    f->peers[2].seal_ns = 10 * SECONDS;
}

#endif
