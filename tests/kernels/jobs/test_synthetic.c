/* The synthetic job. Every byte of its payload influences the state, and every peer writes the same payload.
 * No shard reads most of the state, as with a model under AdamW. */
#include "kernels/jobs/synthetic/synthetic.h"

#include "tests/kernels/rig.h"
#include "tests/kernels/trial.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 43, SHARDS = 3 };

static const char *const settings[] = {"shards",       "3",  "shard-ms",      "0",  "state-bytes", "4096",
                                       "sum-elements", "64", "payload-bytes", "43", NULL};

/* The contribution of shard 1 with this payload. */
static gw_hash contribution(trial *t, const void *payload) {
    gw_err err;
    gw_state state = {t->state};
    for (uint32_t i = 0; i < t->plan.tensor_count; i++)
        if (t->sums[i] != NULL)
            memset(t->sums[i], 0, gw_tensor_elements(&t->plan.tensors[i]) * sizeof(int64_t));
    t->emitter.payload = payload;
    t->emitted_bucket = 0;
    cr_assert(t->type->contribute(t->job, t->lane, 5, 1, &state, &t->emitter, &err));
    return trial_sums_hash(t);
}

Test(synthetic, every_byte_of_a_payload_changes_the_contribution) {
    trial *t = trial_open(&gw_job_synthetic, settings);
    gw_err err;
    uint8_t payload[BYTES];
    trial_init(t, UINT64_MAX);
    cr_assert_eq(t->plan.payload.bytes, BYTES);
    cr_assert_eq(t->plan.payload.shards, SHARDS);
    cr_assert(t->type->payload(t->job, 1, payload, &err));
    gw_hash right = contribution(t, payload);
    for (uint32_t i = 0; i < BYTES; i++) {
        payload[i] ^= 0x10;
        gw_hash wrong = contribution(t, payload);
        cr_assert(!gw_hash_equal(&right, &wrong), "byte %u", i);
        payload[i] ^= 0x10;
    }
    gw_hash again = contribution(t, payload);
    cr_assert(gw_hash_equal(&right, &again));
    trial_close(t);
}

Test(synthetic, a_payload_is_written_alike_everywhere_and_each_shard_has_its_own) {
    trial *here = trial_open(&gw_job_synthetic, settings), *there = trial_open(&gw_job_synthetic, settings);
    gw_err err;
    uint8_t a[SHARDS][BYTES], b[BYTES + 1];
    for (uint32_t s = SHARDS; s-- > 0;) cr_assert(here->type->payload(here->job, s, a[s], &err));
    for (uint32_t s = 0; s < SHARDS; s++) {
        b[BYTES] = 0x5A;
        cr_assert(there->type->payload(there->job, s, b, &err));
        cr_assert_eq(memcmp(a[s], b, BYTES), 0);
        cr_assert_eq(b[BYTES], 0x5A, "written past its end");
        if (s > 0) cr_assert_neq(memcmp(a[s], a[s - 1], BYTES), 0);
    }
    trial_close(here);
    trial_close(there);
}

/* The state depends neither on devices and workers nor on the payload's size alone. */
Test(synthetic, the_state_depends_on_the_payload_and_not_on_who_had_it) {
    const char *sizes[] = {"payload-bytes=1k", "payload-bytes=1k", "payload-bytes=0", "seed=2"};
    uint64_t prints[4];
    for (int i = 0; i < 4; i++) {
        const char *const with[] = {"shards=6", "shard-ms=0", "state-bytes=4096", sizes[i], NULL};
        rig r;
        rig_open(&r, &gw_job_synthetic, with, i == 0 ? 1 : 3, i == 0 ? 1 : 2);
        rig_init(&r);
        for (uint64_t step = 0; step < 3; step++)
            prints[i] = rig_step(&r, step, i == 0 ? GW_REDUCE_ALONE : GW_REDUCE_EXACT);
        rig_close(&r);
    }
    cr_assert_eq(prints[0], prints[1]);
    cr_assert_neq(prints[1], prints[2]);
    cr_assert_neq(prints[1], prints[3]);
}

static uint64_t elements(const rig *r, const char *name) {
    for (uint32_t t = 0; t < r->plan.tensor_count; t++)
        if (strcmp(r->plan.tensors[t].name, name) == 0) return gw_tensor_elements(&r->plan.tensors[t]);
    cr_assert(false, "no tensor %s", name);
    return 0;
}

/* The share of `unread`: two thirds, unless shards push at more cells; at least one element. */
Test(synthetic, no_shard_reads_what_is_applied_only) {
    static const struct {
        const char *bytes, *pushed;
        uint64_t cells, unread;
    } of[] = {{"state-bytes=12032", "sum-elements=64", 1000, 2000},
              {"state-bytes=12035", "sum-elements=1500", 1500, 1501},
              {"state-bytes=4096", "sum-elements=1m", 1015, 1}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *const with[] = {"shards=2", "shard-ms=0", of[i].bytes, of[i].pushed, NULL};
        rig r;
        rig_open(&r, &gw_job_synthetic, with, 1, 2);
        cr_expect_eq(elements(&r, "cells"), of[i].cells);
        cr_expect_eq(elements(&r, "unread"), of[i].unread);
        rig_init(&r);
        rig_expect_two_prints(&r, 0);
        for (uint64_t step = 0; step < 2; step++) rig_step(&r, step, GW_REDUCE_ALONE);
        rig_expect_two_prints(&r, 2);
        rig_close(&r);
    }
}

Test(synthetic, all_of_the_state_changes_each_step) {
    static const char *const plain[] = {"shards",       "3",  "shard-ms", "0", "state-bytes", "4096",
                                        "sum-elements", "64", NULL};
    trial *t = trial_open(&gw_job_synthetic, plain);
    trial_init(t, 100);
    uint64_t changed = 0, all = 0;
    for (uint32_t i = 0; i < t->plan.tensor_count; i++) { /* one step for each payload */
        if (t->state[i] == NULL) continue;
        size_t width = gw_dtype_bytes(t->plan.tensors[i].dtype);
        uint64_t count = gw_tensor_elements(&t->plan.tensors[i]);
        uint8_t *before = malloc(count * width);
        memcpy(before, t->state[i], count * width);
        trial_sum(t, i, TRIAL_FORWARD);
        trial_apply(t, i, 100);
        for (uint64_t k = 0; k < count; k++)
            changed += memcmp(before + k * width, (uint8_t *)t->state[i] + k * width, width) != 0;
        all += count;
        free(before);
    }
    cr_expect_eq(changed, all);
    trial_close(t);
}

Test(synthetic, payload_options_out_of_bounds_are_named) {
    const char *const bad[][3] = {{"payload-bytes", "-1", NULL},   {"payload-bytes", "2000000g", NULL},
                                  {"payload-bytes", "much", NULL}, {"state-bytes", "4x", NULL},
                                  {"payload-copies", "0", NULL},   {"payload-copies", "17", NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gw_err err;
        cr_assert_not(trial_opens(&gw_job_synthetic, bad[i], &err));
        cr_assert_not_null(strstr(err.text, bad[i][0]), "%s", err.text);
        cr_assert_eq(err.code, GW_E_USAGE);
        bool size = strstr(bad[i][0], "-bytes") != NULL;
        cr_assert_eq(strstr(err.text, ", or one with k, m or g") != NULL, size, "%s", err.text);
    }
}
