/* AVX-512DQ converts doubles to int64 with the rounding mode in the instruction. All values take the vector
 * path; bad ones are masked to 0. The tail uses the scalar reference. */
#include "kernels/exact/inside.h"

#ifdef __x86_64__

#define AVX512 __attribute__((target("avx512f,avx512dq")))

enum { BLOCK = 16 };

/* The keys of eight consecutive elements from their Weyl values, in the low halves of 64-bit lanes. (A 32x32
 * multiply does not read the high halves.) */
AVX512 static inline __m512i keys_of(__m512i weyl) {
    __m512i mixed = _mm512_xor_si512(weyl, _mm512_srli_epi32(weyl, 15));
    return _mm512_or_si512(mixed, _mm512_set1_epi64(1));
}

AVX512 static inline __m512i weyl_at(uint64_t i) {
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(_mm512_set1_epi64((int64_t)((uint32_t)i * GW_EXACT_WEYL)),
                            _mm512_mul_epu32(lane, _mm512_set1_epi64((int64_t)GW_EXACT_WEYL)));
}

/* A fingerprint in two parts, the sums of the key times the low and the high word of q. The fingerprint is
 * low + 2^32 * high. */
typedef struct halves {
    __m512i low, high;
} halves;

AVX512 static inline void multiply_in(halves *sum, __m512i q, __m512i key) {
    sum->low = _mm512_add_epi64(sum->low, _mm512_mul_epu32(q, key));
    sum->high = _mm512_add_epi64(sum->high, _mm512_mul_epu32(_mm512_srli_epi64(q, 32), key));
}

/* The sum must wrap; _mm512_reduce_add_epi64 ends in a signed addition. */
AVX512 static inline uint64_t total(const halves *sum) {
    uint64_t lane[8], whole = 0;
    _mm512_storeu_si512(lane, _mm512_add_epi64(sum->low, _mm512_slli_epi64(sum->high, 32)));
    for (int i = 0; i < 8; i++) whole += lane[i];
    return whole;
}

AVX512 static inline void add_eight(__m256 x, __m512d scale, int64_t *sum, halves *print, __m512i weyl) {
    __m512d y = _mm512_mul_pd(_mm512_cvtps_pd(x), scale);
    __m512i q = _mm512_cvt_roundpd_epi64(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm512_storeu_si512(sum, _mm512_add_epi64(_mm512_loadu_si512(sum), q));
    multiply_in(print, q, keys_of(weyl));
}

AVX512 static void add(const gw_exact_format *format, uint64_t first, uint64_t count, const float *values,
                       int64_t *sum, gw_exact_part *part) {
    const __m512 limit = _mm512_set1_ps(format->limit);
    const __m512d scale = _mm512_set1_pd(format->scale);
    const __m512i eight = _mm512_set1_epi64((int64_t)(uint32_t)(8 * GW_EXACT_WEYL));
    halves print[2] = {{_mm512_setzero_si512(), _mm512_setzero_si512()},
                       {_mm512_setzero_si512(), _mm512_setzero_si512()}};
    __m512i weyl = weyl_at(first);
    uint64_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        gw_exact_fetch_ahead(sum + i);
        gw_exact_fetch_ahead(sum + i + 8);
        __m512 x = _mm512_loadu_ps(values + i);
        __m512i upper = _mm512_add_epi32(weyl, eight);
        __mmask16 good = _mm512_cmp_ps_mask(_mm512_abs_ps(x), limit, _CMP_LT_OQ);
        if (__builtin_expect(good != 0xffff, 0)) {
            part->bad += (uint64_t)(BLOCK - __builtin_popcount(good));
            x = _mm512_maskz_mov_ps(good, x);
        }
        add_eight(_mm512_castps512_ps256(x), scale, sum + i, &print[0], weyl);
        add_eight(_mm512_extractf32x8_ps(x, 1), scale, sum + i + 8, &print[1], upper);
        weyl = _mm512_add_epi32(upper, eight);
    }
    part->fingerprint += total(&print[0]) + total(&print[1]);
    gw_exact_add(format, first + i, count - i, values + i, sum + i, part);
}

AVX512 static inline __m512i load(const int64_t *from, bool spread) {
    __m512i words = _mm512_loadu_si512(from);
    return spread ? _mm512_xor_si512(words, _mm512_srli_epi64(words, GW_EXACT_SPREAD)) : words;
}

/* The fingerprint of whole blocks. */
AVX512 static inline __attribute__((always_inline)) uint64_t print_blocks(uint64_t first, uint64_t count,
                                                                          const int64_t *data, bool spread) {
    const __m512i eight = _mm512_set1_epi64((int64_t)(uint32_t)(8 * GW_EXACT_WEYL));
    halves print[2] = {{_mm512_setzero_si512(), _mm512_setzero_si512()},
                       {_mm512_setzero_si512(), _mm512_setzero_si512()}};
    __m512i weyl = weyl_at(first);
    for (uint64_t i = 0; i < count; i += BLOCK) {
        gw_exact_fetch_ahead(data + i);
        gw_exact_fetch_ahead(data + i + 8);
        __m512i upper = _mm512_add_epi32(weyl, eight);
        multiply_in(&print[0], load(data + i, spread), keys_of(weyl));
        multiply_in(&print[1], load(data + i + 8, spread), keys_of(upper));
        weyl = _mm512_add_epi32(upper, eight);
    }
    return total(&print[0]) + total(&print[1]);
}

AVX512 static uint64_t fingerprint(uint64_t first, uint64_t count, const int64_t *data) {
    uint64_t rest = count % BLOCK, whole = count - rest;
    return print_blocks(first, whole, data, false) + gw_exact_fingerprint(first + whole, rest, data + whole);
}

AVX512 static uint64_t state_fingerprint(uint64_t first, uint64_t count, const int64_t *words) {
    uint64_t rest = count % BLOCK, whole = count - rest;
    return print_blocks(first, whole, words, true) +
           gw_exact_state_fingerprint(first + whole, 8 * rest, words + whole);
}

const gw_exact_path gw_exact_path_avx512 = {"avx512", add, fingerprint, state_fingerprint};

#else
typedef int gw_exact_no_avx512;
#endif
