/* Matrix products by OpenBLAS, one thread each, safe to call from many.
 *
 * Debian's serial OpenBLAS is built without a lock around its table of packing buffers: two threads that
 * enter sgemm together may be given the same buffer, and then both products are wrong (seen: 1 in 1,000 calls
 * on two cores). This room puts the library's own blas_memory_alloc and blas_memory_free behind a mutex by
 * defining them in the program, where the dynamic linker looks first. Therefore nothing else may call
 * cblas_*.
 *
 * The result depends on the shape, the values and the library's kernel set (compute class), and on nothing
 * else: not on threads, addresses or what ran before. */
#ifndef GODWIT_KERNELS_MATH_BLAS_H
#define GODWIT_KERNELS_MATH_BLAS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum gw_transpose { GW_PLAIN, GW_TRANSPOSED } gw_transpose;

/* So many threads at most may multiply at once: OpenBLAS has 640 packing buffers (Debian's), and who asks for
 * one more writes to address 0. The rest is for what else is going on. */
enum { GW_BLAS_THREADS = 512 };

/* A row-major matrix operand: its values, and the distance between rows in elements. */
typedef struct gw_operand {
    const float *values;
    size_t stride;
    gw_transpose transpose;
} gw_operand;

/* C = A B + beta C, where A (after transposition) is rows x inner and B inner x columns; row-major. No size
 * is zero and none exceeds INT_MAX. Any thread, GW_BLAS_THREADS also at once. */
void gw_blas_multiply(size_t rows, size_t columns, size_t inner, gw_operand a, gw_operand b, float beta,
                      float *c, size_t c_stride);

/* Checks that the loaded library is a serial one, and asks this program for its buffers, as must be for the
 * above to hold; any other is refused with GW_E_UNSUPPORTED; and that there is room for a first buffer,
 * without which the library would try for ever (GW_E_NOMEM). Threads that find no room for more of them wait
 * for each other. (The dynamic linker takes whatever it finds by the serial one's name.) Call once before
 * threads start. */
bool gw_blas_check(gw_err *err);

#endif
