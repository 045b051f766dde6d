#include "tools/godwit/metrics/metrics.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/thread/helper.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAITING_MOST = 10000 }; /* rows that may wait; a disk that hangs must not fill the memory */

struct gw_metrics {
    gw_metrics_file file; /* used by the helper's thread only */
    gw_helper *helper;
    atomic_uint waiting;
    atomic_ullong left_out; /* rows left out since the last row that was written */
    uint64_t last;          /* step of the last row that the file had at the beginning; 0: none */
    uint64_t first_step;    /* the job goes on from this step; 0: it begins itself */
    /* Used by the helper's thread only, while rows cannot be written. */
    uint64_t warn_ns; /* when the next warning is due */
    uint64_t wait_ns; /* from the last warning to it */
};

typedef struct task {
    gw_metrics *metrics;
    gw_metrics_row row; /* row.report points to `report` */
    char report[];
} task;

gw_metrics *gw_metrics_open(const char *path, gw_err *err) {
    gw_metrics *metrics = calloc(1, sizeof *metrics);
    bool good = metrics != NULL || gw_fail(err, GW_E_NOMEM, "out of memory");
    if (good && (good = gw_metrics_file_hold(path, &metrics->file, err))) {
        metrics->helper = gw_helper_open("gw-metrics", err);
        good = metrics->helper != NULL;
        if (!good) gw_metrics_file_close(&metrics->file);
    }
    if (good) return metrics;
    gw_fail_in(err, "--metrics");
    free(metrics);
    return NULL;
}

bool gw_metrics_begin(gw_metrics *metrics, const char *job, uint64_t first_step, bool fresh, gw_err *err) {
    if (!gw_metrics_file_begin(&metrics->file, job, first_step, fresh, err))
        return gw_fail_in(err, "--metrics");
    metrics->last = metrics->file.last;
    metrics->first_step = first_step;
    return true;
}

uint64_t gw_metrics_last(const gw_metrics *metrics) {
    return metrics->last;
}

void gw_metrics_close(gw_metrics *metrics) {
    if (metrics == NULL) return;
    gw_helper_close(metrics->helper);
    unsigned long long left_out = atomic_load(&metrics->left_out);
    if (left_out > 0)
        gw_log(GW_WARN, "metrics", "the last %llu rows are missing in %s, which could not be written",
               left_out, metrics->file.path);
    gw_metrics_file_close(&metrics->file);
    free(metrics);
}

/* Warns at once, and again after one minute, two and so on, at last every ten. */
static void warn_of_loss(gw_metrics *metrics, unsigned long long rows, const char *why) {
    const uint64_t minute_ns = UINT64_C(60000000000), now = gw_now_ns();
    if (now < metrics->warn_ns) return;
    metrics->wait_ns = metrics->wait_ns == 0              ? minute_ns
                       : metrics->wait_ns > 5 * minute_ns ? 10 * minute_ns
                                                          : 2 * metrics->wait_ns;
    metrics->warn_ns = now + metrics->wait_ns;
    gw_log(GW_WARN, "metrics", "%s; the job goes on, and rows are missing: %llu so far", why, rows);
}

static void write_row(void *context) {
    task *t = context;
    gw_metrics *metrics = t->metrics;
    gw_err err;
    uint64_t last = metrics->file.last > metrics->first_step ? metrics->file.last : metrics->first_step;
    if (t->row.step > last + 1 && atomic_load(&metrics->left_out) == 0)
        gw_log(GW_INFO, "metrics",
               "%s has no rows of the steps %" PRIu64 " to %" PRIu64
               ": they were not made while this peer wrote the file, and no other peer remembers them. The "
               "--metrics file of a peer that made them has them",
               metrics->file.path, last + 1, t->row.step - 1);
    if (!gw_metrics_file_add(&metrics->file, &t->row, &err)) {
        warn_of_loss(metrics, atomic_fetch_add(&metrics->left_out, 1) + 1, err.text);
    } else {
        unsigned long long left_out = atomic_exchange(&metrics->left_out, 0);
        if (left_out > 0)
            gw_log(GW_WARN, "metrics", "%llu rows are missing in %s before step %llu", left_out,
                   metrics->file.path, (unsigned long long)t->row.step);
        metrics->warn_ns = metrics->wait_ns = 0;
    }
    atomic_fetch_sub(&metrics->waiting, 1);
    free(t);
}

void gw_metrics_add(gw_metrics *metrics, const gw_metrics_row *row) {
    if (metrics == NULL) return;
    if (atomic_load(&metrics->waiting) >= WAITING_MOST) {
        atomic_fetch_add(&metrics->left_out, 1);
        return;
    }
    size_t length = strlen(row->report) + 1;
    task *t = malloc(sizeof *t + length);
    GW_ASSERT_MEMORY(t != NULL);
    t->metrics = metrics;
    t->row = *row;
    memcpy(t->report, row->report, length);
    t->row.report = t->report;
    atomic_fetch_add(&metrics->waiting, 1);
    gw_helper_give(metrics->helper, write_row, t);
}
