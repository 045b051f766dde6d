/* The accumulator of a GPU: the exact sum of the shards that it has computed, in its memory. What it holds is
 * in a ledger (kernels/device/ledger.h) on the host, as for a processor.
 *
 * Shards come on several streams. Additions are put into one order by an event that each waits for and
 * records: no two of them run at once, while all else of the shards may (where shards are graphs, no two of
 * these). A tensor has a generation as the
 * ledger has; one of an older generation counts as zero: the first piece that covers a tensor wholly is
 * stored over it rather than added, so that emptying costs nothing. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_ACCUMULATOR_H
#define GODWIT_KERNELS_CUDA_DEVICE_ACCUMULATOR_H

#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/device/ledger.h"

typedef struct gw_cuda_accumulator gw_cuda_accumulator;

/* `layout` and `shared` outlive it. `shared`: another accumulator's ledger, which speaks for both; NULL: this
 * one has its own. */
bool gw_cuda_accumulator_open(int gpu, const gw_layout *layout, gw_ledger *shared,
                              gw_cuda_accumulator **accumulator, gw_err *err);
void gw_cuda_accumulator_close(gw_cuda_accumulator *accumulator); /* nothing of it runs; NULL is allowed */
uint64_t gw_cuda_accumulator_bytes(const gw_cuda_accumulator *accumulator);
gw_ledger *gw_cuda_accumulator_ledger(const gw_cuda_accumulator *accumulator);

/* Adds `count` elements from `first` on of a summed tensor, in the order of `stream`; drops them when the
 * accumulator was emptied since the entry was made. Exactly one of `floats` and `integers` is given. What the
 * piece has is added to `of_shard`, and `least` becomes the least GW_CUDA_PLACE of a bad element. Any thread.
 */
bool gw_cuda_accumulator_add(gw_cuda_accumulator *accumulator, gw_entry *entry, uint32_t tensor,
                             uint64_t first, uint64_t count, const float *floats, const int64_t *integers,
                             gw_cuda_found *of_shard, unsigned long long *least, cudaStream_t stream,
                             gw_err *err);

/* What gw_cuda_accumulator_add starts for a whole tensor of a shard of a step with so many, and nothing else:
 * on a stream from which a graph is recorded, whose sums are added or stored. */
bool gw_cuda_accumulator_record(gw_cuda_accumulator *accumulator, uint32_t shards, uint32_t tensor,
                                const float *floats, const int64_t *integers, gw_cuda_adding adding,
                                gw_cuda_found *of_shard, unsigned long long *least, cudaStream_t stream,
                                gw_err *err);
/* Starts what was recorded, both ways, as if it were added by gw_cuda_accumulator_add; not at all when the
 * accumulator was emptied since the entry was made. *started: the graph was, or was not to be; after a
 * failure without it the shard may still be added in pieces. Any thread. */
bool gw_cuda_accumulator_launch(gw_cuda_accumulator *accumulator, gw_entry *entry, const gw_cuda_graph *graph,
                                cudaStream_t stream, bool *started, gw_err *err);

/* Clears what is stale, fills headers and boundary, and returns the layout->words words of the sum, in the
 * GPU's memory. Waits. Nothing may be in flight or poisoned. */
bool gw_cuda_accumulator_settle(gw_cuda_accumulator *accumulator, cudaStream_t stream, int64_t **words,
                                gw_err *err);

#endif
