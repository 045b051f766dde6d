#include "tools/godwit/show/control.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/directory.h"
#include "core/os/process.h"
#include "tools/godwit/thread/acceptor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static const char socket_name[] = "control.sock";
static const char ok[] = "{\"ok\":true}\n";

enum {
    REQUEST_BYTES = 512, /* of a line with its line break */
    END_BYTES = 4096,    /* of the line that says how the peer has ended */
    WAITING_MOST = 32,   /* clients that wait for the end at the same time */
    CLIENT_TIMEOUT_S = 2,
    CONNECT_TIMEOUT_S = 3,
    ANSWER_TIMEOUT_S = 10,
    PATIENCE_MS = 1000, /* after which a client is told that it waits */
    TICK_MS = 50,       /* between two looks at the clock of a client that waits */
};

struct gw_control {
    int directory_fd, listen_fd;
    gw_acceptor *acceptor;
    gw_api_sources sources;
    gw_control_take *request;
    gw_control_read *read;
    void *context;
    int waiting[WAITING_MOST]; /* connections of clients that wait for the end; the acceptor's thread adds */
    uint32_t waiting_count;
};

/* Writes the socket's address. It goes through the open directory, because a Unix socket's path may have
 * only 107 bytes. */
static void socket_address(int directory_fd, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s", directory_fd,
                          socket_name);
    GW_ASSERT(length > 0 && (size_t)length < sizeof address->sun_path);
}

static void set_timeout(int fd, int seconds) {
    struct timeval timeout = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

static bool send_all(int fd, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Reads until a newline; false when the client sends none in time or too much. */
static bool read_line(int fd, char line[REQUEST_BYTES]) {
    size_t length = 0;
    while (length < REQUEST_BYTES - 1) {
        ssize_t got = recv(fd, line + length, REQUEST_BYTES - 1 - length, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        length += (size_t)got;
        char *newline = memchr(line, '\n', length);
        if (newline == NULL) continue;
        *newline = '\0';
        return true;
    }
    return false;
}

static void answer_status(gw_control *control, int fd) {
    gw_node_snapshot *snapshot = malloc(sizeof *snapshot);
    char *text = NULL;
    if (snapshot != NULL && gw_board_copy(control->sources.board, snapshot))
        text = gw_snapshot_json(snapshot);
    static const char starting[] = "{\"error\":\"the peer is still starting\"}";
    if (send_all(fd, text != NULL ? text : starting, strlen(text != NULL ? text : starting)))
        send_all(fd, "\n", 1);
    free(text);
    free(snapshot);
}

/* Returns the answer to a client that looks, which the caller frees; NULL: the line is no such request. */
static char *look(gw_control *control, const char *line) {
    const gw_api_sources *sources = &control->sources;
    char keys[REQUEST_BYTES] = "", more;
    unsigned long long number;
    if (strcmp(line, "peers") == 0) return gw_api_peers(sources);
    if (sscanf(line, "events %llu%c", &number, &more) == 1) return gw_api_events(sources, number);
    if (sscanf(line, "log %llu%c", &number, &more) == 1) return gw_api_log(sources, number);
    int fields = sscanf(line, "series %llu %511s %c", &number, keys, &more);
    if (fields != 1 && fields != 2) return NULL;
    const gw_api_range range = {.keys = fields == 2 ? keys : NULL,
                                .from = 1,
                                .to = UINT64_MAX - 1,
                                .points = number < GW_API_MOST ? (uint32_t)number : GW_API_MOST};
    return gw_api_series(sources, &range);
}

static bool answer_look(gw_control *control, int fd, const char *line) {
    char *text = look(control, line);
    if (text == NULL) return false;
    if (send_all(fd, text, strlen(text))) send_all(fd, "\n", 1);
    free(text);
    return true;
}

/* Whether the client has hung up. It has waited for too long and reported a failure, which somebody may
 * have acted upon. A client that has only finished sending has not hung up. */
static bool has_hung_up(int fd) {
    struct pollfd asker = {.fd = fd};
    return poll(&asker, 1, 0) > 0 && (asker.revents & (POLLHUP | POLLERR)) != 0;
}

static void take(gw_control *control, int fd, gw_control_request request, const char *text) {
    if (has_hung_up(fd)) {
        gw_log(GW_WARN, "control", "%s, but the client has given up waiting: the request is ignored", text);
        return;
    }
    gw_log(GW_INFO, "control", "%s", text);
    control->request(control->context, request);
    send_all(fd, ok, sizeof ok - 1);
}

/* Answers one request. Returns whether the connection has been given away. */
static bool serve(gw_control *control, int fd) {
    char line[REQUEST_BYTES];
    set_timeout(fd, CLIENT_TIMEOUT_S);
    if (!read_line(fd, line)) return false;
    if (control->read != NULL && strcmp(line, "read") == 0) {
        if (!send_all(fd, ok, sizeof ok - 1)) return false;
        control->read(control->context, fd);
        return true;
    }
    if (strcmp(line, "end") == 0 && control->waiting_count < WAITING_MOST) {
        control->waiting[control->waiting_count++] = fd;
        return true;
    }
    if (strcmp(line, "status") == 0) {
        answer_status(control, fd);
    } else if (strcmp(line, "stop") == 0) {
        take(control, fd, GW_CONTROL_STOP, "a client asks to stop the job");
    } else if (strcmp(line, "force-view") == 0) {
        take(control, fd, GW_CONTROL_FORCE_VIEW, "a client asks to go on without a majority");
    } else if (!answer_look(control, fd, line)) {
        static const char unknown[] = "{\"error\":\"unknown request\"}\n";
        send_all(fd, unknown, sizeof unknown - 1);
    }
    return false;
}

static void accepted(void *context, int fd, const struct sockaddr *from, socklen_t bytes) {
    (void)from, (void)bytes;
    if (!serve(context, fd)) close(fd);
}

static bool open_socket(gw_control *control, const char *dir, gw_err *err) {
    control->directory_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (control->directory_fd < 0) return gw_fail_errno(err, errno, "%s", dir);
    control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (control->listen_fd < 0) return gw_fail_errno(err, errno, "socket");
    struct sockaddr_un address;
    socket_address(control->directory_fd, &address);
    unlinkat(control->directory_fd, socket_name, 0);
    /* The socket has mode 0600 from the moment it exists, so that no other user can connect in between. */
    if (fchmod(control->listen_fd, 0600) != 0) return gw_fail_errno(err, errno, "fchmod");
    if (bind(control->listen_fd, (struct sockaddr *)&address, sizeof address) != 0)
        return gw_fail_errno(err, errno, "bind %s/%s", dir, socket_name);
    if (fchmodat(control->directory_fd, socket_name, 0600, 0) != 0)
        return gw_fail_errno(err, errno, "chmod %s/%s", dir, socket_name);
    if (listen(control->listen_fd, 8) != 0) return gw_fail_errno(err, errno, "listen");
    return true;
}

static void release(gw_control *control) {
    if (control->directory_fd >= 0) {
        unlinkat(control->directory_fd, socket_name, 0);
        close(control->directory_fd);
    }
    if (control->listen_fd >= 0) close(control->listen_fd);
    free(control);
}

gw_control *gw_control_open(const char *dir, const gw_api_sources *sources, gw_control_take *request,
                            gw_control_read *read, void *context, gw_err *err) {
    gw_control *control = calloc(1, sizeof *control);
    if (control == NULL) {
        gw_fail(err, GW_E_NOMEM, "control: out of memory");
        return NULL;
    }
    *control = (gw_control){.directory_fd = -1,
                            .listen_fd = -1,
                            .sources = *sources,
                            .request = request,
                            .read = read,
                            .context = context};
    if (open_socket(control, dir, err))
        control->acceptor = gw_acceptor_open(control->listen_fd, accepted, control, err);
    if (control->acceptor != NULL) return control;
    gw_fail_in(err, "control");
    release(control);
    return NULL;
}

/* Tells the clients that wait for the end how the peer has ended, and hangs up. */
static void tell_end(gw_control *control, const char *outcome, const char *text) {
    json_t *end = outcome != NULL ? json_pack("{ss ss*}", "outcome", outcome, "text", text) : NULL;
    char *line = end != NULL ? json_dumps(end, JSON_COMPACT) : NULL;
    for (uint32_t i = 0; i < control->waiting_count; i++) {
        if (line != NULL && send_all(control->waiting[i], line, strlen(line)))
            send_all(control->waiting[i], "\n", 1);
        close(control->waiting[i]);
    }
    free(line);
    json_decref(end);
}

void gw_control_close(gw_control *control, const char *outcome, const char *text) {
    if (control == NULL) return;
    gw_acceptor_close(control->acceptor);
    tell_end(control, outcome, text);
    release(control);
}

/* Returns the process that holds the directory's lock (checkpoint/dirlock.h), or 0. It looks whether the
 * process has the file open: trying the lock could make a peer fail that takes it at the same moment. */
static long lock_holder(int directory_fd) {
    char text[24] = "", name[64];
    struct stat lock, other;
    int fd = openat(directory_fd, "lock", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    bool known = fstat(fd, &lock) == 0 && got > 0;
    close(fd);
    long pid = known ? strtol(text, NULL, 10) : 0;
    snprintf(name, sizeof name, "/proc/%ld/fd", pid);
    DIR *open_files = pid > 0 ? opendir(name) : NULL;
    bool holds = false;
    for (struct dirent *entry; !holds && open_files != NULL && (entry = readdir(open_files)) != NULL;)
        holds = fstatat(dirfd(open_files), entry->d_name, &other, 0) == 0 && other.st_dev == lock.st_dev &&
                other.st_ino == lock.st_ino;
    if (open_files != NULL) closedir(open_files);
    return holds ? pid : 0;
}

static void fail_unanswered(const char *dir, int directory_fd, gw_err *err) {
    long pid = lock_holder(directory_fd);
    bool saved = faccessat(directory_fd, "manifests", F_OK, 0) == 0;
    if (pid > 0)
        gw_fail(err, GW_E_PEER, "the peer in %s (process %ld) is starting or ending: ask again", dir, pid);
    else if (!saved)
        gw_fail(err, GW_E_NOTFOUND,
                "no peer runs in %s, and it holds no checkpoint: is it the --dir of a peer?", dir);
    else
        gw_fail(err, GW_E_NOTFOUND,
                "no peer runs in %s: the same 'godwit run' goes on from the checkpoints there, which 'godwit "
                "inspect %s' shows",
                dir, dir);
}

/* Opens a peer's directory as a command names it; -1: there is none. */
static int open_directory(const char *given) {
    char dir[GW_PATH_BYTES];
    gw_err ignored;
    if (!gw_directory_find(given, dir, &ignored)) return -1;
    return open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The process of the peer in a directory, if it is stopped; 0: it is not, or cannot be found. */
static long stopped_peer(const char *given) {
    int directory_fd = open_directory(given);
    if (directory_fd < 0) return 0;
    long pid = lock_holder(directory_fd);
    close(directory_fd);
    return pid > 0 && gw_process_is_stopped((pid_t)pid) ? pid : 0;
}

static void fail_silent(const char *dir, gw_err *err) {
    long pid = stopped_peer(dir);
    if (pid > 0)
        gw_fail(err, GW_E_TIMEOUT, "the peer's process %ld is stopped: 'kill -CONT %ld' lets it go on", pid,
                pid);
    else
        gw_fail(err, GW_E_TIMEOUT, "the peer does not answer: its machine is very busy, or it hangs");
}

/* A client that waits for a peer. */
typedef struct patience {
    const char *dir;
    const gw_control_wait *wait; /* NULL: the client is not told that it waits */
    uint64_t since_ns;
    uint32_t seconds; /* whole ones, for which it has waited at the last look */
} patience;

static patience patience_of(const char *dir, const gw_control_wait *wait) {
    return (patience){.dir = dir, .wait = wait, .since_ns = gw_now_ns()};
}

/* Waits for TICK_MS, or until something can be read from `fd`, which sets *ready. Fails where the client gives up, the
 * limit is over, or the peer's process is stopped: such a peer is not waited for. */
static bool wait_a_tick(patience *p, int fd, uint32_t limit_ms, bool *ready, gw_err *err) {
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    *ready = poll(&answer, 1, TICK_MS) > 0;
    if (*ready) return true;
    uint32_t waited_ms = (uint32_t)((gw_now_ns() - p->since_ns) / 1000000);
    bool asks = waited_ms / PATIENCE_MS != p->seconds;
    p->seconds = waited_ms / PATIENCE_MS;
    if (waited_ms >= limit_ms || (asks && stopped_peer(p->dir) > 0)) {
        fail_silent(p->dir, err);
        return false;
    }
    return p->wait == NULL || p->wait->waits(p->wait->context, waited_ms) ||
           gw_fail(err, GW_E_TIMEOUT, "the client has given up waiting for the peer");
}

/* Connects a socket that does not block. A peer that is slow to take connections is waited for. */
static bool connect_patiently(patience *p, int fd, const struct sockaddr_un *address, int *why, gw_err *err) {
    bool ready;
    while (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        *why = errno;
        if (*why != EAGAIN && *why != EINTR) return false;
        if (!wait_a_tick(p, -1, CONNECT_TIMEOUT_S * 1000, &ready, err)) return false;
    }
    *why = 0;
    return true;
}

static int connect_to(const char *given, const gw_control_wait *wait, gw_err *err) {
    char dir[GW_PATH_BYTES];
    if (!gw_directory_find(given, dir, err)) return -1;
    int directory_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) {
        if (errno == ENOENT)
            gw_fail(err, GW_E_NOTFOUND, "no peer runs in %s: there is no such directory", dir);
        else
            gw_fail_errno(err, errno, "%s", dir);
        return -1;
    }
    struct sockaddr_un address;
    socket_address(directory_fd, &address);
    patience p = patience_of(given, wait);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = errno;
    if (fd >= 0 && connect_patiently(&p, fd, &address, &why, err)) {
        int flags = fcntl(fd, F_GETFL);
        why = flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ? errno : 0;
    }
    if (fd >= 0 && why == 0) {
        close(directory_fd);
        return fd;
    }
    if (fd >= 0) close(fd);
    if (why == ENOENT || why == ECONNREFUSED)
        fail_unanswered(dir, directory_fd, err);
    else if (why != EAGAIN && why != EINTR) /* which have an error already */
        gw_fail_errno(err, why, "%s/%s", dir, socket_name);
    close(directory_fd);
    return -1;
}

int gw_control_await_end(const char *dir) {
    gw_err ignored;
    static const char line[] = "end\n";
    int fd = connect_to(dir, NULL, &ignored);
    if (fd < 0 || send_all(fd, line, sizeof line - 1)) return fd;
    close(fd);
    return -1;
}

bool gw_control_read_end(int fd, char *outcome, size_t outcome_size, char **text) {
    char line[END_BYTES];
    ssize_t length = recv(fd, line, sizeof line - 1, MSG_WAITALL | MSG_DONTWAIT);
    *text = NULL;
    if (length <= 0) return false;
    json_t *end = json_loadb(line, (size_t)length, 0, NULL);
    const char *how = json_string_value(json_object_get(end, "outcome")),
               *more = json_string_value(json_object_get(end, "text"));
    if (how != NULL) snprintf(outcome, outcome_size, "%s", how);
    if (how != NULL && more != NULL) *text = strdup(more);
    json_decref(end);
    return how != NULL;
}

int gw_control_process(const char *given) {
    int directory_fd = open_directory(given);
    if (directory_fd < 0) return -1;
    long pid = lock_holder(directory_fd);
    int process = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U) : -1;
    /* If the process ended in between, its number may be another's by now. */
    if (process >= 0 && lock_holder(directory_fd) != pid) {
        close(process);
        process = -1;
    }
    close(directory_fd);
    return process;
}

/* Receives what there is of the answer, and waits for it. Returns as recv does; -1 with *why 0 where the wait has
 * failed. */
static ssize_t receive_patiently(patience *p, int fd, char *bytes, size_t size, int *why, gw_err *err) {
    bool ready = false;
    *why = 0;
    while (!ready)
        if (!wait_a_tick(p, fd, ANSWER_TIMEOUT_S * 1000, &ready, err)) return -1;
    ssize_t got = recv(fd, bytes, size, 0);
    *why = errno;
    if (got > 0) *p = patience_of(p->dir, p->wait); /* more of it may take as long again */
    return got;
}

/* Reads the answer. *unheard is set where the peer hung up without having read the request. */
static char *read_answer(int fd, const char *dir, const gw_control_wait *wait, bool *unheard, gw_err *err) {
    char *text = NULL, chunk[4096];
    size_t length = 0;
    ssize_t got;
    int why;
    patience p = patience_of(dir, wait);
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    while ((got = receive_patiently(&p, fd, chunk, sizeof chunk, &why, err)) > 0 || (got < 0 && why == EINTR))
        if (got > 0) fwrite(chunk, 1, (size_t)got, out);
    bool written = fclose(out) == 0;
    if (written && got == 0 && length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
        return text;
    }
    free(text);
    *unheard = got < 0 && why == ECONNRESET && length == 0;
    if (got == 0 || why != 0) gw_fail(err, GW_E_PEER, "the peer hung up before it had answered");
    return NULL;
}

/* Sends the request once. *unheard is set where the peer hung up without having read it. */
static char *ask_once(const char *dir, const char *line, const gw_control_wait *wait, bool *unheard,
                      gw_err *err) {
    *unheard = false;
    int fd = connect_to(dir, wait, err);
    if (fd < 0) return NULL;
    set_timeout(fd, ANSWER_TIMEOUT_S);
    char *answer = NULL;
    if (send_all(fd, line, strlen(line))) {
        answer = read_answer(fd, dir, wait, unheard, err);
    } else {
        *unheard = errno == EPIPE;
        gw_fail_errno(err, errno, "%s/%s: send", dir, socket_name);
    }
    close(fd);
    return answer;
}

/* The peer hangs up on a client that sends nothing for CLIENT_TIMEOUT_S, which on a very busy machine may
 * be one that was about to send. The request is sent as one piece, so a request that was not read was not
 * obeyed either, and is sent again. */
char *gw_control_ask_patiently(const char *dir, const char *request, const gw_control_wait *wait,
                               gw_err *err) {
    char *line;
    bool unheard;
    if (asprintf(&line, "%s\n", request) < 0) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    char *answer = ask_once(dir, line, wait, &unheard, err);
    if (unheard) answer = ask_once(dir, line, wait, &unheard, err);
    free(line);
    return answer;
}

static bool say_that_it_waits(void *context, uint32_t waited_ms) {
    bool *said = context;
    if (*said || waited_ms < PATIENCE_MS) return true;
    *said = true;
    fprintf(stderr, "the peer has not answered yet: waiting for up to %d s\n", ANSWER_TIMEOUT_S);
    return true;
}

char *gw_control_ask(const char *dir, const char *request, gw_err *err) {
    bool said = false;
    const gw_control_wait wait = {.waits = say_that_it_waits, .context = &said};
    return gw_control_ask_patiently(dir, request, &wait, err);
}

/* Reads the line of the answer, and not what may follow it. */
static bool read_ok(int fd, const char *dir, gw_err *err) {
    char answer[sizeof ok] = "";
    for (size_t length = 0; length < sizeof ok - 1;) {
        ssize_t got = recv(fd, answer + length, sizeof ok - 1 - length, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            fail_silent(dir, err);
            return false;
        }
        if (got <= 0) return gw_fail(err, GW_E_PEER, "the peer hung up before it had answered");
        length += (size_t)got;
    }
    return strcmp(answer, ok) == 0 ||
           gw_fail(
               err, GW_E_UNSUPPORTED,
               "the peer is of an earlier build, which hands out no chunks: start it again with this one");
}

int gw_control_connect(const char *dir, gw_err *err) {
    static const char line[] = "read\n";
    int fd = connect_to(dir, NULL, err);
    if (fd < 0) return -1;
    set_timeout(fd, ANSWER_TIMEOUT_S);
    bool good =
        send_all(fd, line, sizeof line - 1) || gw_fail_errno(err, errno, "%s/%s: send", dir, socket_name);
    good = good && read_ok(fd, dir, err);
    if (good && fcntl(fd, F_SETFL, O_NONBLOCK) != 0) good = gw_fail_errno(err, errno, "fcntl");
    if (good) return fd;
    close(fd);
    return -1;
}
