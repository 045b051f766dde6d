/* What the service manager is told before, in and after the loop. */
#include "tools/godwit/show/supervisor.h"

#include "core/os/clock.h"
#include "tests/scratch.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HANG_MS = 60000 };
#define NEVER_NS (UINT64_C(3600) * 1000000000)

static int manager;
static gw_supervisor *supervisor;
static gw_node_snapshot *snapshot;

static void begin(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    scratch_open();
    snprintf(address.sun_path, sizeof address.sun_path, "%s", scratch_path("notify"));
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(manager, (const struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    unsetenv("WATCHDOG_PID");
    snapshot = calloc(1, sizeof *snapshot);
    cr_assert_not_null(snapshot);
}

static void end(void) {
    gw_supervisor_close(supervisor);
    close(manager);
    free(snapshot);
    scratch_close();
}

TestSuite(supervisor, .init = begin, .fini = end);

static void open_one(const char *watchdog_us, uint64_t ready_ns) {
    gw_err err;
    if (watchdog_us != NULL)
        setenv("WATCHDOG_USEC", watchdog_us, 1);
    else
        unsetenv("WATCHDOG_USEC");
    cr_assert(gw_supervisor_open(&supervisor, ready_ns, &err), "%s", err.text);
    cr_assert_not_null(supervisor);
}

/* The next message. */
static const char *receive(void) {
    static char text[1000];
    struct pollfd one = {.fd = manager, .events = POLLIN};
    cr_assert_eq(poll(&one, 1, HANG_MS), 1, "a message comes");
    ssize_t bytes = recv(manager, text, sizeof text - 1, 0);
    cr_assert_gt(bytes, 0);
    text[bytes] = '\0';
    return text;
}

static bool is_silent(int ms) {
    struct pollfd one = {.fd = manager, .events = POLLIN};
    return poll(&one, 1, ms) == 0;
}

/* Turns the loop until a message is there. */
static const char *receive_in(gw_loop *loop) {
    uint64_t until = gw_now_ns() + UINT64_C(1000000) * HANG_MS;
    while (is_silent(0) && gw_now_ns() < until) gw_loop_turn(loop, 1000000);
    return receive();
}

static gw_loop *open_loop(void) {
    gw_err err;
    gw_loop *loop = gw_loop_open(&err);
    cr_assert_not_null(loop);
    return loop;
}

Test(supervisor, a_start_that_takes_long_is_ready_all_the_same_and_beats) {
    open_one("20000", 1000000);
    cr_expect_str_eq(receive(), "STATUS=starting\n");
    cr_expect_str_eq(receive(), "READY=1\nWATCHDOG=1\n");
    cr_expect_str_eq(receive(), "WATCHDOG=1\n");
}

Test(supervisor, the_loop_is_ready_at_once_and_beats_itself) {
    gw_loop *loop = open_loop();
    open_one("20000", NEVER_NS);
    cr_expect_str_eq(receive(), "STATUS=starting\n");
    gw_supervisor_begin_loop(supervisor, loop);
    cr_expect_str_eq(receive(), "READY=1\nWATCHDOG=1\n");
    cr_expect(is_silent(100), "no thread beats for a loop that does not turn");
    for (int i = 0; i < 3; i++) cr_expect_str_eq(receive_in(loop), "WATCHDOG=1\n");
    gw_supervisor_end_loop(supervisor);
    cr_expect_str_eq(receive(), "WATCHDOG=1\n"); /* what comes behind the loop has limits of its own */
    gw_supervisor_begin_loop(supervisor, loop);  /* the peer begins again */
    cr_expect_str_eq(receive_in(loop), "WATCHDOG=1\n");
    gw_supervisor_end_loop(supervisor);
    gw_loop_close(loop);
}

Test(supervisor, whoever_ends_says_so_once_and_asks_for_time_until_the_end) {
    gw_loop *loop = open_loop();
    open_one(NULL, NEVER_NS);
    cr_expect_str_eq(receive(), "STATUS=starting\n");
    gw_supervisor_begin_loop(supervisor, loop);
    cr_expect_str_eq(receive(), "READY=1\n");
    gw_supervisor_show(supervisor, snapshot, true);
    cr_expect_str_eq(receive(), "STOPPING=1\nEXTEND_TIMEOUT_USEC=30000000\n");
    cr_expect(strncmp(receive(), "STATUS=step 0", 13) == 0);
    gw_supervisor_show(supervisor, snapshot, true);
    cr_expect_str_eq(receive_in(loop), "EXTEND_TIMEOUT_USEC=30000000\n");
    gw_supervisor_end_loop(supervisor);
    cr_expect_str_eq(receive(), "EXTEND_TIMEOUT_USEC=30000000\n");
    gw_loop_close(loop);
}

Test(supervisor, the_status_comes_when_it_changes_and_once_a_second_at_most) {
    char expected[40];
    open_one(NULL, NEVER_NS);
    cr_expect_str_eq(receive(), "STATUS=starting\n");
    uint64_t since = gw_now_ns();
    int told = 0;
    for (; gw_now_ns() - since < UINT64_C(1500000000); snapshot->step++) {
        gw_supervisor_show(supervisor, snapshot, false);
        if (is_silent(1)) continue;
        snprintf(expected, sizeof expected, "STATUS=step %llu", (unsigned long long)snapshot->step);
        cr_expect(strncmp(receive(), expected, strlen(expected)) == 0);
        told++;
    }
    double seconds = (double)(gw_now_ns() - since) * 1e-9;
    cr_expect(told >= 1 && told <= 1 + seconds, "%d in %g s", told, seconds);
    told = 0;
    for (since = gw_now_ns();
         gw_now_ns() - since < UINT64_C(2100000000);) { /* the last change, and no more */
        gw_supervisor_show(supervisor, snapshot, false);
        told += !is_silent(20) && receive() != NULL;
    }
    cr_expect_leq(told, 1);
}

Test(supervisor, what_is_not_taken_is_sent_again) {
    open_one("20000", NEVER_NS);
    gw_loop *loop = open_loop();
    int full = dup(manager), sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", scratch_path("notify"));
    while (sendto(sender, "x", 1, 0, (const struct sockaddr *)&address, sizeof address) == 1) {
    }
    gw_supervisor_begin_loop(supervisor, loop); /* nobody takes it */
    while (!is_silent(0)) cr_expect(strstr(receive(), "READY=1") == NULL);
    cr_expect_str_eq(receive_in(loop), "READY=1\nWATCHDOG=1\n");
    gw_supervisor_end_loop(supervisor);
    gw_loop_close(loop);
    close(full);
    close(sender);
}

Test(supervisor, without_a_service_manager_there_is_none) {
    gw_err err;
    unsetenv("NOTIFY_SOCKET");
    cr_expect(gw_supervisor_open(&supervisor, NEVER_NS, &err));
    cr_expect_null(supervisor);
    setenv("NOTIFY_SOCKET", "nonsense", 1);
    cr_expect(gw_supervisor_open(&supervisor, NEVER_NS, &err), "a peer runs with a wrong variable as well");
    cr_expect_null(supervisor);
    gw_supervisor_begin_loop(NULL, NULL);
    gw_supervisor_show(NULL, snapshot, true);
    gw_supervisor_end_loop(NULL);
}
