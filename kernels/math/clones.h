/* One source, one result, several instruction sets: GW_CLONES before a function makes the compiler build it
 * for AVX-512, AVX2 and the baseline, and the loader choose. Without contraction and reassociation (the
 * build's flags) each of them does the same IEEE operations in the same order, so the choice changes speed
 * only.
 *
 * Not under a sanitizer: the loader would run the choice before the sanitizer's runtime is ready. Those
 * builds compute the baseline's results, which pinned tests compare with every other build's. */
#ifndef GODWIT_KERNELS_MATH_CLONES_H
#define GODWIT_KERNELS_MATH_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define GW_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GW_CLONES
#endif

#endif
