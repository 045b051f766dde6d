/* PTX instructions for which CUDA has no function: products on tensor cores, copies of their factors from
 * memory to shared memory and from there into registers, and barriers to optimizations that would occupy
 * registers. All of them exist since sm_80. No other file contains PTX; a compiler of .cu files for another
 * machine than a GPU brings functions of the same names (tests/gpu_emulated).
 *
 * Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16") for thread 4 g + t of a warp. A register holds two
 * neighbouring values, the left one in its lower half:
 *
 * - a, 16 x 16: registers 0 to 3 hold rows g, g + 8, g, g + 8 and columns 2t, 2t, 2t + 8, 2t + 8 (and + 1);
 * - b, 16 x 8: registers 0 and 1 hold rows 2t and 2t + 8 (and + 1) of column g;
 * - c, 16 x 8: registers 0 and 1 hold row g, columns 2t and 2t + 1; registers 2 and 3 the same of row g + 8.
 */
#ifndef GODWIT_KERNELS_CUDA_MATH_TENSOR_CORE_CUH
#define GODWIT_KERNELS_CUDA_MATH_TENSOR_CORE_CUH

#include <stdint.h>

#ifdef __CUDACC__

/* Adds to c the product of a and b, bfloat16 factors whose products are added in float32. All threads of the
 * warp call it. */
__device__ __forceinline__ void gw_multiply_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t gw_shared_address(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Loads four matrices of 8 x 8 16-bit values: thread 8 i + r gives the address of row r of matrix i, 16 bytes
 * in shared memory; to[i] becomes row g, columns 2t and 2t + 1 of matrix i. All threads of the warp call it.
 */
__device__ __forceinline__ void gw_load_matrices(uint32_t (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(gw_shared_address(row))
                 : "memory");
}

/* Does the same with the transposed matrices: to[i] becomes rows 2t and 2t + 1, column g of matrix i. */
__device__ __forceinline__ void gw_load_transposed(uint32_t (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(gw_shared_address(row))
                 : "memory");
}

/* Begins to copy 16 bytes to shared memory; both addresses are aligned to 16. If `there` is false, it writes
 * zeros and does not read `from`. The thread's copies since the last commit form a group. */
__device__ __forceinline__ void gw_copy_begin(void *shared, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gw_shared_address(shared)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void gw_copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all groups of this thread but the latest `left`. The copies of other threads are visible after a
 * barrier that follows. */
template <int left> __device__ __forceinline__ void gw_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

/* Rounds both to bfloat16, ties to even, and packs them into one register. */
__device__ __forceinline__ uint32_t gw_pack_bf16(float low, float high) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* Hides the value of x from the optimizer. What the code after it computes from x is then computed where it
 * is needed, and not kept in registers over the iterations of a loop. */
__device__ __forceinline__ void gw_hide_value(int &x) {
    asm volatile("" : "+r"(x));
}

/* Loads from memory that no kernel writes. Every call loads, from the first-level cache, where the compiler
 * would keep the value in registers. */
__device__ __forceinline__ uint64_t gw_reload(const uint64_t *at) {
    uint64_t value;
    asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(value) : "l"(at));
    return value;
}

/* Computes 2^x within 2 ulp; the result is 0 instead of a subnormal, and for minus infinity. */
__device__ __forceinline__ float gw_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif

#endif
