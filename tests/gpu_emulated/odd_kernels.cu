#include "tests/gpu_emulated/odd_kernels.h"

#include "kernels/cuda/math/launch.cuh"
#include "kernels/cuda/math/tensor_core.cuh"

namespace {

__global__ void early_kernel() {
    if (threadIdx.x == 70) return;
    __syncthreads();
}

__global__ void two_barriers_kernel() {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void missing_lane_kernel() {
    if (threadIdx.x % 32 != 5) (void)__shfl_down_sync(0xffffffffu, 1, 1);
}

__global__ void short_warp_kernel() {
    (void)__any_sync(0xffffffffu, true);
}

__global__ void outside_kernel() {
    __syncwarp(0xfffffffeu);
}

__global__ void not_aligned_kernel() {
    __shared__ float values[8];
    __stcs(reinterpret_cast<float2 *>(values + 1), make_float2(1.0f, 2.0f));
}

__global__ void nothing_kernel() {}

__global__ void shared_kernel(uint32_t *to) {
    __shared__ uint32_t fixed[2];
    uint32_t *dynamic = static_cast<uint32_t *>(gw_dynamic_shared());
    to[0] = fixed[0];
    to[1] = dynamic[3];
    to[2] = fixed[1];
    fixed[1] = blockIdx.x;
}

__global__ void order_kernel(uint32_t *to, uint32_t *clock) {
    to[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(clock, 1);
}

__global__ void sums_kernel(const int32_t *in, int32_t *to) {
    __shared__ int32_t of_warp[4];
    int32_t value = in[threadIdx.x];
    unsigned above = __ballot_sync(0xffffffffu, value > 0);
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int w = 0; w < 4; w++) value += of_warp[w];
    to[threadIdx.x] = value + __popc(above);
}

__global__ void product_kernel(const uint16_t *a, const uint16_t *b, float *c, bool hasty) {
    uint16_t *at = static_cast<uint16_t *>(gw_dynamic_shared()); /* a [16, 16], then b [16, 8] */
    int lane = (int)threadIdx.x;
    gw_copy_begin(at + 8 * lane, a + 8 * lane, true);
    if (lane < 16) gw_copy_begin(at + 256 + 8 * lane, b + 8 * lane, true);
    gw_copy_commit();
    if (!hasty) gw_copy_wait<0>();
    __syncwarp();
    uint32_t left[4], right[4];
    gw_load_matrices(left, at + lane % 16 * 16 + lane / 16 * 8);
    gw_load_transposed(right, at + 256 + lane % 16 * 8);
    float sum[4] = {0, 0, 0, 0};
    gw_multiply_bf16(sum, left, right[0], right[1]);
    for (int r = 0; r < 4; r++) c[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = sum[r];
}

} // namespace

void odd_thread_ends_before_a_barrier(void) {
    GW_LAUNCH(early_kernel, 3, 128, 0, nullptr);
}
void odd_threads_at_two_barriers(void) {
    GW_LAUNCH(two_barriers_kernel, 1, 64, 0, nullptr);
}
void odd_lane_misses_a_shuffle(void) {
    GW_LAUNCH(missing_lane_kernel, 1, 64, 0, nullptr);
}
void odd_lanes_that_do_not_exist(void) {
    GW_LAUNCH(short_warp_kernel, 1, 40, 0, nullptr);
}
void odd_lane_outside_its_mask(void) {
    GW_LAUNCH(outside_kernel, 1, 32, 0, nullptr);
}
void odd_access_not_aligned(void) {
    GW_LAUNCH(not_aligned_kernel, 1, 1, 0, nullptr);
}
void odd_too_many_threads(void) {
    GW_LAUNCH(nothing_kernel, 1, dim3(32, 33), 0, nullptr);
}
void odd_shared_memory(uint32_t *to) {
    GW_LAUNCH(shared_kernel, 2, 1, 64, nullptr, to);
}
void odd_order(uint32_t *to, uint32_t *clock) {
    GW_LAUNCH(order_kernel, 16, 64, 0, nullptr, to, clock);
}
void odd_sums(const int32_t *in, int32_t *to) {
    GW_LAUNCH(sums_kernel, 1, 128, 0, nullptr, in, to);
}
void odd_product(const uint16_t *a, const uint16_t *b, float *c, int hasty) {
    GW_LAUNCH(product_kernel, 1, 32, 16 * 24 * 2, nullptr, a, b, c, hasty != 0);
}
