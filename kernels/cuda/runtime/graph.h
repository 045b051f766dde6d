/* Shards as CUDA graphs. Of a job that says which of its shards start the same work (gw_job_gpu.graph), that
 * work is recorded from a stream once, and started as a whole from then on: one call instead of hundreds,
 * which for small shards take longer to start than to run. It is the same kernels with the same arguments in
 * the same order, and so the same bytes.
 *
 * All of this is a lane's, and used by its thread alone. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_GRAPH_H
#define GODWIT_KERNELS_CUDA_RUNTIME_GRAPH_H

#include "core/base/err.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

enum {
    GW_CUDA_GRAPHS = 32, /* of a lane */
    GW_CUDA_GRAPH_TRIES = 3,
};

/* What two shards have in common that are one graph. */
typedef struct gw_cuda_work {
    uint64_t number;   /* gw_job_gpu.graph's */
    const void *input; /* where the shard's input is */
    uint32_t shards;   /* of the step: the format of sums depends on it */
} gw_cuda_work;

typedef struct gw_cuda_graph {
    gw_cuda_work work;
    bool met;          /* such a shard was started piece by piece: most of its kernels are loaded */
    uint32_t *tensors; /* that it adds to, each once and whole */
    uint32_t tensor_count;
    cudaGraphExec_t add, store; /* added to sums, or stored over them; NULL: not recorded yet */
    uint32_t failures;          /* in a row; after GW_CUDA_GRAPH_TRIES of them this graph is given up */
} gw_cuda_graph;

typedef struct gw_cuda_graphs {
    gw_cuda_graph list[GW_CUDA_GRAPHS];
    uint32_t count;
} gw_cuda_graphs;

/* Nothing of them runs. */
void gw_cuda_graphs_close(gw_cuda_graphs *graphs);

/* The graph of such work, perhaps a new one; NULL: there are too many, or no memory. */
gw_cuda_graph *gw_cuda_graph_find(gw_cuda_graphs *graphs, const gw_cuda_work *work, uint32_t most_tensors);
/* That the work adds to all of the tensor. False: it does so already. */
bool gw_cuda_graph_note(gw_cuda_graph *graph, uint32_t tensor);

/* What is put on the stream between begin and end is recorded, and not started. `good`: all of it could be;
 * if not, or after a failure, there is nothing in *recorded. A begin that succeeded must be ended. */
bool gw_cuda_graph_begin(int gpu, cudaStream_t stream, gw_err *err);
bool gw_cuda_graph_end(int gpu, cudaStream_t stream, bool good, cudaGraphExec_t *recorded, gw_err *err);

#endif
