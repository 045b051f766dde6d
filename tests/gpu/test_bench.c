/* Training of small models as `godwit bench gpu` measures it, with every sum checked. Runs on a GPU, and
 * everywhere on the stand-in for one (tests/gpu_fake). */
#include "scratch.h"
#include "tests/gpu/rig.h"

#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/gpt/gpt.h"
#include "tools/bench/gpu/train.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(gpu_bench, .init = scratch_open, .fini = scratch_close);

static gw_bench_trained train(const gw_job_type *type, gw_precision precision,
                              const gw_bench_setting *settings) {
    const gw_bench_training training = {type, settings, .steps = 3, .repeated = 2};
    gw_bench_trained got;
    gw_err err;
    cr_assert(gw_bench_gpu_train(&(gw_gpu){0, precision}, &training, &got, &err), "%s", err.text);
    cr_assert_eq(got.others, 0);
    cr_assert(got.alone > 0 && got.exact > 0 && got.fast > 0);
    return got;
}

Test(gpu_bench, digits_trains_with_sums_of_every_kind) {
    gpu_need();
    static const gw_bench_setting settings[] = {{"hidden", "16"},      {"samples", "1200"}, {"batch", "60"},
                                                {"micro-batch", "20"}, {"epochs", "9"},     {NULL, NULL}};
    gw_bench_trained got = train(&gw_job_digits, GW_PRECISION_FP32, settings);
    cr_assert_eq(got.shards, 3);
    cr_assert_geq(got.elements, 784 * 16 + 16 + 16 * 10 + 10);
    if (gpu_is_real()) cr_assert_gt(got.bytes, 0);
}

Test(gpu_bench, gpt_trains_with_sums_of_every_kind) {
    gpu_need();
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    const char *data = scratch_write("data", text, sizeof text);
    const gw_bench_setting settings[] = {{"data", data},       {"layers", "1"},    {"heads", "1"},
                                         {"channels", "16"},   {"context", "16"},  {"batch-tokens", "64"},
                                         {"micro-batch", "2"}, {"updates", "100"}, {NULL, NULL}};
    gw_bench_trained got = train(&gw_job_gpt, GW_PRECISION_BF16, settings);
    cr_assert_eq(got.shards, 2);
    cr_assert_geq(got.elements, (256 + 16) * 16);
}

Test(gpu_bench, what_a_job_refuses_is_said) {
    gpu_need();
    static const gw_bench_setting settings[] = {{"batch", "-1"}, {NULL, NULL}};
    const gw_bench_training training = {.type = &gw_job_digits, .settings = settings, .steps = 3};
    gw_bench_trained got;
    gw_err err;
    cr_assert_not(gw_bench_gpu_train(&(gw_gpu){0, GW_PRECISION_FP32}, &training, &got, &err));
    cr_assert(strstr(err.text, "batch") != NULL, "%s", err.text);
}
