#include "tools/godwit/audit/spike.h"

#include "core/base/assert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The series. */

static void add_spike(gw_spikes *spikes, const gw_series_point *point, const gw_course *before) {
    spikes->count++;
    if (spikes->listed == GW_SPIKES) {
        memmove(spikes->list, spikes->list + 1, (GW_SPIKES - 1) * sizeof *spikes->list);
        spikes->listed--;
    }
    spikes->list[spikes->listed++] =
        (gw_spike){.begin = point->begin, .end = point->end, .value = point->max, .before = *before};
}

void gw_spikes_of(const gw_levels *levels, const gw_alarm_loss *rule, gw_spikes *spikes) {
    gw_series_point *points = calloc(GW_LEVELS_POINTS, sizeof *points);
    GW_ASSERT_MEMORY(points != NULL);
    gw_course course = {0};
    uint64_t next;
    bool above = false;
    spikes->last = levels->last;
    /* A range of so many steps is read in the finest detail that is there: old steps are in bins, which may reach
     * beyond the range. */
    for (uint64_t from = 1; from <= levels->last; from = next) {
        next = from + GW_LEVELS_POINTS;
        uint32_t count = gw_levels_read(levels, from, next - 1, GW_LEVELS_POINTS, points);
        for (uint32_t i = 0; i < count; i++) {
            bool leaves = gw_course_leaves(&course, rule, points[i].max);
            if (leaves && !above) add_spike(spikes, &points[i], &course);
            if (!leaves) gw_course_add(&course, points[i].mean, points[i].count);
            above = leaves;
        }
        if (count > 0 && points[count - 1].end >= next) next = points[count - 1].end + 1;
    }
    free(points);
}

static const gw_levels *find_series(const gw_series_set *set, const char *key, gw_spikes *spikes) {
    static const char *const kinds[] = {"train", "evaluate"};
    for (int k = 0; k < 2; k++) {
        snprintf(spikes->series, sizeof spikes->series, "%s/%s", kinds[k], key);
        for (uint32_t i = 0; i < set->count; i++)
            if (strcmp(set->name[i], spikes->series) == 0) return &set->levels[i];
    }
    return NULL;
}

/* Says which reports there are. */
static bool fail_key(const gw_series_set *set, const char *key, gw_err *err) {
    char names[200] = "";
    for (uint32_t i = 0; i < set->count; i++) {
        const char *name = strchr(set->name[i], '/');
        size_t used = strlen(names);
        if (name == NULL || strncmp(set->name[i], "run/", 4) == 0) continue;
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", name + 1);
    }
    return gw_fail(err, GW_E_USAGE, "the job reports no number '%s': it reports %s", key,
                   names[0] != '\0' ? names : "none");
}

bool gw_spikes_find(char *const *dirs, uint32_t dir_count, const gw_hash *job, const gw_alarm_loss *rule,
                    gw_spikes *spikes, gw_err *err) {
    gw_series_set *best = calloc(1, sizeof *best), *one = calloc(1, sizeof *one);
    GW_ASSERT_MEMORY(best != NULL && one != NULL);
    gw_err ignored;
    *spikes = (gw_spikes){0};
    for (uint32_t d = 0; d < dir_count; d++) {
        if (!gw_series_read_file(dirs[d], job, one, &ignored)) continue;
        if (gw_series_set_last(one) > gw_series_set_last(best)) {
            gw_series_set *other = best;
            best = one;
            one = other;
        }
        gw_series_set_free(one);
    }
    const gw_levels *levels = find_series(best, rule->key, spikes);
    bool good = levels != NULL;
    if (good)
        gw_spikes_of(levels, rule, spikes);
    else if (best->count == 0)
        gw_fail(
            err, GW_E_NOTFOUND,
            "no directory has series of this job, which peers write with their checkpoints: name the step "
            "by --step");
    else
        fail_key(best, rule->key, err);
    gw_series_set_free(best);
    free(best);
    free(one);
    return good;
}

/* The shards. */

bool gw_extreme_stands_out(double value, double usual, double spread) {
    return value > 2 * usual && value > usual + 6 * 1.4826 * spread;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the values, the lower one of two; `room` is for as many. */
static double median(const double *values, uint32_t count, double *room) {
    memcpy(room, values, count * sizeof *room);
    qsort(room, count, sizeof *room, compare);
    return room[(count - 1) / 2];
}

/* By how much a shard stands out. */
static double ratio(const gw_extreme *one) {
    if (one->bad > 0) return INFINITY;
    return one->usual > 0 ? one->value / one->usual : one->value > 0 ? INFINITY : 0;
}

/* Adds a shard to the list, whose order is that of ratios; a shard is in it once. */
static void add_extreme(gw_extremes *e, gw_extreme one) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->list[i].shard != one.shard) continue;
        if (ratio(&e->list[i]) >= ratio(&one)) return;
        memmove(e->list + i, e->list + i + 1, (e->count - i - 1) * sizeof one);
        e->count--;
    }
    while (at < e->count && ratio(&e->list[at]) >= ratio(&one)) at++;
    if (at == GW_EXTREMES) return;
    if (e->count < GW_EXTREMES) e->count++;
    memmove(e->list + at + 1, e->list + at, (e->count - at - 1) * sizeof one);
    e->list[at] = one;
}

/* Judges the shards by one kind of value. NAN: the job has no such values. */
static void judge(gw_extremes *e, const gw_shard_measure *measures, bool by_norm, double *values,
                  double *room) {
    uint32_t count = e->shards;
    for (uint32_t s = 0; s < count; s++) {
        values[s] = by_norm ? measures[s].norm : measures[s].report;
        if (isnan(values[s])) return;
    }
    double usual = median(values, count, room);
    for (uint32_t s = 0; s < count; s++) room[s] = fabs(values[s] - usual);
    qsort(room, count, sizeof *room, compare);
    double spread = room[(count - 1) / 2], highest = 0;
    for (uint32_t s = 0; s < count; s++) highest = values[s] > highest ? values[s] : highest;
    for (uint32_t s = 0; s < count; s++) {
        const gw_extreme one = {
            .shard = s, .by_norm = by_norm, .value = values[s], .usual = usual, .bad = measures[s].bad};
        bool stands_out = gw_extreme_stands_out(one.value, usual, spread) && one.value > highest / 4;
        if (one.bad > 0 || stands_out) add_extreme(e, one);
        if (ratio(&one) > ratio(&e->highest)) e->highest = one;
    }
}

bool gw_extremes_find(gw_rerun *rerun, const char *key, gw_extremes *e, gw_err *err) {
    *e = (gw_extremes){.step = gw_rerun_at(rerun) + 1};
    if (!gw_rerun_shards(rerun, &e->shards, err)) return false;
    gw_shard_measure *measures = calloc(e->shards, sizeof *measures);
    double *values = calloc(e->shards, sizeof *values), *room = calloc(e->shards, sizeof *room);
    GW_ASSERT_MEMORY(measures != NULL && values != NULL && room != NULL);
    bool good = true;
    for (uint32_t s = 0; good && s < e->shards; s++)
        good = gw_rerun_measure(rerun, s, key, &measures[s], err);
    if (good) {
        judge(e, measures, false, values, room);
        judge(e, measures, true, values, room);
    }
    free(room);
    free(values);
    free(measures);
    for (uint32_t i = 0; good && i < e->count; i++)
        gw_audit_samples_read(rerun, e->step, e->list[i].shard, &e->list[i].samples);
    return good;
}

void gw_extremes_free(gw_extremes *e) {
    for (uint32_t i = 0; i < e->count; i++) gw_audit_samples_free(&e->list[i].samples);
    e->count = 0;
}
