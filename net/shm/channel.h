/* A channel in shared memory: a ring for each direction, and a bell (an eventfd) for each side, rung only
 * when that side sleeps.
 *
 * The rings of a pair lie in one file, two for each stream: a page with positions, then the data. Only the
 * sender of a ring moves its head, only the receiver its tail. Messages start at multiples of 64 bytes: frame
 * (net/rail/frame.h), zeros up to 128; payload, padded to 64. */
#ifndef GODWIT_NET_SHM_CHANNEL_H
#define GODWIT_NET_SHM_CHANNEL_H

#include "net/rail/channel.h"

/* The size of the file for `count` channels. */
uint64_t gw_shm_rings_bytes(uint32_t count);

/* Channel `index` of the file `rings`, which stays the caller's. `first`: this side is the one that made the
 * file; the other side says false. `bell` is this side's, `other` the other's; both are taken, also on
 * failure. */
gw_channel *gw_shm_channel_open(int rings, uint32_t index, bool first, int bell, int other,
                                uint32_t payload_most, const gw_peer_id *peer, uint32_t rail, gw_err *err);

#endif
