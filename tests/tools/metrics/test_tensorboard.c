/* Event files for TensorBoard: whoever reads them as TensorBoard does gets each step once, however the processes
 * ended that wrote them. (tests/tools/test_tensorboard.py has TensorBoard itself read them.) */
#include "core/base/log.h"
#include "scratch.h"
#include "tools/godwit/metrics/metrics.h"
#include "tools/godwit/metrics/records.h"
#include "tools/godwit/text/protobuf.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The clocks are the test's (tests/CMakeLists.txt). */
uint64_t __wrap_gw_now_ns(void), __wrap_gw_wall_ns(void);
static atomic_ullong now_ns = 1000000000, wall_s = 1796000000;

uint64_t __wrap_gw_now_ns(void) {
    return atomic_load(&now_ns);
}

uint64_t __wrap_gw_wall_ns(void) {
    return atomic_load(&wall_s) * 1000000000;
}

#define PATIENCE_NS (UINT64_C(1) << 60) /* the end of the wait is a time of the real clock */

/* A disk that does not answer: writes wait while this is above 0. */
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t at);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t at);
static atomic_bool disk_hangs, disk_is_asked;

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t at) {
    while (atomic_load(&disk_hangs)) {
        atomic_store(&disk_is_asked, true);
        sched_yield();
    }
    return __real_pwrite(fd, bytes, count, at);
}

static char said[2000];
static int warnings;

static void sink(void *context, gw_level level, const char *room, const char *text) {
    (void)context;
    (void)room;
    snprintf(said, sizeof said, "%s", text);
    warnings += level == GW_WARN;
}

static void open_suite(void) {
    scratch_open();
    gw_log_set_sink(sink, NULL);
}

TestSuite(tensorboard, .init = open_suite, .fini = scratch_close);

/* Checksums: the vectors of RFC 3720, B.4. */
Test(tensorboard, checksums_are_those_of_crc32c) {
    uint8_t bytes[32] = {0};
    cr_expect_eq(gw_crc32c(bytes, 0), 0);
    cr_expect_eq(gw_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    cr_expect_eq(gw_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (uint8_t i = 0; i < sizeof bytes; i++) bytes[i] = i;
    cr_expect_eq(gw_crc32c(bytes, sizeof bytes), 0x46dd794e);
}

/* What a reader shows: the values by step of one tag, after all files were read in the order of their names. */
enum { STEPS = 6000 };
typedef struct shown {
    const char *tag;
    uint32_t count[STEPS + 1]; /* points at each step */
    float value[STEPS + 1];
    uint32_t texts, files, starts;
    char text[4000]; /* the last one */
    bool damaged;
} shown;

static void show_value(shown *s, uint64_t step, gw_protobuf_reader value) {
    gw_protobuf_field f, inner;
    char tag[80] = "";
    float number = 0;
    bool text = false;
    while (gw_protobuf_next(&value, &f)) {
        if (f.number == 1) snprintf(tag, sizeof tag, "%.*s", (int)f.count, (const char *)f.bytes);
        if (f.number == 2) memcpy(&number, &(uint32_t){(uint32_t)f.value}, sizeof number);
        if (f.number != 8) continue;
        gw_protobuf_reader tensor = {.bytes = f.bytes, .count = f.count};
        while (gw_protobuf_next(&tensor, &inner))
            if (inner.number == 8)
                snprintf(s->text, sizeof s->text, "%.*s", (int)inner.count, (const char *)inner.bytes);
        text = true;
    }
    cr_assert_not(value.failed);
    s->texts += text;
    if (text || strcmp(tag, s->tag) != 0) return;
    cr_assert_leq(step, STEPS);
    s->count[step]++;
    s->value[step] = number;
}

static void show_event(shown *s, const uint8_t *bytes, size_t count) {
    gw_protobuf_reader event = {.bytes = bytes, .count = count};
    gw_protobuf_field f, value;
    uint64_t step = 0;
    while (gw_protobuf_next(&event, &f)) {
        if (f.number == 2) step = f.value;
        if (f.number == 3) cr_assert(f.count == 13 && memcmp(f.bytes, "brain.Event:2", 13) == 0);
        if (f.number == 7) {
            cr_assert(f.count == 2 && memcmp(f.bytes, "\x08\x01", 2) == 0);
            s->starts++;
            for (uint64_t i = step; i <= STEPS; i++) s->count[i] = 0;
        }
        if (f.number != 5) continue;
        gw_protobuf_reader summary = {.bytes = f.bytes, .count = f.count};
        while (gw_protobuf_next(&summary, &value)) {
            cr_assert(value.number == 1 && value.type == GW_PROTOBUF_BYTES);
            show_value(s, step, (gw_protobuf_reader){.bytes = value.bytes, .count = value.count});
        }
    }
    cr_assert_not(event.failed);
}

static int is_event_file(const struct dirent *entry) {
    return strstr(entry->d_name, "tfevents") != NULL;
}

static shown show(const char *run, const char *tag) {
    static shown s;
    struct dirent **names;
    char path[600];
    gw_err err;
    s = (shown){.tag = tag};
    int count = scandir(scratch_path(run), &names, is_event_file, alphasort);
    for (int i = 0; i < count; i++) {
        gw_records records;
        const uint8_t *bytes;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", scratch_path(run), names[i]->d_name);
        cr_assert(gw_records_open(path, &records, &err), "%s", err.text);
        while (gw_records_next(&records, &bytes, &size)) show_event(&s, bytes, size);
        s.damaged |= records.damaged;
        gw_records_close(&records);
        free(names[i]);
        s.files++;
    }
    if (count >= 0) free(names);
    return s;
}

#define RUN "events"

/* The points are those of the steps from 1 to `last`. */
static void expect_steps(const char *run, uint64_t last) {
    static shown s;
    s = show(run, "train/loss");
    for (uint64_t step = 1; step <= STEPS; step++)
        cr_expect_eq(s.count[step], step <= last, "step %" PRIu64 " has %u points", step, s.count[step]);
}

static const gw_tensorboard_run run = {
    .job = "0123abcd", .peer = "00ff00ff", .configuration = "job=gpt\nlr=1e-3\n"};

static gw_tensorboard *begin(const gw_tensorboard_run *of) {
    gw_err err;
    gw_tensorboard *board = gw_tensorboard_open(scratch_path("events"), &err);
    cr_assert(board != NULL && gw_tensorboard_begin(board, of, &err), "%s", err.text);
    return board;
}

static gw_metrics_row row(uint64_t step, const char *report) {
    return (gw_metrics_row){.step = step,
                            .phase = "train",
                            .time = 1.5,
                            .ms = 250,
                            .members = 3,
                            .shards = 4,
                            .tokens_per_s = 5,
                            .report = report};
}

static bool try_add(gw_tensorboard *board, uint64_t step, gw_err *err) {
    gw_metrics_row one = row(step, "loss=0.5 note=x digest=00000000000000001");
    return gw_tensorboard_add(board, &one, err);
}

static void add(gw_tensorboard *board, uint64_t first, uint64_t last) {
    gw_err err;
    for (uint64_t step = first; step <= last; step++) cr_assert(try_add(board, step, &err), "%s", err.text);
}

static float value_of(const char *tag, uint64_t step) {
    static shown s;
    s = show(RUN, tag);
    return s.count[step] == 1 ? s.value[step] : NAN;
}

Test(tensorboard, numbers_become_scalars_by_phase_and_the_configuration_a_text) {
    gw_err err;
    gw_tensorboard *board = begin(&run);
    cr_expect_eq(gw_tensorboard_last(board), 0);
    add(board, 1, 1);
    gw_metrics_row one = row(2, "loss=0.25 bad=nan worse=-inf");
    one.phase = "evaluate";
    cr_assert(gw_tensorboard_add(board, &one, &err));
    gw_tensorboard_close(board);
    cr_expect_eq(value_of("train/loss", 1), 0.5F);
    cr_expect_eq(value_of("eval/loss", 2), 0.25F);
    cr_expect(isnan(value_of("train/loss", 2)) && isnan(value_of("eval/loss", 1)));
    cr_expect(isnan(show(RUN, "eval/bad").value[2]) && show(RUN, "eval/bad").count[2] == 1);
    cr_expect_eq(value_of("eval/worse", 2), -INFINITY);
    cr_expect_eq(show(RUN, "train/note").count[1] + show(RUN, "train/digest").count[1], 0,
                 "they are no numbers");
    cr_expect_eq(value_of("perf/step_seconds", 1), 0.25F);
    cr_expect_eq(value_of("perf/evaluation_seconds", 2), 0.25F);
    cr_expect_eq(value_of("perf/shards_per_second", 1), 16);
    cr_expect_eq(value_of("perf/tokens_per_second", 1), 5);
    cr_expect_eq(value_of("perf/members", 1), 3);
    shown s = show(RUN, "");
    cr_expect_eq(s.texts, 1);
    cr_expect_str_eq(s.text, "| | |\n|---|---|\n| job | gpt |\n| lr | 1e-3 |\n");
}

Test(tensorboard, what_means_something_in_markdown_is_shown_as_it_is) {
    const gw_tensorboard_run odd = {
        .job = "0123abcd", .peer = "00ff00ff", .configuration = "a=b|c*d\nalone\ne=f=<g>&\xff\n"};
    gw_tensorboard *board = begin(&odd);
    add(board, 1, 1);
    gw_tensorboard_close(board);
    shown s = show(RUN, "train/loss");
    cr_expect_eq(s.count[1], 1);
    cr_expect_str_eq(s.text,
                     "| | |\n|---|---|\n| a | b\\|c\\*d |\n| alone |  |\n| e | f=\\<g>&amp;\xef\xbf\xbd |\n");
}

Test(tensorboard, a_resumed_run_takes_back_what_it_makes_again) {
    gw_tensorboard *board = begin(&run);
    add(board, 1, 35);
    gw_tensorboard_close(board);
    board = begin(&run);
    cr_expect_eq(gw_tensorboard_last(board), 35);
    add(board, 21, 30);
    gw_tensorboard_close(board);
    expect_steps(RUN, 30);
    board = begin(&run);
    cr_expect_eq(gw_tensorboard_last(board), 30);
    add(board, 31, 40); /* a state that was fetched from others, with the steps that led to it */
    add(board, 36, 50); /* a state of a checkpoint before it */
    gw_tensorboard_close(board);
    expect_steps(RUN, 50);
    cr_expect_eq(show(RUN, "").files, 3);
    board = begin(&run); /* it writes nothing */
    gw_tensorboard_close(board);
    cr_expect_eq(show(RUN, "").files, 3);
}

Test(tensorboard, a_new_file_comes_after_all_others_though_the_clock_was_set_back) {
    gw_tensorboard *board = begin(&run);
    add(board, 1, 35);
    gw_tensorboard_close(board);
    atomic_store(&wall_s, 1700000000);
    for (int i = 0; i < 3; i++) {
        board = begin(&run);
        add(board, 21, 40);
        gw_tensorboard_close(board);
        expect_steps(RUN, 40);
    }
    scratch_write_text(RUN "/events.out.tfevents.9999999999.x",
                       ""); /* no time at all: it stays the last one */
    scratch_write_text(RUN "/events.out.tfevents.not-a-number", "");
    board = begin(&run);
    add(board, 21, 50);
    gw_tensorboard_close(board);
    expect_steps(RUN, 50);
}

Test(tensorboard, a_fresh_job_takes_back_all) {
    gw_tensorboard_run fresh = run;
    gw_tensorboard *board = begin(&run);
    add(board, 1, 35);
    gw_tensorboard_close(board);
    fresh.fresh = true;
    board = begin(&fresh);
    cr_expect_eq(gw_tensorboard_last(board), 0);
    add(board, 10, 12); /* what others remember of it */
    gw_tensorboard_close(board);
    shown s = show(RUN, "train/loss");
    cr_expect_eq(s.count[9] + s.count[13], 0);
    cr_expect_eq(s.count[10] + s.count[11] + s.count[12], 3);
}

/* The loss of a step, which tells who has made it: 0.5 of the parent, 0.25 of its branch. */
static void expect_losses(uint64_t parents, uint64_t last) {
    static shown s;
    s = show(RUN, "train/loss");
    for (uint64_t step = 1; step <= STEPS; step++) {
        cr_expect_eq(s.count[step], step <= last, "step %" PRIu64 " has %u points", step, s.count[step]);
        if (step <= last) cr_expect_eq(s.value[step], step <= parents ? 0.5F : 0.25F, "step %" PRIu64, step);
    }
}

static const gw_tensorboard_run branch = {
    .job = "89ef89ef", .peer = "00ff00ff", .configuration = "job=gpt\n", .first_step = 20};

static void add_branch(uint64_t first, uint64_t last) {
    gw_err err;
    gw_tensorboard *board = begin(&branch);
    for (uint64_t step = first; step <= last; step++) {
        gw_metrics_row one = row(step, "loss=0.25");
        cr_assert(gw_tensorboard_add(board, &one, &err), "%s", err.text);
    }
    gw_tensorboard_close(board);
}

static uint64_t last_of(const gw_tensorboard_run *of) {
    gw_tensorboard *board = begin(of);
    uint64_t last = gw_tensorboard_last(board);
    gw_tensorboard_close(board);
    return last;
}

Test(tensorboard, a_branch_goes_on_from_its_parents_steps) {
    gw_tensorboard *board = begin(&run);
    add(board, 1, 35);
    gw_tensorboard_close(board);
    cr_expect_eq(last_of(&branch), 20);
    add_branch(21, 30);
    expect_losses(20, 30);
    cr_expect_eq(last_of(&branch), 30);
    add_branch(25, 40); /* it resumes */
    expect_losses(20, 40);
    /* The parent goes on after all: what the branch has put in its place is of no use to it. */
    cr_expect_eq(last_of(&run), 20);
    board = begin(&run);
    add(board, 36, 50);
    gw_tensorboard_close(board);
    static shown s;
    s = show(RUN, "train/loss");
    for (uint64_t step = 1; step <= STEPS; step++)
        cr_expect_eq(s.count[step], step <= 20 || (step >= 36 && step <= 50), "step %" PRIu64, step);
    cr_expect_eq(last_of(&run), 50);
    cr_expect_eq(last_of(&branch), 20);
}

/* Its state may come from others, and its parent may have written fewer steps here. */
Test(tensorboard, a_branch_that_begins_late_takes_back_its_parents_steps_all_the_same) {
    gw_tensorboard *board = begin(&run);
    add(board, 1, 35);
    gw_tensorboard_close(board);
    add_branch(28, 30);
    static shown s;
    s = show(RUN, "train/loss");
    for (uint64_t step = 1; step <= STEPS; step++)
        cr_expect_eq(s.count[step], step <= 20 || (step >= 28 && step <= 30), "step %" PRIu64, step);
}

Test(tensorboard, a_parent_that_has_written_less_is_no_trouble) {
    gw_tensorboard *board = begin(&run);
    add(board, 1, 12);
    gw_tensorboard_close(board);
    cr_expect_eq(last_of(&branch), 12);
    add_branch(21, 30);
    cr_expect_eq(last_of(&branch), 30);
}

Test(tensorboard, the_events_of_another_job_are_not_mixed_with_those_of_this_one) {
    gw_tensorboard_run other = run;
    gw_err err;
    gw_tensorboard *board = begin(&run);
    add(board, 1, 5);
    gw_tensorboard_close(board);
    other.job = "89ef89ef";
    board = gw_tensorboard_open(scratch_path("events"), &err);
    cr_assert_not(gw_tensorboard_begin(board, &other, &err));
    cr_expect_eq(err.code, GW_E_INVALID);
    cr_expect_not_null(strstr(err.text, "has the events of another job: give this one a folder of its own"));
    gw_tensorboard_close(board);
    expect_steps(RUN, 5);
    other.fresh = true; /* the user insists */
    board = begin(&other);
    gw_tensorboard *second = begin(&other); /* of the same flock */
    add(second, 1, 7);
    gw_tensorboard_close(board); /* it has written nothing */
    gw_tensorboard_close(second);
    expect_steps(RUN, 7);
    cr_expect_eq(warnings, 0);
}

/* Peers that share a folder. */

Test(tensorboard, one_peer_writes_and_another_goes_on_when_it_ends) {
    gw_tensorboard *first = begin(&run), *second = begin(&run);
    cr_expect_not_null(strstr(said, "another process writes the events"), "%s", said);
    add(first, 1, 20);
    add(second, 1, 20);
    cr_expect_eq(show(RUN, "").files, 1);
    gw_tensorboard_close(first);
    add(second, 21, 25);
    expect_steps(RUN, 20); /* it asks for the lock once a second */
    atomic_fetch_add(&now_ns, 1000000000);
    add(second, 26, 30);
    expect_steps(RUN, 30);
    cr_expect_not_null(strstr(said, "this peer writes the events"), "%s", said);
    gw_tensorboard *third = begin(&run);
    add(third, 25, 40);
    add(second, 31, 33);
    gw_tensorboard_close(second);
    gw_tensorboard_close(third); /* what waits is written in the end */
    expect_steps(RUN, 40);
    cr_expect_eq(show(RUN, "").files, 3);
    cr_expect_eq(warnings, 0);
}

/* All peers have lost the last steps with the one that wrote. */
Test(tensorboard, steps_that_are_made_again_while_rows_wait_replace_those_of_the_peer_before) {
    gw_tensorboard *first = begin(&run), *second = begin(&run);
    gw_err err;
    add(first, 1, 35);
    add(second, 1, 33);
    for (uint64_t step = 21; step <= 40; step++) {
        gw_metrics_row one = row(step, "loss=0.75");
        cr_assert(gw_tensorboard_add(second, &one, &err));
    }
    gw_tensorboard_close(first);
    gw_tensorboard_close(second);
    expect_steps(RUN, 40);
    cr_expect_eq(value_of("train/loss", 20), 0.5F);
    cr_expect_eq(value_of("train/loss", 21), 0.75F);
}

Test(tensorboard, rows_that_wait_take_a_bounded_amount_of_memory) {
    gw_tensorboard *first = begin(&run), *second = begin(&run);
    add(second, 1, 6000);
    gw_tensorboard_close(first);
    gw_tensorboard_close(second);
    shown s = show(RUN, "train/loss");
    for (uint64_t step = 1; step <= STEPS; step++) cr_expect_eq(s.count[step], step > 6000 - 4096);
}

/* Damage. */

static char *only_file(void) {
    static char path[700];
    struct dirent **names;
    int count = scandir(scratch_path(RUN), &names, is_event_file, alphasort);
    cr_assert_eq(count, 1);
    snprintf(path, sizeof path, "%s/%s", scratch_path(RUN), names[0]->d_name);
    free(names[0]);
    free(names);
    return path;
}

static size_t read_bytes(const char *path, uint8_t *bytes, size_t room) {
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in);
    size_t count = fread(bytes, 1, room, in);
    fclose(in);
    return count;
}

static void write_bytes(const char *path, const uint8_t *bytes, size_t count) {
    FILE *out = fopen(path, "w");
    cr_assert(out != NULL && fwrite(bytes, 1, count, out) == count && fclose(out) == 0);
}

/* Removes the files of events that come after this one. */
static void remove_later(const char *first) {
    struct dirent **names;
    char path[700];
    int count = scandir(scratch_path(RUN), &names, is_event_file, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", scratch_path(RUN), names[i]->d_name);
        if (strcmp(names[i]->d_name, first) > 0) cr_assert_eq(unlink(path), 0);
        free(names[i]);
    }
    free(names);
}

/* Every place at which a killed process may have stopped, and every byte that may have changed. */
Test(tensorboard, an_old_file_that_is_damaged_anywhere_is_no_trouble) {
    uint8_t whole[2000], bytes[2000];
    gw_tensorboard *board = begin(&run);
    add(board, 1, 4);
    gw_tensorboard_close(board);
    char path[700];
    strcpy(path, only_file());
    size_t count = read_bytes(path, whole, sizeof whole);
    cr_assert_lt(count, sizeof whole);
    for (size_t i = 0; i < 2 * count; i++) {
        memcpy(bytes, whole, count);
        bytes[i / 2] ^= (uint8_t)(1 << i % 8);
        write_bytes(path, bytes, i % 2 == 0 ? i / 2 : count);
        board = begin(&run);
        cr_assert_leq(gw_tensorboard_last(board), 4);
        add(board, 3, 5);
        gw_tensorboard_close(board);
        static shown s;
        s = show(RUN, "train/loss");
        for (uint64_t step = 1; step <= 5; step++)
            cr_assert(s.count[step] == 1 || (s.count[step] == 0 && step < 3), "damage at %zu: step %" PRIu64,
                      i, step);
        cr_assert_eq(s.files, 2);
        remove_later(strrchr(path, '/') + 1);
    }
    cr_expect_eq(warnings, 0);
}

Test(tensorboard, records_of_any_length_are_not_believed) {
    uint8_t head[GW_RECORD_HEAD], tail[GW_RECORD_TAIL], bytes[GW_RECORD_HEAD + 20] = {0};
    static const uint64_t lengths[] = {21, GW_RECORD_MOST, GW_RECORD_MOST + 1, UINT64_MAX, UINT64_MAX - 3};
    gw_err err;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        gw_record_frame(NULL, 0, head, tail);
        for (int b = 0; b < 8; b++) head[b] = (uint8_t)(lengths[i] >> 8 * b);
        uint32_t crc = gw_crc32c(head, 8), masked = (crc >> 15 | crc << 17) + 0xa282ead8U;
        for (int b = 0; b < 4; b++) head[8 + b] = (uint8_t)(masked >> 8 * b);
        memcpy(bytes, head, sizeof head);
        gw_records records;
        const uint8_t *record;
        size_t count;
        cr_assert(gw_records_open(scratch_write("records", bytes, sizeof bytes), &records, &err));
        cr_expect_not(gw_records_next(&records, &record, &count));
        cr_expect(records.damaged);
        gw_records_close(&records);
    }
}

/* Disks and folders. */

/* Imitates a full disk: from here on no file may grow beyond so many bytes. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(tensorboard, a_full_disk_leaves_whole_events) {
    gw_err err;
    struct stat status;
    gw_tensorboard *board = begin(&run);
    limit_files(100);
    cr_assert_not(try_add(board, 1, &err));
    cr_expect_eq(err.code, GW_E_IO);
    cr_assert_eq(stat(only_file(), &status), 0);
    cr_expect_eq(status.st_size, 0);
    limit_files(RLIM_INFINITY);
    add(board, 1, 2);
    cr_assert_eq(stat(only_file(), &status), 0);
    limit_files((rlim_t)status.st_size + 50);
    cr_assert_not(try_add(board, 3, &err));
    cr_expect_not_null(strstr(err.text, "cannot write"), "%s", err.text);
    limit_files(RLIM_INFINITY);
    add(board, 3, 4);
    gw_tensorboard_close(board);
    expect_steps(RUN, 4);
    cr_expect_not(show(RUN, "").damaged);
}

Test(tensorboard, a_full_disk_from_the_start_leaves_no_file) {
    gw_err err;
    gw_tensorboard *board = begin(&run);
    limit_files(0);
    cr_assert_not(try_add(board, 1, &err));
    gw_tensorboard_close(board);
    cr_expect_eq(show(RUN, "").files, 0);
}

static void remove_all(const char *name) {
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", scratch_path(name));
    cr_assert_eq(system(command), 0);
}

Test(tensorboard, what_is_removed_under_it_is_made_again) {
    static const char *const what[] = {"events", RUN "/events.out*", RUN "/godwit.lock"};
    for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) {
        gw_tensorboard *board = begin(&run);
        add(board, 1, 5);
        remove_all(what[i]);
        add(board, 6, 8);
        gw_tensorboard *other = begin(&run);
        cr_expect_not_null(strstr(said, "another process writes the events"), "after %s: %s", what[i], said);
        gw_tensorboard_close(other);
        gw_tensorboard_close(board);
        shown s = show(RUN, "train/loss");
        for (uint64_t step = 1; step <= 8; step++)
            cr_expect_eq(s.count[step], step > 5 || i == 2, "%s: step %" PRIu64, what[i], step);
        remove_all("events");
    }
    cr_expect_eq(warnings, 0);
}

/* Rows wait while the folder cannot be made again, and none is lost. */
Test(tensorboard, a_folder_that_cannot_be_made_again_is_told_once) {
    gw_tensorboard *board = begin(&run);
    add(board, 1, 5);
    remove_all("events");
    scratch_write_text("events", "no folder");
    for (uint64_t step = 6; step < 12; step++) {
        atomic_fetch_add(&now_ns, 1000000000);
        add(board, step, step);
    }
    cr_expect_eq(warnings, 1);
    cr_expect_not_null(strstr(said, "keeps its last 4096 steps"), "%s", said);
    cr_assert_eq(unlink(scratch_path("events")), 0);
    atomic_fetch_add(&now_ns, 1000000000);
    add(board, 12, 12);
    gw_tensorboard_close(board);
    shown s = show(RUN, "train/loss");
    for (uint64_t step = 1; step <= 12; step++) cr_expect_eq(s.count[step], step > 5);
}

Test(tensorboard, what_is_no_folder_or_cannot_be_made_is_refused) {
    gw_err err;
    scratch_write_text("file", "x");
    cr_assert_null(gw_tensorboard_open(scratch_path("file"), &err));
    cr_expect_not_null(strstr(err.text, "is no folder"), "%s", err.text);
    cr_assert_null(gw_tensorboard_open(scratch_path("file/below"), &err));
    cr_expect_not_null(strstr(err.text, "/file/below: Not a directory"), "%s", err.text);
    cr_assert_null(gw_tensorboard_open("/proc/none", &err));
    cr_expect_not_null(strstr(err.text, "cannot make /proc/none"), "%s", err.text);
    gw_tensorboard *board = gw_tensorboard_open(scratch_path("a/b/c/"), &err);
    cr_assert_not_null(board, "%s", err.text);
    cr_assert(gw_tensorboard_begin(board, &run, &err), "%s", err.text);
    gw_tensorboard_close(board);
    cr_expect_eq(access(scratch_path("a/b/c/godwit.lock"), F_OK), 0);
}

/* Root may write everywhere, so that another user tries it. */
Test(tensorboard, a_folder_of_somebody_else_is_refused) {
    gw_err err;
    int status;
    if (getuid() != 0) cr_skip_test("only root can become another user");
    scratch_make_folder("events");
    const char *dir = scratch_path("events");
    cr_assert(chmod(dir, 0755) == 0 && chmod(scratch_folder(), 0755) == 0);
    pid_t child = fork();
    if (child == 0) {
        bool refused = setuid(65534) == 0 && gw_tensorboard_open(dir, &err) == NULL &&
                       strstr(err.text, "cannot write to ") != NULL &&
                       strstr(err.text, ": Permission denied") != NULL;
        _exit(refused ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

/* A file of 64 MiB is followed by another one, without a START: nothing is taken back. */
Test(tensorboard, a_long_run_has_several_files) {
    enum { MIB = 1 << 20 };
    static char large[MIB];
    memset(large, 'x', sizeof large - 1);
    gw_tensorboard_run long_run = run;
    long_run.configuration = large;
    gw_tensorboard *board = begin(&long_run);
    for (int i = 0; i < 64; i++) add(board, 1, 1); /* each time the whole configuration */
    cr_expect_eq(show(RUN, "train/loss").files, 1);
    add(board, 2, 10);
    gw_tensorboard_close(board);
    shown s = show(RUN, "train/loss");
    cr_expect_eq(s.files, 2);
    cr_expect_eq(s.starts, 64);
    expect_steps(RUN, 10);
    board = begin(&run);
    cr_expect_eq(gw_tensorboard_last(board), 10);
    gw_tensorboard_close(board);
}

/* The thread and its rate. */

static void add_row(gw_metrics *metrics, uint64_t step, bool evaluates) {
    gw_metrics_row one = row(step, "loss=0.5");
    if (evaluates) one.phase = "evaluate";
    gw_metrics_add(metrics, &one);
}

static gw_metrics *begin_metrics(void) {
    gw_err err;
    gw_metrics *metrics = gw_metrics_open(NULL, scratch_path("events"), &err);
    cr_assert(metrics != NULL && gw_metrics_begin(metrics, &run, &err), "%s", err.text);
    return metrics;
}

Test(tensorboard, of_a_fast_job_it_gets_the_first_steps_ten_a_second_and_the_last) {
    gw_metrics *metrics = begin_metrics();
    for (uint64_t step = 1; step <= 5000; step++) {
        add_row(metrics, step, step % 100 == 0);
        atomic_fetch_add(&now_ns, 1000000); /* 1 ms */
    }
    cr_assert(gw_metrics_close(metrics, PATIENCE_NS));
    shown trains = show(RUN, "train/loss"), evaluates = show(RUN, "eval/loss");
    uint32_t count = 0;
    for (uint64_t step = 1; step <= 5000; step++) {
        cr_expect(trains.count[step] <= 1);
        if (step % 100 == 0) cr_expect_eq(evaluates.count[step], 1);
        if (step < 1000 && step % 100 != 0) cr_expect_eq(trains.count[step], 1);
        count += trains.count[step];
    }
    cr_expect(count >= 1045 && count <= 1055, "%u", count);
}

Test(tensorboard, of_a_slow_job_it_gets_every_step_and_of_a_fast_one_the_last) {
    gw_metrics *metrics = begin_metrics();
    for (uint64_t step = 1; step <= 3000; step++) {
        add_row(metrics, step, false);
        atomic_fetch_add(&now_ns, 100000000);
    }
    for (uint64_t step = 3001; step <= 4500; step++) add_row(metrics, step, false);
    cr_assert(gw_metrics_close(metrics, PATIENCE_NS));
    shown s = show(RUN, "train/loss");
    for (uint64_t step = 1; step <= 4500; step++)
        cr_expect_eq(s.count[step], step <= 4000 || step == 4500, "%" PRIu64, step);
}

Test(tensorboard, a_disk_that_hangs_holds_up_neither_the_job_nor_its_end) {
    gw_metrics *metrics = begin_metrics();
    atomic_store(&disk_hangs, true);
    add_row(metrics, 1, false);
    while (!atomic_load(&disk_is_asked)) sched_yield();
    for (uint64_t step = 2; step <= 900; step++) add_row(metrics, step, false);
    cr_expect_not(gw_metrics_close(metrics, 0));
    cr_expect_not_null(strstr(said, "has not answered for 0 s: 900 rows are missing there"), "%s", said);
    atomic_store(&disk_hangs, false); /* it answers after all, and then they are written */
    while (show(RUN, "train/loss").count[900] == 0) sched_yield();
    expect_steps(RUN, 900);
}

Test(tensorboard, the_steps_that_a_peer_lacks_are_those_behind_the_shorter_of_both) {
    gw_err err;
    gw_metrics *metrics = gw_metrics_open(scratch_path("a.csv"), NULL, &err);
    cr_assert(metrics != NULL && gw_metrics_begin(metrics, &run, &err), "%s", err.text);
    for (uint64_t step = 1; step <= 9; step++) add_row(metrics, step, false);
    cr_assert(gw_metrics_close(metrics, PATIENCE_NS));
    for (int i = 0; i < 2; i++) {
        metrics = gw_metrics_open(scratch_path("a.csv"), scratch_path("events"), &err);
        cr_assert(metrics != NULL && gw_metrics_begin(metrics, &run, &err), "%s", err.text);
        cr_expect_eq(gw_metrics_last(metrics), i == 0 ? 0 : 10);
        for (uint64_t step = 1; step <= 10; step++) add_row(metrics, step, false);
        cr_assert(gw_metrics_close(metrics, PATIENCE_NS));
        expect_steps(RUN, 10);
    }
    cr_assert_null(gw_metrics_open(NULL, scratch_path("a.csv"), &err));
    cr_expect_not_null(strstr(err.text, "--tensorboard: "), "%s", err.text);
}
