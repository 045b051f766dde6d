#include "tools/godwit/series/series.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/durable.h"
#include "core/os/priority.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The steps that wait until they are added to the levels, which readers and the thread do. */
enum { WAITING = 1024 };
/* The file is written no oftener than so many bytes a second come to: 1.4 GB a day. */
enum { WRITTEN_PER_S = 16 << 10 };
enum { REPORT_BYTES = 200, NUMBER_TEXT = 64 };

typedef struct waiting_step {
    uint64_t step;
    bool evaluates;
    double ms, tokens_per_s;
    uint32_t members, shards;
    char report[REPORT_BYTES];
} waiting_step;

struct gw_series {
    gw_series_place place;
    pthread_t thread;

    pthread_mutex_t lock; /* guards the members below; held for a moment only */
    pthread_cond_t changed;
    waiting_step *waiting; /* WAITING of them */
    uint32_t waiting_count;
    bool save, ending, over; /* asked for; the thread ends; it has ended */
    bool drain;              /* the thread is asked to take what waits */

    pthread_mutex_t levels_lock; /* guards the members below; `lock` may be taken inside */
    waiting_step *taken;         /* WAITING of them; changes places with `waiting` */
    gw_series_set set;
    uint64_t last, cuts;
    bool full_told, memory_told;
    bool news; /* since the file was written */

    /* The thread's. */
    uint64_t next_write_ns;
    bool fails; /* the last write has failed */
};

/* The levels. */

/* Finds or makes a series; NULL: there are too many. */
static gw_levels *find_series(gw_series *series, const char *where, const char *key) {
    gw_series_set *set = &series->set;
    char name[GW_SERIES_NAME];
    snprintf(name, sizeof name, "%s/%s", where, key);
    for (uint32_t i = 0; i < set->count; i++)
        if (strcmp(set->name[i], name) == 0) return &set->levels[i];
    if (set->count < GW_SERIES_MOST) {
        memcpy(set->name[set->count], name, sizeof name);
        return &set->levels[set->count++];
    }
    if (!series->full_told)
        gw_log(GW_INFO, "series",
               "the job reports more numbers than are kept by step: %s and others are left out", name);
    series->full_told = true;
    return NULL;
}

static void add_value(gw_series *series, const char *where, const char *key, uint64_t step, double value) {
    gw_levels *levels = find_series(series, where, key);
    gw_err err;
    if (levels == NULL || gw_levels_add(levels, step, value, &err)) return;
    if (!series->memory_told) gw_log(GW_WARN, "series", "%s: the curves have holes", err.text);
    series->memory_told = true;
}

static void add_step(gw_series *series, const waiting_step *one) {
    char key[GW_KEY_VALUES_KEY], text[NUMBER_TEXT], *end;
    const char *rest = one->report, *value;
    size_t length;
    if (one->step <= series->last) {
        for (uint32_t i = 0; i < series->set.count; i++) gw_levels_cut(&series->set.levels[i], one->step);
        series->cuts++;
    }
    series->last = one->step;
    add_value(series, "run", "ms", one->step, one->ms);
    add_value(series, "run", "members", one->step, one->members);
    if (one->ms > 0) add_value(series, "run", "shards_per_s", one->step, one->shards / one->ms * 1000);
    if (one->tokens_per_s > 0) add_value(series, "run", "tokens_per_s", one->step, one->tokens_per_s);
    while (gw_key_values_next(&rest, key, &value, &length)) {
        if (length == 0 || length >= sizeof text) continue;
        memcpy(text, value, length);
        text[length] = '\0';
        double number = strtod(text, &end);
        if (*end == '\0') add_value(series, one->evaluates ? "evaluate" : "train", key, one->step, number);
    }
    series->news = true;
}

/* Adds the steps that wait. The caller holds levels_lock. */
static void take_waiting(gw_series *series) {
    pthread_mutex_lock(&series->lock);
    waiting_step *steps = series->waiting;
    uint32_t count = series->waiting_count;
    series->waiting = series->taken;
    series->waiting_count = 0;
    series->taken = steps;
    pthread_mutex_unlock(&series->lock);
    for (uint32_t i = 0; i < count; i++) add_step(series, &steps[i]);
}

static void lock_levels(gw_series *series) {
    pthread_mutex_lock(&series->levels_lock);
    take_waiting(series);
}

void gw_series_add(gw_series *series, const gw_metrics_row *row) {
    if (series == NULL) return;
    pthread_mutex_lock(&series->lock);
    while (series->waiting_count == WAITING) { /* the thread and all readers are far behind */
        pthread_mutex_unlock(&series->lock);
        lock_levels(series);
        pthread_mutex_unlock(&series->levels_lock);
        pthread_mutex_lock(&series->lock);
    }
    waiting_step *one = &series->waiting[series->waiting_count++];
    *one = (waiting_step){.step = row->step,
                          .evaluates = strcmp(row->phase, "evaluate") == 0,
                          .ms = row->ms,
                          .members = row->members,
                          .shards = row->shards,
                          .tokens_per_s = row->tokens_per_s};
    snprintf(one->report, sizeof one->report, "%s", row->report);
    if (series->waiting_count == WAITING / 2) {
        series->drain = true;
        pthread_cond_signal(&series->changed);
    }
    pthread_mutex_unlock(&series->lock);
}

/* The file. */

static void set_aside(gw_series *series, const char *path, const gw_err *why) {
    char aside[GW_PATH_BYTES];
    gw_err err;
    bool moved = gw_durable_path(aside, &err, "%s.damaged", path) &&
                 series->place.io->rename(series->place.io, path, aside) == 0;
    gw_log(GW_WARN, "series", "%s cannot be used: %s. The curves begin anew; what was there is in %s", path,
           why->text, moved ? aside : "no place: it will be replaced");
}

static void read_file(gw_series *series) {
    char path[GW_PATH_BYTES];
    void *bytes = NULL;
    size_t length;
    gw_err err;
    if (!gw_durable_path(path, &err, "%s/series", series->place.dir)) return;
    bool read = gw_durable_read(series->place.io, path, GW_SERIES_FILE_BYTES, &bytes, &length, &err);
    bool good = read && gw_series_decode(bytes, length, &series->place.job, &series->set, &err);
    free(bytes);
    if (!good) {
        if (err.code != GW_E_NOTFOUND) set_aside(series, path, &err);
        return;
    }
    for (uint32_t i = 0; i < series->set.count; i++)
        if (series->set.levels[i].last > series->last) series->last = series->set.levels[i].last;
}

/* Writes the file where there is news, without any lock while the disk works. */
static void write_file(gw_series *series) {
    char path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    size_t length = 0;
    gw_err err;
    lock_levels(series);
    bool news = series->news;
    void *bytes = news ? gw_series_encode(&series->set, &series->place.job, &length) : NULL;
    series->news = false;
    pthread_mutex_unlock(&series->levels_lock);
    if (!news) return;
    bool good = (bytes != NULL || gw_fail(&err, GW_E_NOMEM, "out of memory")) &&
                gw_durable_path(path, &err, "%s/series", series->place.dir) &&
                gw_durable_path(temporary, &err, "%s/series.new", series->place.dir) &&
                gw_durable_replace(series->place.io, temporary, series->place.dir, path, bytes, length, &err);
    free(bytes);
    series->next_write_ns = gw_now_ns() + length * UINT64_C(1000000000) / WRITTEN_PER_S;
    if (!good && !series->fails)
        gw_log(GW_WARN, "series",
               "the curves cannot be written: %s; the job goes on, and the next checkpoint tries "
               "again",
               err.text);
    series->fails = !good;
    if (good) return;
    pthread_mutex_lock(&series->levels_lock);
    series->news = true;
    pthread_mutex_unlock(&series->levels_lock);
}

static void *run(void *context) {
    gw_series *series = context;
    gw_priority_lower();
    pthread_mutex_lock(&series->lock);
    while (!series->ending) {
        bool due = series->save && gw_now_ns() >= series->next_write_ns;
        if (!due && !series->drain) {
            gw_cond_wait_until(&series->changed, &series->lock,
                               series->save ? series->next_write_ns : UINT64_MAX);
            continue;
        }
        series->drain = false;
        if (due) series->save = false;
        pthread_mutex_unlock(&series->lock);
        if (due) {
            write_file(series);
        } else {
            lock_levels(series);
            pthread_mutex_unlock(&series->levels_lock);
        }
        pthread_mutex_lock(&series->lock);
    }
    pthread_mutex_unlock(&series->lock);
    write_file(series);
    pthread_mutex_lock(&series->lock);
    series->over = true;
    pthread_cond_broadcast(&series->changed);
    pthread_mutex_unlock(&series->lock);
    return NULL;
}

void gw_series_save(gw_series *series) {
    if (series == NULL) return;
    pthread_mutex_lock(&series->lock);
    series->save = true;
    pthread_cond_signal(&series->changed);
    pthread_mutex_unlock(&series->lock);
}

static void destroy(gw_series *series) {
    pthread_mutex_destroy(&series->lock);
    pthread_mutex_destroy(&series->levels_lock);
    pthread_cond_destroy(&series->changed);
    gw_series_set_free(&series->set);
    free(series->waiting);
    free(series->taken);
    free(series);
}

gw_series *gw_series_open(const gw_series_place *place, gw_err *err) {
    gw_series *series = calloc(1, sizeof *series);
    if (series == NULL) {
        gw_fail(err, GW_E_NOMEM, "series: out of memory");
        return NULL;
    }
    series->place = *place;
    pthread_mutex_init(&series->lock, NULL);
    pthread_mutex_init(&series->levels_lock, NULL);
    gw_cond_init(&series->changed);
    series->waiting = malloc(WAITING * sizeof *series->waiting);
    series->taken = malloc(WAITING * sizeof *series->taken);
    bool good = (series->waiting != NULL && series->taken != NULL) ||
                gw_fail(err, GW_E_NOMEM, "series: out of memory");
    if (good && !place->fresh) read_file(series);
    int failed = good ? pthread_create(&series->thread, NULL, run, series) : 0;
    if (failed != 0) good = gw_fail_errno(err, failed, "series: cannot start a thread");
    if (good) {
        pthread_setname_np(series->thread, "gw-series");
        return series;
    }
    destroy(series);
    return NULL;
}

bool gw_series_close(gw_series *series, uint64_t patience_ns) {
    if (series == NULL) return true;
    const uint64_t end_ns = gw_now_ns() + patience_ns;
    pthread_mutex_lock(&series->lock);
    series->ending = true;
    pthread_cond_broadcast(&series->changed);
    while (!series->over)
        if (!gw_cond_wait_until(&series->changed, &series->lock, end_ns)) break;
    bool over = series->over;
    pthread_mutex_unlock(&series->lock);
    if (!over) {
        gw_log(GW_WARN, "series",
               "the disk of %s has not answered for %.0f s: the curves since the last checkpoint are "
               "missing there",
               series->place.dir, (double)patience_ns * 1e-9);
        return false;
    }
    pthread_join(series->thread, NULL);
    destroy(series);
    return true;
}

/* Reading. */

void gw_series_list(gw_series *series, gw_series_about *about) {
    memset(about, 0, sizeof *about);
    lock_levels(series);
    about->last = series->last;
    about->cuts = series->cuts;
    about->count = series->set.count;
    memcpy(about->name, series->set.name, sizeof about->name);
    pthread_mutex_unlock(&series->levels_lock);
}

uint32_t gw_series_read(gw_series *series, uint32_t number, uint64_t from, uint64_t to, uint32_t most,
                        gw_series_point *points) {
    lock_levels(series);
    uint32_t count =
        number < series->set.count ? gw_levels_read(&series->set.levels[number], from, to, most, points) : 0;
    pthread_mutex_unlock(&series->levels_lock);
    return count;
}

uint64_t gw_series_memory(gw_series *series) {
    uint64_t bytes = 0;
    lock_levels(series);
    for (uint32_t i = 0; i < series->set.count; i++) bytes += gw_levels_memory(&series->set.levels[i]);
    pthread_mutex_unlock(&series->levels_lock);
    return bytes;
}
