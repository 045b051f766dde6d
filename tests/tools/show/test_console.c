/* The outputs of a peer for people and programs: the live line, JSON, metrics, the control socket. */
#include "tests/tools/show/rig.h"
#include "tools/godwit/show/control.h"
#include "tools/godwit/show/display.h"
#include "tools/godwit/show/events.h"
#include "tools/godwit/show/snapshot.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/text/utf8.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

Test(display, shows_that_the_disk_fails) {
    char line[200];
    gw_node_snapshot *s = rig_busy_snapshot();
    s->disk_fails = true;
    gw_display_format(s, 150, line, sizeof line);
    cr_expect_not_null(strstr(line, "saved 300  disk fails  1:55 left"), "%s", line);
}

Test(display, shows_everything_where_there_is_room) {
    char line[200];
    gw_display_format(rig_busy_snapshot(), 150, line, sizeof line);
    cr_assert_str_eq(
        line,
        "step 312/590  loss=0.1234 note=fine  116 shards/s  4 peers  leader 1f000000  saved 300  1:55 left");
}

/* The rates of the last steps and the time that the rest would take say nothing of a peer that ends. */
Test(display, shows_no_rates_of_a_peer_that_ends) {
    char line[200];
    gw_node_snapshot *s = rig_busy_snapshot();
    s->tokens_per_s = 5000;
    s->ending = true;
    gw_display_format(s, 150, line, sizeof line);
    cr_expect_str_eq(line, "step 312/590  loss=0.1234 note=fine  4 peers  leader 1f000000  saved 300");
}

Test(display, shows_everything_in_brief_on_80_columns) {
    char line[200];
    gw_display_format(rig_busy_snapshot(), 79, line, sizeof line);
    cr_assert_str_eq(line, "step 312/590  loss=0.1234  116/s  4 peers  leader 1f00  saved 300  1:55 left");
    gw_node_snapshot *s = rig_busy_snapshot();
    snprintf(s->leader_name, sizeof s->leader_name, "host2");
    gw_display_format(s, 79, line, sizeof line);
    cr_assert_str_eq(line, "step 312/590  loss=0.1234  116/s  4 peers  leader host2  saved 300  1:55 left");
}

Test(display, shows_of_reals_what_a_person_looks_at) {
    static const char *const cases[][2] = {
        {"loss=3.284153 lr=0.0005912345 norm=1.234567e-05", "loss=3.2842 lr=0.00059123 norm=1.2346e-05"},
        {"perplexity=50257.31 tokens=123456789 loss=0.5", "perplexity=50257 tokens=123456789 loss=0.5"},
        {"a=1234567.8 b=-123456.7 c=1.234567e+13", "a=1234568 b=-123457 c=1.2346e+13"},
        {"version=1.2.34567 note=fine  a word = nan=nan", "version=1.2.34567 note=fine  a word = nan=nan"},
        {"hash=0123456789.12345678901234567890123456789012345678",
         "hash=0123456789.12345678901234567890123456789012345678"},
        {"", ""},
        {" =", " ="},
    };
    char text[100];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_key_values_brief(cases[i][0], text, sizeof text);
        cr_expect_str_eq(text, cases[i][1]);
    }
    const char *report = "loss=3.284153 word lr=0.1234567", *brief = "loss=3.2842 word lr=0.12346";
    for (size_t size = 1; size < sizeof text; size++) {
        memset(text, 'x', sizeof text);
        gw_key_values_brief(report, text, size);
        cr_expect_lt(strlen(text), size);
        cr_expect_eq(strncmp(text, brief, size - 1), 0, "%s", text);
    }
}

Test(display, shows_tokens_where_a_job_counts_them) {
    char line[200];
    gw_node_snapshot *s = rig_busy_snapshot();
    s->tokens_per_s = 48211.4;
    gw_display_format(s, 150, line, sizeof line);
    cr_expect_not_null(strstr(line, "  116 shards/s  48211 tokens/s  4 peers  "), "%s", line);
    gw_display_format(s, 79, line, sizeof line);
    cr_expect_str_eq(line, "step 312/590  loss=0.1234  116/s  48211 tok/s  4 peers  leader 1f00  1:55 left");
    char *text = gw_snapshot_metrics(s, GW_EXPOSITION_TEXT);
    cr_expect_not_null(strstr(text, "\ngodwit_flock_tokens_per_second 48211.4\n"), "%s", text);
    free(text);
    s->tokens_per_s = 0;
    text = gw_snapshot_metrics(s, GW_EXPOSITION_TEXT);
    cr_expect_null(strstr(text, "tokens"), "%s", text);
    free(text);
}

Test(display, counts_in_reports_are_whole) {
    static const struct {
        const char *report;
        bool counts;
        uint64_t count;
    } cases[] = {
        {"loss=3.25 tokens=1048576", true, 1048576},
        {"tokens=18446744073709551615 x=1", true, UINT64_MAX},
        {"tokens=18446744073709551616", false, 0},
        {"tokens=1.5", false, 0},
        {"tokens=", false, 0},
        {"tokens=-1", false, 0},
        {"retokens=4", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t count = 0;
        cr_expect_eq(gw_key_values_count(cases[i].report, "tokens", &count), cases[i].counts, "%s",
                     cases[i].report);
        if (cases[i].counts) cr_expect_eq(count, cases[i].count, "%s", cases[i].report);
    }
}

Test(display, what_a_report_lacks_is_kept_of_those_before_it) {
    static const char *const cases[][2] = {
        {"loss=3 lr=1", "loss=3 lr=1"},
        {"val_loss=4 tokens=5", "val_loss=4 tokens=5 loss=3 lr=1"},
        {"", "val_loss=4 tokens=5 loss=3 lr=1"},
        {"word loss=2 lr=7 tokens=6", "loss=2 lr=7 tokens=6 val_loss=4"},
        {"val_loss=1 val_loss=2 x=", "val_loss=1 x= loss=2 lr=7 tokens=6"},
    };
    char kept[GW_KEY_VALUES_BYTES] = "", many[20];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gw_key_values_keep(kept, cases[i][0]);
        cr_expect_str_eq(kept, cases[i][1]);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(many, sizeof many, "key%d=%d", i, i);
        gw_key_values_keep(kept, many);
        cr_expect_eq(strncmp(kept, many, strlen(many)), 0, "%s", kept);
        cr_expect_lt(strlen(kept), sizeof kept);
    }
    const char *last = strrchr(kept, ' ');
    cr_assert_not_null(last);
    cr_expect_not_null(strchr(last, '='), "whole words: %s", kept);
}

Test(display, the_live_line_has_few_digits) {
    char line[200];
    gw_node_snapshot s = *rig_busy_snapshot();
    snprintf(s.report, sizeof s.report, "epoch=4 loss=0.1234567 accuracy=0.9876543");
    gw_display_format(&s, 150, line, sizeof line);
    cr_expect_not_null(strstr(line, "  epoch=4 loss=0.12346 accuracy=0.98765  "), "%s", line);
    gw_display_format(&s, 79, line, sizeof line);
    cr_expect_not_null(strstr(line, "  loss=0.12346  "), "%s", line);
}

Test(display, never_exceeds_the_width_and_keeps_the_step) {
    for (size_t width = 1; width < 150; width++) {
        char line[200];
        gw_display_format(rig_busy_snapshot(), width, line, sizeof line);
        cr_assert_leq(strlen(line), width);
        if (width >= strlen("step 312/590")) cr_assert_eq(strncmp(line, "step 312/590", 12), 0);
    }
}

Test(display, says_what_a_peer_waits_for) {
    gw_node_snapshot *s = rig_busy_snapshot();
    strcpy(s->phase, "waiting for 2 of 4 peers");
    char line[200];
    gw_display_format(s, 80, line, sizeof line);
    cr_assert_not_null(strstr(line, "waiting for 2 of 4 peers"));
}

/* The reason of a side without a majority ends with the remedy. Only a narrow terminal cuts it. */
Test(display, shows_a_long_reason_to_wait_with_its_remedy) {
    static const char reason[] = "only 123 of the 256 members of view 4294967296 can be reached: not a "
                                 "majority, so this side waits for "
                                 "more of them (gone for good: godwit force-view)";
    gw_node_snapshot *s = rig_busy_snapshot();
    snprintf(s->phase, sizeof s->phase, "%s", reason);
    char line[501];
    gw_display_format(s, sizeof line - 1, line, sizeof line);
    cr_expect_not_null(strstr(line, reason), "%s", line);
    char *json = gw_snapshot_json(s);
    cr_expect_not_null(strstr(json, reason), "%s", json);
    free(json);
    for (size_t width = 40; width < sizeof reason; width++) {
        gw_display_format(s, width, line, sizeof line);
        cr_expect_eq(strncmp(line, "step 312/590  only 123 of ", 26), 0, "%zu: %s", width, line);
        cr_expect_str_eq(line + width - 3, "...", "%zu: %s", width, line);
    }
}

/* Puts a new file without a name in place of a descriptor. */
static void redirect(int to) {
    char path[] = "/tmp/godwit-display-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    unlink(path);
    cr_assert_eq(dup2(fd, to), to);
    close(fd);
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void expect_file(int fd, const char *expected) {
    char text[1000] = "";
    cr_assert_geq(pread(fd, text, sizeof text - 1, 0), 0);
    cr_expect_str_eq(text, expected);
}

static gw_display *silent_display(void) {
    gw_err err;
    gw_display *display = gw_display_open(GW_DISPLAY_SILENT, &err);
    cr_assert_not_null(display, "%s", err.text);
    return display;
}

static void update_written(gw_display *display) {
    gw_display_flush(display, UINT64_C(60000000000));
    gw_display_update(display, rig_busy_snapshot());
    gw_display_flush(display, UINT64_C(60000000000));
}

#define LEFT_OUT                                                                                             \
    "godwit: stdout: 1 lines have been left out so far: the reader was too slow, or the disk was full\n"
#define LONG_LINE                                                                                            \
    "..................................................................................................."    \
    "..................................................................................................."

Test(display, a_log_goes_on_after_a_full_disk) {
    redirect(STDOUT_FILENO);
    cr_assert_eq(dup2(STDOUT_FILENO, STDERR_FILENO), STDERR_FILENO);
    gw_display *display = silent_display();
    gw_display_out(display, "one");
    update_written(display);
    limit_files(4);
    gw_display_out(display, "two");
    /* the number of missing lines is not reported to a full disk */
    for (int i = 0; i < 3; i++) update_written(display);
    limit_files(RLIM_INFINITY);
    gw_display_out(display, "three");
    update_written(display);
    cr_expect(gw_display_close(display), "all that is missing is told");
    expect_file(STDOUT_FILENO, "one\nthree\n" LEFT_OUT);
}

Test(display, a_disk_that_is_full_at_the_end_is_told_once) {
    redirect(STDOUT_FILENO);
    redirect(STDERR_FILENO);
    gw_display *display = silent_display();
    gw_display_out(display, LONG_LINE LONG_LINE);
    update_written(display);
    limit_files(2 * strlen(LONG_LINE) + 1);
    gw_display_out(display, "two");
    for (int i = 0; i < 3; i++) update_written(display);
    cr_expect_not(gw_display_close(display));
    expect_file(STDOUT_FILENO, LONG_LINE LONG_LINE "\n");
    expect_file(
        STDERR_FILENO,
        "godwit: stdout: File too large; lines are left out until there is room; the run goes on\n" LEFT_OUT);
}

/* Checks that `text` has `count` lines, which are the same behind their times, and after them `last`. */
static void expect_times(const char *text, int count, const char *line, const char *last) {
    static const char form[] = "dddd-dd-ddTdd:dd:dd.ddd+dd:dd ";
    for (int i = 0; i < count; i++) {
        for (const char *at = form; *at != '\0'; at++, text++)
            cr_assert(*at == 'd' ? *text >= '0' && *text <= '9' : *text == *at, "%s", text);
        cr_assert_eq(strncmp(text, line, strlen(line)), 0, "%s", text);
        text += strlen(line);
    }
    cr_expect_str_eq(text, last);
}

Test(display, what_is_kept_has_date_and_time) {
    gw_err err;
    char text[1000] = "";
    setenv("TZ", "UTC0", 1);
    redirect(STDOUT_FILENO);
    redirect(STDERR_FILENO);
    gw_display *display = gw_display_open(GW_DISPLAY_AUTO, &err);
    cr_assert_not_null(display, "%s", err.text);
    gw_display_say(display, "something");
    gw_display_say(display, "something");
    gw_display_out(display, "godwit: done");
    gw_display_log(display, "warn  node: trouble");
    gw_display_err(display, "godwit: failed");
    cr_assert(gw_display_close(display));
    cr_assert_gt(pread(STDOUT_FILENO, text, sizeof text - 1, 0), 0);
    expect_times(text, 2, "something\n", "godwit: done\n");
    memset(text, 0, sizeof text);
    cr_assert_gt(pread(STDERR_FILENO, text, sizeof text - 1, 0), 0);
    expect_times(text, 1, "warn  node: trouble\n", "godwit: failed\n");
}

/* Some of the texts come from other peers. */
Test(events, what_is_told_is_one_line_without_escapes) {
    gw_err err;
    char text[3000] = "";
    redirect(STDOUT_FILENO);
    redirect(STDERR_FILENO);
    gw_display *display = gw_display_open(GW_DISPLAY_AUTO, &err);
    cr_assert_not_null(display, "%s", err.text);
    gw_names *names = gw_names_open(&err);
    const gw_peer_id peer = {{0x13, 0xab, 0xb5, 0x8e}};
    const gw_addr addr = {.family = 4, .ip = {10, 0, 0, 1}, .port = 7117};
    gw_names_put(names, &peer, "node7");
    gw_events *events = gw_events_open(GW_EVENTS_PLAIN, display, names, &err);
    cr_assert_not_null(events, "%s", err.text);
    gw_events_repair(events, 7, 2, "lost\n\033[2J");
    gw_events_repair(events, 8, 2, "peer 13abb58e died");
    gw_events_peer(events, &peer, &(gw_event_peer){&addr, "unreachable", 7, "silent", 400000000});
    gw_events_peer(events, &peer, &(gw_event_peer){&addr, "dead", 7, "refused", 0});
    gw_events_peer(events, &peer, &(gw_event_peer){&addr, "left", 7, "left", 0});
    const gw_view alone = {.epoch = 3, .count = 1, .leader = peer};
    for (int i = 0; i < 3; i++)
        gw_events_view(events, &alone, &peer, 20, "the final state is not saved yet", 0);
    gw_events_view(events, &alone, &peer, 20, "another cause", 0);
    gw_events_done(events, &(gw_event_done){.outcome = "left", .job = "digits", .steps = 9, .saved_step = 8});
    gw_events_done(
        events,
        &(gw_event_done){.outcome = "failed", .job = "digits", .text = "told\n\033[2J", .saved_step = 7});
    gw_events_close(events);
    cr_assert(gw_display_close(display));
    cr_assert_gt(pread(STDOUT_FILENO, text, sizeof text - 1, 0), 0);
    cr_expect_not_null(strstr(text, ": lost??[2J\n"), "%s", text);
    cr_expect_not_null(strstr(text, ": peer node7 (13abb58e) died\n"), "%s", text);
    cr_expect_not_null(strstr(text, " peer node7 (13abb58e) at 10.0.0.1:7117 is unreachable since "), "%s",
                       text);
    cr_expect_not_null(
        strstr(text, " peer node7 (13abb58e) at 10.0.0.1:7117 is dead: its process has ended\n"));
    cr_expect_not_null(strstr(text, " peer node7 (13abb58e) at 10.0.0.1:7117 has left\n"), "%s", text);
    /* A lone peer that tries again and again says once why. */
    const char *first = strstr(text, "(the final state is not saved yet, ");
    cr_expect(first != NULL && strstr(first + 1, "(the final state") == NULL, "%s", text);
    cr_expect_not_null(strstr(text, "(another cause, "), "%s", text);
    cr_expect_not_null(strstr(text, "godwit: left job=digits steps=9 state=- saved=8 peers="), "%s", text);
    cr_expect_not_null(strstr(text, "godwit: failed job=digits steps=0 state=- saved=7 peers="), "%s", text);
    gw_names_close(names);
    memset(text, 0, sizeof text);
    cr_assert_gt(pread(STDERR_FILENO, text, sizeof text - 1, 0), 0);
    cr_expect_str_eq(text, "godwit: failed: told??[2J\n");
}

/* Makes stdout and stderr a terminal of so many columns (0: its own choice). Returns the end that reads
 * what it shows. */
static int open_terminal(unsigned short columns) {
    int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(reader >= 0 && grantpt(reader) == 0 && unlockpt(reader) == 0);
    int terminal = open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const struct winsize size = {.ws_row = 24, .ws_col = columns};
    cr_assert(columns == 0 || ioctl(terminal, TIOCSWINSZ, &size) == 0);
    cr_assert(dup2(terminal, STDOUT_FILENO) >= 0 && dup2(terminal, STDERR_FILENO) >= 0);
    return reader;
}

/* Reads what the terminal shows, until `last` has come. */
static void read_terminal(int reader, char *text, size_t size, const char *last) {
    size_t used = 0;
    while (strstr(text, last) == NULL) {
        ssize_t got = read(reader, text + used, size - 1 - used);
        cr_assert_gt(got, 0);
        used += (size_t)got;
    }
}

/* On a terminal a line is seen when it comes. */
Test(display, a_terminal_shows_no_dates) {
    char text[200] = "";
    int reader = open_terminal(0);
    gw_display *display = silent_display();
    gw_display_say(display, "something");
    gw_display_log(display, "trouble");
    cr_assert(gw_display_close(display));
    read_terminal(reader, text, sizeof text, "trouble\r\n");
    cr_expect_eq(strncmp(text, "something\r\n", 11), 0, "%s", text);
    cr_expect_eq(strlen(text), strlen("something\r\n12:34:56.789 trouble\r\n"), "%s", text);
}

Test(display, a_terminal_breaks_lines_at_words) {
    char text[300] = "", line[] = "0123456789 0123456789 0123456789 0123456789";
    int reader = open_terminal(30);
    gw_display *display = silent_display();
    gw_display_say(display, line);
    gw_display_end(display, line);
    gw_display_out(display, "the end");
    cr_assert(gw_display_close(display));
    read_terminal(reader, text, sizeof text, "the end\r\n");
    cr_expect_str_eq(text, "0123456789 0123456789\r\n  0123456789 0123456789\r\n"
                           "0123456789 0123456789\r\n  0123456789 0123456789\r\nthe end\r\n");
}

/* The next output of the shell must not stand behind the live line. */
Test(display, who_ends_at_once_leaves_no_live_line) {
    char text[2000] = "";
    gw_err err;
    setenv("TERM", "xterm", 1);
    int reader = open_terminal(0);
    gw_display *display = gw_display_open(GW_DISPLAY_AUTO, &err);
    cr_assert_not_null(display, "%s", err.text);
    gw_display_update(display, rig_busy_snapshot());
    gw_display_err(display, "ended");
    gw_display_flush(display, UINT64_C(60000000000));
    gw_display_update(display, rig_busy_snapshot());
    gw_display_err(display, "$");
    cr_assert(gw_display_close(display));
    cr_assert_eq(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
    size_t used = 0;
    for (ssize_t got; (got = read(reader, text + used, sizeof text - 1 - used)) > 0;) used += (size_t)got;
    const char *last = strstr(text, "$\r\n");
    cr_assert_not_null(last, "%s", text);
    cr_expect_not_null(strstr(text, "step 312"), "%s", text);
    cr_expect_null(strstr(last, "step 312"), "%s", text);
}

/* A line that is drawn again below another one tells of a step that may have passed, also when the run has
 * ended. */
Test(display, the_live_line_is_drawn_by_an_update_alone) {
    char text[2000] = "";
    gw_err err;
    setenv("TERM", "xterm", 1);
    int reader = open_terminal(0);
    gw_display *display = gw_display_open(GW_DISPLAY_AUTO, &err);
    cr_assert_not_null(display, "%s", err.text);
    gw_display_update(display, rig_busy_snapshot());
    gw_display_say(display, "leaving");
    gw_display_end(display, "the end");
    cr_assert(gw_display_close(display));
    read_terminal(reader, text, sizeof text, "the end\r\n");
    const char *first = strstr(text, "step 312");
    cr_assert_not_null(first, "%s", text);
    cr_expect_null(strstr(first + 1, "step 312"), "%s", text);
}

Test(snapshot, json_has_what_was_put_in) {
    char *text = gw_snapshot_json(rig_busy_snapshot());
    json_t *object = json_loads(text, 0, NULL);
    cr_assert_not_null(object, "%s", text);
    cr_assert_eq(json_integer_value(json_object_get(object, "step")), 312);
    cr_assert_str_eq(json_string_value(json_object_get(object, "cluster")), "a \"quoted\" \\ name");
    cr_assert_str_eq(json_string_value(json_object_get(object, "fingerprint")), "ffffffffffffffff");
    const json_t *evaluation = json_object_get(object, "evaluation"),
                 *report = json_object_get(object, "report");
    cr_expect_eq(json_real_value(json_object_get(evaluation, "val_loss")), 0.75, "%s", text);
    cr_expect_str_eq(json_string_value(json_object_get(evaluation, "note")), "well", "%s", text);
    cr_expect(json_is_real(json_object_get(report, "loss")), "%s", text);
    cr_expect_null(json_object_get(object, "epoch"), "an epoch is one of data");
    cr_expect(json_is_integer(json_object_get(object, "view_number")), "%s", text);
    cr_expect_eq(json_integer_value(json_object_get(object, "evaluation_step")), 251);
    json_t *counters = json_object_get(object, "counters"), *peers = json_object_get(object, "peers");
    cr_assert_eq(json_object_size(counters), GW_COUNTERS);
    cr_assert_eq(json_integer_value(json_object_get(counters, "shards_stolen")), 118);
    cr_assert_float_eq(json_real_value(json_object_get(counters, "reduce_seconds")), 1.5, 1e-12);
    json_t *dropped = json_object_get(object, "packets_dropped");
    cr_assert_eq(json_object_size(dropped), GW_PACKET_VERDICTS - 1);
    cr_assert_eq(json_integer_value(json_object_get(dropped, "wrong_key")), 2);
    cr_assert_eq(json_array_size(peers), 2);
    cr_assert(json_is_null(json_object_get(json_array_get(peers, 1), "checkpoint_step")));
    json_decref(object);
    free(text);
}

Test(snapshot, numbers_that_are_none_are_null) {
    gw_node_snapshot *s = rig_busy_snapshot();
    s->step_ms = 0.0 / (s->step == 0);
    s->checkpoint_step = UINT64_MAX;
    s->evaluation[0] = '\0';
    char *text = gw_snapshot_json(s);
    json_t *object = json_loads(text, 0, NULL);
    cr_assert_not_null(object, "%s", text);
    cr_assert(json_is_null(json_object_get(object, "checkpoint_step")));
    cr_assert(json_is_null(json_object_get(object, "evaluation_step")));
    json_decref(object);
    free(text);
}

/* Every sample line belongs to a metric with HELP and TYPE lines before it. */
Test(snapshot, metrics_are_well_formed) {
    char *text = gw_snapshot_metrics(rig_busy_snapshot(), GW_EXPOSITION_TEXT), *rest = NULL, type[100] = "";
    cr_assert_not_null(strstr(text, "cluster=\"a \\\"quoted\\\" \\\\ name\""));
    cr_assert_not_null(strstr(text, "\ngodwit_shards_stolen_total 118\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_reduce_seconds_total 1.5\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_packets_dropped_total{reason=\"wrong_key\"} 2\n"));
    cr_assert_null(strstr(text, "} 5\n"), "good packets are not dropped");
    cr_assert_not_null(strstr(text, "\ngodwit_report{key=\"loss\"} 0.1234"));
    cr_assert_not_null(strstr(text, "\ngodwit_report{key=\"val_loss\"} 0.75\n"),
                       "steps ago, and still shown");
    cr_assert_not_null(strstr(text, "\ngodwit_evaluation_step 251\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_peers{state=\"dead\"} 1\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_peers{state=\"unreachable\"} 0\n"));
    cr_assert_not_null(strstr(text, ",name=\"a \\\"host\\\"\","), "%s", text);
    cr_assert_null(strstr(text, "note"), "a report that is no number is no metric");
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "# TYPE %99s", type) == 1 || line[0] == '#') continue;
        cr_assert_eq(strncmp(line, type, strlen(type)), 0, "%s after the type of %s", line, type);
        char *value = strrchr(line, ' '), *end;
        strtod(value + 1, &end);
        cr_assert_eq(*end, '\0', "%s", line);
    }
    free(text);
    gw_node_snapshot *failing = rig_busy_snapshot();
    text = gw_snapshot_metrics(failing, GW_EXPOSITION_TEXT);
    cr_assert_not_null(strstr(text, "\ngodwit_checkpoint_step 300\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_disk_writable 1\n"));
    free(text);
    failing->disk_fails = true;
    text = gw_snapshot_metrics(failing, GW_EXPOSITION_TEXT);
    cr_assert_not_null(strstr(text, "\ngodwit_disk_writable 0\n"));
    free(text);
}

/* Special numbers are spelled as Prometheus spells them: one line that it cannot read costs the whole
 * page. */
Test(snapshot, metrics_spell_numbers_that_are_none) {
    gw_node_snapshot *s = rig_busy_snapshot();
    strcpy(s->latest, "loss=1 a=-nan b=inf c=-inf d=nan");
    s->step_ms = (double)NAN;
    char *text = gw_snapshot_metrics(s, GW_EXPOSITION_TEXT);
    cr_expect_not_null(strstr(text, "\ngodwit_report{key=\"loss\"} 1\ngodwit_report{key=\"a\"} NaN\n"
                                    "godwit_report{key=\"b\"} +Inf\ngodwit_report{key=\"c\"} -Inf\n"
                                    "godwit_report{key=\"d\"} NaN\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "\ngodwit_step_seconds NaN\n"), "%s", text);
    free(text);
}

#define BAD "\xef\xbf\xbd"

Test(snapshot, what_is_not_utf8_is_replaced) {
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"gr\u00fc\u00df \u20ac \U0001d11e", "gr\u00fc\u00df \u20ac \U0001d11e"},
        {"a\xff\xfe z", "a" BAD BAD " z"},
        {"\xc3", BAD}, /* its end is missing */
        {"\xe2\x82 ", BAD BAD " "},
        {"\x80", BAD},                         /* its beginning is missing */
        {"\xc0\xaf", BAD BAD},                 /* a slash in more bytes than it needs */
        {"\xed\xa0\x80", BAD BAD BAD},         /* half of a pair of UTF-16 */
        {"\xf4\x90\x80\x80", BAD BAD BAD BAD}, /* beyond the last character */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *clean = gw_utf8(cases[i].text, strlen(cases[i].text));
        cr_expect_str_eq(clean, cases[i].clean, "%d", (int)i);
        free(clean);
    }
    gw_node_snapshot *s = rig_busy_snapshot();
    strcpy(s->job, "j\xff");
    char *text = gw_snapshot_json(s);
    json_t *object = json_loads(text, 0, NULL);
    cr_assert_not_null(object, "%s", text);
    cr_expect_str_eq(json_string_value(json_object_get(object, "job")), "j" BAD);
    json_decref(object);
    free(text);
    text = gw_snapshot_metrics(s, GW_EXPOSITION_TEXT);
    cr_expect_not_null(strstr(text, ",job_name=\"j" BAD "\","), "%s", text);
    free(text);
}

Test(snapshot, digests_in_reports_are_no_numbers) {
    json_t *object = json_object();
    gw_json_value(object, "number", "7467475193e2", 12);
    gw_json_value(object, "digest", "74674751931311e2", 16);
    gw_json_value(object, "digits", "7467475193131172", 16);
    gw_json_value(object, "real", "0.74674751931311e2", 18);
    gw_json_value(object, "k\xff", "v\xff", 2);
    cr_expect(json_is_real(json_object_get(object, "number")));
    cr_expect(json_is_real(json_object_get(object, "real")));
    const char *digest = json_string_value(json_object_get(object, "digest"));
    cr_expect(digest != NULL && strcmp(digest, "74674751931311e2") == 0);
    cr_expect(json_is_string(json_object_get(object, "digits")));
    const char *text = json_string_value(json_object_get(object, "k" BAD));
    cr_expect(text != NULL && strcmp(text, "v" BAD) == 0);
    json_decref(object);
}

static gw_node_snapshot *with_gpus(void) {
    gw_node_snapshot *s = rig_busy_snapshot();
    s->gpu_count = 2;
    s->gpus[0] = (gw_watched_gpu){.ordinal = 0,
                                  .name = "NVIDIA \"H200\"",
                                  .bus = "0000:01:00.0",
                                  .reading = {.answers = true,
                                              .known = GW_GPU_UTILISATION | GW_GPU_POWER | GW_GPU_THROTTLE,
                                              .busy_percent = 97,
                                              .power_mw = 612500,
                                              .throttle = GW_GPU_THROTTLE_POWER_BRAKE},
                                  .xids = 2,
                                  .last_xid = 48};
    s->gpus[1] = (gw_watched_gpu){.ordinal = 1, .bus = "0000:02:00.0", .bad = true};
    strcpy(s->sums, "host memory");
    return s;
}

Test(snapshot, gpus_are_shown_with_what_they_tell) {
    char *text = gw_snapshot_json(with_gpus());
    json_t *object = json_loads(text, 0, NULL);
    json_t *gpu = json_array_get(json_object_get(object, "gpus"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(gpu, "name")), "NVIDIA \"H200\"");
    cr_assert_float_eq(json_real_value(json_object_get(gpu, "utilization")), 0.97, 1e-12);
    cr_assert_str_eq(json_string_value(json_object_get(gpu, "throttled_by")), "power brake");
    cr_assert_eq(json_integer_value(json_object_get(gpu, "last_xid")), 48);
    cr_assert_null(json_object_get(gpu, "temperature_c"), "it does not tell");
    gpu = json_array_get(json_object_get(object, "gpus"), 1);
    cr_assert(json_is_false(json_object_get(gpu, "answers")) && json_is_true(json_object_get(gpu, "bad")));
    cr_assert_str_eq(json_string_value(json_object_get(object, "sums")), "host memory");
    json_decref(object);
    free(text);
}

Test(snapshot, gpu_metrics_are_those_that_a_gpu_tells) {
    char *text = gw_snapshot_metrics(with_gpus(), GW_EXPOSITION_TEXT);
    cr_assert_not_null(strstr(text, "\ngodwit_gpu_utilization_ratio{gpu=\"0\",bus=\"0000:01:00.0\"} 0.97\n"),
                       "%s", text);
    cr_assert_not_null(strstr(text, "\ngodwit_gpu_power_watts{gpu=\"0\",bus=\"0000:01:00.0\"} 612.5\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_gpu_throttled{gpu=\"0\",bus=\"0000:01:00.0\"} 1\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_gpu_xid_errors_total{gpu=\"0\",bus=\"0000:01:00.0\"} 2\n"));
    cr_assert_not_null(strstr(text, "\ngodwit_gpu_bad{gpu=\"1\",bus=\"0000:02:00.0\"} 1\n"));
    cr_assert_null(strstr(text, "godwit_gpu_temperature_celsius{"));
    cr_assert_not_null(strstr(text, "\ngodwit_sums_by_nccl 0\n"));
    free(text);
    text = gw_snapshot_metrics(rig_busy_snapshot(), GW_EXPOSITION_TEXT);
    cr_assert_null(strstr(text, "godwit_gpu_"), "a peer without GPUs has no such metrics");
    cr_assert_null(strstr(text, "godwit_sums_by_nccl"));
    free(text);
}

Test(snapshot, encryption_is_told_where_there_is_a_key) {
    static gw_node_snapshot s;
    s = *rig_busy_snapshot();
    char *text = gw_snapshot_metrics(&s, GW_EXPOSITION_TEXT), *json = gw_snapshot_json(&s);
    cr_expect_null(strstr(text, "encryption"), "%s", text);
    cr_expect_null(strstr(json, "encryption"), "%s", json);
    free(text);
    free(json);
    strcpy(s.encryption, "AES-256-GCM by libsodium");
    text = gw_snapshot_metrics(&s, GW_EXPOSITION_TEXT);
    json = gw_snapshot_json(&s);
    cr_expect_not_null(strstr(text, "\ngodwit_encryption_info{means=\"AES-256-GCM by libsodium\"} 1\n"), "%s",
                       text);
    json_t *object = json_loads(json, 0, NULL);
    cr_expect_str_eq(json_string_value(json_object_get(object, "encryption")), "AES-256-GCM by libsodium");
    json_decref(object);
    free(text);
    free(json);
}

/* A peer in the middle of its job, a million joules of which RAPL has counted. */
static gw_node_snapshot *with_energy(void) {
    gw_node_snapshot *s = rig_busy_snapshot();
    s->step = 60;
    s->steps = 100;
    s->step_ms = 200;
    s->shards_a_step = 24;
    s->tokens_per_s = 60;
    s->energy = (gw_energy){.processors = GW_ENERGY_RAPL,
                            .gpus = GW_ENERGY_NVML,
                            .joules = {[GW_ENERGY_RAPL] = 1e6, [GW_ENERGY_NVML] = 2.6e6},
                            .watts = 250,
                            .step_joules = 45000,
                            .shard_joules = 2.5};
    s->energy_factors =
        (gw_energy_factors){.has_co2 = true, .has_money = true, .co2 = 0.5, .money = 0.25, .currency = "EUR"};
    return s;
}

Test(snapshot, energy_is_shown_with_its_sources_costs_and_forecast) {
    char *text = gw_snapshot_json(with_energy());
    json_t *object = json_loads(text, 0, NULL), *energy = json_object_get(object, "energy");
    cr_assert_float_eq(json_real_value(json_object_get(energy, "joules")), 3.6e6, 1e-3);
    cr_assert_float_eq(json_real_value(json_object_get(energy, "co2_kg")), 0.5, 1e-9);
    cr_assert_float_eq(json_real_value(json_object_get(energy, "money")), 0.25, 1e-9);
    cr_assert_float_eq(json_real_value(json_object_get(energy, "joules_a_token")), 5, 1e-9); /* 12 a step */
    cr_assert_float_eq(json_real_value(json_object_get(json_object_get(energy, "joules_by_source"), "rapl")),
                       1e6, 1e-3);
    cr_assert_float_eq(json_real_value(json_object_get(json_object_get(energy, "at_end"), "kwh")), 1.5, 1e-9);
    cr_assert(json_is_false(json_object_get(energy, "estimated")));
    json_decref(object);
    free(text);
    text = gw_snapshot_metrics(with_energy(), GW_EXPOSITION_TEXT);
    cr_assert_not_null(strstr(text, "\ngodwit_energy_joules_total{source=\"rapl\"} 1000000\n"), "%s", text);
    cr_assert_not_null(strstr(text, "\ngodwit_energy_joules_total{source=\"nvml\"} 2600000\n"), "%s", text);
    cr_assert_not_null(strstr(text, "\ngodwit_energy_forecast_joules 5400000\n"), "%s", text);
    cr_assert_not_null(strstr(text, "\ngodwit_energy_cost_total{currency=\"EUR\"} 0.25\n"), "%s", text);
    free(text);
}

Test(snapshot, energy_that_is_not_known_is_no_zero) {
    gw_node_snapshot *s = rig_busy_snapshot();
    strcpy(s->energy.lack, "no counter");
    char *text = gw_snapshot_json(s);
    json_t *object = json_loads(text, 0, NULL), *energy = json_object_get(object, "energy");
    cr_assert_null(json_object_get(energy, "joules"));
    cr_assert_null(json_object_get(energy, "at_end"));
    cr_assert_str_eq(json_string_value(json_object_get(energy, "processors")), "none");
    cr_assert_str_eq(json_string_value(json_object_get(energy, "lack")), "no counter");
    json_decref(object);
    free(text);
    text = gw_snapshot_metrics(s, GW_EXPOSITION_TEXT);
    cr_assert_null(strstr(text, "energy"), "%s", text);
    free(text);
}

/* Runs a command on a page of metrics; returns its exit code, and what it says. */
static int judge(const gw_node_snapshot *snapshot, gw_exposition_format format, const char *judge,
                 char said[20000]) {
    char path[] = "/tmp/godwit-metrics-XXXXXX", command[300];
    char *text = gw_snapshot_metrics(snapshot, format);
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    free(text);
    snprintf(command, sizeof command, "%s 2>&1 < %s", judge, path);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    said[fread(said, 1, 19999, pipe)] = '\0';
    int status = pclose(pipe);
    unlink(path);
    return WEXITSTATUS(status);
}

/* Prometheus's own promtool judges names, types and help. The names and labels of DCGM's exporter are not what
 * it likes, and not Godwit's to choose. */
static void expect_promtool_content(const gw_node_snapshot *snapshot) {
    char said[20000], *rest = NULL;
    (void)judge(snapshot, GW_EXPOSITION_TEXT, "promtool check metrics", said);
    for (char *line = strtok_r(said, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        bool not_ours = strncmp(line, "DCGM_FI_", 8) == 0 && strstr(line, " label names should be") != NULL;
        cr_expect(not_ours, "%s", line);
    }
}

Test(snapshot, promtool_has_nothing_to_say_about_the_metrics) {
    if (system("promtool --version >/dev/null 2>&1") != 0) cr_skip_test("there is no promtool");
    gw_node_snapshot *s = with_gpus();
    snprintf(s->corruption, sizeof s->corruption, "step 3: peer 0a is wrong");
    s->tokens_per_s = 5;
    expect_promtool_content(s);
    expect_promtool_content(with_energy());
    gw_node_snapshot *plain = rig_busy_snapshot();
    char said[20000];
    cr_expect_eq(judge(plain, GW_EXPOSITION_TEXT, "promtool check metrics", said), 0);
    cr_expect_str_eq(said, "");
}

/* The strict parser of prometheus_client reads the page; it knows nothing of a family that was not meant. */
Test(snapshot, openmetrics_are_what_a_strict_parser_reads) {
    static const struct {
        const char *family, *type, *unit;
        int samples;
    } some[] = {
        {"godwit", "info", "", 1},
        {"godwit_corruption_last", "info", "", 1},
        {"godwit_steps", "counter", "", 1},
        {"godwit_reduce_seconds", "counter", "seconds", 1},
        {"godwit_checkpoint_age_seconds", "gauge", "seconds", 1},
        {"godwit_disk_free_bytes", "gauge", "bytes", 1},
        {"godwit_report", "gauge", "", 3},
        {"godwit_gpu_utilization_ratio", "gauge", "ratio", 1},
        {"godwit_energy_joules", "counter", "joules", 2},
        {"DCGM_FI_DEV_GPU_UTIL", "gauge", "", 1},
        {"DCGM_FI_DEV_XID_ERRORS", "gauge", "", 2},
    };
    char said[20000];
    gw_node_snapshot *s = with_gpus();
    const gw_node_snapshot energy = *with_energy();
    s = with_gpus();
    s->energy = energy.energy;
    s->energy_factors = energy.energy_factors;
    snprintf(s->corruption, sizeof s->corruption, "step 3: \"peer\" 0a\nis \\ wrong");
    strcpy(s->latest, "loss=1 b=nan c=-inf");
    int code = judge(s, GW_EXPOSITION_OPENMETRICS,
                     "python3 " GODWIT_SOURCE "/tests/tools/parse_openmetrics.py", said);
    if (code == 77) cr_skip_test("prometheus_client cannot be installed");
    json_t *families = json_loads(said, 0, NULL);
    cr_assert_not_null(families, "%s", said);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        const char *type, *unit;
        int samples;
        cr_assert_eq(
            json_unpack(json_object_get(families, some[i].family), "[s, s, i]", &type, &unit, &samples), 0,
            "%s: %s", some[i].family, said);
        cr_expect_str_eq(type, some[i].type, "%s", some[i].family);
        cr_expect_str_eq(unit, some[i].unit, "%s", some[i].family);
        cr_expect_eq(samples, some[i].samples, "%s", some[i].family);
    }
    json_decref(families);
}

Test(snapshot, gpus_have_the_names_and_labels_of_dcgm_too) {
    gw_node_snapshot *s = with_gpus();
    char host[65] = "", labels[300], expected[400];
    gw_gpu_reading *r = &s->gpus[0].reading;
    r->known |= GW_GPU_MEMORY | GW_GPU_CLOCKS | GW_GPU_ECC | GW_GPU_TEMPERATURE | GW_GPU_ENERGY;
    r->memory_total_bytes = 141ULL << 30;
    r->memory_used_bytes = 41ULL << 30;
    r->sm_clock_mhz = 1980;
    r->memory_clock_mhz = 3201;
    r->ecc_corrected = 7;
    r->temperature_c = 61;
    r->energy_mj = 123456789;
    s->gpus[0].names = (gw_gpu_names){.uuid = "GPU-604ac76c", .index = 3, .minor = 5};
    s->gpus[1].names = (gw_gpu_names){.index = -1, .minor = -1};
    cr_assert_eq(gethostname(host, sizeof host - 1), 0);
    snprintf(labels, sizeof labels,
             "{gpu=\"3\",UUID=\"GPU-604ac76c\",pci_bus_id=\"0000:01:00.0\",device=\"nvidia5\","
             "modelName=\"NVIDIA \\\"H200\\\"\",Hostname=\"%s\"}",
             host);
    static const char *const samples[][2] = {
        {"GPU_UTIL", "97"},     {"POWER_USAGE", "612.5"},   {"GPU_TEMP", "61"},
        {"FB_USED", "41984"},   {"FB_FREE", "102400"},      {"SM_CLOCK", "1980"},
        {"MEM_CLOCK", "3201"},  {"XID_ERRORS", "48"},       {"ECC_SBE_VOL_TOTAL", "7"},
        {"MEM_COPY_UTIL", "0"}, {"ECC_DBE_VOL_TOTAL", "0"}, {"TOTAL_ENERGY_CONSUMPTION", "123456789"},
    };
    char *text = gw_snapshot_metrics(s, GW_EXPOSITION_TEXT);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        snprintf(expected, sizeof expected, "\nDCGM_FI_DEV_%s%s %s\n", samples[i][0], labels, samples[i][1]);
        cr_expect_not_null(strstr(text, expected), "%s in %s", expected, text);
    }
    cr_expect_not_null(strstr(text, "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"\",pci_bus_id=\"0000:02:00.0\","
                                    "device=\"nvidia1\","),
                       "%s", text);
    cr_expect_not_null(
        strstr(text, "\ngodwit_gpu_sm_clock_hertz{gpu=\"0\",bus=\"0000:01:00.0\"} 1980000000\n"));
    cr_expect_not_null(
        strstr(text, "\ngodwit_gpu_energy_joules_total{gpu=\"0\",bus=\"0000:01:00.0\"} 123456.789\n"));
    free(text);
}

/* The control socket. */

static void count_stop(void *context, gw_control_request request) {
    atomic_fetch_add((_Atomic int *)context, request == GW_CONTROL_STOP ? 1 : 100);
}

/* Makes a directory whose path is longer than a Unix socket's may be. */
static char *deep_folder(char path[400]) {
    strcpy(path, "/tmp/godwit-console-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    for (int i = 0; i < 3; i++) {
        strcat(path, "/a-folder-with-a-name-that-makes-the-path-of-the-socket-long");
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    return path;
}

static void remove_deep(char *path) {
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(rmdir(path), 0, "%s", path);
        *strrchr(path, '/') = '\0';
    }
}

Test(control, answers_and_cleans_up) {
    gw_err err;
    char dir[400], path[500];
    deep_folder(dir);
    _Atomic int stops = 0;
    gw_board *board = gw_board_open(&err);
    gw_control *control =
        gw_control_open(dir, &(gw_api_sources){.board = board}, count_stop, NULL, &stops, &err);
    cr_assert_not_null(control, "%s", err.text);
    struct stat status;
    snprintf(path, sizeof path, "%s/control.sock", dir);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0600);

    char *answer = gw_control_ask(dir, "status", &err);
    cr_assert_not_null(answer, "%s", err.text);
    cr_assert_not_null(strstr(answer, "starting"));
    free(answer);
    gw_board_publish(board, rig_busy_snapshot());
    answer = gw_control_ask(dir, "status", &err);
    cr_assert_not_null(strstr(answer, "\"step\":312"));
    free(answer);
    answer = gw_control_ask(dir, "stop", &err);
    cr_assert_str_eq(answer, "{\"ok\":true}");
    free(answer);
    cr_assert_eq(atomic_load(&stops), 1);
    answer = gw_control_ask(dir, "dance", &err);
    cr_assert_not_null(strstr(answer, "error"));
    free(answer);

    gw_control_close(control, NULL, NULL);
    cr_assert_neq(stat(path, &status), 0);
    cr_assert_null(gw_control_ask(dir, "status", &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND);
    gw_board_close(board);
    remove_deep(dir);
}

Test(control, a_request_too_long_gets_no_answer_and_harms_nobody) {
    gw_err err;
    char dir[400], longer[600];
    deep_folder(dir);
    gw_board *board = gw_board_open(&err);
    _Atomic int stops = 0;
    gw_control *control =
        gw_control_open(dir, &(gw_api_sources){.board = board}, count_stop, NULL, &stops, &err);
    cr_assert_not_null(control, "%s", err.text);
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    cr_assert_null(gw_control_ask(dir, longer, &err));
    char *answer = gw_control_ask(dir, "stop", &err);
    cr_assert_not_null(answer, "%s", err.text);
    free(answer);
    gw_control_close(control, NULL, NULL);
    gw_board_close(board);
    remove_deep(dir);
}

/* The socket listens, but no connection is accepted: the queue is full, and a further client is told so. */
Test(control, a_stopped_peer_is_told_from_one_that_answers) {
    gw_err err;
    char dir[] = "/tmp/godwit-console-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/control.sock", dir);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), waiting;
    cr_assert_eq(bind(listening, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(listening, 1), 0);
    do {
        waiting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        cr_assert_geq(waiting, 0);
    } while (connect(waiting, (struct sockaddr *)&at, sizeof at) == 0);
    cr_assert_eq(errno, EAGAIN);
    cr_expect_null(gw_control_ask(dir, "status", &err));
    cr_expect_eq(err.code, GW_E_TIMEOUT);
    cr_expect_not_null(strstr(err.text, "does not answer: its machine is very busy, or it hangs"), "%s",
                       err.text);
    close(listening);
    unlink(at.sun_path);
    cr_expect_eq(rmdir(dir), 0);
}

typedef struct served {
    char dir[40];
    gw_board *board;
    gw_control *control;
    _Atomic int *stops;
    struct sockaddr_un at;
} served;

static served serve(void) {
    gw_err err;
    served s = {.dir = "/tmp/godwit-console-XXXXXX", .at = {.sun_family = AF_UNIX}};
    cr_assert_not_null(mkdtemp(s.dir));
    s.stops = calloc(1, sizeof *s.stops);
    s.board = gw_board_open(&err);
    s.control = gw_control_open(s.dir, &(gw_api_sources){.board = s.board}, count_stop, NULL, s.stops, &err);
    cr_assert_not_null(s.control, "%s", err.text);
    snprintf(s.at.sun_path, sizeof s.at.sun_path, "%s/control.sock", s.dir);
    return s;
}

static void end_serving(served *s) {
    gw_control_close(s->control, NULL, NULL);
    gw_board_close(s->board);
    free(s->stops);
    cr_expect_eq(rmdir(s->dir), 0);
}

/* The server does not try to accept the connection all the time, and answers when it can. */
Test(control, waits_for_a_descriptor_without_spinning) {
    char answer[200];
    served server = serve();
    rig_ask_without_descriptors((struct sockaddr *)&server.at, sizeof server.at, "stop\n", answer,
                                sizeof answer);
    cr_expect_str_eq(answer, "{\"ok\":true}\n");
    cr_expect_eq(atomic_load(server.stops), 1);
    end_serving(&server);
}

/* The peer was stopped and goes on: the client has reported a failure meanwhile. */
Test(control, what_is_no_longer_asked_for_is_not_done) {
    gw_err err;
    static const char *const requests[] = {"stop\n", "force-view\n"};
    served server = serve();
    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), free_fd = dup(fd);
        close(free_fd);
        struct rlimit usual, none;
        cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
        none = usual;
        none.rlim_cur = (rlim_t)free_fd; /* the connection is not accepted before the client has ended */
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        cr_assert_eq(connect(fd, (struct sockaddr *)&server.at, sizeof server.at), 0);
        cr_assert_eq(send(fd, requests[i], strlen(requests[i]), MSG_NOSIGNAL), (ssize_t)strlen(requests[i]));
        close(fd);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
        free(gw_control_ask(server.dir, "status", &err)); /* which is answered after it */
    }
    cr_expect_eq(atomic_load(server.stops), 0);
    end_serving(&server);
}

/* A client that has finished sending waits for the answer. */
Test(control, who_only_says_no_more_is_still_there) {
    char answer[200];
    served server = serve();
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&server.at, sizeof server.at), 0);
    cr_assert_eq(send(fd, "stop\n", 5, MSG_NOSIGNAL), 5);
    shutdown(fd, SHUT_WR);
    ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
    cr_assert_gt(got, 0);
    answer[got] = '\0';
    cr_expect_str_eq(answer, "{\"ok\":true}\n");
    cr_expect_eq(atomic_load(server.stops), 1);
    close(fd);
    end_serving(&server);
}
