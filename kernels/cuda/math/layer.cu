#include "kernels/cuda/math/layer.h"

#include "kernels/cuda/math/block.cuh"
#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/launch.cuh"

namespace {

enum { THREADS = 256, COLUMN_THREADS = 128, BATCH = 8 };

__device__ uint64_t index() {
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ void write(gw_cuda_factor to, uint64_t i, float value) {
    if (to.bf16)
        gw_narrow(value, static_cast<uint16_t *>(to.values) + i);
    else
        gw_narrow(value, static_cast<float *>(to.values) + i);
}

__global__ void __launch_bounds__(THREADS)
    normalise_kernel(uint64_t count, const uint8_t *__restrict__ pixels, float scale, float shift,
                     gw_cuda_factor values) {
    uint64_t i = index();
    if (i < count) write(values, i, (float)pixels[i] * scale + shift);
}

__global__ void __launch_bounds__(THREADS)
    to_bf16_kernel(uint64_t pairs, const float2 *__restrict__ values, ushort2 *__restrict__ rounded) {
    uint64_t i = index();
    if (i >= pairs) return;
    float2 x = values[i];
    ushort2 narrow;
    gw_narrow(x.x, &narrow.x);
    gw_narrow(x.y, &narrow.y);
    rounded[i] = narrow;
}

__global__ void last_to_bf16_kernel(uint64_t i, const float *values, uint16_t *rounded) {
    gw_narrow(values[i], rounded + i);
}

/* The tile in which a block transposes its values: those of a column are neighbours, and those of a row lie
 * in different banks. */
struct transpose_tile {
    float value[COLUMN_THREADS][GW_CUDA_PART_ROWS + 1];
};

/* The rows of the block's part: from `begin` to before `end`. */
struct part {
    uint64_t begin, end;
};

__device__ part part_of_block(uint64_t rows) {
    uint64_t begin = (uint64_t)blockIdx.y * GW_CUDA_PART_ROWS, end = begin + GW_CUDA_PART_ROWS;
    return {begin, end < rows ? end : rows};
}

/* Writes the block's columns as rows; a warp takes one after the other. All threads of the block call it. */
__device__ void write_transposed(const transpose_tile &from, part p, uint64_t rows, uint64_t columns,
                                 float *transposed) {
    __syncthreads();
    uint64_t first = (uint64_t)blockIdx.x * COLUMN_THREADS;
    unsigned count = (unsigned)(p.end - p.begin), lane = threadIdx.x % GW_WARP;
#pragma unroll 4
    for (unsigned c = threadIdx.x / GW_WARP; c < COLUMN_THREADS; c += COLUMN_THREADS / GW_WARP)
        if (first + c < columns)
            for (unsigned r = lane; r < count; r += GW_WARP)
                transposed[(first + c) * rows + p.begin + r] = from.value[c][r];
}

/* The arrays of gw_cuda_gate. */
struct gating {
    const float *above, *active;
    gw_cuda_factor gradient;
    bool same; /* `above` is the result, which lies in `gradient` already */
};

/* Processes `batch` rows of a column and adds them to `sum`. All are read before the first is written, since
 * the arrays may be the same. */
template <bool gated, bool transposes, int batch>
__device__ float gate_rows(const gating &of, uint64_t first, uint64_t columns, uint64_t column, float *kept,
                           float sum) {
    float value[batch], gate[batch];
#pragma unroll
    for (int k = 0; k < batch; k++) {
        uint64_t i = (first + k) * columns + column;
        value[k] = of.above[i];
        if (gated) gate[k] = of.active[i];
    }
#pragma unroll
    for (int k = 0; k < batch; k++) {
        if (gated) value[k] = gate[k] > 0.0f ? value[k] : 0.0f;
        if (!of.same) write(of.gradient, (first + k) * columns + column, value[k]);
        if (transposes) kept[k] = value[k];
        sum += value[k];
    }
    return sum;
}

/* A thread goes down a column through the rows of one part. */
template <bool gated, bool transposes>
__global__ void __launch_bounds__(COLUMN_THREADS)
    gate_kernel(uint64_t rows, uint64_t columns, gating of, float *__restrict__ transposed,
                float *__restrict__ parts) {
    __shared__ transpose_tile
        tile; /* takes no memory where nothing is transposed, since nothing reads it then */
    uint64_t column = index();
    part p = part_of_block(rows);
    if (column < columns) {
        float sum = 0.0f, *kept = tile.value[threadIdx.x];
        uint64_t row = p.begin;
#pragma unroll 1
        for (; row + BATCH <= p.end; row += BATCH)
            sum = gate_rows<gated, transposes, BATCH>(of, row, columns, column, kept + (row - p.begin), sum);
#pragma unroll 1
        for (; row < p.end; row++)
            sum = gate_rows<gated, transposes, 1>(of, row, columns, column, kept + (row - p.begin), sum);
        parts[blockIdx.y * columns + column] = sum;
    }
    if (transposes) write_transposed(tile, p, rows, columns, transposed);
}

__global__ void __launch_bounds__(COLUMN_THREADS)
    transpose_kernel(uint64_t rows, uint64_t columns, const float *__restrict__ values,
                     float *__restrict__ transposed) {
    __shared__ transpose_tile tile;
    uint64_t column = index();
    part p = part_of_block(rows);
    if (column < columns) {
#pragma unroll 8
        for (uint64_t row = p.begin; row < p.end; row++)
            tile.value[threadIdx.x][row - p.begin] = values[row * columns + column];
    }
    write_transposed(tile, p, rows, columns, transposed);
}

dim3 column_grid(uint64_t rows, uint64_t columns) {
    return dim3(gw_cuda_blocks(columns, COLUMN_THREADS), (unsigned)gw_cuda_parts(rows));
}

void start_gate(uint64_t rows, uint64_t columns, const gating &gate, float *transposed, float *parts,
                cudaStream_t stream) {
    dim3 grid = column_grid(rows, columns);
    if (gate.active != NULL && transposed != NULL)
        GW_LAUNCH((gate_kernel<true, true>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate, transposed,
                  parts);
    else if (gate.active != NULL)
        GW_LAUNCH((gate_kernel<true, false>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate,
                  transposed, parts);
    else if (transposed != NULL)
        GW_LAUNCH((gate_kernel<false, true>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate,
                  transposed, parts);
    else
        GW_LAUNCH((gate_kernel<false, false>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate,
                  transposed, parts);
}

} // namespace

cudaError_t gw_cuda_normalise(uint64_t count, const uint8_t *pixels, float scale, float shift,
                              gw_cuda_factor values, cudaStream_t stream) {
    GW_LAUNCH(normalise_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, count, pixels, scale,
              shift, values);
    return cudaGetLastError();
}

cudaError_t gw_cuda_to_bf16(uint64_t count, const float *values, uint16_t *rounded, cudaStream_t stream) {
    uint64_t pairs = count / 2;
    if (pairs > 0)
        GW_LAUNCH(to_bf16_kernel, gw_cuda_blocks(pairs, THREADS), THREADS, 0, stream, pairs,
                  reinterpret_cast<const float2 *>(values), reinterpret_cast<ushort2 *>(rounded));
    if (count % 2 != 0) GW_LAUNCH(last_to_bf16_kernel, 1, 1, 0, stream, count - 1, values, rounded);
    return cudaGetLastError();
}

cudaError_t gw_cuda_gate(uint64_t rows, uint64_t columns, const float *above, const float *active,
                         gw_cuda_factor gradient, float *transposed, float *parts, float *sum,
                         cudaStream_t stream) {
    const gating of = {above, active, gradient, active == NULL && gradient.values == above};
    start_gate(rows, columns, of, transposed, parts, stream);
    return gw_cuda_add_parts(gw_cuda_parts(rows), columns, parts, 1, &sum, stream);
}

cudaError_t gw_cuda_transpose(uint64_t rows, uint64_t columns, const float *values, float *transposed,
                              cudaStream_t stream) {
    GW_LAUNCH(transpose_kernel, column_grid(rows, columns), COLUMN_THREADS, 0, stream, rows, columns, values,
              transposed);
    return cudaGetLastError();
}
