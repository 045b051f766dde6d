/* The sum format (core/state/exact.h) at memory speed. All implementations give the bits of the scalar
 * reference in core; the processor's instruction sets decide at run time which one is used, so that the
 * binary runs on every processor. Any thread, with the default floating-point mode (kernels/host/fpmode.h).
 */
#ifndef GODWIT_KERNELS_EXACT_EXACT_H
#define GODWIT_KERNELS_EXACT_EXACT_H

#include "core/state/exact.h"

typedef struct gw_exact_path {
    const char *name; /* "scalar", "avx2", "avx512" */
    /* Does what gw_exact_add does: rounds, adds, fingerprints and counts bad elements in one pass. */
    void (*add)(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                int64_t *sum, gw_exact_part *part);
    /* Does what gw_exact_fingerprint does. */
    uint64_t (*fingerprint)(uint64_t first, uint64_t count, const int64_t *data);
    /* Does what gw_exact_state_fingerprint does, for whole words. */
    uint64_t (*state_fingerprint)(uint64_t first, uint64_t count, const int64_t *words);
} gw_exact_path;

/* The implementations that this machine can run, slowest first: the scalar reference is the first. */
const gw_exact_path *const *gw_exact_paths(uint32_t *count);
/* The fastest implementation that this machine can run. */
const gw_exact_path *gw_exact_path_best(void);

/* Does what gw_exact_state_fingerprint does, at the speed of path->state_fingerprint. Bytes that are not
 * aligned to 8 are copied first. */
uint64_t gw_exact_hash_state(const gw_exact_path *path, uint64_t first_word, uint64_t count_bytes,
                             const void *bytes);

#endif
