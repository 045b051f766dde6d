/* The sum format (core/state/exact.h) in a GPU's memory, at the memory's speed, with the processor's bits.
 * Pointers are to the GPU's memory. Calls start work on `stream` and return how the start went.
 *
 * Only integers are added atomically: their sums modulo 2^64 do not depend on the order. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_EXACT_H
#define GODWIT_KERNELS_CUDA_DEVICE_EXACT_H

#include "core/state/exact.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The fingerprint and the number of bad elements of a tensor, summed over pieces. */
typedef struct gw_cuda_found {
    unsigned long long fingerprint, bad;
} gw_cuda_found;

/* The position of a bad element, for tensors below 2^20 - 1 and elements below 2^44. The least position of a
 * shard is that of its first bad element. */
#define GW_CUDA_PLACE(tensor, element) ((unsigned long long)(tensor) << 44 | (unsigned long long)(element))
#define GW_CUDA_NO_PLACE               (~0ull)

/* A piece of a shard's contribution, all of one tensor. */
typedef struct gw_cuda_piece {
    gw_exact_format format;
    uint64_t first; /* element of the bucket that receives the piece's first value; selects the keys */
    uint64_t count;
    unsigned long long place;  /* GW_CUDA_PLACE of the first value */
    gw_cuda_found *found;      /* the tensor's, to which the piece's are added */
    gw_cuda_found *of_shard;   /* the shard's alone, to which they are also added; NULL: it has none */
    unsigned long long *least; /* becomes the place of the first bad value, if that is less */
} gw_cuda_piece;

typedef enum gw_cuda_adding {
    GW_CUDA_ADD = 1,   /* sum += rounded values */
    GW_CUDA_STORE = 2, /* sum = rounded values: the old sum counts as zero */
    GW_CUDA_PROBE = 3, /* updates only `found` and `least`; the sum is not touched and may be NULL */
} gw_cuda_adding;

/* Rounds values[0 .. count) and adds them to sum[0 .. count), in one pass. */
cudaError_t gw_cuda_add_floats(const gw_cuda_piece *piece, gw_cuda_adding adding, const float *values,
                               int64_t *sum, cudaStream_t stream);
/* Does the same for whole numbers, which are shifted left by frac_bits. */
cudaError_t gw_cuda_add_integers(const gw_cuda_piece *piece, gw_cuda_adding adding, const int64_t *values,
                                 int64_t *sum, cudaStream_t stream);

/* Add to *total the sum of words[i] * key(first + i) modulo 2^64 over i < count; `words` is aligned to
 * 16 bytes. For sums the result is that of gw_exact_fingerprint, for state that of gw_exact_state_fingerprint
 * over 8 * count bytes. */
cudaError_t gw_cuda_fingerprint(uint64_t first, uint64_t count, const void *words, unsigned long long *total,
                                cudaStream_t stream);
cudaError_t gw_cuda_state_fingerprint(uint64_t first, uint64_t count, const void *words,
                                      unsigned long long *total, cudaStream_t stream);

/* A small tensor of a state: its words, the index of the first in the state's fingerprint, and which of
 * the two totals it belongs to. */
typedef struct gw_cuda_printed {
    uint64_t first, count;
    const int64_t *words;
    uint64_t total; /* 0 or 1 */
} gw_cuda_printed;

/* Does what gw_cuda_state_fingerprint does for each of `count` tensors of a table on the GPU, all in one
 * start: many small tensors would take as many starts. `totals` are two; tensors of the total `without`
 * are left out (2: none is). */
cudaError_t gw_cuda_state_fingerprints(const gw_cuda_printed *table, uint32_t count, uint32_t without,
                                       unsigned long long *totals, cudaStream_t stream);

/* Does what gw_exact_to_float does. */
cudaError_t gw_cuda_to_floats(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values,
                              cudaStream_t stream);

/* Tells which machine code of this program's kernels the current GPU runs: *made_for is 10 * major + minor of
 * the GPU that it was made for, as 90. *compiled: the driver made it from PTX when the program started, so
 * its bits may depend on the driver. */
cudaError_t gw_cuda_code(uint32_t *made_for, int *compiled);

#ifdef __cplusplus
}
#endif

#endif
