/* The bounded pool of chunk-sized buffers into which snapshots are staged. It has no lock of its own: its
 * owner, the writer, guards it. Buffers are kept until the pool is freed, because checkpoints recur. */
#ifndef GODWIT_CHECKPOINT_STAGING_H
#define GODWIT_CHECKPOINT_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_staging {
    uint8_t **idle;
    size_t idle_count, made, most;
} gw_staging;

/* Makes a pool of at most `bytes`, but of at least one buffer. Returns false when out of memory. */
bool gw_staging_init(gw_staging *pool, size_t bytes);
/* Returns a buffer of GW_CHUNK_BYTES, or NULL if all buffers are in use or memory is exhausted. */
uint8_t *gw_staging_take(gw_staging *pool);
/* Returns a buffer to the pool. */
void gw_staging_give(gw_staging *pool, uint8_t *buffer);
/* Frees the pool, to which all buffers must have been returned. */
void gw_staging_free(gw_staging *pool);

#endif
