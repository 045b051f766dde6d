/* The file of --metrics has its rows in order, and none twice, however the process ended that wrote it. */
#include "core/base/log.h"
#include "scratch.h"
#include "tools/godwit/metrics/metrics.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEXT = 20000 };

#define JOB         "0123abcd"
#define PATIENCE_NS UINT64_C(120000000000)

static int good_blocks = -1; /* bytes that can be read of a file; below 0 = all */
static atomic_int blocks;    /* bytes read of files so far */

static bool block_is_good(void) {
    atomic_fetch_add(&blocks, 1);
    if (good_blocks < 0 || good_blocks-- > 0) return true;
    good_blocks = 0;
    errno = EIO;
    return false;
}

static ssize_t read_block(void *file, char *bytes, size_t room) {
    return block_is_good() ? (ssize_t)fread(bytes, 1, room, file) : -1;
}

static int close_file(void *file) {
    return fclose(file);
}

/* These two functions replace the C library's. */
ssize_t pread(int fd, void *bytes, size_t room, off_t at) {
    return block_is_good() ? syscall(SYS_pread64, fd, bytes, room, at) : -1;
}

FILE *fopen(const char *path, const char *mode) {
    static FILE *(*real)(const char *, const char *);
    if (real == NULL) real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    FILE *file = real(path, mode);
    if (file == NULL || mode[0] != 'r') return file;
    return fopencookie(file, mode, (cookie_io_functions_t){.read = read_block, .close = close_file});
}

TestSuite(metrics, .init = scratch_open, .fini = scratch_close);

static gw_metrics_file open_file(const char *name, bool fresh) {
    gw_metrics_file file;
    gw_err err;
    cr_assert(gw_metrics_file_open(scratch_path(name), JOB, 0, fresh, &file, &err), "%s", err.text);
    return file;
}

static gw_metrics_row row(uint64_t step, const char *report) {
    return (gw_metrics_row){
        .step = step, .phase = "train", .time = 1.5, .ms = 2.25, .members = 3, .shards = 4, .report = report};
}

static void add(gw_metrics_file *file, uint64_t step, const char *report) {
    gw_metrics_row one = row(step, report);
    gw_err err;
    cr_assert(gw_metrics_file_add(file, &one, &err), "%s", err.text);
}

static const char *content(const char *name) {
    static char text[TEXT];
    FILE *in = fopen(scratch_path(name), "r");
    cr_assert_not_null(in);
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    return text;
}

static void write_text(const char *name, const char *text) {
    FILE *out = fopen(scratch_path(name), "w");
    cr_assert(fputs(text, out) >= 0 && fclose(out) == 0);
}

#define HEADER    "step,job,phase,time,ms,members,shards"
#define ROW(step) #step ",j" JOB ",train,1.500,2.250,3,4"

Test(metrics, a_row_a_step_and_a_column_a_key) {
    gw_metrics_file file = open_file("a.csv", false);
    add(&file, 1, "loss=0.5 lr=1e-3");
    add(&file, 2, "loss=0.25 lr=2e-3 phase=x word");
    cr_assert_str_eq(content("a.csv"), HEADER ",loss,lr\n" ROW(1) ",0.5,1e-3\n" ROW(2) ",0.25,2e-3\n");
    add(&file, 3, "val_loss=0.3 note=a,\"b\"");
    add(&file, 4, "");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.csv"),
                     HEADER ",loss,lr,val_loss,note\n" ROW(1) ",0.5,1e-3,,\n" ROW(2) ",0.25,2e-3,,\n" ROW(
                         3) ",,,0.3,\"a,\"\"b\"\"\"\n" ROW(4) ",,,,\n");
    cr_assert_eq(access(scratch_path("a.csv.godwit-partial"), F_OK), -1);
}

Test(metrics, a_link_is_followed_when_a_column_is_added) {
    cr_assert_eq(symlink("target.csv", scratch_path("link.csv")), 0);
    gw_metrics_file file = open_file("link.csv", false);
    add(&file, 1, "loss=1");
    add(&file, 2, "more=2");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("target.csv"), HEADER ",loss,more\n" ROW(1) ",1,\n" ROW(2) ",,2\n");
}

/* The nanoseconds of a step, and no digits of a sum of binary fractions. */
Test(metrics, times_are_as_short_as_they_are_exact) {
    gw_metrics_file file = open_file("a.jsonl", false);
    gw_err err;
    const gw_metrics_row row = {.step = 1, .phase = "train", .ms = 0.916811 - 1.0 + 1.0, .report = ""};
    cr_assert(gw_metrics_file_add(&file, &row, &err), "%s", err.text);
    gw_metrics_file_close(&file);
    cr_expect_not_null(strstr(content("a.jsonl"), "\"ms\":0.916811,"), "%s", content("a.jsonl"));
}

Test(metrics, lines_of_json_have_the_same) {
    gw_metrics_file file = open_file("a.jsonl", false);
    add(&file, 7, "loss=0.5 note=a\"b");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.jsonl"), "{\"step\":7,\"job\":\"" JOB
                                         "\",\"phase\":\"train\",\"time\":1.5,\"ms\":2.25,\"members\":3,"
                                         "\"shards\":4,\"loss\":0.5,\"note\":\"a\\\"b\"}\n");
}

/* A life ended at step 5, in the middle of a row; the next one resumes from step 2. */
static void resume(const char *name) {
    gw_metrics_file file = open_file(name, false);
    for (uint64_t step = 1; step <= 5; step++) add(&file, step, "loss=1");
    gw_metrics_file_close(&file);
    FILE *out = fopen(scratch_path(name), "a");
    cr_assert(fputs("6,0123ab", out) >= 0 && fclose(out) == 0);
    file = open_file(name, false);
    cr_assert_eq(file.last, 5);
    add(&file, 3, "loss=2 more=1");
    add(&file, 4, "loss=2");
    gw_metrics_file_close(&file);
}

Test(metrics, who_resumes_doubles_no_row) {
    resume("a.csv");
    cr_assert_str_eq(content("a.csv"),
                     HEADER ",loss,more\n" ROW(1) ",1,\n" ROW(2) ",1,\n" ROW(3) ",2,1\n" ROW(4) ",2,\n");
    resume("a.jsonl");
    const char *text = content("a.jsonl");
    int rows = 0;
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        char expected[32];
        snprintf(expected, sizeof expected, "{\"step\":%d,", ++rows);
        cr_assert_eq(strncmp(at, expected, strlen(expected)), 0, "%s", at);
    }
    cr_assert_eq(rows, 4);
}

Test(metrics, a_fresh_run_begins_the_file_anew) {
    gw_metrics_file file = open_file("a.csv", false);
    add(&file, 1, "loss=1");
    gw_metrics_file_close(&file);
    file = open_file("a.csv", true);
    add(&file, 1, "accuracy=2");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.csv"), HEADER ",accuracy\n" ROW(1) ",2\n");
}

/* The peer could not start: only the rows of the previous run are there. */
Test(metrics, a_fresh_run_that_writes_no_row_costs_none) {
    static const char text[] = HEADER ",loss\n" ROW(1) ",1\n" ROW(2) ",2\n3,0123";
    write_text("a.csv", text);
    for (int fresh = 0; fresh < 2; fresh++) {
        gw_metrics_file file = open_file("a.csv", fresh != 0);
        gw_metrics_file_close(&file);
        cr_assert_str_eq(content("a.csv"), text);
    }
}

static void refuse(const char *name, gw_code code, const char *words) {
    gw_metrics_file file;
    gw_err err;
    cr_assert_not(gw_metrics_file_open(scratch_path(name), JOB, 0, true, &file, &err));
    cr_assert_eq(err.code, code, "%s", err.text);
    cr_assert_not_null(strstr(err.text, words), "%s", err.text);
}

#define PARENT(step) #step ",jffffffff,train,1.500,2.250,3,4"

/* A job that goes on after step 2 of another one, which made 4, and its next life after its own step 4. */
Test(metrics, a_job_that_goes_on_has_the_rows_of_the_whole_way) {
    gw_metrics_file file;
    gw_err err;
    static const char whole[] =
        HEADER ",loss\n" PARENT(1) ",1\n" PARENT(2) ",2\n" PARENT(3) ",3\n" PARENT(4) ",4\n5,jff";
    write_text("a.csv", whole);
    write_text("a.ffffffff.csv", "of an earlier time\n");
    cr_assert(gw_metrics_file_open(scratch_path("a.csv"), JOB, 2, false, &file, &err), "%s", err.text);
    cr_assert_eq(file.last, 2);
    add(&file, 3, "loss=30");
    add(&file, 4, "loss=40");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.ffffffff-2.csv"), whole, "the rows that were cut off are not lost");
    static const char way[] =
        HEADER ",loss\n" PARENT(1) ",1\n" PARENT(2) ",2\n" ROW(3) ",30\n" ROW(4) ",40\n";
    cr_assert_str_eq(content("a.csv"), way);
    cr_assert(gw_metrics_file_open(scratch_path("a.csv"), JOB, 2, false, &file, &err), "%s", err.text);
    cr_assert_eq(file.last, 4);
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.csv"), way);
}

/* A job is run again whose file a job that went on from one of its states has written to. */
Test(metrics, a_job_that_is_gone_back_to_has_its_own_rows) {
    gw_metrics_file file;
    gw_err err;
    static const char both[] = HEADER ",loss\n" ROW(1) ",1\n" ROW(2) ",2\n" PARENT(3) ",3\n" PARENT(4) ",4\n";
    write_text("a.csv", both);
    cr_assert(gw_metrics_file_open(scratch_path("a.csv"), JOB, 0, false, &file, &err), "%s", err.text);
    cr_assert_eq(file.last, 2);
    cr_assert_str_eq(content("a.csv"), both, "nothing is cut off before there is a row");
    add(&file, 3, "loss=30");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.ffffffff.csv"), both, "the rows that were cut off are not lost");
    cr_assert_str_eq(content("a.csv"), HEADER ",loss\n" ROW(1) ",1\n" ROW(2) ",2\n" ROW(3) ",30\n");
}

Test(metrics, what_is_somebody_elses_stays_as_it_is) {
    static const char *const texts[] = {"a line\n", HEADER "\na,b\n", "step,loss\n1,2\n",
                                        HEADER "\n1,ffffffff,train,1,2,3,4\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_text("a.csv", texts[i]);
        refuse("a.csv", GW_E_INVALID, i < 3 ? "no row of metrics at byte" : "rows of another job (ffffffff");
        if (i < 3) continue;
        /* A branch had put this job's rows aside. */
        write_text("a." JOB ".csv", HEADER "\n");
        refuse("a.csv", GW_E_INVALID, "as the one with this job's rows, ");
        refuse("a.csv", GW_E_INVALID, "a." JOB ".csv, or move this one away");
        cr_assert_str_eq(content("a.csv"), texts[i]);
    }
    write_text("a.jsonl", "{\"event\":1}\n");
    refuse("a.jsonl", GW_E_INVALID, "no row of metrics at byte 0");
    refuse("a.txt", GW_E_USAGE, "neither .csv nor .jsonl");
    refuse("none/a.csv", GW_E_NOTFOUND, "cannot write");
    gw_metrics_file file = open_file("b.csv", false);
    refuse("b.csv", GW_E_DENIED, "another process writes to it");
    add(&file, 1, "a=1");
    add(&file, 2, "b=1"); /* a new file, which is locked too */
    refuse("b.csv", GW_E_DENIED, "another process writes to it");
    gw_metrics_file_close(&file);
}

/* A user has edited the file: nothing in it is lost because of that. */
Test(metrics, a_row_that_cannot_take_its_place_changes_nothing) {
    gw_metrics_file file = open_file("a.csv", false);
    for (uint64_t step = 1; step <= 3; step++) add(&file, step, "note=a\nb");
    const char *text = content("a.csv"), *second = strstr(text, "\n2,") + 1;
    cr_assert_eq(pwrite(file.fd, "x", 1, second - text), 1);
    gw_metrics_row row2 = row(2, "note=a");
    gw_err err;
    cr_assert_not(gw_metrics_file_add(&file, &row2, &err));
    char expected[100];
    snprintf(expected, sizeof expected, "no row of metrics at byte %d", (int)(second - text));
    cr_assert_not_null(strstr(err.text, expected), "%s", err.text);
    add(&file, 4, "note=c");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(
        content("a.csv"), HEADER
        ",note\n" ROW(1) ",a b\nx,j0123abcd,train,1.500,2.250,3,4,a b\n" ROW(3) ",a b\n" ROW(4) ",c\n");
}

/* Imitates a full disk: from here on no file may grow beyond so many bytes. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(metrics, a_full_disk_leaves_whole_rows) {
    /* a write to the file; a write to a wider one */
    static const char *const reports[] = {"loss=1", "loss=2 key=1"};
    for (int i = 0; i < 2; i++) {
        gw_metrics_file file = open_file("a.csv", true);
        gw_err err;
        add(&file, 1, "loss=1");
        limit_files(file.end + 2);
        gw_metrics_row second = row(2, reports[i]);
        cr_assert_not(gw_metrics_file_add(&file, &second, &err));
        cr_assert_eq(err.code, GW_E_IO);
        cr_assert_str_eq(content("a.csv"), HEADER ",loss\n" ROW(1) ",1\n");
        limit_files(RLIM_INFINITY);
        add(&file, 3, reports[i]);
        gw_metrics_file_close(&file);
        cr_assert_str_eq(content("a.csv"), i == 0 ? HEADER ",loss\n" ROW(1) ",1\n" ROW(3) ",1\n"
                                                  : HEADER ",loss,key\n" ROW(1) ",1,\n" ROW(3) ",2,1\n");
    }
}

Test(metrics, what_cannot_be_read_is_not_lost) {
    enum { ROWS = 300 };
    char before[TEXT];
    gw_err err;
    gw_metrics_file file = open_file("a.csv", false);
    for (uint64_t step = 1; step <= ROWS; step++) add(&file, step, "loss=1");
    strcpy(before, content("a.csv"));
    /* a wider file; a shorter one */
    gw_metrics_row rows[] = {row(ROWS + 1, "key=1"), row(ROWS - 1, "loss=1")};
    for (int i = 0; i < 2; i++) {
        good_blocks = 1;
        cr_assert_not(gw_metrics_file_add(&file, &rows[i], &err));
        cr_assert_not_null(strstr(err.text, "cannot read"), "%s", err.text);
        good_blocks = -1;
        cr_assert_str_eq(content("a.csv"), before);
    }
    gw_metrics_file_close(&file);
    good_blocks = 1;
    cr_assert_not(gw_metrics_file_open(scratch_path("a.csv"), JOB, 0, false, &file, &err));
    cr_assert_eq(err.code, GW_E_IO);
    good_blocks = -1;
    file = open_file("a.csv", false);
    add(&file, ROWS + 1, "loss=1");
    gw_metrics_file_close(&file);
    cr_assert_eq(strlen(content("a.csv")), strlen(before) + strlen(ROW(301) ",1\n"));
}

static atomic_int warnings;
static char said[600];

static void sink(void *context, gw_level level, const char *room, const char *text) {
    (void)context;
    cr_assert_str_eq(room, "metrics");
    snprintf(said, sizeof said, "%s", text);
    atomic_fetch_add(&warnings, level == GW_WARN);
}

/* Log rotation copies the file and empties it: the next row does not go to its old end. */
Test(metrics, a_file_that_is_emptied_begins_anew) {
    static const char *const names[] = {"a.csv", "a.jsonl"};
    gw_log_set_sink(sink, NULL);
    for (int i = 0; i < 2; i++) {
        gw_metrics_file file = open_file(names[i], false);
        add(&file, 1, "loss=1");
        add(&file, 2, "loss=1");
        cr_assert_eq(truncate(scratch_path(names[i]), 0), 0);
        add(&file, 3, "accuracy=2");
        add(&file, 4, "accuracy=2");
        gw_metrics_file_close(&file);
        cr_assert_eq(atomic_load(&warnings), i + 1);
        cr_assert_not_null(strstr(said, "was shortened by another process"), "%s", said);
        file = open_file(names[i], false);
        cr_assert_eq(file.last, 4);
        gw_metrics_file_close(&file);
    }
    cr_assert_str_eq(content("a.csv"), HEADER ",accuracy\n" ROW(3) ",2\n" ROW(4) ",2\n");
    cr_assert_eq(strncmp(content("a.jsonl"), "{\"step\":3,", 10), 0);
}

/* Log rotation moves the file away, with a new file in its place and without. */
Test(metrics, a_file_that_is_moved_away_is_followed_by_another) {
    gw_log_set_sink(NULL, NULL);
    for (int made = 0; made < 2; made++) {
        gw_metrics_file file = open_file("a.csv", true);
        add(&file, 1, "loss=1");
        add(&file, 2, "loss=1");
        cr_assert_eq(rename(scratch_path("a.csv"), scratch_path("a.csv.1")), 0);
        if (made) write_text("a.csv", "");
        add(&file, 3, "loss=1");
        refuse("a.csv", GW_E_DENIED, "another process writes to it");
        add(&file, 4, "more=1");
        gw_metrics_file_close(&file);
        cr_assert_str_eq(content("a.csv.1"), HEADER ",loss\n" ROW(1) ",1\n" ROW(2) ",1\n");
        cr_assert_str_eq(content("a.csv"), HEADER ",loss,more\n" ROW(3) ",1,\n" ROW(4) ",,1\n");
    }
}

/* The file in its place belongs to another program: rows are missing until that is gone. */
Test(metrics, a_file_in_the_place_of_ours_is_left_alone) {
    gw_metrics_file file = open_file("a.csv", false);
    gw_metrics_row second = row(2, "loss=1");
    gw_err err;
    add(&file, 1, "loss=1");
    cr_assert_eq(unlink(scratch_path("a.csv")), 0);
    write_text("a.csv", "a line\n");
    cr_assert_not(gw_metrics_file_add(&file, &second, &err));
    cr_assert_str_eq(content("a.csv"), "a line\n");
    cr_assert_eq(unlink(scratch_path("a.csv")), 0);
    add(&file, 3, "loss=1");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.csv"), HEADER ",loss\n" ROW(3) ",1\n");
}

/* The file looks like one to which a program went on writing at its old end. */
Test(metrics, a_file_that_begins_with_zeros_is_put_aside) {
    static const char cut[] = "\0\0\0\0" ROW(3) ",1\n";
    char kept[sizeof cut];
    gw_log_set_sink(sink, NULL);
    scratch_write("target.csv", cut, sizeof cut - 1);
    cr_assert_eq(symlink("target.csv", scratch_path("a.csv")), 0);
    gw_metrics_file file = open_file("a.csv", false);
    cr_assert_not_null(strstr(said, "target.csv.cut, and a new file is begun"), "%s", said);
    add(&file, 4, "loss=1");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("target.csv"), HEADER ",loss\n" ROW(4) ",1\n");
    FILE *in = fopen(scratch_path("target.csv.cut"), "r");
    cr_assert_not_null(in);
    cr_assert_eq(fread(kept, 1, sizeof kept, in), sizeof cut - 1);
    cr_assert_eq(memcmp(kept, cut, sizeof cut - 1), 0);
    fclose(in);
    scratch_write("target.csv", cut, sizeof cut - 1);
    refuse("a.csv", GW_E_INVALID, "begins with zeros, and");
}

/* The end of the file is all that a resumption needs. */
Test(metrics, a_large_file_is_not_read_from_its_beginning) {
    enum { ROWS = 20000 };
    gw_metrics_file file = open_file("a.csv", false);
    for (uint64_t step = 1; step <= ROWS; step++) add(&file, step, "loss=1");
    uint64_t end = file.end;
    gw_metrics_file_close(&file);
    atomic_store(&blocks, 0);
    file = open_file("a.csv", false);
    add(&file, ROWS - 1, "loss=1");
    cr_assert_lt(atomic_load(&blocks), 30);
    cr_assert_eq(file.last, ROWS - 1);
    cr_assert_eq(file.end, end - strlen(ROW(20000) ",1\n"));
    gw_metrics_file_close(&file);
}

static const gw_tensorboard_run job = {.job = JOB, .peer = "", .configuration = ""};

Test(metrics, a_full_disk_is_told_at_once_and_in_the_end_and_ends_nothing) {
    gw_err err;
    gw_log_set_sink(sink, NULL);
    for (int life = 0; life < 2; life++) {
        gw_metrics *metrics = gw_metrics_open(scratch_path("a.csv"), NULL, &err);
        cr_assert(metrics != NULL && gw_metrics_begin(metrics, &job, &err), "%s", err.text);
        limit_files(life == 0 ? 10 : RLIM_INFINITY);
        for (uint64_t step = 1; step <= 20; step++) {
            gw_metrics_row one = row(step, "loss=1");
            gw_metrics_add(metrics, &one);
        }
        cr_assert(gw_metrics_close(metrics, PATIENCE_NS));
        cr_assert_eq(atomic_load(&warnings), 2, "at once, and how many there were in the end");
        cr_assert_not_null(strstr(said, "the last 20 rows are missing in "), "%s", said);
        cr_assert_eq(access(scratch_path("a.csv"), F_OK) == 0, life == 1, "an empty file does not stay");
        cr_assert(life == 0 || strlen(content("a.csv")) > 0);
    }
    cr_assert_null(gw_metrics_open(scratch_path("no/a.csv"), NULL, &err));
    cr_assert_not_null(strstr(err.text, "--metrics: cannot write"), "%s", err.text);
    gw_metrics_add(NULL, NULL); /* a run without --metrics */
}

/* The file of a peer that came later would look like that of a job that began there. A job that goes on from
 * another one's state begins with the step after that. */
Test(metrics, rows_that_nobody_remembers_are_told_also_before_the_first_one) {
    gw_err err;
    gw_log_set_sink(sink, NULL);
    for (uint64_t first = 0; first <= 386; first += 386) {
        char name[20];
        snprintf(name, sizeof name, "from%d.csv", (int)first);
        gw_tensorboard_run later = job;
        later.first_step = first;
        gw_metrics *metrics = gw_metrics_open(scratch_path(name), NULL, &err);
        cr_assert(metrics != NULL && gw_metrics_begin(metrics, &later, &err), "%s", err.text);
        said[0] = '\0';
        gw_metrics_row one = row(387, "loss=1");
        gw_metrics_add(metrics, &one);
        cr_assert(gw_metrics_close(metrics, PATIENCE_NS));
        if (first == 0)
            cr_expect_not_null(strstr(said, "from0.csv has no rows of the steps 1 to 386: "), "%s", said);
        else
            cr_expect_str_empty(said);
    }
    cr_expect_eq(atomic_load(&warnings), 0);
}

/* "12e45678" would be a number to whoever reads the column. A file of an older build, without the mark,
 * goes on. */
Test(metrics, the_jobs_id_is_no_number_in_a_table) {
    write_text("a.csv", HEADER "\n1,0123abcd,train,1.500,2.250,3,4\n");
    gw_metrics_file file = open_file("a.csv", false);
    add(&file, 2, "");
    gw_metrics_file_close(&file);
    cr_assert_str_eq(content("a.csv"), HEADER "\n1,0123abcd,train,1.500,2.250,3,4\n" ROW(2) "\n");
}
