/* The public API: how a job is written. A job includes this header, core/rng.h for random numbers,
 * kernels/job.h for helpers (the order of samples, optimizers, schedules, norms, digests), and core/gpu.h if it
 * also computes on GPUs. `godwit new-job NAME` writes a job to begin with.
 *
 * A job is a sequence of steps. Step t turns the state S_t into S_{t+1} in three parts, which the framework
 * calls:
 *
 *     contribute(step, shard, S_t)   runs for each shard of the step, on any peer and worker, in any order.
 *                                    It emits floats, which the framework rounds once and adds exactly.
 *     scalars(step, sums, S_t)       runs once per peer. It computes numbers that depend on the whole sum,
 *                                    such as the learning rate or a clipping factor.
 *     apply(range, sums, scalars)    updates element ranges of the state, on several workers at once.
 *
 * Each of these must be a pure function of its arguments, the job's parameters and the job's data. Random
 * numbers come from gw_philox_at keyed by (seed, step, shard) (core/rng.h), samples from a keyed permutation,
 * and a shard's arithmetic does not depend on the worker or the peer that runs it. The state after step t
 * then has the same bytes for any number of peers and any pattern of deaths.
 *
 * A job is compiled into the program, or it is a shared object that exports `const gw_job_type
 * *godwit_job(void)` and is run as `godwit run ./mine.so`.
 *
 * Threads: open, describe, close, report and summary are called from one thread while nothing else runs. init
 * and apply run on several threads at once, on disjoint ranges. contribute runs on several threads at once,
 * each with its own lane; it must not write to the job object, except to caches that the job guards itself.
 * scalars runs alone. payload runs on several threads at once, also beside contribute. commit runs beside
 * contribute and payload, on one thread at a time, and never beside init, scalars or apply.
 *
 * Errors: a function that returns bool returns false on failure and fills *err. The framework adds the job,
 * the step and the shard to the message.
 *
 * Shard payload: input that is too large for every peer to hold. A job that declares a payload in its plan
 * gives each shard a block of bytes that does not change from step to step. The flock keeps each block in the
 * memory of some peers. contribute finds the block through gw_payload(): in place where this peer holds it,
 * otherwise read from a holder (over RDMA without involving the holder's processor), or written by the job's
 * `payload`. */
#ifndef GODWIT_CORE_GODWIT_H
#define GODWIT_CORE_GODWIT_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of this interface. Version 10 has added gw_job_type.samples, at the end; a job that was built for
 * version 9 runs as one that does not tell its samples. */
#define GW_JOB_API        10u
#define GW_JOB_API_OLDEST 9u

enum {
    GW_MAX_TENSORS = 65536,
    GW_MAX_TENSOR_NAME = 255, /* bytes */
    GW_MAX_RANK = 8,
    GW_MAX_SHARDS = (1 << 20) - 1, /* shards of one step: the range word has 20 bits for a position */
    GW_MAX_SCALARS = 16,
    GW_MAX_PAYLOADS = 4096,
};

#define GW_INTERRUPT_UPDATE UINT32_MAX /* gw_job_type.interrupt: no shard, but what follows them */

typedef enum gw_dtype {
    GW_F32 = 1,
    GW_F64 = 2,
    GW_I32 = 3,
    GW_I64 = 4,
    GW_U8 = 5,
    GW_BF16 = 6,
    GW_F16 = 7,
    GW_I16 = 8,
    GW_I8 = 9,
    GW_BOOL = 10, /* one byte, 0 or 1 */
    GW_DTYPE_LAST = GW_BOOL,
} gw_dtype;

typedef enum gw_role {
    GW_STATE = 1,  /* part of S_t: hashed, checkpointed and sent to peers that join */
    GW_SUMMED = 2, /* summed exactly over the shards of a step, as int64 fixed point */
    GW_METRIC = 3, /* summed like GW_SUMMED, and shown to people only, unless `scalars` or `apply` reads it */
} gw_role;

/* One named array of a job's state or sums, in row-major order. The job owns the strings and keeps them until
 * close. */
typedef struct gw_tensor {
    /* Unique; 1 to GW_MAX_TENSOR_NAME bytes of UTF-8 without control characters. It is written to
     * manifests. A state tensor that is called as another one of its group and shape, with ".m" or ".v"
     * behind it, holds an optimizer's moments: `godwit export` leaves it out unless it is asked for. */
    const char *name;
    gw_dtype dtype; /* of a GW_STATE tensor; sums are int64 whatever this says */
    gw_role role;
    uint32_t rank; /* 1 to GW_MAX_RANK */
    uint64_t dim[GW_MAX_RANK];
    /* Tensors that are applied together (a parameter, its moments, its sum) have one group number and one
     * shape. The ranges given to apply are element ranges of a group. */
    uint32_t group;
    /* For sums: buckets are reduced in rising order, so the tensors of a low bucket are emitted first. */
    uint32_t bucket;
    /* For sums: a value x is rounded to rint(x * 2^frac_bits). Gradients usually take 40, losses 20, counts
     * 0; at most 52. */
    uint32_t frac_bits;
    /* For GW_STATE: the job promises that no contribution depends on this tensor (an optimizer's moments):
     * neither `contribute` nor `derive` (core/gpu.h) reads it. With --verify, the framework then hashes the
     * tensor only as it is applied, and not before each sum as well, which saves a pass over it. If a job
     * breaks the promise, other peers accept results that a flipped bit in the tensor has changed. */
    bool apply_only;
} gw_tensor;

/* The number of a tensor's elements. The framework has checked that it does not overflow. Any thread. */
uint64_t gw_tensor_elements(const gw_tensor *tensor);
/* The bytes of one element. Any thread. */
size_t gw_dtype_bytes(gw_dtype dtype);
/* The name of a type for people: "f32". Any thread. */
const char *gw_dtype_name(gw_dtype dtype);

/* What a step is for. Both kinds of steps are computed alike; people are shown which kind a step was. */
typedef enum gw_phase { GW_TRAIN = 1, GW_EVALUATE = 2 } gw_phase;

/* This says which values of an evaluation are the better ones. */
typedef enum gw_direction { GW_LESS_IS_BETTER = 1, GW_MORE_IS_BETTER = 2 } gw_direction;

/* The payload of the job's shards. Block i, the payload of shard i of every step, is a pure function of the
 * job and of i; it must not depend on which peer wrote it, or when. Every block is held by `copies` peers, or
 * by all if there are fewer. When all holders die, or a peer joins, blocks move: they are read from a peer
 * that still has them, and otherwise written again by the job's `payload`. */
typedef struct gw_payload_plan {
    /* Shards 0 to shards - 1 of each step have a payload; at most GW_MAX_PAYLOADS. 0: no shard has one. */
    uint32_t shards;
    uint32_t copies; /* 1 to 16, 0 means 1; may differ between peers */
    uint64_t bytes;  /* size of each block, at least 1 */
} gw_payload_plan;

/* A value that each evaluation of the job gives, by which --keep-best and --patience compare states: that
 * of a scalar which `scalars` sets in steps of the phase GW_EVALUATE. It is thus a function of the step's
 * sums. */
typedef struct gw_evaluation {
    const char *name;    /* as `report` names it: "val_loss" */
    uint32_t scalar;     /* index in gw_scalars.value */
    gw_direction better; /* which values are better; 0: the user must say */
} gw_evaluation;

/* What describe() fills in. All of it must be a function of the parameters and the data alone. */
typedef struct gw_plan {
    const gw_tensor *tensors; /* the job's array, kept until close */
    uint32_t tensor_count;
    /* Steps of the whole job; 0: the job has no end of its own. `scalars` may stop it earlier. */
    uint64_t steps;
    size_t lane_bytes;   /* bytes of scratch that one lane allocates, for the memory estimate */
    uint64_t job_bytes;  /* bytes that the job takes beside its state and its lanes, for the same */
    gw_hash data_digest; /* of the data that the job reads; zeros where it reads none */
    /* The data in words for people: "mnist in /data/mnist, 60000+10000 samples". */
    char data_text[160];
    /* Optional, for the first lines of a run. What is computed: "2 layers, 64 channels, 115000
     * parameters". How long: "8192 tokens an update, 300 updates; one pass over the data is 27 updates".
     * Without length_text, people are shown the numbers of steps and of shards. */
    char model_text[160], length_text[160];
    gw_payload_plan payload;
    /* Advice for people whose machine has too little memory: what makes lane_bytes smaller ("a smaller
     * --micro-batch"), and what makes the tensors smaller. NULL: the job knows of nothing. The job keeps the
     * strings until close. */
    const char *lighter, *smaller;
    /* What else must be equal on all peers of the job, as lines "name=value\n" of text without control
     * characters. The value of a name that begins with "file:" is a digest of that file. NULL: nothing.
     * The job keeps the text until close. */
    const char *identity;
    /* Optional: what the evaluations give, for --keep-best; none where the job evaluates nothing in this run.
     * The array is the job's, kept until close. */
    const gw_evaluation *evaluations;
    uint32_t evaluation_count;
    /* The number of workers that suits this machine, where the user has not chosen one (a worker for each
     * GPU of a program that computes on GPUs); 0: as many as there are cores. It may differ between peers. */
    uint32_t workers;
} gw_plan;

/* An option of a job. open() receives values as strings, with defaults filled in. */
typedef struct gw_option {
    const char *name;     /* without dashes: "hidden" */
    const char *argument; /* "N", "DIR"; NULL: a switch, whose value is "1" when given */
    const char *fallback; /* default value; NULL: the option is absent unless given */
    const char *help;     /* one sentence for --help */
    /* true: may differ between peers (a path, a delay); false: part of the job's identity */
    bool local;
} gw_option;

/* A parameter: an option of the job and its value. */
typedef struct gw_param {
    const char *name, *value;
} gw_param;

typedef struct gw_param_record gw_param_record;

typedef struct gw_origin gw_origin;

/* The parameters that open() receives. Jobs read them with the functions below. */
typedef struct gw_params {
    const gw_param *list;
    uint32_t count;
    /* Belongs to the framework: where the values are recorded as the job reads them. NULL: they are not. */
    gw_param_record *record;
    const gw_origin *origin; /* the state from which the job goes on; NULL: it begins with S_0 */
} gw_params;

/* The state from which a job goes on with --continue: that of another job of its type, its parent, after
 * `step` steps. The first step of the job is then step `step`, and its tensors are those of the parent. A job
 * in which the meaning of a step depends on the step's number alone need not do anything. In other jobs
 * (updates and evaluations take turns, or a step's place in the data follows from the size of a batch) open()
 * finds out where the parent was, and records it as one line of text by gw_param_use_text(params, GW_PLACE,
 * text). The text goes into the job's identity and its manifests. When the job resumes, and on peers that do
 * not have the parent's checkpoint, open() receives the text and not the parent's parameters. The text comes
 * from a file or a peer: open() checks it. Valid while open() runs. */
struct gw_origin {
    uint64_t step;
    const char *place; /* what open() recorded; NULL: it is to be found out from the parent's parameters */
    /* The parent's parameters, with place NULL, as its manifests have them: values in their recorded
     * spelling, or as they were typed where an early build wrote the manifest. A parent that went on from
     * another state has two further ones, GW_PLACE and "parent-step". */
    const gw_param *parent;
    uint32_t parent_count;
};
#define GW_PLACE "parent-place"

/* The value of a parameter; NULL where it was not given and has no default. The string lives as long as
 * `params`. */
const char *gw_param_text(const gw_params *params, const char *name);
/* Parse a parameter as a whole number or as a real number within [least, most]. With `bytes`, whole numbers
 * take the suffixes k, m and g (powers of 1024). An absent parameter is a failure. The message of a failure
 * names the option and the bounds. */
bool gw_param_integer(const gw_params *params, const char *name, int64_t least, int64_t most, bool bytes,
                      int64_t *value, gw_err *err);
bool gw_param_real(const gw_params *params, const char *name, double least, double most, double *value,
                   gw_err *err);

/* The value of one of the parent's parameters; NULL: the parent had none of this name. */
const char *gw_origin_text(const gw_origin *origin, const char *name);

/* A job's identity consists of the values it computes with, not of the texts that were typed: 0.01, 1e-2 and
 * a default of 0.01 are one job. gw_param_integer and gw_param_real record what they have read. open() calls
 * the functions below for values that it determines otherwise: a default that depends on other options or on
 * the data, a list that it takes apart. A later call replaces an earlier one. gw_param_use_text with NULL
 * says that the option means nothing beside the others, so that it is left out. Without such a call the text
 * counts as it was typed. A name that is no option of the job goes into its manifests and not into its
 * identity: a job that goes on from this one may need it (gw_origin). */
void gw_param_use_integer(const gw_params *params, const char *name, int64_t value);
void gw_param_use_real(const gw_params *params, const char *name, double value);
void gw_param_use_text(const gw_params *params, const char *name, const char *value);

/* Elements [first, first + count) of every tensor of `group`. */
typedef struct gw_range {
    uint32_t group;
    uint64_t first, count;
} gw_range;

/* The state. data[t] is the array of tensor t of gw_plan.tensors; NULL where t is not a GW_STATE tensor. */
typedef struct gw_state {
    void *const *data;
} gw_state;

/* The sums of a step. data[t] is the array of summed tensor t; NULL where t is a GW_STATE tensor. */
typedef struct gw_sums {
    const int64_t *const *data;
    const gw_tensor *tensors; /* gw_plan.tensors */
    /* What gw_job_gpu.measure wrote, for `scalars` and `report` on a GPU; otherwise NULL. */
    const int64_t *measured;
} gw_sums;

/* The value of element i of summed tensor `tensor`: q * 2^-frac_bits, correctly rounded to double. */
double gw_sum_value(const gw_sums *sums, uint32_t tensor, uint64_t i);
/* Whether element 0 of `tensor`, a sum of whole numbers that are not negative, equals `expected`. --reduce
 * fast rounds sums beyond 2^24; there the answer is whether the sum is as close to `expected` as that
 * rounding allows. Jobs should go on to compute with `expected`, which has not been rounded. */
bool gw_sum_counted(const gw_sums *sums, uint32_t tensor, uint64_t expected);

/* The scalars of a step, which are zeros before `scalars` runs. Their meaning is the job's own. */
typedef struct gw_scalars {
    double value[GW_MAX_SCALARS];
    bool stop; /* this step is the job's last */
} gw_scalars;

/* Why a process that computed a shard for the job has ended. */
typedef enum gw_process_loss_kind {
    GW_LOSS_CRASHED = 1, /* by a fault of its own; or it hung, and was ended */
    GW_LOSS_STARVED = 2, /* the kernel ended it for lack of memory */
    GW_LOSS_KILLED = 3,  /* somebody else killed it */
} gw_process_loss_kind;

/* The end of a process at a shard of which nothing has been emitted. */
typedef struct gw_process_loss {
    gw_process_loss_kind kind;
    uint32_t serial;  /* of the process: from 1 on, and of no other process of this job on this peer */
    bool given_back;  /* no other process will compute the shard; contribute returns false */
    const char *text; /* what has become of it */
} gw_process_loss;

/* One call of contribute(): where its results go, and the shard's payload. Jobs use it through the functions
 * below and do not read its fields. */
typedef struct gw_emitter gw_emitter;
struct gw_emitter {
    void (*emit)(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *values);
    void (*emit_integers)(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const int64_t *values);
    void (*emit_doubles)(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                         const double *values);
    /* Whether the contribution will be thrown away. NULL: it is not known. */
    bool (*dropped)(const gw_emitter *emitter);
    /* Takes note of a loss. NULL: there is nobody to. */
    void (*lost)(gw_emitter *emitter, const gw_process_loss *loss);
    const void *payload;
};

/* Adds values[0 .. count) to elements [first, first + count) of summed tensor `tensor`. Each value is rounded
 * once to the tensor's fixed point. A shard may emit each element at most once; elements that it does not
 * emit contribute 0. The values may be overwritten after the call. A value that is not finite, or too large
 * for the format, counts as bad: the whole flock then stops with a message that names step, shard, tensor and
 * element, or skips the update under --on-bad skip. */
static inline void gw_emit(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                           const float *values) {
    emitter->emit(emitter, tensor, first, count, values);
}

/* Adds whole numbers (counts) in the same way: values are shifted left by frac_bits. --reduce fast rounds
 * their sums to 24 significant bits. */
static inline void gw_emit_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                                    const int64_t *values) {
    emitter->emit_integers(emitter, tensor, first, count, values);
}

/* Adds doubles in the same way as gw_emit. On processors only. */
static inline void gw_emit_doubles(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                                   const double *values) {
    emitter->emit_doubles(emitter, tensor, first, count, values);
}

/* Whether the contribution of the shard will be thrown away, because the flock has gone on without it or
 * begins the step again. A long computation may end then; contribute returns true, whatever it has
 * emitted. */
static inline bool gw_emitter_dropped(const gw_emitter *emitter) {
    return emitter->dropped != NULL && emitter->dropped(emitter);
}

/* Tells the framework of a process that has ended at the shard, so that a shard that ends every process is
 * known as such. After a loss with given_back, the flock deals the shard again. */
static inline void gw_emitter_lost(gw_emitter *emitter, const gw_process_loss *loss) {
    if (emitter->lost != NULL) emitter->lost(emitter, loss);
}

/* The payload of the shard that contribute() computes: gw_payload_plan.bytes bytes, aligned to 64, read-only,
 * valid until contribute returns. NULL where the shard has none. */
static inline const void *gw_payload(const gw_emitter *emitter) {
    return emitter->payload;
}

/* A sample of a shard: what people need to find it in the data. The strings belong to the job, which may free
 * them when gw_take_sample has returned. */
typedef struct gw_sample {
    const char *set;  /* what it belongs to: "train", or a file; NULL: the job has one set */
    const char *unit; /* what `index` and `count` count: "byte", "token"; NULL: samples */
    uint64_t index;   /* of the sample in the set, from 0 on; of a stretch of text, where it begins */
    uint64_t count;   /* 1, or the units of the stretch */
    const char *text; /* what it is, for people: a label, the first characters; NULL: nothing is known */
} gw_sample;

/* Where a job tells the samples of a shard. Jobs use it through the function below. */
typedef struct gw_sample_sink gw_sample_sink;
struct gw_sample_sink {
    void (*take)(gw_sample_sink *sink, const gw_sample *sample);
};

static inline void gw_take_sample(gw_sample_sink *sink, const gw_sample *sample) {
    sink->take(sink, sample);
}

typedef struct gw_job_type {
    uint32_t api;             /* GW_JOB_API */
    const char *name;         /* what follows `godwit run`: "digits" */
    const char *about;        /* one line for --help */
    const gw_option *options; /* ends with an entry whose name is NULL */

    /* Reads parameters and data. Sets *job to the job's own object, which every later call receives. close
     * frees it. */
    bool (*open)(const gw_params *params, void **job, gw_err *err);
    void (*close)(void *job);
    bool (*describe)(void *job, gw_plan *plan, gw_err *err);

    /* Open and close a lane, the scratch of one worker. contribute receives the lane of the worker that runs
     * it. */
    bool (*lane_open)(void *job, void **lane, gw_err *err);
    void (*lane_close)(void *job, void *lane);

    /* Optional; processors only. Places the state tensors in memory of the job's own, which other
     * processes may map: sets data[t] for each GW_STATE tensor t to zeroed memory of its size, aligned to
     * 64 bytes, which stays until close. Called once, before init. */
    bool (*place)(void *job, void **data, gw_err *err);

    /* Writes S_0, range by range. */
    bool (*init)(void *job, const gw_range *range, const gw_state *state, gw_err *err);

    /* Optional; processors only. The framework has written to the state: it was loaded from a checkpoint or
     * from another peer, or a damaged part was replaced. Called after each such write and before the next
     * call that reads the state, for jobs that keep copies of it elsewhere. Any thread. */
    void (*state_written)(void *job);

    /* The number of shards of step `step`, 1 to GW_MAX_SHARDS; sets *phase. Pure and cheap. Any thread. */
    uint32_t (*shards)(const void *job, uint64_t step, gw_phase *phase);

    /* Optional (may be NULL). The worker will probably run this shard next: the job asks for the shard's data
     * without waiting for them, since the worker is about to run another shard. The framework fetches payload
     * ahead without this call. */
    void (*prefetch)(void *job, void *lane, uint64_t step, uint32_t shard);

    /* Computes and emits the contribution of one shard. Fails only where the shard cannot be computed here
     * (I/O, memory). */
    bool (*contribute)(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                       gw_emitter *emitter, gw_err *err);

    /* Optional. Computes the step's scalars from the sums and the state. Deterministic. */
    bool (*scalars)(void *job, uint64_t step, const gw_sums *sums, const gw_state *state, gw_scalars *scalars,
                    gw_err *err);

    /* Updates one range of the state from S_t to S_{t+1}, in place. Any partition into ranges must give the
     * same bytes. Groups that the step does not change are left alone. */
    bool (*apply)(void *job, uint64_t step, const gw_range *range, const gw_sums *sums,
                  const gw_scalars *scalars, const gw_state *state, gw_err *err);

    /* Optional. `report` describes the step just applied for people ("loss=0.31"); `summary` describes the
     * whole job at its end, from the state alone ("loss=0.0712 accuracy=0.9781"). Both write one line of at
     * most `size` bytes, key=value pairs separated by single spaces; a key has at most 31 bytes. Values that
     * are numbers become numbers in JSON, and `report`'s become metrics (godwit_report{key="loss"}). With
     * "tokens=N", counted from the job's beginning, people see the tokens of a second. */
    void (*report)(void *job, uint64_t step, const gw_sums *sums, const gw_scalars *scalars, char *text,
                   size_t size);
    void (*summary)(void *job, uint64_t steps_done, const gw_state *state, char *text, size_t size);

    /* Required where the plan has a payload. Writes block `shard` to `bytes`, which is zeroed or holds an
     * older block. It is called where the block is needed and no peer has it: on the holders at the start,
     * and on other peers after deaths. When it fails, the shard is given back and the flock deals it again; a
     * peer on which it fails three times in one step stops, and the other peers continue. */
    bool (*payload)(void *job, uint32_t shard, void *bytes, gw_err *err);

    /* Optional. Effects outside the job, such as a row in a database. Called after step `step` is committed.
     * With exact sums a step is committed when it is applied; where a majority rules, when all members of the
     * view are known to hold its result, so that the step can never be computed differently. `state` is
     * S_{step+1}: whatever an effect depends on must be in it.
     *
     * It is called at least once for every step, whatever dies, in rising order on each peer. Every peer that
     * takes part in a step calls it. A peer that starts from a checkpoint or from other peers' state calls it
     * for the last step behind that state, since its earlier process, or the other peers, may have died just
     * before calling it. The receiver of an effect should therefore key it by (job, step), and a repetition
     * must do no harm.
     *
     * It runs while the shards of the next step are computed, and that step's sum waits for it. When it
     * fails, this peer ends and the others continue; when it fails on all peers, the job ends, resumes from
     * its newest checkpoint, and calls it again for the steps after that. The process ends only after the
     * job's last commit. */
    bool (*commit)(void *job, uint64_t step, const gw_state *state, gw_err *err);

    /* Optional. The shard of `step` has run for longer than --hang-timeout on this peer, or (with `shard`
     * GW_INTERRUPT_UPDATE) the step's scalars or commit has. The job ends the computation if it can, so that
     * the call returns soon, or begins it anew; false: it cannot, and the peer ends. Any thread; it does not
     * wait. */
    bool (*interrupt)(void *job, uint64_t step, uint32_t shard);

    /* Optional. The job has ended with this state on this peer. Called once, before close, and after the
     * state is saved; it may take its time. Its failure makes the program's exit code 1. */
    bool (*finish)(void *job, uint64_t steps_done, const gw_state *state, gw_err *err);

    /* Optional. How the job computes on a GPU (core/gpu.h). On a GPU, `scalars`, `report`, `summary` and
     * `commit` see only sums and state of at most GW_GPU_SMALL elements; pointers to larger ones are NULL.
     * gw_job_gpu.measure computes what `scalars` needs of larger sums. */
    const struct gw_job_gpu *gpu;

    /* Optional. Tells the samples that the shard of `step` takes, by gw_take_sample, in the shard's order, for
     * people who look for the data that a wrong or extreme contribution came from (`godwit audit`). It computes
     * nothing else, and may read files. Called from one thread, while lanes are open and nothing else runs. A
     * job that takes no data, or does not know, leaves it out. */
    bool (*samples)(void *job, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err);
} gw_job_type;

#endif
