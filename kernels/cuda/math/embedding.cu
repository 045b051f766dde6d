#include "kernels/cuda/math/embedding.h"

#include "kernels/cuda/math/dropout.cuh"
#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/launch.cuh"

namespace {

enum { THREADS = 256, AT_ONCE = 16 };

/* Each row has a block; a thread takes n neighbouring columns at a time. */
template <int n>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(gw_cuda_embedding shape, gw_dropping dropping, const uint32_t *__restrict__ tokens,
                   const float *__restrict__ words, const float *__restrict__ places,
                   float *__restrict__ residual) {
    uint64_t row = blockIdx.x, channels = shape.channels;
    uint32_t token = tokens[row];
    bool known = token < shape.vocabulary;
    const float *word = words + (known ? token : 0) * channels;
    const float *place = places + row % shape.positions * channels;
    for (uint64_t c = threadIdx.x * n; c < channels; c += blockDim.x * n) {
        float value[n], at[n];
        gw_read(word + c, value);
        gw_read(place + c, at);
#pragma unroll
        for (int k = 0; k < n; k++) value[k] = known ? value[k] + at[k] : __int_as_float(0x7fc00000);
        gw_drop(dropping, row * channels + c, value);
        gw_write(residual + row * channels + c, value);
    }
}

/* A thread adds n neighbouring columns of a position over all sequences. */
template <int n>
__global__ void __launch_bounds__(THREADS)
    places_kernel(gw_cuda_embedding shape, gw_dropping dropping, const float *__restrict__ delta,
                  float *__restrict__ dplaces) {
    uint64_t size = (uint64_t)shape.positions * shape.channels;
    uint64_t i = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) * n;
    if (i >= size) return;
    float sum[n];
    gw_read(delta + i, sum);
    gw_drop(dropping, i, sum);
    for (uint32_t s = 1; s < shape.sequences; s++) {
        float value[n];
        gw_read(delta + s * size + i, value);
        gw_drop(dropping, s * size + i, value);
#pragma unroll
        for (int k = 0; k < n; k++) sum[k] += value[k];
    }
    gw_write(dplaces + i, sum);
}

/* Adds column c of `count` rows: those that `order` lists from `first` on. All are read before the first is
 * added. */
template <int n, int count>
__device__ void add_rows(const gw_dropping &dropping, uint64_t channels, const uint32_t *order,
                         uint32_t first, uint64_t c, const float *delta, float (&sum)[n]) {
    float value[count][n];
#pragma unroll
    for (int r = 0; r < count; r++) {
        uint64_t i = order[first + r] * channels + c;
        gw_read(delta + i, value[r]);
        gw_drop(dropping, i, value[r]);
    }
#pragma unroll
    for (int r = 0; r < count; r++)
#pragma unroll
        for (int k = 0; k < n; k++) sum[k] += value[r][k];
}

/* Each token that occurs has a block. The remaining elements of `starts` are equal, and their blocks end at
 * once. */
template <int n>
__global__ void __launch_bounds__(THREADS)
    words_kernel(gw_dropping dropping, uint64_t channels, const uint32_t *__restrict__ tokens,
                 const uint32_t *__restrict__ order, const uint32_t *__restrict__ starts,
                 const float *__restrict__ delta, float *__restrict__ dwords) {
    uint32_t first = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    if (first == end) return;
    float *word = dwords + tokens[order[first]] * channels;
    for (uint64_t c = threadIdx.x * n; c < channels; c += blockDim.x * n) {
        float sum[n];
        gw_read(word + c, sum);
        uint32_t i = first;
#pragma unroll 1
        for (; i + AT_ONCE <= end; i += AT_ONCE)
            add_rows<n, AT_ONCE>(dropping, channels, order, i, c, delta, sum);
#pragma unroll 1
        for (; i < end; i++) add_rows<n, 1>(dropping, channels, order, i, c, delta, sum);
        gw_write(word + c, sum);
    }
}

bool takes(const gw_cuda_embedding *shape) {
    return shape->sequences > 0 && shape->positions > 0 && shape->channels > 0 && shape->vocabulary > 0;
}

/* The columns that a thread takes at once where their number is a multiple of it. */
enum { WIDE = 4 };

/* The number of threads of a row's block. */
unsigned row_threads(uint32_t channels) {
    unsigned warps = gw_cuda_blocks(channels, channels % WIDE == 0 ? 32 * WIDE : 32);
    return 32 * (warps < THREADS / 32 ? warps : (unsigned)THREADS / 32);
}

} // namespace

cudaError_t gw_cuda_embedding_forward(const gw_cuda_embedding *shape, const uint32_t *tokens,
                                      const float *words, const float *places, float *residual,
                                      cudaStream_t stream) {
    if (!takes(shape)) return cudaErrorInvalidValue;
    gw_dropping dropping = gw_dropping_of(shape->dropout, shape->drawn);
    unsigned rows = shape->sequences * shape->positions, threads = row_threads(shape->channels);
    if (shape->channels % WIDE == 0)
        GW_LAUNCH(forward_kernel<WIDE>, rows, threads, 0, stream, *shape, dropping, tokens, words, places,
                  residual);
    else
        GW_LAUNCH(forward_kernel<1>, rows, threads, 0, stream, *shape, dropping, tokens, words, places,
                  residual);
    return cudaGetLastError();
}

cudaError_t gw_cuda_embedding_positions(const gw_cuda_embedding *shape, const float *delta, float *dplaces,
                                        cudaStream_t stream) {
    if (!takes(shape)) return cudaErrorInvalidValue;
    gw_dropping dropping = gw_dropping_of(shape->dropout, shape->drawn);
    uint64_t size = (uint64_t)shape->positions * shape->channels;
    if (shape->channels % WIDE == 0)
        GW_LAUNCH(places_kernel<WIDE>, gw_cuda_blocks(size, THREADS * WIDE), THREADS, 0, stream, *shape,
                  dropping, delta, dplaces);
    else
        GW_LAUNCH(places_kernel<1>, gw_cuda_blocks(size, THREADS), THREADS, 0, stream, *shape, dropping,
                  delta, dplaces);
    return cudaGetLastError();
}

cudaError_t gw_cuda_embedding_tokens(const gw_cuda_embedding *shape, const uint32_t *tokens,
                                     const uint32_t *order, const uint32_t *starts, const float *delta,
                                     float *dwords, cudaStream_t stream) {
    if (!takes(shape)) return cudaErrorInvalidValue;
    gw_dropping dropping = gw_dropping_of(shape->dropout, shape->drawn);
    unsigned rows = shape->sequences * shape->positions, threads = row_threads(shape->channels);
    if (shape->channels % WIDE == 0)
        GW_LAUNCH(words_kernel<WIDE>, rows, threads, 0, stream, dropping, shape->channels, tokens, order,
                  starts, delta, dwords);
    else
        GW_LAUNCH(words_kernel<1>, rows, threads, 0, stream, dropping, shape->channels, tokens, order, starts,
                  delta, dwords);
    return cudaGetLastError();
}
