/* The channel of a rail over a queue pair (net/rail/channel.h). Messages go through slots: the sender WRITEs
 * each with an immediate into the next slot of the receiver, which copies the message to its place and gives
 * the slot back. The immediate of everything sent tells how many slots its sender has given back so far (mod
 * 2^32).
 *
 * A message begins a slot: its frame (net/rail/frame.h), zeros up to 128 bytes, and the payload. What does
 * not fit continues at the beginning of the next slots. */
#ifndef GODWIT_NET_RDMA_CHANNEL_H
#define GODWIT_NET_RDMA_CHANNEL_H

#include "net/rail/channel.h"
#include "net/rdma/queue.h"

/* The slots of one side, as the other side must know them. */
typedef struct gw_rdma_slots {
    uint64_t address;
    uint32_t rkey, slot_bytes, count;
} gw_rdma_slots;

/* Opens a channel without a peer, with slots and a queue pair that is to be connected. Holds `memory`. NULL
 * on failure. */
gw_channel *gw_rdma_channel_open(gw_rdma_memory *memory, uint32_t payload_most, gw_err *err);
gw_rdma_queue *gw_rdma_channel_queue(gw_channel *channel);
gw_rdma_slots gw_rdma_channel_slots(const gw_channel *channel);
/* Sets the slots of the other side. False if they do not fit this channel. */
bool gw_rdma_channel_aim(gw_channel *channel, const gw_rdma_slots *theirs, gw_err *err);

#endif
