/* For tests that need a GPU: they run on GPU 0, and count as skipped where there is none. */
#ifndef GODWIT_TESTS_GPU_GPU_RIG_H
#define GODWIT_TESTS_GPU_GPU_RIG_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the test as skipped, and says why, if there is no GPU. */
void gpu_need(void);

/* False on the stand-in for a GPU (tests/gpu_fake), which is slow. */
bool gpu_is_real(void);

/* Fails the test with CUDA's words. */
void gpu_good(cudaError_t status, const char *what);
#define GPU(call) gpu_good((call), #call)

/* Memory of the GPU; freed with the process, as each test is one. Filled with 0xEE: what is not written
 * shows. Shifted by `offset` bytes from an aligned address. */
void *gpu_take(size_t bytes, size_t offset);
void *gpu_copy_of(const void *host, size_t bytes, size_t offset);
/* To host memory, after all work that was started. */
void gpu_fetch(void *host, const void *gpu, size_t bytes);

/* Random floats of many magnitudes, both signs; the same for the same seed. */
void gpu_random_floats(uint64_t seed, size_t count, float least_exponent, float most_exponent, float *values);

#endif
