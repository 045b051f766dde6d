/* Sums of a matrix's columns on a GPU, in an order that depends on the sizes alone: first the rows of each
 * part one after the other, then the parts. Calls start work on `stream`; arrays are in the GPU's memory,
 * row-major. */
#ifndef GODWIT_KERNELS_CUDA_MATH_COLUMNS_H
#define GODWIT_KERNELS_CUDA_MATH_COLUMNS_H

#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A part of a column's sum covers GW_CUDA_PART_ROWS rows; gw_cuda_parts is the number of parts for `rows`
 * rows. A grid has room for the parts of GW_CUDA_COLUMN_ROWS rows. */
enum { GW_CUDA_PART_ROWS = 64, GW_CUDA_COLUMN_ROWS = 65535 * GW_CUDA_PART_ROWS };
static inline uint64_t gw_cuda_parts(uint64_t rows) {
    return (rows + GW_CUDA_PART_ROWS - 1) / GW_CUDA_PART_ROWS;
}

/* Writes the column sums of values[rows, columns] to sum[columns]. `parts` is scratch for gw_cuda_parts(rows)
 * * columns floats. Arrays are aligned to 16 bytes. */
cudaError_t gw_cuda_sum_columns(uint64_t rows, uint64_t columns, gw_cuda_factor values, float *parts,
                                float *sum, cudaStream_t stream);

/* Writes the column sums of each of `arrays` arrays [count, columns], which lie one after the other in
 * `parts`, to sums[i][columns]. There are at most GW_CUDA_COLUMN_ARRAYS arrays. The array `sums` of pointers
 * is in host memory. */
enum { GW_CUDA_COLUMN_ARRAYS = 3 };
cudaError_t gw_cuda_add_parts(uint64_t count, uint64_t columns, const float *parts, uint32_t arrays,
                              float *const *sums, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
