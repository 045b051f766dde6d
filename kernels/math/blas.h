/* Matrix products by OpenBLAS, each on one thread, which may be called from many threads at once.
 *
 * Debian's serial OpenBLAS is built without a lock around its table of packing buffers: two threads in sgemm
 * at the same time may receive the same buffer, and both products are then wrong (measured: 1 in 1,000 calls
 * on two cores). The program therefore defines the library's blas_memory_alloc and blas_memory_free itself,
 * behind a mutex; the dynamic linker finds these first. No other code may call cblas_*.
 *
 * The result depends on the shape, the values and the library's kernel set (the compute class), and on
 * nothing else: not on threads, addresses or earlier work. */
#ifndef GODWIT_KERNELS_MATH_BLAS_H
#define GODWIT_KERNELS_MATH_BLAS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef enum gw_transpose { GW_PLAIN, GW_TRANSPOSED } gw_transpose;

/* The most threads that may multiply at once. Debian's OpenBLAS has 640 packing buffers, and a thread that
 * asks for one more writes to address 0; the rest is a reserve. */
enum { GW_BLAS_THREADS = 512 };

/* A row-major matrix operand: its values, and the distance between rows in elements. */
typedef struct gw_operand {
    const float *values;
    size_t stride;
    gw_transpose transpose;
} gw_operand;

/* Replaces C by A B + beta C. All matrices are row-major; A, after its transposition, is [rows, inner], B is
 * [inner, columns] and C [rows, columns]. Sizes are 1 to INT_MAX. With beta 0, C is not read. Any thread, up
 * to GW_BLAS_THREADS at once. */
void gw_blas_multiply(size_t rows, size_t columns, size_t inner, gw_operand a, gw_operand b, float beta,
                      float *c, size_t c_stride);

/* Checks that the loaded library is a serial one and uses this program's buffer functions, since the dynamic
 * linker takes any library of that name; fails with GW_E_UNSUPPORTED otherwise. It also checks that there is
 * memory for a first buffer, without which the library would retry for ever, and fails with GW_E_NOMEM.
 * Threads that find no memory for further buffers wait for each other. The program calls it once, before
 * threads start. */
bool gw_blas_check(gw_err *err);

#endif
