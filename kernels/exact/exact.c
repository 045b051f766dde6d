#include "kernels/exact/exact.h"

#include "kernels/exact/inside.h"

#include <string.h>

enum { COPIED_WORDS = 2048 /* fits the first-level cache */ };

static uint64_t state_fingerprint(uint64_t first, uint64_t count, const int64_t *words) {
    return gw_exact_state_fingerprint(first, 8 * count, words);
}

static const gw_exact_path scalar = {"scalar", gw_exact_add, gw_exact_fingerprint, state_fingerprint};

const gw_exact_path *const *gw_exact_paths(uint32_t *count) {
    static const gw_exact_path *const scalar_only[] = {&scalar};
#ifdef __x86_64__
    static const gw_exact_path *const paths[] = {&scalar, &gw_exact_path_avx2, &gw_exact_path_avx512};
    if (!__builtin_cpu_supports("avx2")) {
        *count = 1;
        return scalar_only;
    }
    *count = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? 3 : 2;
    return paths;
#else
    *count = 1;
    return scalar_only;
#endif
}

const gw_exact_path *gw_exact_path_best(void) {
    uint32_t count;
    const gw_exact_path *const *paths = gw_exact_paths(&count);
    return paths[count - 1];
}

static uint64_t hash_words(const gw_exact_path *path, uint64_t first_word, uint64_t count_bytes,
                           const void *bytes) {
    /* supported processors are little-endian */
    uint64_t words = count_bytes / 8, tail = count_bytes % 8;
    uint64_t total = path->state_fingerprint(first_word, words, bytes);
    if (tail > 0)
        total += gw_exact_state_fingerprint(first_word + words, tail, (const uint8_t *)bytes + 8 * words);
    return total;
}

uint64_t gw_exact_hash_state(const gw_exact_path *path, uint64_t first_word, uint64_t count_bytes,
                             const void *bytes) {
    if ((uintptr_t)bytes % 8 == 0) return hash_words(path, first_word, count_bytes, bytes);
    int64_t aligned[COPIED_WORDS];
    uint64_t total = 0;
    for (uint64_t done = 0; done < count_bytes; done += sizeof aligned) {
        uint64_t part = count_bytes - done < sizeof aligned ? count_bytes - done : sizeof aligned;
        memcpy(aligned, (const uint8_t *)bytes + done, part);
        total += hash_words(path, first_word + done / 8, part, aligned);
    }
    return total;
}
