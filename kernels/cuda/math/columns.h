/* Sums of a matrix's columns on a GPU, in an order that depends on the sizes alone: the rows of each part one
 * after the other, then the parts. All start work on `stream`; arrays are the GPU's, row-major. */
#ifndef GODWIT_KERNELS_CUDA_MATH_COLUMNS_H
#define GODWIT_KERNELS_CUDA_MATH_COLUMNS_H

#include "kernels/cuda/math/factor.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows that one part of a column's sum has; parts for `rows` rows; most rows, whose parts a grid has room
 * for. */
enum { GW_CUDA_PART_ROWS = 64, GW_CUDA_COLUMN_ROWS = 65535 * GW_CUDA_PART_ROWS };
static inline uint64_t gw_cuda_parts(uint64_t rows) {
    return (rows + GW_CUDA_PART_ROWS - 1) / GW_CUDA_PART_ROWS;
}

/* sum[columns] = the sums of values [rows, columns], by way of parts[gw_cuda_parts(rows) * columns]. Arrays
 * aligned to 16 bytes. */
cudaError_t gw_cuda_sum_columns(uint64_t rows, uint64_t columns, gw_cuda_factor values, float *parts,
                                float *sum, cudaStream_t stream);

/* For each of a few arrays of parts [count, columns] that lie one after the other: sums[i][columns] = the
 * sums of the columns of array i. `sums` is the host's. */
enum { GW_CUDA_COLUMN_ARRAYS = 3 }; /* at most */
cudaError_t gw_cuda_add_parts(uint64_t count, uint64_t columns, const float *parts, uint32_t arrays,
                              float *const *sums, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
