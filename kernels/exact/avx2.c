/* AVX2 has no conversion from double to int64. A value is rounded by adding 1.5 * 2^52, which is right for
 * magnitudes below 2^51. Blocks with a larger or a bad value, and the tail, use the scalar reference. */
#include "kernels/exact/inside.h"

#ifdef __x86_64__

#define TARGET __attribute__((target("avx2")))

enum { VECTOR = 4 };
typedef __m256i vector;

#define OP(name) _mm256_##name
#define XOR      _mm256_xor_si256
#define OR       _mm256_or_si256
#define fill     _mm256_set1_epi64x

TARGET static inline vector load_vector(const int64_t *from) {
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

TARGET static inline void store_vector(int64_t *to, vector words) {
    _mm256_storeu_si256((__m256i *)(void *)to, words);
}

TARGET static inline vector weyl_at(uint64_t i) {
    uint32_t w = (uint32_t)i * GW_EXACT_WEYL;
    return _mm256_set_epi64x((int64_t)(w + 3 * GW_EXACT_WEYL), (int64_t)(w + 2 * GW_EXACT_WEYL),
                             (int64_t)(w + GW_EXACT_WEYL), (int64_t)w);
}

#include "kernels/exact/vector.h"

TARGET static inline void add_four(__m128 x, __m256d scale, int64_t *sum, halves *print, vector weyl) {
    const __m256d rounder = _mm256_set1_pd(6755399441055744.0);
    __m256d y = _mm256_mul_pd(_mm256_cvtps_pd(x), scale);
    vector q = _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(y, rounder)), _mm256_castpd_si256(rounder));
    store_vector(sum, _mm256_add_epi64(load_vector(sum), q));
    multiply_in(print, q, keys_of(weyl));
}

TARGET static void add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                       int64_t *sum, gw_exact_part *part) {
    const float magic_limit = (float)(2251799813685248.0 / format->scale); /* 2^51, exact */
    const __m256 limit = _mm256_set1_ps(magic_limit < format->limit ? magic_limit : format->limit);
    const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256d scale = _mm256_set1_pd(format->scale);
    halves print = no_halves();
    vector weyl = weyl_at(first);
    uint64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        gw_exact_fetch_ahead(sum + i);
        __m256 x = _mm256_loadu_ps(values + i);
        vector upper = _mm256_add_epi32(weyl, weyl_step());
        __m256 small = _mm256_cmp_ps(_mm256_and_ps(x, magnitude), limit, _CMP_LT_OQ);
        if (__builtin_expect(_mm256_movemask_ps(small) == 0xff, 1)) {
            add_four(_mm256_castps256_ps128(x), scale, sum + i, &print, weyl);
            add_four(_mm256_extractf128_ps(x, 1), scale, sum + i + VECTOR, &print, upper);
        } else {
            gw_exact_add(format, first + i, BLOCK, values + i, sum + i, part);
        }
        weyl = _mm256_add_epi32(upper, weyl_step());
    }
    part->fingerprint += total(&print);
    gw_exact_add(format, first + i, count - i, values + i, sum + i, part);
}

const gw_exact_path gw_exact_path_avx2 = {"avx2", add, fingerprint, state_fingerprint};

#else
typedef int gw_exact_no_avx2;
#endif
