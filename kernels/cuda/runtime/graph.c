#include "kernels/cuda/runtime/graph.h"

#include "core/base/assert.h"
#include "kernels/cuda/runtime/call.h"

#include <stdlib.h>

void gw_cuda_graphs_close(gw_cuda_graphs *graphs) {
    for (uint32_t i = 0; i < graphs->count; i++) {
        gw_cuda_graph *graph = &graphs->list[i];
        if (graph->add != NULL) (void)cudaGraphExecDestroy(graph->add);
        if (graph->store != NULL) (void)cudaGraphExecDestroy(graph->store);
        free(graph->tensors);
        free(graph->noted);
    }
    graphs->count = 0;
}

static bool is_of(const gw_cuda_graph *graph, const gw_cuda_work *work) {
    return graph->work.number == work->number && graph->work.input == work->input &&
           graph->work.shards == work->shards;
}

gw_cuda_graph *gw_cuda_graph_find(gw_cuda_graphs *graphs, const gw_cuda_work *work, uint32_t most_tensors) {
    for (uint32_t i = 0; i < graphs->count; i++)
        if (is_of(&graphs->list[i], work)) return &graphs->list[i];
    if (graphs->count == GW_CUDA_GRAPHS) return NULL;
    uint32_t *tensors = calloc(most_tensors, sizeof *tensors);
    bool *noted = calloc(most_tensors, sizeof *noted);
    if (tensors == NULL || noted == NULL) {
        free(tensors);
        free(noted);
        return NULL;
    }
    gw_cuda_graph *graph = &graphs->list[graphs->count++];
    *graph = (gw_cuda_graph){.work = *work, .tensors = tensors, .noted = noted};
    return graph;
}

void gw_cuda_graph_forget(gw_cuda_graph *graph) {
    for (uint32_t i = 0; i < graph->tensor_count; i++) graph->noted[graph->tensors[i]] = false;
    graph->tensor_count = 0;
}

bool gw_cuda_graph_note(gw_cuda_graph *graph, uint32_t tensor) {
    if (graph->noted[tensor]) return false;
    graph->noted[tensor] = true;
    graph->tensors[graph->tensor_count++] = tensor;
    return true;
}

/* The mode is relaxed: libraries may allocate memory or load kernels meanwhile, which is not recorded. */
bool gw_cuda_graph_begin(int gpu, cudaStream_t stream, gw_err *err) {
    return gw_cuda_try(gpu, cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), err,
                       "cudaStreamBeginCapture");
}

bool gw_cuda_graph_end(int gpu, cudaStream_t stream, bool good, cudaGraphExec_t *recorded, gw_err *err) {
    cudaGraph_t graph = NULL;
    gw_err ending;
    *recorded = NULL;
    bool ended = gw_cuda_try(gpu, cudaStreamEndCapture(stream, &graph), &ending, "cudaStreamEndCapture");
    if (good && !ended) *err = ending;
    bool made = good && ended &&
                gw_cuda_try(gpu, cudaGraphInstantiate(recorded, graph, 0), err, "cudaGraphInstantiate");
    GW_ASSERT(!made || *recorded != NULL);
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    /* The graph's memory on the GPU is allocated now, and not when the graph is started. */
    if (made && gw_cuda_try(gpu, cudaGraphUpload(*recorded, stream), err, "cudaGraphUpload")) return true;
    if (made) (void)cudaGraphExecDestroy(*recorded);
    *recorded = NULL;
    return false;
}
