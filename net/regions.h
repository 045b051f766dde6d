/* The memory that a peer exposes, the fence before it, and what operations do to it. The owner's side of
 * one-sided operations for backends that serve them by a thread (TCP, and shared memory's fallback).
 *
 * Not locked: whoever changes it has all serving threads shut out (their gates). */
#ifndef GODWIT_NET_REGIONS_H
#define GODWIT_NET_REGIONS_H

#include "net/transport.h"

typedef struct gw_region {
    gw_region_kind kind; /* 0: not in use */
    uint8_t *memory;
    uint64_t bytes;
} gw_region;

typedef struct gw_regions {
    gw_region list[GW_MAX_REGIONS];
    gw_fence fence;
    gw_peer_id *members; /* sorted */
    uint32_t member_count;
} gw_regions;

bool gw_regions_add(gw_regions *regions, uint32_t number, gw_region_kind kind, void *memory, uint64_t bytes,
                    gw_err *err);
void gw_regions_remove(gw_regions *regions, uint32_t number);
/* `members`: malloc'd, becomes the regions'; sorted here. The former array is returned, for the caller to
 * free when it has let the threads go on. */
gw_peer_id *gw_regions_fence(gw_regions *regions, const gw_fence *fence, gw_peer_id *members, uint32_t count);

/* The operations; checked against fence, membership, bounds, alignment and kind: GW_OP_OK, _MISMATCH, _FENCED
 * or _DENIED. READ and WRITE of words are atomic word by word. */
gw_op_status gw_regions_read(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             uint32_t region, uint64_t offset, uint64_t bytes, void *out);
gw_op_status gw_regions_write(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                              uint32_t region, uint64_t offset, uint64_t bytes, const void *in);
/* CAS and FETCH_ADD; *value = the word before. */
gw_op_status gw_regions_word(const gw_regions *regions, const gw_peer_id *peer, const gw_fence *fence,
                             gw_op_kind kind, uint32_t region, uint64_t offset, uint64_t expected,
                             uint64_t operand, uint64_t *value);

#endif
