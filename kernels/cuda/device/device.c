/* A GPU as a compute device (kernels/device/device.h): state, accumulator and sums are in its memory. */
#include "kernels/cuda/device/device.h"

#include "core/base/assert.h"
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/device/inside.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/driver.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device/class.h"
#include "kernels/device/common.h"
#include "kernels/device/sums.h"
#include "kernels/host/fpmode.h"
#include "kernels/host/need.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This number rises when the program's own kernels give other bits than before. */
enum { KERNEL_SET = 2 };

enum { MEASURED_BYTES = GW_GPU_MEASURED * sizeof(int64_t) };

bool gw_cuda_device_use(const gw_cuda_device *d, gw_err *err) {
    return gw_cuda_try(d->gpu.ordinal, cudaSetDevice(d->gpu.ordinal), err, "cudaSetDevice");
}

/* Losses. CUDA returns the error of a GPU that can no longer be used from every later call, whichever code
 * received it first: this program's kernels, cuBLASLt or the job. */

/* A kernel fault may be the fault of a shard while one is being computed; the shard then fails and is counted
 * against. A breakdown of the GPU itself is not. */
static bool shard_may_be_cause(const gw_cuda_device *d, cudaError_t status) {
    gw_held held;
    gw_ledger_held(d->device.ledger, &held, NULL);
    return held.running > 0 && !gw_cuda_broken(status);
}

/* Calls the options' callback at the first loss. Returns false. */
static bool report_loss(gw_cuda_device *d, const gw_err *why) {
    pthread_mutex_lock(&d->lost_lock);
    if (!d->lost && d->lost_callback != NULL) d->lost_callback(d->lost_context, why);
    d->lost = true;
    pthread_mutex_unlock(&d->lost_lock);
    return false;
}

bool gw_cuda_device_failed(gw_cuda_device *d, const char *doing) {
    gw_err why;
    cudaError_t status = cudaSetDevice(d->gpu.ordinal);
    if (status == cudaSuccess) status = cudaStreamQuery(d->control);
    (void)cudaGetLastError(); /* querying a busy stream counts as an error, which is cleared here */
    if (!gw_cuda_sticky(status) || shard_may_be_cause(d, status)) return false;
    (void)gw_cuda_try(d->gpu.ordinal, status, &why, "%s", doing);
    return report_loss(d, &why);
}

bool gw_cuda_device_shard_failed(gw_cuda_device *d, const gw_err *why) {
    return why->code == GW_E_NOMEM ? report_loss(d, why) : gw_cuda_device_failed(d, "computing a shard");
}

/* Memory. */

/* On an integrated GPU the amount of free memory means little, since the kernel's caches count as used. */
static bool is_integrated(const gw_cuda_device *d) {
    int integrated = 0;
    return cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, d->gpu.ordinal) == cudaSuccess &&
           integrated != 0;
}

/* Bytes of the GPU's memory that are free; 0: unknown, or not meaningful. */
static uint64_t free_memory(const gw_cuda_device *d) {
    size_t free_bytes, all_bytes;
    if (is_integrated(d)) return 0;
    return cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess ? free_bytes : 0;
}

/* Bytes of the GPU's memory that a worker's lane takes, with its inputs. The job's side must be open. */
static uint64_t lane_memory(const gw_cuda_device *d) {
    const gw_job_gpu *gpu = d->type->gpu;
    return 2 * d->input_bytes + (gpu->lane_bytes != NULL ? gpu->lane_bytes(d->job, d->side) : 0);
}

/* The reserve for memory whose amount is not known before a job runs: kernels of this program and of
 * cuBLASLt, which are loaded on first use, graphs, and NCCL's buffers, some 20 MiB for each channel and
 * connection. */
enum { KERNELS_MIB = 128, NCCL_MIB = 384 };

static uint64_t reserve(const gw_device_options *options) {
    return (uint64_t)(options->reduce != 0 ? KERNELS_MIB + NCCL_MIB : KERNELS_MIB) << 20;
}

/* Whether the rest of the device fits into free memory. If not, *err says how much is needed, for what, and
 * what needs less. The job's side must be open: the memory that it has taken is no longer free. */
static bool check_memory(const gw_cuda_device *d, const gw_device_options *options, gw_err *err) {
    size_t free_bytes, all_bytes;
    char of[40], has[100];
    if (is_integrated(d)) return true;
    if (!gw_cuda_try(d->gpu.ordinal, cudaMemGetInfo(&free_bytes, &all_bytes), err, "cudaMemGetInfo"))
        return false;
    const uint64_t kept = reserve(options);
    const gw_need need = {.lane_bytes = lane_memory(d),
                          .workers = options->workers,
                          .rest_bytes = gw_cuda_state_bytes(&d->layout) + d->layout.words * sizeof(int64_t) +
                                        gw_cuda_sums_need(&d->layout, options->reduce),
                          .most_bytes = free_bytes > kept ? free_bytes - kept : 0,
                          .lighter = options->plan->lighter,
                          .smaller = options->plan->smaller};
    snprintf(of, sizeof of, "GPU %d's memory", d->gpu.ordinal);
    snprintf(has, sizeof has, "free of its %.1f GiB, without %.1f GiB that libraries take, are",
             (double)all_bytes * 0x1p-30, (double)kept * 0x1p-30);
    return gw_need_check(&need, of, has, err);
}

/* Steps and sums. */

static void begin_step(gw_device *device, uint64_t step) {
    gw_cuda_sums_release(gw_cuda_device_of(device)->sums);
    gw_device_begin(device, step);
}

static void zero(gw_device *device) {
    gw_cuda_sums_release(gw_cuda_device_of(device)->sums);
    gw_device_empty(device);
}

static void count_memory(gw_cuda_device *d) {
    d->device.memory_bytes = d->image_bytes + gw_cuda_accumulator_bytes(d->accumulator) +
                             gw_cuda_sums_bytes(d->sums) + d->side_bytes + d->lanes_bytes;
}

static bool begin_reduce(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    d->result.ready = false;
    return (gw_cuda_device_use(d, err) && gw_cuda_sums_begin(d->sums, mode, place, send, receive, err)) ||
           gw_cuda_device_failed(d, "preparing a sum");
}

static bool end_reduce(gw_device *device, gw_verdict *verdict, gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    if (!gw_cuda_device_use(d, err) || !gw_cuda_sums_end(d->sums, verdict, err))
        return gw_cuda_device_failed(d, "checking a sum");
    count_memory(d);
    return true;
}

static void read_boundary(gw_device *device, int64_t *words) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    GW_ASSERT(gw_cuda_sums_words(d->sums, d->result.step) != NULL);
    memcpy(words, gw_cuda_sums_boundary(d->sums), d->layout.boundary_words * sizeof *words);
}

/* Runs the job's measure, which reduces sums that only the GPU can read to the words that its scalars need.
 */
static bool measure(gw_cuda_device *d, gw_err *err) {
    const gw_job_gpu *gpu = d->type->gpu;
    const gw_sums sums = {d->sum, d->layout.tensors, NULL};
    const uint64_t step = d->result.step;
    if (gpu->measure == NULL) return true;
    bool good = gw_cuda_device_use(d, err) &&
                gw_cuda_try(d->gpu.ordinal, cudaMemsetAsync(d->measured, 0, MEASURED_BYTES, d->control), err,
                            "cudaMemset") &&
                gpu->measure(d->job, d->side, step, &sums, d->measured, d->control, err) &&
                gw_cuda_try(d->gpu.ordinal,
                            cudaMemcpyAsync(d->measured_host, d->measured, MEASURED_BYTES,
                                            cudaMemcpyDeviceToHost, d->control),
                            err, "copying the measured words");
    gw_err waiting; /* waits also after a failure: the work that was started reads the sum */
    if (!gw_cuda_try(d->gpu.ordinal, cudaStreamSynchronize(d->control), &waiting, "measuring the sum") &&
        good) {
        *err = waiting;
        good = false;
    }
    return good || gw_fail_in(err, "job %s: step %llu: measure", d->type->name, (unsigned long long)step);
}

static bool run_scalars(gw_device *device, gw_scalars *scalars, gw_err *err) {
    gw_cuda_device *d = gw_cuda_device_of(device);
    const int64_t *words = gw_cuda_sums_words(d->sums, d->result.step);
    GW_ASSERT(words != NULL); /* only a checked sum is applied */
    for (uint32_t t = 0; t < d->layout.tensor_count; t++) {
        if (!gw_is_summed(&d->layout, t)) continue;
        d->sum[t] = words + gw_sum_word(&d->layout, t);
        d->sum_small[t] = gw_cuda_sums_small(d->sums, t);
    }
    if (!measure(d, err)) return gw_cuda_device_failed(d, "measuring a sum");
    return gw_device_scalars(device, scalars, err);
}

static void close_cuda(gw_device *device) {
    if (device == NULL) return;
    gw_cuda_device *d = gw_cuda_device_of(device);
    (void)cudaSetDevice(d->gpu.ordinal); /* fails on a lost GPU, which has nothing to free */
    gw_cuda_sums_close(d->sums);
    gw_cuda_accumulator_close(d->accumulator);
    gw_cuda_state_close(d);
    gw_cuda_free(d->gpu.ordinal, d->measured);
    gw_cuda_unpin(d->gpu.ordinal, d->measured_host);
    if (d->side != NULL) d->type->gpu->close(d->job, d->side);
    if (d->control != NULL) (void)cudaStreamDestroy(d->control);
    pthread_mutex_destroy(&d->transfer_lock);
    pthread_mutex_destroy(&d->lost_lock);
    free(d->sum);
    free(d->sum_small);
    gw_layout_free(&d->layout);
    free(d);
}

static const gw_device_ops cuda_ops = {
    GW_DEVICE_COMMON_OPS,
    .close = close_cuda,
    .lane_open = gw_cuda_lane_open,
    .lane_close = gw_cuda_lane_close,
    .lane_part = gw_device_only_part,
    .unit = gw_cuda_state_unit,
    .state_read = gw_cuda_state_read,
    .state_write = gw_cuda_state_write,
    .step_begin = begin_step,
    .zero = zero,
    .prefetch = gw_cuda_lane_prefetch,
    .payload = gw_cuda_lane_payload,
    .contribute = gw_cuda_lane_contribute,
    .fingerprint = gw_cuda_lane_fingerprint,
    .probe = gw_cuda_lane_probe,
    .reduce_begin = begin_reduce,
    .reduce_end = end_reduce,
    .boundary = read_boundary,
    .scalars = run_scalars,
};

static const char *precision_name(gw_precision precision) {
    switch (precision) {
    case GW_PRECISION_FP32:
        return "fp32";
    case GW_PRECISION_TF32:
        return "tf32";
    case GW_PRECISION_BF16:
        return "bf16";
    }
    gw_assert_failed("a known precision", __FILE__, __LINE__, __func__);
}

/* Writes the class, which names everything that must be equal for a shard to give the same bytes. Code that
 * the driver compiled depends on the driver too. */
static bool name_class(gw_cuda_device *d, const gw_cuda_info *info, const char *plan, gw_err *err) {
    char build[GW_BUILD_ID_TEXT], code[64], driver[40];
    uint32_t made_for;
    int compiled;
    gw_build_id(build);
    if (!gw_cuda_try(d->gpu.ordinal, gw_cuda_code(&made_for, &compiled), err, "cudaFuncGetAttributes"))
        return false;
    snprintf(code, sizeof code, "sm_%u", made_for);
    gw_cuda_driver_build(driver, sizeof driver);
    if (compiled) snprintf(code, sizeof code, "ptx/%s", driver);
    snprintf(d->device.class_text, sizeof d->device.class_text,
             "cuda godwit=%s build=%s gpu=sm_%u%u sms=%u mig=%s code=%s precision=%s%s%s kernels=%d",
             GODWIT_VERSION, build, info->major, info->minor, info->sms, info->mig ? "yes" : "no", code,
             precision_name(d->gpu.precision), plan[0] != '\0' ? " " : "", plan, KERNEL_SET);
    return true;
}

static bool open_measured(gw_cuda_device *d, gw_err *err) {
    void *words, *words_host;
    if (d->type->gpu->measure == NULL) return true;
    if (!gw_cuda_allocate(d->gpu.ordinal, MEASURED_BYTES, &words, err)) return false;
    d->measured = words;
    if (!gw_cuda_pin(d->gpu.ordinal, MEASURED_BYTES, &words_host, err)) return false;
    d->measured_host = words_host;
    return true;
}

/* Opens the job's side and measures the GPU memory that it takes. Only the GPU knows it, since libraries
 * allocate memory of their own. */
static bool open_side(gw_cuda_device *d, uint32_t workers, char *plan, gw_err *err) {
    const gw_job_gpu *gpu = d->type->gpu;
    uint64_t before = free_memory(d);
    if (!gpu->open(d->job, &d->gpu, &d->side, plan, err)) return gw_fail_in(err, "job %s", d->type->name);
    uint64_t after = free_memory(d);
    d->side_bytes = after > 0 && after < before ? before - after : 0;
    d->input_bytes = gpu->input_bytes != NULL ? gpu->input_bytes(d->job) : 0;
    d->lanes_bytes = workers * lane_memory(d);
    return true;
}

static bool open_parts(gw_cuda_device *d, const gw_cuda_info *info, const gw_device_options *options,
                       gw_err *err) {
    char plan[GW_GPU_PLAN_TEXT] = "";
    d->sum = calloc(d->layout.tensor_count, sizeof *d->sum);
    d->sum_small = calloc(d->layout.tensor_count, sizeof *d->sum_small);
    if (d->sum == NULL || d->sum_small == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", d->layout.tensor_count);
    if (!gw_cuda_device_use(d, err) ||
        !gw_cuda_try(d->gpu.ordinal, cudaStreamCreateWithFlags(&d->control, cudaStreamNonBlocking), err,
                     "cudaStreamCreate"))
        return false;
    if (!open_side(d, options->workers, plan, err) || !check_memory(d, options, err) ||
        !name_class(d, info, plan, err) || !gw_cuda_state_open(d, err) || !open_measured(d, err))
        return false;
    d->result = (gw_step_result){.type = d->type,
                                 .job = d->job,
                                 .tensors = d->layout.tensors,
                                 .sum = d->sum_small,
                                 .measured = d->measured_host,
                                 .state = d->state_small};
    return gw_cuda_accumulator_open(d->gpu.ordinal, &d->layout, options->ledger, &d->accumulator, err) &&
           gw_cuda_sums_open(d->gpu.ordinal, &d->layout, d->accumulator, d->control, options->reduce,
                             &d->sums, err);
}

static bool find_gpu(const gw_gpu *gpu, gw_cuda_info *info, gw_err *err) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    if (!gw_cuda_list(list, &count, err)) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].ordinal != (uint32_t)gpu->ordinal) continue;
        *info = list[i];
        return gw_cuda_enough(info, err);
    }
    return gw_fail(err, GW_E_NOTFOUND, "there is no GPU %d: this machine's are 0 to %u", gpu->ordinal,
                   count - 1);
}

bool gw_device_cuda_open(const gw_device_options *options, const gw_gpu *gpu, gw_device **device,
                         gw_err *err) {
    GW_ASSERT(options->workers >= 1);
    gw_cuda_info info;
    *device = NULL;
    if (options->type->gpu == NULL)
        return gw_fail(err, GW_E_UNSUPPORTED, "job %s has no code for GPUs", options->type->name);
    if (!find_gpu(gpu, &info, err)) return false;
    gw_cuda_device *d = calloc(1, sizeof *d);
    if (d == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the device of GPU %d", gpu->ordinal);
    d->device = (gw_device){.ops = &cuda_ops,
                            .layout = &d->layout,
                            .owns_ledger = options->ledger == NULL,
                            .result = &d->result,
                            .unit_count = 1,
                            .part_count = 1,
                            .gpu_count = 1,
                            .gpus = {gpu->ordinal}};
    d->type = options->type;
    d->job = options->job;
    d->gpu = *gpu;
    d->lost_callback = options->lost;
    d->lost_context = options->context;
    pthread_mutex_init(&d->transfer_lock, NULL);
    pthread_mutex_init(&d->lost_lock, NULL);
    if (!gw_layout_make(options->plan, options->boundary_words, &d->layout, err)) {
        pthread_mutex_destroy(&d->transfer_lock);
        pthread_mutex_destroy(&d->lost_lock);
        free(d);
        return gw_fail_in(err, "job %s", options->type->name);
    }
    if (!open_parts(d, &info, options, err)) {
        close_cuda(&d->device);
        return false;
    }
    d->device.ledger = gw_cuda_accumulator_ledger(d->accumulator);
    count_memory(d);
    begin_step(&d->device, 0);
    *device = &d->device;
    return true;
}
