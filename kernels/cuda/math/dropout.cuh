/* Dropout (kernels/math/dropout.h) inside kernels. An element's number is its number in the site. */
#ifndef GODWIT_KERNELS_CUDA_MATH_DROPOUT_CUH
#define GODWIT_KERNELS_CUDA_MATH_DROPOUT_CUH

#include "core/rng.h"
#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/tensor_core.cuh"
#include "kernels/math/dropout.h"

/* A site's dropout in the form that kernels use. */
struct gw_dropping {
    bool any;           /* false: the rate is 0, and nothing is dropped */
    uint32_t threshold; /* an element is dropped if its 32 random bits are below */
    float scale;        /* factor of the elements that are kept */
    uint64_t key, stream;
    /* in the GPU's memory: replaces `key`, and is added to `stream`; nullptr: they stay as they are */
    const gw_cuda_draw *drawn;
};

static inline gw_dropping gw_dropping_of(const gw_dropout &dropout, const gw_cuda_draw *drawn) {
    if (dropout.rate <= 0.0f) return gw_dropping{false, 0, 1.0f, 0, 0, nullptr};
    return gw_dropping{
        true, gw_dropout_threshold(dropout.rate), gw_dropout_scale(dropout.rate), dropout.key, dropout.stream,
        drawn};
}

/* The random bits of elements 4 n to 4 n + 3. */
__device__ inline gw_philox gw_drop_bits(const gw_dropping &d, uint64_t n) {
    uint64_t key = d.key, stream = d.stream;
    if (d.drawn != nullptr) {
        key = gw_reload(&d.drawn->key);
        stream += gw_reload(&d.drawn->stream);
    }
    return gw_philox_at(key, stream, n);
}

/* Drops or scales element i. */
__device__ inline void gw_drop(const gw_dropping &d, uint64_t i, float (&value)[1]) {
    if (!d.any) return;
    gw_philox bits = gw_drop_bits(d, i / 4);
    uint32_t left = i % 2 == 0 ? bits.words[0] : bits.words[1];
    uint32_t right = i % 2 == 0 ? bits.words[2] : bits.words[3];
    value[0] = (i % 4 < 2 ? left : right) < d.threshold ? 0.0f : value[0] * d.scale;
}

/* Drops or scales elements i to i + 3, where i is a multiple of 4. */
__device__ inline void gw_drop(const gw_dropping &d, uint64_t i, float (&value)[4]) {
    if (!d.any) return;
    gw_philox bits = gw_drop_bits(d, i / 4);
#pragma unroll
    for (int k = 0; k < 4; k++) value[k] = bits.words[k] < d.threshold ? 0.0f : value[k] * d.scale;
}

/* Returns four bits: bit k tells whether element i + k is kept. `i` is a multiple of 4, and d.any is true. */
__device__ inline unsigned gw_kept_of_four(const gw_dropping &d, uint64_t i) {
    gw_philox bits = gw_drop_bits(d, i / 4);
    unsigned kept = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) kept |= (bits.words[k] < d.threshold ? 0u : 1u) << k;
    return kept;
}

#endif
