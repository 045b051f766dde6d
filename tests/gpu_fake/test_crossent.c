/* The loss of logits on GPUs with more and less shared memory: a row that is kept there gives the bits of one
 * that is read twice. */
#include "kernels/cuda/math/crossent.h"
#include "kernels/cuda/math/layer.h"
#include "tests/gpu/rig.h"
#include "tests/gpu_emulated/emulator.h"
#include "tests/gpu_fake/fake_cuda.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3 };
enum { NONE = 0, GEFORCE = 99 << 10, HOPPER = 227 << 10 }; /* a block's shared memory, in bytes */

typedef struct computed {
    uint8_t *gradient;
    double loss[ROWS];
    size_t kept; /* bytes of a row */
} computed;

/* With so much shared memory. */
static computed compute(uint32_t vocabulary, uint32_t stride, bool bf16, size_t shared) {
    const uint32_t targets[ROWS] = {0, vocabulary / 2, vocabulary - 1};
    size_t count = ROWS * (size_t)stride, bytes = count * (bf16 ? sizeof(uint16_t) : sizeof(float));
    float *values = malloc(count * sizeof *values);
    computed of = {.gradient = malloc(bytes)};
    fake_shared(shared);
    gpu_random_floats(1, count, -3, 3, values);
    float *wide = gpu_copy_of(values, count * sizeof *values, 0);
    gw_cuda_factor logits = {bf16 ? gpu_take(bytes, 0) : (void *)wide, bf16};
    if (bf16) GPU(gw_cuda_to_bf16(count, wide, logits.values, NULL));
    double *of_row = gpu_take(ROWS * sizeof *of_row, 0);
    (void)emulated_most_shared();
    GPU(gw_cuda_crossent(ROWS, vocabulary, stride, logits, gpu_copy_of(targets, sizeof targets, 0), 0x1p-12f,
                         of_row, NULL));
    gpu_fetch(of.gradient, logits.values, bytes);
    gpu_fetch(of.loss, of_row, sizeof of.loss);
    of.kept = emulated_most_shared();
    free(values);
    return of;
}

/* `fits`: whether a row of these does, on a GPU with much. */
static void compare(uint32_t vocabulary, uint32_t stride, bool bf16, size_t much, bool fits) {
    size_t bytes = stride * (bf16 ? sizeof(uint16_t) : sizeof(float));
    computed with = compute(vocabulary, stride, bf16, much),
             without = compute(vocabulary, stride, bf16, NONE);
    cr_expect_eq(with.kept, fits ? bytes : 0, "%u logits: %zu bytes are kept", vocabulary, with.kept);
    cr_expect_eq(without.kept, 0);
    cr_expect_eq(memcmp(with.gradient, without.gradient, ROWS * bytes), 0, "%u logits", vocabulary);
    cr_expect_eq(memcmp(with.loss, without.loss, sizeof with.loss), 0, "%u logits", vocabulary);
    free(with.gradient);
    free(without.gradient);
}

Test(gpu_crossent, what_is_kept_changes_no_bit) {
    compare(7, 7, false, HOPPER, true);
    compare(1000, 1004, false, HOPPER, true);
    compare(28000, 28000, false, HOPPER, true);
    compare(30001, 30004, false, HOPPER, false);
    compare(50257, 50304, true, HOPPER, true);
    compare(60001, 60008, true, HOPPER, false);
    compare(9001, 9008, true, GEFORCE, true);
    compare(50257, 50304, true, GEFORCE, false);
}
