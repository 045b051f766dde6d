/* Large zeroed arrays, aligned to a page, in huge pages where the kernel has them. */
#ifndef GODWIT_KERNELS_HOST_MEMORY_H
#define GODWIT_KERNELS_HOST_MEMORY_H

#include "core/base/err.h"

/* Allocates at least one byte. Fails with GW_E_IO or GW_E_NOMEM as mmap does; *memory is NULL then.
 * gw_memory_give takes the same size. Any thread. */
bool gw_memory_take(size_t bytes, void **memory, gw_err *err);
void gw_memory_give(void *memory, size_t bytes); /* NULL is allowed */

#endif
