/* The owner's way to its own words: a queue pair of the device connected to itself. Atomics of one device are
 * atomic to each other, and only to each other (unless it says IBV_ATOMIC_GLOB): an owner that used its
 * processor's would lose swaps of thieves, and they its.
 *
 * Reading a word needs none of this: 8 aligned bytes are read whole. */
#ifndef GODWIT_NET_RDMA_LOOPBACK_H
#define GODWIT_NET_RDMA_LOOPBACK_H

#include "net/rdma/queue.h"

typedef struct gw_rdma_loopback gw_rdma_loopback;

/* `memory` outlives it. NULL on failure; GW_E_UNSUPPORTED when the device has no atomics. */
gw_rdma_loopback *gw_rdma_loopback_open(gw_rdma_memory *memory, gw_err *err);
void gw_rdma_loopback_close(gw_rdma_loopback *loop);

/* Any thread; they wait for the device, some microseconds. `word` lies in a region registered as
 * GW_RDMA_WRITABLE with `rkey`. *found = the word before. Once the device has failed, or has not answered for
 * ten seconds, all fail. */
bool gw_rdma_loopback_swap(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t expected,
                           uint64_t operand, uint64_t *found, gw_err *err);
bool gw_rdma_loopback_add(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t operand,
                          uint64_t *found, gw_err *err);
/* By swaps: a plain write is not atomic to them. */
bool gw_rdma_loopback_store(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t value,
                            uint64_t *found, gw_err *err);
/* Whether the device acts: adds nothing to the word, and waits for a second at most. Before any other use. */
bool gw_rdma_loopback_prove(gw_rdma_loopback *loop, const void *word, uint32_t rkey, gw_err *err);

#endif
