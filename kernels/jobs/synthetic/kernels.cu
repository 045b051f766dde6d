#include "kernels/cuda/math/block.cuh"
#include "kernels/cuda/math/launch.cuh"
#include "kernels/jobs/synthetic/kernels.h"
#include "kernels/jobs/synthetic/noise.h"

namespace {

enum { THREADS = 256 };

__device__ uint64_t index() {
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ void cells_kernel(uint64_t key, uint64_t count, float *cells) {
    uint64_t i = index();
    if (i < count) cells[i] = synthetic_noise(key, i);
}

__global__ void digest_kernel(uint64_t count, int64_t *digest) {
    uint64_t i = index();
    if (i < count) digest[i] = (int64_t)i;
}

/* Thread t of the grid takes elements t, t + GW_CUDA_SYNTHETIC_PARTS * THREADS, ..., so that the order of
 * additions depends on `count` alone. */
__global__ void __launch_bounds__(THREADS)
    push_kernel(uint64_t key, uint64_t count, uint64_t bad, const float *__restrict__ cells,
                float *__restrict__ push, double *__restrict__ parts) {
    __shared__ double energies[THREADS];
    double energy = 0;
    for (uint64_t i = index(); i < count; i += (uint64_t)gridDim.x * THREADS) {
        float value = synthetic_push(key, i, cells[i]);
        energy += (double)value * value;
        push[i] = i == bad ? __int_as_float(0x7fc00000) : value;
    }
    energy = gw_block_tree(energy, energies);
    if (threadIdx.x == 0) parts[blockIdx.x] = energy;
}

__global__ void __launch_bounds__(THREADS) mean_kernel(uint64_t count, const double *parts, float *mean) {
    __shared__ double energies[THREADS];
    double energy = gw_block_tree(threadIdx.x < GW_CUDA_SYNTHETIC_PARTS ? parts[threadIdx.x] : 0, energies);
    if (threadIdx.x == 0) *mean = (float)(energy / (double)count);
}

__global__ void follow_kernel(uint64_t count, uint64_t pushed, const int64_t *__restrict__ push, double scale,
                              float *__restrict__ cells) {
    uint64_t i = index();
    if (i < count) cells[i] = synthetic_follow(cells[i], push[i % pushed], scale);
}

__global__ void chain_kernel(uint64_t words, uint64_t pushed, const int64_t *__restrict__ push,
                             const int64_t *counted, int64_t *digest) {
    uint64_t k = index();
    if (k >= words) return;
    uint64_t chain = (uint64_t)digest[k];
    for (uint64_t i = k; i < pushed; i += words) chain = synthetic_chain(chain, push[i]);
    digest[k] = (int64_t)synthetic_chain(chain, *counted);
}

} // namespace

cudaError_t gw_cuda_synthetic_cells(uint64_t key, uint64_t count, float *cells, cudaStream_t stream) {
    GW_LAUNCH(cells_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, key, count, cells);
    return cudaGetLastError();
}

cudaError_t gw_cuda_synthetic_digest(uint64_t count, int64_t *digest, cudaStream_t stream) {
    GW_LAUNCH(digest_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, count, digest);
    return cudaGetLastError();
}

cudaError_t gw_cuda_synthetic_push(uint64_t key, uint64_t count, uint64_t bad, const float *cells,
                                   float *push, double *parts, float *mean, cudaStream_t stream) {
    static_assert((int)GW_CUDA_SYNTHETIC_PARTS == (int)THREADS, "one block adds the parts");
    GW_LAUNCH(push_kernel, GW_CUDA_SYNTHETIC_PARTS, THREADS, 0, stream, key, count, bad, cells, push, parts);
    GW_LAUNCH(mean_kernel, 1, THREADS, 0, stream, count, parts, mean);
    return cudaGetLastError();
}

cudaError_t gw_cuda_synthetic_follow(uint64_t count, uint64_t pushed, const int64_t *push, double scale,
                                     float *cells, cudaStream_t stream) {
    GW_LAUNCH(follow_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, count, pushed, push, scale,
              cells);
    return cudaGetLastError();
}

cudaError_t gw_cuda_synthetic_chain(uint64_t words, uint64_t pushed, const int64_t *push,
                                    const int64_t *counted, int64_t *digest, cudaStream_t stream) {
    GW_LAUNCH(chain_kernel, gw_cuda_blocks(words, 32), 32, 0, stream, words, pushed, push, counted, digest);
    return cudaGetLastError();
}
