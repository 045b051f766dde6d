/* The bounded pool of chunk-sized buffers that snapshots are staged in. Not thread-safe: its owner (the
 * writer) guards it. Buffers are kept until the pool is freed: checkpoints come again and again. */
#ifndef GODWIT_CHECKPOINT_STAGING_H
#define GODWIT_CHECKPOINT_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_staging {
    uint8_t **idle;
    size_t idle_count, made, most;
} gw_staging;

/* A pool of at most `bytes`, but at least one buffer. False when out of memory. */
bool gw_staging_init(gw_staging *pool, size_t bytes);
/* A buffer of GW_CHUNK_BYTES, or NULL: all are out, or memory is. */
uint8_t *gw_staging_take(gw_staging *pool);
void gw_staging_give(gw_staging *pool, uint8_t *buffer);
/* All buffers must have been given back. */
void gw_staging_free(gw_staging *pool);

#endif
