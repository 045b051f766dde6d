/* A multi-layer perceptron (kernels/model/mlp.h) on a GPU: forward and backward pass of one shard, with
 * products by cuBLASLt that include bias and ReLU. The shapes of a shard's products depend on its number of
 * rows and are planned beforehand.
 *
 * In TF32, the factors of large weights' gradients are transposed first (gw_gemm_along_inner), since the
 * inner dimension of these products is the samples. Where cuBLASLt transposed them itself, a product took 1.7
 * times as long (an H200, 2048 samples, 8192 by 8192). For this a lane has one more array of its widest
 * inputs, and one of its widest outputs. */
#ifndef GODWIT_KERNELS_CUDA_MODEL_MLP_H
#define GODWIT_KERNELS_CUDA_MODEL_MLP_H

#include "kernels/cuda/math/columns.h"
#include "kernels/cuda/math/factor.h"
#include "kernels/cuda/math/gemm.h"
#include "kernels/model/mlp.h"

typedef struct gw_cuda_mlp gw_cuda_mlp;

enum { GW_CUDA_MLP_SIZES = 10 }; /* the most different numbers of rows that shards have */

/* Plans the products for shards of rows[0 .. count) rows; zeros and repetitions are skipped. The GPU must be
 * current. `mlp` is copied. */
bool gw_cuda_mlp_open(const gw_gpu *gpu, const gw_mlp *mlp, const uint32_t *rows, uint32_t count,
                      gw_cuda_mlp **opened, gw_err *err);
void gw_cuda_mlp_close(gw_cuda_mlp *mlp); /* NULL is allowed */
/* Writes the text of the model's products, as gw_gemm_text does. */
void gw_cuda_mlp_text(const gw_cuda_mlp *mlp, char text[GW_GPU_PLAN_TEXT]);

/* Starts the rounding of weights to factors. The caller calls it after each change of the weights. */
bool gw_cuda_mlp_derive(gw_cuda_mlp *mlp, const gw_mlp_parameters *parameters, cudaStream_t stream,
                        gw_err *err);

/* The scratch of one shard in flight. */
typedef struct gw_cuda_mlp_lane {
    gw_cuda_factor inputs;                /* [rows, width[0]]: the caller fills its first rows */
    float *activation[GW_MLP_LAYERS + 1]; /* [rows, width[l]] for l from 1 on; the last holds the logits */
    gw_cuda_factor factor[GW_MLP_LAYERS]; /* the input of layer l's product; [0]: the inputs */
    /* gradient of a layer's outputs as a factor, unless it replaces an activation */
    gw_cuda_factor gradient;
    float *delta;                                   /* the gradient of a layer's input */
    float *weights, *bias;                          /* gradients of one layer */
    float *transposed_inputs, *transposed_gradient; /* inputs and gradient of one layer, transposed */
    float *parts;                                   /* scratch of column sums */
    void *workspace, *memory;                       /* `memory` is what the pointers point into */
} gw_cuda_mlp_lane;

uint64_t gw_cuda_mlp_lane_bytes(const gw_cuda_mlp *mlp); /* GPU memory that a lane allocates */
bool gw_cuda_mlp_lane_open(const gw_cuda_mlp *mlp, gw_cuda_mlp_lane *lane, gw_err *err);
void gw_cuda_mlp_lane_close(const gw_cuda_mlp *mlp, gw_cuda_mlp_lane *lane);

/* Starts the forward pass of `rows` rows, which must be one of the planned numbers. */
bool gw_cuda_mlp_forward(const gw_cuda_mlp *mlp, const gw_mlp_parameters *parameters, gw_cuda_mlp_lane *lane,
                         uint32_t rows, cudaStream_t stream, gw_err *err);
/* Starts the backward pass, with the gradient of the loss in place of the logits, and emits each layer's bias
 * and weight gradients whole, last layer first. */
bool gw_cuda_mlp_backward(const gw_cuda_mlp *mlp, const gw_mlp_parameters *parameters,
                          const gw_mlp_gradients *gradients, gw_cuda_mlp_lane *lane, uint32_t rows,
                          cudaStream_t stream, gw_emitter *emitter, gw_err *err);

#endif
