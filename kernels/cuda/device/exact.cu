/* A thread takes two neighbouring elements at a time, 8 bytes of floats and 16 of sums, so that a warp reads
 * and writes whole lines; PAIRS such loads are in flight before the first is used. A block processes a tile
 * and adds its fingerprint and bad count at the end, which takes one atomic operation for 16 Ki elements. */
#include "kernels/cuda/device/exact.h"
#include "kernels/cuda/math/launch.cuh"

namespace {

enum { THREADS = 256, PAIRS = 4, ROUND = THREADS * PAIRS * 2, ROUNDS = 8, TILE = ROUND * ROUNDS };

typedef unsigned long long word; /* the type that CUDA's atomics take */

__device__ word key_of(uint64_t i) {
    return gw_exact_key(i);
}

__device__ word sum_of_warp(word value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
    return value;
}

/* Adds the sum of the threads' values to *total and, unless it is NULL, to *other, with one atomic operation
 * each. All threads of the block call it. */
__device__ void add_of_block(word value, word *total, word *other) {
    __shared__ word of_warp[THREADS / 32];
    value = sum_of_warp(value);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = sum_of_warp(threadIdx.x < THREADS / 32 ? of_warp[threadIdx.x] : 0);
        if (threadIdx.x == 0) {
            atomicAdd(total, value);
            if (other != NULL) atomicAdd(other, value);
        }
    }
}

/* Rounds a value and tells whether it is good, as gw_exact_round does: the product is exact and is rounded
 * once. */
struct rounded_float {
    typedef float value;
    typedef float2 pair;
    double scale;
    float limit;
    __device__ bool round(float x, int64_t *q) const {
        bool good = fabsf(x) < limit; /* false for NaN */
        *q = good ? __double2ll_rn((double)x * scale) : 0;
        return good;
    }
};

/* Does what gw_exact_round_integer does; `most` is the bound before the shift. */
struct shifted_integer {
    typedef int64_t value;
    typedef longlong2 pair;
    int64_t most;
    uint32_t shift;
    __device__ bool round(int64_t x, int64_t *q) const {
        bool good = x < most && x > -most;
        *q = good ? (int64_t)((uint64_t)x << shift) : 0;
        return good;
    }
};

struct tally {
    word fingerprint, bad;
};

template <gw_cuda_adding adding, typename format>
__device__ void add_one(const gw_cuda_piece &piece, const format &how, typename format::value x, uint64_t i,
                        int64_t before, int64_t *after, tally *t) {
    int64_t q;
    if (!how.round(x, &q)) {
        t->bad++;
        atomicMin(piece.least, piece.place + i);
    }
    t->fingerprint += (word)q * key_of(piece.first + i);
    *after = adding == GW_CUDA_ADD ? (int64_t)((uint64_t)before + (uint64_t)q) : q;
}

/* Adds one round of a tile in pairs. The round lies wholly inside the piece. */
template <gw_cuda_adding adding, typename format>
__device__ void add_round(const gw_cuda_piece &piece, const format &how, const typename format::value *values,
                          int64_t *sum, uint64_t base, tally *t) {
    typename format::pair x[PAIRS];
    longlong2 s[PAIRS];
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        uint64_t i = base + 2 * (k * THREADS + threadIdx.x);
        x[k] = __ldcs(reinterpret_cast<const typename format::pair *>(values + i));
        if (adding == GW_CUDA_ADD) s[k] = __ldcs(reinterpret_cast<const longlong2 *>(sum + i));
    }
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        uint64_t i = base + 2 * (k * THREADS + threadIdx.x);
        int64_t left, right;
        add_one<adding>(piece, how, x[k].x, i, adding == GW_CUDA_ADD ? s[k].x : 0, &left, t);
        add_one<adding>(piece, how, x[k].y, i + 1, adding == GW_CUDA_ADD ? s[k].y : 0, &right, t);
        if (adding != GW_CUDA_PROBE)
            __stcs(reinterpret_cast<longlong2 *>(sum + i), make_longlong2(left, right));
    }
}

/* `paired` tells that pairs of values and of sums are aligned. */
template <gw_cuda_adding adding, typename format>
__global__ void __launch_bounds__(THREADS)
    add_kernel(gw_cuda_piece piece, format how, const typename format::value *__restrict__ values,
               int64_t *__restrict__ sum, bool paired) {
    uint64_t tile = (uint64_t)blockIdx.x * TILE;
    uint64_t end = piece.count - tile < TILE ? piece.count : tile + TILE;
    uint64_t base = tile;
    tally t = {0, 0};
    if (paired) {
#pragma unroll 1
        for (; base + ROUND <= end; base += ROUND) add_round<adding>(piece, how, values, sum, base, &t);
    }
#pragma unroll 1
    for (uint64_t i = base + threadIdx.x; i < end; i += THREADS) {
        int64_t after;
        add_one<adding>(piece, how, values[i], i, adding == GW_CUDA_ADD ? sum[i] : 0, &after, &t);
        if (adding != GW_CUDA_PROBE) sum[i] = after;
    }
    add_of_block(t.fingerprint, &piece.found->fingerprint,
                 piece.of_shard != NULL ? &piece.of_shard->fingerprint : NULL);
    if (t.bad > 0) { /* rare */
        atomicAdd(&piece.found->bad, t.bad);
        if (piece.of_shard != NULL) atomicAdd(&piece.of_shard->bad, t.bad);
    }
}

template <typename format>
cudaError_t add(const gw_cuda_piece *piece, gw_cuda_adding adding, const format &how,
                const typename format::value *values, int64_t *sum, cudaStream_t stream) {
    if (piece->count == 0) return cudaSuccess;
    unsigned blocks = gw_cuda_blocks(piece->count, TILE);
    bool paired = (uintptr_t)values % sizeof(typename format::pair) == 0 && (uintptr_t)sum % 16 == 0;
    switch (adding) {
    case GW_CUDA_ADD:
        GW_LAUNCH(add_kernel<GW_CUDA_ADD>, blocks, THREADS, 0, stream, *piece, how, values, sum, paired);
        break;
    case GW_CUDA_STORE:
        GW_LAUNCH(add_kernel<GW_CUDA_STORE>, blocks, THREADS, 0, stream, *piece, how, values, sum, paired);
        break;
    case GW_CUDA_PROBE:
        GW_LAUNCH(add_kernel<GW_CUDA_PROBE>, blocks, THREADS, 0, stream, *piece, how, values, sum, paired);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

/* A word's term of a fingerprint. `spread` is true for the words of a state (gw_exact_state_fingerprint). */
template <bool spread> __device__ word print_term(int64_t x, uint64_t i) {
    return (spread ? gw_exact_spread((uint64_t)x) : (word)x) * key_of(i);
}

template <bool spread>
__global__ void __launch_bounds__(THREADS)
    fingerprint_kernel(uint64_t first, uint64_t count, const int64_t *__restrict__ words, word *total) {
    uint64_t tile = (uint64_t)blockIdx.x * TILE;
    uint64_t end = count - tile < TILE ? count : tile + TILE;
    uint64_t base = tile;
    word sum = 0;
#pragma unroll 1
    for (; base + ROUND <= end; base += ROUND) {
        longlong2 x[PAIRS];
#pragma unroll
        for (int k = 0; k < PAIRS; k++)
            x[k] =
                __ldcs(reinterpret_cast<const longlong2 *>(words + base + 2 * (k * THREADS + threadIdx.x)));
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            uint64_t i = first + base + 2 * (k * THREADS + threadIdx.x);
            sum += print_term<spread>(x[k].x, i) + print_term<spread>(x[k].y, i + 1);
        }
    }
#pragma unroll 1
    for (uint64_t i = base + threadIdx.x; i < end; i += THREADS)
        sum += print_term<spread>(words[i], first + i);
    add_of_block(sum, total, NULL);
}

template <bool spread>
cudaError_t fingerprint(uint64_t first, uint64_t count, const void *words, word *total, cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(fingerprint_kernel<spread>, gw_cuda_blocks(count, TILE), THREADS, 0, stream, first, count,
              static_cast<const int64_t *>(words), total);
    return cudaGetLastError();
}

/* A warp takes one tensor after the other. */
__global__ void __launch_bounds__(THREADS)
    fingerprints_kernel(const gw_cuda_printed *__restrict__ table, uint32_t count, uint32_t without,
                        word *totals) {
    enum { WARPS = THREADS / 32 };
    word sum[2] = {0, 0};
    for (uint32_t i = blockIdx.x * WARPS + threadIdx.x / 32; i < count; i += gridDim.x * WARPS) {
        const gw_cuda_printed tensor = table[i];
        if (tensor.total == without) continue;
        word part = 0;
        for (uint64_t k = threadIdx.x % 32; k < tensor.count; k += 32)
            part += print_term<true>(tensor.words[k], tensor.first + k);
        sum[0] += tensor.total == 0 ? part : 0;
        sum[1] += tensor.total == 0 ? 0 : part;
    }
    add_of_block(sum[0], &totals[0], NULL);
    __syncthreads(); /* the first call's numbers of the warps have been read */
    add_of_block(sum[1], &totals[1], NULL);
}

__global__ void __launch_bounds__(THREADS)
    to_floats_kernel(double scale, uint64_t count, const int64_t *__restrict__ sum,
                     float *__restrict__ values) {
    uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) values[i] = (float)((double)sum[i] * scale);
}

} // namespace

cudaError_t gw_cuda_add_floats(const gw_cuda_piece *piece, gw_cuda_adding adding, const float *values,
                               int64_t *sum, cudaStream_t stream) {
    return add(piece, adding, rounded_float{piece->format.scale, piece->format.limit}, values, sum, stream);
}

cudaError_t gw_cuda_add_integers(const gw_cuda_piece *piece, gw_cuda_adding adding, const int64_t *values,
                                 int64_t *sum, cudaStream_t stream) {
    /* format.most is a power of two, so that the shift is exact or gives 0 */
    int64_t most = piece->format.most >> piece->format.frac_bits;
    return add(piece, adding, shifted_integer{most > 0 ? most : 1, piece->format.frac_bits}, values, sum,
               stream);
}

cudaError_t gw_cuda_fingerprint(uint64_t first, uint64_t count, const void *words, word *total,
                                cudaStream_t stream) {
    return fingerprint<false>(first, count, words, total, stream);
}

cudaError_t gw_cuda_state_fingerprints(const gw_cuda_printed *table, uint32_t count, uint32_t without,
                                       word *totals, cudaStream_t stream) {
    enum { EACH = 4 * THREADS / 32 }; /* tensors of a block */
    if (count == 0) return cudaSuccess;
    GW_LAUNCH(fingerprints_kernel, gw_cuda_blocks(count, EACH), THREADS, 0, stream, table, count, without,
              totals);
    return cudaGetLastError();
}

cudaError_t gw_cuda_state_fingerprint(uint64_t first, uint64_t count, const void *words, word *total,
                                      cudaStream_t stream) {
    return fingerprint<true>(first, count, words, total, stream);
}

cudaError_t gw_cuda_to_floats(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values,
                              cudaStream_t stream) {
    if (count == 0) return cudaSuccess;
    double scale = 1.0 / (double)((uint64_t)1 << frac_bits); /* a power of two: exact */
    GW_LAUNCH(to_floats_kernel, gw_cuda_blocks(count, THREADS), THREADS, 0, stream, scale, count, sum,
              values);
    return cudaGetLastError();
}

cudaError_t gw_cuda_code(uint32_t *made_for, int *compiled) {
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, fingerprint_kernel<false>);
    if (status != cudaSuccess) return status;
    *made_for = (uint32_t)attributes.binaryVersion;
    *compiled = 1;
    static const int built_for[] = {__CUDA_ARCH_LIST__}; /* 800, 900, ... */
    for (int one : built_for)
        if (one == 10 * attributes.binaryVersion) *compiled = 0;
    return cudaSuccess;
}
