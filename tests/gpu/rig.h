/* Support for tests that need a GPU. They run on GPU 0 and are skipped where there is none. */
#ifndef GODWIT_TESTS_GPU_RIG_H
#define GODWIT_TESTS_GPU_RIG_H

#include "kernels/cuda/math/draw.h"
#include "kernels/cuda/math/factor.h"
#include "kernels/math/dropout.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the test as skipped, with the reason, if there is no GPU. Every test begins with it, so that a suite
 * that was not skipped was tested on a GPU. */
void gpu_need(void);

/* False on the stand-in for a GPU (tests/gpu_fake), which is slow. */
bool gpu_is_real(void);

/* The number of repetitions of a computation that must give the same result every time: many on a real
 * GPU, and a few where a repetition takes long, on the stand-in and where GODWIT_TEST_SLOW is set, as
 * tools/gpu/check.py does under compute-sanitizer. */
unsigned gpu_repeats(void);

/* Fails the test with CUDA's message. */
void gpu_good(cudaError_t status, const char *what);
#define GPU(call) gpu_good((call), #call)

/* Allocates memory of the GPU, `offset` bytes behind an aligned address, which is freed with the test's
 * process. gpu_take fills it with 0xEE, so that unwritten elements show; gpu_copy_of copies host memory to
 * it. */
void *gpu_take(size_t bytes, size_t offset);
void *gpu_copy_of(const void *host, size_t bytes, size_t offset);
/* Copies to host memory after all work that was started. */
void gpu_fetch(void *host, const void *gpu, size_t bytes);

/* Fills `values` with random floats of many magnitudes and both signs, the same for the same seed. */
void gpu_random_floats(uint64_t seed, size_t count, float least_exponent, float most_exponent, float *values);
/* Returns `count` random floats of the magnitude of activations; the caller frees them. */
float *gpu_floats(uint64_t seed, size_t count);

/* The bits of a value rounded to bfloat16, ties to even; the value is not NaN. */
uint16_t gpu_bf16(float value);
/* The value after rounding to the type of a factor. */
float gpu_rounded(bool bf16, float value);

/* gpu_factor makes a factor of `count` floats; gpu_from_factor returns a factor's values as floats, which the
 * caller frees; gpu_factor_room allocates a factor that is not written, and gpu_factor_bytes is its size. */
gw_cuda_factor gpu_factor(bool bf16, const float *values, size_t count);
float *gpu_from_factor(gw_cuda_factor factor, size_t count);
gw_cuda_factor gpu_factor_room(bool bf16, size_t count);
size_t gpu_factor_bytes(bool bf16, size_t count);

/* Moves the key and stream of `dropout` to the GPU's memory, where kernels read them; the fields of `dropout`
 * get wrong values, which kernels must not use. */
const gw_cuda_draw *gpu_drawn(gw_dropout *dropout);

/* Checks that the GPU's memory holds these bytes; a failure names `what` and the number of elements. */
void gpu_expect_bits(const void *gpu, const void *expected, size_t bytes, const char *what, uint64_t size);
/* Checks that the Euclidean norm of (values - expected) is at most `most` times that of `expected`. */
void gpu_expect_close(const float *values, const double *expected, size_t count, double most,
                      const char *what);
/* Does the same with values in the GPU's memory. */
void gpu_expect_near(const float *gpu, const double *expected, size_t count, double most, const char *what);

/* The number of graphs that were started so far; -1 on a real GPU, where it is unknown. */
long gpu_graphs(void);

/* Makes kernels run their blocks and threads in another order, one for each seed; 0 is the order of their
 * numbers. On a real GPU, which has its own order, it has no effect. */
void gpu_shuffle(uint64_t seed);

#endif
