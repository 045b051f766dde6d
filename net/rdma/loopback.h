/* The owner's way to its own words: a queue pair of the device that is connected to itself. The atomics of a
 * device are atomic with each other, but not with the CPU's (unless it reports IBV_ATOMIC_GLOB). An owner
 * that used the CPU's would lose swaps of thieves, and they would lose its swaps.
 *
 * Reading a word needs no queue pair: 8 aligned bytes are read whole. */
#ifndef GODWIT_NET_RDMA_LOOPBACK_H
#define GODWIT_NET_RDMA_LOOPBACK_H

#include "net/rdma/queue.h"

typedef struct gw_rdma_loopback gw_rdma_loopback;

/* Opens and connects the queue pair. `memory` must outlive it. NULL on failure; GW_E_UNSUPPORTED if the
 * device has no atomics. */
gw_rdma_loopback *gw_rdma_loopback_open(gw_rdma_memory *memory, gw_err *err);
void gw_rdma_loopback_close(gw_rdma_loopback *loop);

/* Operations on a word. They wait for the device, some microseconds. `word` lies in a region that is
 * registered as GW_RDMA_WRITABLE with `rkey`; *found becomes the word before. Once the device has failed, or
 * has not answered for ten seconds, all operations fail. Any thread. */
bool gw_rdma_loopback_swap(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t expected,
                           uint64_t operand, uint64_t *found, gw_err *err);
bool gw_rdma_loopback_add(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t operand,
                          uint64_t *found, gw_err *err);
/* Stores by swaps, since a plain write is not atomic with them. */
bool gw_rdma_loopback_store(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t value,
                            uint64_t *found, gw_err *err);
/* Tests whether the device acts, by adding 0 to the word; waits for a second at most. Must come before any
 * other use. */
bool gw_rdma_loopback_prove(gw_rdma_loopback *loop, const void *word, uint32_t rkey, gw_err *err);

#endif
