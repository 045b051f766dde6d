#include "kernels/cuda/math/layernorm.h"

/* A block takes whole rows, a few at a time. A thread has the same four columns of each row in registers, so
 * that sums over rows need no memory until a part's end, and everything is read once. */
#include "kernels/cuda/math/block.cuh"
#include "kernels/cuda/math/dropout.cuh"
#include "kernels/cuda/math/factor.cuh"
#include "kernels/cuda/math/launch.cuh"
#include "kernels/math/layernorm.h"

namespace {

enum { OWN = 4 }; /* number of a thread's columns */

/* A thread's columns: four neighbours, or, where rows are not a multiple of that, four that lie a block's
 * width apart. What lies outside of a row reads as 0 and is not written. */
template <bool whole> struct columns {
    uint32_t count;
    __device__ uint32_t at(int k) const {
        return whole ? OWN * threadIdx.x + k : threadIdx.x + k * blockDim.x;
    }
    __device__ bool has(int k) const { return at(k) < count; }

    template <typename T> __device__ void read(const T *row, float (&to)[OWN]) const {
#pragma unroll
        for (int k = 0; k < OWN; k++) to[k] = 0.0f;
        if constexpr (whole) {
            if (has(0)) gw_read(row + at(0), to);
        } else {
#pragma unroll
            for (int k = 0; k < OWN; k++)
                if (has(k)) to[k] = gw_wide(row[at(k)]);
        }
    }

    template <typename T> __device__ void write(T *row, const float (&from)[OWN]) const {
        if constexpr (whole) {
            if (has(0)) gw_write(row + at(0), from);
        } else {
#pragma unroll
            for (int k = 0; k < OWN; k++)
                if (has(k)) gw_narrow(from[k], row + at(k));
        }
    }

    /* Drops or scales the columns of the row whose first element is dropout's element `first`. */
    __device__ void drop(const gw_dropping &dropping, uint64_t first, float (&value)[OWN]) const {
        if constexpr (whole) {
            gw_drop(dropping, first + at(0), value);
        } else {
#pragma unroll
            for (int k = 0; k < OWN; k++) {
                float one[1] = {value[k]};
                gw_drop(dropping, first + at(k), one);
                value[k] = one[0];
            }
        }
    }
};

__device__ float total(const float (&value)[OWN]) {
    return (value[0] + value[1]) + (value[2] + value[3]);
}

template <typename T> struct forward_arrays {
    gw_cuda_layernorm norm;
    const float *x;
    const T *branch; /* NULL: nothing is added */
    gw_dropping dropping;
    float *sum;
    T *y;
};

template <typename T, bool whole, int batch, int threads>
__global__ void __launch_bounds__(threads) forward_kernel(forward_arrays<T> a) {
    __shared__ gw_block_scratch<batch> room_of_sums, room_of_squares;
    uint64_t first = (uint64_t)blockIdx.x * batch, channels = a.norm.channels;
    columns<whole> mine = {a.norm.channels};
    float value[batch][OWN], mean[batch], scale[batch];
#pragma unroll
    for (int r = 0; r < batch; r++) {
        uint64_t row = first + r;
        if (row >= a.norm.rows) row = a.norm.rows - 1; /* the last row is read again and not written */
        mine.read(a.x + row * channels, value[r]);
        if (a.branch != NULL) {
            float branch[OWN];
            mine.read(a.branch + row * channels, branch);
            mine.drop(a.dropping, row * channels, branch);
#pragma unroll
            for (int k = 0; k < OWN; k++) value[r][k] += branch[k];
        }
        mean[r] = total(value[r]);
    }
    gw_block_sums(mean, &room_of_sums);
#pragma unroll
    for (int r = 0; r < batch; r++) {
        mean[r] /= (float)channels;
        float squares[OWN];
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            float d = mine.has(k) ? value[r][k] - mean[r] : 0.0f;
            squares[k] = d * d;
        }
        scale[r] = total(squares);
    }
    gw_block_sums(scale, &room_of_squares);
    float weight[OWN], bias[OWN];
    mine.read(a.norm.weight, weight);
    mine.read(a.norm.bias, bias);
#pragma unroll
    for (int r = 0; r < batch; r++) {
        uint64_t row = first + r;
        if (row >= a.norm.rows) return;
        scale[r] = 1.0f / sqrtf(scale[r] / (float)channels + GW_LAYERNORM_EPSILON);
        if (a.branch != NULL) mine.write(a.sum + row * channels, value[r]);
#pragma unroll
        for (int k = 0; k < OWN; k++) value[r][k] = (value[r][k] - mean[r]) * scale[r] * weight[k] + bias[k];
        mine.write(a.y + row * channels, value[r]);
        if (threadIdx.x == 0) {
            a.norm.mean[row] = mean[r];
            a.norm.scale[row] = scale[r];
        }
    }
}

template <typename T> struct backward_arrays {
    gw_cuda_layernorm norm;
    const float *x;
    const T *dy;
    const float *above; /* NULL: zeros */
    float *delta;
    T *branch; /* NULL: it is not written */
    gw_dropping dropping;
    float *parts;
};

/* The sums of a thread's columns over the rows of a part. */
struct part_sums {
    float weight[OWN], bias[OWN], branch[OWN];
};

/* Computes the gradients of `batch` rows, from row `first` on. */
template <typename T, bool whole, int batch>
__device__ void backward_rows(const backward_arrays<T> &a, uint64_t first, const float (&weight)[OWN],
                              gw_block_scratch<2 * batch> *room, part_sums *sums) {
    uint64_t channels = a.norm.channels;
    columns<whole> mine = {a.norm.channels};
    float unit[batch][OWN], g[batch][OWN], delta[batch][OWN] = {}, scale[batch];
    float dot[2 * batch]; /* by row: the sums of dy weight and of dy weight times the normalised x */
#pragma unroll
    for (int r = 0; r < batch; r++) {
        uint64_t row = first + r;
        float mean = a.norm.mean[row];
        scale[r] = a.norm.scale[row];
        mine.read(a.x + row * channels, unit[r]);
        mine.read(a.dy + row * channels, g[r]);
        if (a.above != NULL) mine.read(a.above + row * channels, delta[r]);
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            unit[r][k] = (unit[r][k] - mean) * scale[r];
            sums->weight[k] += g[r][k] * unit[r][k];
            sums->bias[k] += g[r][k];
            g[r][k] *= weight[k];
        }
        float product[OWN];
#pragma unroll
        for (int k = 0; k < OWN; k++) product[k] = g[r][k] * unit[r][k];
        dot[2 * r] = total(g[r]);
        dot[2 * r + 1] = total(product);
    }
    gw_block_sums(dot, room);
#pragma unroll
    for (int r = 0; r < batch; r++) {
        uint64_t row = first + r;
        float alone = dot[2 * r] / (float)channels, along = dot[2 * r + 1] / (float)channels;
#pragma unroll
        for (int k = 0; k < OWN; k++) delta[r][k] += (g[r][k] - alone - unit[r][k] * along) * scale[r];
        mine.write(a.delta + row * channels, delta[r]);
        if (a.branch == NULL) continue;
        mine.drop(a.dropping, row * channels, delta[r]);
        mine.write(a.branch + row * channels, delta[r]);
#pragma unroll
        for (int k = 0; k < OWN; k++) sums->branch[k] += delta[r][k];
    }
}

template <typename T, bool whole, int batch, int threads>
__global__ void __launch_bounds__(threads) backward_kernel(backward_arrays<T> a) {
    __shared__ gw_block_scratch<2 * batch> room[2];
    columns<whole> mine = {a.norm.channels};
    uint64_t channels = a.norm.channels, part = blockIdx.x;
    uint64_t row = part * GW_CUDA_PART_ROWS, end = row + GW_CUDA_PART_ROWS;
    if (end > a.norm.rows) end = a.norm.rows;
    float weight[OWN];
    mine.read(a.norm.weight, weight);
    part_sums sums = {};
    unsigned turn = 0;
#pragma unroll 1
    for (; row + batch <= end; row += batch, turn ^= 1)
        backward_rows<T, whole, batch>(a, row, weight, &room[turn], &sums);
    __shared__ gw_block_scratch<2> room_of_one[2];
#pragma unroll 1
    for (; row < end; row++, turn ^= 1) backward_rows<T, whole, 1>(a, row, weight, &room_of_one[turn], &sums);
    uint64_t array = gridDim.x * channels;
    float *parts = a.parts + part * channels;
    mine.write(parts, sums.weight);
    mine.write(parts + array, sums.bias);
    if (a.branch != NULL) mine.write(parts + 2 * array, sums.branch);
}

/* The number of threads for rows of so many channels: whole warps. */
unsigned threads_for(uint32_t channels) {
    return gw_cuda_blocks(channels, OWN * GW_WARP) * GW_WARP;
}

bool takes(const gw_cuda_layernorm *norm) {
    return norm->rows > 0 && norm->channels > 0 && norm->channels <= GW_CUDA_LAYERNORM_CHANNELS;
}

/* A block takes as many rows at a time as its registers hold. */
enum { NARROW = 512, WIDE = GW_CUDA_LAYERNORM_CHANNELS / OWN, NARROW_BATCH = 4, WIDE_BATCH = 1 };

template <typename T, bool whole> cudaError_t forward_rows(const forward_arrays<T> &a, cudaStream_t stream) {
    unsigned threads = threads_for(a.norm.channels);
    if (threads <= NARROW)
        GW_LAUNCH((forward_kernel<T, whole, NARROW_BATCH, NARROW>), gw_cuda_blocks(a.norm.rows, NARROW_BATCH),
                  threads, 0, stream, a);
    else
        GW_LAUNCH((forward_kernel<T, whole, WIDE_BATCH, WIDE>), gw_cuda_blocks(a.norm.rows, WIDE_BATCH),
                  threads, 0, stream, a);
    return cudaGetLastError();
}

template <typename T>
cudaError_t forward(const gw_cuda_layernorm *norm, const float *x, const gw_cuda_branch *branch, float *sum,
                    gw_cuda_factor y, cudaStream_t stream) {
    if (!takes(norm)) return cudaErrorInvalidValue;
    forward_arrays<T> a = {*norm, x, NULL, {}, sum, static_cast<T *>(y.values)};
    if (branch != NULL) {
        a.branch = static_cast<const T *>(branch->values.values);
        a.dropping = gw_dropping_of(branch->dropout, branch->drawn);
    }
    return norm->channels % OWN == 0 ? forward_rows<T, true>(a, stream) : forward_rows<T, false>(a, stream);
}

template <typename T, bool whole>
cudaError_t backward_parts(const backward_arrays<T> &a, cudaStream_t stream) {
    unsigned threads = threads_for(a.norm.channels), parts = (unsigned)gw_cuda_parts(a.norm.rows);
    if (threads <= NARROW)
        GW_LAUNCH((backward_kernel<T, whole, NARROW_BATCH, NARROW>), parts, threads, 0, stream, a);
    else
        GW_LAUNCH((backward_kernel<T, whole, WIDE_BATCH, WIDE>), parts, threads, 0, stream, a);
    return cudaGetLastError();
}

template <typename T>
cudaError_t backward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor dy, const float *above,
                     float *delta, const gw_cuda_branch *branch, float *parts, cudaStream_t stream) {
    if (!takes(norm)) return cudaErrorInvalidValue;
    backward_arrays<T> a = {*norm, x, static_cast<const T *>(dy.values), above, delta, NULL, {}, parts};
    if (branch != NULL) {
        a.branch = static_cast<T *>(branch->values.values);
        a.dropping = gw_dropping_of(branch->dropout, branch->drawn);
    }
    return norm->channels % OWN == 0 ? backward_parts<T, true>(a, stream)
                                     : backward_parts<T, false>(a, stream);
}

} // namespace

cudaError_t gw_cuda_layernorm_forward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor y,
                                      cudaStream_t stream) {
    return y.bf16 ? forward<uint16_t>(norm, x, NULL, NULL, y, stream)
                  : forward<float>(norm, x, NULL, NULL, y, stream);
}

cudaError_t gw_cuda_layernorm_add(const gw_cuda_layernorm *norm, const float *x, const gw_cuda_branch *branch,
                                  float *sum, gw_cuda_factor y, cudaStream_t stream) {
    return y.bf16 ? forward<uint16_t>(norm, x, branch, sum, y, stream)
                  : forward<float>(norm, x, branch, sum, y, stream);
}

cudaError_t gw_cuda_layernorm_backward(const gw_cuda_layernorm *norm, const float *x, gw_cuda_factor dy,
                                       const float *above, float *delta, const gw_cuda_branch *branch,
                                       float *parts, const gw_cuda_layernorm_sums *sums,
                                       cudaStream_t stream) {
    cudaError_t status = dy.bf16 ? backward<uint16_t>(norm, x, dy, above, delta, branch, parts, stream)
                                 : backward<float>(norm, x, dy, above, delta, branch, parts, stream);
    if (status != cudaSuccess) return status;
    float *const to[] = {sums->weight, sums->bias, sums->branch};
    return gw_cuda_add_parts(gw_cuda_parts(norm->rows), norm->channels, parts, branch != NULL ? 3 : 2, to,
                             stream);
}
