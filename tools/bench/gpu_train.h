/* For `godwit bench gpu` only. */
#ifndef GODWIT_BENCH_GPU_TRAIN_H
#define GODWIT_BENCH_GPU_TRAIN_H

#include "core/gpu.h"

/* Trains `digits` with two hidden layers of 8192, steps of 4 shards of 2048 samples, as a lone peer does:
 * samples a second of the median step. */
bool gw_bench_gpu_train(const gw_gpu *gpu, double *samples_per_second, gw_err *err);

#endif
