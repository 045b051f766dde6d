/* The floating-point mode that results depend on: round to nearest, denormals neither read nor written as
 * zero. A library that a worker calls might change the mode, so it is set for every worker and checked for
 * every shard. */
#ifndef GODWIT_KERNELS_HOST_FPMODE_H
#define GODWIT_KERNELS_HOST_FPMODE_H

#include <stdbool.h>

/* Sets the mode of the calling thread. */
void gw_fpmode_set(void);
/* Whether the calling thread has that mode. */
bool gw_fpmode_right(void);

#endif
