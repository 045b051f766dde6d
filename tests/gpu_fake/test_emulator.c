/* The emulator that runs kernels where there is no GPU: that it does as a GPU does, and tells what a GPU
 * leaves undefined. */
#include "tests/gpu/rig.h"
#include "tests/gpu_emulated/emulator.h"
#include "tests/gpu_emulated/odd_kernels.h"
#include "tests/gpu_fake/fake_cuda.h"

#include "core/rng.h"
#include "kernels/cuda/math/attention.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The kernel is refused with these words, once and for all until it is mended, and then others run. */
static void expect_fault(void (*start)(void), const char *words) {
    start();
    cudaError_t status = cudaDeviceSynchronize();
    cr_assert_eq(status, cudaErrorLaunchFailure, "no '%s'", words);
    const char *text = cudaGetErrorString(status);
    cr_assert(strstr(text, words), "'%s' is not in: %s", words, text);
    cr_assert_eq(cudaGetLastError(), cudaErrorLaunchFailure);
    void *memory;
    cr_assert_eq(cudaMalloc(&memory, 1), cudaErrorLaunchFailure);
    fake_fail(0, cudaSuccess);
    int32_t in[128], to[128];
    for (int i = 0; i < 128; i++) in[i] = i;
    int32_t *gpu = gpu_take(sizeof to, 0);
    odd_sums(gpu_copy_of(in, sizeof in, 0), gpu);
    gpu_fetch(to, gpu, sizeof to);
    cr_assert_eq(to[0], 127 * 64 + 31);
    cr_assert_eq(to[100], 127 * 64 + 32);
}

Test(gpu_emulator, threads_that_never_meet_are_named) {
    expect_fault(odd_thread_ends_before_a_barrier, "but thread (70, 0, 0) of block (0, 0, 0) has ended");
    expect_fault(odd_threads_at_two_barriers, "waits in __syncthreads");
    expect_fault(odd_lane_misses_a_shuffle, "waits in __shfl_down_sync");
    expect_fault(odd_lanes_that_do_not_exist, "does not exist");
    expect_fault(odd_lane_outside_its_mask, "lacks the thread itself");
}

Test(gpu_emulator, whatever_no_gpu_takes_is_refused) {
    expect_fault(odd_access_not_aligned, "is not aligned");
    expect_fault(odd_too_many_threads, "no GPU takes");
}

Test(gpu_emulator, shared_memory_begins_as_no_numbers) {
    uint32_t words[3], *gpu = gpu_take(sizeof words, 0);
    odd_shared_memory(gpu);
    gpu_fetch(words, gpu, sizeof words);
    for (int i = 0; i < 3; i++) cr_assert_eq(words[i], UINT32_MAX);
}

Test(gpu_emulator, order_is_that_of_the_seed) {
    enum { THREADS = 16 * 64 };
    uint32_t when[3][THREADS], zero = 0;
    for (int s = 0; s < 3; s++) {
        uint32_t *to = gpu_take(sizeof when[s], 0);
        emulated_shuffle((uint64_t)s);
        odd_order(to, gpu_copy_of(&zero, sizeof zero, 0));
        gpu_fetch(when[s], to, sizeof when[s]);
        bool seen[THREADS] = {false};
        for (int i = 0; i < THREADS; i++) {
            cr_assert_lt(when[s][i], THREADS);
            cr_assert_not(seen[when[s][i]]);
            seen[when[s][i]] = true;
        }
    }
    for (uint32_t i = 0; i < THREADS; i++) cr_assert_eq(when[0][i], i);
    cr_assert_neq(memcmp(when[0], when[1], sizeof when[0]), 0);
    cr_assert_neq(memcmp(when[1], when[2], sizeof when[0]), 0);
}

static uint16_t bf16(int value) { /* exact */
    float wide = (float)value;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void multiply(const int a[16][16], const int b[16][8], int hasty, float c[16][8]) {
    uint16_t left[16][16], right[16][8];
    for (int i = 0; i < 256; i++) left[i / 16][i % 16] = bf16(a[i / 16][i % 16]);
    for (int i = 0; i < 128; i++) right[i / 8][i % 8] = bf16(b[i / 8][i % 8]);
    float *gpu = gpu_take(16 * 8 * sizeof *gpu, 0);
    odd_product(gpu_copy_of(left, sizeof left, 0), gpu_copy_of(right, sizeof right, 0), gpu, hasty);
    gpu_fetch(c, gpu, 16 * 8 * sizeof *gpu);
}

Test(gpu_emulator, products_of_fragments_are_products) {
    int a[16][16], b[16][8];
    float c[16][8];
    gw_rng rng = gw_rng_seeded(3);
    for (int i = 0; i < 256; i++) a[i / 16][i % 16] = (int)(gw_rng_next(&rng) % 31) - 15;
    for (int i = 0; i < 128; i++) b[i / 8][i % 8] = (int)(gw_rng_next(&rng) % 31) - 15;
    multiply(a, b, 0, c);
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            int sum = 0;
            for (int k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
            cr_assert_eq(c[row][column], (float)sum, "row %d, column %d", row, column);
        }
    cr_assert_gt(emulated_conflicts(), 0); /* rows of 32 bytes one after the other: two by two in a bank */
    multiply(a, b, 1, c);                  /* copies that nobody has waited for are not there */
    cr_assert(isnan(c[0][0]));
}

/* Attention's tiles are permuted so that all lanes of a load read at once. */
Test(gpu_emulator, attention_waits_for_no_bank) {
    for (uint32_t width = 64; width <= 128; width += 64) {
        gw_cuda_attention shape = {.sequences = 1, .positions = 140, .heads = 1, .channels = width};
        size_t out_bytes = shape.positions * width * sizeof(uint16_t);
        uint16_t *zeros = calloc(3, out_bytes);
        gw_cuda_factor qkv = {gpu_copy_of(zeros, 3 * out_bytes, 0), true},
                       dqkv = {gpu_take(3 * out_bytes, 0), true};
        gw_cuda_factor out = {gpu_take(out_bytes, 0), true}, dout = {gpu_copy_of(zeros, out_bytes, 0), true};
        float *norms = gpu_take(shape.positions * sizeof *norms, 0),
              *dots = gpu_take(shape.positions * sizeof *dots, 0);
        GPU(gw_cuda_attention_forward(&shape, qkv, out, norms, NULL));
        GPU(gw_cuda_attention_backward(&shape, qkv, out, norms, dout, dqkv, dots, NULL));
        GPU(cudaDeviceSynchronize());
        cr_assert_eq(emulated_conflicts(), 0);
        free(zeros);
    }
}
