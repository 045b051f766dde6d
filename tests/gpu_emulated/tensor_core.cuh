/* kernels/cuda/math/tensor_core.cuh on the processor: the fragments are those that its contract, which is
 * PTX's, describes. */
#ifndef GODWIT_TESTS_GPU_EMULATED_TENSOR_CORE_CUH
#define GODWIT_TESTS_GPU_EMULATED_TENSOR_CORE_CUH

#include "tests/gpu_emulated/emulator.h"

#include <cuda_bf16.h>
#include <math.h>
#include <string.h>

namespace emulated {

struct product {
    float *c;
    uint32_t a[4], b[2];
};

inline float half_of(uint32_t both, int which) {
    uint32_t bits = which == 0 ? both << 16 : both & 0xffff0000u;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline void multiply(void *const own[EMULATED_WARP], uint32_t) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < EMULATED_WARP; lane++) {
        const product *p = static_cast<const product *>(own[lane]);
        int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 2; i++) a[g + r % 2 * 8][2 * t + r / 2 * 8 + i] = half_of(p->a[r], i);
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 2; i++) b[2 * t + r * 8 + i][g] = half_of(p->b[r], i);
    }
    for (int lane = 0; lane < EMULATED_WARP; lane++) {
        const product *p = static_cast<const product *>(own[lane]);
        for (int r = 0; r < 4; r++) {
            int row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
            double sum = (double)p->c[r];
            for (int k = 0; k < 16; k++) sum += (double)a[row][k] * (double)b[k][column];
            p->c[r] = (float)sum;
        }
    }
}

struct matrices {
    uint32_t *to;
    const char *row;
};

template <bool transposed> void load_matrices(void *const own[EMULATED_WARP], uint32_t) {
    for (int i = 0; i < 4; i++) {
        uint16_t m[8][8];
        void *rows[8];
        for (int r = 0; r < 8; r++) {
            const char *row = static_cast<const matrices *>(own[8 * i + r])->row;
            if ((uintptr_t)row % 16 != 0 || !emulated_is_shared(row, 16))
                emulated_fault("a matrix's row at %p is not aligned or not in shared memory",
                               (const void *)row);
            memcpy(m[r], row, 16);
            rows[r] = const_cast<char *>(row);
        }
        emulated_count_conflicts(rows);
        for (int lane = 0; lane < EMULATED_WARP; lane++) {
            int g = lane / 4, t = lane % 4;
            uint16_t left = transposed ? m[2 * t][g] : m[g][2 * t];
            uint16_t right = transposed ? m[2 * t + 1][g] : m[g][2 * t + 1];
            static_cast<const matrices *>(own[lane])->to[i] = left | (uint32_t)right << 16;
        }
    }
}

} // namespace emulated

inline void gw_multiply_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    emulated::product p = {c, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulated_meet_warp({"mma", __FILE__, __LINE__}, 0xffffffffu, emulated::multiply, &p);
}

inline void gw_load_matrices(uint32_t (&to)[4], const void *row) {
    emulated::matrices m = {to, static_cast<const char *>(row)};
    emulated_meet_warp({"ldmatrix", __FILE__, __LINE__}, 0xffffffffu, emulated::load_matrices<false>, &m);
}

inline void gw_load_transposed(uint32_t (&to)[4], const void *row) {
    emulated::matrices m = {to, static_cast<const char *>(row)};
    emulated_meet_warp({"ldmatrix.trans", __FILE__, __LINE__}, 0xffffffffu, emulated::load_matrices<true>,
                       &m);
}

inline void gw_copy_begin(void *shared, const void *from, bool there) {
    if ((uintptr_t)shared % 16 != 0 || (there && (uintptr_t)from % 16 != 0))
        emulated_fault("a copy of 16 bytes from %p to %p, which are not aligned", from, shared);
    emulated_copy_begin(shared, from, 16, there ? 16 : 0);
}

inline void gw_copy_commit() {
    emulated_copy_commit();
}

template <int left> void gw_copy_wait() {
    emulated_copy_wait(left);
}

inline uint32_t gw_pack_bf16(float low, float high) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(low)) |
           (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
}

inline void gw_hide_value(int &) {}

inline uint64_t gw_reload(const uint64_t *at) {
    return *at;
}

inline float gw_exp2(float x) {
    float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
}

#endif
