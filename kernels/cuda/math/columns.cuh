/* Sums of the columns of a matrix that a `source` reads, and may compute and write on the way. A thread goes
 * down its columns through the rows of one part. */
#ifndef GODWIT_KERNELS_CUDA_MATH_COLUMNS_CUH
#define GODWIT_KERNELS_CUDA_MATH_COLUMNS_CUH

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/launch.cuh"

enum { GW_COLUMN_THREADS = 64, GW_COLUMN_BATCH = 4 };

/* Adds n columns of `count` rows whose first element is i. All rows are read before the first is finished,
 * since a source may write where it has read.
 *
 * A source has the type `element` of its factor, the type held<n> of what it reads for n neighbouring
 * elements, read(), which reads them, and finish(), which turns them into the values that are added. */
template <int n, int count, typename source>
__device__ void gw_add_rows(const source &from, uint64_t i, uint64_t columns, float (&sum)[n]) {
    typename source::template held<n> held[count];
#pragma unroll
    for (int r = 0; r < count; r++) from.read(i + r * columns, &held[r]);
#pragma unroll
    for (int r = 0; r < count; r++) {
        from.finish(i + r * columns, &held[r]);
#pragma unroll
        for (int k = 0; k < n; k++) sum[k] += held[r].value[k];
    }
}

template <int n, typename source>
__global__ void __launch_bounds__(GW_COLUMN_THREADS)
    gw_column_kernel(uint64_t rows, uint64_t columns, source from, float *__restrict__ parts) {
    uint64_t column = ((uint64_t)blockIdx.x * GW_COLUMN_THREADS + threadIdx.x) * n;
    if (column >= columns) return;
    uint64_t row = (uint64_t)blockIdx.y * GW_CUDA_PART_ROWS, end = row + GW_CUDA_PART_ROWS;
    if (end > rows) end = rows;
    float sum[n] = {};
#pragma unroll 1
    for (; row + GW_COLUMN_BATCH <= end; row += GW_COLUMN_BATCH)
        gw_add_rows<n, GW_COLUMN_BATCH>(from, row * columns + column, columns, sum);
#pragma unroll 1
    for (; row < end; row++) gw_add_rows<n, 1>(from, row * columns + column, columns, sum);
    gw_write(parts + blockIdx.y * columns + column, sum);
}

/* Sums the columns of `from` as gw_cuda_sum_columns does. */
template <typename source>
cudaError_t gw_column_sums(uint64_t rows, uint64_t columns, const source &from, float *parts, float *sum,
                           cudaStream_t stream) {
    constexpr int n = gw_at_once<typename source::element>;
    bool wide = columns % n == 0;
    dim3 grid(gw_cuda_blocks(columns, GW_COLUMN_THREADS * (wide ? n : 1)), (unsigned)gw_cuda_parts(rows));
    if (wide)
        GW_LAUNCH((gw_column_kernel<n, source>), grid, GW_COLUMN_THREADS, 0, stream, rows, columns, from,
                  parts);
    else
        GW_LAUNCH((gw_column_kernel<1, source>), grid, GW_COLUMN_THREADS, 0, stream, rows, columns, from,
                  parts);
    return gw_cuda_add_parts(gw_cuda_parts(rows), columns, parts, 1, &sum, stream);
}

#endif
