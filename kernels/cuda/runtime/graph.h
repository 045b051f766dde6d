/* Shards as CUDA graphs. Where a job says which of its shards start the same work (gw_job_gpu.graph), that
 * work is recorded from a stream once and started as a whole from then on: one call instead of hundreds,
 * which for small shards take longer to start than to run. The graph has the same kernels with the same
 * arguments in the same order, and so gives the same bytes.
 *
 * All of this belongs to one lane, and only the lane's thread uses it. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_GRAPH_H
#define GODWIT_KERNELS_CUDA_RUNTIME_GRAPH_H

#include "core/base/err.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

enum {
    GW_CUDA_GRAPHS = 32, /* the most graphs of a lane */
    GW_CUDA_GRAPH_TRIES = 3,
};

/* Two shards with equal values here run as one graph. */
typedef struct gw_cuda_work {
    uint64_t number;   /* from gw_job_gpu.graph */
    const void *input; /* address of the shard's input */
    uint32_t shards;   /* number of shards of the step, which determines the format of the sums */
} gw_cuda_work;

typedef struct gw_cuda_graph {
    gw_cuda_work work;
    bool met;          /* such a shard has been started piece by piece, so most of its kernels are loaded */
    uint32_t *tensors; /* tensors that it adds to, each once and as a whole */
    bool *noted;       /* by tensor: it is among them */
    uint32_t tensor_count;
    cudaGraphExec_t add, store; /* adds to sums; stores over them; NULL: not recorded yet */
    uint32_t failures; /* failures in a row; after GW_CUDA_GRAPH_TRIES this graph is no longer tried */
} gw_cuda_graph;

typedef struct gw_cuda_graphs {
    gw_cuda_graph list[GW_CUDA_GRAPHS];
    uint32_t count;
} gw_cuda_graphs;

/* Frees the graphs; none may be running. */
void gw_cuda_graphs_close(gw_cuda_graphs *graphs);

/* Finds the graph of such work, or adds a new one. Returns NULL where there are too many, or memory is short.
 */
gw_cuda_graph *gw_cuda_graph_find(gw_cuda_graphs *graphs, const gw_cuda_work *work, uint32_t most_tensors);
/* Forgets the tensors that were noted. */
void gw_cuda_graph_forget(gw_cuda_graph *graph);
/* Notes that the work adds to all of the tensor. Returns false if that was noted already. */
bool gw_cuda_graph_note(gw_cuda_graph *graph, uint32_t tensor);

/* Work put on the stream between begin and end is recorded and not started. `good`: all of it could be put
 * there; if not, or after a failure, *recorded is NULL. A begin that succeeded must be ended. */
bool gw_cuda_graph_begin(int gpu, cudaStream_t stream, gw_err *err);
bool gw_cuda_graph_end(int gpu, cudaStream_t stream, bool good, cudaGraphExec_t *recorded, gw_err *err);

#endif
