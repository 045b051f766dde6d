/* The blocks of shard payload in this peer's memory: slots of equal size.
 *
 * The address space for all blocks is reserved at once, so that no slot ever moves while a shard reads it;
 * memory is taken for as many slots as blocks are held. A slot gets another block only while the fence is
 * closed: a peer that read its old entry belongs to an older view, and is served no more.
 *
 * Threads: any, one at a time. There is no lock; the owner (payload.h) calls under its own. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_MEMORY_H
#define GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_MEMORY_H

#include "core/base/err.h"
#include "core/godwit.h"
#include "core/shard/holders.h"

typedef enum gw_block_state {
    GW_BLOCK_EMPTY = 0, /* its bytes are not here */
    GW_BLOCK_LOADING,   /* a thread writes them: the slot stays */
    GW_BLOCK_READY,
} gw_block_state;

typedef struct gw_block {
    uint32_t slot; /* UINT32_MAX = the block has none */
    uint32_t pins; /* number of shards that read the block now: the slot stays */
    gw_block_state state;
    bool wanted; /* this peer is one of the block's holders */
} gw_block;

typedef struct gw_payload_memory {
    uint32_t shards;
    uint64_t bytes, stride; /* of a block; from one slot to the next */
    uint8_t *slots;
    uint32_t capacity; /* slots that have memory */
    uint32_t *owner;   /* by slot: its block, or UINT32_MAX */
    gw_block *blocks;  /* by shard */
    /* Sets the entry of a block in the index that other peers read (read.h); 0 = the block is not here. */
    void (*publish)(void *context, uint32_t shard, uint64_t entry);
    void *context;
} gw_payload_memory;

/* The distance of slots for blocks of `bytes`: the next multiple of a cache line or, for blocks of a page
 * and more, of a page. */
uint64_t gw_payload_stride(uint64_t bytes);

/* Fails with GW_E_LIMIT if the plan has too many shards, or blocks of an impossible size. */
bool gw_payload_memory_open(gw_payload_memory *memory, const gw_payload_plan *plan,
                            void (*publish)(void *context, uint32_t shard, uint64_t entry), void *context,
                            gw_err *err);
void gw_payload_memory_close(gw_payload_memory *memory);

/* Marks the blocks that member `rank` holds as wanted, and gives each a slot. Blocks that were wanted
 * before keep theirs until gw_payload_memory_trim. The fence must be closed. Returns how many wanted
 * blocks have no slot for lack of memory; then *err says why. */
uint32_t gw_payload_memory_want(gw_payload_memory *memory, const gw_holders *holders, uint32_t rank,
                                gw_err *err);
/* Whether gw_payload_memory_trim would free something. */
bool gw_payload_memory_has_surplus(const gw_payload_memory *memory);
/* Gives up the blocks that are not wanted, and returns their memory to the kernel. The slots must not be
 * shared meanwhile. */
void gw_payload_memory_trim(gw_payload_memory *memory);

/* The block's slot; NULL = it has none. */
void *gw_payload_memory_block(const gw_payload_memory *memory, uint32_t shard);
/* The block has all its bytes: publishes its entry (gw_payload_entry), so that other peers may read it. */
void gw_payload_memory_ready(gw_payload_memory *memory, uint32_t shard, uint64_t entry);
/* The number of bytes from `slots` on that may be read. */
uint64_t gw_payload_memory_bytes(const gw_payload_memory *memory);

#endif
