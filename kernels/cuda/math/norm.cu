#include "kernels/cuda/math/norm.h"

/* The sum of a norm's block has 16 partial sums (kernels/math/norm.c), each with its own order of additions.
 * Eight threads, a team, compute two neighbouring partial sums each, and so read 16 bytes at a time. */
#include "kernels/cuda/math/launch.cuh"
#include "kernels/math/vmath.h"

namespace {

enum { THREADS = 256, PARTIALS = 16, TEAM = PARTIALS / 2, TEAMS = THREADS / TEAM, AT_ONCE = 8 };

typedef unsigned long long word; /* the type of CUDA's 64-bit atomics */

__device__ void add_square(double *partial, int64_t q, double scale) {
    double x = gw_int_to_double(q) * scale;
    *partial += x * x;
}

/* Adds the squares of `count` sums in the order of kernels/math/norm.c; the team's first thread gets the
 * result. `pair` is the thread's number in its team. */
__device__ double square_block(uint64_t count, const int64_t *sum, double scale, unsigned pair) {
    double even = 0.0, odd = 0.0;
    uint64_t i = 2 * pair;
#pragma unroll 1
    for (; i + (AT_ONCE - 1) * PARTIALS + 1 < count; i += AT_ONCE * PARTIALS) {
        longlong2 q[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            q[k] = __ldcs(reinterpret_cast<const longlong2 *>(sum + i + k * PARTIALS));
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            add_square(&even, q[k].x, scale);
            add_square(&odd, q[k].y, scale);
        }
    }
#pragma unroll 1
    for (; i < count; i += PARTIALS) {
        add_square(&even, sum[i], scale);
        if (i + 1 < count) add_square(&odd, sum[i + 1], scale);
    }
#pragma unroll
    for (int width = TEAM / 2; width > 0; width /= 2) {
        even += __shfl_down_sync(0xffffffffu, even, width, TEAM);
        odd += __shfl_down_sync(0xffffffffu, odd, width, TEAM);
    }
    return even + odd;
}

/* Each team takes a block of the norm. Then each of the words, which are 32 bits of the term, is added over
 * the teams of the GPU's block. */
__global__ void __launch_bounds__(THREADS)
    norm_kernel(uint64_t count, const int64_t *__restrict__ sum, double scale, word *words) {
    __shared__ word of_team[GW_NORM_WORDS][TEAMS];
    unsigned team = threadIdx.x / TEAM, pair = threadIdx.x % TEAM;
    uint64_t first = ((uint64_t)blockIdx.x * TEAMS + team) * GW_NORM_BLOCK;
    uint64_t n = first < count ? count - first : 0;
    if (n > GW_NORM_BLOCK) n = GW_NORM_BLOCK;
    double squares = square_block(n, sum + first, scale, pair);
    if (pair == 0) {
        gw_norm_term term = gw_norm_cut(squares);
        word low = term.high << 54 | term.low, high = term.high >> 10; /* the low part is below 2^54 */
        of_team[0][team] = low & 0xffffffffu;
        of_team[1][team] = low >> 32;
        of_team[2][team] = high & 0xffffffffu;
        of_team[3][team] = high >> 32;
    }
    __syncthreads();
    if (threadIdx.x >= GW_NORM_WORDS) return;
    word total = 0;
    for (int t = 0; t < TEAMS; t++) total += of_team[threadIdx.x][t];
    if (total != 0) atomicAdd(words + threadIdx.x, total);
}

} // namespace

cudaError_t gw_cuda_norm_add(uint64_t count, const int64_t *sum, double scale, int64_t *words,
                             cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(norm_kernel, gw_cuda_blocks(count, (uint64_t)TEAMS * GW_NORM_BLOCK), THREADS, 0, stream, count,
              sum, scale, reinterpret_cast<word *>(words));
    return cudaGetLastError();
}
