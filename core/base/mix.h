/* A mixing function of 64 bits, for hash tables and for keys of generators. It runs on GPUs as well. */
#ifndef GODWIT_CORE_BASE_MIX_H
#define GODWIT_CORE_BASE_MIX_H

#include "core/base/anywhere.h"

#include <stdint.h>

/* Mixes 64 bits (the finalizer of splitmix64): equal inputs give equal outputs, and the outputs of
 * neighbouring inputs are unrelated. Any thread. */
GW_ANYWHERE static inline uint64_t gw_mix64(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

#endif
