/* The job log: what is written is read again, as are GNU parallel's own logs. */
#include "tests/scratch.h"
#include "tools/godwit/map/job_log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(job_log, .init = scratch_open, .fini = scratch_close);

#define TITLE "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"

static void write_line(const char *path, bool fresh, uint64_t task, int code, int signal,
                       const char *command) {
    gw_map_log log;
    gw_err err;
    cr_assert(gw_map_log_open(&log, path, fresh, &err), "%s", err.text);
    const gw_map_log_line line = {.task = task,
                                  .begun_wall_ns = UINT64_C(1796016399966000000),
                                  .wall_us = 1234567,
                                  .bytes = 9,
                                  .exit_code = code,
                                  .signal = signal,
                                  .command = command};
    cr_assert(gw_map_log_write(&log, &line, &err), "%s", err.text);
    cr_assert(gw_map_log_close(&log, &err), "%s", err.text);
}

static gw_map_log_tasks read_log(const char *path, bool commands) {
    gw_map_log_tasks tasks;
    gw_err err;
    cr_assert(gw_map_log_read(path, commands, &tasks, &err), "%s", err.text);
    return tasks;
}

Test(job_log, lines_have_parallels_columns) {
    const char *path = scratch_path("log");
    char text[300] = "";
    write_line(path, false, 3, -1, 15, "echo a\nb");
    FILE *file = fopen(path, "r");
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    static const char expected[] = TITLE "3\t:\t1796016399.966\t     1.235\t0\t9\t-1\t15\techo a\0b\n";
    cr_assert_eq(length, sizeof expected - 1);
    cr_assert_arr_eq(text, expected, length);
}

Test(job_log, the_last_line_of_a_task_counts) {
    const char *path = scratch_path("log");
    write_line(path, false, 1, 0, 0, "one");
    write_line(path, false, 2, 1, 0, "two\nlines");
    write_line(path, false, 5, 0, 9, "five");
    write_line(path, false, 7, 2, 0, "seven");
    write_line(path, false, 7, 0, 0, "seven");
    gw_map_log_tasks tasks = read_log(path, true);
    cr_assert_eq(tasks.count, 8);
    cr_assert_eq(tasks.state[1], GW_MAP_LOG_DONE);
    cr_assert_eq(tasks.state[2], GW_MAP_LOG_FAILED);
    cr_assert_eq(tasks.state[3], GW_MAP_LOG_NOTHING);
    cr_assert_eq(tasks.state[5], GW_MAP_LOG_FAILED);
    cr_assert_eq(tasks.state[7], GW_MAP_LOG_DONE);
    cr_assert_str_eq(tasks.commands[2], "two\nlines");
    cr_assert_null(tasks.commands[7]);
    gw_map_log_tasks_free(&tasks);
    write_line(path, true, 9, 0, 0, "anew");
    tasks = read_log(path, false);
    cr_assert(tasks.count == 10 && tasks.state[1] == GW_MAP_LOG_NOTHING && tasks.commands == NULL);
    gw_map_log_tasks_free(&tasks);
}

/* A full disk or a killed map may leave a part of a line; it is ended, and passed over. */
Test(job_log, what_is_not_whole_is_passed_over) {
    const char *path = scratch_write_text("log", TITLE "1\t:\t1.000\t     0.000\t0\t0\t0\t0\tone\n2\t:\t1.0");
    gw_map_log_tasks tasks = read_log(path, false);
    cr_assert_eq(tasks.count, 2);
    gw_map_log_tasks_free(&tasks);
    write_line(path, false, 3, 0, 0, "three");
    tasks = read_log(path, true);
    cr_assert_eq(tasks.count, 4);
    cr_assert_eq(tasks.state[2], GW_MAP_LOG_NOTHING);
    cr_assert_eq(tasks.state[3], GW_MAP_LOG_DONE);
    gw_map_log_tasks_free(&tasks);
}

Test(job_log, a_file_that_is_no_job_log_is_refused) {
    gw_map_log_tasks tasks;
    gw_err err;
    cr_assert_not(gw_map_log_read(scratch_write_text("text", "dear diary\n"), false, &tasks, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert(gw_map_log_read(scratch_path("nothing"), false, &tasks, &err));
    cr_assert_eq(tasks.count, 0);
    cr_assert(gw_map_log_read(scratch_write_text("huge", TITLE "99999999999\t:\t1\t1\t0\t0\t0\t0\tx\nx\n\n"),
                              false, &tasks, &err));
    cr_assert_eq(tasks.count, 0, "no task has such a number");
    gw_map_log_tasks_free(&tasks);
}
