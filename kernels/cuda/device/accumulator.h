/* The accumulator of a GPU: the exact sum of the shards that the GPU has computed, in its memory. A ledger on
 * the host (kernels/device/ledger.h) records what it holds, as for a processor.
 *
 * Shards come on several streams. An event, which each addition waits for and records, puts the additions
 * into one order: no two of them run at once, while all other work of the shards may overlap. (Shards that
 * run as graphs do not overlap.) Each tensor has a generation, as the ledger has. A tensor of an older
 * generation counts as zero, and the first piece that covers all of it is stored over it and not added, so
 * that emptying costs nothing. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_ACCUMULATOR_H
#define GODWIT_KERNELS_CUDA_DEVICE_ACCUMULATOR_H

#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/device/ledger.h"

typedef struct gw_cuda_accumulator gw_cuda_accumulator;

/* Opens an accumulator. `layout` and `shared` outlive it. `shared` is another accumulator's ledger, which
 * then serves both; with NULL this accumulator has its own. */
bool gw_cuda_accumulator_open(int gpu, const gw_layout *layout, gw_ledger *shared,
                              gw_cuda_accumulator **accumulator, gw_err *err);
/* No work on it may be running; NULL is allowed. */
void gw_cuda_accumulator_close(gw_cuda_accumulator *accumulator);
uint64_t gw_cuda_accumulator_bytes(const gw_cuda_accumulator *accumulator);
gw_ledger *gw_cuda_accumulator_ledger(const gw_cuda_accumulator *accumulator);

/* Adds `count` elements of a summed tensor, from `first` on, in the order of `stream`; drops them if the
 * accumulator has been emptied since the entry was made. The caller gives either `floats` or `integers`. The
 * piece's fingerprint and bad count are added to `of_shard`, and `least` becomes the least GW_CUDA_PLACE of a
 * bad element. Any thread. */
bool gw_cuda_accumulator_add(gw_cuda_accumulator *accumulator, gw_entry *entry, uint32_t tensor,
                             uint64_t first, uint64_t count, const float *floats, const int64_t *integers,
                             gw_cuda_found *of_shard, unsigned long long *least, cudaStream_t stream,
                             gw_err *err);

/* Starts what gw_cuda_accumulator_add starts for a whole tensor, and nothing else, on a stream from which a
 * graph is recorded. The shard is of a step with `shards` shards; `adding` says whether the graph adds to the
 * sums or stores over them. */
bool gw_cuda_accumulator_record(gw_cuda_accumulator *accumulator, uint32_t shards, uint32_t tensor,
                                const float *floats, const int64_t *integers, gw_cuda_adding adding,
                                gw_cuda_found *of_shard, unsigned long long *least, cudaStream_t stream,
                                gw_err *err);
/* Starts a recorded graph, in the variant that the tensors' generations call for, with the effect of
 * gw_cuda_accumulator_add. Nothing starts if the accumulator has been emptied since the entry was made.
 * *started tells whether the graph was started, or did not have to be; after a failure with *started false
 * the shard may still be added in pieces. Any thread. */
bool gw_cuda_accumulator_launch(gw_cuda_accumulator *accumulator, gw_entry *entry, const gw_cuda_graph *graph,
                                cudaStream_t stream, bool *started, gw_err *err);

/* Completes the sum: clears stale tensors, fills headers and boundary words, and sets *words to the
 * layout->words words of the sum in the GPU's memory. Waits for the GPU. No shard may be in flight, and the
 * accumulator must not be poisoned. */
bool gw_cuda_accumulator_finish(gw_cuda_accumulator *accumulator, cudaStream_t stream, int64_t **words,
                                gw_err *err);

#endif
