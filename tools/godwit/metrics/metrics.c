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

/* Steps of one phase for TensorBoard: of a fast job the first FIRST ones, and RATE a second. */
enum { FIRST = 1000, RATE = 10 };

/* How many rows may be written now: a bucket of FIRST that fills again at RATE. */
typedef struct allowance {
    double rows;
    uint64_t since_ns; /* when `rows` was right; 0 = no row has come yet */
} allowance;

/* Rows that cannot be written to one of the places. Used by the helper's thread, but for `left_out`. */
typedef struct losses {
    atomic_ullong left_out; /* rows left out since the last row that was written */
    uint64_t warn_ns;       /* when the next warning is due */
    uint64_t wait_ns;       /* from the last warning to it */
} losses;

struct gw_metrics {
    gw_metrics_file file;        /* used by the helper's thread only; path NULL = none */
    gw_tensorboard *tensorboard; /* likewise; NULL = none */
    gw_helper *helper;
    atomic_uint waiting;
    losses file_losses, event_losses;
    uint64_t last;       /* step of the last row that was there at the beginning; 0: none */
    uint64_t first_step; /* the job goes on from this step; 0: it begins itself */

    /* Used by the thread that adds rows. */
    allowance trains, evaluates;
    struct task *skipped; /* the last row, if TensorBoard did not get it; NULL = it did */
};

typedef struct task {
    gw_metrics *metrics;
    bool to_file, to_tensorboard;
    gw_metrics_row row; /* row.report points to `report` */
    char report[];
} task;

static void tell_losses(losses *of, const char *where) {
    unsigned long long left_out = atomic_load(&of->left_out);
    if (left_out > 0)
        gw_log(GW_WARN, "metrics", "the last %llu rows are missing in %s, which could not be written",
               left_out, where);
}

/* The last task: to close a file may wait for the disk too. */
static void close_all(void *context) {
    gw_metrics *metrics = context;
    if (metrics->file.path != NULL) {
        tell_losses(&metrics->file_losses, metrics->file.path);
        gw_metrics_file_close(&metrics->file);
    }
    tell_losses(&metrics->event_losses, "the events for TensorBoard");
    gw_tensorboard_close(metrics->tensorboard);
}

gw_metrics *gw_metrics_open(const char *file, const char *tensorboard, gw_err *err) {
    gw_metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    metrics->file.fd = -1;
    bool good =
        file == NULL || gw_metrics_file_hold(file, &metrics->file, err) || gw_fail_in(err, "--metrics");
    if (good && tensorboard != NULL) {
        metrics->tensorboard = gw_tensorboard_open(tensorboard, err);
        good = metrics->tensorboard != NULL || gw_fail_in(err, "--tensorboard");
    }
    if (good) metrics->helper = gw_helper_open("gw-metrics", err);
    if (metrics->helper != NULL) return metrics;
    close_all(metrics);
    free(metrics);
    return NULL;
}

bool gw_metrics_begin(gw_metrics *metrics, const gw_tensorboard_run *run, gw_err *err) {
    metrics->first_step = run->first_step;
    metrics->last = UINT64_MAX;
    if (metrics->file.path != NULL) {
        if (!gw_metrics_file_begin(&metrics->file, run->job, run->first_step, run->fresh, err))
            return gw_fail_in(err, "--metrics");
        metrics->last = metrics->file.last;
    }
    if (metrics->tensorboard != NULL) {
        if (!gw_tensorboard_begin(metrics->tensorboard, run, err)) return gw_fail_in(err, "--tensorboard");
        uint64_t last = gw_tensorboard_last(metrics->tensorboard);
        if (last < metrics->last) metrics->last = last;
    }
    return true;
}

uint64_t gw_metrics_last(const gw_metrics *metrics) {
    return metrics->last;
}

/* Warns at once, and again after one minute, two and so on, at last every ten. */
static void warn_of_loss(losses *of, const char *why) {
    const uint64_t minute_ns = UINT64_C(60000000000), now = gw_now_ns();
    unsigned long long rows = atomic_fetch_add(&of->left_out, 1) + 1;
    if (now < of->warn_ns) return;
    of->wait_ns = of->wait_ns == 0              ? minute_ns
                  : of->wait_ns > 5 * minute_ns ? 10 * minute_ns
                                                : 2 * of->wait_ns;
    of->warn_ns = now + of->wait_ns;
    gw_log(GW_WARN, "metrics", "%s; the job goes on, and rows are missing: %llu so far", why, rows);
}

static void note_written(losses *of, const char *where, uint64_t step) {
    unsigned long long left_out = atomic_exchange(&of->left_out, 0);
    if (left_out > 0)
        gw_log(GW_WARN, "metrics", "%llu rows are missing in %s before step %" PRIu64, left_out, where, step);
    of->warn_ns = of->wait_ns = 0;
}

static void write_to_file(gw_metrics *metrics, const gw_metrics_row *row) {
    gw_err err;
    losses *of = &metrics->file_losses;
    uint64_t last = metrics->file.last > metrics->first_step ? metrics->file.last : metrics->first_step;
    if (row->step > last + 1 && atomic_load(&of->left_out) == 0)
        gw_log(GW_INFO, "metrics",
               "%s has no rows of the steps %" PRIu64 " to %" PRIu64
               ": they were not made while this peer wrote the file, and no other peer remembers them. The "
               "--metrics file of a peer that made them has them",
               metrics->file.path, last + 1, row->step - 1);
    if (gw_metrics_file_add(&metrics->file, row, &err))
        note_written(of, metrics->file.path, row->step);
    else
        warn_of_loss(of, err.text);
}

static void write_event(gw_metrics *metrics, const gw_metrics_row *row) {
    gw_err err;
    if (gw_tensorboard_add(metrics->tensorboard, row, &err))
        note_written(&metrics->event_losses, "the events for TensorBoard", row->step);
    else
        warn_of_loss(&metrics->event_losses, err.text);
}

static void write_row(void *context) {
    task *t = context;
    if (t->to_file) write_to_file(t->metrics, &t->row);
    if (t->to_tensorboard) write_event(t->metrics, &t->row);
    atomic_fetch_sub(&t->metrics->waiting, 1);
    free(t);
}

/* Takes one row of an allowance; false = there is none now. */
static bool take_one(allowance *of) {
    uint64_t now = gw_now_ns();
    of->rows = of->since_ns == 0 ? FIRST : of->rows + (double)(now - of->since_ns) * 1e-9 * RATE;
    if (of->rows > FIRST) of->rows = FIRST;
    of->since_ns = now;
    if (of->rows < 1) return false;
    of->rows -= 1;
    return true;
}

static task *copy_row(gw_metrics *metrics, const gw_metrics_row *row) {
    size_t length = strlen(row->report) + 1;
    task *t = malloc(sizeof *t + length);
    GW_ASSERT_MEMORY(t != NULL);
    *t = (task){.metrics = metrics, .row = *row};
    memcpy(t->report, row->report, length);
    t->row.report = t->report;
    return t;
}

static void give(gw_metrics *metrics, task *t) {
    atomic_fetch_add(&metrics->waiting, 1);
    gw_helper_give(metrics->helper, write_row, t);
}

void gw_metrics_add(gw_metrics *metrics, const gw_metrics_row *row) {
    if (metrics == NULL) return;
    bool to_file = metrics->file.path != NULL, to_tensorboard = metrics->tensorboard != NULL;
    if (atomic_load(&metrics->waiting) >= WAITING_MOST) {
        if (to_file) atomic_fetch_add(&metrics->file_losses.left_out, 1);
        if (to_tensorboard) atomic_fetch_add(&metrics->event_losses.left_out, 1);
        return;
    }
    free(metrics->skipped);
    metrics->skipped = NULL;
    if (to_tensorboard)
        to_tensorboard =
            take_one(strcmp(row->phase, "evaluate") == 0 ? &metrics->evaluates : &metrics->trains);
    if (metrics->tensorboard != NULL && !to_tensorboard) metrics->skipped = copy_row(metrics, row);
    if (!to_file && !to_tensorboard) return;
    task *t = copy_row(metrics, row);
    t->to_file = to_file;
    t->to_tensorboard = to_tensorboard;
    give(metrics, t);
}

bool gw_metrics_close(gw_metrics *metrics, uint64_t patience_ns) {
    if (metrics == NULL) return true;
    if (metrics->skipped != NULL) {
        metrics->skipped->to_tensorboard = true;
        give(metrics, metrics->skipped);
    }
    gw_helper_give(metrics->helper, close_all, metrics);
    if (!gw_helper_close_until(metrics->helper, gw_now_ns() + patience_ns)) {
        gw_log(
            GW_WARN, "metrics",
            "the disk of --metrics or --tensorboard has not answered for %.3g s: %u rows are missing there",
            (double)patience_ns * 1e-9, atomic_load(&metrics->waiting));
        return false;
    }
    free(metrics);
    return true;
}
