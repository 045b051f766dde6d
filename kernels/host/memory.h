/* Large zeroed arrays, aligned to a page, in huge pages where the kernel has them to give. */
#ifndef GODWIT_KERNELS_HOST_MEMORY_H
#define GODWIT_KERNELS_HOST_MEMORY_H

#include "core/base/err.h"

/* At least one byte is taken. Give back with the same size. */
bool gw_memory_take(size_t bytes, void **memory, gw_err *err);
void gw_memory_give(void *memory, size_t bytes); /* NULL is allowed */

#endif
