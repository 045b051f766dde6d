/* The job gpt on a GPU against the same job on a processor, with small models of sizes that are multiples of
 * no tile. Runs on a GPU, and everywhere on the stand-in for one (tests/gpu_fake). */
#include "scratch.h"
#include "tests/gpu/rig.h"
#include "tests/gpu/steps.h"
#include "tests/weights_file.h"

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/model/gpt/gpt.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/model/gpt/file.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40, SETTING = 200 };

/* Joins the settings of a job for rig_open_on; the last setting of a name counts. */
typedef struct settings {
    char text[MOST][SETTING];
    const char *list[MOST + 1];
    uint32_t count;
} settings;

static void set(settings *s, const char *name, const char *value) {
    cr_assert_lt(s->count, MOST);
    cr_assert_lt(snprintf(s->text[s->count], SETTING, "%s=%s", name, value), SETTING);
    s->list[s->count] = s->text[s->count];
    s->list[++s->count] = NULL;
}

/* An update has 5 windows in shards of 2, 2 and 1; an evaluation, the fourth step and the last, has 3 in
 * shards of 2 and 1. The vocabulary is no multiple of a tile. */
static settings *small(void) {
    static settings s;
    static const char *const pairs[][2] = {{"layers", "2"},        {"heads", "2"},   {"channels", "32"},
                                           {"context", "19"},      {"vocab", "131"}, {"batch-tokens", "95"},
                                           {"micro-batch", "2"},   {"updates", "5"}, {"eval-every", "3"},
                                           {"val-tokens", "57"},   {"lr", "0.01"},   {"clip", "0.3"},
                                           {"weight-decay", "0.1"}};
    s.count = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) set(&s, pairs[i][0], pairs[i][1]);
    set(&s, "data", scratch_path("data"));
    set(&s, "val", scratch_path("val"));
    return &s;
}

static void write_text(const char *name, size_t count, size_t step) {
    char *text = malloc(count);
    for (size_t i = 0; i < count; i++) text[i] = (char)(32 + (i * i * step + i) % 97);
    scratch_write(name, text, count);
    free(text);
}

static void enter(void) {
    scratch_open();
    write_text("data", 41 * 19 + 5, 1);
    write_text("val", 80, 3);
}

TestSuite(gpu_gpt, .init = enter, .fini = scratch_close);

static const gw_precision precisions[] = {GW_PRECISION_FP32, GW_PRECISION_TF32, GW_PRECISION_BF16};

/* The sums of the first `kinds` kinds of steps are a processor's except for rounding: the first update, a later one, and an
 * evaluation. */
static void compare_sums(settings *s, int kinds, const double most[3]) {
    for (int p = 0; p < 3; p++) {
        rig cpu, gpu;
        gpu_precision = precisions[p];
        rig_open(&cpu, &gw_job_gpt, s->list, 1, 1);
        rig_open_on(&gpu, &gw_job_gpt, s->list, 1, 1, gpu_open);
        rig_init(&cpu);
        rig_init(&gpu);
        static const uint64_t steps[] = {0, 2, 3}; /* the fourth is an evaluation */
        for (int i = 0; i < kinds; i++) {
            uint64_t count, same;
            double *expected = gpu_sum_of(&cpu, steps[i], &count), *got = gpu_sum_of(&gpu, steps[i], &same);
            cr_assert_eq(count, same);
            double far = gpu_distance(got, expected, count);
            cr_assert_lt(far, most[p], "precision %d, step %d: %g", (int)precisions[p], (int)steps[i], far);
            free(expected);
            free(got);
        }
        rig_close(&cpu);
        rig_close(&gpu);
    }
}

static const double usual[3] = {1e-5, 3e-3, 2e-2};

Test(gpu_gpt, sums_are_those_of_a_processor_but_for_rounding) {
    gpu_need();
    settings *s = small();
    compare_sums(s, 3, usual);
}

Test(gpu_gpt, dropout_drops_what_a_processor_drops) {
    gpu_need();
    settings *s = small();
    set(s, "dropout", "0.2");
    compare_sums(s, 3, usual);
}

Test(gpu_gpt, other_shapes) {
    gpu_need();
    settings *s = small();
    static const char *const pairs[][2] = {{"layers", "1"},     {"heads", "1"},   {"channels", "48"},
                                           {"context", "33"},   {"vocab", "256"}, {"batch-tokens", "33"},
                                           {"micro-batch", "1"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) set(s, pairs[i][0], pairs[i][1]);
    compare_sums(s, 3, usual);
}

/* A shard with more tokens than a chunk of the head: its second chunk is smaller. One update is enough, as those that follow
 * have the same shapes. */
Test(gpu_gpt, shards_of_several_chunks) {
    gpu_need();
    settings *s = small();
    static const char *const pairs[][2] = {
        {"layers", "1"},          {"heads", "1"},         {"channels", "16"},  {"context", "64"},
        {"batch-tokens", "8384"}, {"micro-batch", "131"}, {"val-tokens", "64"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) set(s, pairs[i][0], pairs[i][1]);
    write_text("data", 132 * 64 + 1, 1);
    compare_sums(s, 1, usual);
}

/* Runs a few steps on `devices` devices; returns the state's fingerprint. */
static uint64_t train(const settings *s, uint32_t devices, gw_reduce mode, rig_opener *open, uint64_t steps) {
    rig r;
    uint64_t last = 0;
    rig_open_on(&r, &gw_job_gpt, s->list, devices, devices, open);
    rig_init(&r);
    for (uint64_t step = 0; step < steps; step++) last = rig_step(&r, step, mode);
    rig_close(&r);
    return last;
}

Test(gpu_gpt, one_hash_whatever_the_number_of_devices) {
    gpu_need();
    settings *s = small();
    for (int p = 0; p < 3; p++) {
        gpu_precision = precisions[p];
        uint64_t alone = train(s, 1, GW_REDUCE_ALONE, gpu_open, 5);
        cr_assert_eq(train(s, 3, GW_REDUCE_EXACT, gpu_open, 5), alone);
    }
}

/* The result does not depend on the order in which a kernel's blocks run. */
Test(gpu_gpt, one_hash_in_whatever_order_blocks_run) {
    gpu_need();
    settings *s = small();
    set(s, "dropout", "0.1");
    for (int p = 0; p < 3; p++) {
        gpu_precision = precisions[p];
        uint64_t usually = train(s, 1, GW_REDUCE_ALONE, gpu_open, 2);
        gpu_shuffle(7);
        cr_assert_eq(train(s, 1, GW_REDUCE_ALONE, gpu_open, 2), usually);
        gpu_shuffle(0);
    }
}

/* Recomputed layers have the same bits as kept ones. */
Test(gpu_gpt, recompute_changes_no_bit) {
    gpu_need();
    settings *s = small();
    set(s, "dropout", "0.1");
    uint64_t kept[3];
    for (int again = 0; again < 2; again++) {
        if (again) set(s, "recompute", "1");
        for (int p = 0; p < 3; p++) {
            gpu_precision = precisions[p];
            uint64_t got = train(s, 1, GW_REDUCE_ALONE, gpu_open, 3);
            cr_assert(!again || got == kept[p], "precision %d", (int)precisions[p]);
            kept[p] = got;
        }
    }
}

/* Updates and an evaluation, in shards of two sizes, whose dropout differs. */
Test(gpu_gpt, shards_that_are_graphs_have_the_same_bits) {
    gpu_need();
    settings *s = small();
    set(s, "dropout", "0.1");
    for (int p = 0; p < 3; p++) {
        gpu_precision = precisions[p];
        long before = gpu_graphs();
        set(s, "graphs", "off");
        uint64_t expected = train(s, 1, GW_REDUCE_ALONE, gpu_open, 5);
        cr_assert_eq(gpu_graphs(), before);
        set(s, "graphs", "on");
        cr_assert_eq(train(s, 1, GW_REDUCE_ALONE, gpu_open, 5), expected);
        cr_assert(before < 0 || gpu_graphs() > before);
        cr_assert_eq(train(s, 2, GW_REDUCE_EXACT, gpu_open_two, 5), expected);
    }
}

Test(gpu_gpt, the_initial_state_is_that_of_a_processor) {
    gpu_need();
    settings *s = small();
    rig cpu, gpu;
    rig_open(&cpu, &gw_job_gpt, s->list, 1, 1);
    rig_open_on(&gpu, &gw_job_gpt, s->list, 1, 1, gpu_open);
    uint64_t expected = rig_units(&cpu, 0, GW_UNIT_INIT);
    cr_assert_eq(rig_units(&gpu, 0, GW_UNIT_INIT), expected);
    gpu_same_state(&cpu, &gpu);
    rig_close(&cpu);
    rig_close(&gpu);
}

/* The copies of weights that graphs read do not change either. */
Test(gpu_gpt, contributions_do_not_depend_on_moments) {
    gpu_need();
    rig r;
    gpu_precision = GW_PRECISION_BF16;
    rig_open_on(&r, &gw_job_gpt, small()->list, 1, 1, gpu_open);
    rig_init(&r);
    rig_step(&r, 0, GW_REDUCE_ALONE);
    rig_expect_two_prints(&r, 1);
    rig_close(&r);
}

Test(gpu_gpt, first_weights_from_a_file) {
    gpu_need();
    settings *s = small();
    gw_gpt gpt = {.layers = 2, .heads = 2, .channels = 32, .context = 19, .vocabulary = 131};
    float *values[GW_GPT_PARAMETERS];
    uint32_t count = gw_gpt_parameters(&gpt);
    gw_err err;
    for (uint32_t i = 0; i < count; i++) {
        gw_gpt_parameter p = gw_gpt_parameter_of(&gpt, i);
        uint64_t elements = p.dim[0] * (p.rank == 2 ? p.dim[1] : 1);
        values[i] = malloc(elements * sizeof(float));
        gpu_random_floats(i + 1, elements, -9, -3, values[i]);
    }
    cr_assert(write_gpt_weights(&gpt, (const float *const *)values, scratch_path("weights"), &err), "%s",
              err.text);
    for (uint32_t i = 0; i < count; i++) free(values[i]);
    set(s, "init", scratch_path("weights"));
    rig cpu, gpu;
    rig_open(&cpu, &gw_job_gpt, s->list, 1, 1);
    rig_open_on(&gpu, &gw_job_gpt, s->list, 1, 1, gpu_open);
    rig_init(&cpu);
    rig_init(&gpu);
    gpu_same_state(&cpu, &gpu);
    rig_close(&cpu);
    rig_close(&gpu);
}

/* Float sums that processors and GPUs apply: rig_step checks that all get the same bytes, also by the
 * clipping norm. */
Test(gpu_gpt, updates_have_the_bits_of_a_processor) {
    gpu_need();
    settings *s = small();
    gpu_precision = GW_PRECISION_BF16;
    train(s, 2, GW_REDUCE_FAST, gpu_open_either, 5);
}

Test(gpu_gpt, a_step_is_reported_as_by_a_processor) {
    gpu_need();
    settings *s = small();
    rig r;
    char text[2][200];
    rig_open_on(&r, &gw_job_gpt, s->list, 2, 1, gpu_open_either);
    rig_init(&r);
    for (uint64_t step = 0; step < 4; step++) {
        rig_step(&r, step, GW_REDUCE_FAST);
        for (int d = 0; d < 2; d++) r.device[d]->ops->report(r.device[d], text[d], sizeof text[d]);
        cr_assert_str_eq(text[0], text[1]);
        cr_assert(strstr(text[0], step == 3 ? "val_loss=" : "norm="), "%s", text[0]);
    }
    rig_close(&r);
}

Test(gpu_gpt, a_model_that_the_kernels_do_not_take_is_refused) {
    gpu_need();
    settings *s = small();
    rig r;
    gw_device *device;
    gw_err err;
    set(s, "channels", "36"); /* heads of 18 channels */
    rig_open(&r, &gw_job_gpt, s->list, 1, 1);
    gw_device_options options = {
        .type = &gw_job_gpt, .job = r.job, .plan = &r.plan, .workers = 1, .boundary_words = 1};
    cr_assert_not(gw_device_cuda_open(&options, &(gw_gpu){0, GW_PRECISION_BF16}, &device, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "2 heads of 18 channels"), "%s", err.text);
    rig_close(&r);
}

/* Unsupported sizes are refused before memory is allocated, and not by a launch that fails in the first
 * shard. */
Test(gpu_gpt, shards_that_no_grid_has_room_for_are_refused) {
    gpu_need();
    static const struct {
        uint32_t sequences, context;
        const char *why;
    } cases[] = {{65536, 4, "65535 sequences"}, {65535, 65, "4259775 tokens"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_gpt gpt = {
            .layers = 1, .heads = 1, .channels = 16, .context = cases[i].context, .vocabulary = 256};
        gw_cuda_gpt *model;
        gw_err err;
        cr_assert_not(gw_cuda_gpt_open(&(gw_gpu){0, GW_PRECISION_BF16}, &gpt, false, &cases[i].sequences, 1,
                                       &model, &err));
        cr_assert_eq(err.code, GW_E_UNSUPPORTED);
        cr_assert(strstr(err.text, cases[i].why), "%s", err.text);
    }
}
