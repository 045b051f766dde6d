/* Output by a thread of its own: no caller waits for the reader. */
#include "tools/godwit/show/async_writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static gw_async_writer *open_writer(int fd) {
    gw_err err;
    gw_async_writer *writer = gw_async_writer_open(fd, &err);
    cr_assert_not_null(writer, "%s", err.text);
    return writer;
}

/* Writes the numbered piece of 1000 bytes. */
static void piece(uint32_t number, char text[1001]) {
    int length = snprintf(text, 1001, "%u:", number);
    memset(text + length, 'a' + (int)(number % 26), (size_t)(999 - length));
    memcpy(text + 999, "\n", 2);
}

/* Reads the next piece, which must be whole, and returns its number. */
static uint32_t next_piece(int fd) {
    char expected[1001], got[1001] = "";
    for (size_t used = 0; used < 1000;) {
        ssize_t count = read(fd, got + used, 1000 - used);
        cr_assert_gt(count, 0);
        used += (size_t)count;
    }
    uint32_t number = (uint32_t)strtoul(got, NULL, 10);
    piece(number, expected);
    cr_assert_eq(memcmp(got, expected, 1000), 0, "piece %u", number);
    return number;
}

static void expect_piece(int fd, uint32_t number) {
    cr_assert_eq(next_piece(fd), number);
}

Test(async_writer, whoever_prints_does_not_wait_for_who_reads) {
    enum { PIECES = 2000 }; /* far more than fits into a pipe */
    int ends[2];
    char text[1001];
    cr_assert_eq(pipe(ends), 0);
    gw_async_writer *writer = open_writer(ends[1]);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_async_writer_put(writer, text, 1000);
    }
    gw_async_writer_flush(writer, 1);
    cr_assert_not(gw_async_writer_idle(writer));
    for (uint32_t i = 0; i < PIECES; i++) expect_piece(ends[0], i);
    cr_assert_eq(gw_async_writer_close(writer), 0);
    close(ends[1]);
    cr_assert_eq(read(ends[0], text, 1), 0, "nothing more");
}

Test(async_writer, what_waits_is_bounded_and_what_is_left_out_is_counted) {
    enum { PIECES = GW_ASYNC_WRITER_BYTES / 1000 + 1000 };
    int ends[2];
    char text[1001];
    cr_assert_eq(pipe(ends), 0);
    gw_async_writer *writer = open_writer(ends[1]);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_async_writer_put(writer, text, 1000);
    }
    uint64_t left_out = gw_async_writer_left_out(writer);
    cr_assert(left_out > 500 && left_out <= 1000, "%lu", left_out);
    expect_piece(ends[0], 0);
    /* The pieces that arrive are whole and in order; which are missing depends on when the pipe was full. */
    for (uint32_t i = 1, last = 0; i < PIECES - left_out; i++) {
        uint32_t number = next_piece(ends[0]);
        cr_assert_gt(number, last);
        last = number;
    }
    gw_async_writer_flush(writer, UINT64_C(60000000000));
    gw_async_writer_put(writer, text, 1000); /* there is room again */
    cr_assert_eq(gw_async_writer_close(writer), 0);
    expect_piece(ends[0], PIECES - 1);
}

Test(async_writer, a_reader_that_goes_is_an_error_and_no_signal) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    signal(SIGPIPE, SIG_DFL);
    gw_async_writer *writer = open_writer(ends[1]);
    cr_assert_eq(gw_async_writer_failure(writer), 0);
    close(ends[0]);
    gw_async_writer_put(writer, "x\n", 2);
    gw_async_writer_flush(writer, UINT64_C(60000000000));
    cr_assert_eq(gw_async_writer_failure(writer), EPIPE);
    gw_async_writer_put(writer, "y\n", 2);
    cr_assert_eq(gw_async_writer_close(writer), EPIPE);
}

Test(async_writer, a_full_disk_is_told_at_the_end) {
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    gw_async_writer *writer = open_writer(fd);
    gw_async_writer_put(writer, "x\n", 2);
    cr_assert_eq(gw_async_writer_close(writer), ENOSPC);
    close(fd);
}

/* The disk is full for a while, in the middle of a line. */
Test(async_writer, what_comes_after_a_full_disk_is_written) {
    char path[] = "/tmp/godwit-writer-XXXXXX", text[100] = "";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    unlink(path);
    gw_async_writer *writer = open_writer(fd);
    struct rlimit usual, full;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &usual), 0);
    full = (struct rlimit){.rlim_cur = 6, .rlim_max = usual.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
    gw_async_writer_put(writer, "one\n", 4);
    gw_async_writer_put(writer, "two\n", 4);
    gw_async_writer_put(writer, "three\n", 6);
    gw_async_writer_flush(writer, UINT64_C(60000000000));
    cr_expect_eq(gw_async_writer_failure(writer), EFBIG);
    cr_expect_not(gw_async_writer_failure_stays(writer, EFBIG));
    cr_expect_eq(gw_async_writer_left_out(writer), 2);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &usual), 0);
    gw_async_writer_put(writer, "four\n", 5);
    gw_async_writer_put(writer, "five\n", 5);
    gw_async_writer_flush(writer, UINT64_C(60000000000));
    cr_expect_eq(gw_async_writer_left_out(writer), 2);
    cr_expect_eq(gw_async_writer_close(writer), 0);
    cr_assert_gt(pread(fd, text, sizeof text - 1, 0), 0);
    cr_expect_str_eq(text, "one\ntw\nfour\nfive\n");
    close(fd);
}

/* Another program may leave a terminal in this mode. */
Test(async_writer, a_descriptor_that_does_not_block_loses_nothing) {
    enum { PIECES = 300 };
    int ends[2];
    char text[1001];
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    cr_assert_eq(fcntl(ends[0], F_SETFL, 0), 0);
    gw_async_writer *writer = open_writer(ends[1]);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_async_writer_put(writer, text, 1000);
    }
    for (uint32_t i = 0; i < PIECES; i++) expect_piece(ends[0], i);
    cr_assert_eq(gw_async_writer_close(writer), 0);
}

/* Imitates a file whose server fails now and then: write() in place of the C library's. */
static atomic_int failing_fd = -1, fails_with, failures, good_bytes;

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fd != atomic_load(&failing_fd)) return syscall(SYS_write, fd, bytes, count);
    if (atomic_load(&good_bytes) == 0 && atomic_load(&failures) > 0) {
        atomic_fetch_sub(&failures, 1);
        errno = atomic_load(&fails_with);
        return -1;
    }
    size_t good = (size_t)atomic_exchange(&good_bytes, 0);
    return syscall(SYS_write, fd, bytes, good > 0 && good < count ? good : count);
}

static int open_failing(int failure, int times) {
    char path[] = "/tmp/godwit-writer-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    unlink(path);
    atomic_store(&fails_with, failure);
    atomic_store(&failures, times);
    atomic_store(&failing_fd, fd);
    return fd;
}

Test(async_writer, errors_that_pass_cost_nothing) {
    static const int passing[] = {EIO, ESTALE, ETIMEDOUT};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        char text[100] = "";
        int fd = open_failing(passing[i], 3);
        atomic_store(&good_bytes, 2); /* in the middle of a line */
        gw_async_writer *writer = open_writer(fd);
        gw_async_writer_put(writer, "one\n", 4);
        gw_async_writer_put(writer, "two\n", 4);
        gw_async_writer_flush(writer, UINT64_C(60000000000));
        cr_expect_eq(gw_async_writer_failure(writer), 0);
        gw_async_writer_put(writer, "three\n", 6);
        cr_expect_eq(gw_async_writer_close(writer), 0);
        cr_assert_gt(pread(fd, text, sizeof text - 1, 0), 0);
        cr_expect_str_eq(text, "one\ntwo\nthree\n");
        close(fd);
    }
}

Test(async_writer, what_does_not_fit_into_an_outage_is_counted) {
    enum { PIECES = GW_ASYNC_WRITER_BYTES / 1000 + 100 };
    char text[1001];
    int fd = open_failing(ETIMEDOUT, INT_MAX);
    gw_async_writer *writer = open_writer(fd);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_async_writer_put(writer, text, 1000);
    }
    uint64_t left_out = gw_async_writer_left_out(writer);
    cr_expect_eq(left_out, PIECES - GW_ASYNC_WRITER_BYTES / 1000);
    atomic_store(&failures, 0);
    gw_async_writer_flush(writer, UINT64_C(60000000000));
    piece(PIECES, text);
    gw_async_writer_put(writer, text, 1000);
    cr_expect_eq(gw_async_writer_close(writer), 0);
    cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
    for (uint32_t i = 0; i < PIECES - left_out; i++) expect_piece(fd, i);
    expect_piece(fd, PIECES);
    close(fd);
}

/* Closing does not wait for the reader. */
Test(async_writer, an_outage_that_outlasts_the_end_is_told) {
    int fd = open_failing(EIO, INT_MAX);
    gw_async_writer *writer = open_writer(fd);
    for (int i = 0; i < 1000; i++) gw_async_writer_put(writer, "x\n", 2);
    cr_expect_eq(gw_async_writer_close(writer), EIO);
    cr_expect_gt(atomic_load(&failures), INT_MAX - 100, "not each piece for so long");
    close(fd);
}

Test(async_writer, a_terminal_that_hung_up_stays_so) {
    int main_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(main_end >= 0 && grantpt(main_end) == 0 && unlockpt(main_end) == 0);
    int fd = open(ptsname(main_end), O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    gw_async_writer *writer = open_writer(fd);
    close(main_end);
    gw_async_writer_put(writer, "x\n", 2);
    gw_async_writer_flush(writer, UINT64_C(60000000000));
    cr_expect_eq(gw_async_writer_failure(writer), EIO);
    cr_expect(gw_async_writer_failure_stays(writer, EIO));
    cr_expect_eq(gw_async_writer_close(writer), EIO);
    close(fd);
}
