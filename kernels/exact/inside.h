/* The vector implementations behind kernels/exact/exact.h. Only that room includes this. */
#ifndef GODWIT_KERNELS_EXACT_INSIDE_H
#define GODWIT_KERNELS_EXACT_INSIDE_H

#include "kernels/exact/exact.h"

#ifdef __x86_64__
#include <immintrin.h>

/* Asks for the cache line a page ahead of this word, which may lie behind the array's end. So many
 * instructions are done for each line that few loads fit into what a processor looks ahead by itself, and its
 * own prefetcher does not go beyond the page: without this, memory is read at half of its speed. (Always
 * inlined: a call that only fetches ahead has no effect by the compiler's rules, and is dropped.) */
static inline __attribute__((always_inline)) void gw_exact_fetch_ahead(const int64_t *word) {
    enum { PAGE = 4096 };
    _mm_prefetch((const char *)((uintptr_t)word + PAGE), _MM_HINT_T0);
}

extern const gw_exact_path gw_exact_path_avx2;
extern const gw_exact_path gw_exact_path_avx512; /* F and DQ */
#endif

#endif
