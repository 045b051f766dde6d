#include "tests/tools/show/rig.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

gw_node_snapshot *rig_busy_snapshot(void) {
    static gw_node_snapshot s;
    s = (gw_node_snapshot){.job = "digits",
                           .name = "a \"host\"",
                           .cluster = "a \"quoted\" \\ name",
                           .version = "1",
                           .phase = "computing",
                           .healthy = true,
                           .epoch = 3,
                           .members = 4,
                           .step = 312,
                           .steps = 590,
                           .step_ms = 412,
                           .shards_per_s = 116.4,
                           .report = "loss=0.1234 note=fine",
                           .latest = "loss=0.1234 note=fine val_loss=0.75",
                           .evaluation = "val_loss=0.75 note=well",
                           .evaluation_step = 251,
                           .checkpoint_step = 300,
                           .fingerprint = UINT64_MAX,
                           .peer_count = 2,
                           .peers = {{.state = "alive", .self = true, .checkpoint_step = 300},
                                     {.state = "dead", .checkpoint_step = UINT64_MAX}}};
    s.leader.bytes[0] = 0x1f;
    s.counter[GW_COUNT_SHARDS_STOLEN] = 118;
    s.counter[GW_COUNT_REDUCE_NS] = 1500000000;
    s.packets[GW_PACKET_GOOD] = 5;
    s.packets[GW_PACKET_WRONG_KEY] = 2;
    return &s;
}

static double cpu_seconds(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

void rig_ask_without_descriptors(const struct sockaddr *server, socklen_t bytes, const char *request,
                                 char *answer, size_t size) {
    int fd = socket(server->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), free_fd = dup(fd);
    close(free_fd);
    struct rlimit usual, none;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = usual;
    none.rlim_cur = (rlim_t)free_fd;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    double before = cpu_seconds();
    cr_assert_eq(connect(fd, server, bytes), 0);
    cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    struct pollfd answered = {.fd = fd, .events = POLLIN};
    cr_expect_eq(poll(&answered, 1, 1000), 0);
    cr_expect_lt(cpu_seconds() - before, 0.2);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
    ssize_t got = recv(fd, answer, size - 1, 0);
    cr_assert_gt(got, 0);
    answer[got] = '\0';
    close(fd);
}
