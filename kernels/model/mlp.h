/* A multi-layer perceptron with ReLU between layers: forward and backward pass of one shard. Weights are [in,
 * out], row-major, so that both passes read and write rows. The shape of every product depends on the widths
 * and the shard's rows alone. Sums of a column run over the rows in order. */
#ifndef GODWIT_KERNELS_MODEL_MLP_H
#define GODWIT_KERNELS_MODEL_MLP_H

#include "core/godwit.h"

enum {
    GW_MLP_LAYERS = 16, /* the most layers */
    /* approximate number of weight gradients that are computed and emitted at a time */
    GW_MLP_PIECE = 48 * 1024,
    GW_MLP_WIDTH = GW_MLP_PIECE, /* the largest width of a layer */
    GW_MLP_ROWS = 1 << 16,       /* the most rows of a shard */
};

typedef struct gw_mlp {
    uint32_t layers;                   /* layers of weights: 2 for 784-128-10 */
    uint32_t width[GW_MLP_LAYERS + 1]; /* inputs, hidden layers, classes */
} gw_mlp;

/* Pointers into the state, by layer. */
typedef struct gw_mlp_parameters {
    const float *weights[GW_MLP_LAYERS]; /* [width[l], width[l + 1]] */
    const float *bias[GW_MLP_LAYERS];    /* [width[l + 1]] */
} gw_mlp_parameters;

/* The numbers of the summed tensors that receive the gradients. */
typedef struct gw_mlp_gradients {
    uint32_t weights[GW_MLP_LAYERS];
    uint32_t bias[GW_MLP_LAYERS];
} gw_mlp_gradients;

/* One worker's scratch. The caller fills the first `rows` rows of activation[0] with inputs. */
typedef struct gw_mlp_lane {
    uint32_t rows;                        /* the most rows */
    float *activation[GW_MLP_LAYERS + 1]; /* [rows, width[l]]; the last holds the logits */
    float *delta;                         /* [rows, widest hidden layer]: the gradient of a layer's outputs */
    float *piece;                         /* weight gradients of some rows of a layer */
    void *memory;                         /* the memory that the pointers point into */
} gw_mlp_lane;

/* Bytes that a lane for `rows` rows allocates. */
size_t gw_mlp_lane_bytes(const gw_mlp *mlp, uint32_t rows);
bool gw_mlp_lane_open(const gw_mlp *mlp, uint32_t rows, gw_mlp_lane *lane, gw_err *err);
void gw_mlp_lane_close(gw_mlp_lane *lane);

/* Computes activation[1 .. layers] from the first `rows` rows of activation[0]; `rows` is 1 to lane->rows. */
void gw_mlp_forward(const gw_mlp *mlp, const gw_mlp_parameters *parameters, gw_mlp_lane *lane, uint32_t rows);

/* Emits each layer's bias and weight gradients after gw_mlp_forward, with the gradient of the loss in place
 * of the logits: last layer first, the pieces of a layer in rising order, each as soon as it is final.
 * Overwrites the activations above the first. */
void gw_mlp_backward(const gw_mlp *mlp, const gw_mlp_parameters *parameters,
                     const gw_mlp_gradients *gradients, gw_mlp_lane *lane, uint32_t rows,
                     gw_emitter *emitter);

#endif
