/* Detects that a call has failed because the GPU can no longer be used, or its memory is full. CUDA returns
 * such an error from every later call, whichever code received it first: this program's kernels, cuBLASLt or
 * the job. */
#include "kernels/cuda/device/inside.h"
#include "kernels/cuda/runtime/call.h"

/* A kernel fault may be the fault of a shard while one is being computed; the shard then fails and is counted
 * against. A breakdown of the GPU itself is not. */
static bool shard_may_have_done_it(const gw_cuda_device *d, cudaError_t status) {
    gw_held held;
    gw_ledger_held(d->ledger, &held, NULL);
    return held.running > 0 && !gw_cuda_broken(status);
}

/* The caller holds the lock. */
static void tell(gw_cuda_device *d, const gw_err *why) {
    if (!d->lost && d->tell_lost != NULL) d->tell_lost(d->tell_context, why);
    d->lost = true;
}

bool gw_cuda_device_failed(gw_cuda_device *d, const char *doing) {
    gw_err why;
    cudaError_t status = cudaSetDevice(d->gpu.ordinal);
    if (status == cudaSuccess) status = cudaStreamQuery(d->control);
    (void)cudaGetLastError(); /* querying a busy stream counts as an error, which is cleared here */
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
