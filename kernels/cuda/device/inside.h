/* What the files of the CUDA device share. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_INSIDE_H
#define GODWIT_KERNELS_CUDA_DEVICE_INSIDE_H

#include "core/gpu.h"
#include "kernels/cuda/device/accumulator.h"
#include "kernels/cuda/device/sums.h"
#include "kernels/cuda/runtime/cuda.h"
#include "kernels/device/common.h"

#include <pthread.h>

typedef struct gw_cuda_device {
    gw_device device; /* must be the first field: the ops cast the device to this struct */
    gw_layout layout;
    const gw_job_type *type;
    void *job, *side;
    gw_gpu gpu;
    uint64_t input_bytes; /* size of a shard's input */
    uint64_t side_bytes;  /* GPU memory that opening the job's side has taken */
    /* GPU memory for the workers' lanes and their inputs, allocated as lanes open */
    uint64_t lanes_bytes;

    cudaStream_t control; /* stream of reductions and updates */
    gw_cuda_accumulator *accumulator;
    gw_cuda_sums *sums;
    gw_step_result result;

    char *image;              /* the state's memory on the GPU */
    size_t image_bytes;       /* size of the image, with tensors aligned */
    void **state;             /* by tensor, pointers into image; NULL for sums */
    void **state_small;       /* by tensor: pinned host copies of small state tensors; NULL for others */
    void *small_memory;       /* memory of the small copies, each run of them as in the image */
    struct gw_cuda_run *runs; /* small tensors that lie one behind the other in the image */
    uint32_t run_count;
    /* by tensor, on the GPU: pointers into the present step's sum; NULL for state */
    const int64_t **sum;
    const int64_t **sum_small; /* by tensor, on the host: copies of small sums */
    /* the words of the job's measure, on the GPU and pinned on the host; NULL: the job has no measure */
    int64_t *measured, *measured_host;
    struct gw_cuda_printed *table; /* on the GPU: the tensors that are fingerprinted all at once */
    uint32_t table_count;
    unsigned long long *print;      /* on the GPU: the state's fingerprint, in two parts */
    unsigned long long *print_host; /* the same, pinned on the host */

    /* guards `lost`; a second thread waits here until the first has reported */
    pthread_mutex_t lost_lock;
    bool lost;
    void (*lost_callback)(void *context, const gw_err *why); /* from the options */
    void *lost_context;

    pthread_mutex_t transfer_lock; /* guards the three fields below, for state_read and state_write */
    cudaStream_t transfer;
    void *bounce[2];        /* pinned buffers */
    cudaEvent_t bounced[2]; /* the latest copy from or to each buffer */
} gw_cuda_device;

static inline gw_cuda_device *gw_cuda_device_of(gw_device *device) {
    return (gw_cuda_device *)(void *)device;
}

/* Makes the GPU current for the calling thread. */
bool gw_cuda_device_use(const gw_cuda_device *device, gw_err *err);

/* Called after a call of the device has failed while `doing` something ("checking a sum"). Reports the loss
 * (gw_device_options.lost) if the GPU can no longer be used. Returns false. Any thread; contribute calls it
 * before it leaves the ledger. */
bool gw_cuda_device_failed(gw_cuda_device *device, const char *doing);
/* Called after the computation of a shard has failed with `why`. Reports a loss also where memory has run
 * out, which is not the shard's fault: another GPU, or this one at another time, may have enough. Returns
 * false. Any thread, before the shard leaves the ledger. */
bool gw_cuda_device_shard_failed(gw_cuda_device *device, const gw_err *why);

/* lane.c: the device's ops of these names. */
bool gw_cuda_lane_open(gw_device *device, gw_lane **lane, gw_err *err);
void gw_cuda_lane_close(gw_device *device, gw_lane *lane);
void gw_cuda_lane_prefetch(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard);
void gw_cuda_lane_payload(gw_device *device, gw_lane *lane, const void *bytes);
gw_contributed gw_cuda_lane_contribute(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                       gw_err *err);
uint64_t gw_cuda_lane_fingerprint(gw_device *device, gw_lane *lane);
bool gw_cuda_lane_probe(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                        uint64_t *fingerprint, gw_err *err);
void gw_cuda_lane_check(const gw_cuda_device *device, const gw_lane *lane);

/* state.c: the state's memory, and the work on it. */
size_t gw_cuda_state_bytes(const gw_layout *layout); /* bytes of GPU memory for the state */
bool gw_cuda_state_open(gw_cuda_device *device, gw_err *err);
void gw_cuda_state_close(gw_cuda_device *device);
bool gw_cuda_state_unit(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part,
                        gw_err *err);
bool gw_cuda_state_read(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err);
bool gw_cuda_state_write(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err);

#endif
