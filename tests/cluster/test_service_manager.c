/* What a peer tells the service manager that has started it (systemd): a stand-in reads the datagrams of
 * real processes. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { HANG_MS = 240000, WATCHDOG_MS = 200 };

/* The stand-in: what it has been told so far, message by message. */
typedef struct manager {
    int fd;
    char path[LAB_PATH];
    uint32_t watchdogs, statuses;
    bool ready, stopping, extended;
    char status[300]; /* the last one */
} manager;

static void open_manager(manager *m, const lab *l) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memset(m, 0, sizeof *m);
    snprintf(m->path, sizeof m->path, "%.80s/notify", l->dir);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", m->path);
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(m->fd, (const struct sockaddr *)&address, sizeof address), 0);
}

/* A peer of this manager, which starts no other. */
static lab_peer *start(lab *l, const manager *m, const char *args) {
    char watchdog_us[20];
    snprintf(watchdog_us, sizeof watchdog_us, "%d", WATCHDOG_MS * 1000);
    cr_assert(setenv("NOTIFY_SOCKET", m->path, 1) == 0 && setenv("WATCHDOG_USEC", watchdog_us, 1) == 0);
    lab_peer *peer = lab_launch(l, "served", NULL, NULL, args);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    return peer;
}

static void take_line(manager *m, const char *line) {
    if (strcmp(line, "READY=1") == 0) {
        cr_expect_not(m->ready, "once");
        m->ready = true;
    } else if (strcmp(line, "WATCHDOG=1") == 0) {
        cr_expect(m->ready, "nobody watches before that");
        m->watchdogs++;
    } else if (strcmp(line, "STOPPING=1") == 0) {
        cr_expect(m->ready && !m->stopping, "once, and behind READY");
        m->stopping = true;
    } else if (strncmp(line, "EXTEND_TIMEOUT_USEC=", 20) == 0) {
        cr_expect(m->stopping && atol(line + 20) > 1000000, "%s", line);
        m->extended = true;
    } else {
        cr_assert(strncmp(line, "STATUS=", 7) == 0, "'%s'", line);
        cr_expect_str_neq(line + 7, m->status, "it comes when it changes");
        snprintf(m->status, sizeof m->status, "%s", line + 7);
        m->statuses++;
    }
}

/* Reads a message, for which it waits `ms` at most. */
static bool take(manager *m, int ms) {
    char text[2000], *rest = NULL;
    struct pollfd one = {.fd = m->fd, .events = POLLIN};
    int ready;
    do ready = poll(&one, 1, ms);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0) return false;
    ssize_t bytes = recv(m->fd, text, sizeof text - 1, 0);
    cr_assert_gt(bytes, 0);
    text[bytes] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        take_line(m, line);
    return true;
}

/* Until the peer says that it ends. The socket must not be full meanwhile, as it would be if nobody read. */
static void take_until_stopping(manager *m) {
    while (!m->stopping || !m->extended) cr_assert(take(m, HANG_MS));
}

static void take_all(manager *m) {
    while (take(m, 0)) {
    }
}

static void close_manager(manager *m) {
    close(m->fd);
    unlink(m->path);
}

Test(service_manager, it_hears_that_the_peer_is_ready_lives_works_and_stops) {
    lab *l = lab_open();
    manager m;
    open_manager(&m, l);
    lab_peer *peer = start(l, &m, "synthetic --workers 1 --shards 2 --shard-ms 5");
    while (!m.ready) cr_assert(take(&m, HANG_MS));
    lab_wait_event(l, peer, "listening"); /* at once: it has been written by now */
    uint32_t before = m.watchdogs;
    while (m.watchdogs < before + 3) cr_assert(take(&m, HANG_MS));
    /* Two states that tell of steps: it goes on. */
    while (m.statuses < 2 || strncmp(m.status, "step ", 5) != 0 || m.status[5] == '-')
        cr_assert(take(&m, HANG_MS));
    unsigned long long step = strtoull(m.status + 5, NULL, 10);
    while (strtoull(m.status + 5, NULL, 10) <= step) cr_assert(take(&m, HANG_MS));
    cr_expect_not(m.stopping);
    lab_signal(peer, SIGTERM);
    take_until_stopping(&m);
    lab_state(l, peer, "left");
    close_manager(&m);
    lab_close(l);
}

Test(service_manager, a_peer_that_waits_for_others_is_ready_and_says_for_whom) {
    lab *l = lab_open();
    manager m;
    open_manager(&m, l);
    lab_peer *peer = start(l, &m, "synthetic --workers 1 --shards 2 --peers 3");
    while (!m.ready || strstr(m.status, "waiting for 3 peers: 1 here") == NULL) cr_assert(take(&m, HANG_MS));
    lab_kill(l, peer);
    close_manager(&m);
    lab_close(l);
}

Test(service_manager, a_job_that_ends_by_itself_stops_in_order) {
    lab *l = lab_open();
    manager m;
    open_manager(&m, l);
    lab_peer *peer = start(l, &m, "synthetic --workers 1 --shards 2 --shard-ms 5 --steps 3");
    take_until_stopping(&m);
    cr_expect(m.ready);
    lab_state(l, peer, "done");
    close_manager(&m);
    lab_close(l);
}

Test(service_manager, a_peer_that_is_refused_is_never_ready) {
    lab *l = lab_open();
    manager m;
    open_manager(&m, l);
    lab_peer *peer = start(l, &m, "digits --data /nowhere");
    cr_expect_eq(lab_end(l, peer), 2);
    take_all(&m);
    cr_expect(!m.ready && !m.stopping && m.watchdogs == 0);
    close_manager(&m);
    lab_close(l);
}

/* Whether the first thread of the process is in this system call. */
static bool is_in(const lab_peer *peer, long call) {
    char path[64];
    long now = -1;
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)peer->pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    bool known = fscanf(file, "%ld", &now) == 1;
    fclose(file);
    return known && now == call;
}

/* Stuck is a thread that pauses (tests/jobs/stuck.c); no thread beats in its place. */
Test(service_manager, a_loop_that_is_stuck_beats_no_more) {
    LAB_PRELOADS;
    lab *l = lab_open();
    manager m;
    open_manager(&m, l);
    cr_assert(setenv("STUCK", "epoll_wait main 300", 1) == 0 && setenv("LD_PRELOAD", GODWIT_STUCK, 1) == 0);
    lab_peer *peer = start(l, &m, "synthetic --workers 1 --shards 2 --shard-ms 5 --hang-timeout 1h");
    unsetenv("LD_PRELOAD");
    while (!m.ready || m.watchdogs < 2) cr_assert(take(&m, HANG_MS));
    while (!is_in(peer, SYS_pause)) (void)take(&m, 10);
    take_all(&m);
    cr_expect_not(take(&m, 4 * WATCHDOG_MS), "the loop is stuck: '%s'", m.status);
    lab_kill(l, peer);
    close_manager(&m);
    lab_close(l);
}

/* Workers of a program are children of the peer: what they say is not what the peer says. */
Test(service_manager, children_cannot_speak_in_the_peers_name) {
    lab *l = lab_open();
    manager m;
    open_manager(&m, l);
    char path[LAB_PATH + 20], args[LAB_PATH + 100], command[LAB_PATH + 100];
    snprintf(path, sizeof path, "%s/program", l->dir);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "#!/bin/sh\nenv >>%s/environment\nexec %s \"$@\"\n", l->dir, GODWIT_LOGISTIC);
    cr_assert(fclose(file) == 0 && chmod(path, 0700) == 0);
    snprintf(args, sizeof args, "program --workers 1 --program %s --args 20", path);
    lab_peer *peer = start(l, &m, args);
    take_until_stopping(&m);
    lab_state(l, peer, "done");
    int code;
    snprintf(command, sizeof command, "grep -c ^PATH= %s/environment", l->dir);
    free(lab_shell(command, &code));
    cr_expect_eq(code, 0, "the program has run and has an environment");
    snprintf(command, sizeof command, "grep -E '^(NOTIFY_SOCKET|WATCHDOG_)' %s/environment", l->dir);
    char *found = lab_shell(command, &code);
    cr_expect_eq(code, 1, "%s", found);
    free(found);
    close_manager(&m);
    lab_close(l);
}
