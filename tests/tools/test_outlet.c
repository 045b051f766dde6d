/* Output by a thread of its own: nobody who prints waits for who reads. */
#include "tools/godwit/outlet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    cr_expect_not(gw_outlet_failure_stays(EFBIG));
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
