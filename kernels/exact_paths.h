/* The vector implementations behind kernels/exact_add.h. Only that room includes this. */
#ifndef GODWIT_KERNELS_EXACT_PATHS_H
#define GODWIT_KERNELS_EXACT_PATHS_H

#include "kernels/exact_add.h"

#ifdef __x86_64__
extern const gw_exact_path gw_exact_path_avx2;
extern const gw_exact_path gw_exact_path_avx512; /* F and DQ */
#endif

#endif
