#include "kernels/jobs/gpt/gpt.h"

#include "core/base/assert.h"
#include "kernels/jobs/gpt/setup.h"
#include "kernels/math/norm.h"
#include "kernels/math/normal.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/vmath.h"
#include "kernels/model/gpt/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The scalars of a training step, and of an evaluation. */
enum { LOSS, SCALE, RATE, NORM, CORRECTION1, CORRECTION2 };
enum { PERPLEXITY = LOSS + 1, BITS };

/* What an evaluation gives, under the names of the report. Only models of bytes have the last one. */
static const gw_evaluation reports[] = {
    {.name = "val_loss", .scalar = LOSS, .better = GW_LESS_IS_BETTER},
    {.name = "perplexity", .scalar = PERPLEXITY, .better = GW_LESS_IS_BETTER},
    {.name = "bits_per_byte", .scalar = BITS, .better = GW_LESS_IS_BETTER},
};

static uint32_t count_evaluations(const gpt_job *job) {
    uint32_t all = sizeof reports / sizeof reports[0];
    return job->eval_windows == 0 ? 0 : job->data.shards ? all - 1 : all;
}

/* A loss in bits per byte, where tokens are bytes. */
static double bits_of(double loss) {
    return loss * 0x1.71547652b82fep0;
}

static bool gpt_open(const gw_params *params, void **job, gw_err *err) {
    return gw_gpt_job_open(params, NULL, job, err);
}

/* The options that reduce the memory of a shard. With one layer, --recompute has no effect. */
static const char *lighter(const gpt_job *job) {
    bool windows = job->micro_batch > 1;
    bool recompute = gw_gpt_lane_bytes(&job->gpt, job->micro_batch, true) <
                     gw_gpt_lane_bytes(&job->gpt, job->micro_batch, job->recompute);
    if (recompute) return windows ? "--recompute or a smaller --micro-batch" : "--recompute";
    return windows ? "a smaller --micro-batch" : NULL;
}

static bool gpt_describe(void *job_pointer, gw_plan *plan, gw_err *err) {
    const gpt_job *job = job_pointer;
    (void)err;
    *plan = (gw_plan){
        .tensors = job->tensors,
        .tensor_count = job->results + GPT_RESULTS,
        .steps = job->steps,
        .lane_bytes = gw_gpt_lane_bytes(&job->gpt, job->micro_batch, job->recompute),
        .data_digest = job->data_digest,
        .lighter = lighter(job),
        .smaller = job->init.list != NULL ? "the weights of a smaller model"
                                          : "a smaller --model, or fewer --layers or --channels",
        .evaluations = reports,
        .evaluation_count = count_evaluations(job),
    };
    memcpy(plan->data_text, job->data_text, sizeof plan->data_text);
    memcpy(plan->length_text, job->length_text, sizeof plan->length_text);
    snprintf(plan->model_text, sizeof plan->model_text,
             "gpt, %u layer%s, %u channels, %u head%s, context %u, vocabulary %u; %llu parameters",
             job->gpt.layers, job->gpt.layers == 1 ? "" : "s", job->gpt.channels, job->gpt.heads,
             job->gpt.heads == 1 ? "" : "s", job->gpt.context, job->gpt.vocabulary,
             (unsigned long long)gw_gpt_size(&job->gpt));
    return true;
}

static void gpt_lane_close(void *job_pointer, void *lane_pointer) {
    (void)job_pointer;
    gw_gpt_lane_close(lane_pointer);
    free(lane_pointer);
}

static bool gpt_lane_open(void *job_pointer, void **lane_out, gw_err *err) {
    const gpt_job *job = job_pointer;
    gw_gpt_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) return gw_fail(err, GW_E_NOMEM, "gpt: out of memory");
    if (!gw_gpt_lane_open(&job->gpt, job->micro_batch, job->recompute, lane, err)) {
        free(lane);
        return false;
    }
    *lane_out = lane;
    return true;
}

static void fill_normal(uint64_t key, const gw_range *range, double deviation, float *values) {
    for (uint64_t block = range->first / 4; block * 4 < range->first + range->count; block++) {
        gw_normals normals = gw_normals_at(key, range->group, block, deviation);
        for (uint64_t k = 0; k < 4; k++)
            if (block * 4 + k - range->first < range->count) values[block * 4 + k] = normals.value[k];
    }
}

static bool gpt_init(void *job_pointer, const gw_range *range, const gw_state *state, gw_err *err) {
    const gpt_job *job = job_pointer;
    if (range->group == job->parameters) {
        *(double *)state->data[job->results + GPT_RESULT_LOSS] = 0.0;
        *(double *)state->data[job->results + GPT_RESULT_VALIDATION] = 0.0;
        return true;
    }
    gw_gpt_parameter parameter = gw_gpt_parameter_of(&job->gpt, range->group);
    void *const *tensors = &state->data[GPT_KINDS * range->group];
    for (int kind = GPT_FIRST_MOMENT; kind <= GPT_SECOND_MOMENT; kind++)
        memset((float *)tensors[kind] + range->first, 0, range->count * sizeof(float));
    float *values = tensors[GPT_VALUE];
    if (job->init.list != NULL)
        return gw_gpt_file_read(&job->gpt, &job->init, range->group, range->first, range->count,
                                values + range->first, err);
    for (uint64_t i = range->first; i < range->first + range->count; i++) values[i] = parameter.constant;
    if (parameter.deviation > 0.0f)
        fill_normal(gw_mix64(job->seed), range, (double)parameter.deviation, values);
    return true;
}

static uint32_t gpt_shards(const void *job, uint64_t step, gw_phase *phase) {
    gpt_place place = gpt_place_of(job, step);
    *phase = place.phase;
    return place.shards;
}

float gpt_gradient_scale(const gpt_job *job) {
    return 1.0f / ((float)job->batch * (float)job->gpt.context);
}

uint64_t gpt_dropout_key(const gpt_job *job, uint64_t step) {
    return gw_mix64(gw_mix64(job->seed + 1) + step);
}

static bool gpt_contribute(void *job_pointer, void *lane_pointer, uint64_t step, uint32_t shard,
                           const gw_state *state, gw_emitter *emitter, gw_err *err) {
    const gpt_job *job = job_pointer;
    gpt_place place = gpt_place_of(job, step);
    gw_gpt_lane *lane = lane_pointer;
    uint32_t count = gpt_sequences(job, &place, shard);
    if (!gpt_gather(job, &place, shard, lane->tokens, lane->targets, err)) return false;

    const float *parameters[GW_GPT_PARAMETERS];
    for (uint32_t i = 0; i < job->parameters; i++) parameters[i] = state->data[GPT_KINDS * i + GPT_VALUE];
    bool train = place.phase == GW_TRAIN;
    const gw_gpt_pass pass = {
        .gpt = &job->gpt,
        .parameters = parameters,
        .lane = lane,
        .sequences = count,
        .dropout = train ? (float)job->dropout : 0.0f,
        .key = gpt_dropout_key(job, step),
        .shard = shard,
    };
    int64_t tokens = (int64_t)count * job->gpt.context;
    float loss = (float)gw_gpt_forward(&pass, train ? gpt_gradient_scale(job) : 0.0f);
    gw_emit_integers(emitter, job->results + GPT_SUM_COUNT, 0, 1, &tokens);
    gw_emit(emitter, job->results + GPT_SUM_LOSS, 0, 1, &loss);
    if (train) gw_gpt_backward(&pass, job->gradients, emitter);
    return true;
}

/* The norm of the mean gradient from sums in host memory. */
static gw_norm add_norms(const gpt_job *job, const gw_sums *sums) {
    gw_norm norm = 0;
    for (uint32_t i = 0; i < job->parameters; i++)
        gw_norm_add(&norm, gw_tensor_elements(&job->tensors[job->gradients[i]]),
                    sums->data[job->gradients[i]], GPT_GRADIENT_UNIT);
    return norm;
}

static double gradient_norm(const gpt_job *job, const gw_sums *sums) {
    return gw_norm_value(sums->measured != NULL ? gw_norm_of_words(sums->measured) : add_norms(job, sums));
}

static bool gpt_scalars(void *job_pointer, uint64_t step, const gw_sums *sums, const gw_state *state,
                        gw_scalars *scalars, gw_err *err) {
    const gpt_job *job = job_pointer;
    (void)state;
    gpt_place place = gpt_place_of(job, step);
    uint64_t tokens = place.windows * (uint64_t)job->gpt.context;
    /* The sum's bits have been checked, so another count means that the data are wrong. */
    if (!gw_sum_counted(sums, job->results + GPT_SUM_COUNT, tokens))
        return gw_fail(err, GW_E_CORRUPT, "gpt: step %llu summed %.0f tokens, expected %llu",
                       (unsigned long long)step, gw_sum_value(sums, job->results + GPT_SUM_COUNT, 0),
                       (unsigned long long)tokens);
    double *value = scalars->value;
    value[LOSS] = gw_sum_value(sums, job->results + GPT_SUM_LOSS, 0) / (double)tokens;
    if (place.phase == GW_EVALUATE) {
        value[PERPLEXITY] = gw_exp(value[LOSS]);
        value[BITS] = bits_of(value[LOSS]);
        return true;
    }
    value[SCALE] = GPT_GRADIENT_UNIT;
    value[NORM] = gradient_norm(job, sums);
    if (job->clip > 0.0 && value[NORM] > job->clip) value[SCALE] *= job->clip / value[NORM];
    value[RATE] = gw_schedule_rate(&job->schedule, place.update);
    value[CORRECTION1] = 1.0 / (1.0 - gw_power(job->beta1, place.update + 1));
    value[CORRECTION2] = 1.0 / (1.0 - gw_power(job->beta2, place.update + 1));
    return true;
}

uint32_t gpt_result(const gpt_job *job, uint64_t step) {
    bool evaluate = gpt_place_of(job, step).phase == GW_EVALUATE;
    return job->results + (evaluate ? GPT_RESULT_VALIDATION : GPT_RESULT_LOSS);
}

double gpt_loss(const gw_scalars *scalars) {
    return scalars->value[LOSS];
}

gw_adamw gpt_adamw(const gpt_job *job, uint32_t parameter, const gw_scalars *scalars) {
    return (gw_adamw){
        .scale = scalars->value[SCALE],
        .rate = (float)scalars->value[RATE],
        .beta1 = (float)job->beta1,
        .beta2 = (float)job->beta2,
        .epsilon = (float)job->epsilon,
        .decay = job->tensors[GPT_KINDS * parameter].rank == 2 ? (float)job->decay : 0.0f,
        .correction1 = (float)scalars->value[CORRECTION1],
        .correction2 = (float)scalars->value[CORRECTION2],
    };
}

static bool gpt_apply(void *job_pointer, uint64_t step, const gw_range *range, const gw_sums *sums,
                      const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    const gpt_job *job = job_pointer;
    (void)err;
    if (range->group == job->parameters) {
        *(double *)state->data[gpt_result(job, step)] = gpt_loss(scalars);
        return true;
    }
    if (gpt_place_of(job, step).phase == GW_EVALUATE) return true;
    uint32_t t = GPT_KINDS * range->group;
    gw_adamw adamw = gpt_adamw(job, range->group, scalars);
    gw_optimizer_adamw(&adamw, range->count, sums->data[t + GPT_GRADIENT] + range->first,
                       (float *)state->data[t + GPT_VALUE] + range->first,
                       (float *)state->data[t + GPT_FIRST_MOMENT] + range->first,
                       (float *)state->data[t + GPT_SECOND_MOMENT] + range->first);
    return true;
}

/* The report's key of a training's bits per byte. It differs from a validation's, so that each is a column
 * and a curve of its own. */
static const char train_bits[] = "train_bits_per_byte";

/* Appends to `text`, which has room for `size` bytes, as much as fits. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Appends a loss in bits per byte where tokens are bytes. (All values are reported with the seven digits that
 * shards' losses have in float32.) */
static void add_bits(const gpt_job *job, const char *key, double loss, char *text, size_t size) {
    if (!job->data.shards) append(text, size, " %s=%.7g", key, bits_of(loss));
}

static void add_validation(const gpt_job *job, double loss, char *text, size_t size) {
    append(text, size, "val_loss=%.7g perplexity=%.7g", loss, gw_exp(loss));
    add_bits(job, "bits_per_byte", loss, text, size);
}

static void gpt_report(void *job_pointer, uint64_t step, const gw_sums *sums, const gw_scalars *scalars,
                       char *text, size_t size) {
    const gpt_job *job = job_pointer;
    (void)sums;
    const double *value = scalars->value;
    gpt_place place = gpt_place_of(job, step);
    bool train = place.phase == GW_TRAIN;
    text[0] = '\0';
    if (train) {
        append(text, size, "loss=%.7g lr=%.7g norm=%.7g", value[LOSS], value[RATE], value[NORM]);
        add_bits(job, train_bits, value[LOSS], text, size);
    } else {
        add_validation(job, value[LOSS], text, size);
    }
    uint64_t updates = place.update + (train ? 1 : 0);
    append(text, size, " tokens=%llu",
           (unsigned long long)((job->start + updates * job->batch) * job->gpt.context));
}

static void gpt_summary(void *job_pointer, uint64_t steps_done, const gw_state *state, char *text,
                        size_t size) {
    const gpt_job *job = job_pointer;
    text[0] = '\0';
    if (steps_done == 0) return;
    double loss = *(const double *)state->data[job->results + GPT_RESULT_LOSS];
    append(text, size, "loss=%.7g", loss);
    add_bits(job, train_bits, loss, text, size);
    bool evaluated =
        job->eval_windows > 0 && (steps_done + job->shift > job->eval_every || steps_done == job->steps);
    if (!evaluated) return;
    append(text, size, " ");
    add_validation(job, *(const double *)state->data[job->results + GPT_RESULT_VALIDATION], text, size);
}

/* Writes the first tokens of a window for people: as characters where tokens are bytes, and otherwise as
 * numbers. */
static void write_beginning(const gpt_job *job, const uint32_t *tokens, char *text, size_t size) {
    size_t used = 0;
    for (uint32_t i = 0; i < job->gpt.context; i++) {
        char one[16];
        int length = job->data.shards ? snprintf(one, sizeof one, "%s%u", i > 0 ? " " : "", tokens[i]) : 1;
        if (!job->data.shards) one[0] = tokens[i] == 0 ? ' ' : (char)tokens[i];
        if (used + (size_t)length >= size) break;
        memcpy(text + used, one, (size_t)length);
        used += (size_t)length;
    }
    text[used] = '\0';
}

static bool gpt_tell(void *job_pointer, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err) {
    enum { BEGINNING = 81 };
    const gpt_job *job = job_pointer;
    gpt_place place = gpt_place_of(job, step);
    const gw_tokens *set = place.phase == GW_TRAIN ? &job->data : &job->validation;
    uint32_t *tokens = calloc(2 * (size_t)job->gpt.context, sizeof *tokens);
    if (tokens == NULL) return gw_fail(err, GW_E_NOMEM, "gpt: out of memory");
    bool good = true;
    for (uint32_t i = 0; good && i < gpt_sequences(job, &place, shard); i++) {
        uint64_t first, window = gpt_window(job, &place, shard, i);
        const gw_token_file *file = gw_tokens_place(set, window, &first);
        char text[BEGINNING];
        gw_sample sample = {.set = file->path,
                            .unit = job->data.shards ? "token" : "byte",
                            .index = first,
                            .count = job->gpt.context,
                            .text = text};
        good = gw_tokens_window(set, window, tokens, tokens + job->gpt.context, err);
        if (!good) break;
        write_beginning(job, tokens, text, sizeof text);
        gw_take_sample(sink, &sample);
    }
    free(tokens);
    return good;
}

const gw_job_type gw_job_gpt = {
    .api = GW_JOB_API,
    .name = "gpt",
    .about = "a language model of GPT-2's kind, on text or token shards",
    .options = gpt_options,
    .open = gpt_open,
    .close = gpt_close,
    .describe = gpt_describe,
    .lane_open = gpt_lane_open,
    .lane_close = gpt_lane_close,
    .init = gpt_init,
    .shards = gpt_shards,
    .contribute = gpt_contribute,
    .scalars = gpt_scalars,
    .apply = gpt_apply,
    .report = gpt_report,
    .summary = gpt_summary,
#ifdef GODWIT_CUDA
    .gpu = &gpt_gpu,
#endif
    .samples = gpt_tell,
};
