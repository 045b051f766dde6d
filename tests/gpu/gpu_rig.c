#include "gpu_rig.h"

#include "core/rng.h"
#include "kernels/cuda/cuda.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

void gpu_need(void) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    gw_err err;
    if (!gw_cuda_list(list, &count, &err)) {
        cr_assert_eq(err.code, GW_E_UNSUPPORTED, "%s",
                     err.text); /* one that is there and fails is no excuse */
        cr_skip_test("%s", err.text);
    }
    GPU(cudaSetDevice(0));
}

bool gpu_is_real(void) {
    struct cudaDeviceProp properties;
    GPU(cudaGetDeviceProperties(&properties, 0));
    return strcmp(properties.name, "a stand-in") != 0;
}

void gpu_good(cudaError_t status, const char *what) {
    cr_assert_eq(status, cudaSuccess, "%s: %s", what, cudaGetErrorString(status));
}

void *gpu_take(size_t bytes, size_t offset) {
    void *memory;
    GPU(cudaMalloc(&memory, bytes + offset + 256));
    GPU(cudaMemset(memory, 0xEE, bytes + offset + 256));
    GPU(cudaDeviceSynchronize()); /* streams of a test's own do not wait for the default one */
    return (char *)memory + offset;
}

void *gpu_copy_of(const void *host, size_t bytes, size_t offset) {
    void *memory = gpu_take(bytes, offset);
    GPU(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice));
    GPU(cudaDeviceSynchronize()); /* from memory that is not pinned it may arrive after the call */
    return memory;
}

void gpu_fetch(void *host, const void *gpu, size_t bytes) {
    GPU(cudaDeviceSynchronize());
    GPU(cudaMemcpy(host, gpu, bytes, cudaMemcpyDeviceToHost));
}

void gpu_random_floats(uint64_t seed, size_t count, float least_exponent, float most_exponent,
                       float *values) {
    gw_rng rng = gw_rng_seeded(seed);
    for (size_t i = 0; i < count; i++) {
        double exponent =
            (double)least_exponent + gw_rng_unit(&rng) * (double)(most_exponent - least_exponent);
        double size = exp2(exponent);
        values[i] = (float)(gw_rng_next(&rng) & 1 ? size : -size);
    }
}
