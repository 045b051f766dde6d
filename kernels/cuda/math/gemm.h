/* Matrix products on a GPU by cuBLASLt, which is opened when the first one is planned.
 *
 * The bits of a product depend on the *algorithm* that cuBLASLt uses: tiles, the order in which the inner
 * dimension is added, kernels. An algorithm is chosen once for each shape, when the shape is planned, and
 * never later. Every peer asks the library's heuristics the same question (shape, types, alignment,
 * workspace) and makes no measurement, so the choice depends only on the library's version, the GPU's kind
 * and the number of its multiprocessors. The digest of all chosen algorithms, by their attributes, is part of
 * the compute class, which tells peers with other answers apart before they compute. Where the library has no
 * algorithm with the finish that is asked for (a bias at an awkward size), the product is planned plain, and
 * a kernel of ours finishes it; the digest covers this too, since rounding may differ. The library's GELU has
 * an approximate tanh, so it is used only where C is bfloat16.
 *
 * A choice is not sent to other peers. Only the same version of the library on the same kind of GPU can
 * restore an algorithm, and there the heuristics give the same answer anyway; and a peer needs its plans
 * before it connects to others, to name its class and to compute its probe.
 *
 * Matrices are row-major: C [rows, columns] = A [rows, inner] B [inner, columns]. Either factor may be stored
 * transposed; rows lie one after the other without gaps. Sums are float32. */
#ifndef GODWIT_KERNELS_CUDA_MATH_GEMM_H
#define GODWIT_KERNELS_CUDA_MATH_GEMM_H

#include "core/gpu.h"
#include "kernels/cuda/math/gemm_finish.h"

#include <cuda_runtime_api.h>

typedef struct gw_gemm gw_gemm; /* the library on one GPU, at one precision, and its plans */

typedef struct gw_gemm_shape {
    uint64_t rows, columns, inner;
    bool a_transposed; /* A is stored as [inner, rows] */
    bool b_transposed; /* B is stored as [columns, inner] */
    bool factor;       /* C is a factor of other products and has their type; otherwise it is float32 */
    gw_gemm_finish finish;
} gw_gemm_shape;

/* The arrays of a product, in the GPU's memory, aligned to 256 bytes. Factors are float32, or bfloat16 at
 * that precision; `bias` and `before` have C's type. */
typedef struct gw_gemm_operands {
    const void *a, *b;
    const void *bias; /* NULL for PLAIN */
    void *before;     /* for BIAS_GELU: [rows, columns], receives GELU's input; otherwise NULL */
    void *c;
    bool add; /* for PLAIN: the product is added to C; otherwise C is overwritten */
} gw_gemm_operands;

enum { GW_GEMM_WORKSPACE = 32 << 20, GW_GEMM_PLANS = 256 };

/* Opens the library. The GPU must be current. Fails with GW_E_UNSUPPORTED where the library is not found, or
 * is older than the one that this program was built with. */
bool gw_gemm_open(const gw_gpu *gpu, gw_gemm **gemm, gw_err *err);
void gw_gemm_close(gw_gemm *gemm); /* NULL is allowed */
/* Whether tensor cores read factors along the inner dimension only, so that products of other factors are
 * much slower: TF32 since Hopper. */
bool gw_gemm_along_inner(const gw_gemm *gemm);

/* Plans a shape, or finds its plan; *plan is its number. Called on one thread before any product. Fails with
 * GW_E_UNSUPPORTED where the library has no algorithm for the product even without its finish. */
bool gw_gemm_plan(gw_gemm *gemm, const gw_gemm_shape *shape, uint32_t *plan, gw_err *err);
/* "cublaslt=13.1.0 plan=<16 hex digits>": the library and all plans, in the order in which they were made. */
void gw_gemm_text(const gw_gemm *gemm, char text[GW_GPU_PLAN_TEXT]);

/* Starts a product on `stream`. The workspace of GW_GEMM_WORKSPACE bytes, aligned like the operands, belongs
 * to the stream. Any thread. */
bool gw_gemm_run(const gw_gemm *gemm, uint32_t plan, const gw_gemm_operands *operands, void *workspace,
                 cudaStream_t stream, gw_err *err);

#endif
