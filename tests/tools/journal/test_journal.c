/* The journal keeps what it was given, in order and bounded, whatever lies in its files, and tells how the life
 * before ended. */
#include "scratch.h"
#include "tools/godwit/journal/journal.h"
#include "tools/godwit/journal/life.h"
#include "tools/godwit/journal/read.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATIENCE_NS UINT64_C(120000000000)

static gw_directory directory;

static void open_directory(void) {
    gw_err err;
    scratch_open();
    cr_assert(gw_directory_open(scratch_path("d"), &directory, &err), "%s", err.text);
}

static void close_directory(void) {
    gw_directory_close(&directory);
    scratch_close();
}

TestSuite(journal, .init = open_directory, .fini = close_directory);

static gw_journal *open_journal(void) {
    gw_err err;
    gw_journal *journal = gw_journal_open(&directory, &err);
    cr_assert(journal != NULL, "%s", err.text);
    return journal;
}

static void add(gw_journal *journal, int number) {
    char line[100];
    snprintf(line, sizeof line, "{\"event\":\"log\",\"time\":%d.5,\"text\":\"line %d\"}", number, number);
    gw_journal_add(journal, line);
}

/* Writes the file of earlier lives. */
static void write_file(const char *name, const char *text) {
    FILE *file = fopen(scratch_path(name), "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The times of the events that were read. */
typedef struct times {
    int count;
    double first, last;
    bool rising;
} times;

static bool take(void *context, const char *line, size_t length, json_t *event) {
    times *read = context;
    double time = gw_journal_number(event, "time", -1);
    cr_assert(length > 0 && line[0] == '{');
    if (read->count++ == 0) read->first = time;
    read->rising &= time >= read->last;
    read->last = time;
    return true;
}

static times read_all(gw_journal_found *found) {
    times read = {.rising = true};
    gw_err err;
    cr_assert(gw_journal_read(scratch_path("d"), take, &read, found, &err), "%s", err.text);
    return read;
}

Test(journal, lines_of_all_lives_are_read_in_order) {
    gw_journal_found found;
    for (int life = 0; life < 3; life++) {
        gw_journal *journal = open_journal();
        for (int i = 0; i < 100; i++) add(journal, life * 100 + i);
        cr_assert(gw_journal_close(journal, PATIENCE_NS));
    }
    times read = read_all(&found);
    cr_assert_eq(read.count, 300);
    cr_assert(read.rising && found.damaged == 0 && found.lines == 300);
}

Test(journal, it_takes_no_more_than_two_files_and_keeps_the_newest) {
    char line[4000];
    struct stat status;
    gw_journal *journal = open_journal();
    const int lines = 3 * GW_JOURNAL_FILE_BYTES / (int)sizeof line;
    for (int i = 0; i < lines; i++) {
        int used = snprintf(line, sizeof line, "{\"event\":\"log\",\"time\":%d,\"text\":\"", i);
        memset(line + used, 'x', sizeof line - 3 - (size_t)used);
        strcpy(line + sizeof line - 3, "\"}");
        gw_journal_add(journal, line);
        if (i % 100 == 0) { /* the lines that wait are bounded: this test gives them slowly */
            cr_assert(gw_journal_close(journal, PATIENCE_NS));
            journal = open_journal();
        }
    }
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    times read = read_all(NULL);
    cr_assert(read.rising);
    cr_assert_eq((int)read.last, lines - 1);
    cr_assert_gt(read.count, GW_JOURNAL_FILE_BYTES / (int)sizeof line);
    cr_assert_eq(stat(scratch_path("d/" GW_JOURNAL_NAME), &status), 0);
    cr_assert_leq(status.st_size, GW_JOURNAL_FILE_BYTES);
    cr_assert_eq(stat(scratch_path("d/" GW_JOURNAL_EARLIER), &status), 0);
    cr_assert_leq(status.st_size, GW_JOURNAL_FILE_BYTES);
}

Test(journal, a_torn_line_costs_no_other) {
    gw_journal_found found;
    write_file("d/" GW_JOURNAL_NAME, "{\"event\":\"log\",\"time\":1}\n{\"event\":\"lo");
    gw_journal *journal = open_journal();
    add(journal, 2);
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    times read = read_all(&found);
    cr_assert_eq(read.count, 2);
    cr_assert_eq(found.damaged, 1);
}

Test(journal, what_is_no_event_is_skipped_and_counted) {
    gw_journal_found found;
    write_file("d/" GW_JOURNAL_NAME,
               "\n[1]\n{}\n{\"event\":1,\"time\":2}\n{\"event\":\"a\",\"time\":\"b\"}\nnull\n\x80\xff\n"
               "{\"event\":\"a\",\"event\":\"b\",\"time\":3}\n{\"event\":\"good\",\"time\":4}\n[[[[[[[[");
    times read = read_all(&found);
    cr_assert_eq(read.count, 1);
    cr_assert_eq((int)found.damaged, 8);
}

Test(journal, links_and_other_things_are_refused) {
    gw_err err;
    times read = {0};
    write_file("other", "{\"event\":\"a\",\"time\":1}\n");
    cr_assert_eq(symlink(scratch_path("other"), scratch_path("d/" GW_JOURNAL_NAME)), 0);
    cr_assert_not(gw_journal_read(scratch_path("d"), take, &read, NULL, &err));
    cr_assert_eq(err.code, GW_E_INVALID, "%s", err.text);
    cr_assert_null(gw_journal_open(&directory, &err));
    cr_assert_eq(unlink(scratch_path("d/" GW_JOURNAL_NAME)), 0);
    cr_assert_eq(mkfifo(scratch_path("d/" GW_JOURNAL_NAME), 0600), 0);
    cr_assert_not(gw_journal_read(scratch_path("d"), take, &read, NULL, &err));
    cr_assert_eq(err.code, GW_E_INVALID, "%s", err.text);
    cr_assert_null(gw_journal_open(&directory, &err));
    cr_assert_eq(read.count, 0);
}

Test(journal, without_one_reading_says_so) {
    gw_err err;
    times read = {0};
    cr_assert_not(gw_journal_read(scratch_path("d"), take, &read, NULL, &err));
    cr_assert_eq(err.code, GW_E_NOTFOUND, "%s", err.text);
}

static void note_number(void *context, uint64_t number, const char *line) {
    uint64_t *last = context;
    cr_assert(*last == 0 || number == *last + 1);
    cr_assert_neq(strstr(line, "event"), NULL);
    *last = number;
}

Test(journal, the_tail_has_the_last_lines_also_of_earlier_lives) {
    uint64_t last = 0;
    gw_journal *journal = open_journal();
    for (int i = 0; i < 10; i++) add(journal, i);
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    journal = open_journal();
    cr_assert_eq(gw_journal_tail(journal, 0, note_number, &last), 10);
    cr_assert_eq(last, 10);
    for (int i = 0; i < 2 * GW_JOURNAL_TAIL; i++) add(journal, i);
    last = 0;
    cr_assert_eq(gw_journal_tail(journal, 0, note_number, &last), 10 + 2 * GW_JOURNAL_TAIL);
    last = 0;
    gw_journal_tail(journal, 9 + 2 * GW_JOURNAL_TAIL, note_number, &last);
    cr_assert_eq(last, 10 + 2 * GW_JOURNAL_TAIL);
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
}

/* A disk that does not answer, in place of the directory's. */
static pthread_mutex_t stalls = PTHREAD_MUTEX_INITIALIZER;
static ssize_t (*real_write)(gw_io *io, int fd, const void *bytes, size_t count);

static ssize_t stalled_write(gw_io *io, int fd, const void *bytes, size_t count) {
    pthread_mutex_lock(&stalls);
    pthread_mutex_unlock(&stalls);
    return real_write(io, fd, bytes, count);
}

Test(journal, a_disk_that_hangs_costs_bounded_memory_and_is_told_later) {
    real_write = directory.io.write;
    directory.io.write = stalled_write;
    gw_journal *journal = open_journal();
    pthread_mutex_lock(&stalls);
    const int lines = 3 * GW_JOURNAL_WAITING_BYTES / 40;
    for (int i = 0; i < lines; i++) add(journal, i); /* never waits */
    cr_assert_not(gw_journal_close(journal, 1000000), "the thread hangs in a write");
    pthread_mutex_unlock(&stalls);
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    journal = open_journal();
    add(journal, lines);
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    times read = read_all(NULL);
    cr_assert_lt(read.count, lines);
    cr_assert_gt(read.count, GW_JOURNAL_WAITING_BYTES / 80);
}

/* Lives. */

static gw_last_life last_of(const char *journal, const char *boot_id, uint64_t memory_kills) {
    gw_life now = {.memory_kills = memory_kills};
    gw_last_life last;
    snprintf(now.boot_id, sizeof now.boot_id, "%s", boot_id);
    write_file("d/" GW_JOURNAL_NAME, journal);
    gw_life_find_last(scratch_path("d"), &now, &last);
    return last;
}

#define LIFE "{\"event\":\"life\",\"time\":10,\"boot_id\":\"b1\",\"memory_kills\":3}\n"
#define STEP "{\"event\":\"progress\",\"time\":20,\"step\":7}\n"

Test(journal, it_tells_how_the_life_before_ended) {
    gw_last_life last;
    cr_assert_eq(last_of(STEP, "b1", 3).end, GW_LIFE_NONE);
    cr_assert_eq(last_of(LIFE STEP "{\"event\":\"done\",\"time\":30}\n", "b2", 9).end, GW_LIFE_ENDED);
    last = last_of(LIFE STEP, "b1", 3);
    cr_assert_eq(last.end, GW_LIFE_KILLED);
    cr_assert(last.began == 10 && last.last == 20 && last.step == 7);
    cr_assert_eq(last_of(LIFE STEP, "b2", 9).end, GW_LIFE_MACHINE);
    cr_assert_eq(last_of(LIFE STEP, "b1", 4).end, GW_LIFE_MEMORY);
    last = last_of(LIFE "{\"event\":\"crash\",\"time\":30,\"signal\":11}\n", "b1", 3);
    cr_assert(last.end == GW_LIFE_CRASHED && last.signal == 11);
    cr_assert_neq(strstr(last.text, "Segmentation"), NULL, "%s", last.text);
    last = last_of(
        LIFE "{\"event\":\"error\",\"time\":30,\"level\":\"error\",\"text\":\"stuck: " GW_LIFE_LAST_WORDS
             "\"}\n",
        "b1", 3);
    cr_assert(last.end == GW_LIFE_GAVE_UP);
    cr_assert_neq(strstr(last.text, "stuck"), NULL, "%s", last.text);
    /* Only the last life counts. */
    cr_assert_eq(last_of(LIFE STEP LIFE "{\"event\":\"done\",\"time\":30}\n", "b1", 3).end, GW_LIFE_ENDED);
    cr_assert_eq(last_of(LIFE "{\"event\":\"done\",\"time\":30}\n" LIFE, "b1", 3).end, GW_LIFE_KILLED);
}

Test(journal, a_fault_is_noted_past_the_lines_that_wait) {
    gw_life now = {0};
    gw_last_life last;
    gw_journal *journal = open_journal();
    gw_journal_add(journal, "{\"event\":\"life\",\"time\":10}");
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    journal = open_journal();
    gw_journal_note_crash(journal, SIGBUS);
    cr_assert(gw_journal_close(journal, PATIENCE_NS));
    gw_life_find_last(scratch_path("d"), &now, &last);
    cr_assert_eq(last.end, GW_LIFE_CRASHED);
    cr_assert_eq(last.signal, SIGBUS);
}
