#include "core/vector/inside.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Makes the compiler take the vector from its register from here on, and not read it from memory again. */
#if defined(__x86_64__)
#define IN_REGISTER(vector) __asm__("" : "+v"(vector))
#else
#define IN_REGISTER(vector) __asm__("" : "+w"(vector))
#endif

#if defined(__x86_64__)
#define STREAM(to, vector) _mm_stream_si128((__m128i *)(void *)(to), (__m128i)(vector))
#else
#define STREAM(to, vector) memcpy(to, &(vector), sizeof(vector))
#endif
#define ROWS(function) function##_plain
#define ROWS_NAME      "plain"
#define ROWS_TARGET
#define ROWS_WIDTH 16
#include "core/vector/rows.inc"

#if defined(__x86_64__)

/* Writes by 16 bytes, to which memory of malloc is aligned; the processor joins them to whole lines. */
__attribute__((target("avx2"))) static inline void stream_avx2(uint8_t *to, __m256i vector) {
    __m128i *at = (__m128i *)(void *)to;
    _mm_stream_si128(at, _mm256_castsi256_si128(vector));
    _mm_stream_si128(at + 1, _mm256_extracti128_si256(vector, 1));
}

#undef STREAM
#define STREAM(to, vector) stream_avx2(to, (__m256i)(vector))
#define ROWS(function)     function##_avx2
#define ROWS_NAME          "avx2"
#define ROWS_TARGET        __attribute__((target("avx2")))
#define ROWS_WIDTH         32
#include "core/vector/rows.inc"

__attribute__((target("avx512f"))) static inline void stream_avx512(uint8_t *to, __m512i vector) {
    stream_avx2(to, _mm512_castsi512_si256(vector));
    stream_avx2(to + 32, _mm512_extracti64x4_epi64(vector, 1));
}

#undef STREAM
#define STREAM(to, vector) stream_avx512(to, (__m512i)(vector))
#define ROWS(function)     function##_avx512
#define ROWS_NAME          "avx512"
#define ROWS_TARGET        __attribute__((target("avx512f")))
#define ROWS_WIDTH         64
#include "core/vector/rows.inc"

static const gw_vector_path *const paths[] = {&path_plain, &path_avx2, &path_avx512};

static uint32_t count_paths(void) {
    if (!__builtin_cpu_supports("avx2")) return 1;
    return __builtin_cpu_supports("avx512f") ? 3 : 2;
}

#else

static const gw_vector_path *const paths[] = {&path_plain};

static uint32_t count_paths(void) {
    return 1;
}

#endif

const gw_vector_path *const *gw_vector_paths(uint32_t *count) {
    *count = count_paths();
    return paths;
}

const gw_vector_path *gw_vector_path_best(void) {
    return paths[count_paths() - 1];
}

void gw_vector_fence(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

const char *gw_vector_path_name(const gw_vector_path *path) {
    return path->name;
}
