/* Sums by NCCL that travel as int32, with the kernels that narrow and widen them (tests/gpu_emulated) and an
 * NCCL in memory (tests/net/nccl/fake.h). */
#include "net/nccl/nccl.h"
#include "tests/net/nccl/fake.h"
#include "tools/godwit/work/narrow.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 2, POLLS = 1000 };

/* CUDA's runtime works on the GPU whose context is current for the driver. */
static void follow(int ordinal) {
    cr_assert_eq(cudaSetDevice(ordinal), cudaSuccess);
}

static void poll_until(gw_nccl *nccl, gw_nccl_event event) {
    gw_err err = {0};
    uint64_t now = 1;
    for (int i = 0; i < POLLS; i++)
        if (gw_nccl_poll(nccl, now++, &err) == event) return;
    cr_assert_fail("event %d did not come: %s", event, err.text);
}

/* The first slice fits, the second has one element too wide. */
Test(gpu_narrow_sums, slices_that_fit_are_narrowed_and_the_sum_is_exact) {
    const uint64_t count = GW_NCCL_SLICE + 1000;
    static const int gpus[GPUS] = {0, 1};
    gw_nccl_options options = {.nccl = fake_nccl(),
                               .cuda = fake_cuda(),
                               .gpus = gpus,
                               .gpu_count = GPUS,
                               .form_ns = 1000000,
                               .progress_ns = 1000000,
                               .narrow = &gw_gpus_narrow,
                               .narrow_bytes = 8};
    gw_nccl_team team = {.ranks = GPUS, .narrow = true};
    gw_nccl_piece pieces[GPUS];
    gw_rng rng = gw_rng_seeded(7);
    gw_err err;
    fake_reset(GPUS);
    fake_follow_context(follow);
    gw_nccl *nccl = gw_nccl_open(&options, &err);
    cr_assert_not_null(nccl, "%s", err.text);
    gw_nccl_form(nccl, &team, 1);
    poll_until(nccl, GW_NCCL_FORMED);
    for (uint32_t g = 0; g < GPUS; g++) {
        int64_t *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out);
        for (uint64_t i = 0; i < count; i++) in[i] = (int32_t)gw_rng_next(&rng) >> 1;
        if (g == 1) in[count - 7] = INT64_MIN;
        pieces[g] = (gw_nccl_piece){in, out, count, GW_SUM_I64};
    }
    gw_nccl_sum(nccl, pieces, 1, 1);
    poll_until(nccl, GW_NCCL_SUMMED);
    cr_expect_eq(fake_count().narrow_sums, GPUS);
    cr_expect_eq(gw_nccl_moved_bytes(nccl), GPUS * ((uint64_t)GW_NCCL_SLICE * 4 + 1000 * 8));
    const uint64_t *a = pieces[0].in, *b = pieces[1].in;
    for (uint64_t i = 0; i < count; i++) {
        cr_assert_eq(((const uint64_t *)pieces[0].out)[i], a[i] + b[i], "element %lu", (unsigned long)i);
        cr_assert_eq(((const uint64_t *)pieces[1].out)[i], a[i] + b[i], "element %lu", (unsigned long)i);
    }
    gw_nccl_abort(nccl, 1);
    poll_until(nccl, GW_NCCL_ENDED);
    gw_nccl_close(nccl);
    cr_expect_null(fake_count().misuse, "%s", fake_count().misuse);
    for (uint32_t g = 0; g < GPUS; g++) {
        free((void *)(uintptr_t)pieces[g].in);
        free(pieces[g].out);
    }
}
