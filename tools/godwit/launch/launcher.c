#include "tools/godwit/launch/launcher.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/process.h"
#include "kernels/device/class.h"
#include "tools/godwit/launch/log.h"
#include "tools/godwit/places/hostlist.h"
#include "tools/godwit/text/shell_word.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define ECHO_NS   (SECOND_NS / 2) /* a signal that comes twice within this time is one */
#define KILL_NS   (10 * SECOND_NS)

enum {
    WORDS = 64,       /* of an ssh command */
    READ = 16384,     /* bytes of output read at a time */
    EARLY = 4096,     /* bytes of output before the other end has answered */
    FDS_OF_HOST = 4,  /* that are polled */
    FDS_OF_OTHERS = 3 /* signals, stdout, stderr */
};

typedef enum phase {
    COPYING,  /* this program is being copied */
    STARTING, /* the other end has not answered yet */
    RUNNING,  /* the command runs */
    ENDED,
} phase;

/* One host. */
typedef struct remote {
    const gw_launch_host *host;
    char label[GW_HOSTLIST_NAME + 16]; /* its name, with a number where the host has several commands */
    phase phase;
    gw_process ssh;
    int in, out, err; /* of ssh; -1 = closed */
    gw_launch_source from_out, from_err;
    const uint8_t *bytes; /* what is sent first: the program or the request */
    size_t length, sent;
    void *request; /* encoded; owned */
    size_t request_length;
    char words[8]; /* what is said after it and is not sent yet */
    size_t word_count;
    char early[EARLY]; /* output that may have the answer of the other end in it */
    size_t early_count;
    bool ended_well;
    int code; /* of the command, once it has ended by itself; -1 = it has not */
} remote;

typedef struct launcher {
    const gw_launch_options *options;
    gw_launch_outlet out, err;
    gw_launch_source own; /* what the launcher says itself */
    uint32_t count;
    remote *list;
    int signals;
    const uint8_t *program; /* its bytes, with `copy` */
    size_t program_bytes;
    char build[GW_BUILD_ID_TEXT];
    uint64_t asked_ns;  /* the first signal; 0 = none came */
    uint64_t killed_ns; /* the second one */
    uint64_t beat_ns;   /* when the last beat was sent */
    bool failed;        /* a host could not be started */
    bool deserted;      /* the terminal was closed, and the commands are detached */
    bool told_builds;
} launcher;

__attribute__((format(printf, 2, 3))) static void say(launcher *l, const char *format, ...) {
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    gw_launch_source_take(&l->own, text, strlen(text));
    gw_launch_source_end(&l->own);
}

/* Starting ssh. */

/* What the shell of the host is given to receive this program: it appears under its name once it is whole. */
static char *copy_command(const launcher *l) {
    char *text;
    GW_ASSERT_MEMORY(
        asprintf(&text,
                 "sh -c 'umask 077; f=godwit-%s; mkdir -p .godwit && cd .godwit && if test ! -x $f; then "
                 "cat > $f.$$ && test `wc -c < $f.$$` -eq %zu && chmod 700 $f.$$ && mv $f.$$ $f || "
                 "{ rm -f $f.$$; exit 1; }; fi'",
                 l->build, l->program_bytes) >= 0);
    return text;
}

static char *run_command(const launcher *l) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    GW_ASSERT_MEMORY(out != NULL);
    fputs("exec ", out);
    if (l->options->program != NULL)
        gw_shell_word(out, l->options->program);
    else
        fprintf(out, ".godwit/godwit-%s", l->build);
    fputs(" launch --remote-end", out);
    GW_ASSERT_MEMORY(fclose(out) == 0);
    return text;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Starts ssh with this command for the host. What is sent to it is the caller's to set. */
static bool start_ssh(const launcher *l, remote *r, char *command, gw_err *err) {
    int ends[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    char *argv[WORDS + 3];
    uint32_t count = 0;
    for (; l->options->ssh[count] != NULL; count++) argv[count] = l->options->ssh[count];
    GW_ASSERT(count <= WORDS);
    argv[count++] = r->host->ssh;
    argv[count++] = command;
    argv[count] = NULL;
    bool good =
        pipe2(ends[0], O_CLOEXEC) == 0 && pipe2(ends[1], O_CLOEXEC) == 0 && pipe2(ends[2], O_CLOEXEC) == 0;
    if (!good) gw_fail_errno(err, errno, "no pipe to ssh");
    const int fds[] = {ends[0][0], ends[1][1], ends[2][1]};
    const gw_spawn spawn = {.file = argv[0], .argv = argv, .environment = environ, .fds = fds, .fd_count = 3};
    good = good && gw_process_spawn(&spawn, &r->ssh, err);
    close_fd(&ends[0][0]);
    close_fd(&ends[1][1]);
    close_fd(&ends[2][1]);
    r->in = ends[0][1];
    r->out = ends[1][0];
    r->err = ends[2][0];
    if (good) fcntl(r->in, F_SETFL, O_NONBLOCK);
    return good;
}

static bool begin(launcher *l, remote *r, phase next, gw_err *err) {
    char *command = next == COPYING ? copy_command(l) : run_command(l);
    r->phase = next;
    r->bytes = next == COPYING ? l->program : r->request;
    r->length = next == COPYING ? l->program_bytes : r->request_length;
    r->sent = r->word_count = 0;
    bool good = start_ssh(l, r, command, err);
    free(command);
    return good;
}

/* Asking the commands. */

static void add_word(remote *r, gw_launch_word word) {
    if (r->phase == ENDED || r->phase == COPYING || r->in < 0) return;
    if (word == GW_LAUNCH_BEAT && r->word_count > 0) return; /* what waits says as much */
    if (r->word_count < sizeof r->words) r->words[r->word_count++] = (char)word;
}

static void ask_all(launcher *l, gw_launch_word word) {
    for (uint32_t i = 0; i < l->count; i++) add_word(&l->list[i], word);
}

static void leave_all(launcher *l) {
    if (l->asked_ns == 0) l->asked_ns = gw_now_ns();
    ask_all(l, GW_LAUNCH_LEAVE);
    for (uint32_t i = 0; i < l->count; i++)
        if (l->list[i].phase == COPYING) gw_process_kill(&l->list[i].ssh);
}

static void take_signal(launcher *l, int number) {
    uint64_t now_ns = gw_now_ns();
    if (number == SIGHUP && l->options->detach) {
        l->deserted = true;
        return;
    }
    if (l->asked_ns == 0) {
        say(l, "%s: the peers are asked to leave, with a checkpoint; a second signal ends them at once",
            strsignal(number));
        leave_all(l);
    } else if (now_ns - l->asked_ns > ECHO_NS && l->killed_ns == 0 && number != SIGHUP) {
        say(l, "%s: the peers are ended at once", strsignal(number));
        l->killed_ns = now_ns;
        ask_all(l, GW_LAUNCH_KILL);
    }
}

/* What comes in, and what goes out. */

static void send_on(remote *r) {
    for (;;) {
        const bool first = r->sent < r->length;
        const void *bytes = first ? (const void *)(r->bytes + r->sent) : r->words;
        size_t count = first ? r->length - r->sent : r->word_count;
        if (count == 0) break;
        ssize_t written = write(r->in, bytes, count);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno != EAGAIN) close_fd(&r->in); /* ssh ends, and tells why */
        if (written < 0) return;
        if (first) {
            r->sent += (size_t)written;
        } else {
            r->word_count -= (size_t)written;
            memmove(r->words, r->words + written, r->word_count);
        }
    }
    if (r->phase == COPYING) close_fd(&r->in);
}

/* Shows the output that came before the answer. */
static void show_early(remote *r) {
    gw_launch_source_take(&r->from_out, r->early, r->early_count);
    r->early_count = 0;
}

/* The other end has answered by its build. */
static void greet(launcher *l, remote *r, const char *build) {
    r->phase = RUNNING;
    if (strcmp(build, l->build) == 0 || l->told_builds) return;
    l->told_builds = true;
    say(l,
        "%s has another build of Godwit (%.16s; here %s): peers of different builds may compute other bytes, "
        "and turn "
        "each other away then; --copy puts this one there",
        r->label, build, l->build);
}

/* Looks for the answer of the other end, behind what its shell may say first, and shows all but that. */
static void take_early(launcher *l, remote *r, const char *bytes, size_t count) {
    const size_t hello = strlen(GW_LAUNCH_HELLO " ");
    while (count > 0 && r->phase == STARTING) {
        size_t taken = count < EARLY - r->early_count ? count : EARLY - r->early_count;
        memcpy(r->early + r->early_count, bytes, taken);
        r->early_count += taken;
        bytes += taken;
        count -= taken;
        char *line = memmem(r->early, r->early_count, GW_LAUNCH_HELLO " ", hello), *end = NULL;
        if (line != NULL) end = memchr(line, '\n', (size_t)(r->early + r->early_count - line));
        if (end != NULL) {
            *end = '\0';
            greet(l, r, line + hello);
            gw_launch_source_take(&r->from_out, r->early, (size_t)(line - r->early));
            gw_launch_source_end(&r->from_out);
            gw_launch_source_take(&r->from_out, end + 1, (size_t)(r->early + r->early_count - (end + 1)));
            r->early_count = 0;
        } else if (r->early_count == EARLY) {
            show_early(r);
        }
    }
    gw_launch_source_take(&r->from_out, bytes, count);
}

/* Reads output once. Returns whether there may be more. */
static bool read_output(launcher *l, remote *r, int *fd, gw_launch_source *source) {
    char bytes[READ];
    ssize_t count = read(*fd, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) {
        close_fd(fd);
        if (fd == &r->out) show_early(r);
        gw_launch_source_end(source);
        return false;
    }
    if (r->phase == STARTING && fd == &r->out)
        take_early(l, r, bytes, (size_t)count);
    else
        gw_launch_source_take(source, bytes, (size_t)count);
    return true;
}

/* Reads what ssh has left in its pipes. Where a process of the host still holds one, no end comes. */
static void drain(launcher *l, remote *r, int *fd, gw_launch_source *source) {
    struct pollfd readable = {.fd = *fd, .events = POLLIN};
    while (*fd >= 0 && poll(&readable, 1, 0) > 0 && read_output(l, r, fd, source)) continue;
    if (*fd >= 0 && fd == &r->out) show_early(r);
    if (*fd >= 0) gw_launch_source_end(source);
    close_fd(fd);
}

/* How commands end. */

static bool is_needed(const launcher *l) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < l->count; i++) left += l->list[i].phase != ENDED;
    return l->asked_ns == 0 && left > 0 && left < l->options->needed;
}

/* A command that never began, or refused to: the others would wait for it. */
static void miss(launcher *l, const remote *r) {
    if (!is_needed(l)) return;
    say(l, "without %s the other hosts would wait for ever for %u peers: they are asked to leave", r->label,
        l->options->needed);
    leave_all(l);
}

static void fail_start(launcher *l, remote *r, int code) {
    const char *why =
        code == 126   ? ": the program there cannot be executed"
        : code == 127 ? ": there is no such program there (--program PATH names it, --copy copies this one)"
                      : "";
    r->phase = ENDED;
    l->failed = true;
    if (l->asked_ns == 0 || code == 255)
        say(l, "%s: the command could not be started%s (%s)", r->label, why,
            code == 255 ? "ssh failed" : "see its lines above");
    miss(l, r);
}

/* Takes the end of ssh, by its exit status; -1 = by a signal. */
static void ended(launcher *l, remote *r, int code) {
    gw_err err;
    const phase before = r->phase;
    gw_process_close(&r->ssh);
    close_fd(&r->in);
    if (before == COPYING && code == 0 && l->asked_ns == 0) {
        if (begin(l, r, STARTING, &err)) return;
        say(l, "%s: %s", r->label, err.text);
        fail_start(l, r, -1);
        return;
    }
    if (before != RUNNING) {
        fail_start(l, r, code);
        return;
    }
    r->phase = ENDED;
    if (code < 0 || code == 255) {
        say(l, "%s: the connection is lost; the command there %s", r->label,
            l->options->detach ? "goes on (--detach)" : "is asked to leave");
        return;
    }
    r->code = code;
    r->ended_well = code == 0;
    if (code > 128)
        say(l, "%s: signal %d has ended the command (%s)", r->label, code - 128, strsignal(code - 128));
    else if (code != 0)
        say(l, "%s: the command has ended with exit code %d", r->label, code);
    if (code == 2) miss(l, r);
}

static void reap(launcher *l, remote *r) {
    int status = -1;
    if (!gw_process_wait(&r->ssh, 0, true, &status)) return;
    drain(l, r, &r->out, &r->from_out);
    drain(l, r, &r->err, &r->from_err);
    ended(l, r, status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* The loop. */

static void attend(launcher *l, struct pollfd *sources) {
    const bool full[] = {gw_launch_outlet_is_full(&l->out), gw_launch_outlet_is_full(&l->err)};
    nfds_t count = 0;
    sources[count++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    sources[count++] =
        (struct pollfd){.fd = gw_launch_outlet_waits(&l->out) ? l->out.fd : -1, .events = POLLOUT};
    sources[count++] =
        (struct pollfd){.fd = gw_launch_outlet_waits(&l->err) ? l->err.fd : -1, .events = POLLOUT};
    for (uint32_t i = 0; i < l->count; i++) {
        const remote *r = &l->list[i];
        const bool ends = r->phase == ENDED,
                   sends = r->sent < r->length || r->word_count > 0 || r->phase == COPYING;
        sources[count++] = (struct pollfd){.fd = ends ? -1 : r->ssh.fd, .events = POLLIN};
        sources[count++] = (struct pollfd){.fd = ends || !sends ? -1 : r->in, .events = POLLOUT};
        sources[count++] = (struct pollfd){.fd = ends || full[0] ? -1 : r->out, .events = POLLIN};
        sources[count++] = (struct pollfd){.fd = ends || full[1] ? -1 : r->err, .events = POLLIN};
    }
    if (poll(sources, count, 1000) < 0) return;
    struct signalfd_siginfo info;
    if (sources[0].revents != 0 && read(l->signals, &info, sizeof info) == sizeof info)
        take_signal(l, (int)info.ssi_signo);
    for (uint32_t i = 0; i < l->count; i++) {
        remote *r = &l->list[i];
        const struct pollfd *at = &sources[FDS_OF_OTHERS + FDS_OF_HOST * i];
        if (at[1].revents != 0 && r->in >= 0) send_on(r);
        if (at[2].revents != 0 && r->out >= 0) read_output(l, r, &r->out, &r->from_out);
        if (at[3].revents != 0 && r->err >= 0) read_output(l, r, &r->err, &r->from_err);
        if (at[0].revents != 0) reap(l, r);
    }
    gw_launch_outlet_write(&l->out, false);
    gw_launch_outlet_write(&l->err, false);
}

static bool all_ended(const launcher *l) {
    for (uint32_t i = 0; i < l->count; i++)
        if (l->list[i].phase != ENDED) return false;
    return true;
}

static void keep_alive(launcher *l) {
    uint64_t now_ns = gw_now_ns();
    if (now_ns - l->beat_ns > GW_LAUNCH_BEAT_S * SECOND_NS) {
        l->beat_ns = now_ns;
        ask_all(l, GW_LAUNCH_BEAT);
    }
    if (l->killed_ns == 0 || now_ns - l->killed_ns < KILL_NS) return;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->list[i].phase != ENDED) gw_process_kill(&l->list[i].ssh);
}

/* The exit code of the whole. */
static int judge(const launcher *l) {
    int worst = 0;
    bool well = false;
    for (uint32_t i = 0; i < l->count; i++) {
        const remote *r = &l->list[i];
        well |= r->ended_well;
        if (r->code > worst && r->code < 128) worst = r->code; /* a peer that dies costs a flock nothing */
    }
    if (l->deserted) return 0;
    if (l->killed_ns != 0) return 128 + SIGINT;
    return worst == 0 && (l->failed || !well) ? 1 : worst;
}

/* Opening and closing. */

static bool map_program(launcher *l, gw_err *err) {
    struct stat status;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        if (fd >= 0) close(fd);
        return gw_fail_errno(err, errno, "--copy: this program's file cannot be read");
    }
    l->program_bytes = (size_t)status.st_size;
    void *bytes = mmap(NULL, l->program_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED) return gw_fail_errno(err, errno, "--copy: this program's file cannot be read");
    l->program = bytes;
    return true;
}

static bool open_signals(launcher *l, sigset_t *before, gw_err *err) {
    sigset_t ours;
    struct sigaction inherited;
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigaction(numbers[i], NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
            sigaddset(&ours, numbers[i]);
    sigprocmask(SIG_BLOCK, &ours, before);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTSTP, SIG_IGN); /* a launcher that is stopped would look like one whose connections are lost */
    l->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals >= 0 || gw_fail_errno(err, errno, "signalfd");
}

static void write_label(const gw_launch_host *host, char *label, size_t room) {
    char number[16] = "";
    if (host->twins > 1) snprintf(number, sizeof number, ".%u", host->twin);
    snprintf(label, room, "%s%s", host->name, number);
}

/* The width of the names' column, which very long names leave. */
static size_t widest(const launcher *l) {
    enum { WIDE = 40 };
    size_t width = strlen(l->own.name);
    for (uint32_t i = 0; i < l->count; i++) {
        size_t length = strlen(l->list[i].label);
        if (length > width && length <= WIDE) width = length;
    }
    return width;
}

static bool begin_all(launcher *l, gw_err *err) {
    const gw_launch_options *o = l->options;
    for (uint32_t i = 0; i < l->count; i++) {
        remote *r = &l->list[i];
        *r = (remote){.host = &o->hosts->list[i], .ssh.fd = -1, .in = -1, .out = -1, .err = -1, .code = -1};
        write_label(r->host, r->label, sizeof r->label);
        if (!gw_launch_request_encode(&o->requests[i], &r->request, &r->request_length, err)) return false;
    }
    l->own.width = widest(l);
    for (uint32_t i = 0; i < l->count; i++) {
        remote *r = &l->list[i];
        r->from_out = r->from_err = (gw_launch_source){.name = r->label, .width = l->own.width, .colour = i};
        r->from_out.to = &l->out;
        r->from_err.to = &l->err;
        if (!begin(l, r, o->copy ? COPYING : STARTING, err)) return false;
    }
    return true;
}

static void close_all(launcher *l) {
    for (uint32_t i = 0; i < l->count && l->list[i].host != NULL; i++) {
        remote *r = &l->list[i];
        int status;
        close_fd(&r->in);
        close_fd(&r->out);
        close_fd(&r->err);
        if (r->ssh.fd >= 0) {
            gw_process_kill(&r->ssh);
            (void)gw_process_wait(&r->ssh, SECOND_NS, true, &status);
        }
        gw_process_close(&r->ssh);
        if (r->request != NULL) explicit_bzero(r->request, r->request_length);
        free(r->request);
    }
    if (l->program != NULL) munmap((void *)(uintptr_t)l->program, l->program_bytes);
    if (l->signals >= 0) close(l->signals);
    gw_launch_outlet_close(&l->out);
    gw_launch_outlet_close(&l->err);
    free(l->list);
}

int gw_launcher_run(const gw_launch_options *options, gw_err *err) {
    launcher l = {.options = options,
                  .out = gw_launch_outlet_on(STDOUT_FILENO),
                  .err = gw_launch_outlet_on(STDERR_FILENO),
                  .count = options->hosts->count,
                  .signals = -1,
                  .beat_ns = gw_now_ns()};
    sigset_t before;
    int code = -1;
    l.list = calloc(l.count, sizeof *l.list);
    struct pollfd *sources = calloc(FDS_OF_OTHERS + FDS_OF_HOST * (size_t)l.count, sizeof *sources);
    GW_ASSERT_MEMORY(l.list != NULL && sources != NULL);
    l.own = (gw_launch_source){.to = &l.err, .name = "launch", .colour = 5};
    gw_build_id(l.build);
    if (open_signals(&l, &before, err) && (!options->copy || map_program(&l, err)) && begin_all(&l, err)) {
        while (!l.deserted && !all_ended(&l)) {
            attend(&l, sources);
            keep_alive(&l);
        }
        gw_launch_outlet_write(&l.out, true);
        gw_launch_outlet_write(&l.err, true);
        code = judge(&l);
    }
    close_all(&l);
    free(sources);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}
