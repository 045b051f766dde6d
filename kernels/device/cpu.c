/* The processor as a compute device: state and sums in host memory, one accumulator for all lanes. */
#include "core/base/assert.h"
#include "kernels/device/class.h"
#include "kernels/device/common.h"
#include "kernels/device/sums.h"
#include "kernels/host/fpmode.h"
#include "kernels/host/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct cpu {
    gw_device device;
    gw_layout layout;
    const gw_job_type *type;
    void *job;
    const gw_exact_path *path;
    gw_accumulator *accumulator;
    gw_sum_store *sums;
    uint64_t lanes_bytes; /* scratch of all workers */
    void *image;          /* the memory of all state tensors */
    size_t image_bytes;   /* its size: tensors are aligned in it */
    void **state;         /* by tensor, pointers into the image; NULL for sums */
    const int64_t **sum;  /* by tensor, pointers into the present step's sum; NULL for state */
    gw_step_result result;
    void (*process_lost)(void *context, uint64_t step, uint32_t shard,
                         const gw_process_loss *loss); /* NULL: nobody */
    void *context;
} cpu;

struct gw_lane {
    gw_emitter emitter; /* must be the first field: emit casts the emitter to its lane */
    cpu *owner;
    void *job_lane;
    pthread_t thread;
    gw_contribution contribution;
    bool given_back; /* the job has given back the shard that it computes */
};

/* The emitter of a probe: it rounds and fingerprints pieces and discards the sums. */
typedef struct prober {
    gw_emitter emitter;
    const cpu *owner;
    gw_entry entry;
    uint64_t fingerprint;
} prober;

enum { PROBE_BLOCK = 4096 };

static cpu *cpu_of(gw_device *device) {
    return (cpu *)(void *)device;
}

static void count_memory(cpu *c) {
    c->device.memory_bytes =
        c->image_bytes + gw_accumulator_bytes(c->accumulator) + gw_sum_store_bytes(c->sums) + c->lanes_bytes;
}

static void emit_floats(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *values) {
    gw_lane *lane = (gw_lane *)(void *)emitter;
    gw_accumulator_add(&lane->contribution, tensor, first, count, values);
}

static void emit_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const int64_t *values) {
    gw_lane *lane = (gw_lane *)(void *)emitter;
    gw_accumulator_add_integers(&lane->contribution, tensor, first, count, values);
}

static void emit_doubles(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                         const double *values) {
    gw_lane *lane = (gw_lane *)(void *)emitter;
    gw_accumulator_add_doubles(&lane->contribution, tensor, first, count, values);
}

static bool is_dropped(const gw_emitter *emitter) {
    const gw_lane *lane = (const gw_lane *)(const void *)emitter;
    return !gw_ledger_fresh(lane->owner->device.ledger, &lane->contribution.entry);
}

static void note_loss(gw_emitter *emitter, const gw_process_loss *loss) {
    gw_lane *lane = (gw_lane *)(void *)emitter;
    const gw_entry *entry = &lane->contribution.entry;
    if (loss->given_back) lane->given_back = true;
    if (lane->owner->process_lost != NULL)
        lane->owner->process_lost(lane->owner->context, entry->step, entry->shard, loss);
}

static bool open_lane(gw_device *device, gw_lane **lane, gw_err *err) {
    cpu *c = cpu_of(device);
    gw_lane *l = calloc(1, sizeof *l);
    *lane = NULL;
    if (l == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a worker's lane");
    gw_fpmode_set();
    l->emitter = (gw_emitter){.emit = emit_floats,
                              .emit_integers = emit_integers,
                              .emit_doubles = emit_doubles,
                              .dropped = is_dropped,
                              .lost = note_loss};
    l->owner = c;
    l->thread = pthread_self();
    if (!c->type->lane_open(c->job, &l->job_lane, err)) {
        free(l);
        return gw_fail_in(err, "job %s", c->type->name);
    }
    *lane = l;
    return true;
}

static void close_lane(gw_device *device, gw_lane *lane) {
    if (lane == NULL) return;
    cpu *c = cpu_of(device);
    c->type->lane_close(c->job, lane->job_lane);
    free(lane);
}

static void check_lane(const cpu *c, const gw_lane *lane) {
    GW_ASSERT(lane->owner == c);
    GW_ASSERT(pthread_equal(lane->thread, pthread_self()));
}

static void hash_unit(const cpu *c, gw_unit_work work, const gw_layout_unit *unit, gw_state_print *print) {
    const gw_range *range = &unit->range;
    for (uint32_t t = unit->tensor; t != GW_NO_TENSOR; t = c->layout.of[t].next) {
        const gw_tensor *tensor = &c->layout.tensors[t];
        if (work == GW_UNIT_HASH_READ && tensor->apply_only) continue;
        size_t width = gw_dtype_bytes(tensor->dtype);
        uint64_t from = range->first * width;
        GW_ASSERT(from % 8 == 0);
        *gw_state_print_part(print, tensor) +=
            gw_exact_hash_state(c->path, c->layout.of[t].first_word + from / 8, range->count * width,
                                (const uint8_t *)c->state[t] + from);
    }
}

static bool change_range(cpu *c, gw_unit_work work, const gw_range *range, gw_err *err) {
    gw_state state = {c->state};
    if (work == GW_UNIT_INIT)
        return c->type->init(c->job, range, &state, err) || gw_fail_in(err, "job %s: init", c->type->name);
    gw_sums sums = {c->sum, c->layout.tensors, NULL};
    uint64_t step = c->result.step;
    return c->type->apply(c->job, step, range, &sums, &c->result.scalars, &state, err) ||
           gw_fail_in(err, "job %s: step %llu: apply", c->type->name, (unsigned long long)step);
}

/* A unit of the device is a batch of the layout's. */
static bool run_unit(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part, gw_err *err) {
    cpu *c = cpu_of(device);
    bool changes = work == GW_UNIT_INIT || work == GW_UNIT_APPLY;
    GW_ASSERT(unit < c->layout.batch_count);
    GW_ASSERT(work != GW_UNIT_APPLY || c->result.ready);
    *part = (gw_state_print){0};
    gw_fpmode_set();
    for (uint64_t u = c->layout.batches[unit]; u < c->layout.batches[unit + 1]; u++) {
        if (changes && !change_range(c, work, &c->layout.units[u].range, err)) return false;
        hash_unit(c, work, &c->layout.units[u], part);
    }
    if (gw_fpmode_right()) return true;
    gw_fpmode_set();
    return gw_fail(err, GW_E_INVALID, "job %s changed the floating-point mode", c->type->name);
}

static bool read_state(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    cpu *c = cpu_of(device);
    GW_ASSERT(offset <= c->layout.image_bytes && bytes <= c->layout.image_bytes - offset);
    (void)err; /* reading host memory cannot fail, unlike a GPU's */
    for (uint64_t done = 0, within, length; done < bytes; done += length) {
        uint32_t t = gw_layout_find(&c->layout, offset + done, bytes - done, &within, &length);
        memcpy((uint8_t *)to + done, (const uint8_t *)c->state[t] + within, length);
    }
    return true;
}

static bool write_state(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err) {
    cpu *c = cpu_of(device);
    GW_ASSERT(offset <= c->layout.image_bytes && bytes <= c->layout.image_bytes - offset);
    (void)err; /* cannot fail, as in read_state */
    for (uint64_t done = 0, within, length; done < bytes; done += length) {
        uint32_t t = gw_layout_find(&c->layout, offset + done, bytes - done, &within, &length);
        memcpy((uint8_t *)c->state[t] + within, (const uint8_t *)from + done, length);
    }
    if (c->type->state_written != NULL) c->type->state_written(c->job);
    return true;
}

static void begin_step(gw_device *device, uint64_t step) {
    gw_sum_store_release(cpu_of(device)->sums);
    gw_device_begin(device, step);
}

static void zero(gw_device *device) {
    gw_sum_store_release(cpu_of(device)->sums);
    gw_device_empty(device);
}

static void prefetch(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard) {
    cpu *c = cpu_of(device);
    if (c->type->prefetch != NULL) c->type->prefetch(c->job, lane->job_lane, step, shard);
}

static void set_payload(gw_device *device, gw_lane *lane, const void *bytes) {
    check_lane(cpu_of(device), lane);
    lane->emitter.payload = bytes;
}

static gw_contributed contribute(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                 gw_err *err) {
    cpu *c = cpu_of(device);
    check_lane(c, lane);
    if (!gw_accumulator_enter(c->accumulator, step, shard, &lane->contribution, err)) return GW_SHARD_FAILED;
    gw_state state = {c->state};
    lane->given_back = false;
    gw_fpmode_set(); /* a library that the job has loaded may have changed the mode */
    bool whole = c->type->contribute(c->job, lane->job_lane, step, shard, &state, &lane->emitter, err);
    if (!whole) {
        gw_fail_in(err, "job %s: step %llu, shard %u", c->type->name, (unsigned long long)step, shard);
    } else if (!gw_fpmode_right()) {
        whole = gw_fail(err, GW_E_INVALID, "job %s: step %llu, shard %u changed the floating-point mode",
                        c->type->name, (unsigned long long)step, shard);
    }
    gw_fpmode_set();
    gw_contributed result = gw_accumulator_leave(&lane->contribution, whole, err);
    bool added = lane->contribution.entry.emitted || lane->contribution.entry.invalid;
    return result == GW_SHARD_FAILED && lane->given_back && !added ? GW_SHARD_GIVEN_BACK : result;
}

/* Adds the contribution of a piece to the probe's fingerprint. The caller gives one of the three kinds of
 * values. */
static void probe_piece(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                        const float *floats, const int64_t *integers, const double *doubles) {
    prober *p = (prober *)(void *)emitter;
    const gw_layout *layout = &p->owner->layout;
    if (!gw_ledger_check(p->owner->device.ledger, &p->entry, tensor, first, count)) return;
    gw_exact_format format = gw_exact_format_of(layout->tensors[tensor].frac_bits, p->entry.shards);
    uint64_t at = layout->of[tensor].first + first; /* position in the bucket */
    int64_t nowhere[PROBE_BLOCK] = {0};
    for (uint64_t done = 0; done < count; done += PROBE_BLOCK) {
        uint64_t n = count - done < PROBE_BLOCK ? count - done : PROBE_BLOCK;
        gw_exact_part part = {0, 0};
        if (floats != NULL)
            p->owner->path->add(&format, at + done, n, floats + done, nowhere, &part);
        else if (integers != NULL)
            gw_exact_add_integers(&format, at + done, n, integers + done, nowhere, &part);
        else
            gw_exact_add_doubles(&format, at + done, n, doubles + done, nowhere, &part);
        p->fingerprint += gw_exact_contribution(tensor, &part);
    }
}

static void probe_floats(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                         const float *values) {
    probe_piece(emitter, tensor, first, count, values, NULL, NULL);
}

static void probe_integers(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                           const int64_t *values) {
    probe_piece(emitter, tensor, first, count, NULL, values, NULL);
}

static void probe_doubles(gw_emitter *emitter, uint32_t tensor, uint64_t first, uint64_t count,
                          const double *values) {
    probe_piece(emitter, tensor, first, count, NULL, NULL, values);
}

static uint64_t last_fingerprint(gw_device *device, gw_lane *lane) {
    check_lane(cpu_of(device), lane);
    return lane->contribution.entry.fingerprint;
}

static bool probe(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard, uint64_t *fingerprint,
                  gw_err *err) {
    cpu *c = cpu_of(device);
    check_lane(c, lane);
    prober p = {.emitter = {.emit = probe_floats,
                            .emit_integers = probe_integers,
                            .emit_doubles = probe_doubles,
                            .payload = lane->emitter.payload},
                .owner = c,
                .entry = {.step = step, .shard = shard}};
    if (!gw_step_shards(c->type, c->job, step, &p.entry.shards, err)) return false;
    gw_state state = {c->state};
    gw_fpmode_set();
    bool whole = c->type->contribute(c->job, lane->job_lane, step, shard, &state, &p.emitter, err);
    if (whole && p.entry.invalid) {
        *err = p.entry.err;
        whole = false;
    } else if (whole && !gw_fpmode_right()) {
        whole = gw_fail(err, GW_E_INVALID, "it changed the floating-point mode");
    }
    gw_fpmode_set();
    if (!whole)
        return gw_fail_in(err, "job %s: probe of step %llu, shard %u", c->type->name,
                          (unsigned long long)step, shard);
    *fingerprint = p.fingerprint;
    return true;
}

static bool begin_reduce(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err) {
    cpu *c = cpu_of(device);
    GW_ASSERT(place == GW_PLACE_HOST);
    c->result.ready = false;
    return gw_sum_store_begin(c->sums, mode, send, receive, err);
}

static bool end_reduce(gw_device *device, gw_verdict *verdict, gw_err *err) {
    cpu *c = cpu_of(device);
    if (!gw_sum_store_end(c->sums, verdict, err)) return false;
    count_memory(c);
    return true;
}

static void read_boundary(gw_device *device, int64_t *words) {
    cpu *c = cpu_of(device);
    const int64_t *sum = gw_sum_store_words(c->sums, c->result.step);
    GW_ASSERT(sum != NULL);
    const gw_layout_bucket *bucket = &c->layout.buckets[c->layout.bucket_count - 1];
    memcpy(words, sum + bucket->data, c->layout.boundary_words * sizeof *words);
}

static bool run_scalars(gw_device *device, gw_scalars *scalars, gw_err *err) {
    cpu *c = cpu_of(device);
    const int64_t *words = gw_sum_store_words(c->sums, c->result.step);
    GW_ASSERT(words != NULL); /* only a checked sum is applied */
    for (uint32_t t = 0; t < c->layout.tensor_count; t++)
        if (gw_is_summed(&c->layout, t)) c->sum[t] = words + gw_sum_word(&c->layout, t);
    return gw_device_scalars(device, scalars, err);
}

static void close_cpu(gw_device *device) {
    if (device == NULL) return;
    cpu *c = cpu_of(device);
    gw_sum_store_close(c->sums);
    gw_accumulator_close(c->accumulator);
    gw_memory_unmap(c->image, c->image_bytes);
    free(c->state);
    free(c->sum);
    gw_layout_free(&c->layout);
    free(c);
}

static const gw_device_ops cpu_ops = {
    GW_DEVICE_COMMON_OPS,
    .close = close_cpu,
    .lane_open = open_lane,
    .lane_close = close_lane,
    .lane_part = gw_device_only_part,
    .unit = run_unit,
    .state_read = read_state,
    .state_write = write_state,
    .step_begin = begin_step,
    .zero = zero,
    .prefetch = prefetch,
    .payload = set_payload,
    .contribute = contribute,
    .fingerprint = last_fingerprint,
    .probe = probe,
    .reduce_begin = begin_reduce,
    .reduce_end = end_reduce,
    .boundary = read_boundary,
    .scalars = run_scalars,
};

static size_t aligned(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

/* Maps the state as one block, since a process may have 65530 mappings. A tensor is aligned to a cache line,
 * and one that fills a page to a page. */
static bool map_state(cpu *c, gw_err *err) {
    enum { LINE = 64, PAGE = 4096 };
    for (int pass = 0; pass < 2; pass++) { /* counts the bytes, then lays out */
        size_t used = 0;
        for (uint32_t t = 0; t < c->layout.tensor_count; t++) {
            size_t bytes = c->layout.of[t].bytes;
            if (c->layout.tensors[t].role != GW_STATE) continue;
            used = aligned(used, bytes >= PAGE ? PAGE : LINE);
            if (pass == 1) c->state[t] = (char *)c->image + used;
            used += bytes;
        }
        c->image_bytes = used;
        if (pass == 0 && !gw_memory_map(c->image_bytes, &c->image, err)) return gw_fail_in(err, "state");
    }
    return true;
}

static bool allocate(cpu *c, gw_ledger *shared, gw_err *err) {
    c->state = calloc(c->layout.tensor_count, sizeof *c->state);
    c->sum = calloc(c->layout.tensor_count, sizeof *c->sum);
    if (c->state == NULL || c->sum == NULL)
        return gw_fail(err, GW_E_NOMEM, "no memory for %u tensors", c->layout.tensor_count);
    if (c->type->place != NULL && !c->type->place(c->job, c->state, err))
        return gw_fail_in(err, "job %s", c->type->name);
    if (c->type->place == NULL && !map_state(c, err)) return false;
    c->result = (gw_step_result){
        .type = c->type, .job = c->job, .tensors = c->layout.tensors, .sum = c->sum, .state = c->state};
    if (!gw_accumulator_open(&c->layout, c->path, shared, &c->accumulator, err)) return false;
    c->device.ledger = gw_accumulator_ledger(c->accumulator);
    return gw_sum_store_open(&c->layout, c->path, c->accumulator, &c->sums, err);
}

bool gw_device_cpu_open(const gw_device_options *options, gw_device **device, gw_err *err) {
    GW_ASSERT(options->workers >= 1);
    *device = NULL;
    cpu *c = calloc(1, sizeof *c);
    if (c == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the cpu device");
    c->device.ops = &cpu_ops;
    c->device.layout = &c->layout;
    c->type = options->type;
    c->job = options->job;
    c->process_lost = options->process_lost;
    c->context = options->context;
    c->device.owns_ledger = options->ledger == NULL;
    c->device.result = &c->result;
    c->path = gw_exact_path_best();
    if (!gw_layout_make(options->plan, options->boundary_words, &c->layout, err)) {
        free(c);
        return gw_fail_in(err, "job %s", options->type->name);
    }
    if (!allocate(c, options->ledger, err)) {
        close_cpu(&c->device);
        return gw_fail_in(err, "cpu device");
    }
    gw_cpu_class_text(c->device.class_text, sizeof c->device.class_text);
    c->device.unit_count = c->layout.batch_count;
    c->device.part_count = 1;
    c->lanes_bytes = (uint64_t)options->workers * options->plan->lane_bytes;
    count_memory(c);
    begin_step(&c->device, 0);
    *device = &c->device;
    return true;
}
