/* `synthetic` on a GPU. The state has the same bits as on a processor, so that flocks of both kinds can be
 * compared. (The energy, which is only reported, is added in another order.) */
#ifdef GODWIT_CUDA
#include "core/gpu.h"
#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/jobs/synthetic/inside.h"
#include "kernels/jobs/synthetic/kernels.h"

#include <signal.h>
#include <stdlib.h>

typedef struct side {
    int gpu;
} side;

typedef struct lane {
    /* arrays on the GPU */
    float *push;
    double *parts;
    float *mean;
    int64_t *count; /* the number 1 */
    void *memory;   /* the memory that the arrays lie in */
} lane;

static bool gpu_open(void *job, const gw_gpu *gpu, void **side_out, char *plan, gw_err *err) {
    (void)job;
    side *s = calloc(1, sizeof *s);
    *side_out = s;
    plan[0] = '\0';
    if (s == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    s->gpu = gpu->ordinal;
    return true;
}

static void gpu_close(void *job, void *side_pointer) {
    (void)job;
    free(side_pointer);
}

static void gpu_lane_close(void *job, void *side_pointer, void *lane_pointer) {
    const side *s = side_pointer;
    lane *l = lane_pointer;
    (void)job;
    gw_cuda_free(s->gpu, l->memory);
    free(l);
}

static size_t push_bytes(const synthetic *j) {
    return gw_cuda_aligned(j->pushed * sizeof *((lane *)NULL)->push);
}

static uint64_t gpu_lane_bytes(const void *job, const void *side_pointer) {
    (void)side_pointer;
    return push_bytes(job);
}

static bool gpu_lane_open(void *job, void *side_pointer, void **lane_out, gw_err *err) {
    const synthetic *j = job;
    const side *s = side_pointer;
    lane *l = calloc(1, sizeof *l);
    if (l == NULL) return gw_fail(err, GW_E_NOMEM, "out of memory");
    size_t push = push_bytes(j);
    size_t parts = gw_cuda_aligned(GW_CUDA_SYNTHETIC_PARTS * sizeof *l->parts);
    const int64_t one = 1;
    if (!gw_cuda_allocate(s->gpu, push + parts + (size_t)2 * GW_CUDA_ALIGN, &l->memory, err)) {
        free(l);
        return false;
    }
    char *next = l->memory;
    l->push = (void *)next;
    l->parts = (void *)(next + push);
    l->mean = (void *)(next + push + parts);
    l->count = (void *)(next + push + parts + GW_CUDA_ALIGN);
    /* A copy from memory that is not pinned may arrive after cudaMemcpy returns, and lanes do not wait for
     * the default stream, which makes it. */
    if (!gw_cuda_try(s->gpu, cudaMemcpy(l->count, &one, sizeof one, cudaMemcpyHostToDevice), err,
                     "cudaMemcpy") ||
        !gw_cuda_try(s->gpu, cudaStreamSynchronize(NULL), err, "cudaMemcpy of %zu bytes", sizeof one)) {
        gpu_lane_close(job, side_pointer, l);
        return false;
    }
    *lane_out = l;
    return true;
}

static bool gpu_init(void *job, void *side_pointer, const gw_range *range, const gw_state *state,
                     struct CUstream_st *stream, gw_err *err) {
    const synthetic *j = job;
    const side *s = side_pointer;
    cudaError_t status = range->group != DIGEST
                             ? gw_cuda_synthetic_cells(synthetic_noise_key(j, SYNTHETIC_INIT, range->group),
                                                       range->count, state->data[range->group], stream)
                             : gw_cuda_synthetic_digest(range->count, state->data[DIGEST], stream);
    return gw_cuda_try(s->gpu, status, err, "filling the state");
}

static bool gpu_contribute(void *job, void *side_pointer, void *lane_pointer, const gw_gpu_shard *shard,
                           const gw_state *state, gw_emitter *emitter, gw_err *err) {
    const synthetic *j = job;
    const side *s = side_pointer;
    const lane *l = lane_pointer;
    struct timespec start = synthetic_start(j);
    uint64_t key = synthetic_noise_key(j, shard->step, shard->shard);
    if (j->payload_bytes > 0) key ^= synthetic_digest_of(gw_payload(emitter), j->payload_bytes);
    uint64_t half = j->pushed / 2;
    uint64_t bad = synthetic_is_at(&j->bad, shard->step, shard->shard) ? half : UINT64_MAX;
    cudaError_t status = gw_cuda_synthetic_push(key, j->pushed, bad, state->data[CELLS], l->push, l->parts,
                                                l->mean, shard->stream);
    if (!gw_cuda_try(s->gpu, status, err, "pushing")) return false;
    gw_emit(emitter, PUSH, 0, half, l->push);
    if (synthetic_is_at(&j->crash, shard->step, shard->shard)) raise(SIGSEGV);
    synthetic_wait(j, start);
    gw_emit(emitter, PUSH, half, j->pushed - half, l->push + half);
    gw_emit_integers(emitter, COUNT, 0, 1, l->count);
    gw_emit(emitter, ENERGY, 0, 1, l->mean);
    return true;
}

static bool gpu_apply(void *job, void *side_pointer, uint64_t step, const gw_range *range,
                      const gw_sums *sums, const gw_scalars *scalars, const gw_state *state,
                      struct CUstream_st *stream, gw_err *err) {
    const synthetic *j = job;
    const side *s = side_pointer;
    (void)step;
    cudaError_t status = range->group != DIGEST
                             ? gw_cuda_synthetic_follow(range->count, j->pushed, sums->data[PUSH],
                                                        scalars->value[0], state->data[range->group], stream)
                             : gw_cuda_synthetic_chain(range->count, j->pushed, sums->data[PUSH],
                                                       sums->data[COUNT], state->data[DIGEST], stream);
    return gw_cuda_try(s->gpu, status, err, "changing the state");
}

const gw_job_gpu synthetic_gpu = {
    .open = gpu_open,
    .close = gpu_close,
    .lane_bytes = gpu_lane_bytes,
    .lane_open = gpu_lane_open,
    .lane_close = gpu_lane_close,
    .init = gpu_init,
    .contribute = gpu_contribute,
    .apply = gpu_apply,
};
#endif
