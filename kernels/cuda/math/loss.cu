#include "kernels/cuda/math/loss.h"

#include "kernels/cuda/math/block.cuh"
#include "kernels/cuda/math/launch.cuh"
#include "kernels/math/vmath.h"

namespace {

enum { THREADS = 256 };

__device__ uint64_t index() {
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Computes a row as kernels/math/loss.c does: replaces its logits by the gradient and returns its loss.
 * *right tells whether the largest logit is the label's. */
__device__ double row_loss(uint32_t classes, float *row, uint32_t label, float scale, bool *right) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < classes; i++)
        if (row[i] > row[best]) best = i;
    float largest = row[best];
    *right = best == label;
    double loss = 0.0, total = 0.0;
    for (uint32_t i = 0; i < classes; i++) {
        float shifted = row[i] - largest;
        if (i == label) loss = -(double)shifted;
        float e = gw_expf(shifted);
        row[i] = e;
        total += (double)e;
    }
    float factor = (float)((double)scale / total);
    for (uint32_t i = 0; i < classes; i++) row[i] *= factor;
    row[label] -= scale;
    return loss + gw_log(total);
}

__global__ void __launch_bounds__(THREADS)
    loss_kernel(uint64_t rows, uint32_t classes, float *logits, const uint8_t *__restrict__ labels,
                float scale, double *__restrict__ of_row, unsigned long long *correct) {
    uint64_t r = index();
    bool right = false;
    if (r < rows) {
        uint32_t label = labels[r];
        of_row[r] = label < classes ? row_loss(classes, logits + r * classes, label, scale, &right)
                                    : __longlong_as_double(0x7ff8000000000000ll);
    }
    unsigned votes = __ballot_sync(0xffffffffu, right);
    if (threadIdx.x % 32 == 0 && votes != 0) atomicAdd(correct, (unsigned long long)__popc(votes));
}

/* Runs as one block. */
__global__ void __launch_bounds__(THREADS)
    sum_loss_kernel(uint64_t rows, const double *__restrict__ of_row, gw_cuda_loss *loss) {
    __shared__ double sums[THREADS];
    double sum = gw_block_rows(rows, of_row, sums);
    if (threadIdx.x == 0) {
        loss->sum = (float)sum;
        loss->count = (int64_t)rows;
    }
}

} // namespace

cudaError_t gw_cuda_softmax_loss(uint64_t rows, uint32_t classes, float *logits, const uint8_t *labels,
                                 float scale, double *of_row, gw_cuda_loss *loss, cudaStream_t stream) {
    cudaError_t status = cudaMemsetAsync(loss, 0, sizeof *loss, stream);
    if (status != cudaSuccess) return status;
    unsigned long long *correct = reinterpret_cast<unsigned long long *>(&loss->correct);
    GW_LAUNCH(loss_kernel, gw_cuda_blocks(rows, THREADS), THREADS, 0, stream, rows, classes, logits, labels,
              scale, of_row, correct);
    GW_LAUNCH(sum_loss_kernel, 1, THREADS, 0, stream, rows, of_row, loss);
    return cudaGetLastError();
}
