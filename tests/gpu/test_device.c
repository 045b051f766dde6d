/* The device of a GPU against that of a processor. Runs on a GPU, and everywhere on a stand-in for one
 * (tests/gpu_fake), where the matrix products are plain loops. */
#include "tests/gpu/rig.h"
#include "tests/gpu/steps.h"
#include "tests/kernels/rig.h"

#include "kernels/cuda/device/device.h"
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/synthetic/synthetic.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Uneven sizes: half of 1001 elements is not aligned, and the cells are no multiple of 1001. */
static const char *const synthetic[] = {"shards=12", "shard-ms=0", "sum-elements=1001", "state-bytes=100003",
                                        NULL};
static const char *const digits[] = {"samples=330",    "hidden=33,17", "batch=64",
                                     "micro-batch=24", "epochs=3",     NULL};
static const char *const digits_sgd[] = {"samples=330",    "hidden=20",     "batch=64",
                                         "micro-batch=24", "optimizer=sgd", NULL};

Test(gpu_device, synthetic_has_the_bytes_of_a_processor) {
    gpu_need();
    rig cpu;
    rig_open(&cpu, &gw_job_synthetic, synthetic, 1, 2);
    rig_init(&cpu);
    enum { STEPS = 4 };
    uint64_t expected[STEPS];
    for (uint64_t step = 0; step < STEPS; step++) expected[step] = rig_step(&cpu, step, GW_REDUCE_ALONE);
    for (uint32_t devices = 1; devices <= 3; devices++) {
        rig gpu;
        rig_open_on(&gpu, &gw_job_synthetic, synthetic, devices, 2, gpu_open);
        rig_init(&gpu);
        for (uint64_t step = 0; step < STEPS; step++)
            cr_assert_eq(rig_step(&gpu, step, devices == 1 ? GW_REDUCE_ALONE : GW_REDUCE_EXACT),
                         expected[step]);
        gpu_same_state(&cpu, &gpu);
        rig_close(&gpu);
    }
    rig_close(&cpu);
}

/* rig_step checks that all devices apply the float sum to the same bytes. */
static void step_mixed(const gw_job_type *type, const char *const *settings) {
    rig both;
    rig_open_on(&both, type, settings, 4, 2, gpu_open_either);
    rig_init(&both);
    cr_assert_eq(both.device[0]->gpu_count, 1);
    cr_assert_eq(both.device[1]->gpu_count, 0);
    for (uint64_t step = 0; step < 7; step++) rig_step(&both, step, GW_REDUCE_FAST);
    rig_close(&both);
}

Test(gpu_device, float_sums_are_applied_alike_by_gpus_and_processors) {
    gpu_need();
    step_mixed(&gw_job_synthetic, synthetic);
    step_mixed(&gw_job_digits, digits);
    step_mixed(&gw_job_digits, digits_sgd);
}

Test(gpu_device, float_sums_of_two_gpus_as_one_device) {
    gpu_need();
    rig r;
    rig_open_on(&r, &gw_job_digits, digits, 2, 2, gpu_open_two);
    rig_init(&r);
    for (uint64_t step = 0; step < 3; step++) rig_step(&r, step, GW_REDUCE_FAST);
    rig_close(&r);
}

Test(gpu_device, initial_state_of_digits_is_that_of_a_processor) {
    gpu_need();
    rig cpu, gpu;
    rig_open(&cpu, &gw_job_digits, digits, 1, 1);
    rig_open_on(&gpu, &gw_job_digits, digits, 1, 1, gpu_open);
    uint64_t expected = rig_units(&cpu, 0, GW_UNIT_INIT);
    cr_assert_eq(rig_units(&gpu, 0, GW_UNIT_INIT), expected);
    cr_assert_eq(rig_units(&gpu, 0, GW_UNIT_HASH), expected);
    gpu_same_state(&cpu, &gpu);
    rig_close(&cpu);
    rig_close(&gpu);
}

/* The tests run on one GPU, and on two as one device. */
Test(gpu_device, what_contributions_read_has_a_fingerprint_of_its_own) {
    gpu_need();
    rig_opener *const open[] = {gpu_open, gpu_open_two};
    for (int way = 0; way < 2; way++) {
        rig r;
        rig_open_on(&r, &gw_job_digits, way == 0 ? digits : digits_sgd, 1, 2, open[way]);
        rig_init(&r);
        rig_expect_two_prints(&r, 0);
        for (uint64_t step = 0; step < 2; step++) rig_step(&r, step, GW_REDUCE_ALONE);
        rig_expect_two_prints(&r, 2);
        rig_close(&r);
    }
}

/* Runs `steps` steps, whose sums must be a processor's except for rounding. */
static void compare_sums(const char *const *settings, gw_precision precision, uint64_t steps, double most) {
    rig cpu, gpu;
    gpu_precision = precision;
    rig_open(&cpu, &gw_job_digits, settings, 1, 1);
    rig_open_on(&gpu, &gw_job_digits, settings, 1, 2, gpu_open);
    rig_init(&cpu);
    rig_init(&gpu);
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t count, same;
        double *expected = gpu_sum_of(&cpu, step, &count), *got = gpu_sum_of(&gpu, step, &same);
        cr_assert_eq(count, same);
        double far = gpu_distance(got, expected, count);
        cr_assert_lt(far, most, "precision %d, step %d: %g", (int)precision, (int)step, far);
        free(expected);
        free(got);
    }
    rig_close(&cpu);
    rig_close(&gpu);
}

/* Shards of several sizes, and the epoch's evaluation. The bounds are wide, since terms of sums over few
 * samples cancel and a ReLU may switch; test_gemm.c has closer bounds for the products. */
Test(gpu_device, gradients_are_those_of_a_processor_but_for_rounding) {
    gpu_need();
    compare_sums(digits, GW_PRECISION_FP32, 7, 1e-4);
    compare_sums(digits, GW_PRECISION_TF32, 7, 5e-2);
    compare_sums(digits, GW_PRECISION_BF16, 7, 3e-1);
}

/* Large layers, whose factors are transposed first, except in shards of 14 samples. */
Test(gpu_device, gradients_of_large_weights) {
    gpu_need();
    static const char *const wide[] = {"samples=62", "hidden=520,516", "batch=62", "micro-batch=24", NULL};
    compare_sums(wide, GW_PRECISION_TF32, 1, 2e-2);
}

Test(gpu_device, one_hash_whatever_the_number_of_devices) {
    gpu_need();
    static const gw_precision precisions[] = {GW_PRECISION_FP32, GW_PRECISION_TF32, GW_PRECISION_BF16};
    for (int p = 0; p < 3; p++) {
        gpu_precision = precisions[p];
        uint64_t expected = 0;
        for (uint32_t devices = 1; devices <= 3; devices++) {
            rig r;
            rig_open_on(&r, &gw_job_digits, digits, devices, devices, gpu_open);
            rig_init(&r);
            uint64_t last = 0;
            for (uint64_t step = 0; step < 8; step++)
                last = rig_step(&r, step, devices == 1 ? GW_REDUCE_ALONE : GW_REDUCE_EXACT);
            char summary[200];
            r.device[0]->ops->summary(r.device[0], 8, summary, sizeof summary);
            cr_assert(strstr(summary, "accuracy="), "'%s'", summary);
            cr_assert(devices == 1 || last == expected);
            expected = last;
            rig_close(&r);
        }
    }
}

/* Adds the segments on all GPUs of all devices, as NCCL does. */
static void sum_on_gpus(rig *r, gw_reduce mode) {
    gw_segments send[RIG_MOST_DEVICES], receive[RIG_MOST_DEVICES];
    gw_err err;
    for (uint32_t d = 0; d < r->devices; d++)
        cr_assert(
            r->device[d]->ops->reduce_begin(r->device[d], mode, GW_PLACE_GPU, &send[d], &receive[d], &err),
            "%s", err.text);
    uint32_t gpus = r->device[0]->gpu_count, each = send[0].count / gpus;
    for (uint32_t s = 0; s < each; s++) {
        uint64_t count = send[0].list[s].count;
        int64_t *total = calloc(count, sizeof *total), *one = malloc(count * sizeof *one);
        for (uint32_t i = 0; i < r->devices * gpus; i++) {
            const gw_segment *from = &send[i / gpus].list[i % gpus * each + s];
            cr_assert(from->count == count && !from->is_float);
            GPU(cudaSetDevice(r->device[i / gpus]->gpus[i % gpus]));
            gpu_fetch(one, from->data, count * sizeof *one);
            for (uint64_t k = 0; k < count; k++) total[k] = (int64_t)((uint64_t)total[k] + (uint64_t)one[k]);
        }
        for (uint32_t i = 0; i < r->devices * gpus; i++) {
            GPU(cudaSetDevice(r->device[i / gpus]->gpus[i % gpus]));
            GPU(cudaMemcpy(receive[i / gpus].list[i % gpus * each + s].data, total, count * sizeof *total,
                           cudaMemcpyHostToDevice));
            GPU(cudaDeviceSynchronize());
        }
        free(total);
        free(one);
    }
}

/* Runs steps of digits; with `on_gpus`, segments lie in the GPUs' memory. */
static uint64_t run_two(uint32_t devices, bool on_gpus, uint64_t steps) {
    rig r;
    uint64_t last = 0;
    rig_open_on(&r, &gw_job_digits, digits, devices, 3, gpu_open_two);
    cr_assert_eq(r.device[0]->gpu_count, 2);
    rig_init(&r);
    for (uint64_t step = 0; step < steps; step++) {
        if (!on_gpus) {
            last = rig_step(&r, step, devices == 1 ? GW_REDUCE_ALONE : GW_REDUCE_EXACT);
            continue;
        }
        for (uint32_t d = 0; d < devices; d++) {
            r.device[d]->ops->step_begin(r.device[d], step);
            rig_contribute(&r, d, step, d, devices);
        }
        sum_on_gpus(&r, GW_REDUCE_EXACT);
        last = rig_finish(&r);
    }
    rig_close(&r);
    return last;
}

Test(gpu_device, two_gpus_as_one_device_have_the_hash_of_one) {
    gpu_need();
    static const gw_precision precisions[] = {GW_PRECISION_BF16, GW_PRECISION_TF32};
    uint64_t steps = gpu_is_real() ? 8 : 3;
    for (int p = 0; p < (gpu_is_real() ? 2 : 1); p++) {
        gpu_precision = precisions[p];
        rig r;
        uint64_t expected = 0;
        rig_open_on(&r, &gw_job_digits, digits, 1, 1, gpu_open);
        rig_init(&r);
        for (uint64_t step = 0; step < steps; step++) expected = rig_step(&r, step, GW_REDUCE_ALONE);
        rig_close(&r);
        for (uint32_t devices = 1; devices <= 2; devices++) {
            cr_assert_eq(run_two(devices, false, steps), expected, "%u devices, by host memory", devices);
            cr_assert_eq(run_two(devices, true, steps), expected, "%u devices, from GPU to GPU", devices);
        }
    }
}

/* Computes every contribution of a step repeatedly, on lanes that run at the same time. */
Test(gpu_device, a_step_repeated_has_one_sum) {
    gpu_need();
    static const char *const settings[] = {"samples=6000", "hidden=512,256", "batch=1024", "micro-batch=128",
                                           NULL};
    static const char *const few[] = {"samples=300", "hidden=32", "batch=64", "micro-batch=16", NULL};
    bool real = gpu_is_real();
    rig r;
    rig_open_on(&r, &gw_job_digits, real ? settings : few, 1, 2, gpu_open);
    rig_init(&r);
    uint64_t count, first_count;
    double *first = gpu_sum_of(&r, 0, &first_count);
    for (int i = 1; i < (real ? 100 : 10); i++) {
        double *again = gpu_sum_of(&r, 0, &count);
        cr_assert_eq(count, first_count);
        cr_assert_eq(memcmp(again, first, count * sizeof *first), 0, "repetition %d", i);
        free(again);
    }
    free(first);
    rig_close(&r);
}

Test(gpu_device, a_bad_element_is_counted_and_named) {
    gpu_need();
    static const char *const settings[] = {"shards=6", "shard-ms=0", "sum-elements=1001", "bad-shard=0:3",
                                           NULL};
    rig r;
    rig_open_on(&r, &gw_job_synthetic, settings, 1, 2, gpu_open);
    rig_init(&r);
    gw_device *d = r.device[0];
    gw_exact_bad bad;
    gw_segments none;
    gw_verdict verdict;
    gw_err err;
    d->ops->step_begin(d, 0);
    rig_contribute(&r, 0, 0, 0, 1);
    d->ops->bad(d, &bad);
    cr_assert(bad.any);
    cr_assert_eq(bad.shard, 3);
    cr_assert_str_eq(d->layout->tensors[bad.tensor].name, "push");
    cr_assert_eq(bad.index, 500);
    cr_assert(d->ops->reduce_begin(d, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err), "%s", err.text);
    cr_assert(d->ops->reduce_end(d, &verdict, &err), "%s", err.text);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    cr_assert_eq(verdict.bad, 1);
    d->ops->step_begin(d, 1);
    d->ops->bad(d, &bad);
    cr_assert_not(bad.any);
    rig_close(&r);
}

/* Dropped shards leave nothing in the sum, and a second reduction has the same sum. */
Test(gpu_device, emptied_and_reduced_again) {
    gpu_need();
    rig r;
    uint64_t count, same;
    rig_open_on(&r, &gw_job_synthetic, synthetic, 1, 2, gpu_open);
    rig_init(&r);
    gw_device *d = r.device[0];
    double *expected = gpu_sum_of(&r, 5, &count);
    for (int i = 0; i < 3; i++) {
        d->ops->step_begin(d, 5);
        rig_contribute(&r, 0, 5, 1, 2);
        d->ops->zero(d);
        gw_held held;
        d->ops->held(d, &held, NULL);
        cr_assert_eq(held.held, 0);
        double *again = gpu_sum_of(&r, 5, &same);
        cr_assert_eq(memcmp(again, expected, count * sizeof *again), 0);
        free(again);
    }
    free(expected);
    rig_close(&r);
}

/* A sum that lacks a shard is not accepted. */
Test(gpu_device, a_missing_shard_shows) {
    gpu_need();
    rig r;
    rig_open_on(&r, &gw_job_synthetic, synthetic, 1, 2, gpu_open);
    rig_init(&r);
    gw_device *d = r.device[0];
    gw_segments none;
    gw_verdict verdict;
    gw_err err;
    d->ops->step_begin(d, 0);
    rig_contribute(&r, 0, 0, 1, 1);
    cr_assert(d->ops->reduce_begin(d, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err), "%s", err.text);
    cr_assert(d->ops->reduce_end(d, &verdict, &err), "%s", err.text);
    cr_assert_not(verdict.coverage_ok);
    cr_assert(verdict.fingerprint_ok);
    rig_close(&r);
}

Test(gpu_device, state_is_read_and_written_in_any_pieces) {
    gpu_need();
    rig from, to;
    static const char *const large[] = {"shards=2", "shard-ms=0", "state-bytes=9000005", NULL};
    rig_open_on(&from, &gw_job_synthetic, large, 1, 1, gpu_open);
    rig_open_on(&to, &gw_job_synthetic, large, 1, 1, gpu_open);
    uint64_t expected = rig_units(&from, 0, GW_UNIT_INIT);
    gw_device *a = from.device[0], *b = to.device[0];
    uint64_t bytes = a->layout->image_bytes;
    uint8_t *buffer = malloc(bytes);
    gw_err err;
    static const uint64_t pieces[] = {1, 4097, 4194304, 3, 4194305, 100000, UINT64_MAX};
    for (uint64_t at = 0, i = 0, n; at < bytes; at += n, i++) {
        n = pieces[i] < bytes - at ? pieces[i] : bytes - at;
        cr_assert(a->ops->state_read(a, at, n, buffer, &err), "%s", err.text);
        cr_assert(b->ops->state_write(b, at, n, buffer, &err), "%s", err.text);
    }
    cr_assert_eq(rig_units(&to, 0, GW_UNIT_HASH), expected);
    gpu_same_state(&from, &to);
    free(buffer);
    rig_close(&from);
    rig_close(&to);
}

static uint64_t probe(rig *r, uint64_t step, uint32_t shard) {
    gw_device *d = r->device[0];
    gw_lane *lane;
    gw_err err;
    uint64_t fingerprint;
    cr_assert(d->ops->lane_open(d, &lane, &err), "%s", err.text);
    cr_assert(d->ops->probe(d, lane, step, shard, &fingerprint, &err), "%s", err.text);
    d->ops->lane_close(d, lane);
    return fingerprint;
}

/* The fingerprints that --verify compares: of a shard that was added, and of the same shard computed again on
 * another device. */
Test(gpu_device, a_contribution_has_the_fingerprint_of_its_probe) {
    gpu_need();
    static const char *const settings[] = {"samples=330", "hidden=33", "batch=64", "micro-batch=24", NULL};
    rig r;
    rig_open_on(&r, &gw_job_digits, settings, 2, 1, gpu_open);
    rig_init(&r);
    gw_device *d = r.device[0], *other = r.device[1];
    gw_lane *lane, *again;
    gw_err err;
    cr_assert(d->ops->lane_open(d, &lane, &err), "%s", err.text);
    cr_assert(other->ops->lane_open(other, &again, &err), "%s", err.text);
    for (uint32_t shard = 0; shard < 3; shard++) {
        uint64_t fingerprint;
        cr_assert_eq(d->ops->contribute(d, lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
        cr_assert(other->ops->probe(other, again, 0, shard, &fingerprint, &err), "%s", err.text);
        cr_assert_eq(d->ops->fingerprint(d, lane), fingerprint);
    }
    d->ops->lane_close(d, lane);
    other->ops->lane_close(other, again);
    rig_close(&r);
}

Test(gpu_device, probes_tell_shards_apart_and_add_nothing) {
    gpu_need();
    rig r;
    rig_open_on(&r, &gw_job_digits, digits, 1, 1, gpu_open);
    rig_init(&r);
    uint64_t first = probe(&r, 0, 0);
    cr_assert_eq(probe(&r, 0, 0), first);
    cr_assert_neq(probe(&r, 0, 1), first);
    cr_assert_neq(probe(&r, 1, 0), first);
    gw_held held;
    r.device[0]->ops->held(r.device[0], &held, NULL);
    cr_assert_eq(held.held, 0);
    cr_assert_eq(held.running, 0);
    rig_close(&r);
}

static bool emit_nowhere(void *job, void *side, void *lane, const gw_gpu_shard *shard, const gw_state *state,
                         gw_emitter *emitter, gw_err *err) {
    (void)job, (void)side, (void)lane, (void)shard, (void)err;
    gw_emit(emitter, 77, 0, 1, state->data[0]);
    return true;
}

static uint32_t no_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return 0;
}

static void probe_mistaken(const gw_job_type *type, const char *text) {
    rig r;
    gw_lane *lane;
    gw_err err;
    uint64_t fingerprint;
    rig_open_on(&r, type, synthetic, 1, 1, gpu_open);
    rig_init(&r);
    gw_device *d = r.device[0];
    cr_assert(d->ops->lane_open(d, &lane, &err), "%s", err.text);
    cr_assert_not(d->ops->probe(d, lane, 0, 3, &fingerprint, &err));
    cr_expect(strstr(err.text, text) != NULL, "%s", err.text);
    d->ops->lane_close(d, lane);
    rig_close(&r);
}

Test(gpu_device, a_probe_tells_what_its_job_does_wrong) {
    gpu_need();
    gw_job_gpu gpu = *gw_job_synthetic.gpu;
    gw_job_type type = gw_job_synthetic;
    gpu.contribute = emit_nowhere;
    type.gpu = &gpu;
    probe_mistaken(&type,
                   "job synthetic: probe of step 0, shard 3: the job emitted elements 0 to 1 of tensor 77");
    type = gw_job_synthetic;
    type.shards = no_shards;
    probe_mistaken(&type, "job synthetic: step 0 has 0 shards");
}

Test(gpu_device, a_class_says_what_bits_depend_on) {
    gpu_need();
    rig tf32, bf16;
    gpu_precision = GW_PRECISION_TF32;
    rig_open_on(&tf32, &gw_job_digits, digits, 1, 1, gpu_open);
    gpu_precision = GW_PRECISION_BF16;
    rig_open_on(&bf16, &gw_job_digits, digits, 1, 1, gpu_open);
    const char *text = tf32.device[0]->class_text;
    static const char *const parts[] = {"cuda godwit=", " build=",          " gpu=sm_",   " sms=", " mig=",
                                        " code=",       " precision=tf32 ", " cublaslt=", " plan="};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cr_assert(strstr(text, parts[i]), "'%s' is not in '%s'", parts[i], text);
    cr_assert_str_neq(text, bf16.device[0]->class_text);
    rig_close(&tf32);
    rig_close(&bf16);
}

Test(gpu_device, a_gpu_that_is_not_there) {
    gpu_need();
    rig r;
    rig_open(&r, &gw_job_synthetic, synthetic, 1, 1);
    gw_device_options options = {
        .type = &gw_job_synthetic, .job = r.job, .plan = &r.plan, .workers = 1, .boundary_words = 1};
    gw_device *device;
    gw_err err;
    cr_assert_not(gw_device_cuda_open(&options, &(gw_gpu){63, GW_PRECISION_FP32}, &device, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    cr_assert(strstr(err.text, "63"), "%s", err.text);
    cr_assert_null(device);
    rig_close(&r);
}
