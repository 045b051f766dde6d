#include "kernels/device/group/sums.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "kernels/device/sums.h"
#include "kernels/host/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_group_sums {
    gw_device *const *parts;
    uint32_t count;
    gw_team *team;
    gw_segments send[GW_DEVICE_PARTS], receive[GW_DEVICE_PARTS]; /* the parts' segments */
    gw_segment *list[2]; /* the lists for a collective: sent, received */
    uint32_t room;       /* segments that each list has room for */
    void *total;         /* the parts' sum in host memory; NULL until needed */
    size_t total_bytes;

    gw_reduce mode; /* of the reduction that was begun; 0: none */
    gw_place place;
    gw_verdict verdict[GW_DEVICE_PARTS];
};

const char *gw_group_part_text(const gw_device *part, uint32_t number, char text[24]) {
    if (part->gpu_count > 0)
        snprintf(text, 24, "GPU %d", part->gpus[0]);
    else
        snprintf(text, 24, "part %u", number);
    return text;
}

gw_group_sums *gw_group_sums_open(gw_device *const *parts, uint32_t count, gw_team *team, gw_err *err) {
    gw_group_sums *s = calloc(1, sizeof *s);
    if (s == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for sums");
        return NULL;
    }
    s->parts = parts;
    s->count = count;
    s->team = team;
    /* two segments a bucket, headers and data, where data are floats */
    s->room = count * 2 * parts[0]->layout->bucket_count;
    s->total_bytes = parts[0]->layout->words * sizeof(int64_t);
    for (int i = 0; i < 2; i++) s->list[i] = calloc(s->room, sizeof *s->list[i]);
    if (s->list[0] != NULL && s->list[1] != NULL) return s;
    gw_fail(err, GW_E_NOMEM, "no memory for %u segments", s->room);
    gw_group_sums_close(s);
    return NULL;
}

void gw_group_sums_close(gw_group_sums *s) {
    if (s == NULL) return;
    gw_memory_unmap(s->total, s->total_bytes);
    for (int i = 0; i < 2; i++) free(s->list[i]);
    free(s);
}

uint64_t gw_group_sums_bytes(const gw_group_sums *s) {
    return s->total != NULL ? s->total_bytes : 0;
}

/* The beginning of a reduction. */

static bool begin_part(void *context, uint32_t i, gw_err *err) {
    gw_group_sums *s = context;
    gw_device *part = s->parts[i];
    /* a peer that is alone still adds its parts */
    gw_reduce mode = s->mode == GW_REDUCE_ALONE ? GW_REDUCE_EXACT : s->mode;
    return part->ops->reduce_begin(part, mode, s->place, &s->send[i], &s->receive[i], err);
}

static size_t width(const gw_segment *segment) {
    return segment->is_float ? sizeof(float) : sizeof(int64_t);
}

static void add(const gw_segment *from, const gw_segment *to, uint64_t first, uint64_t end) {
    const float *floats = from->data;
    const uint64_t *words = from->data;
    for (uint64_t i = first; i < end && from->is_float; i++) ((float *)to->data)[i] += floats[i];
    for (uint64_t i = first; i < end && !from->is_float; i++) ((uint64_t *)to->data)[i] += words[i];
}

/* Adds a member's slice of every segment over all parts, in the order of the parts. */
static bool add_slice(void *context, uint32_t member, gw_err *err) {
    gw_group_sums *s = context;
    (void)err;
    for (uint32_t k = 0; k < s->send[0].count; k++) {
        const gw_segment *to = &s->list[0][k], *from = &s->send[0].list[k];
        uint64_t first = to->count * member / s->count, end = to->count * (member + 1) / s->count;
        size_t at = first * width(to);
        memcpy((char *)to->data + at, (const char *)from->data + at, (end - first) * width(to));
        for (uint32_t i = 1; i < s->count; i++) {
            GW_ASSERT(s->send[i].list[k].count == to->count && s->send[i].list[k].is_float == to->is_float);
            add(&s->send[i].list[k], to, first, end);
        }
    }
    return true;
}

/* Lays out the list to send in memory of the group's own, since the accumulators must not change. */
static bool lay_out_total(gw_group_sums *s, gw_err *err) {
    if (s->total == NULL && !gw_memory_map(s->total_bytes, &s->total, err)) return gw_fail_in(err, "sums");
    char *next = s->total;
    for (uint32_t k = 0; k < s->send[0].count; k++) {
        s->list[0][k] = s->send[0].list[k];
        s->list[0][k].data = next;
        next += s->list[0][k].count * width(&s->list[0][k]);
    }
    GW_ASSERT((size_t)(next - (char *)s->total) <= s->total_bytes);
    return true;
}

/* Adds the parts' sums in host memory. The result is this peer's sum, and the first part receives for all. A
 * peer that is alone adds directly into the first part's received list. */
static bool add_parts(gw_group_sums *s, gw_err *err) {
    if (s->mode == GW_REDUCE_ALONE)
        memcpy(s->list[0], s->receive[0].list, s->receive[0].count * sizeof *s->list[0]);
    else if (!lay_out_total(s, err))
        return false;
    return gw_team_run(s->team, add_slice, s, err);
}

static void list_all(gw_group_sums *s) {
    gw_segment *next[2] = {s->list[0], s->list[1]};
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->send[i].count; k++) {
            *next[0]++ = s->send[i].list[k];
            *next[1]++ = s->receive[i].list[k];
        }
}

bool gw_group_sums_begin(gw_group_sums *s, gw_reduce mode, gw_place place, gw_segments *send,
                         gw_segments *receive, gw_err *err) {
    *send = *receive = (gw_segments){NULL, 0};
    s->mode = mode;
    s->place = mode == GW_REDUCE_ALONE ? GW_PLACE_HOST : place;
    bool good = gw_team_run(s->team, begin_part, s, err);
    for (uint32_t i = 0; good && i < s->count; i++)
        GW_ASSERT(s->send[i].count == s->send[0].count && s->receive[i].count == s->send[0].count &&
                  s->send[0].count * s->count <= s->room);
    if (!good || (s->place == GW_PLACE_HOST && !add_parts(s, err))) {
        s->mode = 0;
        return false;
    }
    if (s->place == GW_PLACE_GPU) {
        list_all(s);
        *send = (gw_segments){s->list[0], s->send[0].count * s->count};
        *receive = (gw_segments){s->list[1], s->send[0].count * s->count};
    } else if (mode != GW_REDUCE_ALONE) {
        *send = (gw_segments){s->list[0], s->send[0].count};
        *receive = s->receive[0];
    }
    return true;
}

/* The end of a reduction. */

static bool copy_received(void *context, uint32_t i, gw_err *err) {
    const gw_group_sums *s = context;
    (void)err;
    for (uint32_t k = 0; i > 0 && k < s->receive[0].count; k++) {
        const gw_segment *from = &s->receive[0].list[k], *to = &s->receive[i].list[k];
        GW_ASSERT(to->count == from->count && to->is_float == from->is_float);
        memcpy(to->data, from->data, from->count * width(from));
    }
    return true;
}

static bool end_part(void *context, uint32_t i, gw_err *err) {
    gw_group_sums *s = context;
    return s->parts[i]->ops->reduce_end(s->parts[i], &s->verdict[i], err);
}

/* Combines the parts' verdicts: the sum is right if every part received the right sum. Where only some parts
 * did, a warning names the others. */
static gw_verdict combine_verdicts(const gw_group_sums *s) {
    gw_verdict all = s->verdict[0];
    uint32_t right = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const gw_verdict *one = &s->verdict[i];
        if (one->coverage_ok && one->fingerprint_ok)
            right++;
        else if (all.coverage_ok && all.fingerprint_ok)
            all.bucket = one->bucket;
        all.coverage_ok = all.coverage_ok && one->coverage_ok;
        all.fingerprint_ok = all.fingerprint_ok && one->fingerprint_ok;
        all.own_wrong = all.own_wrong || one->own_wrong;
    }
    for (uint32_t i = 0; i < s->count && right > 0; i++) {
        char text[24];
        if (!s->verdict[i].coverage_ok || !s->verdict[i].fingerprint_ok)
            gw_log(GW_WARN, "kernels/group", "%s has received another sum than the others of this peer",
                   gw_group_part_text(s->parts[i], i, text));
    }
    return all;
}

bool gw_group_sums_end(gw_group_sums *s, gw_verdict *verdict, gw_err *err) {
    *verdict = gw_verdict_start();
    if (s->mode == 0) return gw_fail(err, GW_E_INVALID, "no reduction was begun");
    bool added = s->mode == GW_REDUCE_EXACT && s->place == GW_PLACE_HOST;
    s->mode = 0;
    if (s->place == GW_PLACE_HOST && !gw_team_run(s->team, copy_received, s, err)) return false;
    if (!gw_team_run(s->team, end_part, s, err)) return false;
    *verdict = combine_verdicts(s);
    if (added && !verdict->fingerprint_ok && !verdict->own_wrong)
        verdict->own_wrong = !gw_segments_fit((gw_segments){s->list[0], s->send[0].count});
    return true;
}

void gw_group_sums_release(gw_group_sums *s) {
    s->mode = 0;
}
