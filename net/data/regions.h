/* The regions that a peer exposes, their fence, and the execution of operations on them: the owner's side of
 * the one-sided operations that its threads serve (those over TCP, and those that a path passes on).
 *
 * There is no lock: a thread that changes the regions holds the gates of all serving threads
 * (net/rail/thread.h). */
#ifndef GODWIT_NET_DATA_REGIONS_H
#define GODWIT_NET_DATA_REGIONS_H

#include "net/data/transport.h"
#include "net/data/words.h"

typedef struct gw_data_region {
    const uint8_t *memory; /* NULL: not in use */
    uint64_t bytes;
} gw_data_region;

typedef struct gw_regions {
    gw_data_region data[GW_MAX_REGIONS];
    gw_words *words; /* the words regions, which use numbers that no data region has */
    gw_fence fence;
    gw_peer_id *members; /* sorted */
    uint32_t member_count;
} gw_regions;

bool gw_regions_add(gw_regions *regions, uint32_t number, const void *memory, uint64_t bytes, gw_err *err);
void gw_regions_remove(gw_regions *regions, uint32_t number);
bool gw_regions_share(gw_regions *regions, uint32_t number, uint64_t count, gw_err *err);
/* Moves the fence. Takes `members`, which was allocated with malloc, and sorts it. Returns the former array,
 * which the caller frees when it has released the threads. */
gw_peer_id *gw_regions_fence(gw_regions *regions, const gw_fence *fence, gw_peer_id *members, uint32_t count);

/* The operations. They are checked against fence, membership, bounds, alignment and kind, and return
 * GW_OP_OK, GW_OP_MISMATCH, GW_OP_FENCED or GW_OP_DENIED. READ and WRITE of words are atomic for each
 * word. */
gw_op_status gw_regions_read(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             uint32_t region, uint64_t offset, uint64_t bytes, void *out);
gw_op_status gw_regions_write(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                              uint32_t region, uint64_t offset, uint64_t bytes, const void *in);
/* CAS and FETCH_ADD. *value becomes the word before. */
gw_op_status gw_regions_word(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             gw_op_kind kind, uint32_t region, uint64_t offset, uint64_t expected,
                             uint64_t operand, uint64_t *value);

#endif
