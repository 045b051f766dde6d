/* The public API: how a job is written. One header; include nothing else.
 *
 * A job is a sequence of steps. Step t turns state S_t into S_{t+1} in three parts that the framework calls:
 *
 *   contribute(step, shard, S_t)  for each of the step's shards, on any peer, on any worker, in any order;
 *                                 emits floats that the framework rounds once and adds exactly, as integers
 *   scalars(step, sums, S_t)      once per peer: numbers that depend on the whole sum (learning rate, clip
 * factor) apply(range, sums, scalars)   on element ranges of the state, by several workers at once
 *
 * The promise that everything rests on: each of these is a pure function of its arguments and of the job's
 * parameters and data. Random numbers come from gw_philox_at keyed by (seed, step, shard) (core/rng.h),
 * samples from a keyed permutation; a shard's arithmetic never depends on which worker or peer runs it. Then
 * the state after step t has the same bytes whatever the number of peers and whatever died on the way.
 *
 * A job is compiled in, or is a shared object that exports `const gw_job_type *godwit_job(void)` and is run
 * as `godwit run ./mine.so`.
 *
 * Threads: open, describe, close, report and summary are called from one thread, nothing else running. init
 * and apply run on several threads at once, on disjoint ranges. contribute runs on several threads at once,
 * each with its own lane; it must not write to the job object, except to caches that it guards itself.
 * scalars runs alone. payload runs on several threads at once, and beside contribute. So does commit, on one
 * thread at a time, never beside init, scalars or apply.
 *
 * Shard payload: input that is too large for every peer to hold. A job that says so in its plan gives each
 * shard a block of bytes that does not change from step to step. The flock keeps each block in the memory of
 * some peers; contribute finds it behind gw_payload(), in place where this peer holds it, else read from a
 * peer that does, over RDMA without its help, or written by the job's `payload`. */
#ifndef GODWIT_CORE_GODWIT_H
#define GODWIT_CORE_GODWIT_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_JOB_API 6u

enum {
    GW_MAX_TENSORS = 4096,
    GW_MAX_RANK = 8,
    GW_MAX_SHARDS = (1 << 20) - 1, /* of one step: the range word has 20 bits for a position */
    GW_MAX_SCALARS = 16,
    GW_MAX_PAYLOADS = 4096,
};

typedef enum gw_dtype { GW_F32 = 1, GW_F64 = 2, GW_I32 = 3, GW_I64 = 4, GW_U8 = 5, GW_BF16 = 6 } gw_dtype;

typedef enum gw_role {
    GW_STATE = 1, /* part of S_t: hashed, checkpointed, sent to joiners */
    GW_SUMMED =
        2, /* summed over the shards of a step, exactly; int64 fixed point in the framework's memory */
    GW_METRIC = 3, /* summed like GW_SUMMED; only shown to people unless `scalars` or `apply` read it */
} gw_role;

/* One named array that a job's state or sums are made of. Row-major. The strings are the job's, until close.
 */
typedef struct gw_tensor {
    const char *name; /* unique, at most 63 bytes, [a-z0-9._-]: goes into manifests */
    gw_dtype dtype;   /* GW_STATE only; sums are int64 */
    gw_role role;
    uint32_t rank; /* 1 to GW_MAX_RANK */
    uint64_t dim[GW_MAX_RANK];
    uint32_t group;  /* tensors applied together (parameter, its moments, its sum) share a number and a shape;
                        apply ranges are element ranges of a group */
    uint32_t bucket; /* sums: reduced in rising order; emit the tensors of a low bucket first */
    uint32_t frac_bits; /* sums: q = rint(x * 2^frac_bits). Gradients 40, losses 20, counts 0; at most 52 */
    /* GW_STATE. A promise that no contribution depends on it (an optimizer's moments): neither `contribute`
     * nor what a GPU derives (core/gpu.h) reads it. With --verify it is then looked at only as it is applied,
     * not before each sum as well, which saves a read of it. Were the promise broken, others would take what
     * came of a bit that has flipped in it. */
    bool apply_only;
} gw_tensor;

/* Number of elements; the framework has checked that it does not overflow. */
uint64_t gw_tensor_elements(const gw_tensor *tensor);
size_t gw_dtype_bytes(gw_dtype dtype);

typedef enum gw_phase { GW_TRAIN = 1, GW_EVALUATE = 2 } gw_phase;

/* The payload of the job's shards. Block i, the payload of shard i of every step, is a pure function of the
 * job and i: which peer wrote it, and when, must not show. Every block is held by `copies` peers (fewer when
 * there are not so many). When they all die, or somebody joins, blocks move: they are read from a peer that
 * still has them, else written again by the job's `payload`. */
typedef struct gw_payload_plan {
    uint32_t
        shards; /* shards 0 to this - 1 of a step have a payload, GW_MAX_PAYLOADS at most; 0 = none has */
    uint32_t copies; /* 1 to 16; may differ between peers. 0 means 1 */
    uint64_t bytes;  /* of each block, at least 1 */
} gw_payload_plan;

/* What describe() fills in. Everything here must be a function of the parameters and the data alone. */
typedef struct gw_plan {
    const gw_tensor *tensors; /* the job's array, until close */
    uint32_t tensor_count;
    uint64_t steps; /* how many steps the whole job has, 0 = no end of its own; scalars may stop it earlier */
    size_t lane_bytes;   /* scratch that one lane will allocate, for the memory estimate */
    gw_hash data_digest; /* of the data the job reads; zeros when it reads none */
    char data_text[160]; /* what a person calls these data: "mnist in /data/mnist, 60000+10000 samples" */
    gw_payload_plan payload;
    /* For people: what makes lane_bytes less, "a smaller --micro-batch", and what the tensors; NULL = nothing
     * that the job knows. The job's, until close. */
    const char *lighter, *smaller;
} gw_plan;

/* Options of a job. Values reach open() as strings, defaults filled in. */
typedef struct gw_option {
    const char *name;     /* without dashes: "hidden" */
    const char *argument; /* "N", "DIR", or NULL for a switch (value "1" when given) */
    const char *fallback; /* default value; NULL = absent */
    const char *help;     /* one sentence */
    bool local; /* true: may differ between peers (a path, a slow-down); false: part of the job's identity */
} gw_option;

typedef struct gw_param {
    const char *name, *value;
} gw_param;

typedef struct gw_params {
    const gw_param *list;
    uint32_t count;
} gw_params;

/* The value of a parameter, or NULL when it was not given and has no default. */
const char *gw_param_text(const gw_params *params, const char *name);
/* Whole numbers and reals within [least, most]; the message of a failure names the option and the bounds.
 * Absent: fails. Integers take the suffixes k, m, g (1024s) when `bytes` is set. */
bool gw_param_integer(const gw_params *params, const char *name, int64_t least, int64_t most, bool bytes,
                      int64_t *value, gw_err *err);
bool gw_param_real(const gw_params *params, const char *name, double least, double most, double *value,
                   gw_err *err);

/* Elements [first, first + count) of every tensor of `group`. */
typedef struct gw_range {
    uint32_t group;
    uint64_t first, count;
} gw_range;

/* Arrays indexed by tensor number as in gw_plan.tensors; NULL where the tensor has another role. */
typedef struct gw_state {
    void *const *data;
} gw_state;

typedef struct gw_sums {
    const int64_t *const *data;
    const gw_tensor *tensors;
    const int64_t
        *measured; /* for `scalars` and `report` on a GPU: what gw_job_gpu.measure wrote; else NULL */
} gw_sums;

/* The value of element i of summed tensor `tensor`: q * 2^-frac_bits, correctly rounded to double. */
double gw_sum_value(const gw_sums *sums, uint32_t tensor, uint64_t i);
/* Whether element 0 of `tensor`, a sum of whole numbers, none of them negative, is what it has to be:
 * `expected`, or so near to it beyond 2^24 as --reduce fast can tell. Count on by `expected`, which has not
 * been rounded. */
bool gw_sum_counted(const gw_sums *sums, uint32_t tensor, uint64_t expected);

typedef struct gw_scalars {
    double value[GW_MAX_SCALARS];
    bool stop; /* this step is the job's last */
} gw_scalars;

/* One call of contribute(): where it puts its results, and the shard's payload. Opaque to jobs but for the
 * functions below. */
typedef struct gw_emitter gw_emitter;
struct gw_emitter {
    void (*emit)(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *values);
    void (*emit_integers)(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const int64_t *values);
    const void *payload;
};

/* Adds values[0..count) to elements [first, first + count) of summed tensor `tensor`. Each value is rounded
 * to the tensor's fixed point once. An element of a shard's contribution may be emitted at most once per
 * shard; elements that are not emitted contribute 0. Not finite or too large for the format: counted as bad,
 * and the whole flock stops naming step, shard, tensor and element (or skips the update, --on-bad skip). */
static inline void gw_emit(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                           const float *values) {
    emitter->emit(emitter, tensor, first, count, values);
}

/* The same for whole numbers (counts): values are shifted left by frac_bits. --reduce fast rounds their sums
 * as well, to 24 significant bits. */
static inline void gw_emit_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                                    const int64_t *values) {
    emitter->emit_integers(emitter, tensor, first, count, values);
}

/* The payload of the shard that contribute() computes: gw_payload_plan.bytes bytes, aligned to 64, to be read
 * only, until contribute returns. NULL: it has none. */
static inline const void *gw_payload(const gw_emitter *emitter) {
    return emitter->payload;
}

typedef struct gw_job_type {
    uint32_t api;             /* GW_JOB_API */
    const char *name;         /* "digits" */
    const char *about;        /* one line for --help */
    const gw_option *options; /* ends with a NULL name */

    /* Reads parameters and data. *job is the job's own object, given back to every call. */
    bool (*open)(const gw_params *params, void **job, gw_err *err);
    void (*close)(void *job);
    bool (*describe)(void *job, gw_plan *plan, gw_err *err);

    /* A lane is one worker's scratch; contribute gets the lane of the worker that runs it. */
    bool (*lane_open)(void *job, void **lane, gw_err *err);
    void (*lane_close)(void *job, void *lane);

    /* S_0, by ranges. */
    bool (*init)(void *job, const gw_range *range, const gw_state *state, gw_err *err);

    /* How many shards step `step` has (1 to GW_MAX_SHARDS), and what it is. Pure, cheap, any thread. */
    uint32_t (*shards)(const void *job, uint64_t step, gw_phase *phase);

    /* Optional (may be NULL): a shard that this worker will probably run next; ask for its data, but do not
     * wait for them: the worker is about to run another. (Payload is fetched ahead without this.) */
    void (*prefetch)(void *job, void *lane, uint64_t step, uint32_t shard);

    /* The contribution of one shard. Fails only when the shard cannot be computed here (I/O, memory). */
    bool (*contribute)(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                       gw_emitter *emitter, gw_err *err);

    /* Optional. Deterministic, reads sums and state. */
    bool (*scalars)(void *job, uint64_t step, const gw_sums *sums, const gw_state *state, gw_scalars *scalars,
                    gw_err *err);

    /* S_t -> S_{t+1} in place for one range. Any partition into ranges gives the same bytes. A group that a
     * step does not change is left alone. */
    bool (*apply)(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                  const gw_scalars *scalars, const gw_state *state, gw_err *err);

    /* Optional: what a person wants to see of the step just applied ("loss=0.31"), at most `size` bytes, one
     * line, key=value separated by single spaces; and of the whole job at its end, from the state alone
     * ("loss=0.0712 accuracy=0.9781"). */
    void (*report)(void *job, uint64_t step, const gw_sums *sums, const gw_scalars *scalars, char *text,
                   size_t size);
    void (*summary)(void *job, uint64_t steps_done, const gw_state *state, char *text, size_t size);

    /* Needed when the plan has a payload: writes block `shard` to `bytes`, which is zeroed or holds any
     * older block. Called wherever the block is needed and no peer has it: on those that hold it at the
     * start, and on others after deaths. When it fails the shard is given back, and the flock deals it
     * again; a peer on which that happens three times in one step stops, and the others go on. */
    bool (*payload)(void *job, uint32_t shard, void *bytes, gw_err *err);

    /* Optional: effects outside of the job, such as a row in a database. Called after step `step` is
     * committed: with exact sums, when it is applied; where a majority rules, when all members of the view
     * are known to hold what came of it, so never for a step that may still be computed otherwise. `state` is
     * S_{step+1}: whatever an effect depends on must be in it.
     *
     * At least once for every step, whatever dies, in rising order on each peer. Every peer that takes part
     * in a step calls it, and one that begins from a checkpoint or from others' state calls it for the last
     * step behind that state, as its earlier life or those others may have died just before. So an effect is
     * to be keyed by (job, step) at its receiver, where a repetition must do no harm.
     *
     * Runs while the shards of the next step are computed, whose sum waits for it. When it fails, this peer
     * ends and the others go on; when it fails everywhere, so does the job, which resumes from its newest
     * checkpoint and calls it again for the steps from there on. A job's last commit ends before its process
     * does. */
    bool (*commit)(void *job, uint64_t step, const gw_state *state, gw_err *err);

    /* Optional: how it computes on a GPU (core/gpu.h). There `scalars`, `report`, `summary` and `commit` find
     * only the sums and the state of at most GW_GPU_SMALL elements; the others' pointers are NULL. What
     * `scalars` needs to know of larger sums, the table's `measure` makes of them. */
    const struct gw_job_gpu *gpu;
} gw_job_type;

#endif
