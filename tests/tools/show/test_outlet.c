/* Output by a thread of its own: nobody who prints waits for who reads. */
#include "tools/godwit/show/outlet.h"

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

static gw_outlet *open_outlet(int fd) {
    gw_err err;
    gw_outlet *outlet = gw_outlet_open(fd, &err);
    cr_assert_not_null(outlet, "%s", err.text);
    return outlet;
}

/* The numbered piece: 1000 bytes. */
static void piece(uint32_t number, char text[1001]) {
    int length = snprintf(text, 1001, "%u:", number);
    memset(text + length, 'a' + (int)(number % 26), (size_t)(999 - length));
    memcpy(text + 999, "\n", 2);
}

/* Reads the next piece, a whole one, and returns its number. */
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

Test(outlet, whoever_prints_does_not_wait_for_who_reads) {
    enum { PIECES = 2000 }; /* far more than a pipe holds */
    int ends[2];
    char text[1001];
    cr_assert_eq(pipe(ends), 0);
    gw_outlet *outlet = open_outlet(ends[1]);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_outlet_put(outlet, text, 1000);
    }
    gw_outlet_flush(outlet, 1);
    cr_assert_not(gw_outlet_idle(outlet));
    for (uint32_t i = 0; i < PIECES; i++) expect_piece(ends[0], i);
    cr_assert_eq(gw_outlet_close(outlet), 0);
    close(ends[1]);
    cr_assert_eq(read(ends[0], text, 1), 0, "nothing more");
}

Test(outlet, what_waits_is_bounded_and_what_is_left_out_is_counted) {
    enum { PIECES = GW_OUTLET_BYTES / 1000 + 1000 };
    int ends[2];
    char text[1001];
    cr_assert_eq(pipe(ends), 0);
    gw_outlet *outlet = open_outlet(ends[1]);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_outlet_put(outlet, text, 1000);
    }
    uint64_t left_out = gw_outlet_left_out(outlet);
    cr_assert(left_out > 500 && left_out <= 1000, "%lu", left_out);
    expect_piece(ends[0], 0);
    /* Whole ones, in order; which are missing depends on when the pipe was full. */
    for (uint32_t i = 1, last = 0; i < PIECES - left_out; i++) {
        uint32_t number = next_piece(ends[0]);
        cr_assert_gt(number, last);
        last = number;
    }
    gw_outlet_flush(outlet, UINT64_C(60000000000));
    gw_outlet_put(outlet, text, 1000); /* there is room again */
    cr_assert_eq(gw_outlet_close(outlet), 0);
    expect_piece(ends[0], PIECES - 1);
}

Test(outlet, a_reader_that_goes_is_an_error_and_no_signal) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    signal(SIGPIPE, SIG_DFL);
    gw_outlet *outlet = open_outlet(ends[1]);
    cr_assert_eq(gw_outlet_failure(outlet), 0);
    close(ends[0]);
    gw_outlet_put(outlet, "x\n", 2);
    gw_outlet_flush(outlet, UINT64_C(60000000000));
    cr_assert_eq(gw_outlet_failure(outlet), EPIPE);
    gw_outlet_put(outlet, "y\n", 2);
    cr_assert_eq(gw_outlet_close(outlet), EPIPE);
}

Test(outlet, a_full_disk_is_told_at_the_end) {
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    gw_outlet *outlet = open_outlet(fd);
    gw_outlet_put(outlet, "x\n", 2);
    cr_assert_eq(gw_outlet_close(outlet), ENOSPC);
    close(fd);
}

/* The disk is full for a while, in the middle of a line. */
Test(outlet, what_comes_after_a_full_disk_is_written) {
    char path[] = "/tmp/godwit-outlet-XXXXXX", text[100] = "";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    unlink(path);
    gw_outlet *outlet = open_outlet(fd);
    struct rlimit usual, full;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &usual), 0);
    full = (struct rlimit){.rlim_cur = 6, .rlim_max = usual.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &full), 0);
    gw_outlet_put(outlet, "one\n", 4);
    gw_outlet_put(outlet, "two\n", 4);
    gw_outlet_put(outlet, "three\n", 6);
    gw_outlet_flush(outlet, UINT64_C(60000000000));
    cr_expect_eq(gw_outlet_failure(outlet), EFBIG);
    cr_expect_not(gw_outlet_failure_stays(outlet, EFBIG));
    cr_expect_eq(gw_outlet_left_out(outlet), 2);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &usual), 0);
    gw_outlet_put(outlet, "four\n", 5);
    gw_outlet_put(outlet, "five\n", 5);
    gw_outlet_flush(outlet, UINT64_C(60000000000));
    cr_expect_eq(gw_outlet_left_out(outlet), 2);
    cr_expect_eq(gw_outlet_close(outlet), 0);
    cr_assert_gt(pread(fd, text, sizeof text - 1, 0), 0);
    cr_expect_str_eq(text, "one\ntw\nfour\nfive\n");
    close(fd);
}

/* As a terminal may be left by another program. */
Test(outlet, a_descriptor_that_does_not_block_loses_nothing) {
    enum { PIECES = 300 };
    int ends[2];
    char text[1001];
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    cr_assert_eq(fcntl(ends[0], F_SETFL, 0), 0);
    gw_outlet *outlet = open_outlet(ends[1]);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_outlet_put(outlet, text, 1000);
    }
    for (uint32_t i = 0; i < PIECES; i++) expect_piece(ends[0], i);
    cr_assert_eq(gw_outlet_close(outlet), 0);
}

/* A file whose server fails now and then: what write() does there, in front of the C library's. */
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
    char path[] = "/tmp/godwit-outlet-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    unlink(path);
    atomic_store(&fails_with, failure);
    atomic_store(&failures, times);
    atomic_store(&failing_fd, fd);
    return fd;
}

Test(outlet, errors_that_pass_cost_nothing) {
    static const int passing[] = {EIO, ESTALE, ETIMEDOUT};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        char text[100] = "";
        int fd = open_failing(passing[i], 3);
        atomic_store(&good_bytes, 2); /* in the middle of a line */
        gw_outlet *outlet = open_outlet(fd);
        gw_outlet_put(outlet, "one\n", 4);
        gw_outlet_put(outlet, "two\n", 4);
        gw_outlet_flush(outlet, UINT64_C(60000000000));
        cr_expect_eq(gw_outlet_failure(outlet), 0);
        gw_outlet_put(outlet, "three\n", 6);
        cr_expect_eq(gw_outlet_close(outlet), 0);
        cr_assert_gt(pread(fd, text, sizeof text - 1, 0), 0);
        cr_expect_str_eq(text, "one\ntwo\nthree\n");
        close(fd);
    }
}

Test(outlet, what_does_not_fit_into_an_outage_is_counted) {
    enum { PIECES = GW_OUTLET_BYTES / 1000 + 100 };
    char text[1001];
    int fd = open_failing(ETIMEDOUT, INT_MAX);
    gw_outlet *outlet = open_outlet(fd);
    for (uint32_t i = 0; i < PIECES; i++) {
        piece(i, text);
        gw_outlet_put(outlet, text, 1000);
    }
    uint64_t left_out = gw_outlet_left_out(outlet);
    cr_expect_eq(left_out, PIECES - GW_OUTLET_BYTES / 1000);
    atomic_store(&failures, 0);
    gw_outlet_flush(outlet, UINT64_C(60000000000));
    piece(PIECES, text);
    gw_outlet_put(outlet, text, 1000);
    cr_expect_eq(gw_outlet_close(outlet), 0);
    cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
    for (uint32_t i = 0; i < PIECES - left_out; i++) expect_piece(fd, i);
    expect_piece(fd, PIECES);
    close(fd);
}

/* Nor is anybody kept waiting for it. */
Test(outlet, an_outage_that_outlasts_the_end_is_told) {
    int fd = open_failing(EIO, INT_MAX);
    gw_outlet *outlet = open_outlet(fd);
    for (int i = 0; i < 1000; i++) gw_outlet_put(outlet, "x\n", 2);
    cr_expect_eq(gw_outlet_close(outlet), EIO);
    cr_expect_gt(atomic_load(&failures), INT_MAX - 100, "not each piece for so long");
    close(fd);
}

Test(outlet, a_terminal_that_hung_up_stays_so) {
    int main_end = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert(main_end >= 0 && grantpt(main_end) == 0 && unlockpt(main_end) == 0);
    int fd = open(ptsname(main_end), O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    gw_outlet *outlet = open_outlet(fd);
    close(main_end);
    gw_outlet_put(outlet, "x\n", 2);
    gw_outlet_flush(outlet, UINT64_C(60000000000));
    cr_expect_eq(gw_outlet_failure(outlet), EIO);
    cr_expect(gw_outlet_failure_stays(outlet, EIO));
    cr_expect_eq(gw_outlet_close(outlet), EIO);
    close(fd);
}
