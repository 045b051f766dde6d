/* Training on a GPU for `godwit bench gpu`, as a lone peer and as a member of a flock. */
#ifndef GODWIT_TOOLS_BENCH_GPU_TRAIN_H
#define GODWIT_TOOLS_BENCH_GPU_TRAIN_H

#include "core/gpu.h"

#include <jansson.h>

enum { GW_BENCH_REPEATS = 100 };

typedef struct gw_bench_setting {
    const char *name, *value;
} gw_bench_setting;

typedef struct gw_bench_training {
    const gw_job_type *type;
    const gw_bench_setting *settings; /* options that differ from the job's defaults; ends with a NULL name */
    uint32_t steps;                   /* steps to measure of each kind, after a few to warm up */
    uint32_t repeated; /* shards of step 0 that are computed GW_BENCH_REPEATS times before; 0 = none */
} gw_bench_training;

/* The results; times are seconds of the median training step. */
typedef struct gw_bench_trained {
    double alone; /* a lone peer, whose sum is its own */
    /* a member of a flock, whose exact or float sum is prepared, copied once in place of the network, and
     * checked */
    double exact, fast;
    uint64_t bytes;    /* bytes of the GPU's memory that are in use while a lone peer trains */
    uint64_t elements; /* elements that a shard adds to the sum */
    uint32_t shards;   /* shards of a step */
    uint32_t others;   /* repetitions in which a shard had another fingerprint than at first */
} gw_bench_trained;

/* Returns the bytes of the GPU's memory that are in use. */
bool gw_bench_gpu_taken(int gpu, uint64_t *bytes, gw_err *err);

bool gw_bench_gpu_train(const gw_gpu *gpu, const gw_bench_training *training, gw_bench_trained *trained,
                        gw_err *err);

/* Measures trainings: `digits` with two hidden layers of 8192 in TF32, in steps of 4 shards of 2048
 * samples; GPT-2 with 124 million parameters in bfloat16, in steps of 8 shards of 16 windows of 1024
 * tokens; and a small model whose shards are started as graphs, and kernel by kernel. Adds the results to
 * `figures`, which must contain those of exact addition. `idle_bytes` of the GPU's memory were in use
 * before this process used it. */
bool gw_bench_gpu_trainings(int gpu, uint64_t idle_bytes, json_t *figures, gw_err *err);

#endif
