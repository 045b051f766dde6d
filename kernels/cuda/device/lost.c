/* Whether a call on the GPU has failed because nothing can be done with it any more, or its memory is full.
 * CUDA says so in answer to every later call, whoever was told first: a kernel of ours, cuBLASLt, or the
 * job's own code. */
#include "kernels/cuda/device/inside.h"
#include "kernels/cuda/runtime/call.h"

/* A kernel that faults may be a shard's, as long as one is being computed: the shard then fails, and counts
 * against itself. What breaks down by itself is nobody's. */
static bool shard_may_have_done_it(const gw_cuda_device *d, cudaError_t status) {
    gw_held held;
    gw_ledger_held(d->ledger, &held, NULL);
    return held.running > 0 && !gw_cuda_broken(status);
}

/* With the lock held. */
static void tell(gw_cuda_device *d, const gw_err *why) {
    if (!d->lost && d->tell_lost != NULL) d->tell_lost(d->tell_context, why);
    d->lost = true;
}

bool gw_cuda_device_failed(gw_cuda_device *d, const char *doing) {
    gw_err why;
    cudaError_t status = cudaSetDevice(d->gpu.ordinal);
    if (status == cudaSuccess) status = cudaStreamQuery(d->control);
    (void)cudaGetLastError(); /* a stream that is not empty counts as an error, too */
    if (!gw_cuda_sticky(status) || shard_may_have_done_it(d, status)) return false;
    (void)gw_cuda_try(d->gpu.ordinal, status, &why, "%s", doing);
    pthread_mutex_lock(&d->lost_lock);
    tell(d, &why);
    pthread_mutex_unlock(&d->lost_lock);
    return false;
}

bool gw_cuda_device_shard_failed(gw_cuda_device *d, const gw_err *why) {
    if (why->code != GW_E_NOMEM) return gw_cuda_device_failed(d, "computing a shard");
    pthread_mutex_lock(&d->lost_lock);
    tell(d, why);
    pthread_mutex_unlock(&d->lost_lock);
    return false;
}
