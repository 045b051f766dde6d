#include "kernels/cuda/math/columns.cuh"
#include "kernels/cuda/math/columns.h"

namespace {

enum { SUM_COLUMNS = 32, SUM_GROUPS = 8, SUM_BATCH = 16 };

template <typename T> struct unchanged {
    typedef T element;
    template <int n> struct held { float value[n]; };
    const T *values;
    template <int n> __device__ void read(uint64_t i, held<n> *to) const { gw_read(values + i, to->value); }
    template <int n> __device__ void finish(uint64_t, held<n> *) const {}
};

template <typename T>
cudaError_t sum_columns(uint64_t rows, uint64_t columns, const void *values, float *parts, float *sum,
                        cudaStream_t stream) {
    return gw_column_sums(rows, columns, unchanged<T>{static_cast<const T *>(values)}, parts, sum, stream);
}

struct column_sums {
    float *of[GW_CUDA_COLUMN_ARRAYS];
};

/* The sum of parts group, group + SUM_GROUPS, ..., in order. A batch is read before its first part is added:
 * read one after the other, each part would wait for memory. */
__device__ float sum_of_group(uint64_t count, uint64_t columns, const float *part, unsigned group) {
    float sum = 0.0f;
    uint64_t p = group;
#pragma unroll 1
    for (; p + (SUM_BATCH - 1) * SUM_GROUPS < count; p += SUM_BATCH * SUM_GROUPS) {
        float value[SUM_BATCH];
#pragma unroll
        for (int k = 0; k < SUM_BATCH; k++) value[k] = part[(p + k * SUM_GROUPS) * columns];
#pragma unroll
        for (int k = 0; k < SUM_BATCH; k++) sum += value[k];
    }
#pragma unroll 1
    for (; p < count; p += SUM_GROUPS) sum += part[p * columns];
    return sum;
}

/* Group g of a column's threads adds parts g, g + SUM_GROUPS, ...; the groups' sums are then added in order.
 */
__global__ void __launch_bounds__(SUM_COLUMNS *SUM_GROUPS)
    add_parts_kernel(uint64_t count, uint64_t columns, const float *__restrict__ parts, column_sums sums) {
    __shared__ float groups[SUM_GROUPS][SUM_COLUMNS];
    unsigned within = threadIdx.x % SUM_COLUMNS, group = threadIdx.x / SUM_COLUMNS;
    uint64_t column = (uint64_t)blockIdx.x * SUM_COLUMNS + within;
    float sum = 0.0f;
    if (column < columns)
        sum = sum_of_group(count, columns, parts + blockIdx.y * count * columns + column, group);
    groups[group][within] = sum;
    __syncthreads();
    if (group != 0 || column >= columns) return;
    sum = groups[0][within];
#pragma unroll
    for (int g = 1; g < SUM_GROUPS; g++) sum += groups[g][within];
    float *to = sums.of[0];
#pragma unroll
    for (unsigned i = 1; i < GW_CUDA_COLUMN_ARRAYS; i++)
        if (blockIdx.y == i) to = sums.of[i];
    to[column] = sum;
}

} // namespace

cudaError_t gw_cuda_add_parts(uint64_t count, uint64_t columns, const float *parts, uint32_t arrays,
                              float *const *sums, cudaStream_t stream) {
    column_sums to = {};
    if (arrays > GW_CUDA_COLUMN_ARRAYS) return cudaErrorInvalidValue;
    for (uint32_t i = 0; i < arrays; i++) to.of[i] = sums[i];
    dim3 grid(gw_cuda_blocks(columns, SUM_COLUMNS), arrays);
    GW_LAUNCH(add_parts_kernel, grid, SUM_COLUMNS * SUM_GROUPS, 0, stream, count, columns, parts, to);
    return cudaGetLastError();
}

cudaError_t gw_cuda_sum_columns(uint64_t rows, uint64_t columns, gw_cuda_factor values, float *parts,
                                float *sum, cudaStream_t stream) {
    return values.bf16 ? sum_columns<uint16_t>(rows, columns, values.values, parts, sum, stream)
                       : sum_columns<float>(rows, columns, values.values, parts, sum, stream);
}
