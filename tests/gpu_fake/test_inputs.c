/* When a shard's input is loaded: while the GPU is at the shard before, and once. Jobs whose loads are
 * noted. */
#include "scratch.h"
#include "tests/gpu/steps.h"
#include "tests/gpu_fake/fake_cuda.h"

#include "kernels/jobs/digits/digits.h"
#include "kernels/jobs/gpt/gpt.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LOADS = 32, SHARDS = 6 };

typedef struct loaded {
    uint64_t step;
    uint32_t shard;
    bool busy; /* meanwhile the GPU had work of the lane's */
} loaded;

static loaded loads[MOST_LOADS];
static unsigned load_count;
static unsigned failing; /* the load so many loads away fails; 0: none does */
static const gw_job_gpu *real;
static cudaStream_t stream; /* the lane's, from its first shard on */

static bool note_load(const void *job, uint64_t step, uint32_t shard, void *host, gw_err *err) {
    bool busy = stream != NULL && cudaStreamQuery(stream) == cudaErrorNotReady;
    cr_assert_lt(load_count, MOST_LOADS);
    loads[load_count++] = (loaded){step, shard, busy};
    if (failing > 0 && --failing == 0) return gw_fail(err, GW_E_IO, "as it was told to");
    return real->load(job, step, shard, host, err);
}

static bool note_stream(void *job, void *side, void *lane, const gw_gpu_shard *shard, const gw_state *state,
                        gw_emitter *emitter, gw_err *err) {
    stream = shard->stream;
    return real->contribute(job, side, lane, shard, state, emitter, err);
}

typedef struct bench {
    rig r;
    gw_device *device;
    gw_lane *lane, *other; /* of the other one only the fingerprints of its probes are wanted */
} bench;

/* A device whose job has these loads; its lanes are open, and step 0 has begun. */
static void begin(bench *b, const gw_job_type *type, const char *const *settings) {
    static gw_job_type noted_type;
    static gw_job_gpu noted;
    gw_err err;
    real = type->gpu;
    noted = *real;
    noted.load = note_load;
    noted.contribute = note_stream;
    noted_type = *type;
    noted_type.gpu = &noted;
    load_count = failing = 0;
    stream = NULL;
    rig_open_on(&b->r, &noted_type, settings, 1, 2, gpu_open);
    rig_init(&b->r);
    b->device = b->r.device[0];
    cr_assert(b->device->ops->lane_open(b->device, &b->lane, &err), "%s", err.text);
    cr_assert(b->device->ops->lane_open(b->device, &b->other, &err), "%s", err.text);
    b->device->ops->step_begin(b->device, 0);
}

static void end(bench *b) {
    b->device->ops->lane_close(b->device, b->lane);
    b->device->ops->lane_close(b->device, b->other);
    rig_close(&b->r);
    cr_assert_eq(fake_leaked(), 0);
}

/* Computes a shard; `next`: the shard that it is told will come behind it, or -1. */
static void contribute(bench *b, uint64_t step, uint32_t shard, int next) {
    gw_err err;
    if (next >= 0) b->device->ops->prefetch(b->device, b->lane, step, (uint32_t)next);
    cr_assert_eq(b->device->ops->contribute(b->device, b->lane, step, shard, &err), GW_SHARD_HELD, "%s",
                 err.text);
}

/* What was loaded since the last look: nothing; this among others; this alone. */
static void expect_nothing(void) {
    cr_expect_eq(load_count, 0, "%u", load_count);
    load_count = 0;
}

static void expect_load(unsigned at, uint64_t step, uint32_t shard, bool busy) {
    cr_assert_lt(at, load_count);
    cr_expect_eq(loads[at].step, step);
    cr_expect_eq(loads[at].shard, shard);
    cr_expect_eq(loads[at].busy, busy, "shard %u of step %u", shard, (unsigned)step);
}

static void expect_ahead(uint64_t step, uint32_t shard) {
    cr_expect_eq(load_count, 1, "%u", load_count);
    expect_load(0, step, shard, true);
    load_count = 0;
}

/* The lane's latest shard was computed from its own input. */
static void expect_right(bench *b, uint64_t step, uint32_t shard) {
    gw_err err;
    uint64_t fingerprint;
    unsigned count = load_count;
    cudaStream_t of_lane = stream;
    cr_assert(b->device->ops->probe(b->device, b->other, step, shard, &fingerprint, &err), "%s", err.text);
    cr_expect_eq(b->device->ops->fingerprint(b->device, b->lane), fingerprint, "shard %u", shard);
    load_count = count;
    stream = of_lane;
}

static const char *const settings[] = {"samples=240",    "hidden=9", "batch=144",
                                       "micro-batch=24", "epochs=9", NULL};

/* A lane that is told what comes loads it while the GPU computes; told nothing, what it began this step with,
 * of the next. */
Test(gpu_inputs, the_next_shard_is_loaded_while_this_one_computes) {
    bench b;
    begin(&b, &gw_job_digits, settings);
    contribute(&b, 0, 2, 3);
    cr_assert_eq(load_count, 2);
    expect_load(0, 0, 2, false);
    expect_load(1, 0, 3, true);
    load_count = 0;
    contribute(&b, 0, 3, 4);
    expect_right(&b, 0, 3);
    expect_ahead(0, 4);
    contribute(&b, 0, 4, -1);
    expect_right(&b, 0, 4);
    expect_ahead(1, 2);
    b.device->ops->step_begin(b.device, 1);
    contribute(&b, 1, 2, 3);
    expect_right(&b, 1, 2);
    expect_ahead(1, 3);
    end(&b);
}

/* Another shard came: its input is loaded then, and the one of the hint is still there for the next. */
Test(gpu_inputs, a_hint_that_does_not_come_true_is_none_of_the_shards) {
    bench b;
    begin(&b, &gw_job_digits, settings);
    contribute(&b, 0, 0, 1);
    load_count = 0;
    contribute(&b, 0, 5, 1);
    expect_right(&b, 0, 5);
    cr_expect_eq(load_count, 1);
    expect_load(0, 0, 5, false);
    load_count = 0;
    contribute(&b, 0, 1, 1);
    expect_right(&b, 0, 1);
    expect_nothing();
    end(&b);
}

/* What cannot be loaded ahead is loaded when it is wanted, and only then counts. */
Test(gpu_inputs, a_load_ahead_that_fails_costs_nothing) {
    bench b;
    gw_err err;
    begin(&b, &gw_job_digits, settings);
    failing = 2;
    contribute(&b, 0, 0, 1);
    load_count = 0;
    failing = 1;
    cr_assert_eq(b.device->ops->contribute(b.device, b.lane, 0, 1, &err), GW_SHARD_FAILED);
    cr_assert(strstr(err.text, "shard 1: input: as it was told to"), "%s", err.text);
    load_count = 0;
    contribute(&b, 0, 1, 2);
    expect_right(&b, 0, 1);
    cr_expect_eq(load_count, 2);
    expect_load(0, 0, 1, false);
    expect_load(1, 0, 2, true);
    end(&b);
}

static uint64_t probed(bench *b, gw_lane *lane, uint32_t shard) {
    gw_err err;
    uint64_t fingerprint;
    cr_assert(b->device->ops->probe(b->device, lane, 0, shard, &fingerprint, &err), "%s", err.text);
    return fingerprint;
}

/* Whatever call fails while shard 1 is computed and 2 loaded over 0: no place has another's input. */
Test(gpu_inputs, a_place_whose_load_failed_is_nobodys) {
    bench b;
    gw_err err;
    unsigned failed = 0;
    begin(&b, &gw_job_digits, settings);
    for (bool fails = true; fails; failed += fails) {
        b.device->ops->step_begin(b.device, 0);
        contribute(&b, 0, 0, 1);
        b.device->ops->prefetch(b.device, b.lane, 0, 2);
        fake_fail(failed + 1, cudaErrorLaunchOutOfResources);
        (void)b.device->ops->contribute(b.device, b.lane, 0, 1, &err);
        fails = fake_countdown() == 0;
        fake_fail(0, cudaSuccess);
        cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess); /* what was started is done, wanted or not */
        for (uint32_t shard = 0; shard < 3; shard++) {
            load_count = 0;
            cr_assert_eq(probed(&b, b.lane, shard), probed(&b, b.other, shard), "call %u, shard %u",
                         failed + 1, shard);
        }
    }
    cr_assert_gt(failed, 10);
    end(&b);
}

/* The same where a shard is started as one graph, which reads its input from one of two places. */
Test(gpu_inputs, shards_that_are_graphs_find_their_inputs_loaded, .init = scratch_open,
     .fini = scratch_close) {
    char data[300];
    const char *const model[] = {data,        "layers=1",  "heads=1",         "channels=16",
                                 "context=8", "vocab=128", "batch-tokens=48", "micro-batch=1",
                                 "updates=2", "graphs=on", "dropout=0.2",     NULL};
    bench b;
    snprintf(data, sizeof data, "data=%s", scratch_write("text", "the quick brown fox jumps over it", 33));
    begin(&b, &gw_job_gpt, model);
    size_t before = fake_graphs();
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        bool last = shard + 1 == SHARDS;
        contribute(&b, 0, shard, last ? -1 : (int)shard + 1);
        if (shard == 0) loads[0] = loads[--load_count];
        expect_right(&b, 0, shard);
        expect_ahead(last ? 1 : 0, last ? 0 : shard + 1);
    }
    cr_expect_eq(fake_graphs() - before, SHARDS - 2); /* all but the first from each place */
    end(&b);
}
