/* Messages to a service manager: which sockets are reached, and that nothing waits, stays or is sent where
 * it should not. */
#include "core/os/notify.h"

#include "tests/scratch.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(notify, .init = scratch_open, .fini = scratch_close);

/* A socket of the service manager's, with this address. */
static int listen_at(const struct sockaddr_un *address, size_t name_bytes) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_bytes);
    cr_assert_eq(bind(fd, (const struct sockaddr *)address, bytes), 0);
    return fd;
}

static int listen_at_path(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return listen_at(&address, strlen(path) + 1);
}

static void expect_message(int fd, const char *lines) {
    char text[100] = "";
    cr_expect_eq(recv(fd, text, sizeof text - 1, 0), (ssize_t)strlen(lines));
    cr_expect_str_eq(text, lines);
}

static void set(const char *socket, const char *watchdog_us, const char *watchdog_pid) {
    cr_assert(setenv("NOTIFY_SOCKET", socket, 1) == 0 && setenv("WATCHDOG_USEC", watchdog_us, 1) == 0);
    if (watchdog_pid != NULL)
        setenv("WATCHDOG_PID", watchdog_pid, 1);
    else
        unsetenv("WATCHDOG_PID");
}

static void expect_clean(void) {
    cr_expect_null(getenv("NOTIFY_SOCKET"));
    cr_expect_null(getenv("WATCHDOG_USEC"));
    cr_expect_null(getenv("WATCHDOG_PID"));
}

Test(notify, a_socket_in_the_file_system_gets_what_is_sent) {
    gw_notify notify;
    gw_err err;
    int manager = listen_at_path(scratch_path("notify"));
    set(scratch_path("notify"), "3000000", NULL);
    cr_assert(gw_notify_open(&notify, &err), "%s", err.text);
    expect_clean();
    cr_expect_eq(notify.watchdog_ns, UINT64_C(3000000000));
    cr_expect(gw_notify_send(&notify, "READY=1\nSTATUS=it runs\n"));
    expect_message(manager, "READY=1\nSTATUS=it runs\n");
    gw_notify_close(&notify);
    close(manager);
}

Test(notify, an_abstract_socket_gets_it_too) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[60];
    gw_notify notify;
    gw_err err;
    snprintf(name, sizeof name, "@godwit-test/%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
    int manager = listen_at(&address, strlen(name));
    set(name, "0", NULL);
    cr_assert(gw_notify_open(&notify, &err), "%s", err.text);
    cr_expect(gw_notify_send(&notify, "READY=1\n"));
    expect_message(manager, "READY=1\n");
    gw_notify_close(&notify);
    close(manager);
}

Test(notify, nothing_waits_for_a_service_manager_that_does_not_read) {
    gw_notify notify;
    gw_err err;
    int manager = listen_at_path(scratch_path("notify"));
    set(scratch_path("notify"), "0", NULL);
    cr_assert(gw_notify_open(&notify, &err));
    int sent = 0;
    while (gw_notify_send(&notify, "WATCHDOG=1\n")) cr_assert_lt(++sent, 1000000, "the queue has an end");
    expect_message(manager, "WATCHDOG=1\n");
    cr_expect(gw_notify_send(&notify, "WATCHDOG=1\n"), "there is room again");
    close(manager);
    cr_expect_not(gw_notify_send(&notify, "WATCHDOG=1\n"), "nobody is there any more");
    gw_notify_close(&notify);
}

Test(notify, without_the_variable_nobody_listens) {
    static const char *const values[] = {NULL, ""};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        gw_notify notify;
        gw_err err;
        unsetenv("NOTIFY_SOCKET");
        if (values[i] != NULL) setenv("NOTIFY_SOCKET", values[i], 1);
        setenv("WATCHDOG_USEC", "1000", 1);
        cr_expect(gw_notify_open(&notify, &err));
        cr_expect_eq(notify.fd, -1);
        cr_expect(gw_notify_send(&notify, "READY=1\n"));
        expect_clean();
        gw_notify_close(&notify);
    }
}

Test(notify, names_that_are_no_sockets_are_refused) {
    char longest[200] = "/";
    memset(longest + 1, 'x', sizeof longest - 2);
    const char *const names[] = {"notify", "vsock:2:1234", "/", "@", longest};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        gw_notify notify;
        gw_err err;
        set(names[i], "1000", NULL);
        cr_expect_not(gw_notify_open(&notify, &err), "%s", names[i]);
        cr_expect(strncmp(err.text, "NOTIFY_SOCKET: ", 15) == 0, "%s", err.text);
        cr_expect_eq(notify.fd, -1);
        cr_expect(gw_notify_send(&notify, "READY=1\n"));
        expect_clean();
    }
}

Test(notify, the_watchdog_of_another_process_and_senseless_times_are_none) {
    char own[20], other[20];
    snprintf(own, sizeof own, "%d", (int)getpid());
    snprintf(other, sizeof other, "%d", (int)getppid());
    const struct {
        const char *us, *pid;
        uint64_t ns;
    } cases[] = {{"1000", own, 1000000},
                 {"1000", other, 0},
                 {"1000", "", 0},
                 {"", own, 0},
                 {"-5", own, 0},
                 {" 5", own, 0},
                 {"5s", own, 0},
                 {"18446744073709551615", own, 0},
                 {"99999999999999999999", own, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gw_notify notify;
        gw_err err;
        set("@nobody", cases[i].us, cases[i].pid);
        cr_assert(gw_notify_open(&notify, &err));
        cr_expect_eq(notify.watchdog_ns, cases[i].ns, "'%s' of '%s'", cases[i].us, cases[i].pid);
        gw_notify_close(&notify);
    }
}
