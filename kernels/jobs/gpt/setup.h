/* What a `gpt` job is made of once its options and data are read. Between kernels/jobs/gpt*.c only.
 *
 * Update u takes positions [u batch, (u + 1) batch) of an endless order: epoch after epoch of all windows,
 * each epoch in an order of its own. With validation data, an evaluation follows every `eval_every` updates
 * and the last one. */
#ifndef GODWIT_KERNELS_JOBS_GPT_SETUP_H
#define GODWIT_KERNELS_JOBS_GPT_SETUP_H

#include "core/godwit.h"
#include "kernels/data/safetensors.h"
#include "kernels/data/tokens/tokens.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/schedule.h"
#include "kernels/model/gpt/gpt.h"

/* The tensors of parameter i: 4 i and these. They make group i. */
enum { GPT_VALUE, GPT_FIRST_MOMENT, GPT_SECOND_MOMENT, GPT_GRADIENT, GPT_KINDS };
/* The tensors after all parameters': one group of one element each. */
enum { GPT_RESULT_LOSS, GPT_RESULT_VALIDATION, GPT_SUM_COUNT, GPT_SUM_LOSS, GPT_RESULTS };
enum { GPT_GRADIENT_BITS = 40, GPT_LOSS_BITS = 20, GPT_NAME = 56 };

typedef struct gpt_job {
    gw_gpt gpt;
    gw_tokens data, validation; /* validation.windows = 0: none */
    gw_safetensors init;        /* the first weights; init.list NULL: random ones */
    uint64_t seed;
    uint32_t batch, micro_batch; /* windows of an update and of a shard */
    uint64_t updates, eval_every, eval_windows, steps;
    gw_schedule schedule;
    double decay, beta1, beta2, epsilon, clip, dropout; /* clip 0: never */
    bool recompute;
    bool graphs; /* GPUs are given a shard as a whole */
    gw_hash data_digest;
    char data_text[sizeof((gw_plan *)0)->data_text];

    uint32_t parameters;
    gw_tensor tensors[GPT_KINDS * GW_GPT_PARAMETERS + GPT_RESULTS];
    char names[GPT_KINDS * GW_GPT_PARAMETERS][GPT_NAME];
    uint32_t gradients[GW_GPT_PARAMETERS]; /* tensor numbers */
    uint32_t results;                      /* number of the first of GPT_RESULTS */
} gpt_job;

extern const gw_option gpt_options[];

/* Frees what gw_gpt_job_open has opened. */
void gpt_close(void *job);

/* Where a step stands. */
typedef struct gpt_place {
    gw_phase phase;
    uint64_t update;  /* of a training step; else how many have been made */
    uint64_t windows; /* that it takes */
    uint32_t shards;
} gpt_place;

gpt_place gpt_place_of(const gpt_job *job, uint64_t step);
/* Windows that a shard of it takes. */
uint32_t gpt_sequences(const gpt_job *job, const gpt_place *place, uint32_t shard);
/* Fills [windows, context] tokens and targets of a shard. Any thread. */
bool gpt_gather(const gpt_job *job, const gpt_place *place, uint32_t shard, uint32_t *tokens,
                uint32_t *targets, gw_err *err);

/* ---- gpt.c: what processors and GPUs must do alike ---- */

#define GPT_GRADIENT_UNIT 0x1p-40 /* of GPT_GRADIENT_BITS */

/* By which a shard's gradient of its loss sum is multiplied. */
float gpt_gradient_scale(const gpt_job *job);
uint64_t gpt_dropout_key(const gpt_job *job, uint64_t step);
/* The state tensor that the step's loss goes to, and that loss. */
uint32_t gpt_result(const gpt_job *job, uint64_t step);
double gpt_loss(const gw_scalars *scalars);
/* The update of a parameter, by the scalars of a training step. */
gw_adamw gpt_adamw(const gpt_job *job, uint32_t parameter, const gw_scalars *scalars);

#ifdef GODWIT_CUDA
extern const struct gw_job_gpu gpt_gpu; /* gpt_gpu.c */
#endif

#endif
