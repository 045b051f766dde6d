/* The merged log of `godwit launch`: whole lines, each behind the name of its host. */
#include "tools/godwit/launch/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ends[2];
static gw_launch_outlet outlet;
static gw_launch_source one, two;

static void open_log(void) {
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    outlet = gw_launch_outlet_on(ends[1]);
    cr_assert_not(outlet.colours);
    one = (gw_launch_source){.to = &outlet, .name = "a", .width = 3};
    two = (gw_launch_source){.to = &outlet, .name = "bcd", .width = 3, .colour = 1};
}

static void take(gw_launch_source *source, const char *text) {
    gw_launch_source_take(source, text, strlen(text));
}

static void expect(const char *expected) {
    static char got[1 << 16];
    gw_launch_outlet_write(&outlet, false);
    ssize_t count = read(ends[0], got, sizeof got - 1);
    got[count > 0 ? count : 0] = '\0';
    cr_expect_str_eq(got, expected);
}

Test(log, lines_of_two_hosts_stay_whole) {
    open_log();
    take(&one, "first ha");
    take(&two, "x\ny\n");
    take(&one, "lf\nno end");
    expect("bcd | x\nbcd | y\na   | first half\n");
    gw_launch_source_end(&one);
    gw_launch_source_end(&one);
    gw_launch_source_end(&two);
    expect("a   | no end\n");
    take(&one, "\n");
    expect("a   | \n");
    outlet.colours = true;
    take(&two, "x\n");
    expect("\033[33mbcd |\033[0m x\n");
    gw_launch_outlet_close(&outlet);
}

Test(log, a_line_that_is_too_long_is_broken) {
    static char line[GW_LAUNCH_LINE + 2], expected[GW_LAUNCH_LINE + 100];
    open_log();
    memset(line, 'x', sizeof line - 1);
    take(&one, line);
    take(&one, "y\n");
    strcpy(expected, "a   | ");
    memset(expected + 6, 'x', GW_LAUNCH_LINE);
    strcpy(expected + 6 + GW_LAUNCH_LINE, "\na   | xy\n");
    expect(expected);
    gw_launch_outlet_close(&outlet);
}

/* A terminal that stands still takes a bounded amount of memory, and is never waited for. */
Test(log, what_is_not_read_waits_and_tells_when_it_is_much) {
    static char block[4096];
    size_t taken = 0, got = 0;
    open_log();
    memset(block, 'x', sizeof block);
    block[sizeof block - 1] = '\n';
    for (; !gw_launch_outlet_is_full(&outlet) && taken < 4 * GW_LAUNCH_WAITING; taken += sizeof block) {
        gw_launch_source_take(&one, block, sizeof block);
        gw_launch_outlet_write(&outlet, false);
    }
    cr_expect(taken >= GW_LAUNCH_WAITING && taken < 2 * GW_LAUNCH_WAITING, "%zu", taken);
    while (gw_launch_outlet_waits(&outlet)) {
        ssize_t count = read(ends[0], block, sizeof block);
        cr_assert_gt(count, 0);
        got += (size_t)count;
        gw_launch_outlet_write(&outlet, false);
    }
    cr_expect_not(gw_launch_outlet_is_full(&outlet));
    for (ssize_t count; (count = read(ends[0], block, sizeof block)) > 0;) got += (size_t)count;
    cr_expect_eq(got, taken + taken / sizeof block * strlen("a   | "));
    gw_launch_outlet_close(&outlet);
}

Test(log, a_reader_that_has_gone_stops_nothing) {
    open_log();
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    take(&one, "x\n");
    gw_launch_outlet_write(&outlet, true);
    cr_expect(outlet.closed && !gw_launch_outlet_waits(&outlet));
    take(&one, "y\n");
    cr_expect_not(gw_launch_outlet_waits(&outlet));
    gw_launch_outlet_close(&outlet);
}
