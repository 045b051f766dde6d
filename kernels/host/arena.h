/* A bump allocator: it lays out arrays one after the other in a block of memory, on a host or a GPU. The
 * arrays are freed with the block. */
#ifndef GODWIT_KERNELS_HOST_ARENA_H
#define GODWIT_KERNELS_HOST_ARENA_H

#include <stddef.h>

typedef struct gw_arena {
    char *base; /* the block; NULL: bytes are only counted, and all arrays are NULL */
    size_t used;
    size_t alignment; /* of arrays, in bytes; the block is aligned at least so */
} gw_arena;

/* Returns an array of `bytes` bytes. The caller has made the block large enough. */
static inline void *gw_arena_array(gw_arena *arena, size_t bytes) {
    void *here = arena->base == NULL ? NULL : arena->base + arena->used;
    arena->used += (bytes + arena->alignment - 1) / arena->alignment * arena->alignment;
    return here;
}

static inline float *gw_arena_floats(gw_arena *arena, size_t count) {
    return gw_arena_array(arena, count * sizeof(float));
}

#endif
