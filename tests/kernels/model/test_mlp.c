/* Gradients against finite differences of a forward pass in double. */
#include "kernels/model/mlp.h"

#include "core/rng.h"
#include "kernels/math/loss.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A network with its own parameters, and an emitter that stores all emitted values. Tensor 2l is the weights
 * of layer l, 2l + 1 its bias. */
typedef struct network {
    gw_emitter emitter; /* must be the first field: the emitter is cast to its network */
    gw_mlp mlp;
    uint32_t rows;
    uint64_t size[2 * GW_MLP_LAYERS];
    float *parameter[2 * GW_MLP_LAYERS], *gradient[2 * GW_MLP_LAYERS];
    uint8_t *emitted[2 * GW_MLP_LAYERS]; /* how often each element was emitted */
    uint32_t last_tensor;
    int order_violations;
    float *inputs;
    uint8_t *labels;
} network;

static void keep(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count, const float *values) {
    network *n = (network *)emitter;
    cr_assert_leq(first + count, n->size[tensor]);
    n->order_violations += tensor / 2 > n->last_tensor / 2; /* last layer first */
    n->last_tensor = tensor;
    for (uint64_t i = 0; i < count; i++) {
        n->gradient[tensor][first + i] = values[i];
        n->emitted[tensor][first + i]++;
    }
}

static network *make(const uint32_t *width, uint32_t layers, uint32_t rows) {
    network *n = calloc(1, sizeof *n);
    n->emitter.emit = keep;
    n->mlp.layers = layers;
    n->rows = rows;
    memcpy(n->mlp.width, width, (layers + 1) * sizeof *width);
    gw_rng rng = gw_rng_seeded(rows);
    for (uint32_t t = 0; t < 2 * layers; t++) {
        uint32_t l = t / 2;
        n->size[t] = t % 2 == 0 ? (uint64_t)width[l] * width[l + 1] : width[l + 1];
        n->parameter[t] = malloc(n->size[t] * sizeof(float));
        n->gradient[t] = calloc(n->size[t], sizeof(float));
        n->emitted[t] = calloc(n->size[t], 1);
        double bound = sqrt(6.0 / width[l]);
        for (uint64_t i = 0; i < n->size[t]; i++)
            n->parameter[t][i] = (float)((2.0 * gw_rng_unit(&rng) - 1.0) * bound);
    }
    n->inputs = malloc((size_t)rows * width[0] * sizeof(float));
    for (size_t i = 0; i < (size_t)rows * width[0]; i++)
        n->inputs[i] = (float)(2.0 * gw_rng_unit(&rng) - 1.0);
    n->labels = malloc(rows);
    for (uint32_t r = 0; r < rows; r++) n->labels[r] = (uint8_t)gw_rng_below(&rng, width[layers]);
    return n;
}

static void destroy(network *n) {
    for (uint32_t t = 0; t < 2 * n->mlp.layers; t++) {
        free(n->parameter[t]);
        free(n->gradient[t]);
        free(n->emitted[t]);
    }
    free(n->inputs);
    free(n->labels);
    free(n);
}

/* The loss of all rows, computed in double, with element i of tensor t moved by `move`. */
static double reference_loss(const network *n, uint32_t t, uint64_t i, double move) {
    double loss = 0.0;
    double *x = malloc(GW_MLP_WIDTH * sizeof *x), *y = malloc(GW_MLP_WIDTH * sizeof *y);
    for (uint32_t r = 0; r < n->rows; r++) {
        for (uint32_t k = 0; k < n->mlp.width[0]; k++) x[k] = (double)n->inputs[r * n->mlp.width[0] + k];
        for (uint32_t l = 0; l < n->mlp.layers; l++) {
            uint32_t in = n->mlp.width[l], out = n->mlp.width[l + 1];
            for (uint32_t o = 0; o < out; o++)
                y[o] = (double)n->parameter[2 * l + 1][o] + (t == 2 * l + 1 && o == i ? move : 0.0);
            for (uint32_t k = 0; k < in; k++)
                for (uint32_t o = 0; o < out; o++) y[o] += x[k] * (double)n->parameter[2 * l][k * out + o];
            if (t == 2 * l) y[i % out] += x[i / out] * move;
            for (uint32_t o = 0; o < out; o++) x[o] = l + 1 < n->mlp.layers && y[o] < 0.0 ? 0.0 : y[o];
        }
        double total = 0.0;
        for (uint32_t o = 0; o < n->mlp.width[n->mlp.layers]; o++) total += exp(x[o]);
        loss += log(total) - x[n->labels[r]];
    }
    free(x);
    free(y);
    return loss;
}

static void compute_gradients(network *n) {
    gw_err err;
    gw_mlp_lane lane;
    cr_assert(gw_mlp_lane_open(&n->mlp, n->rows + 3, &lane, &err), "%s", err.text);
    gw_mlp_parameters parameters;
    gw_mlp_gradients gradients;
    for (uint32_t l = 0; l < n->mlp.layers; l++) {
        parameters.weights[l] = n->parameter[2 * l];
        parameters.bias[l] = n->parameter[2 * l + 1];
        gradients.weights[l] = 2 * l;
        gradients.bias[l] = 2 * l + 1;
    }
    n->last_tensor = 2 * n->mlp.layers;
    memcpy(lane.activation[0], n->inputs, (size_t)n->rows * n->mlp.width[0] * sizeof(float));
    gw_mlp_forward(&n->mlp, &parameters, &lane, n->rows);
    gw_loss_softmax(lane.activation[n->mlp.layers], n->labels, n->rows, n->mlp.width[n->mlp.layers], 1.0f);
    gw_mlp_backward(&n->mlp, &parameters, &gradients, &lane, n->rows, &n->emitter);
    gw_mlp_lane_close(&lane);
}

/* Compares every `stride`-th element of every tensor. */
static void check_gradients(const uint32_t *width, uint32_t layers, uint32_t rows, uint64_t stride) {
    network *n = make(width, layers, rows);
    compute_gradients(n);
    cr_assert_eq(n->order_violations, 0);
    const double move = 1e-6;
    for (uint32_t t = 0; t < 2 * layers; t++) {
        for (uint64_t i = 0; i < n->size[t]; i++)
            cr_assert_eq(n->emitted[t][i], 1, "tensor %u element %d", t, (int)i);
        for (uint64_t i = 0; i < n->size[t]; i += stride) {
            double slope = (reference_loss(n, t, i, move) - reference_loss(n, t, i, -move)) / (2.0 * move);
            cr_assert_float_eq((double)n->gradient[t][i], slope, 2e-5 * (1.0 + fabs(slope)),
                               "tensor %u element %d: %g, slope %g", t, (int)i, (double)n->gradient[t][i],
                               slope);
        }
    }
    destroy(n);
}

Test(mlp, gradients_agree_with_finite_differences) {
    check_gradients((const uint32_t[]){13, 11, 7, 5}, 3, 9, 1);
    check_gradients((const uint32_t[]){6, 3}, 1, 4, 1);
    check_gradients((const uint32_t[]){1, 1, 2}, 2, 1, 1);
}

Test(mlp, layers_of_several_pieces_are_emitted_whole) {
    check_gradients((const uint32_t[]){301, 401, 10}, 2, 3, 5003);
}

Test(mlp, a_shard_does_not_see_what_ran_before_it) {
    const uint32_t width[] = {20, 17, 10};
    network *n = make(width, 2, 5);
    compute_gradients(n);
    float *first = malloc(n->size[0] * sizeof *first);
    memcpy(first, n->gradient[0], n->size[0] * sizeof *first);
    for (int i = 0; i < 20; i++) {
        compute_gradients(n);
        cr_assert_arr_eq(n->gradient[0], first, n->size[0] * sizeof *first);
    }
    free(first);
    destroy(n);
}
