/* AVX-512DQ converts doubles to int64 with the rounding mode in the instruction. All values take the vector
 * path; bad ones are masked to 0. The tail uses the scalar reference. */
#include "kernels/exact/inside.h"

#ifdef __x86_64__

#define TARGET __attribute__((target("avx512f,avx512dq")))

enum { VECTOR = 8 };
typedef __m512i vector;

#define OP(name) _mm512_##name
#define XOR      _mm512_xor_si512
#define OR       _mm512_or_si512
#define fill     _mm512_set1_epi64

TARGET static inline vector load_vector(const int64_t *from) {
    return _mm512_loadu_si512(from);
}

TARGET static inline void store_vector(int64_t *to, vector words) {
    _mm512_storeu_si512(to, words);
}

TARGET static inline vector weyl_at(uint64_t i) {
    const __m512i offset = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(_mm512_set1_epi64((int64_t)((uint32_t)i * GW_EXACT_WEYL)),
                            _mm512_mul_epu32(offset, _mm512_set1_epi64((int64_t)GW_EXACT_WEYL)));
}

#include "kernels/exact/vector.h"

TARGET static inline void add_eight(__m256 x, __m512d scale, int64_t *sum, halves *print, vector weyl) {
    __m512d y = _mm512_mul_pd(_mm512_cvtps_pd(x), scale);
    vector q = _mm512_cvt_roundpd_epi64(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    store_vector(sum, _mm512_add_epi64(load_vector(sum), q));
    multiply_in(print, q, keys_of(weyl));
}

TARGET static void add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                       int64_t *sum, gw_exact_part *part) {
    const __m512 limit = _mm512_set1_ps(format->limit);
    const __m512d scale = _mm512_set1_pd(format->scale);
    halves print[2] = {no_halves(), no_halves()};
    vector weyl = weyl_at(first);
    uint64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        gw_exact_fetch_ahead(sum + i);
        gw_exact_fetch_ahead(sum + i + LINE_WORDS);
        __m512 x = _mm512_loadu_ps(values + i);
        vector upper = _mm512_add_epi32(weyl, weyl_step());
        __mmask16 good = _mm512_cmp_ps_mask(_mm512_abs_ps(x), limit, _CMP_LT_OQ);
        if (__builtin_expect(good != 0xffff, 0)) {
            part->bad += (uint64_t)(BLOCK - __builtin_popcount(good));
            x = _mm512_maskz_mov_ps(good, x);
        }
        add_eight(_mm512_castps512_ps256(x), scale, sum + i, &print[0], weyl);
        add_eight(_mm512_extractf32x8_ps(x, 1), scale, sum + i + VECTOR, &print[1], upper);
        weyl = _mm512_add_epi32(upper, weyl_step());
    }
    part->fingerprint += total(&print[0]) + total(&print[1]);
    gw_exact_add(format, first + i, count - i, values + i, sum + i, part);
}

const gw_exact_path gw_exact_path_avx512 = {"avx512", add, fingerprint, state_fingerprint};

#else
typedef int gw_exact_no_avx512;
#endif
