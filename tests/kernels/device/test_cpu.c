#include "kernels/device/sums.h"
#include "kernels/host/fpmode.h"
#include "kernels/jobs/jobs.h"
#include "kernels/jobs/synthetic/synthetic.h"
#include "tests/kernels/rig.h"

#include <criterion/criterion.h>
#include <fenv.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The tests run on a CPU device and on a group of three. */
#define DEVICE_TEST(name)                                                                                    \
    static void name(void);                                                                                  \
    Test(cpu, name) {                                                                                        \
        name();                                                                                              \
    }                                                                                                        \
    Test(group, name) {                                                                                      \
        rig_parts = 3;                                                                                       \
        name();                                                                                              \
    }                                                                                                        \
    static void name(void)

static const char *const quick[] = {"shards=24",        "shard-ms=0", "state-bytes=600k",
                                    "sum-elements=70k", "seed=3",     NULL};

static const char *const few_digits[] = {"samples=960", "hidden=24", "batch=240", "micro-batch=20", NULL};

static uint64_t run_job(const gw_job_type *type, const char *const *settings, uint32_t devices,
                        uint32_t workers, uint64_t steps, gw_reduce mode) {
    rig r;
    uint64_t fingerprint = 0;
    rig_open(&r, type, settings, devices, workers);
    rig_init(&r);
    for (uint64_t step = 0; step < steps; step++) fingerprint = rig_step(&r, step, mode);
    rig_close(&r);
    return fingerprint;
}

static uint64_t run(uint32_t devices, uint32_t workers, uint64_t steps, gw_reduce mode) {
    return run_job(&gw_job_synthetic, quick, devices, workers, steps, mode);
}

static uint64_t run_digits(uint32_t devices, uint32_t workers, gw_reduce mode) {
    return run_job(gw_job_find("digits"), few_digits, devices, workers, 6, mode);
}

DEVICE_TEST(digits_have_one_state_whoever_computes_what) {
    uint64_t alone = run_digits(1, 1, GW_REDUCE_ALONE);
    cr_assert_eq(run_digits(1, 2, GW_REDUCE_ALONE), alone);
    cr_assert_eq(run_digits(1, 7, GW_REDUCE_ALONE), alone);
    cr_assert_eq(run_digits(3, 2, GW_REDUCE_EXACT), alone);
}

/* Checks both parts of the fingerprint of S_0 and of a state after a step. */
DEVICE_TEST(what_contributions_read_has_a_fingerprint_of_its_own) {
    static const char *const sgd[] = {"samples=960", "hidden=24", "batch=240", "optimizer=sgd", NULL};
    for (int way = 0; way < 2; way++) {
        rig r;
        rig_open(&r, gw_job_find("digits"), way == 0 ? few_digits : sgd, 1, 2);
        rig_init(&r);
        rig_expect_two_prints(&r, 0);
        for (uint64_t step = 0; step < 2; step++) rig_step(&r, step, GW_REDUCE_ALONE);
        rig_expect_two_prints(&r, 2);
        rig_close(&r);
    }
}

DEVICE_TEST(same_state_from_any_number_of_devices_and_workers) {
    uint64_t alone = run(1, 1, 5, GW_REDUCE_ALONE);
    cr_assert_eq(run(1, 7, 5, GW_REDUCE_ALONE), alone);
    cr_assert_eq(run(1, 2, 5, GW_REDUCE_EXACT), alone);
    cr_assert_eq(run(3, 2, 5, GW_REDUCE_EXACT), alone);
    cr_assert_neq(run(1, 1, 4, GW_REDUCE_ALONE), alone);
}

/* The memory that `godwit run` adds to a device's initial memory before it begins. */
Test(cpu, the_memory_of_reductions_is_known_before_they_are_made) {
    static const gw_reduce modes[] = {GW_REDUCE_ALONE, GW_REDUCE_EXACT, GW_REDUCE_FAST};
    for (int m = 0; m < 3; m++) {
        rig r;
        rig_open(&r, &gw_job_synthetic, quick, 1, 2);
        rig_init(&r);
        uint64_t before = r.device[0]->memory_bytes;
        rig_step(&r, 0, modes[m]);
        uint64_t need = gw_sum_store_need(r.device[0]->layout, modes[m]);
        cr_assert_eq(r.device[0]->memory_bytes - before, need, "mode %d", modes[m]);
        cr_assert_eq(need > 0, modes[m] != GW_REDUCE_ALONE);
        rig_close(&r);
    }
}

DEVICE_TEST(a_step_repeated_gives_the_same_fingerprint) {
    rig r;
    const char *const small[] = {"shards=12", "shard-ms=0", "state-bytes=64k", "sum-elements=9k", NULL};
    rig_open(&r, &gw_job_synthetic, small, 1, 2);
    rig_init(&r);
    gw_device *device = r.device[0];
    uint64_t bytes = device->layout->image_bytes;
    uint8_t *image = malloc(bytes);
    gw_err err;
    cr_assert(device->ops->state_read(device, 0, bytes, image, &err));
    uint64_t first = rig_step(&r, 0, GW_REDUCE_ALONE);
    for (int i = 1; i < 1000; i++) {
        cr_assert(device->ops->state_write(device, 0, bytes, image, &err));
        cr_assert_eq(rig_step(&r, 0, GW_REDUCE_ALONE), first, "repetition %d", i);
    }
    free(image);
    rig_close(&r);
}

DEVICE_TEST(state_moves_between_devices_by_any_byte_ranges) {
    rig r;
    rig_open(&r, &gw_job_synthetic, quick, 2, 2);
    uint64_t fingerprint = rig_units(&r, 0, GW_UNIT_INIT);
    gw_device *from = r.device[0], *to = r.device[1];
    uint8_t buffer[10007] = {0};
    gw_err err;
    for (uint64_t at = 0, n = 0; at < from->layout->image_bytes; at += n) {
        n = from->layout->image_bytes - at < sizeof buffer ? from->layout->image_bytes - at : sizeof buffer;
        cr_assert(from->ops->state_read(from, at, n, buffer, &err));
        cr_assert(to->ops->state_write(to, at, n, buffer, &err));
    }
    cr_assert_eq(rig_units(&r, 1, GW_UNIT_HASH), fingerprint);
    buffer[0] ^= 1;
    cr_assert(to->ops->state_write(to, 0, 0, buffer, &err)); /* no bytes */
    cr_assert_eq(rig_units(&r, 1, GW_UNIT_HASH), fingerprint);
    cr_assert(to->ops->state_write(to, to->layout->image_bytes - 1, 1, "x", &err));
    cr_assert_neq(rig_units(&r, 1, GW_UNIT_HASH), fingerprint);
    rig_close(&r);
}

DEVICE_TEST(apply_by_any_partition_gives_the_same_bytes) {
    rig r;
    gw_err err;
    rig_open(&r, &gw_job_synthetic, quick, 2, 2);
    rig_init(&r);
    gw_device *device = r.device[0];
    uint64_t bytes = device->layout->image_bytes;
    uint8_t *before = malloc(bytes), *after = malloc(bytes);
    cr_assert(device->ops->state_read(device, 0, bytes, before, &err));
    rig_step(&r, 0, GW_REDUCE_EXACT);
    cr_assert(device->ops->state_read(device, 0, bytes, after, &err));

    /* Calls the job's own apply in ranges other than the units. */
    gw_segments sum = r.received[0];
    const int64_t *data[6] = {NULL, NULL, (int64_t *)sum.list[0].data + GW_EXACT_HEADER,
                              (int64_t *)sum.list[1].data + GW_EXACT_HEADER,
                              (int64_t *)sum.list[1].data + GW_EXACT_HEADER + GW_LAYOUT_ALIGN};
    gw_sums sums = {data, r.plan.tensors, NULL};
    void *tensors[6] = {before, before + device->layout->of[1].image_offset, NULL, NULL,
                        NULL,   before + device->layout->of[5].image_offset};
    gw_state state = {tensors};
    gw_scalars scalars = {0};
    cr_assert(r.type->scalars(r.job, 0, &sums, &state, &scalars, &err));
    for (uint32_t t = 0; t <= 5; t += 5) {
        uint64_t count = device->layout->of[t].elements;
        for (uint64_t at = 0, n = 1; at < count; at += n, n = n * 3 + 1) {
            gw_range range = {r.plan.tensors[t].group, at, n < count - at ? n : count - at};
            cr_assert(r.type->apply(r.job, 0, &range, &sums, &scalars, &state, &err));
        }
    }
    for (uint64_t k = 0; k < 4; k++) {
        gw_range range = {r.plan.tensors[1].group, k, 1};
        cr_assert(r.type->apply(r.job, 0, &range, &sums, &scalars, &state, &err));
    }
    cr_assert_arr_eq(before, after, bytes);
    free(before);
    free(after);
    rig_close(&r);
}

static gw_verdict finish(rig *r, uint32_t d) {
    gw_verdict verdict;
    gw_err err;
    cr_assert(r->device[d]->ops->reduce_end(r->device[d], &verdict, &err), "%s", err.text);
    return verdict;
}

DEVICE_TEST(wrong_sums_are_recognised_and_the_reduction_repeated) {
    rig r;
    gw_err err;
    gw_segments send, receive;
    rig_open(&r, &gw_job_synthetic, quick, 2, 2);
    rig_init(&r);
    gw_device *device = r.device[0];
    for (uint32_t d = 0; d < 2; d++) r.device[d]->ops->step_begin(r.device[d], 0);
    rig_contribute(&r, 0, 0, 0, 2);

    rig_reduce(&r, GW_REDUCE_EXACT); /* only half of the shards were computed */
    gw_verdict verdict = finish(&r, 0);
    cr_assert(!verdict.coverage_ok && verdict.fingerprint_ok);
    cr_assert_not(device->ops->reduce_end(device, &verdict, &err)); /* no reduction was begun */

    rig_contribute(&r, 1, 0, 1, 2);
    rig_reduce(&r, GW_REDUCE_EXACT);
    cr_assert(device->ops->reduce_begin(device, GW_REDUCE_EXACT, GW_PLACE_HOST, &send, &receive, &err));
    verdict = finish(&r, 1);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    for (uint32_t s = 0; s < receive.count; s++)
        memcpy(receive.list[s].data, r.received[1].list[s].data, receive.list[s].count * sizeof(int64_t));
    ((int64_t *)receive.list[0].data)[GW_EXACT_HEADER + 5] += 1; /* a value that changes in transfer */
    verdict = finish(&r, 0);
    cr_assert(verdict.coverage_ok && !verdict.fingerprint_ok && verdict.bucket == 0);

    rig_reduce(&r, GW_REDUCE_EXACT);
    verdict = finish(&r, 0);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    rig_close(&r);
}

/* Reduces step 0, of which each device has half; the first device has yet to check the sum, which is right.
 */
static void begin_halves(rig *r, gw_segments *send, gw_segments *receive) {
    gw_err err;
    gw_device *device = r->device[0];
    for (uint32_t d = 0; d < 2; d++) {
        r->device[d]->ops->step_begin(r->device[d], 0);
        rig_contribute(r, d, 0, d, 2);
    }
    rig_reduce(r, GW_REDUCE_EXACT);
    cr_assert(device->ops->reduce_begin(device, GW_REDUCE_EXACT, GW_PLACE_HOST, send, receive, &err));
    for (uint32_t s = 0; s < receive->count; s++)
        memcpy(receive->list[s].data, r->received[1].list[s].data, receive->list[s].count * sizeof(int64_t));
}

/* A bit flips in this peer's own sum, and so in the total, or in the total alone, as in transfer or at other
 * peers. The peer's own sum stays wrong until it is computed again. */
Test(cpu, a_flipped_bit_is_found_where_it_is) {
    rig r;
    gw_segments send, receive;
    rig_open(&r, &gw_job_synthetic, quick, 2, 2);
    rig_init(&r);
    for (uint32_t b = 0; b < r.device[0]->layout->bucket_count; b++) {
        for (int here = 0; here < 2; here++) {
            begin_halves(&r, &send, &receive);
            int64_t *own = (int64_t *)send.list[b].data + GW_EXACT_HEADER + 2, was = *own;
            int64_t *got = (int64_t *)receive.list[b].data + GW_EXACT_HEADER + 2;
            *(here ? own : got) ^= 1 << 9;
            *got += *own - was;
            gw_verdict verdict = finish(&r, 0);
            cr_assert(verdict.coverage_ok && !verdict.fingerprint_ok);
            cr_assert_eq(verdict.bucket, b);
            cr_assert_eq(verdict.own_wrong, here == 1, "bucket %u", b);
        }
    }
    begin_halves(&r, &send, &receive);
    gw_verdict verdict = finish(&r, 0);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && !verdict.own_wrong);
    rig_close(&r);
}

/* While set, the next conversion to floats gets a wrong bit, as in faulty memory. */
static atomic_bool floats_wrong;

void __wrap_gw_exact_to_float(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values);
void __real_gw_exact_to_float(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values);

void __wrap_gw_exact_to_float(uint32_t frac_bits, uint64_t count, const int64_t *sum, float *values) {
    __real_gw_exact_to_float(frac_bits, count, sum, values);
    if (atomic_exchange(&floats_wrong, false)) ((uint8_t *)values)[count * sizeof(float) - 1] ^= 4;
}

/* A float sum has no fingerprint that could be checked after the reduction. */
Test(cpu, before_floats_are_summed_they_are_found_to_be_what_was_added_up) {
    rig r;
    gw_err err;
    gw_segments send, receive;
    rig_open(&r, &gw_job_synthetic, quick, 2, 2);
    rig_init(&r);
    const gw_device_ops *ops = r.device[0]->ops;
    /* the boundary bucket is written again */
    for (uint32_t b = 0; b + 1 < r.device[0]->layout->bucket_count; b++) {
        begin_halves(&r, &send, &receive);
        int64_t *own = (int64_t *)send.list[b].data + GW_EXACT_HEADER + 2;
        *own ^= 1 << 9;
        cr_assert_not(ops->reduce_begin(r.device[0], GW_REDUCE_FAST, GW_PLACE_HOST, &send, &receive, &err));
        cr_assert_eq(err.code, GW_E_CORRUPT);
        *own ^= 1 << 9;
        cr_assert(ops->reduce_begin(r.device[0], GW_REDUCE_FAST, GW_PLACE_HOST, &send, &receive, &err));
    }
    floats_wrong = true;
    cr_assert_not(ops->reduce_begin(r.device[0], GW_REDUCE_FAST, GW_PLACE_HOST, &send, &receive, &err));
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert(ops->reduce_begin(r.device[0], GW_REDUCE_FAST, GW_PLACE_HOST, &send, &receive, &err));
    rig_close(&r);
}

DEVICE_TEST(the_sum_carries_the_boundary_words) {
    rig r;
    rig_open(&r, &gw_job_synthetic, quick, 2, 1);
    rig_init(&r);
    for (uint32_t d = 0; d < 2; d++) {
        int64_t boundary[RIG_BOUNDARY] = {1, 10 + d, -5};
        r.device[d]->ops->step_begin(r.device[d], 0);
        r.device[d]->ops->set_boundary(r.device[d], boundary);
        rig_contribute(&r, d, 0, d, 2);
    }
    rig_reduce(&r, GW_REDUCE_EXACT);
    for (uint32_t d = 0; d < 2; d++) {
        int64_t boundary[RIG_BOUNDARY];
        cr_assert(finish(&r, d).fingerprint_ok);
        r.device[d]->ops->boundary(r.device[d], boundary);
        cr_assert(boundary[0] == 2 && boundary[1] == 21 && boundary[2] == -10);
    }
    rig_close(&r);
}

DEVICE_TEST(float_sums_are_rounded) {
    uint64_t exact = run(2, 2, 3, GW_REDUCE_EXACT);
    uint64_t fast = run(2, 2, 3, GW_REDUCE_FAST);
    cr_assert_neq(fast, exact); /* a float sum rounds otherwise */
}

/* By tensor, NULL for state: the sums over all shards of the elements and of their magnitudes. */
enum { MOST_TENSORS = 64 };
typedef struct exactly {
    int64_t *sum[MOST_TENSORS];
    double *amount[MOST_TENSORS];
} exactly;

static const int64_t *received_of(const rig *r, uint32_t tensor) {
    const gw_layout *layout = r->device[0]->layout;
    const gw_segment *bucket = &r->received[0].list[layout->of[tensor].bucket];
    return (const int64_t *)bucket->data + GW_EXACT_HEADER + layout->of[tensor].first;
}

static void add_shard(const rig *r, exactly *all) {
    for (uint32_t t = 0; t < r->plan.tensor_count; t++) {
        const int64_t *words = all->sum[t] != NULL ? received_of(r, t) : NULL;
        for (uint64_t i = 0; words != NULL && i < r->device[0]->layout->of[t].elements; i++) {
            all->sum[t][i] += words[i];
            all->amount[t][i] += __builtin_fabs((double)words[i]);
        }
    }
}

/* Computes the sums of step 0 from one shard after the other. */
static void add_exactly(rig *r, exactly *all) {
    gw_phase phase;
    uint32_t shards = r->type->shards(r->job, 0, &phase);
    *all = (exactly){{NULL}, {NULL}};
    cr_assert_leq(r->plan.tensor_count, MOST_TENSORS);
    for (uint32_t t = 0; t < r->plan.tensor_count; t++) {
        if (r->plan.tensors[t].role == GW_STATE) continue;
        all->sum[t] = calloc(r->device[0]->layout->of[t].elements, sizeof *all->sum[t]);
        all->amount[t] = calloc(r->device[0]->layout->of[t].elements, sizeof *all->amount[t]);
    }
    for (uint32_t shard = 0; shard < shards; shard++) {
        for (uint32_t d = 0; d < r->devices; d++) r->device[d]->ops->step_begin(r->device[d], 0);
        rig_contribute(r, 0, 0, shard, shards);
        rig_reduce(r, GW_REDUCE_EXACT);
        add_shard(r, all);
    }
}

static exactly expected; /* sums of step 0 */
static uint32_t addends;

/* A sum of n floats that are rounded integers, in any order: no addend passes more than n roundings, of 2^-24
 * of what is rounded each, so that it is off by (1 + 2^-24)^n - 1 < (n + 1) * 2^-24 of the amounts' sum at
 * most; to make it an integer again takes another half. Nothing is so small that it would lose more. */
static bool compare_sums(void *job, uint64_t step, const gw_sums *sums, const gw_state *state,
                         gw_scalars *scalars, gw_err *err) {
    (void)job, (void)step, (void)state, (void)scalars, (void)err;
    for (uint32_t t = 0; t < MOST_TENSORS; t++) {
        if (expected.sum[t] == NULL) continue;
        uint64_t elements = 1, far = 0;
        for (uint32_t k = 0; k < sums->tensors[t].rank; k++) elements *= sums->tensors[t].dim[k];
        for (uint64_t i = 0; i < elements; i++) {
            double bound = 0.5 + (addends + 1) * 0x1p-24 * expected.amount[t][i];
            double off = __builtin_fabs((double)(sums->data[t][i] - expected.sum[t][i]));
            cr_assert_leq(off, bound, "%s[%llu]", sums->tensors[t].name, (unsigned long long)i);
            far += __builtin_fabs((double)expected.sum[t][i]) > 4 * bound;
        }
        if (strcmp(sums->tensors[t].name, "correct") == 0) continue; /* may be 0 */
        cr_assert_gt(far, 0, "%s: another sum would have done", sums->tensors[t].name);
    }
    return true;
}

static void compare_float_sums(const gw_job_type *job, const char *const *list) {
    rig r;
    gw_job_type type = *job;
    type.scalars = compare_sums;
    for (uint32_t devices = 1; devices <= 3; devices += 2) {
        rig_open(&r, &type, list, devices, 2);
        rig_init(&r);
        add_exactly(&r, &expected);
        addends = devices * rig_parts;
        rig_step(&r, 0, GW_REDUCE_FAST);
        for (uint32_t t = 0; t < MOST_TENSORS; t++) free(expected.sum[t]), free(expected.amount[t]);
        rig_close(&r);
    }
}

DEVICE_TEST(float_sums_are_the_exact_ones_but_for_rounding) {
    compare_float_sums(&gw_job_synthetic, quick);
    compare_float_sums(gw_job_find("digits"), few_digits);
}

/* The state after a float reduction of one device, whose begin and end run in these rounding modes. */
static uint64_t fast_step_in(int begin_mode, int end_mode) {
    rig r;
    gw_err err;
    gw_scalars scalars;
    gw_segments send, receive;
    rig_open(&r, &gw_job_synthetic, quick, 1, 2);
    rig_init(&r);
    gw_device *device = r.device[0];
    device->ops->step_begin(device, 0);
    rig_contribute(&r, 0, 0, 0, 1);
    fesetround(begin_mode);
    cr_assert(device->ops->reduce_begin(device, GW_REDUCE_FAST, GW_PLACE_HOST, &send, &receive, &err));
    for (uint32_t s = 0; s < send.count; s++)
        memcpy(receive.list[s].data, send.list[s].data,
               send.list[s].count * (send.list[s].is_float ? sizeof(float) : sizeof(int64_t)));
    fesetround(end_mode);
    gw_verdict verdict = finish(&r, 0);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);
    cr_assert(device->ops->scalars(device, &scalars, &err), "%s", err.text);
    uint64_t fingerprint = rig_units(&r, 0, GW_UNIT_APPLY);
    rig_close(&r);
    return fingerprint;
}

Test(cpu, float_sums_are_rounded_alike_whatever_mode_a_thread_has) {
    uint64_t nearest = fast_step_in(FE_TONEAREST, FE_TONEAREST);
    cr_expect_eq(fast_step_in(FE_UPWARD, FE_TONEAREST), nearest);
    cr_expect_eq(fast_step_in(FE_TONEAREST, FE_UPWARD), nearest);
}

static bool scalars_upward(void *job, uint64_t step, const gw_sums *sums, const gw_state *state,
                           gw_scalars *scalars, gw_err *err) {
    bool good = gw_job_synthetic.scalars(job, step, sums, state, scalars, err);
    fesetround(FE_UPWARD);
    return good;
}

DEVICE_TEST(scalars_that_change_the_rounding_mode_fail) {
    rig r;
    gw_err err = {0};
    gw_scalars scalars;
    gw_job_type type = gw_job_synthetic;
    type.scalars = scalars_upward;
    rig_open(&r, &type, quick, 1, 2);
    rig_init(&r);
    r.device[0]->ops->step_begin(r.device[0], 0);
    rig_contribute(&r, 0, 0, 0, 1);
    rig_reduce(&r, GW_REDUCE_ALONE);
    cr_assert(finish(&r, 0).fingerprint_ok);
    cr_assert_not(r.device[0]->ops->scalars(r.device[0], &scalars, &err));
    cr_expect(strstr(err.text, "job synthetic: step 0: scalars changed the floating-point mode") != NULL,
              "%s", err.text);
    cr_expect(gw_fpmode_right());
    rig_close(&r);
}

DEVICE_TEST(probe_is_the_same_everywhere_and_adds_nothing) {
    rig r;
    gw_err err;
    uint64_t print[2], other;
    rig_open(&r, &gw_job_synthetic, quick, 2, 1);
    rig_init(&r);
    for (uint32_t d = 0; d < 2; d++) {
        gw_lane *lane;
        gw_held held;
        cr_assert(r.device[d]->ops->lane_open(r.device[d], &lane, &err));
        cr_assert(r.device[d]->ops->probe(r.device[d], lane, 0, 4, &print[d], &err));
        cr_assert(r.device[d]->ops->probe(r.device[d], lane, 0, 5, &other, &err));
        r.device[d]->ops->held(r.device[d], &held, NULL);
        cr_assert(held.held == 0 && held.running == 0);
        r.device[d]->ops->lane_close(r.device[d], lane);
    }
    cr_assert_eq(print[0], print[1]);
    cr_assert_neq(print[0], other);
    rig_close(&r);
}

DEVICE_TEST(bad_shard_is_named) {
    rig r;
    gw_exact_bad bad;
    const char *const settings[] = {"shards=12", "shard-ms=0", "sum-elements=100", "bad-shard=0:7", NULL};
    rig_open(&r, &gw_job_synthetic, settings, 1, 2);
    rig_init(&r);
    r.device[0]->ops->step_begin(r.device[0], 0);
    rig_contribute(&r, 0, 0, 0, 1);
    rig_reduce(&r, GW_REDUCE_ALONE);
    gw_verdict verdict = finish(&r, 0);
    cr_assert(verdict.coverage_ok && verdict.fingerprint_ok);
    cr_assert_eq(verdict.bad, 1);
    r.device[0]->ops->bad(r.device[0], &bad);
    cr_assert(bad.any && bad.shard == 7 && bad.index == 50);
    cr_assert_str_eq(r.plan.tensors[bad.tensor].name, "push");
    rig_close(&r);
}

/* The synthetic job with a shard 3 that misbehaves after its first piece. */
static enum { FAIL, CHANGE_MODE } misbehaviour;

static bool misbehave(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                      gw_emitter *emitter, gw_err *err) {
    if (shard != 3) return gw_job_synthetic.contribute(job, lane, step, shard, state, emitter, err);
    float one = 1;
    gw_emit(emitter, 2, 0, 1, &one);
    if (misbehaviour == FAIL) return gw_fail(err, GW_E_IO, "the disk is on fire");
    fesetround(FE_UPWARD);
    return true;
}

/* Checks that shard 3 of step 0 fails, and that the lane can be used afterwards. */
static void expect_probe_fails(gw_device *device, gw_lane *lane, const char *text) {
    gw_err err = {0};
    uint64_t fingerprint;
    cr_assert_not(device->ops->probe(device, lane, 0, 3, &fingerprint, &err));
    cr_expect(strstr(err.text, "job synthetic: ") != NULL && strstr(err.text, text) != NULL, "%s", err.text);
    cr_expect(gw_fpmode_right());
}

static void run_misbehaving(const char *text) {
    uint64_t fingerprint;
    rig r;
    gw_err err = {0};
    gw_held held;
    gw_lane *lane;
    gw_segments send, receive;
    gw_job_type type = gw_job_synthetic;
    type.contribute = misbehave;
    rig_open(&r, &type, quick, 1, 1);
    rig_init(&r);
    gw_device *device = r.device[0];
    device->ops->step_begin(device, 0);
    cr_assert(device->ops->lane_open(device, &lane, &err));
    cr_assert_eq(device->ops->contribute(device, lane, 0, 2, &err), GW_SHARD_HELD);
    cr_assert_eq(device->ops->contribute(device, lane, 0, 3, &err), GW_SHARD_FAILED);
    cr_assert(strstr(err.text, "step 0, shard 3") != NULL && strstr(err.text, text) != NULL, "%s", err.text);
    cr_assert(gw_fpmode_right());
    expect_probe_fails(device, lane, text);
    cr_assert(device->ops->probe(device, lane, 0, 2, &fingerprint, &err), "%s", err.text);
    device->ops->held(device, &held, NULL);
    cr_assert(held.poisoned && held.held == 1 && held.running == 0);
    cr_assert_not(device->ops->reduce_begin(device, GW_REDUCE_EXACT, GW_PLACE_HOST, &send, &receive, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    device->ops->zero(device);
    cr_assert_eq(device->ops->contribute(device, lane, 0, 2, &err), GW_SHARD_HELD);
    cr_assert(device->ops->reduce_begin(device, GW_REDUCE_EXACT, GW_PLACE_HOST, &send, &receive, &err));
    device->ops->lane_close(device, lane);
    rig_close(&r);
}

static struct lost {
    uint64_t step;
    uint32_t shard, count;
    gw_process_loss last;
} lost;

static void note_lost(void *context, uint64_t step, uint32_t shard, const gw_process_loss *worker) {
    cr_assert_eq(context, &lost);
    lost.step = step;
    lost.shard = shard;
    lost.last = *worker;
    lost.count++;
}

static bool open_with_workers(const gw_device_options *options, gw_device **device, gw_err *err) {
    gw_device_options own = *options;
    own.process_lost = note_lost;
    own.context = &lost;
    return gw_device_cpu_open(&own, device, err);
}

/* Shard 3 costs two worker processes, of which the second gives it back; shard 4 costs one, and fails
 * after it has emitted. */
static bool lose_workers(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                         gw_emitter *emitter, gw_err *err) {
    float one = 1;
    if (shard < 3) return gw_job_synthetic.contribute(job, lane, step, shard, state, emitter, err);
    for (uint32_t serial = 1; serial <= 2; serial++)
        gw_emitter_lost(emitter, &(gw_process_loss){.kind = GW_LOSS_STARVED,
                                                    .serial = serial,
                                                    .given_back = shard == 3 && serial == 2,
                                                    .text = "it is gone"});
    if (shard == 4) gw_emit(emitter, 2, 0, 1, &one);
    return gw_fail(err, GW_E_PEER, "2 workers have died at it");
}

Test(cpu, a_shard_that_is_given_back_leaves_nothing_behind) {
    rig r;
    gw_err err = {0};
    gw_held held;
    gw_lane *lane;
    uint64_t fingerprint;
    gw_job_type type = gw_job_synthetic;
    type.contribute = lose_workers;
    rig_open_on(&r, &type, quick, 1, 1, open_with_workers);
    rig_init(&r);
    gw_device *device = r.device[0];
    device->ops->step_begin(device, 0);
    cr_assert(device->ops->lane_open(device, &lane, &err));
    cr_assert_eq(device->ops->contribute(device, lane, 0, 3, &err), GW_SHARD_GIVEN_BACK);
    cr_assert(lost.count == 2 && lost.step == 0 && lost.shard == 3);
    cr_assert(lost.last.kind == GW_LOSS_STARVED && lost.last.serial == 2 && lost.last.given_back);
    device->ops->held(device, &held, NULL);
    cr_assert(!held.poisoned && held.held == 0 && held.in_flight == 0);
    cr_assert_eq(device->ops->contribute(device, lane, 0, 2, &err), GW_SHARD_HELD);
    cr_assert_not(device->ops->probe(device, lane, 0, 3, &fingerprint, &err), "it counts nobody's processes");
    cr_assert_eq(lost.count, 2);
    cr_assert_eq(device->ops->contribute(device, lane, 0, 4, &err), GW_SHARD_FAILED);
    device->ops->held(device, &held, NULL);
    cr_assert(held.poisoned);
    device->ops->lane_close(device, lane);
    rig_close(&r);
}

DEVICE_TEST(a_shard_that_fails_midway_poisons) {
    misbehaviour = FAIL;
    run_misbehaving("the disk is on fire");
}

DEVICE_TEST(a_shard_that_changes_the_rounding_mode_fails) {
    misbehaviour = CHANGE_MODE;
    run_misbehaving("floating-point mode");
}

/* Sets the floating-point mode that a library built with -ffast-math sets when it is loaded. */
static bool open_lane_upward(void *job, void **lane, gw_err *err) {
    fesetround(FE_UPWARD);
    return gw_job_synthetic.lane_open(job, lane, err);
}

static void prefetch_upward(void *job, void *lane, uint64_t step, uint32_t shard) {
    (void)job, (void)lane, (void)step, (void)shard;
    fesetround(FE_UPWARD);
}

/* The fingerprints of the contribution of shard 0 of step 0: a probe's, and that of the held shard. */
static void find_contributions(const gw_job_type *type, uint64_t fingerprints[2]) {
    rig r;
    gw_err err = {0};
    gw_lane *lane;
    rig_open(&r, type, quick, 1, 1);
    rig_init(&r);
    gw_device *device = r.device[0];
    device->ops->step_begin(device, 0);
    cr_assert(device->ops->lane_open(device, &lane, &err));
    cr_assert(device->ops->probe(device, lane, 0, 0, &fingerprints[0], &err), "%s", err.text);
    device->ops->prefetch(device, lane, 0, 0);
    cr_assert_eq(device->ops->contribute(device, lane, 0, 0, &err), GW_SHARD_HELD, "%s", err.text);
    fingerprints[1] = device->ops->fingerprint(device, lane);
    device->ops->lane_close(device, lane);
    rig_close(&r);
}

DEVICE_TEST(a_mode_that_is_changed_outside_of_a_shard_changes_none) {
    gw_job_type type = gw_job_synthetic;
    uint64_t plain[2], upward[2];
    find_contributions(&type, plain);
    type.lane_open = open_lane_upward;
    type.prefetch = prefetch_upward;
    find_contributions(&type, upward);
    cr_assert_arr_eq(upward, plain, sizeof plain);
}

static bool emit_wrongly(void *job, void *lane, uint64_t step, uint32_t shard, const gw_state *state,
                         gw_emitter *emitter, gw_err *err) {
    (void)job, (void)lane, (void)step, (void)shard, (void)state, (void)err;
    static const float two[2];
    gw_emit(emitter, 2, UINT64_MAX, 2, two);
    gw_emit(emitter, 77, 0, 1, two);
    return true;
}

static uint32_t no_shards(const void *job, uint64_t step, gw_phase *phase) {
    (void)job, (void)step;
    *phase = GW_TRAIN;
    return 0;
}

static uint32_t too_many_shards(const void *job, uint64_t step, gw_phase *phase) {
    return no_shards(job, step, phase) + GW_MAX_SHARDS + 1;
}

static void probe_mistaken(gw_job_type *type, const char *text) {
    rig r;
    gw_err err = {0};
    gw_lane *lane;
    rig_open(&r, type, quick, 1, 1);
    rig_init(&r);
    cr_assert(r.device[0]->ops->lane_open(r.device[0], &lane, &err));
    expect_probe_fails(r.device[0], lane, text);
    r.device[0]->ops->lane_close(r.device[0], lane);
    rig_close(&r);
}

/* A probe is the first call that a peer makes. */
DEVICE_TEST(a_probe_tells_what_its_job_does_wrong) {
    gw_job_type type = gw_job_synthetic;
    type.contribute = emit_wrongly;
    probe_mistaken(&type, "the job emitted elements 18446744073709551615 to 1 of tensor 2");
    type = gw_job_synthetic;
    type.shards = no_shards;
    probe_mistaken(&type, "step 0 has 0 shards");
    type.shards = too_many_shards;
    probe_mistaken(&type, "step 0 has 1048576 shards");
}

DEVICE_TEST(report_and_summary_are_one_line) {
    rig r;
    char text[100];
    rig_open(&r, &gw_job_synthetic, quick, 1, 1);
    rig_init(&r);
    rig_step(&r, 0, GW_REDUCE_ALONE);
    r.device[0]->ops->report(r.device[0], text, sizeof text);
    cr_assert(strncmp(text, "energy=0.", 9) == 0, "%s", text);
    r.device[0]->ops->summary(r.device[0], 1, text, sizeof text);
    cr_assert_eq(strlen(text), strlen("digest=") + 16, "%s", text);
    cr_assert(strncmp(r.device[0]->class_text, "cpu kernels=", 12) == 0);
    rig_close(&r);
}

/* Computes shard 2 of step 0 in a child process; returns how that ended. */
static int status_of_child(const char *const *settings) {
    pid_t child = fork();
    if (child == 0) {
        rig r;
        gw_err err;
        gw_lane *lane;
        struct timespec used;
        rig_open(&r, &gw_job_synthetic, settings, 1, 1);
        rig_init(&r);
        r.device[0]->ops->step_begin(r.device[0], 0);
        if (!r.device[0]->ops->lane_open(r.device[0], &lane, &err)) _exit(1);
        if (r.device[0]->ops->contribute(r.device[0], lane, 0, 2, &err) != GW_SHARD_HELD) _exit(2);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        _exit(used.tv_sec > 0 || used.tv_nsec >= 40000000 ? 43 : 42);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(synthetic, crashes_only_at_the_shard_that_was_named) {
    const char *const here[] = {"shards=4", "shard-ms=0", "crash-shard=0:2", NULL};
    const char *const other_shard[] = {"shards=4", "shard-ms=0", "crash-shard=0:3", NULL};
    const char *const other_step[] = {"shards=4", "shard-ms=0", "crash-shard=1:2", NULL};
    int status = status_of_child(here);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = status_of_child(other_shard);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) >= 42);
    status = status_of_child(other_step);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) >= 42);
}

Test(synthetic, spin_burns_the_time_of_a_shard_times_skew) {
    const char *const settings[] = {"shards=4", "shard-ms=10", "skew=4", "spin=1", NULL};
    int status = status_of_child(settings);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 43); /* at least 40 ms of CPU time */
}

Test(jobs, are_found_by_name) {
    cr_assert_eq(gw_job_find("synthetic"), &gw_job_synthetic);
    cr_assert_null(gw_job_find("synthetics"));
    for (const gw_job_type *const *job = gw_job_list(); *job != NULL; job++) {
        cr_assert_eq((*job)->api, GW_JOB_API);
        cr_assert_eq(gw_job_find((*job)->name), *job);
    }
}

static void refuse(const char *name, const char *value) {
    gw_param list[16];
    gw_params params = {.list = list};
    for (const gw_option *option = gw_job_synthetic.options; option->name != NULL; option++) {
        const char *given = strcmp(option->name, name) == 0 ? value : option->fallback;
        if (given != NULL) list[params.count++] = (gw_param){option->name, given};
    }
    gw_err err = {0};
    void *job;
    cr_assert_not(gw_job_synthetic.open(&params, &job, &err), "--%s %s was accepted", name, value);
    cr_assert_eq(err.code, GW_E_USAGE);
    cr_assert(strstr(err.text, name) != NULL && strstr(err.text, value) != NULL, "%s", err.text);
}

Test(synthetic, refuses_options_that_make_no_sense) {
    refuse("shards", "0");
    refuse("shards", "1048576");
    refuse("shard-ms", "-1");
    refuse("shard-ms", "nan");
    refuse("skew", "0");
    refuse("state-bytes", "100");
    refuse("state-bytes", "1x");
    refuse("bad-shard", "3");
    refuse("bad-shard", "3:");
    refuse("bad-shard", "-3:1");
    refuse("crash-shard", "1:2:3");
    refuse("crash-shard", "99999999999999999999999:1");
}
