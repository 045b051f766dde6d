/* A channel in shared memory: a ring for each direction, and a bell (an eventfd) for each side, which is rung
 * only if that side sleeps.
 *
 * The rings of a pair lie in one file, two for each stream: a page with positions, then the data. Only the
 * sender of a ring moves its head, and only the receiver its tail. Messages begin at multiples of 64 bytes:
 * the frame (net/rail/frame.h), zeros up to 128 bytes, and the payload, padded to a multiple of 64. */
#ifndef GODWIT_NET_SHM_CHANNEL_H
#define GODWIT_NET_SHM_CHANNEL_H

#include "net/rail/channel.h"

/* The size in bytes of the file of rings for `count` channels. */
uint64_t gw_shm_rings_bytes(uint32_t count);

/* Opens channel `index` of the file `rings`, which stays the caller's. `first` is true on the side that made
 * the file and false on the other. `bell` is this side's and `other` the other side's; both are taken, on
 * failure too. */
gw_channel *gw_shm_channel_open(int rings, uint32_t index, bool first, int bell, int other,
                                uint32_t payload_most, const gw_peer_id *peer, uint32_t rail, gw_err *err);

#endif
