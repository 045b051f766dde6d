/* A `gpt` job after its options and data have been read.
 *
 * Update u takes positions [u batch, (u + 1) batch) of an endless order: epoch after epoch of all windows,
 * each epoch in an order of its own. With validation data, an evaluation follows every `eval_every` updates,
 * and the last one.
 *
 * Steps are updates and evaluations. A job that goes on from another one (gw_origin) counts updates,
 * windows and steps on from where that was, and evaluates after the same numbers of updates as a job that
 * begins anew. Therefore step s of it has the place that step s + shift has in a job that begins anew, and
 * update u takes positions from u batch + start on. */
#ifndef GODWIT_KERNELS_JOBS_GPT_SETUP_H
#define GODWIT_KERNELS_JOBS_GPT_SETUP_H

#include "core/godwit.h"
#include "kernels/data/safetensors.h"
#include "kernels/data/tokens/tokens.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/schedule.h"
#include "kernels/model/gpt/gpt.h"

/* The tensors of parameter i, which form group i; their numbers are 4 i plus these. */
enum { GPT_VALUE, GPT_FIRST_MOMENT, GPT_SECOND_MOMENT, GPT_GRADIENT, GPT_KINDS };
/* The tensors that follow those of all parameters: one group of tensors with one element each. */
enum { GPT_RESULT_LOSS, GPT_RESULT_VALIDATION, GPT_SUM_COUNT, GPT_SUM_LOSS, GPT_RESULTS };
enum { GPT_GRADIENT_BITS = 40, GPT_LOSS_BITS = 20, GPT_NAME = 56 };

typedef struct gpt_job {
    gw_gpt gpt;
    gw_tokens data, validation; /* validation.windows is 0 where there is none */
    uint32_t headless;          /* bytes of a token in files without a header; 0: none are expected */
    gw_safetensors init;        /* the first weights; random ones where init.list is NULL */
    uint64_t seed;
    uint32_t batch, micro_batch; /* windows of an update, and of a full shard */
    uint64_t updates, eval_every, eval_windows, steps;
    uint64_t shift, start; /* see above, modulo 2^64; both are 0 where the job begins with S_0 */
    gw_schedule schedule;
    double decay, beta1, beta2, epsilon, clip, dropout; /* clip 0: gradients are not clipped */
    bool recompute;
    bool graphs; /* shards run on GPUs as graphs */
    gw_hash data_digest;
    char data_text[sizeof((gw_plan *)0)->data_text], length_text[sizeof((gw_plan *)0)->length_text];

    uint32_t parameters;
    gw_tensor tensors[GPT_KINDS * GW_GPT_PARAMETERS + GPT_RESULTS];
    char names[GPT_KINDS * GW_GPT_PARAMETERS][GPT_NAME];
    uint32_t gradients[GW_GPT_PARAMETERS]; /* tensor numbers */
    uint32_t results;                      /* number of the first of GPT_RESULTS */
} gpt_job;

extern const gw_option gpt_options[];

/* Frees what gw_gpt_job_open has opened. */
void gpt_close(void *job);

/* The position of a step. */
typedef struct gpt_place {
    gw_phase phase;
    uint64_t update;  /* of a training step; in an evaluation, the number of updates made */
    uint64_t windows; /* windows that the step takes */
    uint32_t shards;
} gpt_place;

gpt_place gpt_place_of(const gpt_job *job, uint64_t step);
/* The number of windows, which are the model's sequences, of a shard. */
uint32_t gpt_sequences(const gpt_job *job, const gpt_place *place, uint32_t shard);
/* The number of window `i` of a shard in the training or the validation data, as the place's phase says. */
uint64_t gpt_window(const gpt_job *job, const gpt_place *place, uint32_t shard, uint32_t i);
/* Fills a shard's tokens and targets, [windows, context] each. Any thread. */
bool gpt_gather(const gpt_job *job, const gpt_place *place, uint32_t shard, uint32_t *tokens,
                uint32_t *targets, gw_err *err);

/* Functions of gpt.c that processors and GPUs share, so that they compute alike. */

#define GPT_GRADIENT_UNIT 0x1p-40 /* the value of a gradient sum's unit: 2^-GPT_GRADIENT_BITS */

/* The factor of a shard's gradient: 1 over the number of tokens of a full batch. */
float gpt_gradient_scale(const gpt_job *job);
/* The key of dropout's masks in `step`. */
uint64_t gpt_dropout_key(const gpt_job *job, uint64_t step);
/* The number of the state tensor that receives the step's loss. */
uint32_t gpt_result(const gpt_job *job, uint64_t step);
/* The mean loss of a token in the step of these scalars. */
double gpt_loss(const gw_scalars *scalars);
/* The update of a parameter, from the scalars of a training step. */
gw_adamw gpt_adamw(const gpt_job *job, uint32_t parameter, const gw_scalars *scalars);

#ifdef GODWIT_CUDA
extern const struct gw_job_gpu gpt_gpu; /* gpu.c */
#endif

#endif
