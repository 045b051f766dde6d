/* Reads one block of shard payload from a peer that holds it: first the block's entry in the holder's
 * index, then the bytes, in pieces. Then their hash is compared with the entry: it differs if the holder
 * reused the slot meanwhile.
 *
 * A holder serves two regions: the *index*, one word a block (the slot's number plus 1 in the low 16 bits,
 * the hash of the bytes in the others; 0 when the block is not here), and the *slots*, one block each. No
 * code of the holder runs for it (net/data/transport.h). */
#ifndef GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_READ_H
#define GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_READ_H

#include "tools/godwit/work/data/links.h"

enum { GW_PAYLOAD_PIECE_BYTES = 1 << 20, GW_PAYLOAD_WINDOW = 4 /* pieces in flight */ };

/* The way to other peers: gw_data_links_post and gw_data_links_abandon. Called by any thread. */
typedef struct gw_payload_way {
    void *context;
    void (*post)(void *context, gw_op *request, gw_data_op *op);
    void (*abandon)(void *context, const gw_peer_id *peer);
    uint64_t patience_ns;        /* time without a piece arriving after which the peer is abandoned */
    _Atomic uint64_t *landed_ns; /* when a piece arrived last; gw_payloads_open sets the pointer */
} gw_payload_way;

typedef enum gw_payload_read_end {
    GW_PAYLOAD_READ_OK = 1,
    GW_PAYLOAD_READ_ABSENT, /* the peer does not have the block now */
    GW_PAYLOAD_READ_EARLY,  /* the peer is not linked or not in the view, as *err says */
    GW_PAYLOAD_READ_FAILED, /* *err says why */
} gw_payload_read_end;

/* Any thread that may wait. Reads block `shard` of `bytes` bytes, in slots that are `stride` apart, to
 * `into`, which is aligned to 8 bytes. Unless the result is OK, the bytes there are undefined. */
gw_payload_read_end gw_payload_read(const gw_payload_way *way, const gw_peer_id *peer, const gw_fence *fence,
                                    uint32_t shard, uint64_t bytes, uint64_t stride, void *into, gw_err *err);

/* The index entry of a block in slot `slot` (below GW_MAX_PAYLOADS). Hashes the bytes at memory speed;
 * `block` is aligned to 8 bytes. */
uint64_t gw_payload_entry(uint32_t slot, const void *block, uint64_t bytes);

#endif
