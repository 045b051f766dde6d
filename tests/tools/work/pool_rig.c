#include "tests/tools/work/pool_rig.h"

#include "net/data/words.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { RIG_REGION = 3 };

static pool_rig *rig_of(gw_device *device) {
    return (pool_rig *)device;
}

/* The device. */

static _Thread_local uint32_t own_part; /* the part of the device that the lane is on */

static bool lane_open(gw_device *device, gw_lane **lane, gw_err *err) {
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    bool good = rig->lanes_refused_from == 0 || rig->lanes + 1 < rig->lanes_refused_from;
    if (good) own_part = rig->lanes++ % rig->device.part_count;
    pthread_mutex_unlock(&rig->lock);
    *lane = NULL;
    return good || gw_fail(err, GW_E_NOMEM, "no more lanes");
}

static void lane_close(gw_device *device, gw_lane *lane) {
    (void)lane;
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    rig->lanes--;
    pthread_mutex_unlock(&rig->lock);
}

static uint32_t lane_part(gw_device *device, const gw_lane *lane) {
    (void)device, (void)lane;
    return own_part;
}

static void step_begin(gw_device *device, uint64_t step) {
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    rig->step = step;
    rig->generation++;
    memset(rig->held, 0, sizeof rig->held);
    memset(rig->began, 0, sizeof rig->began);
    pthread_mutex_unlock(&rig->lock);
}

static _Thread_local const void *lane_payload; /* each thread has a lane */
static _Thread_local uint64_t lane_fingerprint;

static gw_contributed contribute(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                 gw_err *err) {
    (void)lane;
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    uint64_t generation = rig->generation;
    cr_assert_eq(step, rig->step);
    rig->began[shard]++;
    cr_assert_eq(rig->payloads != NULL, lane_payload != NULL);
    if (lane_payload) cr_assert_eq(*(const uint32_t *)lane_payload, shard, "the payload of another shard");
    rig->inside++;
    rig->inside_part[own_part]++;
    if (rig->inside > rig->most_inside) rig->most_inside = rig->inside;
    pthread_cond_broadcast(&rig->changed);
    while (rig->gated && !rig->open[shard]) pthread_cond_wait(&rig->changed, &rig->lock);
    gw_contributed result = GW_SHARD_HELD;
    if (rig->fails[shard]) {
        gw_fail(err, GW_E_IO, "shard %u has no data", shard);
        result = GW_SHARD_FAILED;
    } else if (rig->gives_back[shard]) {
        result = GW_SHARD_GIVEN_BACK;
    } else if (rig->generation != generation) {
        result = GW_SHARD_DROPPED;
    } else {
        rig->held[shard] = true;
        lane_fingerprint = 7000 + shard;
    }
    rig->inside--;
    rig->inside_part[own_part]--;
    rig->ended++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
    return result;
}

static void held(gw_device *device, gw_held *now, uint64_t *bits) {
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    *now = (gw_held){.step = rig->step, .generation = rig->generation, .shards = RIG_SHARDS};
    for (uint32_t s = 0; s < RIG_SHARDS && bits != NULL; s++)
        if (rig->held[s]) bits[s / 64] |= UINT64_C(1) << (s % 64);
    pthread_mutex_unlock(&rig->lock);
}

static bool unit(gw_device *device, gw_unit_work work, uint64_t number, gw_state_print *part, gw_err *err) {
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    rig->units[number]++;
    rig->inside_at_unit += rig->inside;
    while (rig->holds_units) pthread_cond_wait(&rig->changed, &rig->lock);
    bool good = rig->failing_unit == 0 || number != rig->failing_unit;
    pthread_mutex_unlock(&rig->lock);
    *part = (gw_state_print){.read = number, .rest = work == GW_UNIT_HASH_READ ? 0 : 3 * number};
    return good || gw_fail(err, GW_E_IO, "unit %u tore", (unsigned)number);
}

static bool probe(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard, uint64_t *fingerprint,
                  gw_err *err) {
    (void)lane, (void)err;
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    rig->probes[own_part]++;
    *fingerprint = step * 1000 + shard + (rig->wrong && own_part == 1);
    pthread_mutex_unlock(&rig->lock);
    return true;
}

static uint64_t fingerprint(gw_device *device, gw_lane *lane) {
    (void)device, (void)lane;
    return lane_fingerprint;
}

static void prefetch(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard) {
    (void)lane;
    pool_rig *rig = rig_of(device);
    pthread_mutex_lock(&rig->lock);
    cr_assert_eq(step, rig->step);
    rig->prefetched[shard]++;
    pthread_mutex_unlock(&rig->lock);
}

static void payload(gw_device *device, gw_lane *lane, const void *bytes) {
    (void)device, (void)lane;
    lane_payload = bytes;
}

static const gw_device_ops ops = {.lane_open = lane_open,
                                  .lane_close = lane_close,
                                  .lane_part = lane_part,
                                  .step_begin = step_begin,
                                  .prefetch = prefetch,
                                  .payload = payload,
                                  .contribute = contribute,
                                  .held = held,
                                  .unit = unit,
                                  .fingerprint = fingerprint,
                                  .probe = probe};

/* The transport. */

static uint64_t act(gw_transport *transport, gw_word_do what, uint32_t region, uint64_t index,
                    uint64_t expected, uint64_t operand) {
    cr_assert(region == RIG_REGION && index == 0);
    pool_rig *rig = (pool_rig *)((char *)transport - offsetof(pool_rig, transport));
    return gw_word_act(what, &rig->word, expected, operand);
}

static const gw_transport_ops transport_ops = {.word = act};

gw_word rig_word(pool_rig *rig) {
    return gw_word_unpack(gw_transport_word_load(&rig->transport, RIG_REGION, 0));
}

bool rig_swap(pool_rig *rig, gw_word *expected, gw_word desired) {
    uint64_t bits = gw_word_pack(*expected);
    bool swapped = gw_transport_word_swap(&rig->transport, RIG_REGION, 0, &bits, gw_word_pack(desired));
    *expected = gw_word_unpack(bits);
    return swapped;
}

/* Reports. */

static void report(pool_rig *rig, const rig_report *new) {
    pthread_mutex_lock(&rig->lock);
    cr_assert_lt(rig->report_count, RIG_REPORTS);
    rig->reports[rig->report_count++] = *new;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void on_dry(void *context, uint32_t tag) {
    report(context, &(rig_report){.kind = RIG_DRY, .tag = tag});
}

static void on_claim(void *context, uint32_t worker, uint32_t shard, uint64_t ticket) {
    rig_kind kind = shard == UINT32_MAX ? RIG_WITHDRAWN : RIG_CLAIM;
    report(context, &(rig_report){.kind = kind, .worker = worker, .shard = shard, .ticket = ticket});
}

static void on_sealed(void *context, gw_token token, uint64_t speed, const gw_recheck *checks,
                      uint32_t count) {
    rig_report new = {.kind = RIG_SEALED, .token = token, .speed = speed, .check_count = count};
    cr_assert_leq(count, RIG_CHECKS);
    memcpy(new.checks, checks, count * sizeof checks[0]);
    report(context, &new);
}

static void on_failed(void *context, uint32_t shard, const char *text) {
    rig_report new = {.kind = RIG_FAILED, .shard = shard};
    snprintf(new.text, sizeof new.text, "%s", text);
    report(context, &new);
}

static void on_lost(void *context, uint32_t shard, const char *text) {
    rig_report new = {.kind = RIG_LOST, .shard = shard};
    snprintf(new.text, sizeof new.text, "%s", text);
    report(context, &new);
}

static void on_running(void *context, uint32_t worker, uint64_t step, uint32_t shard, bool runs) {
    (void)worker, (void)step, (void)shard;
    pool_rig *rig = context;
    pthread_mutex_lock(&rig->lock);
    rig->noting[runs]++;
    pthread_cond_broadcast(&rig->changed);
    while (rig->holds_notes[runs]) pthread_cond_wait(&rig->changed, &rig->lock);
    rig->noting[runs]--;
    pthread_mutex_unlock(&rig->lock);
}

/* The index of the report, or RIG_REPORTS if there is none. */
static uint32_t find(const pool_rig *rig, rig_kind kind, uint32_t number) {
    for (uint32_t i = 0; i < rig->report_count; i++)
        if (rig->reports[i].kind == kind && number-- == 0) return i;
    return RIG_REPORTS;
}

rig_report rig_wait_report(pool_rig *rig, rig_kind kind, uint32_t number) {
    pthread_mutex_lock(&rig->lock);
    while (find(rig, kind, number) == RIG_REPORTS) pthread_cond_wait(&rig->changed, &rig->lock);
    rig_report found = rig->reports[find(rig, kind, number)];
    pthread_mutex_unlock(&rig->lock);
    return found;
}

uint32_t rig_count(pool_rig *rig, rig_kind kind) {
    uint32_t count = 0;
    pthread_mutex_lock(&rig->lock);
    for (uint32_t i = 0; i < rig->report_count; i++) count += rig->reports[i].kind == kind;
    pthread_mutex_unlock(&rig->lock);
    return count;
}

/* Opening, closing, inspecting. */

bool rig_try_open(pool_rig *rig, uint32_t workers, uint32_t lanes, gw_err *err) {
    gw_payloads *payloads = rig->payloads;
    uint32_t parts = rig->parts > 0 ? rig->parts : 1;
    memset(rig, 0, sizeof *rig);
    rig->payloads = payloads;
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->device =
        (gw_device){.ops = &ops, .layout = &rig->layout, .unit_count = RIG_UNITS, .part_count = parts};
    rig->lanes_refused_from = lanes < workers ? lanes + 1 : 0;
    gw_workers_events events = {.context = rig,
                                .dry = on_dry,
                                .claim = on_claim,
                                .sealed = on_sealed,
                                .shard_failed = on_failed,
                                .shard_lost = on_lost,
                                .running = on_running};
    rig->transport.ops = &transport_ops;
    rig->pool = gw_workers_open(&rig->device, workers, rig->payloads, &events, err);
    if (rig->pool) gw_workers_share(rig->pool, &rig->transport, RIG_REGION);
    return rig->pool != NULL;
}

void rig_open(pool_rig *rig, uint32_t workers, bool gated) {
    gw_err err;
    cr_assert(rig_try_open(rig, workers, workers, &err), "%s", err.text);
    rig->gated = gated;
    gw_workers_begin_step(rig->pool, 0);
}

void rig_close(pool_rig *rig) {
    rig_open_all(rig);
    gw_workers_close(rig->pool);
    cr_assert_eq(rig->lanes, 0);
    cr_assert_eq(rig->inside, 0);
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->lock);
}

void rig_open_gate(pool_rig *rig, uint32_t shard) {
    pthread_mutex_lock(&rig->lock);
    rig->open[shard] = true;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

void rig_open_all(pool_rig *rig) {
    pthread_mutex_lock(&rig->lock);
    rig->gated = false;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

void rig_wait_inside(pool_rig *rig, uint32_t count) {
    pthread_mutex_lock(&rig->lock);
    while (rig->inside != count) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

void rig_hold_notes(pool_rig *rig, bool runs, bool hold) {
    pthread_mutex_lock(&rig->lock);
    rig->holds_notes[runs] = hold;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

void rig_wait_noting(pool_rig *rig, bool runs, uint32_t count) {
    pthread_mutex_lock(&rig->lock);
    while (rig->noting[runs] != count) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

void rig_wait_ended(pool_rig *rig, uint32_t count) {
    pthread_mutex_lock(&rig->lock);
    while (rig->ended < count) pthread_cond_wait(&rig->changed, &rig->lock);
    pthread_mutex_unlock(&rig->lock);
}

uint32_t rig_began(pool_rig *rig, uint32_t shard) {
    pthread_mutex_lock(&rig->lock);
    uint32_t began = rig->began[shard];
    pthread_mutex_unlock(&rig->lock);
    return began;
}

bool rig_held(pool_rig *rig, uint32_t shard) {
    pthread_mutex_lock(&rig->lock);
    bool is_held = rig->held[shard];
    pthread_mutex_unlock(&rig->lock);
    return is_held;
}
