#include "kernels/jobs/digits/digits.h"

#include "core/base/assert.h"
#include "core/rng.h"
#include "kernels/jobs/digits/setup.h"
#include "kernels/math/clones.h"
#include "kernels/math/loss.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/uniform.h"
#include "kernels/math/vmath.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 0, RATE, CORRECTION1, CORRECTION2 }; /* scalars of a training step, for apply */

/* AdamW's beta2 is below the usual 0.999, because a short training has no time for long averages. */
static const double beta2 = 0.99;

typedef struct digits_lane {
    gw_mlp_lane mlp;
    uint8_t *labels;
} digits_lane;

static uint32_t lane_rows(const digits_job *job) {
    return job->micro_batch > job->test_rows ? job->micro_batch : job->test_rows;
}

/* What an evaluation gives, under the names of the report. */
static const gw_evaluation reports[] = {
    {.name = "test_loss", .scalar = DIGITS_LOSS, .better = GW_LESS_IS_BETTER},
    {.name = "test_accuracy", .scalar = DIGITS_ACCURACY, .better = GW_MORE_IS_BETTER},
};

/* The learning rate's factor: it rises linearly over the first tenth of the updates, and falls linearly to 0
 * from the first update to the last; the lower of both counts. */
static double schedule(uint64_t update, uint64_t updates) {
    double done = (double)update / (double)updates, up = (double)(update + 1) / ((double)updates * 0.1);
    return up < 1.0 - done ? up : 1.0 - done;
}

/* Adds the rate with which a job goes on: its schedule counts the updates of its parent as well. */
static void describe_rate(const digits_job *job, char *text, size_t size) {
    size_t used = strlen(text);
    double rate = schedule(job->first.updates, job->updates),
           next = schedule(job->first.updates + 1, job->updates);
    snprintf(text + used, size - used, "; learning rate %.4g, %s", job->rate * rate,
             next > rate ? "rising" : "falling");
}

static bool digits_describe(void *job_pointer, gw_plan *plan, gw_err *err) {
    const digits_job *job = job_pointer;
    (void)err;
    *plan = (gw_plan){
        .tensors = job->tensors,
        .tensor_count = job->tensor_count,
        .steps = job->steps,
        .lane_bytes = gw_mlp_lane_bytes(&job->mlp, lane_rows(job)) + lane_rows(job),
        .data_digest = job->data_digest,
        .lighter = job->micro_batch > job->test_rows ? "a smaller --micro-batch" : NULL,
        .evaluations = reports,
        .evaluation_count = sizeof reports / sizeof reports[0],
    };
    memcpy(plan->data_text, job->data_text, sizeof plan->data_text);
    uint64_t parameters = 0;
    size_t used = 0;
    for (uint32_t l = 0; l <= job->mlp.layers; l++) {
        used += (size_t)snprintf(plan->model_text + used, sizeof plan->model_text - used, "%s%u",
                                 l == 0 ? "perceptron of " : "-", job->mlp.width[l]);
        if (l > 0) parameters += ((uint64_t)job->mlp.width[l - 1] + 1) * job->mlp.width[l];
        if (used >= sizeof plan->model_text) break;
    }
    if (used < sizeof plan->model_text)
        snprintf(plan->model_text + used, sizeof plan->model_text - used, "; %llu parameters",
                 (unsigned long long)parameters);
    unsigned long long evaluations = job->epochs - job->first.epoch;
    snprintf(
        plan->length_text, sizeof plan->length_text,
        "%u images an update, %llu updates and %llu evaluation%s; one pass over the data is %llu updates",
        job->batch, (unsigned long long)(job->updates - job->first.updates), evaluations,
        evaluations == 1 ? "" : "s", (unsigned long long)job->train_steps);
    if (job->first.updates > 0) describe_rate(job, plan->length_text, sizeof plan->length_text);
    return true;
}

static void digits_lane_close(void *job_pointer, void *lane_pointer) {
    (void)job_pointer;
    digits_lane *lane = lane_pointer;
    gw_mlp_lane_close(&lane->mlp);
    free(lane->labels);
    free(lane);
}

static bool digits_lane_open(void *job_pointer, void **lane_out, gw_err *err) {
    const digits_job *job = job_pointer;
    digits_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) return gw_fail(err, GW_E_NOMEM, "digits: out of memory");
    lane->labels = malloc(lane_rows(job));
    if (lane->labels == NULL) gw_fail(err, GW_E_NOMEM, "digits: out of memory");
    if (lane->labels == NULL || !gw_mlp_lane_open(&job->mlp, lane_rows(job), &lane->mlp, err)) {
        digits_lane_close(job_pointer, lane);
        return false;
    }
    *lane_out = lane;
    return true;
}

double digits_weight_bound(const digits_job *job, const digits_group *group) {
    bool last = group->layer + 1 == job->mlp.layers;
    return __builtin_sqrt((last ? 3.0 : 6.0) / job->mlp.width[group->layer]);
}

static void init_weights(const digits_job *job, const digits_group *group, const gw_range *range,
                         float *weights) {
    double bound = digits_weight_bound(job, group);
    uint64_t key = gw_mix64(job->seed);
    for (uint64_t i = range->first; i < range->first + range->count; i++) {
        uint32_t word = gw_philox_at(key, range->group, i / 4).words[i % 4];
        weights[i] = gw_uniform_weight(word, bound);
    }
}

static bool digits_init(void *job_pointer, const gw_range *range, const gw_state *state, gw_err *err) {
    const digits_job *job = job_pointer;
    (void)err;
    for (uint32_t t = 0; t < job->tensor_count; t++) {
        const gw_tensor *tensor = &job->tensors[t];
        if (tensor->group != range->group || tensor->role != GW_STATE) continue;
        size_t bytes = gw_dtype_bytes(tensor->dtype);
        memset((char *)state->data[t] + range->first * bytes, 0, range->count * bytes);
    }
    if (range->group != job->result_group && range->group % 2 == 0) {
        const digits_group *group = &job->groups[range->group];
        init_weights(job, group, range, state->data[group->parameter]);
    }
    return true;
}

static uint32_t digits_shards(const void *job, uint64_t step, gw_phase *phase) {
    digits_place place = digits_place_of(job, step);
    *phase = place.phase;
    return place.shards;
}

GW_CLONES static void normalise(const uint8_t *restrict pixels, float *restrict values, size_t count,
                                float scale, float shift) {
    for (size_t i = 0; i < count; i++) values[i] = (float)pixels[i] * scale + shift;
}

/* Copies inputs and labels of a shard. */
static void gather(const digits_job *job, const digits_samples *samples, digits_lane *lane) {
    size_t inputs = job->mlp.width[0];
    for (uint32_t r = 0; r < samples->rows; r++) {
        uint64_t sample = digits_sample_at(samples, r);
        normalise(samples->images->pixels + sample * inputs, lane->mlp.activation[0] + r * inputs, inputs,
                  job->pixel_scale, job->pixel_shift);
        lane->labels[r] = samples->images->labels[sample];
    }
}

static bool digits_contribute(void *job_pointer, void *lane_pointer, uint64_t step, uint32_t shard,
                              const gw_state *state, gw_emitter *emitter, gw_err *err) {
    const digits_job *job = job_pointer;
    digits_lane *lane = lane_pointer;
    (void)err;
    digits_place place = digits_place_of(job, step);
    digits_samples samples = digits_samples_of(job, &place, shard);
    uint32_t rows = samples.rows;
    gather(job, &samples, lane);

    gw_mlp_parameters parameters;
    for (uint32_t l = 0; l < job->mlp.layers; l++) {
        parameters.weights[l] = state->data[job->groups[2 * l].parameter];
        parameters.bias[l] = state->data[job->groups[2 * l + 1].parameter];
    }
    gw_mlp_forward(&job->mlp, &parameters, &lane->mlp, rows);
    float *logits = lane->mlp.activation[job->mlp.layers];
    gw_loss loss = gw_loss_softmax(logits, lane->labels, rows, GW_CLASSES, 1.0f / (float)job->batch);
    float loss_sum = (float)loss.sum;
    int64_t count = rows;
    gw_emit_integers(emitter, job->correct, 0, 1, &loss.correct);
    gw_emit_integers(emitter, job->count, 0, 1, &count);
    gw_emit(emitter, job->loss, 0, 1, &loss_sum);
    if (place.phase == GW_TRAIN)
        gw_mlp_backward(&job->mlp, &parameters, &job->gradients, &lane->mlp, rows, emitter);
    return true;
}

/* Loss and accuracy over all samples of a step. */
static void mean_results(const digits_job *job, const gw_sums *sums, uint64_t samples, double *loss,
                         double *accuracy) {
    double count = (double)samples;
    *loss = gw_sum_value(sums, job->loss, 0) / count;
    *accuracy = gw_sum_value(sums, job->correct, 0) / count;
}

static bool digits_scalars(void *job_pointer, uint64_t step, const gw_sums *sums, const gw_state *state,
                           gw_scalars *scalars, gw_err *err) {
    const digits_job *job = job_pointer;
    (void)state;
    digits_place place = digits_place_of(job, step);
    /* The sum's bits have been checked, so another count means that the data are wrong. */
    if (!gw_sum_counted(sums, job->count, place.count))
        return gw_fail(err, GW_E_CORRUPT, "digits: step %llu summed %.0f samples, expected %llu",
                       (unsigned long long)step, gw_sum_value(sums, job->count, 0),
                       (unsigned long long)place.count);
    if (place.phase == GW_EVALUATE) {
        mean_results(job, sums, place.count, &scalars->value[DIGITS_LOSS], &scalars->value[DIGITS_ACCURACY]);
        return true;
    }
    scalars->value[SCALE] = 0x1p-40 * (job->batch / (double)place.count);
    scalars->value[RATE] = job->rate * schedule(place.update, job->updates);
    scalars->value[CORRECTION1] = 1.0 / (1.0 - gw_power(job->momentum, place.update + 1));
    scalars->value[CORRECTION2] = 1.0 / (1.0 - gw_power(beta2, place.update + 1));
    return true;
}

static float decay_of(const digits_job *job, uint32_t group) {
    return group % 2 == 0 ? (float)job->decay : 0.0f; /* biases do not decay */
}

gw_sgd digits_sgd(const digits_job *job, uint32_t group, const gw_scalars *scalars) {
    return (gw_sgd){
        .scale = scalars->value[SCALE],
        .rate = (float)scalars->value[RATE],
        .momentum = (float)job->momentum,
        .decay = decay_of(job, group),
    };
}

gw_adamw digits_adamw(const digits_job *job, uint32_t group, const gw_scalars *scalars) {
    return (gw_adamw){
        .scale = scalars->value[SCALE],
        .rate = (float)scalars->value[RATE],
        .beta1 = (float)job->momentum,
        .beta2 = (float)beta2,
        .epsilon = (float)job->epsilon,
        .decay = decay_of(job, group),
        .correction1 = (float)scalars->value[CORRECTION1],
        .correction2 = (float)scalars->value[CORRECTION2],
    };
}

static void apply_group(const digits_job *job, const digits_group *group, const gw_range *range,
                        const gw_sums *sums, const gw_scalars *scalars, const gw_state *state) {
    const int64_t *gradient = sums->data[group->gradient] + range->first;
    float *parameter = (float *)state->data[group->parameter] + range->first;
    float *first = (float *)state->data[group->first] + range->first;
    if (job->optimizer == DIGITS_SGD) {
        gw_sgd sgd = digits_sgd(job, range->group, scalars);
        gw_optimizer_sgd(&sgd, range->count, gradient, parameter, first);
        return;
    }
    gw_adamw adamw = digits_adamw(job, range->group, scalars);
    gw_optimizer_adamw(&adamw, range->count, gradient, parameter, first,
                       (float *)state->data[group->second] + range->first);
}

static bool digits_apply(void *job_pointer, uint64_t step, const gw_range *range, const gw_sums *sums,
                         const gw_scalars *scalars, const gw_state *state, gw_err *err) {
    const digits_job *job = job_pointer;
    (void)err;
    bool evaluate = digits_place_of(job, step).phase == GW_EVALUATE,
         results = range->group == job->result_group;
    if (evaluate && results) {
        ((double *)state->data[job->result_loss])[0] = scalars->value[DIGITS_LOSS];
        ((double *)state->data[job->result_accuracy])[0] = scalars->value[DIGITS_ACCURACY];
    } else if (!evaluate && !results) {
        apply_group(job, &job->groups[range->group], range, sums, scalars, state);
    }
    return true;
}

static void digits_report(void *job_pointer, uint64_t step, const gw_sums *sums, const gw_scalars *scalars,
                          char *text, size_t size) {
    const digits_job *job = job_pointer;
    (void)scalars;
    digits_place place = digits_place_of(job, step);
    const char *which = place.phase == GW_EVALUATE ? "test_" : "";
    double loss, accuracy;
    mean_results(job, sums, place.count, &loss, &accuracy);
    snprintf(text, size, "epoch=%llu %sloss=%.7g %saccuracy=%.7g", (unsigned long long)place.epoch + 1, which,
             loss, which, accuracy);
}

static void digits_summary(void *job_pointer, uint64_t steps_done, const gw_state *state, char *text,
                           size_t size) {
    const digits_job *job = job_pointer;
    text[0] = '\0';
    /* Otherwise nothing has been evaluated yet. */
    if (job->first.epoch > 0 || steps_done > job->first.step + job->first_steps)
        snprintf(text, size, "loss=%.7g accuracy=%.7g", *(const double *)state->data[job->result_loss],
                 *(const double *)state->data[job->result_accuracy]);
}

static bool digits_tell(void *job_pointer, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err) {
    const digits_job *job = job_pointer;
    (void)err; /* the images are in memory */
    digits_place place = digits_place_of(job, step);
    digits_samples samples = digits_samples_of(job, &place, shard);
    for (uint32_t r = 0; r < samples.rows; r++) {
        char label[16];
        gw_sample sample = {.set = place.phase == GW_TRAIN ? "train" : "test",
                            .index = digits_sample_at(&samples, r),
                            .count = 1,
                            .text = label};
        snprintf(label, sizeof label, "label %u", samples.images->labels[sample.index]);
        gw_take_sample(sink, &sample);
    }
    return true;
}

const gw_job_type gw_job_digits = {
    .api = GW_JOB_API,
    .name = "digits",
    .about = "a classifier of small images: MNIST, Fashion-MNIST, or digits drawn by the program",
    .options = digits_options,
    .open = digits_open,
    .close = digits_close,
    .describe = digits_describe,
    .lane_open = digits_lane_open,
    .lane_close = digits_lane_close,
    .init = digits_init,
    .shards = digits_shards,
    .contribute = digits_contribute,
    .scalars = digits_scalars,
    .apply = digits_apply,
    .report = digits_report,
    .summary = digits_summary,
#ifdef GODWIT_CUDA
    .gpu = &digits_gpu,
#endif
    .samples = digits_tell,
};
