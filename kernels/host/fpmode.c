#include "kernels/host/fpmode.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

enum {
    DEFAULT_MODE = 0x1f80, /* all exceptions masked, round to nearest, no FTZ, no DAZ */
    STICKY_FLAGS = 0x3f,   /* exceptions that have occurred, which are not part of the mode */
};

void gw_fpmode_set(void) {
    _mm_setcsr(DEFAULT_MODE);
}

bool gw_fpmode_right(void) {
    return (_mm_getcsr() & ~(unsigned)STICKY_FLAGS) == DEFAULT_MODE;
}

#elif defined(__aarch64__)

void gw_fpmode_set(void) {
    uint64_t mode = 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

bool gw_fpmode_right(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode == 0;
}

#else
#error "godwit runs on x86-64 and aarch64"
#endif
