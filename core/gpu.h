/* How a job computes on GPUs: a second table, beside that of core/godwit.h. The framework keeps state, sums
 * and each shard's input in the GPU's memory. The job starts work on the stream that it receives and never
 * waits for it. Everything that core/godwit.h states holds here too, and in particular:
 *
 * - Functions are pure. Launch shapes, matrix products and the order of additions depend on the job, the step
 * and the shard alone, never on the GPU's size or load. Float atomics are not allowed.
 * - init and apply give the same bytes as on a processor. Contributions may differ from a processor's, since
 * a GPU's products round differently; all peers of an exact job have one compute class.
 *
 * The GPU is current for the calling thread in every call. Pointers are to the GPU's memory unless a comment
 * says that they are to the host's. A function that cannot start its work fails with CUDA's message. */
#ifndef GODWIT_CORE_GPU_H
#define GODWIT_CORE_GPU_H

#include "core/godwit.h"

struct CUstream_st; /* cudaStream_t is a pointer to this */

enum {
    GW_GPU_SMALL = 64,      /* elements: the host also sees sums and state of up to this size */
    GW_GPU_MEASURED = 8,    /* words that gw_job_gpu.measure may write */
    GW_GPU_PLAN_TEXT = 100, /* bytes for the text of gw_job_gpu.open */
};

/* How matrix products round their operands. Products are always summed in float32. */
typedef enum gw_precision {
    GW_PRECISION_FP32 = 1,
    GW_PRECISION_TF32 = 2, /* operands are rounded to 10 bits of mantissa in the tensor cores */
    GW_PRECISION_BF16 = 3, /* operands are rounded to bfloat16 */
} gw_precision;

typedef struct gw_gpu {
    int ordinal; /* CUDA's number of the GPU */
    gw_precision precision;
} gw_gpu;

/* One shard to contribute. */
typedef struct gw_gpu_shard {
    uint64_t step;
    uint32_t shard;
    const void *input; /* what load() wrote, copied to the GPU; NULL where the job has no input */
    struct CUstream_st *stream;
} gw_gpu_shard;

typedef struct gw_job_gpu {
    /* Shards in flight that keep a GPU busy. 0: two, so that one shard waits behind the other. */
    uint32_t lanes;

    /* Opens the job's own object for one GPU, *side, which every later call receives: planned products,
     * copied constants. `plan` has room for GW_GPU_PLAN_TEXT bytes; the job writes to it what results depend
     * on beyond the kernels of this program, as parts of the compute class ("cublaslt=13.1.0 plan=5f3a..."),
     * or "". */
    bool (*open)(void *job, const gw_gpu *gpu, void **side, char *plan, gw_err *err);
    void (*close)(void *job, void *side);

    /* A lane is the scratch of one shard in flight. lane_bytes is the GPU memory that a lane takes, for the
     * estimate before anything is allocated; NULL: next to nothing. */
    uint64_t (*lane_bytes)(const void *job, const void *side);
    bool (*lane_open)(void *job, void *side, void **lane, gw_err *err);
    void (*lane_close)(void *job, void *side, void *lane);

    /* The size of the largest input of a shard in bytes; 0 or a NULL function: shards have no input. */
    uint64_t (*input_bytes)(const void *job);
    /* Writes the input of a shard to host memory. The framework copies it to the GPU while the GPU computes
     * another shard. Called on any thread, also for shards that are never contributed. */
    bool (*load)(const void *job, uint64_t step, uint32_t shard, void *host, gw_err *err);

    /* Writes S_0 of a whole group. It may wait for the stream where it copies from memory of its own. */
    bool (*init)(void *job, void *side, const gw_range *range, const gw_state *state,
                 struct CUstream_st *stream, gw_err *err);
    /* Optional. Called after every change of the state and before anything reads it. The job updates copies
     * of the state that it keeps in its side, such as weights in another type. */
    bool (*derive)(void *job, void *side, const gw_state *state, struct CUstream_st *stream, gw_err *err);

    /* Computes and emits the contribution of one shard. Emitted arrays lie in the GPU's memory, are final in
     * the order of the stream, and may be overwritten by later work on it. gw_payload is host memory. */
    bool (*contribute)(void *job, void *side, void *lane, const gw_gpu_shard *shard, const gw_state *state,
                       gw_emitter *emitter, gw_err *err);

    /* Optional. Names the work that contribute starts for a shard; 0: the shard is not to be recorded. For
     * two shards with one name, contribute does exactly the same: the same kernels, copies and emissions in
     * the same order with the same arguments, so that shards differ only by the bytes of their inputs. It
     * emits whole tensors, each at most once. The framework may record such work as a CUDA graph and start
     * the graph without calling contribute. This pays where the GPU executes kernels faster than the host
     * starts them; shards of several lanes are then computed one after the other.
     *
     * While contribute is recorded, nothing executes. It must have no other effects, must start nothing that
     * reads host memory or a payload, and, like a lane that is opened or closed meanwhile, must not wait for
     * the whole GPU. */
    uint64_t (*graph)(const void *job, uint64_t step, uint32_t shard);

    /* Optional. Reduces sums that are too large for the host to a few words, before `scalars` runs and finds
     * them in sums->measured: a norm in fixed point, for example. They must equal what a processor's
     * `scalars` computes from the same sums. `words` points to GW_GPU_MEASURED zeros. */
    bool (*measure)(void *job, void *side, uint64_t step, const gw_sums *sums, int64_t *words,
                    struct CUstream_st *stream, gw_err *err);
    /* Updates a whole group from S_t to S_{t+1}, in place. */
    bool (*apply)(void *job, void *side, uint64_t step, const gw_range *range, const gw_sums *sums,
                  const gw_scalars *scalars, const gw_state *state, struct CUstream_st *stream, gw_err *err);
} gw_job_gpu;

#endif
