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

/* A block's values on their way from columns to rows: those of a column lie next to each other, those of a
 * row in different banks. */
struct turning {
    float value[COLUMN_THREADS][GW_CUDA_PART_ROWS + 1];
};

/* Rows of the block's part: where they begin and end. */
struct part {
    uint64_t begin, end;
};

__device__ part part_of_block(uint64_t rows) {
    uint64_t begin = (uint64_t)blockIdx.y * GW_CUDA_PART_ROWS, end = begin + GW_CUDA_PART_ROWS;
    return {begin, end < rows ? end : rows};
}

/* Writes the block's columns as rows, a warp one after the other. All threads take part. */
__device__ void put_turned(const turning &from, part p, uint64_t rows, uint64_t columns, float *turned) {
    __syncthreads();
    uint64_t first = (uint64_t)blockIdx.x * COLUMN_THREADS;
    unsigned count = (unsigned)(p.end - p.begin), lane = threadIdx.x % GW_WARP;
#pragma unroll 4
    for (unsigned c = threadIdx.x / GW_WARP; c < COLUMN_THREADS; c += COLUMN_THREADS / GW_WARP)
        if (first + c < columns)
            for (unsigned r = lane; r < count; r += GW_WARP)
                turned[(first + c) * rows + p.begin + r] = from.value[c][r];
}

/* What becomes of a gradient on its way down a layer. */
struct gating {
    const float *above, *active;
    gw_cuda_factor gradient;
    bool same; /* it is there already */
};

/* `batch` rows of a column: all are read before the first is written, as the arrays may be one. */
template <bool gated, bool turns, int batch>
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
        if (turns) kept[k] = value[k];
        sum += value[k];
    }
    return sum;
}

/* A thread goes down a column through the rows of one part. */
template <bool gated, bool turns>
__global__ void __launch_bounds__(COLUMN_THREADS)
    gate_kernel(uint64_t rows, uint64_t columns, gating of, float *__restrict__ turned,
                float *__restrict__ parts) {
    __shared__ turning tile; /* not there if nothing is turned, as nothing then reads it */
    uint64_t column = index();
    part p = part_of_block(rows);
    if (column < columns) {
        float sum = 0.0f, *kept = tile.value[threadIdx.x];
        uint64_t row = p.begin;
#pragma unroll 1
        for (; row + BATCH <= p.end; row += BATCH)
            sum = gate_rows<gated, turns, BATCH>(of, row, columns, column, kept + (row - p.begin), sum);
#pragma unroll 1
        for (; row < p.end; row++)
            sum = gate_rows<gated, turns, 1>(of, row, columns, column, kept + (row - p.begin), sum);
        parts[blockIdx.y * columns + column] = sum;
    }
    if (turns) put_turned(tile, p, rows, columns, turned);
}

__global__ void __launch_bounds__(COLUMN_THREADS)
    turn_kernel(uint64_t rows, uint64_t columns, const float *__restrict__ values,
                float *__restrict__ turned) {
    __shared__ turning tile;
    uint64_t column = index();
    part p = part_of_block(rows);
    if (column < columns) {
#pragma unroll 8
        for (uint64_t row = p.begin; row < p.end; row++)
            tile.value[threadIdx.x][row - p.begin] = values[row * columns + column];
    }
    put_turned(tile, p, rows, columns, turned);
}

dim3 column_grid(uint64_t rows, uint64_t columns) {
    return dim3(gw_cuda_blocks(columns, COLUMN_THREADS), (unsigned)gw_cuda_parts(rows));
}

void start_gate(uint64_t rows, uint64_t columns, const gating &gate, float *turned, float *parts,
                cudaStream_t stream) {
    dim3 grid = column_grid(rows, columns);
    if (gate.active != NULL && turned != NULL)
        GW_LAUNCH((gate_kernel<true, true>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate, turned,
                  parts);
    else if (gate.active != NULL)
        GW_LAUNCH((gate_kernel<true, false>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate, turned,
                  parts);
    else if (turned != NULL)
        GW_LAUNCH((gate_kernel<false, true>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate, turned,
                  parts);
    else
        GW_LAUNCH((gate_kernel<false, false>), grid, COLUMN_THREADS, 0, stream, rows, columns, gate, turned,
                  parts);
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
                         gw_cuda_factor gradient, float *turned, float *parts, float *sum,
                         cudaStream_t stream) {
    const gating of = {above, active, gradient, active == NULL && gradient.values == above};
    start_gate(rows, columns, of, turned, parts, stream);
    return gw_cuda_add_parts(gw_cuda_parts(rows), columns, parts, 1, &sum, stream);
}

cudaError_t gw_cuda_turn(uint64_t rows, uint64_t columns, const float *values, float *turned,
                         cudaStream_t stream) {
    GW_LAUNCH(turn_kernel, column_grid(rows, columns), COLUMN_THREADS, 0, stream, rows, columns, values,
              turned);
    return cudaGetLastError();
}
