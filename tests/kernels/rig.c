#include "tests/kernels/rig.h"

#include "kernels/device/group/group.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

uint32_t rig_parts = 1;

static bool open_part(void *context, uint32_t part, const gw_device_options *options, gw_device **device,
                      gw_err *err) {
    (void)context, (void)part;
    return gw_device_cpu_open(options, device, err);
}

static bool open_cpu(const gw_device_options *options, gw_device **device, gw_err *err) {
    return rig_parts == 1 ? gw_device_cpu_open(options, device, err)
                          : gw_device_group_open(options, rig_parts, open_part, NULL, device, err);
}

void rig_open(rig *r, const gw_job_type *type, const char *const *settings, uint32_t devices,
              uint32_t workers) {
    rig_open_on(r, type, settings, devices, workers, open_cpu);
}

void rig_open_on(rig *r, const gw_job_type *type, const char *const *settings, uint32_t devices,
                 uint32_t workers, rig_opener *open) {
    gw_param list[64];
    gw_params params = {.list = list};
    for (const gw_option *option = type->options; option->name != NULL; option++) {
        const char *value = option->fallback;
        for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
            size_t length = strlen(option->name);
            if (strncmp(settings[i], option->name, length) == 0 && settings[i][length] == '=')
                value = settings[i] + length + 1;
        }
        if (value != NULL) list[params.count++] = (gw_param){option->name, value};
    }
    gw_err err;
    *r = (rig){.type = type, .devices = devices, .workers = workers};
    cr_assert(type->open(&params, &r->job, &err), "%s", err.text);
    cr_assert(type->describe(r->job, &r->plan, &err), "%s", err.text);
    gw_device_options options = {
        .type = type, .job = r->job, .plan = &r->plan, .workers = workers, .boundary_words = RIG_BOUNDARY};
    for (uint32_t d = 0; d < devices; d++) cr_assert(open(&options, &r->device[d], &err), "%s", err.text);
    for (uint32_t d = 0; d < devices; d++) r->device[d]->ops->set_key(r->device[d], RIG_JOB_KEY);
}

void rig_close(rig *r) {
    for (uint32_t d = 0; d < r->devices; d++) r->device[d]->ops->close(r->device[d]);
    r->type->close(r->job);
}

/* What the workers of one device share: each takes the next item until none is left. */
typedef struct crew {
    gw_device *device;
    gw_unit_work work; /* 0: shards */
    uint64_t step, items;
    uint32_t first, stride;
    const gw_job_type *type;
    void *job;
    const gw_plan *plan;
    _Atomic uint64_t next;
    _Atomic uint64_t read, rest; /* the two parts of the fingerprint */
} crew;

static void run_item(crew *c, gw_lane *lane, uint64_t item) {
    gw_err err;
    const gw_device_ops *ops = c->device->ops;
    if (c->work != 0) {
        gw_state_print part;
        cr_assert(ops->unit(c->device, c->work, item, &part, &err), "%s", err.text);
        atomic_fetch_add(&c->read, part.read);
        atomic_fetch_add(&c->rest, part.rest);
    } else {
        uint32_t shard = c->first + c->stride * (uint32_t)item;
        void *payload = c->plan->payload.shards > shard ? malloc(c->plan->payload.bytes) : NULL;
        if (payload != NULL) cr_assert(c->type->payload(c->job, shard, payload, &err), "%s", err.text);
        ops->payload(c->device, lane, payload);
        cr_assert_eq(ops->contribute(c->device, lane, c->step, shard, &err), GW_SHARD_HELD, "%s", err.text);
        free(payload);
    }
}

static void *crew_member(void *argument) {
    crew *c = argument;
    gw_lane *lane;
    gw_err err;
    cr_assert(c->device->ops->lane_open(c->device, &lane, &err), "%s", err.text);
    for (uint64_t item; (item = atomic_fetch_add(&c->next, 1)) < c->items;) run_item(c, lane, item);
    c->device->ops->lane_close(c->device, lane);
    return NULL;
}

static void run_crew(const rig *r, crew *c) {
    pthread_t threads[RIG_MOST_WORKERS];
    for (uint32_t w = 0; w < r->workers; w++)
        cr_assert_eq(pthread_create(&threads[w], NULL, crew_member, c), 0);
    for (uint32_t w = 0; w < r->workers; w++) pthread_join(threads[w], NULL);
}

gw_state_print rig_print(rig *r, uint32_t device, gw_unit_work work) {
    crew c = {.device = r->device[device], .work = work, .items = r->device[device]->unit_count};
    run_crew(r, &c);
    return (gw_state_print){.read = atomic_load(&c.read), .rest = atomic_load(&c.rest)};
}

uint64_t rig_units(rig *r, uint32_t device, gw_unit_work work) {
    return gw_state_print_whole(rig_print(r, device, work));
}

/* Flips every bit of tensor `t`; `bytes` has room for a copy of it. */
static void flip_tensor(gw_device *device, uint32_t t, uint8_t *bytes) {
    const gw_layout_tensor *of = &device->layout->of[t];
    gw_err err;
    cr_assert(device->ops->state_read(device, of->image_offset, of->bytes, bytes, &err), "%s", err.text);
    for (uint64_t i = 0; i < of->bytes; i++) bytes[i] ^= 0xff;
    cr_assert(device->ops->state_write(device, of->image_offset, of->bytes, bytes, &err), "%s", err.text);
}

static uint64_t contribution(rig *r, uint64_t step) {
    gw_device *device = r->device[0];
    gw_lane *lane;
    gw_err err;
    uint64_t fingerprint;
    cr_assert(device->ops->lane_open(device, &lane, &err), "%s", err.text);
    cr_assert(device->ops->probe(device, lane, step, 0, &fingerprint, &err), "%s", err.text);
    device->ops->lane_close(device, lane);
    return fingerprint;
}

/* Checks the fingerprints of the state that was made last, in which only the tensor `flipped` has changed;
 * NULL: none has. */
static void expect_seen(rig *r, const gw_tensor *flipped) {
    const char *name = flipped != NULL ? flipped->name : "nothing";
    gw_state_print whole = rig_print(r, 0, GW_UNIT_HASH), part = rig_print(r, 0, GW_UNIT_HASH_READ);
    cr_assert_eq(whole.read != r->made.read, flipped != NULL && !flipped->apply_only, "%s", name);
    cr_assert_eq(whole.rest != r->made.rest, flipped != NULL && flipped->apply_only, "%s", name);
    cr_assert_eq(part.read, whole.read, "%s", name);
    cr_assert_eq(part.rest, 0, "%s", name);
}

void rig_expect_two_prints(rig *r, uint64_t step) {
    uint64_t computed = contribution(r, step);
    uint8_t *bytes = malloc(r->device[0]->layout->image_bytes);
    uint32_t apply_only = 0;
    expect_seen(r, NULL);
    for (uint32_t t = 0; t < r->plan.tensor_count; t++) {
        const gw_tensor *tensor = &r->plan.tensors[t];
        if (tensor->role != GW_STATE) continue;
        apply_only += tensor->apply_only;
        flip_tensor(r->device[0], t, bytes);
        expect_seen(r, tensor);
        if (tensor->apply_only) cr_assert_eq(contribution(r, step), computed, "%s", tensor->name);
        flip_tensor(r->device[0], t, bytes);
    }
    free(bytes);
    cr_assert_gt(apply_only, 0);
    expect_seen(r, NULL);
}

void rig_init(rig *r) {
    for (uint32_t d = 0; d < r->devices; d++) r->made = rig_print(r, d, GW_UNIT_INIT);
}

void rig_contribute(rig *r, uint32_t device, uint64_t step, uint32_t first, uint32_t stride) {
    gw_phase phase;
    uint32_t shards = r->type->shards(r->job, step, &phase);
    crew c = {.device = r->device[device],
              .step = step,
              .items = shards > first ? (shards - first + stride - 1) / stride : 0,
              .type = r->type,
              .job = r->job,
              .plan = &r->plan,
              .first = first,
              .stride = stride};
    run_crew(r, &c);
}

static void add_segment(const gw_segment *from, const gw_segment *to) {
    cr_assert_eq(from->count, to->count);
    cr_assert_eq(from->is_float, to->is_float);
    float *floats = to->data;
    uint64_t *words = to->data;
    for (uint64_t i = 0; i < from->count; i++) {
        if (from->is_float)
            floats[i] += ((const float *)from->data)[i];
        else
            words[i] += ((const uint64_t *)from->data)[i];
    }
}

void rig_reduce(rig *r, gw_reduce mode) {
    gw_segments send[RIG_MOST_DEVICES], *receive = r->received;
    gw_err err;
    for (uint32_t d = 0; d < r->devices; d++)
        cr_assert(
            r->device[d]->ops->reduce_begin(r->device[d], mode, GW_PLACE_HOST, &send[d], &receive[d], &err),
            "%s", err.text);
    for (uint32_t d = 0; d < r->devices; d++)
        for (uint32_t s = 0; s < receive[d].count; s++) {
            const gw_segment *to = &receive[d].list[s];
            memset(to->data, 0, to->count * (to->is_float ? sizeof(float) : sizeof(int64_t)));
            for (uint32_t from = 0; from < r->devices; from++) add_segment(&send[from].list[s], to);
        }
}

uint64_t rig_step(rig *r, uint64_t step, gw_reduce mode) {
    for (uint32_t d = 0; d < r->devices; d++) r->device[d]->ops->step_begin(r->device[d], step);
    for (uint32_t d = 0; d < r->devices; d++) rig_contribute(r, d, step, d, r->devices);
    rig_reduce(r, mode);
    return rig_finish(r);
}

uint64_t rig_finish(rig *r) {
    uint64_t fingerprint = 0;
    for (uint32_t d = 0; d < r->devices; d++) {
        gw_verdict verdict;
        gw_scalars scalars;
        gw_err err;
        cr_assert(r->device[d]->ops->reduce_end(r->device[d], &verdict, &err), "%s", err.text);
        cr_assert(verdict.coverage_ok && verdict.fingerprint_ok && verdict.bad == 0);
        cr_assert(r->device[d]->ops->scalars(r->device[d], &scalars, &err), "%s", err.text);
        r->made = rig_print(r, d, GW_UNIT_APPLY);
        uint64_t own = gw_state_print_whole(r->made);
        cr_assert(d == 0 || own == fingerprint);
        fingerprint = own;
    }
    return fingerprint;
}
