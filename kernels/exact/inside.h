/* The vector implementations of kernels/exact/exact.h. */
#ifndef GODWIT_KERNELS_EXACT_INSIDE_H
#define GODWIT_KERNELS_EXACT_INSIDE_H

#include "kernels/exact/exact.h"

#ifdef __x86_64__
#include <immintrin.h>

/* Prefetches the cache line one page ahead of this word; the address may lie behind the array's end. The
 * kernels execute so many instructions for each line that the processor's reordering window covers few loads,
 * and its prefetcher does not cross pages: without this, memory is read at half of its speed. (It must be
 * inlined: the compiler takes a call that only prefetches to have no effect, and drops it.) */
static inline __attribute__((always_inline)) void gw_exact_fetch_ahead(const int64_t *word) {
    enum { PAGE = 4096 };
    _mm_prefetch((const char *)((uintptr_t)word + PAGE), _MM_HINT_T0);
}

extern const gw_exact_path gw_exact_path_avx2;
extern const gw_exact_path gw_exact_path_avx512; /* needs AVX512F and AVX512DQ */
#endif

#endif
