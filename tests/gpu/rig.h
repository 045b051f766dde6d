/* For tests that need a GPU: they run on GPU 0, and count as skipped where there is none. */
#ifndef GODWIT_TESTS_GPU_RIG_H
#define GODWIT_TESTS_GPU_RIG_H

#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/factor.h"
#include "kernels/math/dropout.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the test as skipped, and says why, if there is no GPU. Every test here begins with it, so that a suite
 * of which anything was tested was tested on a GPU. */
void gpu_need(void);

/* False on the stand-in for a GPU (tests/gpu_fake), which is slow. */
bool gpu_is_real(void);

/* How often a test repeats what has to end alike every time: often on a real GPU, and a few times where that
 * takes long: on the stand-in, and where GODWIT_TEST_SLOW is set, as tools/gpu/check.py does under
 * compute-sanitizer. */
unsigned gpu_repeats(void);

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
/* So many of them, of the size of what models compute with; to be freed. */
float *gpu_floats(uint64_t seed, size_t count);

/* Bits of bfloat16, rounded with ties to even; no NaN. */
uint16_t gpu_bf16(float value);
/* What a factor of this type keeps of the value. */
float gpu_rounded(bool bf16, float value);

/* Floats as a factor, and back (to be freed); room for one. */
gw_cuda_factor gpu_factor(bool bf16, const float *values, size_t count);
float *gpu_from_factor(gw_cuda_factor factor, size_t count);
gw_cuda_factor gpu_factor_room(bool bf16, size_t count);
size_t gpu_factor_bytes(bool bf16, size_t count);

/* What `dropout` draws by, where kernels find it in the GPU's memory; what must then not be taken from it is
 * spoilt. */
const gw_cuda_draw *gpu_drawn(gw_dropout *dropout);

/* The test fails unless the GPU's memory holds these bytes: `what`, of so many elements. */
void gpu_expect_bits(const void *gpu, const void *expected, size_t bytes, const char *what, uint64_t size);
/* Unless the Euclidean norm of (values - expected) is at most `most` times that of `expected`. */
void gpu_expect_close(const float *values, const double *expected, size_t count, double most,
                      const char *what);
/* The same of values in the GPU's memory. */
void gpu_expect_near(const float *gpu, const double *expected, size_t count, double most, const char *what);

/* Graphs that were started so far; -1 where that is not known: on a real GPU. */
long gpu_graphs(void);

/* Kernels run their blocks and threads in another order from now on, one for each seed (0: as they are
 * numbered). A real GPU takes whatever order it likes. */
void gpu_shuffle(uint64_t seed);

#endif
