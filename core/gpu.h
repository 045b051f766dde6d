/* How a job computes on a GPU as well as on processors: one more table, beside its own (core/godwit.h). The
 * framework keeps state, sums and the shard's input in the GPU's memory; the job starts work on the stream
 * that it is given and never waits for it. Everything that core/godwit.h promises holds here too:
 *
 *  - Pure functions: launch shapes, products and the order of additions are functions of the job, the step
 *    and the shard alone, never of the GPU's size or load. No float atomics.
 *  - S_0 and apply give the same bytes as on a processor. (Contributions need not: what the products of a
 *    GPU are rounded to differs, and peers of an exact job have one class.)
 *
 * Every function is called with the GPU current for the calling thread. Pointers are to the GPU's memory
 * unless a comment says host. A function that could not start its work fails with what CUDA said. */
#ifndef GODWIT_CORE_GPU_H
#define GODWIT_CORE_GPU_H

#include "core/godwit.h"

struct CUstream_st; /* what a cudaStream_t points to */

enum {
    GW_GPU_SMALL = 64,      /* elements: sums and state up to this are known on the host as well */
    GW_GPU_MEASURED = 8,    /* words that gw_job_gpu.measure may write */
    GW_GPU_PLAN_TEXT = 100, /* room for gw_job_gpu.open's text */
};

/* How matrix products are computed. Their sums are float32 in any case. */
typedef enum gw_precision {
    GW_PRECISION_FP32 = 1,
    GW_PRECISION_TF32 = 2, /* operands are rounded to 10 bits of mantissa in the tensor cores */
    GW_PRECISION_BF16 = 3, /* operands are rounded to bfloat16 */
} gw_precision;

typedef struct gw_gpu {
    int ordinal; /* CUDA's number of it */
    gw_precision precision;
} gw_gpu;

/* One shard to contribute. */
typedef struct gw_gpu_shard {
    uint64_t step;
    uint32_t shard;
    const void *input; /* what load() has written; NULL: the job has none */
    struct CUstream_st *stream;
} gw_gpu_shard;

typedef struct gw_job_gpu {
    uint32_t lanes; /* shards in flight that keep a GPU busy; 0: two, so that one waits behind the other */

    /* The job's own object for one GPU, given back to every call: products planned, constants copied. `plan`
     * (room for GW_GPU_PLAN_TEXT): what results depend on beyond the kernels of this program, as parts of the
     * compute class: "cublaslt=13.1.0 plan=5f3a...", or "". */
    bool (*open)(void *job, const gw_gpu *gpu, void **side, char *plan, gw_err *err);
    void (*close)(void *job, void *side);

    /* A lane is the scratch of one shard in flight. lane_bytes: what it will take of the GPU's memory, for
     * the estimate before anything is taken; NULL: next to nothing. */
    uint64_t (*lane_bytes)(const void *job, const void *side);
    bool (*lane_open)(void *job, void *side, void **lane, gw_err *err);
    void (*lane_close)(void *job, void *side, void *lane);

    /* The largest input of a shard in bytes; 0, or NULL: none. */
    uint64_t (*input_bytes)(const void *job);
    /* Writes the input of a shard to host memory, from where it is copied while the GPU is at another shard.
     * Any thread, also for shards that are never contributed. */
    bool (*load)(const void *job, uint64_t step, uint32_t shard, void *host, gw_err *err);

    /* S_0 of a whole group. This one may wait for the stream: of what it copies from memory of its own. */
    bool (*init)(void *job, void *side, const gw_range *range, const gw_state *state,
                 struct CUstream_st *stream, gw_err *err);
    /* Optional. After every change of the state, before anything reads it: copies of it that the job keeps in
     * its side (in another type, say). */
    bool (*derive)(void *job, void *side, const gw_state *state, struct CUstream_st *stream, gw_err *err);

    /* The contribution of one shard. What is emitted lies in the GPU's memory, is final in the order of the
     * stream, and may be overwritten by what comes later on it. gw_payload is host memory. */
    bool (*contribute)(void *job, void *side, void *lane, const gw_gpu_shard *shard, const gw_state *state,
                       gw_emitter *emitter, gw_err *err);

    /* Optional. Names the work that contribute starts for a shard. For two shards of one name it does exactly
     * the same: kernels, copies and emissions, their order and their arguments; in what they differ, they
     * differ by the bytes of their inputs. It emits tensors whole, each at most once. Such work may be
     * recorded and started again as a CUDA graph, without a call of contribute; worth it where a GPU takes
     * less time for the kernels than it takes to start them one by one. Shards of several lanes are then
     * computed one after the other. While it is recorded contribute is called with nothing being run: it then
     * has no other effects, reads no host memory by what it starts, nor a payload, and like a lane that opens
     * or closes meanwhile does not wait for the GPU as a whole. 0: not this shard. */
    uint64_t (*graph)(const void *job, uint64_t step, uint32_t shard);

    /* Optional. Makes few words of sums that are too large for the host to look at, before `scalars` does,
     * which finds them in sums->measured: a norm, say, in fixed point. They must be what a processor's
     * `scalars` would make of the same sums. `words`: GW_GPU_MEASURED zeros. */
    bool (*measure)(void *job, void *side, uint64_t step, const gw_sums *sums, int64_t *words,
                    struct CUstream_st *stream, gw_err *err);
    /* S_t -> S_{t+1} in place for a whole group. */
    bool (*apply)(void *job, void *side, uint64_t step, const gw_range *range, const gw_sums *sums,
                  const gw_scalars *scalars, const gw_state *state, struct CUstream_st *stream, gw_err *err);
} gw_job_gpu;

#endif
