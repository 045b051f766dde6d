/* Calls of CUDA that fail, each in turn: whatever fails is said, nothing is lost or added in part unnoticed,
 * and all memory is given back. */
#include "scratch.h"
#include "tests/gpu_fake/fake_cuda.h"
#include "tests/kernels/rig.h"

#include "core/base/log.h"
#include "core/state/chunk.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/driver.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device/group/group.h"
#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/gpt/gpt.h"
#include "kernels/jobs/synthetic/synthetic.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const settings[] = {"samples=60",     "hidden=9", "batch=48",
                                       "micro-batch=24", "epochs=2", NULL};

/* A job on a processor's rig, which opens its options; the GPU's device is the test's. */
typedef struct bench {
    rig r;
    gw_device_options options;
    gw_device *device;
    gw_lane *lane;
} bench;

static unsigned losses; /* times that the device was said to be lost */
static gw_err last_loss;

static void note_loss(void *context, const gw_err *why) {
    cr_assert_eq(context, &losses);
    losses++;
    last_loss = *why;
}

static void prepare_job(bench *b, const gw_job_type *type, const char *const *list) {
    rig_open(&b->r, type, list, 1, 1);
    b->options = (gw_device_options){.type = type,
                                     .job = b->r.job,
                                     .plan = &b->r.plan,
                                     .workers = 1,
                                     .boundary_words = 3,
                                     .lost = note_loss,
                                     .context = &losses};
}

static void prepare(bench *b) {
    prepare_job(b, &gw_job_digits, settings);
}

static bool open_device(bench *b, gw_err *err) {
    b->lane = NULL;
    return gw_device_cuda_open(&b->options, &(gw_gpu){0, GW_PRECISION_BF16}, &b->device, err) &&
           b->device->ops->lane_open(b->device, &b->lane, err);
}

static void close_device(bench *b) {
    if (b->device == NULL) return;
    b->device->ops->lane_close(b->device, b->lane);
    b->device->ops->close(b->device);
    b->device = NULL;
}

static bool init(bench *b, gw_err *err) {
    gw_state_print part;
    return b->device->ops->unit(b->device, GW_UNIT_INIT, 0, &part, err);
}

/* The device is open, and its state is the job's first. */
static const gw_device_ops *begin(bench *b) {
    gw_err err;
    prepare(b);
    cr_assert(open_device(b, &err), "%s", err.text);
    cr_assert(init(b, &err), "%s", err.text);
    return b->device->ops;
}

/* Returns how many calls there were to fail. */
static unsigned fail_opening(bench *b) {
    gw_err err;
    unsigned failed = 0;
    for (unsigned call = 1;; call++) {
        fake_fail(call, cudaErrorMemoryAllocation);
        bool opened = open_device(b, &err);
        fake_fail(0, cudaSuccess);
        close_device(b);
        cr_assert_eq(fake_leaked(), 0, "call %u", call);
        if (opened) break;
        failed++;
        cr_assert_eq(err.code, GW_E_NOMEM, "call %u: %s", call, err.text);
        cr_assert(strstr(err.text, "GPU 0"), "call %u: %s", call, err.text);
    }
    return failed;
}

Test(gpu_failures, whatever_fails_while_opening_nothing_is_lost) {
    bench b;
    prepare(&b);
    cr_assert_gt(fail_opening(&b), 10);
    rig_close(&b.r);
}

/* The remedy depends on which memory is full. */
Test(gpu_failures, full_memory_of_the_host_is_not_called_the_gpus) {
    gw_err err;
    void *memory;
    fake_fail(1, cudaErrorMemoryAllocation);
    cr_assert_not(gw_cuda_pin(1, 3 << 20, &memory, &err));
    cr_expect_eq(err.code, GW_E_NOMEM);
    cr_expect_not_null(strstr(err.text, "GPU 1: cudaHostAlloc of 3 MiB of host memory: "), "%s", err.text);
    cr_expect_not_null(strstr(err.text, "this machine's memory, or the limit"), "%s", err.text);
    cr_expect_null(strstr(err.text, "less of the GPU's memory"), "%s", err.text);
    cr_expect_eq(cudaGetLastError(), cudaSuccess);
    fake_fail(1, cudaErrorMemoryAllocation);
    cr_assert_not(gw_cuda_allocate(1, 3 << 20, &memory, &err));
    cr_expect_not_null(strstr(err.text, "less of the GPU's memory"), "%s", err.text);
    fake_fail(1, cudaErrorDevicesUnavailable);
    cr_assert_not(gw_cuda_pin(1, 3 << 20, &memory, &err));
    cr_expect_not_null(strstr(err.text, "compute mode"), "%s", err.text);
}

/* Who will sum with others has the memory for it before the first step. */
Test(gpu_failures, memory_for_sums_with_others_is_there_from_the_start) {
    static const gw_reduce modes[] = {0, GW_REDUCE_EXACT, GW_REDUCE_FAST};
    uint64_t alone = 0;
    for (uint64_t known = 0; known < 3; known++) {
        for (uint64_t mode = 1; mode < 3; mode++) {
            bench b;
            gw_err err;
            gw_segments send, receive;
            prepare(&b);
            b.options.reduce = modes[known];
            cr_assert(open_device(&b, &err), "%s", err.text);
            if (known == 0) alone = b.device->memory_bytes;
            cr_expect_eq(b.device->memory_bytes, alone + known * b.device->layout->words * sizeof(int64_t));
            size_t before = fake_leaked();
            cr_assert(b.device->ops->reduce_begin(b.device, modes[mode], GW_PLACE_GPU, &send, &receive, &err),
                      "%s", err.text);
            cr_expect_eq(fake_leaked() == before, known >= mode, "%lu, then %lu", known, mode);
            close_device(&b);
            rig_close(&b.r);
        }
    }
}

/* Every call of a shard fails once: the shard is not held, and if it was added in part, the accumulator says
 * so; after emptying it all is well. */
Test(gpu_failures, a_shard_that_fails_is_not_held) {
    bench b;
    gw_err err;
    gw_held held;
    gw_segments none;
    gw_verdict verdict;
    const gw_device_ops *ops = begin(&b);
    unsigned failed = 0, poisoned = 0;
    for (unsigned call = 1;; call++) {
        ops->step_begin(b.device, 0);
        fake_fail(call, cudaErrorLaunchOutOfResources);
        gw_contributed first = ops->contribute(b.device, b.lane, 0, 0, &err);
        fake_fail(0, cudaSuccess);
        if (first == GW_SHARD_HELD) break;
        failed++;
        cr_assert_eq(first, GW_SHARD_FAILED);
        cr_assert(err.code == GW_E_IO, "call %u: %s", call, err.text);
        ops->held(b.device, &held, NULL);
        cr_assert_eq(held.held, 0);
        cr_assert_eq(held.running, 0);
        poisoned += held.poisoned;
        ops->zero(b.device);
        for (uint32_t shard = 0; shard < 2; shard++)
            cr_assert_eq(ops->contribute(b.device, b.lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
        cr_assert(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err), "%s",
                  err.text);
        cr_assert(ops->reduce_end(b.device, &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0, "call %u", call);
    }
    cr_assert_gt(failed, 10);
    cr_assert_gt(poisoned, 3);
    cr_assert_lt(poisoned, failed);
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* A GPU that is lost in the middle: every later call fails, says why, and the device can still be closed. */
Test(gpu_failures, a_lost_gpu_is_named) {
    bench b;
    gw_err err;
    gw_segments none;
    gw_state_print print;
    uint64_t part;
    uint8_t byte;
    const gw_device_ops *ops = begin(&b);
    ops->step_begin(b.device, 0);
    cr_assert_eq(ops->contribute(b.device, b.lane, 0, 0, &err), GW_SHARD_HELD, "%s", err.text);
    fake_fail(5, cudaErrorECCUncorrectable);
    cr_assert_eq(ops->contribute(b.device, b.lane, 0, 1, &err), GW_SHARD_FAILED);
    cr_assert(strstr(err.text, "GPU 0") && strstr(err.text, "memory is damaged"), "%s", err.text);
    cr_assert_eq(losses, 1); /* it broke down by itself: no shard's fault */
    cr_assert(strstr(last_loss.text, "GPU 0") && strstr(last_loss.text, "memory is damaged"), "%s",
              last_loss.text);
    ops->zero(b.device);
    cr_assert_not(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err));
    cr_assert_not(ops->unit(b.device, GW_UNIT_HASH, 0, &print, &err));
    cr_assert_not(ops->state_read(b.device, 0, 1, &byte, &err));
    cr_assert_not(ops->probe(b.device, b.lane, 0, 0, &part, &err));
    cr_assert(strstr(err.text, "GPU 0"), "%s", err.text);
    cr_assert_eq(losses, 1); /* said once */
    close_device(&b);
    fake_fail(0, cudaSuccess);
    rig_close(&b.r);
}

/* The commonest reason for this error is no fault of the GPU. */
Test(gpu_failures, a_gpu_that_another_process_has_for_itself_is_not_called_lost) {
    bench b;
    gw_err err;
    prepare(&b);
    fake_fail(1, cudaErrorDevicesUnavailable);
    cr_assert_not(open_device(&b, &err));
    fake_fail(0, cudaSuccess);
    cr_assert(strstr(err.text, "GPU 0") && strstr(err.text, "compute mode"), "%s", err.text);
    cr_assert_null(strstr(err.text, "lost"), "%s", err.text);
    close_device(&b);
    rig_close(&b.r);
}

/* A kernel that faults takes the process with it, whoever started it: while a shard is computed that counts
 * against the shard, which would take one GPU after another; later it is only said. What does not stay is no
 * loss. */
Test(gpu_failures, a_fault_inside_a_shard_is_the_shards) {
    bench b;
    gw_err err;
    gw_segments none;
    gw_verdict verdict;
    const gw_device_ops *ops = begin(&b);
    ops->step_begin(b.device, 0);
    fake_fail(5, cudaErrorLaunchOutOfResources);
    cr_assert_eq(ops->contribute(b.device, b.lane, 0, 0, &err), GW_SHARD_FAILED);
    ops->zero(b.device);
    fake_fail(5, cudaErrorIllegalAddress);
    cr_assert_eq(ops->contribute(b.device, b.lane, 0, 1, &err), GW_SHARD_FAILED);
    cr_assert(strstr(err.text, "cannot use the GPU any more"), "%s", err.text);
    cr_assert_eq(losses, 0);
    ops->zero(b.device);
    cr_assert_not(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err));
    cr_assert_eq(losses, 1);
    cr_assert(strstr(last_loss.text, "GPU 0: preparing a sum"), "%s", last_loss.text);
    cr_assert_not(ops->reduce_end(b.device, &verdict, &err));
    cr_assert_eq(losses, 1);
    close_device(&b);
    fake_fail(0, cudaSuccess);
    rig_close(&b.r);
}

/* What a reader asks for at once comes in pieces: one piece comes from the GPU while the one before it is copied on. Each
 * piece is a copy, a mark behind it and a wait for the mark. */
Test(gpu_failures, a_chunk_of_the_state_comes_in_pieces) {
    static const char *const wide[] = {"samples=60",     "hidden=900,900", "batch=48",
                                       "micro-batch=24", "epochs=2",       NULL};
    enum { MANY = 10000 };
    bench b;
    gw_err err;
    char *chunk = malloc(GW_CHUNK_BYTES);
    prepare_job(&b, &gw_job_digits, wide);
    cr_assert(open_device(&b, &err) && init(&b, &err), "%s", err.text);
    fake_fail(MANY, cudaErrorLaunchOutOfResources);
    cr_assert(b.device->ops->state_read(b.device, 0, GW_CHUNK_BYTES, chunk, &err), "%s", err.text);
    unsigned calls = MANY - fake_countdown();
    fake_fail(0, cudaSuccess);
    cr_expect_geq(calls, 3 * 8, "%u", calls);
    free(chunk);
    close_device(&b);
    rig_close(&b.r);
}

/* Code that the driver made is a build of the driver's, not all that know the same CUDA. */
Test(gpu_failures, code_that_the_driver_compiled_is_its_builds) {
    char driver[40], code[60];
    for (int compiled = 0; compiled < 2; compiled++) {
        bench b;
        gw_err err;
        fake_compiled(compiled);
        prepare(&b);
        cr_assert(open_device(&b, &err), "%s", err.text);
        gw_cuda_driver_build(driver, sizeof driver);
        snprintf(code, sizeof code, compiled ? " code=ptx/%s " : " code=sm_90 ", driver);
        cr_expect_not_null(strstr(b.device->class_text, code), "%s: %s", code, b.device->class_text);
        close_device(&b);
        rig_close(&b.r);
    }
}

/* Whatever of a shard finds the memory full (another process may have taken it): the peer is to leave, which
 * is told before the shard fails, with what to do, and nothing is held against the shard. */
Test(gpu_failures, memory_that_runs_out_inside_a_shard_is_not_the_shards) {
    unsigned failed = 0, products = 0;
    for (gw_contributed done = GW_SHARD_FAILED; done != GW_SHARD_HELD; failed++) {
        bench b;
        gw_err err;
        const gw_device_ops *ops = begin(&b);
        ops->step_begin(b.device, 0);
        losses = 0;
        fake_fail(failed + 1, cudaErrorMemoryAllocation);
        done = ops->contribute(b.device, b.lane, 0, 0, &err);
        fake_fail(0, cudaSuccess);
        cr_assert_eq(losses, done == GW_SHARD_FAILED, "call %u", failed + 1);
        if (done == GW_SHARD_FAILED) {
            cr_assert_eq(err.code, GW_E_NOMEM, "call %u: %s", failed + 1, err.text);
            cr_assert(strstr(last_loss.text, "GPU 0") && strstr(last_loss.text, "a smaller micro-batch"),
                      "call %u: %s", failed + 1, last_loss.text);
            products += strstr(last_loss.text, "cublasLtMatmul") != NULL;
        }
        close_device(&b);
        rig_close(&b.r);
    }
    cr_assert_gt(failed, 10);
    cr_assert_gt(products, 2);
}

/* What a kernel cannot have done is a loss at once; what it may have, after its shard. */
Test(gpu_failures, whatever_stays_is_a_loss) {
    static const struct {
        cudaError_t status;
        bool kernels;
    } all[] = {{cudaErrorECCUncorrectable, false},
               {cudaErrorMpsClientTerminated, false},
               {cudaErrorIllegalAddress, true},
               {cudaErrorTensorMemoryLeak, true}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bench b;
        gw_err err;
        gw_segments none;
        const int status = (int)all[i].status;
        losses = 0;
        const gw_device_ops *ops = begin(&b);
        ops->step_begin(b.device, 0);
        fake_fail(5, all[i].status);
        cr_assert_eq(ops->contribute(b.device, b.lane, 0, 0, &err), GW_SHARD_FAILED);
        cr_assert_eq(losses, all[i].kernels ? 0 : 1, "error %d", status);
        ops->zero(b.device);
        cr_assert_not(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err),
                      "error %d", status);
        cr_assert_eq(losses, 1, "error %d", status);
        close_device(&b);
        fake_fail(0, cudaSuccess);
        rig_close(&b.r);
    }
}

/* Wherever the GPU is found to be lost, between shards, its owner hears of it at once. */
Test(gpu_failures, a_loss_is_told_wherever_it_shows) {
    static const char *const places[] = {"preparing a sum",   "checking a sum",
                                         "hashing the state", "reading the state",
                                         "writing the state", "computing a shard once more"};
    for (uint32_t place = 0; place < sizeof places / sizeof places[0]; place++) {
        bench b;
        gw_err err;
        gw_segments none;
        gw_verdict verdict;
        gw_state_print print;
        uint64_t part;
        uint8_t byte = 0;
        losses = 0;
        const gw_device_ops *ops = begin(&b);
        ops->step_begin(b.device, 0);
        cr_assert_eq(ops->contribute(b.device, b.lane, 0, 0, &err), GW_SHARD_HELD, "%s", err.text);
        if (place == 1)
            cr_assert(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err));
        fake_fail(1, cudaErrorECCUncorrectable);
        bool good = place == 0
                        ? ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err)
                    : place == 1 ? ops->reduce_end(b.device, &verdict, &err)
                    : place == 2 ? ops->unit(b.device, GW_UNIT_HASH, 0, &print, &err)
                    : place == 3 ? ops->state_read(b.device, 0, 1, &byte, &err)
                    : place == 4 ? ops->state_write(b.device, 0, 1, &byte, &err)
                                 : ops->probe(b.device, b.lane, 0, 1, &part, &err);
        cr_assert_not(good);
        cr_assert_eq(losses, 1, "%s", places[place]);
        cr_assert(strstr(last_loss.text, places[place]), "%s: %s", places[place], last_loss.text);
        close_device(&b);
        fake_fail(0, cudaSuccess);
        rig_close(&b.r);
    }
}

static bool open_gpu(void *context, uint32_t part, const gw_device_options *options, gw_device **device,
                     gw_err *err) {
    (void)context;
    return gw_device_cuda_open(options, &(gw_gpu){(int)part, GW_PRECISION_BF16}, device, err);
}

/* Its parts' sums are added before there are others to sum with. */
Test(gpu_failures, two_gpus_as_one_device_take_memory_for_sums_at_the_start) {
    bench b;
    gw_err err;
    gw_segments send, receive;
    prepare(&b);
    b.lane = NULL;
    cr_assert(gw_device_group_open(&b.options, 2, open_gpu, NULL, &b.device, &err), "%s", err.text);
    size_t before = fake_bytes();
    b.device->ops->step_begin(b.device, 0);
    cr_assert(b.device->ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_GPU, &send, &receive, &err),
              "%s", err.text);
    cr_assert_eq(fake_bytes(), before);
    close_device(&b);
    rig_close(&b.r);
}

/* Two GPUs as one device: whatever fails while it opens, nothing is lost. A loss that both find is told once.
 */
Test(gpu_failures, two_gpus_as_one_device) {
    bench b;
    gw_err err;
    gw_segments none;
    prepare(&b);
    b.lane = NULL;
    unsigned failed = 0, on_second = 0;
    for (unsigned call = 1;; call++, failed++) {
        fake_fail(call, cudaErrorMemoryAllocation);
        bool opened = gw_device_group_open(&b.options, 2, open_gpu, NULL, &b.device, &err);
        fake_fail(0, cudaSuccess);
        if (opened) break;
        cr_assert_eq(fake_leaked(), 0, "call %u", call);
        on_second += strstr(err.text, "GPU 1") != NULL;
    }
    cr_assert_gt(failed, 20);
    cr_assert_gt(on_second, 10);
    losses = 0;
    b.device->ops->step_begin(b.device, 0);
    fake_fail(1, cudaErrorECCUncorrectable);
    cr_assert_not(b.device->ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err));
    cr_assert_eq(losses, 1);
    cr_assert(strstr(last_loss.text, "GPU "), "%s", last_loss.text);
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* Reductions, applies and copies that fail say so; none is taken for done. */
Test(gpu_failures, steps_that_fail_are_not_done) {
    bench b;
    gw_err err;
    gw_segments send, receive;
    gw_verdict verdict;
    const gw_device_ops *ops = begin(&b);
    static const gw_reduce modes[] = {GW_REDUCE_ALONE, GW_REDUCE_EXACT, GW_REDUCE_FAST};
    for (int m = 0; m < 3; m++) {
        ops->step_begin(b.device, 0);
        for (uint32_t shard = 0; shard < 2; shard++)
            cr_assert_eq(ops->contribute(b.device, b.lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
        unsigned failed = 0;
        bool done = false;
        for (unsigned call = 1; !done; call++) {
            fake_fail(call, cudaErrorLaunchOutOfResources);
            done = ops->reduce_begin(b.device, modes[m], GW_PLACE_HOST, &send, &receive, &err);
            for (uint32_t s = 0; done && s < send.count; s++)
                memcpy(receive.list[s].data, send.list[s].data,
                       send.list[s].count * (send.list[s].is_float ? 4 : 8));
            done = done && ops->reduce_end(b.device, &verdict, &err);
            fake_fail(0, cudaSuccess);
            failed += !done;
        }
        cr_assert_gt(failed, 5);
        cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0, "mode %d", modes[m]);
    }
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* A reduction before any shard clears the accumulator; if it fails behind that, shards that come later must
 * not be cleared with it. */
Test(gpu_failures, shards_after_a_failed_reduction_stay) {
    bench b;
    gw_err err;
    gw_segments none;
    gw_verdict verdict;
    const gw_device_ops *ops = begin(&b);
    unsigned failed = 0;
    for (unsigned call = 1;; call++) {
        ops->step_begin(b.device, 0);
        fake_fail(call, cudaErrorLaunchOutOfResources);
        bool begun = ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err);
        fake_fail(0, cudaSuccess);
        if (begun) break;
        failed++;
        for (uint32_t shard = 0; shard < 2; shard++)
            cr_assert_eq(ops->contribute(b.device, b.lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
        cr_assert(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err), "%s",
                  err.text);
        cr_assert(ops->reduce_end(b.device, &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0, "call %u", call);
    }
    cr_assert_gt(failed, 5);
    close_device(&b);
    rig_close(&b.r);
}

/* A bit that flips in what this peer gives to the sum is told from one that flips on the way or with others.
 */
static void flip(gw_place place) {
    bench b;
    gw_err err;
    gw_segments send, receive;
    gw_verdict verdict;
    const gw_device_ops *ops = begin(&b);
    for (int here = 0; here < 2; here++) {
        ops->step_begin(b.device, 0);
        for (uint32_t shard = 0; shard < 2; shard++)
            cr_assert_eq(ops->contribute(b.device, b.lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
        cr_assert(ops->reduce_begin(b.device, GW_REDUCE_EXACT, place, &send, &receive, &err), "%s", err.text);
        int64_t *mine = send.list[1].data, *got = receive.list[1].data;
        if (here) mine[GW_EXACT_HEADER + 5] ^= 1 << 9;
        for (uint32_t s = 0; s < send.count; s++)
            memcpy(receive.list[s].data, send.list[s].data, send.list[s].count * sizeof(int64_t));
        if (!here) got[GW_EXACT_HEADER + 5] ^= 1 << 9;
        cr_assert(ops->reduce_end(b.device, &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok);
        cr_assert_not(verdict.fingerprint_ok);
        cr_assert_eq(verdict.bucket, 1);
        cr_assert_eq(verdict.own_wrong, here == 1);
    }
    close_device(&b);
    rig_close(&b.r);
}

Test(gpu_failures, a_flipped_bit_is_found_where_it_is) {
    flip(GW_PLACE_GPU);
}

/* Sums that go through host memory are copies of what the GPU has, which is right. */
Test(gpu_failures, a_bit_that_flips_in_a_copy_of_the_sum_is_this_peers) {
    flip(GW_PLACE_HOST);
}

/* Float sums have no fingerprint that would tell when they are there. */
Test(gpu_failures, before_floats_are_summed_they_are_found_to_be_what_was_added_up) {
    bench b;
    gw_err err;
    gw_segments send, receive;
    const gw_device_ops *ops = begin(&b);
    ops->step_begin(b.device, 0);
    for (uint32_t shard = 0; shard < 2; shard++)
        cr_assert_eq(ops->contribute(b.device, b.lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
    for (int wrong = 0; wrong < 2; wrong++) {
        cr_assert(ops->reduce_begin(b.device, GW_REDUCE_EXACT, GW_PLACE_GPU, &send, &receive, &err), "%s",
                  err.text);
        if (wrong) ((int64_t *)send.list[1].data)[GW_EXACT_HEADER + 5] ^= 1 << 9;
        for (gw_place place = GW_PLACE_HOST; place <= GW_PLACE_GPU; place++) {
            bool begun = ops->reduce_begin(b.device, GW_REDUCE_FAST, place, &send, &receive, &err);
            cr_assert_eq(begun, !wrong);
            cr_assert(begun || err.code == GW_E_CORRUPT, "%s", err.text);
        }
    }
    close_device(&b);
    rig_close(&b.r);
}

static const char *const model[] = {"data=",     "layers=1",  "heads=1",         "channels=16",
                                    "context=8", "vocab=128", "batch-tokens=16", "micro-batch=1",
                                    "updates=2", NULL};

/* Opens the job with heads of 96 channels on a GPU whose blocks have so much shared memory. */
static bool open_wide_heads(const char *data, size_t shared, gw_precision precision, gw_err *err) {
    const char *const wide[] = {data,        "layers=1",        "heads=1",       "channels=96", "context=8",
                                "vocab=128", "batch-tokens=16", "micro-batch=1", "updates=2",   NULL};
    bench b;
    prepare_job(&b, &gw_job_gpt, wide);
    fake_shared(shared);
    bool opened = gw_device_cuda_open(&b.options, &(gw_gpu){0, precision}, &b.device, err);
    b.lane = NULL;
    close_device(&b);
    rig_close(&b.r);
    return opened;
}

/* A GeForce, an L4 or an L40 has 99 KB: wide heads in float32 are refused before the first shard fails. */
Test(gpu_failures, heads_too_wide_for_the_gpu_are_refused_at_start, .init = scratch_open,
     .fini = scratch_close) {
    char data[300];
    gw_err err;
    snprintf(data, sizeof data, "data=%s", scratch_write("text", "the quick brown fox jumps over it", 33));
    cr_assert_not(open_wide_heads(data, 99 << 10, GW_PRECISION_TF32, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "GPU 0 has 99") && strstr(err.text, "bf16"), "%s", err.text);
    cr_assert(open_wide_heads(data, 99 << 10, GW_PRECISION_BF16, &err), "%s", err.text);
    cr_assert(open_wide_heads(data, 227 << 10, GW_PRECISION_TF32, &err), "%s", err.text);
}

/* Before anything but the job's own is taken; what is said to be needed is what is taken. */
static void check_estimate(const gw_job_type *type, const char *const *list, const char *advice) {
    bench b;
    gw_err err;
    for (uint64_t reduce = 0; reduce <= GW_REDUCE_FAST; reduce++) {
        if (reduce == GW_REDUCE_ALONE) continue; /* what 0 is about */
        prepare_job(&b, type, list);
        b.options.reduce = reduce;
        cr_assert(gw_device_cuda_open(&b.options, &(gw_gpu){0, GW_PRECISION_TF32}, &b.device, &err) &&
                      b.device->ops->lane_open(b.device, &b.lane, &err),
                  "%s", err.text);
        size_t taken = fake_bytes();
        close_device(&b);
        const size_t kept = (size_t)(reduce == 0 ? 128 : 512) << 20; /* for kernels and NCCL */
        fake_free(kept + taken - taken / 50);
        cr_assert_not(gw_device_cuda_open(&b.options, &(gw_gpu){0, GW_PRECISION_TF32}, &b.device, &err));
        cr_assert_eq(err.code, GW_E_LIMIT);
        cr_assert(strstr(err.text, "GiB of GPU 0's memory") && strstr(err.text, advice), "%s", err.text);
        cr_assert_eq(fake_leaked(), 0);
        fake_integrated(true); /* what is free there says little */
        cr_assert(gw_device_cuda_open(&b.options, &(gw_gpu){0, GW_PRECISION_TF32}, &b.device, &err), "%s",
                  err.text);
        b.lane = NULL;
        close_device(&b);
        fake_integrated(false);
        fake_free(kept + taken);
        cr_assert(gw_device_cuda_open(&b.options, &(gw_gpu){0, GW_PRECISION_TF32}, &b.device, &err), "%s",
                  err.text);
        b.lane = NULL;
        close_device(&b);
        fake_free((size_t)1 << 30);
        rig_close(&b.r);
    }
}

static void open_as(bench *b, uint32_t workers, gw_precision precision) {
    gw_err err;
    b->options.workers = workers;
    cr_assert(gw_device_cuda_open(&b->options, &(gw_gpu){0, precision}, &b->device, &err), "%s", err.text);
}

/* All that it takes once its workers have their lanes: also what the job keeps beside them, as weights in
 * another type. */
Test(gpu_failures, what_a_gpu_is_said_to_take_is_what_it_takes, .init = scratch_open, .fini = scratch_close) {
    enum { WORKERS = 3 };
    char data[300];
    const char *const wide[] = {data,         "layers=2",  "heads=4",          "channels=256",
                                "context=16", "vocab=256", "batch-tokens=256", "micro-batch=8",
                                "updates=2",  NULL};
    snprintf(data, sizeof data, "data=%s", scratch_write("text", "the quick brown fox jumps over it", 33));
    bench b;
    gw_err err;
    gw_lane *lanes[WORKERS];
    prepare_job(&b, &gw_job_gpt, wide);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        open_as(&b, WORKERS, bf16 ? GW_PRECISION_BF16 : GW_PRECISION_TF32);
        for (int i = 0; i < WORKERS; i++)
            cr_assert(b.device->ops->lane_open(b.device, &lanes[i], &err), "%s", err.text);
        size_t taken = fake_bytes(), said = b.device->memory_bytes;
        cr_expect(said >= taken - taken / 50 && said <= taken + taken / 50, "%zu of %zu", said, taken);
        for (int i = 1; i < WORKERS; i++) b.device->ops->lane_close(b.device, lanes[i]);
        b.lane = lanes[0];
        close_device(&b);
    }
    rig_close(&b.r);
}

Test(gpu_failures, what_will_not_fit_into_a_gpu_is_refused_at_start, .init = scratch_open,
     .fini = scratch_close) {
    static const char *const perceptron[] = {"samples=600", "hidden=900,900", "batch=600", "micro-batch=300",
                                             NULL};
    char data[300];
    const char *const wide[] = {data,         "layers=2",  "heads=4",          "channels=256",
                                "context=16", "vocab=256", "batch-tokens=256", "micro-batch=8",
                                "updates=2",  NULL};
    snprintf(data, sizeof data, "data=%s", scratch_write("text", "the quick brown fox jumps over it", 33));
    check_estimate(&gw_job_gpt, wide, "Take --recompute or a smaller --micro-batch");
    check_estimate(&gw_job_digits, perceptron, "Take ");
    static const char *const sums[] = {"shards=4", "shard-ms=0", "sum-elements=1000000",
                                       "state-bytes=2000000", NULL};
    check_estimate(&gw_job_synthetic, sums, "Take ");
}

/* A language model measures its sums on the GPU before its scalars: what fails of that is said. */
Test(gpu_failures, a_sum_that_cannot_be_measured, .init = scratch_open, .fini = scratch_close) {
    bench b;
    gw_err err;
    gw_segments none;
    gw_verdict verdict;
    gw_scalars scalars;
    char data[300];
    const char *list[sizeof model / sizeof model[0]];
    memcpy(list, model, sizeof model);
    snprintf(data, sizeof data, "data=%s", scratch_write("text", "the quick brown fox jumps over it", 33));
    list[0] = data;
    prepare_job(&b, &gw_job_gpt, list);
    cr_assert_gt(fail_opening(&b), 10);
    cr_assert(open_device(&b, &err), "%s", err.text);
    cr_assert(init(&b, &err), "%s", err.text);
    const gw_device_ops *ops = b.device->ops;
    ops->step_begin(b.device, 0);
    for (uint32_t shard = 0; shard < 2; shard++)
        cr_assert_eq(ops->contribute(b.device, b.lane, 0, shard, &err), GW_SHARD_HELD, "%s", err.text);
    cr_assert(ops->reduce_begin(b.device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, &err), "%s",
              err.text);
    cr_assert(ops->reduce_end(b.device, &verdict, &err), "%s", err.text);
    unsigned failed = 0;
    for (unsigned call = 1;; call++) {
        fake_fail(call, cudaErrorLaunchOutOfResources);
        bool done = ops->scalars(b.device, &scalars, &err);
        fake_fail(0, cudaSuccess);
        if (done) break;
        failed++;
        cr_assert(strstr(err.text, "step 0: measure: GPU 0"), "call %u: %s", call, err.text);
    }
    cr_assert_gt(failed, 16); /* one a parameter at least */
    char text[200];
    ops->report(b.device, text, sizeof text);
    cr_assert(strstr(text, "norm="), "%s", text);
    cr_assert_eq(losses, 0);
    fake_fail(1, cudaErrorECCUncorrectable);
    cr_assert_not(ops->scalars(b.device, &scalars, &err));
    cr_assert_eq(losses, 1);
    cr_assert(strstr(last_loss.text, "GPU 0: measuring a sum"), "%s", last_loss.text);
    close_device(&b);
    fake_fail(0, cudaSuccess);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* ---- graphs ---- */

static unsigned warnings; /* that were logged */

static void count_warnings(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    if (level >= GW_WARN && strstr(text, "as a graph, but kernel by kernel")) warnings++;
}

static const char *const recorded[] = {
    "data=",           "layers=1",      "heads=1",   "channels=16", "context=8", "vocab=128",
    "batch-tokens=64", "micro-batch=1", "updates=2", "graphs=on",   NULL};

static void prepare_kinds(bench *b, char data[300], const char *micro_batch) {
    static const char *list[sizeof recorded / sizeof recorded[0]];
    gw_err err;
    memcpy(list, recorded, sizeof recorded);
    snprintf(data, 300, "data=%s", scratch_write("text", "the quick brown fox jumps over it", 33));
    list[0] = data;
    list[7] = micro_batch;
    prepare_job(b, &gw_job_gpt, list);
    cr_assert(open_device(b, &err), "%s", err.text);
    cr_assert(init(b, &err), "%s", err.text);
    gw_log_set_sink(count_warnings, NULL);
    warnings = 0;
}

static void prepare_recorded(bench *b, char data[300]) {
    prepare_kinds(b, data, recorded[7]);
}

/* Opens the lane again and starts its first shard, number 0, piece by piece, as every first shard is started. */
static void renew_lane(bench *b) {
    gw_err err;
    b->device->ops->lane_close(b->device, b->lane);
    cr_assert(b->device->ops->lane_open(b->device, &b->lane, &err), "%s", err.text);
    b->device->ops->step_begin(b->device, 0);
    cr_assert_eq(b->device->ops->contribute(b->device, b->lane, 0, 0, &err), GW_SHARD_HELD, "%s", err.text);
}

static gw_contributed contribute(bench *b, uint32_t shard, unsigned call, gw_err *err) {
    fake_fail(call, cudaErrorLaunchOutOfResources);
    gw_contributed done = b->device->ops->contribute(b->device, b->lane, 0, shard, err);
    fake_fail(0, cudaSuccess);
    return done;
}

/* Every call of a shard that is to be recorded fails once: it is then started kernel by kernel, or fails. */
Test(gpu_failures, a_shard_that_cannot_be_recorded_is_started_piece_by_piece, .init = scratch_open,
     .fini = scratch_close) {
    bench b;
    gw_err err;
    char data[300];
    prepare_recorded(&b, data);
    renew_lane(&b);
    cr_assert_eq(contribute(&b, 1, 0, &err), GW_SHARD_HELD, "%s", err.text);
    uint64_t expected = b.device->ops->fingerprint(b.device, b.lane);
    cr_assert_eq(warnings, 0);
    unsigned failed = 0, fell_back = 0;
    for (unsigned call = 1;; call++) {
        renew_lane(&b);
        unsigned before = warnings;
        gw_contributed done = contribute(&b, 1, call, &err);
        if (done == GW_SHARD_HELD)
            cr_assert_eq(b.device->ops->fingerprint(b.device, b.lane), expected, "call %u", call);
        else
            cr_assert(strstr(err.text, "GPU 0"), "call %u: %s", call, err.text);
        cr_assert_leq(warnings, before + 1);
        fell_back += done == GW_SHARD_HELD && warnings > before;
        failed += done != GW_SHARD_HELD;
        if (done == GW_SHARD_HELD && warnings == before) break;
    }
    cr_assert_gt(fell_back, 60, "%u", fell_back); /* both ways that it adds, kernel by kernel */
    cr_assert_gt(failed, 4);
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* As on a GPU whose memory has no room for it left. */
Test(gpu_failures, graphs_that_cannot_be_started_are_given_up_and_cost_no_shard, .init = scratch_open,
     .fini = scratch_close) {
    bench b;
    gw_err err;
    char data[300];
    uint64_t expected[6];
    prepare_recorded(&b, data);
    for (int refused = 0; refused < 2; refused++) {
        renew_lane(&b);
        fake_refuse_graphs(refused);
        size_t before = fake_graphs();
        for (uint32_t shard = 1; shard <= 5; shard++) {
            cr_assert_eq(contribute(&b, shard, 0, &err), GW_SHARD_HELD, "%s", err.text);
            uint64_t fingerprint = b.device->ops->fingerprint(b.device, b.lane);
            if (refused) cr_assert_eq(fingerprint, expected[shard]);
            expected[shard] = fingerprint;
        }
        cr_assert_eq(fake_graphs() - before, refused ? 0 : 5);
        cr_assert_eq(warnings, refused ? 3 : 0);
    }
    fake_refuse_graphs(false);
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* What could not be recorded is tried again, with other shards, but not for ever. */
Test(gpu_failures, recording_is_given_up_after_some_tries, .init = scratch_open, .fini = scratch_close) {
    bench b;
    gw_err err;
    char data[300];
    unsigned call = 0;
    prepare_recorded(&b, data);
    for (size_t before = fake_graphs(); warnings == 0;) { /* until the call that begins to record is found */
        renew_lane(&b);
        (void)contribute(&b, 1, ++call, &err);
        cr_assert_leq(fake_graphs(), before + call);
    }
    for (unsigned tries = 1; tries <= 5; tries++) {
        if (tries == 1) renew_lane(&b), warnings = 0;
        size_t before = fake_graphs();
        cr_assert_eq(contribute(&b, tries, call, &err), tries <= 3 ? GW_SHARD_HELD : GW_SHARD_FAILED);
        cr_assert_eq(warnings, tries <= 3 ? tries : 3);
        cr_assert_eq(fake_graphs(), before);
    }
    renew_lane(&b); /* a lane of its own tries for itself */
    size_t before = fake_graphs();
    cr_assert_eq(contribute(&b, 1, 0, &err), GW_SHARD_HELD, "%s", err.text);
    cr_assert_eq(fake_graphs(), before + 1);
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}

/* The step begins once more, shard 0 is a graph, and then comes shard 2. */
static gw_contributed contribute_after_another(bench *b, unsigned call, gw_err *err) {
    size_t before = fake_graphs();
    b->device->ops->step_begin(b->device, 0);
    cr_assert_eq(contribute(b, 0, 0, err), GW_SHARD_HELD, "%s", err->text);
    cr_assert_eq(fake_graphs(), before + 1);
    return contribute(b, 2, call, err);
}

/* The last of the three shards is some sequences short, so that it is a graph of another kind. */
Test(gpu_failures, a_graph_that_works_gives_another_no_more_tries, .init = scratch_open,
     .fini = scratch_close) {
    bench b;
    gw_err err;
    char data[300];
    unsigned call = 0;
    prepare_kinds(&b, data, "micro-batch=3");
    while (warnings == 0) { /* until the call that begins to record is found */
        renew_lane(&b);
        cr_assert_eq(contribute(&b, 2, 0, &err), GW_SHARD_HELD, "%s", err.text);
        (void)contribute_after_another(&b, ++call, &err);
        cr_assert_leq(call, 100);
    }
    for (unsigned tries = 2; tries <= 6; tries++) {
        size_t before = fake_graphs();
        gw_contributed done = contribute_after_another(&b, call, &err);
        cr_assert_eq(done, tries <= 3 ? GW_SHARD_HELD : GW_SHARD_FAILED, "try %u: %s", tries, err.text);
        cr_assert_eq(warnings, tries <= 3 ? tries : 3, "try %u", tries);
        cr_assert_eq(fake_graphs(), before + 1);
    }
    close_device(&b);
    cr_assert_eq(fake_leaked(), 0);
    rig_close(&b.r);
}
