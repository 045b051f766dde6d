#include "tests/gpu/steps.h"

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/cuda.h"
#include "kernels/device/group/group.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

gw_precision gpu_precision = GW_PRECISION_TF32;

bool gpu_open(const gw_device_options *options, gw_device **device, gw_err *err) {
    return gw_device_cuda_open(options, &(gw_gpu){.ordinal = 0, .precision = gpu_precision}, device, err);
}

bool gpu_open_either(const gw_device_options *options, gw_device **device, gw_err *err) {
    static bool gpu;
    gpu = !gpu;
    return gpu ? gpu_open(options, device, err) : gw_device_cpu_open(options, device, err);
}

static bool open_part(void *context, uint32_t part, const gw_device_options *options, gw_device **device,
                      gw_err *err) {
    const uint32_t *gpus = context;
    gw_gpu gpu = {.ordinal = (int)(part % *gpus), .precision = gpu_precision};
    return gw_device_cuda_open(options, &gpu, device, err);
}

bool gpu_open_two(const gw_device_options *options, gw_device **device, gw_err *err) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    return gw_cuda_list(list, &count, err) &&
           gw_device_group_open(options, 2, open_part, &count, device, err);
}

static uint8_t *state_of(const rig *r) {
    gw_device *d = r->device[0];
    uint8_t *image = malloc(d->layout->image_bytes);
    gw_err err;
    cr_assert(d->ops->state_read(d, 0, d->layout->image_bytes, image, &err), "%s", err.text);
    return image;
}

void gpu_same_state(const rig *a, const rig *b) {
    uint8_t *first = state_of(a), *second = state_of(b);
    cr_assert_eq(memcmp(first, second, a->device[0]->layout->image_bytes), 0);
    free(first);
    free(second);
}

double *gpu_sum_of(rig *r, uint64_t step, uint64_t *count) {
    r->device[0]->ops->step_begin(r->device[0], step);
    rig_contribute(r, 0, step, 0, 1);
    rig_reduce(r, GW_REDUCE_EXACT);
    const gw_segments *received = &r->received[0];
    double *values = NULL;
    *count = 0;
    for (uint32_t s = 0; s + 1 < received->count; s++) { /* the last bucket is the boundary's */
        uint64_t n = received->list[s].count - GW_EXACT_HEADER;
        const int64_t *words = (const int64_t *)received->list[s].data + GW_EXACT_HEADER;
        values = realloc(values, (*count + n) * sizeof *values);
        for (uint64_t i = 0; i < n; i++) values[*count + i] = (double)words[i];
        *count += n;
    }
    gw_verdict verdict;
    gw_err err;
    cr_assert(r->device[0]->ops->reduce_end(r->device[0], &verdict, &err), "%s", err.text);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);
    return values;
}

double gpu_distance(const double *a, const double *b, uint64_t count) {
    double difference = 0, size = 0;
    for (uint64_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference / size);
}
