/* An emitter that stores all emitted values and counts them. */
#ifndef GODWIT_TESTS_KERNELS_CATCHER_H
#define GODWIT_TESTS_KERNELS_CATCHER_H

#include "core/godwit.h"

enum { CATCHER_TENSORS = 64 };

typedef struct catcher {
    gw_emitter emitter; /* must be the first field: the emitter is cast to its catcher */
    uint32_t tensors;
    uint64_t size[CATCHER_TENSORS];
    float *values[CATCHER_TENSORS];
    uint8_t *times[CATCHER_TENSORS]; /* how often each element was emitted */
    uint32_t pieces[CATCHER_TENSORS];
    uint32_t order[1024]; /* the tensors of the first pieces, in the order of emission */
    uint32_t count;
} catcher;

/* Makes a catcher for tensors of these sizes. The caller frees it with catcher_free. */
catcher *catcher_make(uint32_t tensors, const uint64_t *size);
void catcher_free(catcher *c);
/* Checks that every element was emitted exactly once. */
void catcher_whole(const catcher *c);

#endif
