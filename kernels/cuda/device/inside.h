/* The CUDA device from inside: between kernels/cuda/device*.c and lane.c only. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_INSIDE_H
#define GODWIT_KERNELS_CUDA_DEVICE_INSIDE_H

#include "core/gpu.h"
#include "kernels/cuda/device/accumulator.h"
#include "kernels/cuda/device/sums.h"
#include "kernels/cuda/runtime/cuda.h"
#include "kernels/device/job.h"

#include <pthread.h>

typedef struct gw_cuda_device {
    gw_device device; /* first: the ops find the rest by it */
    gw_layout layout;
    const gw_job_type *type;
    void *job, *side;
    gw_gpu gpu;
    uint64_t input_bytes; /* of a shard */
    uint64_t side_bytes;  /* of the GPU's memory that opening the job's side has taken */
    uint64_t lanes_bytes; /* of it, for the workers' lanes with their inputs, as it will be taken */

    cudaStream_t control; /* reductions, applies */
    gw_cuda_accumulator *accumulator;
    gw_ledger *ledger; /* the accumulator's */
    bool own_ledger;   /* it is no other device's */
    gw_cuda_sums *sums;
    gw_sum_verdict verdict;
    uint64_t step; /* of the ledger; written by the control thread */

    char *image;               /* the state's memory on the GPU */
    size_t image_bytes;        /* of it, tensors aligned */
    void **state;              /* by tensor, into image; NULL for sums */
    void **state_small;        /* by tensor, pinned: the small ones on the host; NULL for all others */
    void *small_memory;        /* what they point into */
    const int64_t **sum;       /* by tensor, on the GPU: into the present step's sum; NULL for state */
    const int64_t **sum_small; /* the same on the host, for small ones */
    int64_t *measured, *measured_host; /* by the job, of a sum: the GPU's, and pinned; NULL: it does not */
    unsigned long long *print;         /* the GPU's: the state's fingerprint, in two parts */
    unsigned long long *print_host;    /* pinned */

    pthread_mutex_t lost_lock; /* guards `lost`: who comes second waits until the first has told */
    bool lost;
    void (*tell_lost)(void *context, const gw_err *why); /* as in the options */
    void *tell_context;

    pthread_mutex_t transfer_lock; /* state_read and state_write: guards the three below */
    cudaStream_t transfer;
    void *bounce[2]; /* pinned */
    cudaEvent_t bounced[2];
} gw_cuda_device;

static inline gw_cuda_device *gw_cuda_device_of(gw_device *device) {
    return (gw_cuda_device *)(void *)device;
}

/* Makes the GPU current for the calling thread. */
bool gw_cuda_device_use(const gw_cuda_device *device, gw_err *err);

/* ---- device_need.c. How much of the GPU's memory is free; 0: nobody knows, or it says little. ---- */
uint64_t gw_cuda_device_free(const gw_cuda_device *device);
/* What a worker's lane will take of it, with its inputs. Once the job's side is open. */
uint64_t gw_cuda_device_lane_bytes(const gw_cuda_device *device);
/* The same: whether the rest will fit into what is free; if not, the text says how much is needed, what for,
 * and what takes less. */
bool gw_cuda_device_fits(const gw_cuda_device *device, const gw_device_options *options, gw_err *err);

/* ---- device_lost.c. After a call of the device that has failed while `doing` it ("checking a sum"): tells
 * who wants to know if the GPU is lost (gw_device_options.lost). Returns false. Any thread; of contribute
 * before the ledger is left. ---- */
bool gw_cuda_device_failed(gw_cuda_device *device, const char *doing);
/* After a shard's computation has failed with `why`: tells the same if memory has run out, which is no
 * shard's fault: another GPU, or this one at another time, has more of it free. Returns false. Any thread;
 * before the ledger is left. */
bool gw_cuda_device_shard_failed(gw_cuda_device *device, const gw_err *why);

/* ---- lane.c: as the device's ops of these names ---- */
bool gw_cuda_lane_open(gw_device *device, gw_lane **lane, gw_err *err);
void gw_cuda_lane_close(gw_device *device, gw_lane *lane);
uint32_t gw_cuda_lane_part(gw_device *device, const gw_lane *lane);
void gw_cuda_lane_prefetch(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard);
void gw_cuda_lane_payload(gw_device *device, gw_lane *lane, const void *bytes);
gw_contributed gw_cuda_lane_contribute(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                       gw_err *err);
uint64_t gw_cuda_lane_fingerprint(gw_device *device, gw_lane *lane);
bool gw_cuda_lane_probe(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                        uint64_t *fingerprint, gw_err *err);
void gw_cuda_lane_check(const gw_cuda_device *device, const gw_lane *lane);

/* ---- device_state.c: memory for the state, and what is done to it ---- */
size_t gw_cuda_state_bytes(const gw_layout *layout); /* of the GPU's memory, for the state */
bool gw_cuda_state_open(gw_cuda_device *device, gw_err *err);
void gw_cuda_state_close(gw_cuda_device *device);
bool gw_cuda_state_unit(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part,
                        gw_err *err);
bool gw_cuda_state_read(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err);
bool gw_cuda_state_write(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err);

#endif
