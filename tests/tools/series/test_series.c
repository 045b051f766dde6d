/* The series of a run go on after a restart, and a file that cannot be used is set aside. */
#include "core/base/log.h"
#include "core/os/clock.h"
#include "scratch.h"
#include "tools/godwit/series/series.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(series, .init = scratch_open, .fini = scratch_close);

static const gw_hash job = {{1, 2, 3}}, other_job = {{4}};
static char logged[2000];

static void note(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)level, (void)room;
    snprintf(logged, sizeof logged, "%s", text);
}

static gw_series *open_series(const gw_hash *of, bool fresh) {
    gw_err err;
    const gw_series_place place = {.io = gw_io_system(), .dir = scratch_folder(), .job = *of, .fresh = fresh};
    gw_log_set_sink(note, NULL);
    logged[0] = '\0';
    gw_series *series = gw_series_open(&place, &err);
    cr_assert(series != NULL, "%s", err.text);
    return series;
}

static void add(gw_series *series, uint64_t step, const char *phase, const char *report) {
    gw_series_add(series, &(gw_metrics_row){.step = step,
                                            .phase = phase,
                                            .ms = 2,
                                            .members = 3,
                                            .shards = 120,
                                            .tokens_per_s = step > 1 ? 500000 : 0,
                                            .report = report});
}

static void add_steps(gw_series *series, uint64_t from, uint64_t to) {
    char report[100];
    for (uint64_t step = from; step <= to; step++) {
        snprintf(report, sizeof report, "loss=%.9g tokens=%llu note=x", 1.0 / (double)step,
                 (unsigned long long)(step * 1000));
        add(series, step, "train", report);
    }
}

/* Returns the number of a series, or UINT32_MAX. */
static uint32_t find(gw_series *series, const char *name) {
    gw_series_about about;
    gw_series_list(series, &about);
    for (uint32_t i = 0; i < about.count; i++)
        if (strcmp(about.name[i], name) == 0) return i;
    return UINT32_MAX;
}

/* The number of values that a series has, and its last one. */
static uint64_t values(gw_series *series, const char *name, double *last) {
    static gw_series_point points[GW_LEVELS_POINTS];
    uint32_t number = find(series, name);
    if (number == UINT32_MAX) return 0;
    uint32_t count = gw_series_read(series, number, 0, UINT64_MAX, GW_LEVELS_POINTS, points);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += points[i].count;
    if (last != NULL && count > 0) *last = points[count - 1].last;
    return sum;
}

Test(series, numbers_have_the_names_of_where_they_are_from) {
    gw_series *series = open_series(&job, false);
    double last;
    add_steps(series, 1, 10);
    add(series, 11, "evaluate", "loss=0.5");
    cr_assert_eq(values(series, "train/loss", &last), 10);
    cr_assert_eq(last, 0.1);
    cr_assert_eq(values(series, "evaluate/loss", &last), 1);
    cr_assert_eq(last, 0.5);
    cr_assert_eq(values(series, "run/ms", &last), 11);
    cr_assert_eq(values(series, "run/members", &last), 11);
    cr_assert_eq(last, 3);
    cr_assert_eq(values(series, "run/shards_per_s", &last), 11);
    cr_assert_eq(last, 60000);
    cr_assert_eq(values(series, "run/tokens_per_s", &last), 10, "no rate was known at first");
    cr_assert_eq(last, 500000);
    cr_assert_eq(find(series, "train/note"), UINT32_MAX);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
}

Test(series, a_restart_goes_on_and_steps_that_are_made_again_replace_the_old_ones) {
    gw_series *series = open_series(&job, false);
    double last;
    gw_series_about about;
    add_steps(series, 1, 3000);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    series = open_series(&job, false);
    gw_series_list(series, &about);
    cr_assert_eq(about.last, 3000);
    cr_assert_eq(values(series, "train/loss", &last), 3000);
    uint64_t cuts = about.cuts;
    add_steps(series, 2900, 2950);
    cr_assert_eq(values(series, "train/loss", &last), 2950);
    cr_assert_float_eq(last, 1.0 / 2950, 1e-8);
    gw_series_list(series, &about);
    cr_assert(about.cuts == cuts + 1 && about.last == 2950);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    cr_assert_str_empty(logged);
}

Test(series, of_another_job_they_begin_anew) {
    gw_series *series = open_series(&job, false);
    add_steps(series, 1, 10);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    series = open_series(&other_job, false);
    cr_assert_eq(values(series, "train/loss", NULL), 0);
    cr_assert_str_empty(logged, "%s", logged);
    add_steps(series, 1, 5);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    series = open_series(&other_job, false);
    cr_assert_eq(values(series, "train/loss", NULL), 5);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    series = open_series(&other_job, true); /* --fresh */
    cr_assert_eq(values(series, "train/loss", NULL), 0);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
}

static void damage(long at, char by) {
    FILE *file = fopen(scratch_path("series"), "r+");
    cr_assert(file != NULL && fseek(file, at, SEEK_SET) == 0);
    char was = (char)fgetc(file);
    cr_assert(fseek(file, at, SEEK_SET) == 0 && fputc(was ^ by, file) != EOF && fclose(file) == 0);
}

Test(series, a_damaged_file_is_told_and_set_aside) {
    static const long places[] = {0, 8 /* the version */, 20, 300};
    for (uint32_t i = 0; i < 4; i++) {
        gw_series *series = open_series(&job, true);
        add_steps(series, 1, 100);
        cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
        damage(places[i], 64);
        unlink(scratch_path("series.damaged"));
        series = open_series(&job, false);
        cr_assert(strstr(logged, "cannot be used") != NULL && strstr(logged, "series.damaged") != NULL, "%s",
                  logged);
        cr_assert_eq(access(scratch_path("series.damaged"), F_OK), 0);
        cr_assert_eq(values(series, "train/loss", NULL), 0);
        add_steps(series, 1, 7);
        cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
        series = open_series(&job, false);
        cr_assert_eq(values(series, "train/loss", NULL), 7);
        cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    }
}

Test(series, a_file_that_is_cut_off_is_set_aside) {
    gw_series *series = open_series(&job, false);
    add_steps(series, 1, 100);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    cr_assert_eq(truncate(scratch_path("series"), 500), 0);
    series = open_series(&job, false);
    cr_assert_eq(values(series, "train/loss", NULL), 0);
    cr_assert_eq(access(scratch_path("series.damaged"), F_OK), 0);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    cr_assert_eq(access(scratch_path("series"), F_OK), -1, "without news nothing is written");
}

/* Asking for the file has it written, though nothing else wakes the thread. */
Test(series, the_file_is_there_after_a_checkpoint, .timeout = 60) {
    gw_series *series = open_series(&job, false);
    add_steps(series, 1, 100);
    gw_series_save(series);
    while (access(scratch_path("series"), F_OK) != 0) usleep(1000);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
}

Test(series, a_disk_that_fails_is_told_and_tried_again) {
    gw_series *series = open_series(&job, false);
    add_steps(series, 1, 10);
    scratch_make_folder("series"); /* no file can take its place */
    scratch_write_text("series/full", "");
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    cr_assert(strstr(logged, "the curves cannot be written") != NULL, "%s", logged);
}

/* A disk that does not answer, until it is told to. */
static atomic_bool disk_hangs;
static gw_io hanging;

static int open_late(gw_io *io, const char *path, int flags, mode_t mode) {
    (void)io;
    while (atomic_load(&disk_hangs)) usleep(1000);
    return gw_io_system()->open(gw_io_system(), path, flags, mode);
}

Test(series, a_disk_that_hangs_does_not_hold_up_the_end, .timeout = 60) {
    hanging = *gw_io_system();
    hanging.open = open_late;
    gw_err err;
    const gw_series_place place = {.io = &hanging, .dir = scratch_folder(), .job = job};
    gw_log_set_sink(note, NULL);
    gw_series *series = gw_series_open(&place, &err);
    cr_assert_not_null(series, "%s", err.text);
    add_steps(series, 1, 10);
    atomic_store(&disk_hangs, true);
    cr_assert_not(gw_series_close(series, 50000000));
    cr_assert_not_null(strstr(logged, "has not answered"), "%s", logged);
    atomic_store(&disk_hangs, false);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
    cr_assert_eq(access(scratch_path("series"), F_OK), 0);
}

Test(series, more_numbers_than_there_is_room_for_are_left_out) {
    gw_series *series = open_series(&job, false);
    gw_series_about about;
    char report[100];
    for (uint64_t step = 1; step <= 100; step++) {
        snprintf(report, sizeof report, "key%llu=1", (unsigned long long)step);
        add(series, step, "train", report);
    }
    gw_series_list(series, &about);
    cr_assert_eq(about.count, GW_SERIES_MOST);
    cr_assert(strstr(logged, "are left out") != NULL, "%s", logged);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
}

/* Readers and the thread of the steps are in nobody's way: all steps are there in the end. */
static atomic_bool over;

static void *read_on(void *context) {
    while (!atomic_load(&over)) values(context, "run/ms", NULL);
    return NULL;
}

Test(series, steps_are_added_while_others_read) {
    gw_series *series = open_series(&job, false);
    pthread_t readers[2];
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&readers[i], NULL, read_on, series), 0);
    uint64_t begin = gw_now_ns();
    add_steps(series, 1, 50000);
    cr_log_info("%.0f ns a step", (double)(gw_now_ns() - begin) / 50000);
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) pthread_join(readers[i], NULL);
    cr_assert_eq(values(series, "run/ms", NULL), 50000);
    cr_assert(gw_series_close(series, UINT64_C(1000000000000000)));
}
