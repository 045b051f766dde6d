/* Products of attention's tiles in float32, without tensor cores. Their interface is the one of
 * kernels/cuda/math/attention_tensor.cuh; heads may have any width up to D.
 *
 * Thread (16 y + x) has rows 4 y to 4 y + 3 of the block's own rows. In a tile of scores it has every 16th
 * column from x on, in a tile of sums columns 4 x to 4 x + 3 of every 64. */
#ifndef GODWIT_KERNELS_CUDA_MATH_ATTENTION_PLAIN_CUH
#define GODWIT_KERNELS_CUDA_MATH_ATTENTION_PLAIN_CUH

#include <stdint.h>

template <int PER_> struct gw_plain_values {
    static constexpr int PER = PER_;
    float c[4][PER];

    __device__ float &at(int slot, int i) { return c[slot][i]; }
    __device__ void clear() {
#pragma unroll
        for (int slot = 0; slot < 4; slot++)
#pragma unroll
            for (int i = 0; i < PER; i++) c[slot][i] = 0.0f;
    }
};

template <int PER> struct gw_plain_scores : gw_plain_values<PER> {
    static __device__ int column(int i) { return (int)threadIdx.x % 16 + 16 * i; }
};

template <int PER> struct gw_plain_sums : gw_plain_values<PER> {
    static __device__ int column(int i) { return i / 4 * 64 + (int)threadIdx.x % 16 * 4 + i % 4; }
};

template <int D_> struct gw_plain_tiles {
    typedef float element;
    static constexpr int D = D_, THREADS = 256, SLOTS = 4, WARP_ROWS = 8, OWN = 64, OTHER = 32;
    static constexpr int STRIDE = D + 4; /* 16 bytes more: eight rows at one column are in different banks */
    static constexpr int ROW_LANES = 16, SCORES_STRIDE = OTHER + 4, SCRATCH_FLOATS = OWN * SCORES_STRIDE;
    static constexpr bool SHARES_DRAWS = false;
    typedef gw_plain_scores<OTHER / 16> scores;
    typedef gw_plain_sums<D / 16> sums;

    static __device__ int warp_row() { return (int)threadIdx.x / 32 * WARP_ROWS; }
    static __device__ int row(int slot) { return (int)threadIdx.x / 16 * 4 + slot; }

    template <int rows>
    static __device__ void load(float *tile, const float *from, size_t stride, int there, int width) {
        for (int i = (int)threadIdx.x; i < rows * D; i += THREADS) {
            int r = i / D, column = i % D;
            tile[r * STRIDE + column] =
                r < there && column < width ? from[r * stride + (size_t)column] : 0.0f;
        }
    }

    static __device__ float4 four(const float *at) { return *reinterpret_cast<const float4 *>(at); }

    static __device__ float dot(float4 a, float4 b, float sum) {
        return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
    }

    static __device__ void multiply(scores *s, const float *own, const float *other, int width) {
        s->clear();
#pragma unroll 4
        for (int k = 0; k < width; k += 4) {
            float4 a[SLOTS], b[scores::PER];
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) a[slot] = four(own + row(slot) * STRIDE + k);
#pragma unroll
            for (int i = 0; i < scores::PER; i++) b[i] = four(other + scores::column(i) * STRIDE + k);
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++)
#pragma unroll
                for (int i = 0; i < scores::PER; i++) s->c[slot][i] = dot(a[slot], b[i], s->c[slot][i]);
        }
    }

    /* The threads of one warp have a row's scores, and exchange them through `scratch`. */
    static __device__ void add(sums *to, const scores *s, const float *other, float *scratch) {
        __syncwarp();
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++)
#pragma unroll
            for (int i = 0; i < scores::PER; i++)
                scratch[row(slot) * SCORES_STRIDE + scores::column(i)] = s->c[slot][i];
        __syncwarp();
#pragma unroll 2
        for (int k = 0; k < OTHER; k++) {
            float p[SLOTS];
#pragma unroll
            for (int slot = 0; slot < SLOTS; slot++) p[slot] = scratch[row(slot) * SCORES_STRIDE + k];
#pragma unroll
            for (int i = 0; i < sums::PER; i += 4) {
                float4 b = four(other + k * STRIDE + sums::column(i));
#pragma unroll
                for (int slot = 0; slot < SLOTS; slot++) {
                    to->c[slot][i] = fmaf(p[slot], b.x, to->c[slot][i]);
                    to->c[slot][i + 1] = fmaf(p[slot], b.y, to->c[slot][i + 1]);
                    to->c[slot][i + 2] = fmaf(p[slot], b.z, to->c[slot][i + 2]);
                    to->c[slot][i + 3] = fmaf(p[slot], b.w, to->c[slot][i + 3]);
                }
            }
        }
    }

    static __device__ void store(sums *from, float *, float *to, size_t stride, int there, int width) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot++)
#pragma unroll
            for (int i = 0; i < sums::PER; i++)
                if (row(slot) < there && sums::column(i) < width)
                    to[row(slot) * stride + (size_t)sums::column(i)] = from->at(slot, i);
    }
};

#endif
