/* Token files that several threads read. The test controls the order of the threads and the clock. */
#include "kernels/data/tokens/hash.h"

#include "core/base/log.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 5, HEAD = 6, LINES = 40, LINE = 300 };

TestSuite(token_hash, .init = scratch_open, .fini = scratch_close);

/* Sizes around pieces of 1 MiB. */
static const size_t sizes[FILES] = {HEAD + 2, (9 << 20) + HEAD, 700, (1 << 20) + HEAD + 2, (1 << 20) + HEAD};

static gw_plain_file opened[FILES];
static uint8_t *bytes[FILES];

static void write_files(void) {
    for (uint32_t i = 0; i < FILES; i++) {
        char name[8];
        gw_err err;
        snprintf(name, sizeof name, "file-%u", i);
        bytes[i] = calloc(sizes[i], 1);
        for (size_t k = 0; k < sizes[i]; k++) bytes[i][k] = (uint8_t)(k * k % (100 + i));
        bytes[i][0] = bytes[i][1] = 0xff; /* a byte of the header, and no token */
        const char *path = strdup(scratch_write(name, bytes[i], sizes[i]));
        cr_assert(gw_plain_open(path, &opened[i], &err), "%s", err.text);
    }
}

/* The order of the threads. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int waits = -1, until_begun = -1, until_failed = -1; /* number of a file; -1: none */
static bool begun[FILES], failed[FILES];

bool __real_gw_plain_read(const gw_plain_file *file, uint64_t at, void *to, size_t count, gw_err *err);
bool __wrap_gw_plain_read(const gw_plain_file *file, uint64_t at, void *to, size_t count, gw_err *err);

bool __wrap_gw_plain_read(const gw_plain_file *file, uint64_t at, void *to, size_t count, gw_err *err) {
    int number = (int)(file - opened);
    pthread_mutex_lock(&lock);
    begun[number] = true;
    pthread_cond_broadcast(&changed);
    while (number == waits &&
           ((until_begun >= 0 && !begun[until_begun]) || (until_failed >= 0 && !failed[until_failed])))
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    bool read = __real_gw_plain_read(file, at, to, count, err);
    pthread_mutex_lock(&lock);
    if (!read) failed[number] = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return read;
}

/* The clock and the log. */

static bool passes; /* whether each look at the clock advances it by a second; otherwise it stands */
static _Atomic int64_t second;

int __wrap_clock_gettime(clockid_t clock, struct timespec *at);
int __wrap_clock_gettime(clockid_t clock, struct timespec *at) {
    (void)clock;
    *at = (struct timespec){.tv_sec = passes ? atomic_fetch_add(&second, 1) : 0};
    return 0;
}

static char lines[LINES][LINE];
static uint32_t line_count;

static void sink(void *context, gw_level level, const char *room, const char *text) {
    (void)context;
    cr_assert(level == GW_INFO && strcmp(room, "data") == 0);
    pthread_mutex_lock(&lock);
    cr_assert_lt(line_count, LINES);
    snprintf(lines[line_count++], LINE, "%s", text);
    pthread_mutex_unlock(&lock);
}

/* Tests. */

static void expect_contents(uint32_t head, uint32_t width, uint32_t threads) {
    gw_token_content contents[FILES];
    gw_err err;
    gw_token_form forms[FILES];
    for (uint32_t i = 0; i < FILES; i++) forms[i] = (gw_token_form){.head = head, .width = width};
    cr_assert(gw_token_hash(opened, forms, FILES, threads, contents, &err), "%s", err.text);
    for (uint32_t i = 0; i < FILES; i++) {
        gw_hash hash;
        uint32_t largest = 0;
        gw_blake2b(bytes[i], sizes[i], &hash, sizeof hash);
        for (size_t at = head; at + width <= sizes[i]; at += width) {
            uint32_t token = bytes[i][at] + (width == 2 ? 256u * bytes[i][at + 1] : 0);
            if (token > largest) largest = token;
        }
        cr_expect(gw_hash_equal(&contents[i].hash, &hash), "file %u, %u threads", i, threads);
        cr_expect_eq(contents[i].largest, largest, "file %u, %u threads: %u", i, threads,
                     contents[i].largest);
    }
}

Test(token_hash, contents_do_not_depend_on_threads) {
    static const uint32_t threads[] = {1, 2, FILES, 16};
    write_files();
    for (int i = 0; i < 4; i++) {
        expect_contents(0, 1, threads[i]);
        expect_contents(HEAD, 1, threads[i]);
        expect_contents(HEAD, 2, threads[i]);
    }
    cr_expect(gw_token_hash_threads() >= 1 && gw_token_hash_threads() <= 16);
}

/* The test hangs if files are read one after the other. */
Test(token_hash, several_files_are_read_at_a_time, .timeout = 60) {
    write_files();
    waits = 0;
    until_begun = 1;
    expect_contents(0, 1, 2);
}

/* Two files have shrunk; the one with the higher number fails first. */
Test(token_hash, the_first_file_that_fails_is_named, .timeout = 60) {
    gw_token_content contents[FILES];
    write_files();
    cr_assert(truncate(opened[1].path, 9) == 0 && truncate(opened[3].path, 9) == 0);
    static const uint32_t threads[] = {1, 2, 16};
    for (int i = 0; i < 3; i++) {
        gw_err err = {0};
        if (threads[i] > 1) {
            waits = 1;
            until_failed = 3;
        }
        memset(failed, 0, sizeof failed);
        gw_token_form forms[FILES];
        for (uint32_t k = 0; k < FILES; k++) forms[k] = (gw_token_form){.head = HEAD, .width = 2};
        cr_assert_not(gw_token_hash(opened, forms, FILES, threads[i], contents, &err));
        cr_expect_eq(err.code, GW_E_CORRUPT);
        cr_expect_not_null(strstr(err.text, "file-1"), "%u threads: %s", threads[i], err.text);
    }
}

/* Each piece looks at the clock once: the first line follows after three pieces, and then one after every
 * third. The files have 2, 10, 2, 3 and 2 pieces, with headers. */
Test(token_hash, what_takes_long_is_told) {
    write_files();
    gw_log_set_sink(sink, NULL);
    expect_contents(HEAD, 2, 1);
    cr_assert_eq(line_count, 0, "%s", lines[0]);
    passes = true;
    expect_contents(HEAD, 2, 1);
    cr_assert_eq(line_count, 7, "%u", line_count);
    char words[100];
    snprintf(words, sizeof words, "reading %s; 0.00 of 0.01 GB of data, 0 MB/s", opened[1].path);
    cr_expect_str_eq(lines[0], words);
    cr_expect_not_null(strstr(lines[3], "file-1; 0.01 of 0.01 GB of data, 1 MB/s"), "%s", lines[3]);
    cr_expect_not_null(strstr(lines[5], "file-4; "), "%s", lines[5]);
    cr_expect_str_eq(lines[6], "read 0.01 GB of data in 20 s");
    gw_log_set_sink(NULL, NULL);
}
