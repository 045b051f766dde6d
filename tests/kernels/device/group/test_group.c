/* Several devices as one. Tests of what a single device does as well are in test_cpu.c. */
#include "kernels/device/group/group.h"
#include "kernels/host/team.h"
#include "kernels/jobs/synthetic/synthetic.h"
#include "tests/kernels/rig.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 3 };

static const char *const quick[] = {"shards=24",        "shard-ms=0", "state-bytes=200k",
                                    "sum-elements=70k", "seed=3",     NULL};

/* The parts of the group that was opened last; part `broken` has the fault `how`. */
static gw_device *part[PARTS];
static uint32_t broken = PARTS;
static enum { CANNOT_OPEN = 1, OTHER_CLASS, RECEIVES_WRONG } how;
static gw_device_ops spoiled;
static gw_segments received; /* segments of the part that receives a wrong sum */

static bool spoiled_begin(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                          gw_segments *receive, gw_err *err) {
    bool good = part[0]->ops->reduce_begin(device, mode, place, send, receive, err);
    received = *receive;
    return good;
}

static bool spoiled_end(gw_device *device, gw_verdict *verdict, gw_err *err) {
    ((int64_t *)received.list[1].data)[GW_EXACT_HEADER + 1] ^= 1 << 4;
    return part[0]->ops->reduce_end(device, verdict, err);
}

static bool open_part(void *context, uint32_t number, const gw_device_options *options, gw_device **device,
                      gw_err *err) {
    (void)context;
    if (number == broken && how == CANNOT_OPEN) return gw_fail(err, GW_E_IO, "it has fallen off the bus");
    if (!gw_device_cpu_open(options, device, err)) return false;
    part[number] = *device;
    if (number != broken) return true;
    if (how == OTHER_CLASS) *strstr((*device)->class_text, "openblas=") = 'O';
    if (how == RECEIVES_WRONG) {
        spoiled = *(*device)->ops;
        spoiled.reduce_begin = spoiled_begin;
        spoiled.reduce_end = spoiled_end;
        (*device)->ops = &spoiled;
    }
    return true;
}

static bool open_group(const gw_device_options *options, gw_device **device, gw_err *err) {
    return gw_device_group_open(options, PARTS, open_part, NULL, device, err);
}

static void begin(rig *r, uint32_t devices) {
    rig_open_on(r, &gw_job_synthetic, quick, devices, PARTS, open_group);
    rig_init(r);
}

/* Any partition over parts and devices, and any mode of reduction, gives the same bytes. */
Test(group, one_state_whatever_the_parts) {
    static const gw_reduce modes[] = {GW_REDUCE_ALONE, GW_REDUCE_EXACT};
    rig r;
    uint64_t expected = 0;
    rig_open(&r, &gw_job_synthetic, quick, 1, 1);
    rig_init(&r);
    for (uint64_t step = 0; step < 4; step++) expected = rig_step(&r, step, GW_REDUCE_ALONE);
    rig_close(&r);
    for (uint32_t devices = 1; devices <= 2; devices++)
        for (int m = 0; m < 2; m++) {
            uint64_t last = 0;
            if (devices == 2 && modes[m] == GW_REDUCE_ALONE) continue;
            begin(&r, devices);
            cr_assert_eq(r.device[0]->part_count, PARTS);
            for (uint64_t step = 0; step < 4; step++) last = rig_step(&r, step, modes[m]);
            cr_assert_eq(last, expected, "%u devices", devices);
            rig_close(&r);
        }
}

/* Lanes are spread over the parts, and each part adds something; otherwise the tests above would test one
 * part. */
Test(group, shards_are_spread_over_the_parts) {
    rig r;
    gw_err err;
    gw_lane *lane[2 * PARTS];
    uint32_t lanes[PARTS] = {0};
    begin(&r, 1);
    gw_device *d = r.device[0];
    d->ops->step_begin(d, 0);
    for (uint32_t i = 0; i < 2 * PARTS; i++) {
        cr_assert(d->ops->lane_open(d, &lane[i], &err), "%s", err.text);
        lanes[d->ops->lane_part(d, lane[i])]++;
        cr_assert_eq(d->ops->contribute(d, lane[i], 0, i, &err), GW_SHARD_HELD, "%s", err.text);
    }
    for (uint32_t p = 0; p < PARTS; p++) cr_assert_eq(lanes[p], 2);
    /* Each part has a sum of its own, and only the first states coverage and boundary words. */
    for (uint32_t p = 0; p < PARTS; p++) {
        gw_segments send, receive;
        cr_assert(part[p]->ops->reduce_begin(part[p], GW_REDUCE_EXACT, GW_PLACE_HOST, &send, &receive, &err),
                  "%s", err.text);
        const int64_t *header = send.list[0].data;
        cr_assert_eq(header[GW_EXACT_COUNT], p == 0 ? 2 * PARTS : 0);
        cr_assert_eq(header[GW_EXACT_COVERAGE] != 0, p == 0);
        cr_assert_neq(header[GW_EXACT_FINGERPRINT], 0);
    }
    for (uint32_t i = 0; i < 2 * PARTS; i++) d->ops->lane_close(d, lane[i]);
    rig_close(&r);
}

Test(group, no_shard_is_in_two_parts) {
    rig r;
    gw_err err;
    gw_held held;
    gw_lane *one, *other;
    begin(&r, 1);
    gw_device *d = r.device[0];
    cr_assert(d->ops->lane_open(d, &one, &err), "%s", err.text);
    cr_assert(d->ops->lane_open(d, &other, &err), "%s", err.text);
    d->ops->step_begin(d, 0);
    cr_assert_neq(d->ops->lane_part(d, one), d->ops->lane_part(d, other));
    cr_assert_eq(d->ops->contribute(d, one, 0, 5, &err), GW_SHARD_HELD, "%s", err.text);
    cr_assert_eq(d->ops->contribute(d, other, 0, 5, &err), GW_SHARD_FAILED);
    cr_assert_eq(err.code, GW_E_INVALID);
    d->ops->held(d, &held, NULL);
    cr_assert_eq(held.held, 1);
    cr_assert_not(held.poisoned);
    d->ops->lane_close(d, one);
    d->ops->lane_close(d, other);
    rig_close(&r);
}

typedef struct storm {
    gw_device *device;
    atomic_bool over;
    atomic_uint dropped, ended;
} storm;

/* Computes shards, which are dropped, until the test ends. */
static void *storm_main(void *context) {
    storm *s = context;
    gw_lane *lane;
    gw_err err;
    cr_assert(s->device->ops->lane_open(s->device, &lane, &err), "%s", err.text);
    for (uint32_t i = 0; !atomic_load(&s->over); i++) {
        gw_contributed result = s->device->ops->contribute(s->device, lane, 0, i % 24, &err);
        if (result == GW_SHARD_DROPPED) atomic_fetch_add(&s->dropped, 1);
        cr_assert(result != GW_SHARD_FAILED || err.code == GW_E_INVALID, "%s", err.text);
        atomic_fetch_add(&s->ended, 1);
    }
    s->device->ops->lane_close(s->device, lane);
    return NULL;
}

/* Emptying empties all parts at once: a shard in flight on any part is dropped, and nothing of it stays. */
Test(group, emptied_while_all_parts_compute) {
    rig r;
    begin(&r, 1);
    uint64_t expected = rig_step(&r, 0, GW_REDUCE_ALONE);
    rig_init(&r);
    storm s = {.device = r.device[0]};
    r.device[0]->ops->step_begin(r.device[0], 0);
    pthread_t threads[PARTS];
    for (int i = 0; i < PARTS; i++) cr_assert_eq(pthread_create(&threads[i], NULL, storm_main, &s), 0);
    while (atomic_load(&s.dropped) < 20 || atomic_load(&s.ended) < 500) r.device[0]->ops->zero(r.device[0]);
    atomic_store(&s.over, true);
    for (int i = 0; i < PARTS; i++) pthread_join(threads[i], NULL);
    cr_assert_eq(rig_step(&r, 0, GW_REDUCE_ALONE), expected);
    rig_close(&r);
}

Test(group, copies_of_the_state_that_differ_are_told_and_mended) {
    rig r;
    gw_err err;
    gw_state_print found;
    uint8_t byte;
    begin(&r, 1);
    gw_device *d = r.device[0];
    uint64_t bytes = d->layout->image_bytes, expected = rig_units(&r, 0, GW_UNIT_HASH);
    uint8_t *image = malloc(bytes);
    cr_assert(d->ops->state_read(d, 0, bytes, image, &err));
    byte = (uint8_t)(image[77] ^ 4);
    cr_assert(part[2]->ops->state_write(part[2], 77, 1, &byte, &err));
    bool good = true;
    for (uint64_t unit = 0; good && unit < d->unit_count; unit++)
        good = d->ops->unit(d, GW_UNIT_HASH, unit, &found, &err);
    cr_assert_not(good);
    cr_assert_eq(err.code, GW_E_CORRUPT);
    cr_assert(strstr(err.text, "part 0") && strstr(err.text, "part 2"), "%s", err.text);
    cr_assert(d->ops->state_write(d, 0, bytes, image, &err), "%s", err.text);
    cr_assert_eq(rig_units(&r, 0, GW_UNIT_HASH), expected);
    free(image);
    rig_close(&r);
}

/* One part receives another sum than the others: the group's sum is wrong and is not applied. */
Test(group, a_sum_that_one_part_has_received_wrong) {
    rig r;
    gw_err err;
    gw_verdict verdict;
    broken = 1;
    how = RECEIVES_WRONG;
    begin(&r, 1);
    gw_device *d = r.device[0];
    d->ops->step_begin(d, 0);
    rig_contribute(&r, 0, 0, 0, 1);
    rig_reduce(&r, GW_REDUCE_ALONE);
    cr_assert(d->ops->reduce_end(d, &verdict, &err), "%s", err.text);
    cr_assert(verdict.coverage_ok);
    cr_assert_not(verdict.fingerprint_ok);
    cr_assert_not(verdict.own_wrong);
    cr_assert_eq(verdict.bucket, 1);
    rig_close(&r);
}

/* A damaged sum of any one part is this peer's own fault. */
Test(group, what_one_part_has_added_up_is_damaged) {
    rig r;
    gw_err err;
    gw_verdict verdict;
    gw_segments send, receive;
    for (uint32_t p = 0; p < PARTS; p++) {
        begin(&r, 1);
        gw_device *d = r.device[0];
        d->ops->step_begin(d, 0);
        rig_contribute(&r, 0, 0, 0, 1);
        cr_assert(part[p]->ops->reduce_begin(part[p], GW_REDUCE_EXACT, GW_PLACE_HOST, &send, &receive, &err),
                  "%s", err.text);
        ((int64_t *)send.list[1].data)[GW_EXACT_HEADER + 1] ^= 1 << 4;
        rig_reduce(&r, GW_REDUCE_EXACT);
        cr_assert(d->ops->reduce_end(d, &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok && !verdict.fingerprint_ok);
        cr_assert(verdict.own_wrong, "part %u", p);
        rig_close(&r);
    }
}

/* The sum of the parts is damaged, and the parts are right. */
Test(group, what_the_parts_have_added_up_together_is_damaged) {
    rig r;
    gw_err err;
    gw_verdict verdict;
    gw_segments send, receive;
    begin(&r, 1);
    gw_device *d = r.device[0];
    for (int here = 0; here < 2; here++) {
        d->ops->step_begin(d, 0);
        rig_contribute(&r, 0, 0, 0, 1);
        cr_assert(d->ops->reduce_begin(d, GW_REDUCE_EXACT, GW_PLACE_HOST, &send, &receive, &err), "%s",
                  err.text);
        int64_t *mine = send.list[1].data, *got = receive.list[1].data;
        if (here) mine[GW_EXACT_HEADER + 1] ^= 1 << 4;
        for (uint32_t s = 0; s < send.count; s++)
            memcpy(receive.list[s].data, send.list[s].data, send.list[s].count * sizeof(int64_t));
        if (!here) got[GW_EXACT_HEADER + 1] ^= 1 << 4;
        cr_assert(d->ops->reduce_end(d, &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok && !verdict.fingerprint_ok);
        cr_assert_eq(verdict.own_wrong, here == 1);
    }
    rig_close(&r);
}

static void refuse(gw_code code, const char *text) {
    rig r;
    gw_device *device;
    gw_err err;
    rig_open(&r, &gw_job_synthetic, quick, 1, 1);
    gw_device_options options = {
        .type = &gw_job_synthetic, .job = r.job, .plan = &r.plan, .workers = PARTS, .boundary_words = 1};
    cr_assert_not(open_group(&options, &device, &err));
    cr_assert_null(device);
    cr_assert_eq(err.code, code);
    cr_assert(strstr(err.text, text), "%s", err.text);
    rig_close(&r);
}

Test(group, what_cannot_be_opened_is_said) {
    broken = 2;
    how = CANNOT_OPEN;
    refuse(GW_E_IO, "fallen off the bus");
}

Test(group, parts_of_two_classes_are_refused) {
    broken = 1;
    how = OTHER_CLASS;
    refuse(GW_E_UNSUPPORTED, "part 0 and part 1 do not compute alike: openblas=");
}

static bool number_fails(void *context, uint32_t member, gw_err *err) {
    atomic_fetch_add((atomic_uint *)context, 1);
    return member == 0 || gw_fail(err, GW_E_IO, "member %u", member);
}

Test(team, all_run_and_the_first_that_fails_is_told) {
    gw_err err;
    atomic_uint ran = 0;
    gw_team *team = gw_team_open(4, &err);
    cr_assert_not_null(team);
    for (uint32_t i = 1; i <= 100; i++) {
        cr_assert_not(gw_team_run(team, number_fails, &ran, &err));
        cr_assert_str_eq(err.text, "member 1");
        cr_assert_eq(atomic_load(&ran), 4 * i);
    }
    gw_team_close(team);
}
