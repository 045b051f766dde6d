/* The channel of a rail over a queue pair (net/rail/channel.h). Messages go through slots: the sender WRITEs
 * each with an immediate into the next slot of the receiver, who copies from there to its place and gives the
 * slot back. The immediate of everything that is sent says how many slots its sender has given back so far
 * (mod 2^32).
 *
 * A message begins a slot: frame (net/rail/frame.h), zeros up to 128 bytes; payload. What does not fit goes
 * on at the beginning of the next slots. */
#ifndef GODWIT_NET_RDMA_CHANNEL_H
#define GODWIT_NET_RDMA_CHANNEL_H

#include "net/rail/channel.h"
#include "net/rdma/queue.h"

/* Where a side's slots are: what the other must be told. */
typedef struct gw_rdma_slots {
    uint64_t address;
    uint32_t rkey, slot_bytes, count;
} gw_rdma_slots;

/* A channel without a peer yet: with slots, and a queue pair to be connected. Holds `memory`. NULL on
 * failure. */
gw_channel *gw_rdma_channel_open(gw_rdma_memory *memory, uint32_t payload_most, gw_err *err);
gw_rdma_queue *gw_rdma_channel_queue(gw_channel *channel);
gw_rdma_slots gw_rdma_channel_slots(const gw_channel *channel);
/* The other side's slots. False: they make no sense for this channel. */
bool gw_rdma_channel_aim(gw_channel *channel, const gw_rdma_slots *theirs, gw_err *err);

#endif
