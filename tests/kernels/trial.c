#include "tests/kernels/trial.h"

#include "core/params.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_MOST = 64 };

static gw_params with_defaults(const gw_job_type *type, const char *const *pairs, gw_param *list) {
    gw_params params = {.list = list};
    for (const gw_option *option = type->options; option->name != NULL; option++) {
        const char *value = option->fallback;
        for (const char *const *pair = pairs; *pair != NULL; pair += 2)
            if (strcmp(pair[0], option->name) == 0) value = pair[1];
        cr_assert(params.count < PARAMS_MOST);
        if (value != NULL) list[params.count++] = (gw_param){option->name, value};
    }
    return params;
}

static void add(trial *t, uint32_t tensor, uint64_t i, double scaled) {
    if (!(fabs(scaled) < 0x1p50)) {
        t->bad++;
        return;
    }
    t->sums[tensor][i] += (int64_t)rint(scaled);
}

static void begin_emission(trial *t, uint32_t tensor, uint64_t first, uint64_t count) {
    const gw_tensor *described = &t->plan.tensors[tensor];
    cr_assert_neq(described->role, GW_STATE);
    cr_assert_leq(first + count, gw_tensor_elements(described));
    cr_assert_geq(described->bucket, t->emitted_bucket, "%s emitted after a later bucket", described->name);
    t->emitted_bucket = described->bucket;
}

static void emit(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *values) {
    trial *t = (trial *)emitter;
    begin_emission(t, tensor, first, count);
    double scale = ldexp(1.0, (int)t->plan.tensors[tensor].frac_bits);
    for (uint64_t i = 0; i < count; i++) add(t, tensor, first + i, (double)values[i] * scale);
}

static void emit_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const int64_t *values) {
    trial *t = (trial *)emitter;
    begin_emission(t, tensor, first, count);
    double scale = ldexp(1.0, (int)t->plan.tensors[tensor].frac_bits);
    for (uint64_t i = 0; i < count; i++) add(t, tensor, first + i, (double)values[i] * scale);
}

bool trial_opens(const gw_job_type *type, const char *const *pairs, gw_err *err) {
    gw_param list[PARAMS_MOST];
    gw_params params = with_defaults(type, pairs, list);
    void *job;
    if (!type->open(&params, &job, err)) return false;
    type->close(job);
    return true;
}

char *trial_identity(const gw_job_type *type, const char *const *pairs) {
    gw_param list[PARAMS_MOST];
    gw_params params = with_defaults(type, pairs, list);
    params.record = gw_param_record_open();
    void *job;
    gw_err err;
    cr_assert(type->open(&params, &job, &err), "%s", err.text);
    type->close(job);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (const gw_option *option = type->options; option->name != NULL; option++) {
        const char *value = option->local ? NULL : gw_param_value(&params, option->name);
        if (value != NULL) fprintf(out, "%s=%s\n", option->name, value);
    }
    fclose(out);
    gw_param_record_close(params.record);
    return text;
}

trial *trial_open(const gw_job_type *type, const char *const *pairs) {
    gw_param list[PARAMS_MOST];
    gw_params params = with_defaults(type, pairs, list);
    gw_err err;
    trial *t = calloc(1, sizeof *t);
    t->emitter = (gw_emitter){.emit = emit, .emit_integers = emit_integers};
    t->type = type;
    cr_assert(type->open(&params, &t->job, &err), "%s", err.text);
    cr_assert(type->describe(t->job, &t->plan, &err), "%s", err.text);
    cr_assert(type->lane_open(t->job, &t->lane, &err), "%s", err.text);
    t->state = calloc(t->plan.tensor_count, sizeof *t->state);
    t->sums = calloc(t->plan.tensor_count, sizeof *t->sums);
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        const gw_tensor *tensor = &t->plan.tensors[i];
        uint64_t elements = gw_tensor_elements(tensor);
        if (tensor->role == GW_STATE)
            t->state[i] = malloc(elements * gw_dtype_bytes(tensor->dtype));
        else
            t->sums[i] = calloc(elements, sizeof(int64_t));
    }
    return t;
}

void trial_close(trial *t) {
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        free(t->state[i]);
        free(t->sums[i]);
    }
    free(t->state);
    free(t->sums);
    t->type->lane_close(t->job, t->lane);
    t->type->close(t->job);
    free(t);
}

/* Calls `work` for every group with a state tensor, in ranges. */
static void each_range(trial *t, uint64_t range_elements, void (*work)(trial *, uint64_t, const gw_range *),
                       uint64_t step) {
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        const gw_tensor *tensor = &t->plan.tensors[i];
        bool first_of_group = tensor->role == GW_STATE;
        for (uint32_t k = 0; k < i; k++)
            first_of_group &=
                t->plan.tensors[k].role != GW_STATE || t->plan.tensors[k].group != tensor->group;
        if (!first_of_group) continue;
        uint64_t elements = gw_tensor_elements(tensor);
        for (uint64_t first = 0; first < elements; first += range_elements) {
            uint64_t left = elements - first;
            gw_range range = {tensor->group, first, left < range_elements ? left : range_elements};
            work(t, step, &range);
        }
    }
}

static void init_range(trial *t, uint64_t step, const gw_range *range) {
    (void)step;
    gw_err err;
    gw_state state = {t->state};
    cr_assert(t->type->init(t->job, range, &state, &err), "%s", err.text);
}

void trial_init(trial *t, uint64_t range_elements) {
    each_range(t, range_elements, init_range, 0);
}

void trial_sum(trial *t, uint64_t step, trial_order order) {
    gw_phase phase;
    gw_err err;
    uint32_t shards = t->type->shards(t->job, step, &phase);
    uint32_t *list = malloc(shards * sizeof *list);
    for (uint32_t s = 0; s < shards; s++) list[s] = order == TRIAL_BACKWARD ? shards - 1 - s : s;
    gw_rng rng = gw_rng_seeded(step);
    for (uint32_t s = shards; order == TRIAL_SHUFFLED && s > 1; s--) {
        uint64_t other = gw_rng_below(&rng, s);
        uint32_t swapped = list[s - 1];
        list[s - 1] = list[other];
        list[other] = swapped;
    }
    for (uint32_t i = 0; i < t->plan.tensor_count; i++)
        if (t->sums[i] != NULL)
            memset(t->sums[i], 0, gw_tensor_elements(&t->plan.tensors[i]) * sizeof(int64_t));
    t->bad = 0;
    gw_state state = {t->state};
    void *payload = malloc(t->plan.payload.bytes + 1);
    cr_assert_not_null(payload);
    for (uint32_t s = 0; s < shards; s++) {
        t->emitted_bucket = 0;
        if (list[s] < t->plan.payload.shards) {
            t->emitter.payload = payload;
            cr_assert(t->type->payload(t->job, list[s], payload, &err), "%s", err.text);
        }
        cr_assert(t->type->contribute(t->job, t->lane, step, list[s], &state, &t->emitter, &err), "%s",
                  err.text);
    }
    free(payload);
    free(list);
}

gw_sums trial_sums(const trial *t) {
    return (gw_sums){(const int64_t *const *)t->sums, t->plan.tensors, NULL};
}

static gw_scalars scalars; /* scalars of the step that is applied */

static void apply_range(trial *t, uint64_t step, const gw_range *range) {
    gw_err err;
    gw_state state = {t->state};
    gw_sums sums = trial_sums(t);
    cr_assert(t->type->apply(t->job, step, range, &sums, &scalars, &state, &err), "%s", err.text);
}

void trial_apply(trial *t, uint64_t step, uint64_t range_elements) {
    gw_err err;
    gw_state state = {t->state};
    gw_sums sums = trial_sums(t);
    scalars = (gw_scalars){0};
    cr_assert(t->type->scalars(t->job, step, &sums, &state, &scalars, &err), "%s", err.text);
    each_range(t, range_elements, apply_range, step);
}

void trial_run(trial *t, uint64_t steps) {
    trial_init(t, UINT64_MAX);
    for (uint64_t step = 0; step < steps; step++) {
        trial_sum(t, step, TRIAL_FORWARD);
        cr_assert_eq(t->bad, 0);
        trial_apply(t, step, UINT64_MAX);
    }
}

uint32_t trial_tensor(const trial *t, const char *name) {
    uint32_t i = 0;
    while (i < t->plan.tensor_count && strcmp(t->plan.tensors[i].name, name) != 0) i++;
    cr_assert_lt(i, t->plan.tensor_count, "no tensor %s", name);
    return i;
}

bool trial_named(const gw_tensor *tensor, const char *end) {
    size_t name = strlen(tensor->name), length = strlen(end);
    return name >= length && strcmp(tensor->name + name - length, end) == 0;
}

static gw_hash hash_all(const trial *t, bool state) {
    uint8_t *all = NULL;
    size_t length = 0;
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) {
        const gw_tensor *tensor = &t->plan.tensors[i];
        if ((tensor->role == GW_STATE) != state) continue;
        size_t bytes = gw_tensor_elements(tensor) * (state ? gw_dtype_bytes(tensor->dtype) : sizeof(int64_t));
        all = realloc(all, length + bytes);
        memcpy(all + length, state ? t->state[i] : (const void *)t->sums[i], bytes);
        length += bytes;
    }
    gw_hash hash;
    gw_blake2b(all, length, &hash, sizeof hash);
    free(all);
    return hash;
}

gw_hash trial_state_hash(const trial *t) {
    return hash_all(t, true);
}

gw_hash trial_sums_hash(const trial *t) {
    return hash_all(t, false);
}
