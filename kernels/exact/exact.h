/* The sum format (core/state/exact.h) at memory speed. All paths give the same bits as the scalar reference
 * in core; which one runs is chosen by what the processor has, so the binary stays baseline. Any thread, with
 * the default floating-point mode (kernels/host/fpmode.h). */
#ifndef GODWIT_KERNELS_EXACT_EXACT_H
#define GODWIT_KERNELS_EXACT_EXACT_H

#include "core/state/exact.h"

typedef struct gw_exact_path {
    const char *name; /* "scalar", "avx2", "avx512" */
    /* As gw_exact_add: rounds, adds, fingerprints and counts bad elements in one pass. */
    void (*add)(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                int64_t *sum, gw_exact_part *part);
    /* As gw_exact_fingerprint. */
    uint64_t (*fingerprint)(uint64_t first, uint64_t count, const int64_t *data);
    /* As gw_exact_state_fingerprint, of whole words. */
    uint64_t (*state_fingerprint)(uint64_t first, uint64_t count, const int64_t *words);
} gw_exact_path;

/* The paths that this machine can run, the scalar reference first and the fastest last. */
const gw_exact_path *const *gw_exact_paths(uint32_t *count);
/* The fastest. */
const gw_exact_path *gw_exact_path_best(void);

/* As gw_exact_state_fingerprint, at the speed of path->state_fingerprint; bytes aligned to 8 are not copied.
 */
uint64_t gw_exact_hash_state(const gw_exact_path *path, uint64_t first_word, uint64_t count_bytes,
                             const void *bytes);

#endif
