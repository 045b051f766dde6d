/* Large zeroed arrays, aligned to a page, in huge pages where the kernel has them. */
#ifndef GODWIT_KERNELS_HOST_MEMORY_H
#define GODWIT_KERNELS_HOST_MEMORY_H

#include "core/base/err.h"

/* Maps `bytes` bytes, at least one. Fails with GW_E_IO or GW_E_NOMEM where mmap fails; *memory is NULL then.
 * The caller passes the same size to gw_memory_unmap. Any thread. */
bool gw_memory_map(size_t bytes, void **memory, gw_err *err);
void gw_memory_unmap(void *memory, size_t bytes); /* NULL is allowed */

#endif
