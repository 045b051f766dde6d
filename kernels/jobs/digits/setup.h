/* A `digits` job after its options and data have been read.
 *
 * An epoch is `train_steps` training steps and one evaluation of the test set. Training step k of an epoch
 * takes positions [k batch, (k + 1) batch) of the epoch's permutation; the last step takes what is left.
 *
 * A job that goes on from another one (gw_origin) begins in the epoch where that was, behind the images
 * that it took of that epoch. */
#ifndef GODWIT_KERNELS_JOBS_DIGITS_SETUP_H
#define GODWIT_KERNELS_JOBS_DIGITS_SETUP_H

#include "core/godwit.h"
#include "kernels/data/dataset.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/permutation.h"
#include "kernels/model/mlp.h"

typedef enum digits_optimizer { DIGITS_ADAMW, DIGITS_SGD } digits_optimizer;

/* The tensors of a layer's weights or bias, which are one group. SGD has no `second`. */
typedef struct digits_group {
    uint32_t parameter, first, second, gradient;
    uint32_t layer;
} digits_group;

/* Where a training is before a step. */
typedef struct digits_progress {
    uint64_t step, epoch;
    uint64_t images;  /* taken of the epoch; all of them: the step is an evaluation */
    uint64_t updates; /* made so far */
} digits_progress;

typedef struct digits_job {
    gw_mlp mlp;
    digits_optimizer optimizer;
    double rate, momentum, decay, epsilon;
    uint64_t seed;
    uint32_t epochs, batch, micro_batch;
    uint32_t test_rows; /* samples of a full shard of an evaluation */
    uint64_t train_steps, steps,
        updates;           /* training steps of a whole epoch; steps and updates until the end */
    digits_progress first; /* where this job begins */
    uint64_t first_steps;  /* training steps in the first epoch */
    gw_dataset data;
    /* scale and shift that give the training set's pixels mean 0 and variance 1 */
    float pixel_scale, pixel_shift;
    gw_hash data_digest;
    char data_text[sizeof((gw_plan *)0)->data_text];

    gw_tensor tensors[2 * GW_MLP_LAYERS * 4 + 5];
    char names[2 * GW_MLP_LAYERS * 4][32];
    uint32_t tensor_count;
    /* group 2l holds the weights of layer l, group 2l + 1 its bias */
    digits_group groups[2 * GW_MLP_LAYERS];
    uint32_t result_group;                 /* group of the five results below, which have one element each */
    uint32_t result_loss, result_accuracy; /* state: results of the latest evaluation */
    uint32_t loss, correct, count;         /* sums over a step's samples */
    gw_mlp_gradients gradients;
} digits_job;

enum { DIGITS_GRADIENT_BITS = 40, DIGITS_LOSS_BITS = 20 };

extern const gw_option digits_options[];

/* Reads options and data, and lays out the tensors. */
bool digits_open(const gw_params *params, void **job, gw_err *err);
void digits_close(void *job);

/* Computes the steps of an epoch and of the job, and the shards of the test set, from the counts of images,
 * epochs and batch, and from job->first. Fails with GW_E_LIMIT where there are too many shards, and with
 * GW_E_USAGE where all epochs are behind job->first. */
bool digits_plan_steps(digits_job *job, gw_err *err);

/* The position of a step: its epoch from 0, and the samples that it takes of the epoch's order or of the test
 * set. */
typedef struct digits_place {
    gw_phase phase;
    uint64_t epoch;
    uint64_t update;       /* of a training step, from 0 */
    uint64_t first, count; /* the samples' positions: from `first` on, `count` of them */
    uint32_t shard_rows;   /* samples of every shard but the last */
    uint32_t shards;
} digits_place;

digits_place digits_place_of(const digits_job *job, uint64_t step);

/* Steps of every kind that the job has: the first and the last training step of the first epoch and of later
 * ones, the last of which take fewer samples, and an evaluation. Returns how many. */
enum { DIGITS_STEPS = 5 };
uint32_t digits_steps(const digits_job *job, uint64_t steps[DIGITS_STEPS]);

/* The samples of one shard. */
typedef struct digits_samples {
    const gw_images *images;
    uint32_t rows;
    uint64_t first; /* position of the first sample in `order` */
    bool ordered;   /* samples are in order, as in an evaluation: position = sample */
    gw_permutation order;
} digits_samples;

digits_samples digits_samples_of(const digits_job *job, const digits_place *place, uint32_t shard);
/* The sample in row `row` of the shard. */
uint64_t digits_sample_at(const digits_samples *samples, uint32_t row);

/* Functions of digits.c that processors and GPUs share, so that they compute alike. */

/* First weights are uniform within this bound (He et al., "Delving deep into rectifiers", ICCV 2015), with
 * half the variance where no ReLU follows. Biases and moments start at 0. */
double digits_weight_bound(const digits_job *job, const digits_group *group);

/* The scalars of an evaluation, its results: the mean loss, and the fraction of samples classified right. */
enum { DIGITS_LOSS = 0, DIGITS_ACCURACY };
/* The update of a group, from the scalars of a training step. */
gw_sgd digits_sgd(const digits_job *job, uint32_t group, const gw_scalars *scalars);
gw_adamw digits_adamw(const digits_job *job, uint32_t group, const gw_scalars *scalars);

#ifdef GODWIT_CUDA
extern const struct gw_job_gpu digits_gpu; /* gpu.c */
#endif

#endif
