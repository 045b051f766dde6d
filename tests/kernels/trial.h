/* Runs a job in one thread and in plain memory, as core/godwit.h states. The test chooses the order of
 * shards; sums are int64 fixed point. Any failure aborts the test. */
#ifndef GODWIT_TESTS_KERNELS_TRIAL_H
#define GODWIT_TESTS_KERNELS_TRIAL_H

#include "core/godwit.h"

typedef enum trial_order { TRIAL_FORWARD, TRIAL_BACKWARD, TRIAL_SHUFFLED } trial_order;

typedef struct trial {
    gw_emitter emitter; /* must be the first field: jobs pass its address back */
    const gw_job_type *type;
    void *job, *lane;
    gw_plan plan;
    void **state;   /* by tensor; NULL for sums */
    int64_t **sums; /* by tensor; NULL for state */
    /* number of elements that were not finite or out of range since the step began */
    uint64_t bad;
    uint32_t emitted_bucket; /* bucket of the shard's last emission, which may only rise */
} trial;

/* Opens the job with the options `pairs`, "name", "value", ..., NULL, in place of its defaults. */
trial *trial_open(const gw_job_type *type, const char *const *pairs);
void trial_close(trial *t);

/* Opens and closes the job; returns whether that worked, with *err. */
bool trial_opens(const gw_job_type *type, const char *const *pairs, gw_err *err);

/* Returns the lines "name=value" that the job contributes to its identity when it is opened with these
 * options; the caller frees them. */
char *trial_identity(const gw_job_type *type, const char *const *pairs);

void trial_init(trial *t, uint64_t range_elements);
/* Sums all shards of `step`. */
void trial_sum(trial *t, uint64_t step, trial_order order);
/* Runs the job's scalars, and its apply in ranges of at most `range_elements`. */
void trial_apply(trial *t, uint64_t step, uint64_t range_elements);
void trial_run(trial *t, uint64_t steps);

gw_sums trial_sums(const trial *t);
/* The number of the tensor `name`; the test fails if there is none. */
uint32_t trial_tensor(const trial *t, const char *name);
/* Whether a tensor's name ends with `end`. */
bool trial_named(const gw_tensor *tensor, const char *end);
/* BLAKE2b of all state, or of all sums. */
gw_hash trial_state_hash(const trial *t);
gw_hash trial_sums_hash(const trial *t);

#endif
