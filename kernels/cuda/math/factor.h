/* A factor of a product in a GPU's memory, in the type of the product's operands: float32, or bfloat16 as its
 * bits. */
#ifndef GODWIT_KERNELS_CUDA_MATH_FACTOR_H
#define GODWIT_KERNELS_CUDA_MATH_FACTOR_H

#include <stdbool.h>

typedef struct gw_cuda_factor {
    void *values;
    bool bf16;
} gw_cuda_factor;

#endif
