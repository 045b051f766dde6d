/* The descriptors that a run needs, and those that are kept free. */
#include "core/base/log.h"
#include "net/link/listener.h"
#include "net/loop/reserve.h"
#include "tools/godwit/thread/acceptor.h"
#include "tools/godwit/thread/descriptors.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char said[600];

static void keep(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)level, (void)room;
    snprintf(said, sizeof said, "%s", text);
}

static void limit_to(uint64_t count) {
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(descriptors, a_limit_that_no_other_peer_fits_into_is_refused) {
    gw_err err;
    limit_to(32);
    cr_assert_not(gw_descriptors_check(3, true, &err));
    cr_expect_not_null(strstr(err.text, "`ulimit -n` allows 32: raise the limit"), "%s", err.text);
}

Test(descriptors, a_limit_that_some_peers_do_not_fit_into_is_warned_of) {
    gw_err err;
    char number[32];
    gw_log_set_sink(keep, NULL);
    uint64_t needed = gw_descriptors_needed(20, false, 0);
    limit_to(needed - 1);
    cr_assert(gw_descriptors_check(20, false, &err), "%s", err.text);
    snprintf(number, sizeof number, "allows %llu here", (unsigned long long)needed - 1);
    cr_expect(strstr(said, "a peer of a run of 20") != NULL && strstr(said, number) != NULL, "%s", said);
    said[0] = '\0';
    limit_to(needed + 50); /* the test's runner has some open, too */
    cr_assert(gw_descriptors_check(20, false, &err), "%s", err.text);
    cr_expect_str_empty(said);
}

Test(descriptors, sockets_leave_the_last_ones_to_others) {
    int first = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    while (first < 64) first = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0); /* no descriptor behind it is open */
    close(first);
    limit_to((uint64_t)first + 5);
    gw_reserve_set(3);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = gw_reserve_spare(socket(AF_INET, SOCK_STREAM, 0));
        cr_assert_geq(fds[i], 0);
    }
    cr_assert_lt(gw_reserve_spare(socket(AF_INET, SOCK_STREAM, 0)), 0);
    cr_assert_eq(errno, EMFILE);
    cr_assert(gw_accept_lacks_resources(errno));
    for (int i = 0; i < 3; i++) cr_assert_geq(open("/dev/null", O_RDONLY), 0, "what is no socket to a peer");
    cr_assert_lt(open("/dev/null", O_RDONLY), 0);
    cr_assert_lt(gw_reserve_spare(socket(AF_INET, SOCK_STREAM, 0)), 0);
    cr_assert_eq(errno, EMFILE);
}

static void take(void *context, int fd, const struct sockaddr *from, socklen_t bytes) {
    (void)from, (void)bytes;
    cr_assert_eq(write(*(int *)context, "x", 1), 1);
    close(fd);
}

static double cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static int taken[2]; /* a pipe, into which the requests are written */

static gw_acceptor *open_acceptor(struct sockaddr_in *at) {
    gw_err err;
    socklen_t bytes = sizeof *at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert(pipe(taken) == 0 && bind(listening, (struct sockaddr *)at, bytes) == 0 &&
              listen(listening, 4) == 0 && getsockname(listening, (struct sockaddr *)at, &bytes) == 0);
    gw_acceptor *acceptor = gw_acceptor_open(listening, take, &taken[1], &err);
    cr_assert_not_null(acceptor, "%s", err.text);
    return acceptor;
}

/* The connection is like one for `/healthz` of a peer that has no descriptors left. */
Test(descriptors, who_connects_while_there_are_none_keeps_no_processor_busy) {
    struct sockaddr_in at;
    gw_acceptor *acceptor = open_acceptor(&at);
    int fd = socket(AF_INET, SOCK_STREAM, 0), next = dup(fd);
    close(next);
    struct rlimit usual;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
    limit_to((uint64_t)next);
    double before = cpu_seconds();
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    struct pollfd told = {.fd = taken[0], .events = POLLIN};
    cr_expect_eq(poll(&told, 1, 1000), 0);
    cr_expect_lt(cpu_seconds() - before, 0.2);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
    cr_expect_eq(poll(&told, 1, -1), 1);
    gw_acceptor_close(acceptor);
}

static int log_pipe[2];

static void write_line(void *context, gw_level level, const char *room, const char *text) {
    keep(context, level, room, text);
    (void)!write(log_pipe[1], "x", 1);
}

/* Connects to an acceptor that cannot wait: poll takes no more descriptors than the limit allows.
 * Criterion cannot report anything either until *usual is set again. */
static gw_acceptor *open_acceptor_that_cannot_wait(struct rlimit *usual, bool *good) {
    struct sockaddr_in at;
    char byte;
    cr_assert_eq(pipe(log_pipe), 0);
    gw_log_set_sink(write_line, NULL);
    gw_acceptor *acceptor = open_acceptor(&at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, usual), 0);
    struct rlimit none = {0, usual->rlim_max};
    *good = setrlimit(RLIMIT_NOFILE, &none) == 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
            read(log_pipe[0], &byte, 1) == 1;
    return acceptor;
}

Test(descriptors, who_connects_is_taken_though_one_could_not_be_waited_for, .timeout = 60) {
    struct rlimit usual;
    bool good;
    char byte;
    gw_acceptor *acceptor = open_acceptor_that_cannot_wait(&usual, &good);
    good &= setrlimit(RLIMIT_NOFILE, &usual) == 0;
    cr_assert(good);
    cr_expect_not_null(strstr(said, "--http: Invalid argument"), "%s", said);
    cr_expect_eq(read(taken[0], &byte, 1), 1);
    gw_acceptor_close(acceptor);
}

Test(descriptors, what_cannot_wait_for_connections_ends_when_it_is_to, .timeout = 60) {
    struct rlimit usual;
    bool good;
    gw_acceptor *acceptor = open_acceptor_that_cannot_wait(&usual, &good);
    gw_acceptor_close(acceptor);
    good &= setrlimit(RLIMIT_NOFILE, &usual) == 0;
    cr_assert(good);
}
