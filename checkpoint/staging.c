#include "checkpoint/staging.h"

#include "core/base/assert.h"
#include "core/os/durable.h"
#include "core/state/chunk.h"

#include <stdlib.h>

bool gw_staging_init(gw_staging *pool, size_t bytes) {
    *pool = (gw_staging){.most = bytes / GW_CHUNK_BYTES};
    if (pool->most == 0) pool->most = 1;
    if (pool->most > GW_MAX_STATE_CHUNKS) pool->most = GW_MAX_STATE_CHUNKS;
    pool->idle = calloc(pool->most, sizeof *pool->idle);
    return pool->idle != NULL;
}

uint8_t *gw_staging_take(gw_staging *pool) {
    if (pool->idle_count > 0) return pool->idle[--pool->idle_count];
    if (pool->made == pool->most) return NULL;
    uint8_t *buffer = aligned_alloc(GW_DURABLE_ALIGN, GW_CHUNK_BYTES); /* aligned for O_DIRECT */
    if (buffer != NULL) pool->made++;
    return buffer;
}

void gw_staging_give(gw_staging *pool, uint8_t *buffer) {
    GW_ASSERT(buffer != NULL && pool->idle_count < pool->made);
    pool->idle[pool->idle_count++] = buffer;
}

void gw_staging_free(gw_staging *pool) {
    GW_ASSERT(pool->idle_count == pool->made);
    for (size_t i = 0; i < pool->idle_count; i++) free(pool->idle[i]);
    free(pool->idle);
    *pool = (gw_staging){0};
}
