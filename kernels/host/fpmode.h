/* The floating-point mode that results depend on: round to nearest, denormals kept in and out. A library that
 * a worker calls might change it; it is set for every worker and looked at for every shard. */
#ifndef GODWIT_KERNELS_HOST_FPMODE_H
#define GODWIT_KERNELS_HOST_FPMODE_H

#include <stdbool.h>

/* Sets the calling thread's mode. */
void gw_fpmode_set(void);
/* Whether the calling thread has that mode. */
bool gw_fpmode_right(void);

#endif
