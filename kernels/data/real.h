/* Floating-point numbers of the widths that files of weights have, and their conversion. */
#ifndef GODWIT_KERNELS_DATA_REAL_H
#define GODWIT_KERNELS_DATA_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* IEEE 754's binary64, binary32 and binary16, and bfloat16, which is the upper half of binary32. */
typedef enum gw_real { GW_REAL_F64, GW_REAL_F32, GW_REAL_F16, GW_REAL_BF16, GW_REALS } gw_real;

/* The kind that safetensors files call by this name ("BF16"); GW_REALS where it is none. Any thread. */
gw_real gw_real_named(const char *name);
const char *gw_real_name(gw_real kind);
/* Bytes of a number. */
size_t gw_real_bytes(gw_real kind);
/* The largest finite number. */
double gw_real_largest(gw_real kind);

/* Converts `count` little-endian numbers, at any alignment. Each is rounded once, to the nearest number of
 * the new kind, and to the one whose last bit is 0 where two are equally near. Zeros keep their sign, NaN
 * stays NaN, and numbers beyond the largest become infinite, as IEEE 754 has it. Returns how many finite
 * numbers became infinite. `in` and `out` do not overlap. Any thread, in the usual rounding mode. */
uint64_t gw_real_convert(gw_real from, const void *in, gw_real to, void *out, uint64_t count);

#endif
