/* For `godwit bench gpu` only: training on a GPU, as a lone peer and as a member of a flock. */
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
    const gw_bench_setting *settings; /* options that are not the job's own default; ends with a NULL name */
    uint32_t steps;                   /* measured of each kind, after a few that are not */
    uint32_t repeated; /* shards of step 0 that are computed GW_BENCH_REPEATS times before; 0: none */
} gw_bench_training;

/* Seconds of the median training step. */
typedef struct gw_bench_trained {
    double alone;       /* of a lone peer, whose sum is its own */
    double exact, fast; /* of a member of a flock, whose exact or float sum is made ready, is copied once in
                           the place of the network, and is checked */
    uint64_t bytes;     /* of the GPU's memory that are not free while a lone peer trains */
    uint64_t elements;  /* that a shard adds to the sum */
    uint32_t shards;    /* of a step */
    uint32_t others;    /* of the repetitions: those in which a shard had another fingerprint than at first */
} gw_bench_trained;

/* Bytes of the GPU's memory that are not free. */
bool gw_bench_gpu_taken(int gpu, uint64_t *bytes, gw_err *err);

bool gw_bench_gpu_train(const gw_gpu *gpu, const gw_bench_training *training, gw_bench_trained *trained,
                        gw_err *err);

/* `digits` with two hidden layers of 8192 in TF32, steps of 4 shards of 2048 samples; and GPT-2 of 124
 * million parameters in bfloat16, steps of 8 shards of 16 windows of 1024 tokens; and a small model whose
 * shards are started as graphs, and kernel by kernel. Their figures are added to those of exact adding, which
 * must be there. idle_bytes: of the GPU's memory that were not free when this
 * process had done nothing on it. */
bool gw_bench_gpu_trainings(int gpu, uint64_t idle_bytes, json_t *figures, gw_err *err);

#endif
