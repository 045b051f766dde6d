/* One source and one result for several instruction sets: GW_CLONES before a function makes the compiler
 * build it for AVX-512, AVX2 and the baseline, and the loader select one. Without contraction and
 * reassociation (the build's flags), all of them execute the same IEEE operations in the same order, so the
 * selection changes speed only.
 *
 * Sanitizer builds have no clones, since the loader would select before the sanitizer's runtime is ready.
 * They compute the baseline's results, which tests compare with those of other builds. */
#ifndef GODWIT_KERNELS_MATH_CLONES_H
#define GODWIT_KERNELS_MATH_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define GW_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GW_CLONES
#endif

#endif
