#include "tools/godwit/audit/rerun.h"

#include "core/base/assert.h"
#include "core/brain/world.h"
#include "core/state/chunk.h"
#include "kernels/cuda/device/device.h"
#include "kernels/device/common.h"
#include "kernels/device/group/group.h"
#include "tools/godwit/node/job.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What the threads do: `count` pieces, in any order. */
typedef enum work { WORK_NONE, WORK_SHARDS, WORK_PROBE, WORK_UNITS, WORK_END } work;

typedef struct team {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work what;
    uint64_t round;    /* rises with each work */
    uint32_t busy;     /* threads that have not finished the round */
    uint64_t count;    /* of pieces */
    gw_unit_work unit; /* WORK_UNITS */
    atomic_uint_fast64_t next;
    gw_state_print print; /* WORK_UNITS: of all units; guarded by the lock */
    bool failed;          /* guarded by the lock, with `err` */
    gw_err err;
} team;

struct gw_rerun {
    const gw_run_options *options;
    gw_node_job job;
    gw_device *device;
    uint32_t thread_count;
    pthread_t *threads;
    team team;
    uint64_t step; /* steps done in the present state */
    gw_state_print state;
    uint64_t *print; /* of the shards of the last step */
    uint32_t room;
};

/* The threads. */

static void note_failure(team *t, const gw_err *err) {
    pthread_mutex_lock(&t->lock);
    if (!t->failed) t->err = *err;
    t->failed = true;
    pthread_mutex_unlock(&t->lock);
}

static bool do_shard(gw_rerun *r, gw_lane *lane, uint32_t shard, gw_err *err) {
    const gw_device_ops *ops = r->device->ops;
    gw_fail(err, GW_E_INVALID, "shard %u of step %llu was not computed", shard, (unsigned long long)r->step);
    if (r->team.what == WORK_PROBE) return ops->probe(r->device, lane, r->step, shard, &r->print[shard], err);
    if (ops->contribute(r->device, lane, r->step, shard, err) != GW_SHARD_HELD) return false;
    r->print[shard] = ops->fingerprint(r->device, lane);
    return true;
}

static void do_pieces(gw_rerun *r, gw_lane *lane) {
    team *t = &r->team;
    gw_state_print print = {0};
    for (;;) {
        uint64_t piece = atomic_fetch_add(&t->next, 1);
        gw_state_print part;
        gw_err err;
        if (piece >= t->count) break;
        bool good = t->what == WORK_UNITS ? r->device->ops->unit(r->device, t->unit, piece, &part, &err)
                                          : do_shard(r, lane, (uint32_t)piece, &err);
        if (good && t->what == WORK_UNITS) gw_state_print_add(&print, part);
        if (!good) {
            note_failure(t, &err);
            break;
        }
    }
    pthread_mutex_lock(&t->lock);
    gw_state_print_add(&t->print, print);
    pthread_mutex_unlock(&t->lock);
}

static void *thread_main(void *context) {
    gw_rerun *r = context;
    team *t = &r->team;
    gw_lane *lane = NULL;
    gw_err err;
    uint64_t round = 0;
    bool opened = r->device->ops->lane_open(r->device, &lane, &err);
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->round == round) pthread_cond_wait(&t->changed, &t->lock);
        round = t->round;
        if (t->what == WORK_END) break;
        pthread_mutex_unlock(&t->lock);
        if (opened)
            do_pieces(r, lane);
        else
            note_failure(t, &err);
        pthread_mutex_lock(&t->lock);
        if (--t->busy == 0) pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    if (opened) r->device->ops->lane_close(r->device, lane);
    return NULL;
}

/* Has the threads do something, and waits until they have. */
static bool run_team(gw_rerun *r, work what, uint64_t first, uint64_t count, gw_err *err) {
    team *t = &r->team;
    pthread_mutex_lock(&t->lock);
    t->what = what;
    t->count = count;
    t->failed = false;
    t->print = (gw_state_print){0};
    t->busy = r->thread_count;
    t->round++;
    atomic_store(&t->next, first);
    pthread_cond_broadcast(&t->changed);
    while (t->busy > 0) pthread_cond_wait(&t->changed, &t->lock);
    bool failed = t->failed;
    if (failed) *err = t->err;
    pthread_mutex_unlock(&t->lock);
    return !failed;
}

static bool open_team(gw_rerun *r, gw_err *err) {
    pthread_mutex_init(&r->team.lock, NULL);
    pthread_cond_init(&r->team.changed, NULL);
    r->threads = calloc(r->options->workers, sizeof *r->threads);
    if (r->threads == NULL) return gw_fail(err, GW_E_NOMEM, "audit: out of memory");
    while (r->thread_count < r->options->workers) {
        int failure = pthread_create(&r->threads[r->thread_count], NULL, thread_main, r);
        if (failure != 0) return gw_fail_thread(err, failure, "audit");
        r->thread_count++;
    }
    return true;
}

static void close_team(gw_rerun *r) {
    if (r->threads == NULL) return;
    pthread_mutex_lock(&r->team.lock);
    r->team.what = WORK_END;
    r->team.round++;
    pthread_cond_broadcast(&r->team.changed);
    pthread_mutex_unlock(&r->team.lock);
    for (uint32_t i = 0; i < r->thread_count; i++) pthread_join(r->threads[i], NULL);
    free(r->threads);
    pthread_cond_destroy(&r->team.changed);
    pthread_mutex_destroy(&r->team.lock);
}

/* The job and the device. */

static bool open_gpu(void *context, uint32_t part, const gw_device_options *options, gw_device **device,
                     gw_err *err) {
    const gw_compute *compute = context;
    gw_gpu gpu = {.ordinal = compute->gpus[part], .precision = compute->precision};
    return gw_device_cuda_open(options, &gpu, device, err);
}

static bool open_device(gw_rerun *r, gw_err *err) {
    gw_compute compute = r->options->compute;
    const gw_device_options options = {.type = r->options->job,
                                       .job = r->job.instance,
                                       .plan = &r->job.plan,
                                       .workers = r->options->workers,
                                       .boundary_words = GW_MAX_MEMBERS * GW_SLOTS,
                                       .reduce = 0};
    if (compute.kind != GW_COMPUTE_CUDA) return gw_device_cpu_open(&options, &r->device, err);
    return compute.gpu_count == 1
               ? open_gpu(&compute, 0, &options, &r->device, err)
               : gw_device_group_open(&options, compute.gpu_count, open_gpu, &compute, &r->device, err);
}

static bool open_job(gw_rerun *r, gw_directory *directory, gw_err *err) {
    gw_node_origin *origins;
    uint32_t count;
    if (!gw_node_origins_find(r->options, directory, NULL, false, &origins, &count, err)) return false;
    bool good = gw_node_job_open(&r->job, r->options, origins, count, err);
    gw_node_origins_free(origins, count);
    if (!good) return false;
    if (r->options->fast)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "the job's sums are floats (--reduce fast), whose bits depend on who added what: its "
                       "steps cannot be computed again");
    return r->job.plan.payload.shards == 0 ||
           gw_fail(
               err, GW_E_UNSUPPORTED,
               "the job's shards have payload that earlier steps made, which no checkpoint holds: its steps "
               "cannot be computed again");
}

static void ignore_shard(void *context, uint32_t shard, const char *text) {
    (void)context;
    (void)shard;
    (void)text;
}

static void ignore_dry(void *context, uint32_t tag) {
    (void)context;
    (void)tag;
}

/* The identity needs a probe, which the pool of a peer computes. */
static bool identify(gw_rerun *r, gw_err *err) {
    const gw_workers_events none = {
        .dry = ignore_dry, .shard_failed = ignore_shard, .shard_lost = ignore_shard};
    gw_workers *workers = gw_workers_open(r->device, 1, NULL, &none, err);
    bool good = workers != NULL && gw_node_job_identify(&r->job, r->device, workers, err);
    gw_workers_close(workers);
    return good;
}

gw_rerun *gw_rerun_open(const gw_run_options *options, gw_directory *directory, gw_err *err) {
    gw_rerun *r = calloc(1, sizeof *r);
    if (r == NULL) {
        gw_fail(err, GW_E_NOMEM, "audit: out of memory");
        return NULL;
    }
    r->options = options;
    if (open_job(r, directory, err) && open_device(r, err) && identify(r, err) && open_team(r, err)) return r;
    gw_rerun_close(r);
    return NULL;
}

void gw_rerun_close(gw_rerun *r) {
    if (r == NULL) return;
    close_team(r);
    if (r->device != NULL) r->device->ops->close(r->device);
    gw_node_job_close(&r->job);
    free(r->print);
    free(r);
}

const gw_hash *gw_rerun_job(const gw_rerun *r) {
    return &r->job.id;
}

const char *gw_rerun_identity(const gw_rerun *r) {
    return r->job.identity;
}

const gw_plan *gw_rerun_plan(const gw_rerun *r) {
    return &r->job.plan;
}

uint64_t gw_rerun_first_step(const gw_rerun *r) {
    return gw_node_job_first_step(&r->job);
}

uint64_t gw_rerun_steps(const gw_rerun *r) {
    return r->job.steps;
}

/* The state. */

static bool units(gw_rerun *r, gw_unit_work what, gw_err *err) {
    r->team.unit = what;
    if (!run_team(r, WORK_UNITS, 0, r->device->unit_count, err)) return false;
    r->state = r->team.print;
    return true;
}

bool gw_rerun_begin(gw_rerun *r, gw_err *err) {
    r->step = 0;
    return units(r, GW_UNIT_INIT, err);
}

bool gw_rerun_load(gw_rerun *r, gw_checkpoint *checkpoint, gw_err *err) {
    const gw_manifest *manifest = checkpoint->manifest;
    if (manifest->state_bytes != r->device->layout->image_bytes)
        return gw_fail(err, GW_E_CORRUPT, "the checkpoint of step %llu is not of a state of this job's size",
                       (unsigned long long)manifest->step);
    void *bytes = malloc(GW_CHUNK_BYTES);
    if (bytes == NULL) return gw_fail(err, GW_E_NOMEM, "audit: out of memory");
    bool good = true;
    for (uint32_t k = 0; good && k < manifest->chunk_count; k++)
        good = gw_checkpoint_chunk(checkpoint, k, bytes, err) &&
               r->device->ops->state_write(r->device, (uint64_t)k * GW_CHUNK_BYTES,
                                           gw_chunk_length(manifest->state_bytes, k), bytes, err);
    free(bytes);
    if (!good || !units(r, GW_UNIT_HASH, err)) return false;
    r->step = manifest->step;
    return manifest->fingerprint == 0 || gw_rerun_state(r) == manifest->fingerprint ||
           gw_fail(
               err, GW_E_CORRUPT,
               "the checkpoint of step %llu has a state with fingerprint %016llx, and its manifest states "
               "%016llx",
               (unsigned long long)manifest->step, (unsigned long long)gw_rerun_state(r),
               (unsigned long long)manifest->fingerprint);
}

uint64_t gw_rerun_at(const gw_rerun *r) {
    return r->step;
}

uint64_t gw_rerun_state(const gw_rerun *r) {
    return gw_state_print_whole(r->state);
}

bool gw_rerun_read(gw_rerun *r, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    return r->device->ops->state_read(r->device, offset, bytes, to, err);
}

/* Steps. */

static bool make_room(gw_rerun *r, uint32_t shards, gw_err *err) {
    if (shards <= r->room) return true;
    uint64_t *print = realloc(r->print, shards * sizeof *print);
    if (print == NULL) return gw_fail(err, GW_E_NOMEM, "audit: out of memory");
    r->print = print;
    r->room = shards;
    return true;
}

static bool sum_up(gw_rerun *r, gw_verdict *verdict, gw_err *err) {
    gw_segments none;
    const gw_device_ops *ops = r->device->ops;
    if (!ops->reduce_begin(r->device, GW_REDUCE_ALONE, GW_PLACE_HOST, &none, &none, err) ||
        !ops->reduce_end(r->device, verdict, err))
        return false;
    return (verdict->coverage_ok && verdict->fingerprint_ok) ||
           gw_fail(err, GW_E_CORRUPT, "this machine has added up step %llu wrongly",
                   (unsigned long long)r->step);
}

bool gw_rerun_step(gw_rerun *r, gw_remade *step, gw_err *err) {
    gw_phase phase = GW_TRAIN;
    gw_verdict verdict;
    gw_scalars scalars;
    *step = (gw_remade){.step = r->step + 1};
    if (!gw_step_shards(r->options->job, r->job.instance, r->step, &step->shards, err) ||
        !make_room(r, step->shards, err))
        return false;
    (void)r->options->job->shards(r->job.instance, r->step, &phase);
    r->device->ops->step_begin(r->device, r->step);
    if (!run_team(r, WORK_SHARDS, 0, step->shards, err) || !sum_up(r, &verdict, err)) return false;
    step->skipped = verdict.bad > 0 && r->options->skip_bad;
    if (!step->skipped &&
        (!r->device->ops->scalars(r->device, &scalars, err) || !units(r, GW_UNIT_APPLY, err)))
        return false;
    if (!step->skipped) r->device->ops->report(r->device, step->report, sizeof step->report);
    r->step++;
    step->evaluates = phase == GW_EVALUATE;
    step->receipt =
        (gw_receipt){.state = gw_rerun_state(r), .sum = verdict.sum, .coverage = verdict.coverage};
    step->print = r->print;
    return true;
}

bool gw_rerun_shards(gw_rerun *r, uint32_t *shards, gw_err *err) {
    return gw_step_shards(r->options->job, r->job.instance, r->step, shards, err);
}

bool gw_rerun_shard(gw_rerun *r, uint32_t shard, uint64_t *print, gw_err *err) {
    uint32_t shards;
    if (!gw_step_shards(r->options->job, r->job.instance, r->step, &shards, err) ||
        !make_room(r, shards, err))
        return false;
    if (shard >= shards)
        return gw_fail(err, GW_E_USAGE, "step %llu has %u shards: there is no shard %u",
                       (unsigned long long)r->step + 1, shards, shard);
    r->device->ops->step_begin(r->device, r->step);
    if (!run_team(r, WORK_PROBE, shard, (uint64_t)shard + 1, err)) return false;
    *print = r->print[shard];
    return true;
}

/* Shards by themselves. */

/* The last word of a name: "loss" of "sum.loss" and of "val_loss". */
static const char *last_word(const char *name) {
    const char *word = name;
    for (const char *c = name; *c != '\0'; c++)
        if (strchr("._:/", *c) != NULL && c[1] != '\0') word = c + 1;
    return word;
}

static bool is_single(const gw_layout *layout, uint32_t tensor) {
    return layout->tensors[tensor].role != GW_STATE && layout->of[tensor].elements == 1;
}

static uint32_t report_sum(const gw_layout *layout, const char *key) {
    uint32_t found = GW_NO_TENSOR;
    for (uint32_t t = 0; t < layout->tensor_count; t++) {
        if (!is_single(layout, t)) continue;
        if (strcmp(layout->tensors[t].name, key) == 0) return t;
        if (found == GW_NO_TENSOR && strcmp(last_word(layout->tensors[t].name), last_word(key)) == 0)
            found = t;
    }
    return found;
}

bool gw_rerun_measure(gw_rerun *r, uint32_t shard, const char *key, gw_shard_measure *measure, gw_err *err) {
    const gw_layout *layout = r->device->layout;
    gw_segments sums, unused;
    uint32_t shards, report = report_sum(layout, key);
    double squares = 0;
    bool several = false;
    *measure = (gw_shard_measure){.report = NAN, .norm = NAN};
    if (!gw_rerun_shards(r, &shards, err) || !make_room(r, shards, err)) return false;
    GW_ASSERT(shard < shards);
    r->device->ops->step_begin(r->device, r->step);
    /* The accumulator then holds this shard alone, wherever the device has it. */
    if (!run_team(r, WORK_SHARDS, shard, (uint64_t)shard + 1, err) ||
        !r->device->ops->reduce_begin(r->device, GW_REDUCE_EXACT, GW_PLACE_HOST, &sums, &unused, err))
        return false;
    for (uint32_t b = 0; b + 1 < layout->bucket_count; b++)
        measure->bad += (uint64_t)((const int64_t *)sums.list[b].data)[GW_EXACT_BAD];
    for (uint32_t t = 0; t < layout->tensor_count; t++) {
        const gw_layout_tensor *of = &layout->of[t];
        if (layout->tensors[t].role == GW_STATE) continue;
        const int64_t *words = (const int64_t *)sums.list[of->bucket].data + GW_EXACT_HEADER + of->first;
        double unit = ldexp(1, -(int)layout->tensors[t].frac_bits), own = 0;
        for (uint64_t i = 0; i < of->elements; i++)
            own += ((double)words[i] * unit) * ((double)words[i] * unit);
        if (t == report) measure->report = (double)words[0] * unit;
        if (layout->tensors[t].role != GW_SUMMED || of->elements == 1) continue;
        squares += own;
        several = true;
    }
    if (several) measure->norm = sqrt(squares);
    return true;
}

bool gw_rerun_samples(gw_rerun *r, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err) {
    const gw_job_type *type = r->options->job;
    if (type->samples == NULL)
        return gw_fail(err, GW_E_UNSUPPORTED, "the job %s does not tell the samples of its shards",
                       type->name);
    return type->samples(r->job.instance, step - 1, shard, sink, err) ||
           gw_fail_in(err, "job %s", type->name);
}
