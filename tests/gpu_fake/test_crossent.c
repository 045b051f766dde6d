/* The loss of logits on GPUs with more and less shared memory: a row that is kept there gives the bits of one
 * that is read twice. */
#include "fake_cuda.h"
#include "gpu/gpu_rig.h"

#include "kernels/cuda/gpt_kernels.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3 };

static float *gradient(uint32_t vocabulary, uint32_t stride, size_t shared, double loss[ROWS]) {
    const uint32_t targets[ROWS] = {0, vocabulary / 2, vocabulary - 1};
    size_t bytes = ROWS * (size_t)stride * sizeof(float);
    float *values = malloc(bytes);
    fake_shared(shared);
    gpu_random_floats(1, ROWS * (size_t)stride, -3, 3, values);
    float *gpu = gpu_copy_of(values, bytes, 0);
    double *of_row = gpu_take(ROWS * sizeof *of_row, 0);
    GPU(gw_cuda_crossent(ROWS, vocabulary, stride, (gw_cuda_factor){gpu, false},
                         gpu_copy_of(targets, sizeof targets, 0), 0x1p-12f, of_row, NULL));
    gpu_fetch(values, gpu, bytes);
    gpu_fetch(loss, of_row, ROWS * sizeof *of_row);
    return values;
}

Test(gpu_crossent, what_is_kept_changes_no_bit) {
    static const uint32_t sizes[][2] = {{7, 7}, {1000, 1004}, {9001, 9004}, {28000, 28000}, {30001, 30004}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        double loss[2][ROWS];
        float *much = gradient(sizes[s][0], sizes[s][1], 227 << 10, loss[0]);
        float *little = gradient(sizes[s][0], sizes[s][1], 0, loss[1]);
        cr_expect_eq(memcmp(much, little, ROWS * sizes[s][1] * sizeof *much), 0, "%u logits", sizes[s][0]);
        cr_expect_eq(memcmp(loss[0], loss[1], sizeof loss[0]), 0, "%u logits", sizes[s][0]);
        free(much);
        free(little);
    }
}
