#include "tools/godwit/launch/remote.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/private_file.h"
#include "core/os/process.h"
#include "kernels/device/class.h"
#include "tools/godwit/launch/request.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

/* Reads exactly `count` bytes from stdin. */
static bool read_all(void *bytes, size_t count, uint64_t until_ns, gw_err *err) {
    for (size_t got = 0; got < count;) {
        struct pollfd readable = {.fd = STDIN_FILENO, .events = POLLIN};
        uint64_t now_ns = gw_now_ns();
        if (now_ns >= until_ns) return gw_fail(err, GW_E_TIMEOUT, "no request has come from the launcher");
        (void)poll(&readable, 1, (int)((until_ns - now_ns) / 1000000) + 1);
        if (readable.revents == 0) continue;
        ssize_t part = read(STDIN_FILENO, (char *)bytes + got, count - got);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0)
            return gw_fail(err, GW_E_PEER,
                           "the connection has ended before the request of the launcher was here");
        got += (size_t)part;
    }
    return true;
}

static bool read_request(gw_launch_request *request, gw_err *err) {
    uint8_t head[GW_LAUNCH_HEAD];
    uint64_t until_ns = gw_now_ns() + GW_LAUNCH_SILENCE_S * SECOND_NS;
    size_t length;
    if (!read_all(head, sizeof head, until_ns, err) || !gw_launch_request_head(head, &length, err))
        return false;
    uint8_t *body = malloc(length + 1);
    GW_ASSERT_MEMORY(body != NULL);
    bool good = read_all(body, length, until_ns, err) && gw_launch_request_decode(body, length, request, err);
    explicit_bzero(body, length);
    free(body);
    return good;
}

/* Writes the key into the home directory, unless it is there, and puts "--key PATH" behind the job of the command. */
static bool take_key(gw_launch_request *request, gw_err *err) {
    const char *home = getenv("HOME");
    char *folder, *path, *there;
    if (request->key[0] == '\0') return true;
    if (home == NULL || home[0] != '/') return gw_fail(err, GW_E_INVALID, "HOME names no folder for the key");
    GW_ASSERT_MEMORY(asprintf(&folder, "%s/.godwit", home) >= 0);
    GW_ASSERT_MEMORY(asprintf(&path, "%s/%s", folder, request->key_name) >= 0);
    there = malloc(GW_LAUNCH_KEY_BYTES + 1);
    GW_ASSERT_MEMORY(there != NULL);
    bool good = mkdir(folder, 0700) == 0 || errno == EEXIST ||
                gw_fail_errno(err, errno, "cannot create the folder %s for the key", folder);
    gw_err ignored;
    bool same = good &&
                gw_private_file_read(gw_io_system(), path, GW_PRIVATE_OWN, there, GW_LAUNCH_KEY_BYTES + 1,
                                     &ignored) &&
                strcmp(there, request->key) == 0;
    good = good && (same || gw_private_file_replace(gw_io_system(), path, request->key, err) ||
                    gw_fail_in(err, "the key %s", path));
    if (good) {
        char **argv = calloc(request->argc + 3, sizeof *argv);
        uint32_t before = request->argc < 2 ? request->argc : 2; /* run JOB */
        GW_ASSERT_MEMORY(argv != NULL);
        memcpy(argv, request->argv, before * sizeof *argv);
        argv[before] = strdup("--key");
        argv[before + 1] = strdup(path);
        memcpy(argv + before + 2, request->argv + before, (request->argc - before) * sizeof *argv);
        GW_ASSERT_MEMORY(argv[before] != NULL && argv[before + 1] != NULL);
        free(request->argv);
        request->argv = argv;
        request->argc += 2;
    }
    explicit_bzero(there, GW_LAUNCH_KEY_BYTES + 1);
    free(there);
    free(path);
    free(folder);
    return good;
}

static bool start(const gw_launch_request *request, gw_process *process, gw_err *err) {
    char build[GW_BUILD_ID_TEXT];
    char **argv = calloc(request->argc + 2, sizeof *argv);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    GW_ASSERT_MEMORY(argv != NULL);
    argv[0] = (char[]){"godwit"};
    memcpy(argv + 1, request->argv, request->argc * sizeof *argv);
    gw_build_id(build);
    printf(GW_LAUNCH_HELLO " %s\n", build);
    fflush(stdout);
    const int fds[] = {null, STDOUT_FILENO, STDERR_FILENO};
    const gw_spawn spawn = {
        .file = "/proc/self/exe", .argv = argv, .environment = environ, .fds = fds, .fd_count = 3};
    bool good = null >= 0 ? gw_process_spawn(&spawn, process, err) : gw_fail_errno(err, errno, "/dev/null");
    if (null >= 0) close(null);
    free(argv);
    return good;
}

/* The connection of a command that runs. */
typedef struct connection {
    gw_process *process;
    bool detach, stands;
    uint64_t silence_ns, heard_ns;
} connection;

static void lose(connection *c) {
    c->stands = false;
    if (!c->detach) gw_process_signal(c->process, SIGTERM);
}

/* Obeys what the launcher says. */
static void hear(connection *c) {
    char words[64];
    ssize_t count = read(STDIN_FILENO, words, sizeof words);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) lose(c);
    c->heard_ns = gw_now_ns();
    for (ssize_t i = 0; i < count; i++) {
        if (words[i] == GW_LAUNCH_LEAVE) gw_process_signal(c->process, SIGTERM);
        if (words[i] == GW_LAUNCH_KILL) gw_process_kill(c->process);
    }
}

/* Waits for the end of the command; returns its exit code. */
static int attend(gw_process *process, const gw_launch_request *request, int signals) {
    connection c = {.process = process,
                    .detach = request->detach,
                    .stands = true,
                    .silence_ns = request->silence_s * SECOND_NS,
                    .heard_ns = gw_now_ns()};
    struct pollfd sources[] = {{.fd = process->fd, .events = POLLIN},
                               {.fd = signals, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};
    int status = 0;
    do {
        sources[2].fd = c.stands ? STDIN_FILENO : -1;
        if (poll(sources, 3, 1000) < 0) continue;
        struct signalfd_siginfo info;
        if (sources[1].revents != 0 && read(signals, &info, sizeof info) == sizeof info)
            gw_process_signal(process, (int)info.ssi_signo == SIGINT ? SIGINT : SIGTERM);
        if (sources[2].revents != 0) hear(&c);
        if (c.stands && gw_now_ns() - c.heard_ns > c.silence_ns) lose(&c);
    } while (sources[0].revents == 0 || !gw_process_wait(process, 0, true, &status));
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int gw_launch_remote(gw_err *err) {
    gw_launch_request request = {.argc = 0};
    gw_process process = {.fd = -1};
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGHUP);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    signal(SIGPIPE, SIG_IGN);
    int code = -1, signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        gw_fail_errno(err, errno, "signalfd");
        return -1;
    }
    bool good = read_request(&request, err);
    if (good && request.directory[0] != '\0' && chdir(request.directory) != 0)
        good = gw_fail_errno(err, errno, "--chdir %s", request.directory);
    good = good && take_key(&request, err) && start(&request, &process, err);
    if (good) code = attend(&process, &request, signals);
    gw_process_close(&process);
    gw_launch_request_free(&request);
    close(signals);
    return code;
}
