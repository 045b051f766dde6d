#include "kernels/device/group/group.h"

#include "core/base/assert.h"
#include "kernels/device/common.h"
#include "kernels/device/group/sums.h"
#include "kernels/host/team.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct group {
    gw_device device; /* must be the first field: the ops cast the device to its group */
    gw_device *part[GW_DEVICE_PARTS];
    uint32_t count;
    gw_team *team;
    gw_group_sums *sums;
    void (*lost_callback)(void *context, const gw_err *why); /* from the options */
    void *lost_context;
    pthread_mutex_t lock;            /* guards the two fields below */
    uint32_t lanes[GW_DEVICE_PARTS]; /* open lanes of each part */
    bool lost;                       /* the loss of a part has been reported; later ones are not reported */
} group;

/* A gw_lane of a group is one of these. */
typedef struct group_lane {
    gw_lane *inner;
    uint32_t part;
} group_lane;

static group *group_of(gw_device *device) {
    return (group *)(void *)device;
}

static group_lane *lane_of(gw_lane *lane) {
    return (group_lane *)(void *)lane;
}

/* The device that a lane's shards run on. */
static gw_device *part_of(gw_device *device, gw_lane *lane) {
    return group_of(device)->part[lane_of(lane)->part];
}

/* The first part owns the shared ledger, and answers where all parts would answer alike. */
static gw_device *first_of(gw_device *device) {
    return group_of(device)->part[0];
}

static void part_lost(void *context, const gw_err *why) {
    group *g = context;
    pthread_mutex_lock(&g->lock);
    bool reported = g->lost;
    g->lost = true;
    pthread_mutex_unlock(&g->lock);
    if (!reported && g->lost_callback != NULL) g->lost_callback(g->lost_context, why);
}

/* Lanes. */

/* Adds a lane to the part that has the fewest, and returns the part. */
static uint32_t take_part(group *g) {
    uint32_t least = 0;
    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 1; i < g->count; i++)
        if (g->lanes[i] < g->lanes[least]) least = i;
    g->lanes[least]++;
    pthread_mutex_unlock(&g->lock);
    return least;
}

static void give_part(group *g, uint32_t part) {
    pthread_mutex_lock(&g->lock);
    GW_ASSERT(g->lanes[part] > 0);
    g->lanes[part]--;
    pthread_mutex_unlock(&g->lock);
}

static bool open_lane(gw_device *device, gw_lane **lane, gw_err *err) {
    group *g = group_of(device);
    group_lane *l = calloc(1, sizeof *l);
    *lane = NULL;
    if (l == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a worker's lane");
    l->part = take_part(g);
    gw_device *part = g->part[l->part];
    if (!part->ops->lane_open(part, &l->inner, err)) {
        give_part(g, l->part);
        free(l);
        return false;
    }
    *lane = (gw_lane *)(void *)l;
    return true;
}

static void close_lane(gw_device *device, gw_lane *lane) {
    if (lane == NULL) return;
    gw_device *part = part_of(device, lane);
    part->ops->lane_close(part, lane_of(lane)->inner);
    give_part(group_of(device), lane_of(lane)->part);
    free(lane_of(lane));
}

static uint32_t lane_part(gw_device *device, const gw_lane *lane) {
    (void)device;
    return ((const group_lane *)(const void *)lane)->part;
}

static void prefetch(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard) {
    gw_device *part = part_of(device, lane);
    part->ops->prefetch(part, lane_of(lane)->inner, step, shard);
}

static void set_payload(gw_device *device, gw_lane *lane, const void *bytes) {
    gw_device *part = part_of(device, lane);
    part->ops->payload(part, lane_of(lane)->inner, bytes);
}

static gw_contributed contribute(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard,
                                 gw_err *err) {
    gw_device *part = part_of(device, lane);
    return part->ops->contribute(part, lane_of(lane)->inner, step, shard, err);
}

static uint64_t last_fingerprint(gw_device *device, gw_lane *lane) {
    gw_device *part = part_of(device, lane);
    return part->ops->fingerprint(part, lane_of(lane)->inner);
}

static bool probe(gw_device *device, gw_lane *lane, uint64_t step, uint32_t shard, uint64_t *fingerprint,
                  gw_err *err) {
    gw_device *part = part_of(device, lane);
    return part->ops->probe(part, lane_of(lane)->inner, step, shard, fingerprint, err);
}

/* The state. */

typedef struct unit_task {
    group *g;
    gw_unit_work work;
    uint64_t unit;
    gw_state_print found[GW_DEVICE_PARTS];
} unit_task;

static bool part_unit(void *context, uint32_t i, gw_err *err) {
    unit_task *task = context;
    gw_device *part = task->g->part[i];
    return part->ops->unit(part, task->work, task->unit, &task->found[i], err);
}

/* Lists every part's fingerprint. Two differing parts do not show which is wrong; among more, a person can
 * see the odd one. */
static bool fail_unequal(const unit_task *task, gw_err *err) {
    char text[GW_DEVICE_PARTS * 48], name[24];
    int length = 0;
    for (uint32_t i = 0; i < task->g->count; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, "%s%s %016" PRIx64, i > 0 ? ", " : "",
                     gw_group_part_text(task->g->part[i], i, name), gw_state_print_whole(task->found[i]));
    return gw_fail(err, GW_E_CORRUPT, "copies of the state differ: %s", text);
}

static bool run_unit(gw_device *device, gw_unit_work work, uint64_t unit, gw_state_print *part, gw_err *err) {
    unit_task task = {.g = group_of(device), .work = work, .unit = unit};
    if (!gw_team_run(task.g->team, part_unit, &task, err)) return false;
    for (uint32_t i = 1; i < task.g->count; i++)
        if (task.found[i].read != task.found[0].read || task.found[i].rest != task.found[0].rest)
            return fail_unequal(&task, err);
    *part = task.found[0];
    return true;
}

static bool read_state(gw_device *device, uint64_t offset, uint64_t bytes, void *to, gw_err *err) {
    gw_device *first = first_of(device);
    return first->ops->state_read(first, offset, bytes, to, err);
}

typedef struct write_task {
    group *g;
    uint64_t offset, bytes;
    const void *from;
} write_task;

static bool part_write(void *context, uint32_t i, gw_err *err) {
    const write_task *task = context;
    gw_device *part = task->g->part[i];
    return part->ops->state_write(part, task->offset, task->bytes, task->from, err);
}

static bool write_state(gw_device *device, uint64_t offset, uint64_t bytes, const void *from, gw_err *err) {
    write_task task = {.g = group_of(device), .offset = offset, .bytes = bytes, .from = from};
    return gw_team_run(task.g->team, part_write, &task, err);
}

/* The accumulators. */

/* Begins the step in the first part last: its step_begin empties the shared ledger, and by then no other part
 * has a sum that lies in its accumulator. */
static void begin_step(gw_device *device, uint64_t step) {
    group *g = group_of(device);
    gw_group_sums_release(g->sums);
    for (uint32_t i = g->count; i-- > 0;) g->part[i]->ops->step_begin(g->part[i], step);
}

static void zero(gw_device *device) {
    group *g = group_of(device);
    gw_group_sums_release(g->sums);
    for (uint32_t i = g->count; i-- > 0;) g->part[i]->ops->zero(g->part[i]);
}

/* Sums. */

static bool begin_reduce(gw_device *device, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err) {
    return gw_group_sums_begin(group_of(device)->sums, mode, place, send, receive, err);
}

static void count_memory(group *g) {
    g->device.memory_bytes = gw_group_sums_bytes(g->sums);
    for (uint32_t i = 0; i < g->count; i++) g->device.memory_bytes += g->part[i]->memory_bytes;
}

static bool end_reduce(gw_device *device, gw_verdict *verdict, gw_err *err) {
    group *g = group_of(device);
    if (!gw_group_sums_end(g->sums, verdict, err)) return false;
    count_memory(g);
    return true;
}

static void read_boundary(gw_device *device, int64_t *words) {
    gw_device *first = first_of(device);
    first->ops->boundary(first, words);
}

/* Runs the job's `scalars` for one part after the other, since it must not run twice at once. */
static bool run_scalars(gw_device *device, gw_scalars *scalars, gw_err *err) {
    group *g = group_of(device);
    for (uint32_t i = g->count; i-- > 0;)
        if (!g->part[i]->ops->scalars(g->part[i], scalars, err)) return false;
    return true;
}

/* Opening and closing. */

static void close_group(gw_device *device) {
    if (device == NULL) return;
    group *g = group_of(device);
    gw_group_sums_close(g->sums);
    gw_team_close(g->team);
    /* the first part, which owns the ledger, is last */
    for (uint32_t i = g->count; i-- > 0;) g->part[i]->ops->close(g->part[i]);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static const gw_device_ops group_ops = {
    GW_DEVICE_COMMON_OPS,     .close = close_group,
    .lane_open = open_lane,   .lane_close = close_lane,
    .lane_part = lane_part,   .unit = run_unit,
    .state_read = read_state, .state_write = write_state,
    .step_begin = begin_step, .zero = zero,
    .prefetch = prefetch,     .payload = set_payload,
    .contribute = contribute, .fingerprint = last_fingerprint,
    .probe = probe,           .reduce_begin = begin_reduce,
    .reduce_end = end_reduce, .boundary = read_boundary,
    .scalars = run_scalars,
};

/* Names the first word of the classes that differs. */
static bool fail_other_class(const gw_device *first, const gw_device *other, uint32_t number, gw_err *err) {
    const char *a = first->class_text, *b = other->class_text, *word = a;
    size_t at = 0;
    for (; a[at] != '\0' && a[at] == b[at]; at++)
        if (a[at] == ' ') word = a + at + 1;
    const char *same = b + (word - a);
    char one[24], two[24];
    return gw_fail(err, GW_E_UNSUPPORTED, "%s and %s do not compute alike: %.*s and %.*s",
                   gw_group_part_text(first, 0, one), gw_group_part_text(other, number, two),
                   (int)strcspn(word, " "), word, (int)strcspn(same, " "), same);
}

static bool open_parts(group *g, const gw_device_options *options, uint32_t parts, gw_group_opener *open,
                       void *context, gw_err *err) {
    gw_device_options each = *options;
    /* a group adds its parts' sums even where the peer is alone */
    if (each.reduce == 0) each.reduce = GW_REDUCE_EXACT;
    each.lost = part_lost;
    each.context = g;
    for (; g->count < parts; g->count++) {
        uint32_t own = options->workers / parts + (g->count < options->workers % parts);
        each.workers = own > 0 ? own : 1;
        each.ledger = g->count > 0 ? g->part[0]->ledger : NULL;
        if (!open(context, g->count, &each, &g->part[g->count], err)) return false;
        const gw_device *first = g->part[0], *part = g->part[g->count];
        GW_ASSERT(part->ledger == first->ledger && part->gpu_count == first->gpu_count &&
                  part->unit_count == first->unit_count && part->part_count == 1);
        if (strcmp(part->class_text, first->class_text) == 0) continue;
        fail_other_class(first, part, g->count, err);
        g->count++; /* it is open, and will be closed with the others */
        return false;
    }
    return true;
}

/* Sets the fields that the group has in common with its parts. */
static void describe(group *g) {
    const gw_device *first = g->part[0];
    g->device = (gw_device){.ops = &group_ops,
                            .layout = first->layout,
                            .ledger = first->ledger,
                            .result = first->result,
                            .unit_count = first->unit_count,
                            .part_count = g->count,
                            .gpu_count = first->gpu_count * g->count};
    for (uint32_t i = 0; i < g->device.gpu_count; i++) g->device.gpus[i] = g->part[i]->gpus[0];
    memcpy(g->device.class_text, first->class_text, sizeof first->class_text);
    count_memory(g);
}

bool gw_device_group_open(const gw_device_options *options, uint32_t parts, gw_group_opener *open,
                          void *context, gw_device **device, gw_err *err) {
    GW_ASSERT(parts >= 2 && parts <= GW_DEVICE_PARTS && options->ledger == NULL);
    *device = NULL;
    group *g = calloc(1, sizeof *g);
    if (g == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a group of devices");
    pthread_mutex_init(&g->lock, NULL);
    g->lost_callback = options->lost;
    g->lost_context = options->context;
    bool good = open_parts(g, options, parts, open, context, err) &&
                (g->team = gw_team_open(parts, err)) != NULL &&
                (g->sums = gw_group_sums_open(g->part, parts, g->team, err)) != NULL;
    if (!good) {
        close_group(&g->device);
        return false;
    }
    describe(g);
    *device = &g->device;
    return true;
}
