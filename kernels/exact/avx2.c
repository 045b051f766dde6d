/* AVX2 has no conversion from double to int64. A value is rounded by adding 1.5 * 2^52, which is right for
 * magnitudes below 2^51. Blocks with a larger or a bad value, and the tail, use the scalar reference. */
#include "kernels/exact/inside.h"

#ifdef __x86_64__

#define AVX2 __attribute__((target("avx2")))

enum { BLOCK = 8 };

/* The keys of four consecutive elements from their Weyl values, in the low halves of 64-bit lanes. (A 32x32
 * multiply does not read the high halves.) */
AVX2 static inline __m256i keys_of(__m256i weyl) {
    __m256i mixed = _mm256_xor_si256(weyl, _mm256_srli_epi32(weyl, 15));
    return _mm256_or_si256(mixed, _mm256_set1_epi64x(1));
}

AVX2 static inline __m256i weyl_at(uint64_t i) {
    uint32_t w = (uint32_t)i * GW_EXACT_WEYL;
    return _mm256_set_epi64x((int64_t)(w + 3 * GW_EXACT_WEYL), (int64_t)(w + 2 * GW_EXACT_WEYL),
                             (int64_t)(w + GW_EXACT_WEYL), (int64_t)w);
}

/* A fingerprint in two parts, the sums of the key times the low and the high word of q. The fingerprint is
 * low + 2^32 * high. */
typedef struct halves {
    __m256i low, high;
} halves;

AVX2 static inline void multiply_in(halves *sum, __m256i q, __m256i key) {
    sum->low = _mm256_add_epi64(sum->low, _mm256_mul_epu32(q, key));
    sum->high = _mm256_add_epi64(sum->high, _mm256_mul_epu32(_mm256_srli_epi64(q, 32), key));
}

AVX2 static inline uint64_t total(const halves *sum) {
    uint64_t lane[4];
    _mm256_storeu_si256((__m256i *)(void *)lane,
                        _mm256_add_epi64(sum->low, _mm256_slli_epi64(sum->high, 32)));
    return lane[0] + lane[1] + lane[2] + lane[3];
}

AVX2 static inline void add_four(__m128 x, __m256d scale, int64_t *sum, halves *print, __m256i weyl) {
    const __m256d rounder = _mm256_set1_pd(6755399441055744.0);
    __m256d y = _mm256_mul_pd(_mm256_cvtps_pd(x), scale);
    __m256i q =
        _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(y, rounder)), _mm256_castpd_si256(rounder));
    __m256i *at = (__m256i *)(void *)sum;
    _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), q));
    multiply_in(print, q, keys_of(weyl));
}

AVX2 static void add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                     int64_t *sum, gw_exact_part *part) {
    const float magic_limit = (float)(2251799813685248.0 / format->scale); /* 2^51, exact */
    const __m256 limit = _mm256_set1_ps(magic_limit < format->limit ? magic_limit : format->limit);
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256d scale = _mm256_set1_pd(format->scale);
    const __m256i four = _mm256_set1_epi64x((int64_t)(uint32_t)(4 * GW_EXACT_WEYL));
    halves print = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i weyl = weyl_at(first);
    uint64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        gw_exact_fetch_ahead(sum + i);
        __m256 x = _mm256_loadu_ps(values + i);
        __m256i upper = _mm256_add_epi32(weyl, four);
        __m256 small = _mm256_cmp_ps(_mm256_and_ps(x, magnitude), limit, _CMP_LT_OQ);
        if (__builtin_expect(_mm256_movemask_ps(small) == 0xff, 1)) {
            add_four(_mm256_castps256_ps128(x), scale, sum + i, &print, weyl);
            add_four(_mm256_extractf128_ps(x, 1), scale, sum + i + 4, &print, upper);
        } else {
            gw_exact_add(format, first + i, BLOCK, values + i, sum + i, part);
        }
        weyl = _mm256_add_epi32(upper, four);
    }
    part->fingerprint += total(&print);
    gw_exact_add(format, first + i, count - i, values + i, sum + i, part);
}

AVX2 static inline __m256i load(const int64_t *from, bool spread) {
    __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return spread ? _mm256_xor_si256(words, _mm256_srli_epi64(words, GW_EXACT_SPREAD)) : words;
}

/* The fingerprint of whole blocks. */
AVX2 static inline __attribute__((always_inline)) uint64_t print_blocks(uint64_t first, uint64_t count,
                                                                        const int64_t *data, bool spread) {
    const __m256i four = _mm256_set1_epi64x((int64_t)(uint32_t)(4 * GW_EXACT_WEYL));
    halves print[2] = {{_mm256_setzero_si256(), _mm256_setzero_si256()},
                       {_mm256_setzero_si256(), _mm256_setzero_si256()}};
    __m256i weyl = weyl_at(first);
    for (uint64_t i = 0; i < count; i += BLOCK) {
        gw_exact_fetch_ahead(data + i);
        __m256i upper = _mm256_add_epi32(weyl, four);
        multiply_in(&print[0], load(data + i, spread), keys_of(weyl));
        multiply_in(&print[1], load(data + i + 4, spread), keys_of(upper));
        weyl = _mm256_add_epi32(upper, four);
    }
    return total(&print[0]) + total(&print[1]);
}

AVX2 static uint64_t fingerprint(uint64_t first, uint64_t count, const int64_t *data) {
    uint64_t rest = count % BLOCK, whole = count - rest;
    return print_blocks(first, whole, data, false) + gw_exact_fingerprint(first + whole, rest, data + whole);
}

AVX2 static uint64_t state_fingerprint(uint64_t first, uint64_t count, const int64_t *words) {
    uint64_t rest = count % BLOCK, whole = count - rest;
    return print_blocks(first, whole, words, true) +
           gw_exact_state_fingerprint(first + whole, 8 * rest, words + whole);
}

const gw_exact_path gw_exact_path_avx2 = {"avx2", add, fingerprint, state_fingerprint};

#else
typedef int gw_exact_no_avx2;
#endif
