/* The blocks of shard payload in this peer's memory: slots of equal size.
 *
 * The address space for all blocks is reserved at once, so that no slot ever moves while a shard reads it;
 * memory is taken for as many slots as blocks are held. A slot gets another block only while the fence is
 * closed: whoever read its old entry belongs to an older view, and is served no more.
 *
 * Not locked: all calls under the owner's lock. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_MEMORY_H
#define GODWIT_TOOLS_GODWIT_WORK_PAYLOAD_MEMORY_H

#include "core/base/err.h"
#include "core/godwit.h"
#include "core/shard/holders.h"

typedef enum gw_block_state {
    GW_BLOCK_EMPTY = 0, /* its bytes are not here */
    GW_BLOCK_LOADING,   /* somebody writes them: the slot stays */
    GW_BLOCK_READY,
} gw_block_state;

typedef struct gw_block {
    uint32_t slot; /* UINT32_MAX: none */
    uint32_t pins; /* shards that read it now: the slot stays */
    gw_block_state state;
    bool wanted; /* this peer is one of its holders */
} gw_block;

typedef struct gw_payload_memory {
    uint32_t shards;
    uint64_t bytes, stride;
    uint8_t *slots;
    uint32_t capacity; /* slots that have memory */
    uint32_t *owner;   /* by slot: its block, or UINT32_MAX */
    gw_block *blocks;
    /* Says where others find a block (read.h); 0 = here no more. */
    void (*publish)(void *context, uint32_t shard, uint64_t entry);
    void *context;
} gw_payload_memory;

/* The room of a block of `bytes`: the next multiple of a cache line, or of a page for blocks of a page and
 * more. */
uint64_t gw_payload_stride(uint64_t bytes);

bool gw_payload_memory_open(gw_payload_memory *memory, const gw_payload_plan *plan,
                            void (*publish)(void *context, uint32_t shard, uint64_t entry), void *context,
                            gw_err *err);
void gw_payload_memory_close(gw_payload_memory *memory);

/* Wants the blocks that `rank` holds, and gives each a slot. Blocks that were wanted before keep theirs until
 * gw_payload_memory_trim. The fence is closed. Returns how many of the wanted have no slot, for lack of
 * memory; *err says of what then. */
uint32_t gw_payload_memory_want(gw_payload_memory *memory, const gw_holders *holders, uint32_t rank,
                                gw_err *err);
/* Whether trim would free something. */
bool gw_payload_memory_has_surplus(const gw_payload_memory *memory);
/* Gives up blocks that are not wanted, and their memory to the kernel. The slots must not be shared
 * meanwhile. */
void gw_payload_memory_trim(gw_payload_memory *memory);

/* Where the block's bytes are, or are to be; NULL: it has no slot. */
void *gw_payload_memory_block(const gw_payload_memory *memory, uint32_t shard);
/* The block is whole: others may read it. entry: gw_payload_entry of it. */
void gw_payload_memory_ready(gw_payload_memory *memory, uint32_t shard, uint64_t entry);
/* Bytes from `slots` on that may be read. */
uint64_t gw_payload_memory_bytes(const gw_payload_memory *memory);

#endif
