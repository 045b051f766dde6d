/* What a `digits` job is made of once its options and data are read. Between kernels/jobs/digits*.c only.
 *
 * An epoch is `train_steps` training steps and one evaluation of the test set. Training step k of an epoch
 * takes positions [k batch, (k + 1) batch) of the epoch's permutation, its last one what is left. */
#ifndef GODWIT_KERNELS_JOBS_DIGITS_SETUP_H
#define GODWIT_KERNELS_JOBS_DIGITS_SETUP_H

#include "core/godwit.h"
#include "kernels/dataset.h"
#include "kernels/mlp.h"

typedef enum digits_optimizer { DIGITS_ADAMW, DIGITS_SGD } digits_optimizer;

/* The tensors of a layer's weights or bias: one group. SGD has no `second`. */
typedef struct digits_group {
    uint32_t parameter, first, second, gradient;
    uint32_t layer;
} digits_group;

typedef struct digits_job {
    gw_mlp mlp;
    digits_optimizer optimizer;
    double rate, momentum, decay, epsilon;
    uint64_t seed;
    uint32_t epochs, batch, micro_batch;
    uint32_t test_rows; /* of an evaluation's shard */
    uint64_t train_steps, steps;
    gw_dataset data;
    float pixel_scale, pixel_shift; /* make the training set's pixels of mean 0 and variance 1 */
    gw_hash data_digest;
    char data_text[sizeof((gw_plan *)0)->data_text];

    gw_tensor tensors[2 * GW_MLP_LAYERS * 4 + 5];
    char names[2 * GW_MLP_LAYERS * 4][32];
    uint32_t tensor_count;
    digits_group groups[2 * GW_MLP_LAYERS]; /* group 2l: weights of layer l, 2l + 1: its bias */
    uint32_t result_group;                  /* of the five below, one element each */
    uint32_t result_loss, result_accuracy;  /* state: of the last evaluation */
    uint32_t loss, correct, count;          /* sums over a step's samples */
    gw_mlp_gradients gradients;
} digits_job;

enum { DIGITS_GRADIENT_BITS = 40, DIGITS_LOSS_BITS = 20 };

extern const gw_option digits_options[];

/* Reads options and data, and lays out the tensors. */
bool digits_open(const gw_params *params, void **job, gw_err *err);
void digits_close(void *job);

/* Where a step stands: its epoch from 0, and the samples it takes of the epoch's order or of the test set. */
typedef struct digits_place {
    gw_phase phase;
    uint64_t epoch;
    uint64_t first, count; /* of samples */
    uint32_t shard_rows;   /* of every shard but the last */
    uint32_t shards;
} digits_place;

digits_place digits_place_of(const digits_job *job, uint64_t step);

#endif
