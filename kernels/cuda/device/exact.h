/* The sum format (core/state/exact.h) in a GPU's memory, at its speed: the same bits as on the processor. All
 * pointers are to the GPU's memory; every call only starts work on `stream` and returns how starting went.
 *
 * Integers alone are added atomically: their sums mod 2^64 have one value whatever the order. */
#ifndef GODWIT_KERNELS_CUDA_DEVICE_EXACT_H
#define GODWIT_KERNELS_CUDA_DEVICE_EXACT_H

#include "core/state/exact.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was found in a tensor so far; summed over pieces. */
typedef struct gw_cuda_found {
    unsigned long long fingerprint, bad;
} gw_cuda_found;

/* Where a bad element is: tensors below 2^12, elements below 2^44. The least of a shard is the first one. */
#define GW_CUDA_PLACE(tensor, element) ((unsigned long long)(tensor) << 44 | (unsigned long long)(element))
#define GW_CUDA_NO_PLACE               (~0ull)

/* A piece of a shard's contribution, all of one tensor. */
typedef struct gw_cuda_piece {
    gw_exact_format format;
    uint64_t first; /* element of the bucket that its first value is added to: chooses the keys */
    uint64_t count;
    unsigned long long place;  /* GW_CUDA_PLACE of its first value */
    gw_cuda_found *found;      /* of the tensor: what the piece has is added */
    gw_cuda_found *of_shard;   /* the same for the shard alone; NULL: nobody asks */
    unsigned long long *least; /* becomes the least place of a bad value, if that is less */
} gw_cuda_piece;

typedef enum gw_cuda_adding {
    GW_CUDA_ADD = 1,   /* sum += rounded values */
    GW_CUDA_STORE = 2, /* sum = rounded values: what was there counts as zero */
    GW_CUDA_LOOK = 3,  /* the sum is left alone and may be NULL: only `found` and `least` */
} gw_cuda_adding;

/* Rounds values[0 .. count) and adds them to sum[0 .. count), in one pass. */
cudaError_t gw_cuda_add_floats(const gw_cuda_piece *piece, gw_cuda_adding adding, const float *values,
                               int64_t *sum, cudaStream_t stream);
/* The same for whole numbers, which are shifted left by frac_bits. */
cudaError_t gw_cuda_add_integers(const gw_cuda_piece *piece, gw_cuda_adding adding, const int64_t *values,
                                 int64_t *sum, cudaStream_t stream);

/* *total += sum of words[i] * key of (first + i) mod 2^64, i < count, `words` aligned to 16 bytes: of sums,
 * as gw_exact_fingerprint, and of state, as gw_exact_state_fingerprint of 8 * count bytes. */
cudaError_t gw_cuda_fingerprint(uint64_t first, uint64_t count, const void *words, unsigned long long *total,
                                cudaStream_t stream);
cudaError_t gw_cuda_state_fingerprint(uint64_t first, uint64_t count, const void *words,
                                      unsigned long long *total, cudaStream_t stream);

/* As gw_exact_to_float. */
cudaError_t gw_cuda_to_floats(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values,
                              cudaStream_t stream);

/* The machine code of this program's kernels that the current GPU runs, as 10 * major + minor of the GPU it
 * was made for: 90. *compiled: the driver made it from PTX when the program started, so that its bits may
 * depend on the driver. */
cudaError_t gw_cuda_code(uint32_t *made_for, int *compiled);

#ifdef __cplusplus
}
#endif

#endif
