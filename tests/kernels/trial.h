/* Runs a job in one thread, in plain memory: the smallest thing that keeps the promises of core/godwit.h.
 * Shards are taken in any order that a test likes; sums are int64 fixed point. Aborts the test on any
 * failure. */
#ifndef GODWIT_TESTS_KERNELS_TRIAL_H
#define GODWIT_TESTS_KERNELS_TRIAL_H

#include "core/godwit.h"

typedef enum trial_order { TRIAL_FORWARD, TRIAL_BACKWARD, TRIAL_SHUFFLED } trial_order;

typedef struct trial {
    gw_emitter emitter; /* first: jobs hand its address back */
    const gw_job_type *type;
    void *job, *lane;
    gw_plan plan;
    void *state[GW_MAX_TENSORS];
    int64_t *sums[GW_MAX_TENSORS];
    uint64_t bad;            /* elements not finite or out of range since the step began */
    uint32_t emitted_bucket; /* of the last emission of a shard: may only rise */
} trial;

/* Opens the job with `pairs` "name", "value", ..., NULL over its defaults. */
trial *trial_open(const gw_job_type *type, const char *const *pairs);
void trial_close(trial *t);

/* Opens and closes the job; returns whether that worked, with *err. */
bool trial_opens(const gw_job_type *type, const char *const *pairs, gw_err *err);

/* The lines "name=value" that the job contributes to its identity when it is opened so; the caller frees
 * them. */
char *trial_identity(const gw_job_type *type, const char *const *pairs);

void trial_init(trial *t, uint64_t range_elements);
/* Sums all shards of `step`. */
void trial_sum(trial *t, uint64_t step, trial_order order);
/* scalars and apply, in ranges of at most `range_elements`. */
void trial_apply(trial *t, uint64_t step, uint64_t range_elements);
void trial_run(trial *t, uint64_t steps);

gw_sums trial_sums(const trial *t);
/* Number of the tensor called `name`; the test fails if there is none. */
uint32_t trial_tensor(const trial *t, const char *name);
/* Whether a tensor's name ends so. */
bool trial_named(const gw_tensor *tensor, const char *end);
/* BLAKE2b of all state, or of all sums. */
gw_hash trial_state_hash(const trial *t);
gw_hash trial_sums_hash(const trial *t);

#endif
