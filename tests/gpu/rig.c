#include "tests/gpu/rig.h"

#include "core/rng.h"
#include "kernels/cuda/runtime/cuda.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void gpu_need(void) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    gw_err err;
    if (!gw_cuda_list(list, &count, &err)) {
        cr_assert_eq(err.code, GW_E_UNSUPPORTED, "%s",
                     err.text); /* a GPU that exists and fails is no reason to skip */
        cr_skip_test("%s", err.text);
    }
    GPU(cudaSetDevice(0));
}

bool gpu_is_real(void) {
    struct cudaDeviceProp properties;
    GPU(cudaGetDeviceProperties(&properties, 0));
    return strcmp(properties.name, "a stand-in") != 0;
}

unsigned gpu_repeats(void) {
    return gpu_is_real() && getenv("GODWIT_TEST_SLOW") == NULL ? 99 : 2;
}

void gpu_good(cudaError_t status, const char *what) {
    cr_assert_eq(status, cudaSuccess, "%s: %s", what, cudaGetErrorString(status));
}

void *gpu_take(size_t bytes, size_t offset) {
    void *memory;
    GPU(cudaMalloc(&memory, bytes + offset + 256));
    GPU(cudaMemset(memory, 0xEE, bytes + offset + 256));
    GPU(cudaDeviceSynchronize()); /* a test's own streams do not wait for the default stream */
    return (char *)memory + offset;
}

void *gpu_copy_of(const void *host, size_t bytes, size_t offset) {
    void *memory = gpu_take(bytes, offset);
    GPU(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice));
    /* a copy from memory that is not pinned may arrive after cudaMemcpy returns */
    GPU(cudaDeviceSynchronize());
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

float *gpu_floats(uint64_t seed, size_t count) {
    float *values = malloc(count * sizeof *values);
    cr_assert_not_null(values);
    gpu_random_floats(seed, count, -12, 3, values);
    return values;
}

uint16_t gpu_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float widened(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

float gpu_rounded(bool bf16, float value) {
    return bf16 ? widened(gpu_bf16(value)) : value;
}

size_t gpu_factor_bytes(bool bf16, size_t count) {
    return count * (bf16 ? sizeof(uint16_t) : sizeof(float));
}

gw_cuda_factor gpu_factor_room(bool bf16, size_t count) {
    return (gw_cuda_factor){gpu_take(gpu_factor_bytes(bf16, count), 0), bf16};
}

gw_cuda_factor gpu_factor(bool bf16, const float *values, size_t count) {
    if (!bf16) return (gw_cuda_factor){gpu_copy_of(values, count * sizeof *values, 0), false};
    uint16_t *bits = malloc(count * sizeof *bits);
    for (size_t i = 0; i < count; i++) bits[i] = gpu_bf16(values[i]);
    gw_cuda_factor made = {gpu_copy_of(bits, count * sizeof *bits, 0), true};
    free(bits);
    return made;
}

float *gpu_from_factor(gw_cuda_factor factor, size_t count) {
    float *values = malloc(count * sizeof *values);
    uint16_t *bits = malloc(count * sizeof *bits);
    gpu_fetch(factor.bf16 ? (void *)bits : values, factor.values, gpu_factor_bytes(factor.bf16, count));
    for (size_t i = 0; factor.bf16 && i < count; i++) values[i] = widened(bits[i]);
    free(bits);
    return values;
}

const gw_cuda_draw *gpu_drawn(gw_dropout *dropout) {
    const uint64_t site = 3;
    gw_cuda_draw drawn = {dropout->key, dropout->stream - site};
    dropout->key = ~dropout->key;
    dropout->stream = site;
    return gpu_copy_of(&drawn, sizeof drawn, 0);
}

void gpu_expect_bits(const void *gpu, const void *expected, size_t bytes, const char *what, uint64_t size) {
    void *got = malloc(bytes);
    gpu_fetch(got, gpu, bytes);
    cr_assert_eq(memcmp(got, expected, bytes), 0, "%s, %llu elements", what, (unsigned long long)size);
    free(got);
}

void gpu_expect_close(const float *values, const double *expected, size_t count, double most,
                      const char *what) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)values[i] - expected[i];
        difference += d * d;
        size += expected[i] * expected[i];
    }
    cr_assert(sqrt(difference) <= most * sqrt(size), "%s, %zu elements: %g of %g", what, count,
              sqrt(difference), sqrt(size));
}

void gpu_expect_near(const float *gpu, const double *expected, size_t count, double most, const char *what) {
    float *got = malloc(count * sizeof *got);
    gpu_fetch(got, gpu, count * sizeof *got);
    gpu_expect_close(got, expected, count, most, what);
    free(got);
}

/* A symbol of the stand-in for a GPU (tests/gpu_fake); NULL where a GPU is used. */
extern size_t fake_graphs(void) __attribute__((weak));

long gpu_graphs(void) {
    return fake_graphs != NULL ? (long)fake_graphs() : -1;
}

/* A symbol of the emulator (tests/gpu_emulated); NULL where a GPU is used. */
extern void emulated_shuffle(uint64_t seed) __attribute__((weak));

void gpu_shuffle(uint64_t seed) {
    if (emulated_shuffle != NULL) emulated_shuffle(seed);
}
