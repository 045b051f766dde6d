#include "core/base/assert.h"
#include "core/os/clock.h"
#include "kernels/device/class.h"
#include "kernels/host/memory_limit.h"
#include "kernels/jobs/program/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 100, /* how often a wait looks whether the answer is still wanted */
    NICE = 5,      /* gossip stays responsive when the machine is oversubscribed */
    OOM_SCORE = 500,
    CHILD_FDS = 4, /* input, output, errors, tie */
    LAST_LINES = 300,
    ASKS_WHERE =
        SIGUSR2, /* has a process that hangs print where it is; it ends one that knows nothing of that */
};

#define TELL_NS    UINT64_C(10000000000) /* how often people are told of a wait */
#define END_NS     UINT64_C(1000000000)  /* the end of a process that was killed */
#define CLOSED_NS  UINT64_C(5000000000)  /* the end of one that has closed its tie: it mostly is near */
#define START_NS   UINT64_C(10000000000) /* the end of one that has no job, as its libraries end with it */
#define GONE_NS    UINT64_C(10000000000) /* until a template that lives has said how a fork of it has ended */
#define WHERE_NS   UINT64_C(500000000)   /* the end of a process that hangs, once it was asked where it is */
#define SECONDS(n) ((double)(n)*1e-9)

/* Sending and receiving. */

static bool send_message(int tie, const gw_program_message *message, const int *fds) {
    uint8_t bytes[GW_PROGRAM_MESSAGE_MOST];
    struct iovec part = {.iov_base = bytes, .iov_len = gw_program_encode(message, bytes)};
    union {
        char bytes[CMSG_SPACE(GW_PROGRAM_DESCRIPTORS * sizeof(int))];
        struct cmsghdr aligned;
    } control = {0};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    size_t count = gw_program_descriptors(message->kind);
    GW_ASSERT(count == 0 || fds != NULL);
    if (count > 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
        *head = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    ssize_t sent;
    do sent = sendmsg(tie, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)part.iov_len && sent > 0;
}

/* Reads one packet. Returns its length, 0 at the end of the tie, -1 where there is none yet. A packet that is
 * too long or brings descriptors has length SIZE_MAX. */
static ssize_t receive_packet(program_process *p) {
    struct iovec part = {.iov_base = p->received, .iov_len = GW_PROGRAM_MESSAGE_MOST};
    /* Without room for descriptors the kernel closes those that come, and says so. */
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t length;
    do length = recvmsg(p->tie, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length < 0) return errno == EAGAIN ? -1 : 0;
    return (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? SSIZE_MAX : length;
}

/* The end of a process. */

/* Whether the kernel has killed a process for lack of memory since this one was started. */
static bool lacked_memory(const program_process *p, int status) {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && gw_memory_kills() > p->memory_kills;
}

/* Keeps what the template says of a fork's end until somebody asks. Called with the job's lock. */
static void keep_end(program *job, const gw_program_message *message) {
    job->ends[message->gone.serial % PROGRAM_ENDS] =
        (program_end){message->gone.serial, (int)message->gone.status};
}

static bool find_end(const program *job, uint32_t serial, int *status) {
    const program_end *end = &job->ends[serial % PROGRAM_ENDS];
    if (end->serial == serial) *status = end->status;
    return end->serial == serial;
}

/* Waits until the template has said how a fork of it has ended, or cannot say it any more. Called without the job's
 * lock. */
static void ask_template(const program_process *p, int *status) {
    program *job = p->job;
    uint64_t until = gw_now_ns() + GONE_NS;
    pthread_mutex_lock(&job->lock);
    while (!find_end(job, p->serial, status) && job->first.serial == p->template_serial) {
        gw_program_message message;
        gw_err err;
        ssize_t length = receive_packet(&job->first);
        if (length > 0 && length < SSIZE_MAX &&
            gw_program_decode(job->first.received, (size_t)length, &message, &err) &&
            message.kind == GW_PROGRAM_GONE) {
            keep_end(job, &message);
        } else if (length >= 0 || gw_now_ns() >= until) {
            break; /* what else the template says is judged when it is asked to fork */
        } else {
            struct pollfd readable = {.fd = job->first.tie, .events = POLLIN};
            (void)poll(&readable, 1, LOOK_MS);
        }
    }
    pthread_mutex_unlock(&job->lock);
}

bool program_process_join(program_process *p, uint64_t patience_ns, bool whole, int *status) {
    *status = -1;
    if (!gw_process_wait(&p->process, patience_ns, whole, status)) return false;
    if (p->template_serial != 0) ask_template(p, status);
    return true;
}

void program_process_end(program_process *p) {
    int status;
    if (p->serial == 0) return;
    gw_process_kill(&p->process);
    if (p->process.fd >= 0) (void)gw_process_wait(&p->process, END_NS, true, &status);
    gw_process_close(&p->process);
    if (p->tie >= 0) close(p->tie);
    program_output_close(p->output);
    free(p->received);
    program_arena_close(&p->own);
    *p = (program_process){
        .job = p->job, .process.fd = -1, .tie = -1, .lost_serial = p->lost_serial, .lost_kind = p->lost_kind};
}

static void note_loss(program_process *p, gw_process_loss_kind kind) {
    p->lost_serial = p->serial;
    p->lost_kind = kind;
}

/* How the end of a process counts. `status` is -1 where it is not known. The signals are those by which
 * people, supervisors and schedulers end processes. */
static gw_process_loss_kind kind_of(const program_process *p, int status) {
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    if (lacked_memory(p, status)) return GW_LOSS_STARVED;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == signals[i]) return GW_LOSS_KILLED;
    return GW_LOSS_CRASHED;
}

enum { WHERE_TEXT = 2 * LAST_LINES + 40 };

/* Writes where a process stood that has printed its stack (`stood`), and what it printed last (`last`, or
 * where it printed no stack), if anything. */
static const char *say_where(const program_process *p, bool stood, bool last, char text[WHERE_TEXT]) {
    char words[LAST_LINES];
    int used = 0;
    text[0] = '\0';
    program_output_place(p->output, words, sizeof words);
    if (stood && words[0] != '\0') used = snprintf(text, WHERE_TEXT, ", at %s", words);
    program_output_last(p->output, words, sizeof words);
    if ((last || used == 0) && words[0] != '\0')
        snprintf(text + used, WHERE_TEXT - (size_t)used, "; it last printed: %s", words);
    return text;
}

/* Writes how a process has ended; `status` is -1 where it is not known. */
static void say_end(const program_process *p, int status, gw_err *err) {
    char where[WHERE_TEXT], end[GW_PROCESS_END_TEXT] = "its parent does not say how";
    bool fell = status >= 0 && WIFSIGNALED(status) && kind_of(p, status) == GW_LOSS_CRASHED,
         failed = status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0;
    const char *why = "", *hint = "";
    if (status >= 0) gw_process_end(status, end);
    if (lacked_memory(p, status)) why = ", as the kernel ended it for lack of memory";
    if (status == 0 && !p->job->description.complete) why = " before it came to a job (in Python, job.run())";
    if (fell && p->job->description.complete && WTERMSIG(status) == SIGSEGV)
        hint = " (as by a write to the state, which can only be read in a shard: in Python, @job.update may "
               "change it)";
    gw_fail(err, GW_E_PEER, "worker %u (process %d) has ended: %s%s%s%s", p->serial, (int)p->process.pid, end,
            why, say_where(p, fell || failed, !fell, where), hint);
}

/* Writes what has become of a process whose tie has ended, or that `broke` the protocol (NULL: it did not),
 * and ends it. */
static program_outcome lose(program_process *p, const char *broke, gw_err *err) {
    char where[WHERE_TEXT];
    int status = -1;
    gw_process_loss_kind kind = GW_LOSS_CRASHED;
    if (broke != NULL)
        gw_fail(err, GW_E_PEER, "worker %u (process %d) broke the protocol: %s%s", p->serial,
                (int)p->process.pid, broke, say_where(p, false, true, where));
    else if (!program_process_join(p, p->job->description.complete ? CLOSED_NS : START_NS, true, &status))
        gw_fail(err, GW_E_PEER, "worker %u (process %d) closed its connection%s", p->serial,
                (int)p->process.pid, say_where(p, false, true, where));
    else if (p->template_serial != 0 && status < 0) { /* it ends with its template, or that would say how */
        gw_fail(err, GW_E_PEER, "worker %u (process %d) has ended with the process that it was forked from",
                p->serial, (int)p->process.pid);
        kind = GW_LOSS_KILLED;
    } else {
        say_end(p, status, err);
        kind = kind_of(p, status);
    }
    note_loss(p, kind);
    program_process_end(p);
    return PROGRAM_LOST;
}

/* Ends a process that hangs, which is asked where before. */
static program_outcome end_hung(program_process *p, gw_err *err) {
    char where[WHERE_TEXT];
    int status;
    gw_process_signal(&p->process, ASKS_WHERE);
    if (p->process.fd >= 0) (void)gw_process_wait(&p->process, WHERE_NS, true, &status);
    gw_fail(err, GW_E_TIMEOUT, "worker %u (process %d) has been busy with it for too long (--hang-timeout)%s",
            p->serial, (int)p->process.pid, say_where(p, true, false, where));
    note_loss(p, GW_LOSS_CRASHED);
    program_process_end(p);
    return PROGRAM_LOST;
}

/* Logs the text of an error line by line, as its first lines are not the important ones of a traceback, and
 * makes the error of its last line. */
static program_outcome take_error(program_process *p, const gw_program_message *m, gw_err *err) {
    static const gw_code codes[] = {[GW_PROGRAM_RAISED] = GW_E_INVALID,
                                    [GW_PROGRAM_REFUSED] = GW_E_USAGE,
                                    [GW_PROGRAM_UNABLE] = GW_E_PEER};
    char line[400] = "", last[400] = "", file[200];
    gw_program_text text = m->error.text;
    while (text.length > 0) {
        const char *end = memchr(text.bytes, '\n', text.length);
        size_t length = end != NULL ? (size_t)(end - text.bytes) : text.length;
        gw_program_text_copy((gw_program_text){text.bytes, length}, line, sizeof line);
        if (line[0] != '\0') memcpy(last, line, sizeof last);
        if (line[0] != '\0' && (end != NULL || length < m->error.text.length))
            gw_log(GW_ERROR, program_room, "[%u] %s", p->serial, line);
        size_t taken = end != NULL ? length + 1 : length;
        text.bytes += taken;
        text.length -= taken;
    }
    gw_program_text_copy(m->error.file, file, sizeof file);
    if (file[0] != '\0' && m->error.line > 0)
        gw_fail(err, codes[m->error.fault], "%s:%u: %s", file, m->error.line, last);
    else
        gw_fail(err, codes[m->error.fault], "%s%s%s", file, file[0] != '\0' ? ": " : "", last);
    if (m->error.fault == GW_PROGRAM_RAISED) return PROGRAM_RAISED;
    if (m->error.fault == GW_PROGRAM_UNABLE) {
        note_loss(p, GW_LOSS_CRASHED);
        return PROGRAM_LOST;
    }
    program_process_end(p);
    return PROGRAM_REFUSED;
}

/* Waits for the next message that is no LOG or GONE. */

typedef struct patience {
    program_look *look; /* NULL: the message is waited for */
    void *context;
    const char *what; /* what people are told about a long wait; NULL: nothing */
} patience;

/* Looks for a message that is there. Returns false where there is none yet. */
static bool take_packet(program_process *p, gw_program_message *m, size_t *length, program_outcome *outcome,
                        gw_err *err) {
    ssize_t found = receive_packet(p);
    gw_err why;
    if (found < 0) return false;
    *outcome = PROGRAM_ANSWERED;
    if (found == 0) {
        *outcome = lose(p, NULL, err);
    } else if (found == SSIZE_MAX) {
        *outcome = lose(p, "a message is too long, or brings descriptors", err);
    } else if (!gw_program_decode(p->received, (size_t)found, m, &why)) {
        *outcome = lose(p, why.text, err);
    } else if (m->kind == GW_PROGRAM_LOG) {
        char text[1000];
        gw_log((gw_level)m->log.level, program_room, "[%u] %s", p->serial,
               gw_program_text_copy(m->log.text, text, sizeof text));
        return false;
    } else if (m->kind == GW_PROGRAM_GONE && p == &p->job->first) {
        keep_end(p->job, m);
        return false;
    }
    *length = (size_t)found;
    return true;
}

static program_outcome receive(program_process *p, const patience *w, gw_program_message *m, size_t *length,
                               gw_err *err) {
    uint64_t began = gw_now_ns(), told = began;
    program_outcome outcome;
    for (;;) {
        struct pollfd list[] = {{.fd = p->tie, .events = POLLIN}, {.fd = p->process.fd, .events = POLLIN}};
        int ready = poll(list, 2, LOOK_MS);
        while (list[0].revents != 0) { /* messages that were sent before the end count */
            if (take_packet(p, m, length, &outcome, err)) return outcome;
            struct pollfd more = {.fd = p->tie, .events = POLLIN};
            if (poll(&more, 1, 0) <= 0) break;
        }
        if (ready > 0 && list[0].revents == 0 && list[1].revents != 0) return lose(p, NULL, err);
        program_wait wait = w->look != NULL ? w->look(w->context) : PROGRAM_GOES_ON;
        if (wait == PROGRAM_HANGS) return end_hung(p, err);
        if (wait == PROGRAM_DROPS) {
            program_process_end(p);
            return PROGRAM_UNWANTED;
        }
        uint64_t now = gw_now_ns();
        if (w->what == NULL || now - told < TELL_NS) continue;
        told = now;
        gw_log(GW_INFO, program_room, "worker %u: waits for %s %s (%.0f s)", p->serial, p->job->file, w->what,
               SECONDS(now - began));
    }
}

/* Receives a message that has to be of one kind. */
static program_outcome expect(program_process *p, const patience *w, gw_program_kind kind,
                              gw_program_message *m, gw_err *err) {
    size_t length;
    program_outcome outcome = receive(p, w, m, &length, err);
    if (outcome != PROGRAM_ANSWERED) return outcome;
    if (m->kind == GW_PROGRAM_ERROR) return take_error(p, m, err);
    if (m->kind == kind) return PROGRAM_ANSWERED;
    char broke[100];
    snprintf(broke, sizeof broke, "it sent %s instead of %s", gw_program_kind_name(m->kind),
             gw_program_kind_name(kind));
    return lose(p, broke, err);
}

program_outcome program_process_ask(program_process *p, const program_request *request,
                                    gw_program_message *reply, gw_err *err) {
    const patience w = {.look = request->look, .context = request->context};
    if (!send_message(p->tie, request->message, request->fds)) return lose(p, NULL, err);
    program_outcome outcome = expect(p, &w, request->reply, reply, err);
    if (outcome != PROGRAM_ANSWERED || reply->kind != GW_PROGRAM_DONE ||
        reply->done.request == request->message->kind)
        return outcome;
    return lose(p, "its DONE names another request", err);
}

void program_process_leave(program_process *p) {
    if (p->serial != 0) (void)send_message(p->tie, &(gw_program_message){.kind = GW_PROGRAM_LEAVE}, NULL);
}

/* Starting. */

static bool spawn(program *job, program_process *p, int tie, int output, gw_err *err) {
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0) return gw_fail_errno(err, errno, "/dev/null");
    const int fds[CHILD_FDS] = {nothing, output, output, tie};
    const gw_spawn how = {.file = job->command.file,
                          .argv = job->command.argv,
                          .environment = job->command.environment,
                          .fds = fds,
                          .fd_count = CHILD_FDS,
                          .nice = NICE,
                          .oom_score = OOM_SCORE};
    bool good = program_keeper_spawn(job->keeper, &how, &p->process, err);
    close(nothing);
    bool python = job->command.file != job->file;
    return good || (python && gw_fail_in(err, "--python"));
}

/* Has the template fork the process; a template that has died is replaced first. */
static program_outcome fork_template(program *job, program_process *p, int tie, int output, gw_err *err) {
    gw_program_message message = {.kind = GW_PROGRAM_FORK, .fork.serial = p->serial}, reply = {.kind = 0};
    const int fds[] = {tie, output};
    const program_request request = {.message = &message, .fds = fds, .reply = GW_PROGRAM_FORKED};
    pthread_mutex_lock(&job->lock);
    program_outcome outcome = program_first_start(job, err);
    if (outcome == PROGRAM_ANSWERED) {
        pid_t parent = job->first.process.pid;
        outcome = program_process_ask(&job->first, &request, &reply, err);
        if (outcome == PROGRAM_ANSWERED &&
            (reply.forked.serial != p->serial ||
             !gw_process_open((pid_t)reply.forked.pid, parent, &p->process, err)))
            outcome = lose(&job->first, "FORKED names another process", err);
    }
    if (outcome == PROGRAM_ANSWERED) p->template_serial = job->first.serial;
    if (outcome == PROGRAM_LOST) p->lost_kind = job->first.lost_kind; /* it was to be forked from that */
    pthread_mutex_unlock(&job->lock);
    return outcome;
}

/* Takes the program that has started this peer. It has no descriptor of the process, so that nothing kills it
 * or waits for its end, and prints where it likes. */
static bool take_alone(program *job, program_process *p, gw_err *err) {
    *p = (program_process){.job = job, .process.fd = -1, .tie = job->alone_tie};
    job->alone_tie = -1;
    p->serial = atomic_fetch_add(&job->serials, 1) + 1;
    p->received = malloc(GW_PROGRAM_MESSAGE_MOST);
    return p->received != NULL || gw_fail(err, GW_E_NOMEM, "no memory for a worker's messages");
}

/* Opens the process's own things: the tie, whose other end *tie becomes, and the output. */
static bool prepare(program *job, program_process *p, bool quiet, int *tie, int *output, gw_err *err) {
    int ties[2];
    *p = (program_process){.job = job, .process.fd = -1, .tie = -1};
    *tie = *output = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ties) != 0)
        return gw_fail_errno(err, errno, "a connection with a worker");
    p->tie = ties[0];
    *tie = ties[1];
    p->serial = atomic_fetch_add(&job->serials, 1) + 1;
    p->memory_kills = gw_memory_kills();
    p->received = malloc(GW_PROGRAM_MESSAGE_MOST);
    if (p->received == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a worker's messages");
    p->output = program_output_open(job->keeper, p->serial, quiet, output, err);
    return p->output != NULL;
}

program_outcome program_process_start(program *job, program_process *p, gw_program_role role, uint32_t slot,
                                      bool leads, gw_err *err) {
    int tie = -1, output = -1;
    char build[GW_BUILD_ID_TEXT];
    bool is_there = role == GW_PROGRAM_FIRST && job->alone_tie >= 0;
    bool good =
        is_there ? take_alone(job, p, err) : prepare(job, p, role == GW_PROGRAM_WORKER, &tie, &output, err);
    gw_build_id(build);
    gw_program_message message = {.kind = GW_PROGRAM_WELCOME};
    message.welcome = (gw_program_welcome){.role = role,
                                           .leads = leads,
                                           .serial = p->serial,
                                           .threads = job->threads,
                                           .slot = slot,
                                           .seed = job->seed,
                                           .build = gw_program_text_of(build),
                                           .cpu_class = gw_program_text_of(gw_cpu_class_instructions())};
    good = good &&
           (send_message(p->tie, &message, NULL) || gw_fail(err, GW_E_IO, "a worker cannot be welcomed"));
    program_outcome outcome = good ? PROGRAM_ANSWERED : PROGRAM_LOST;
    if (good && role == GW_PROGRAM_FORKED_WORKER)
        outcome = fork_template(job, p, tie, output, err);
    else if (good && !is_there && !spawn(job, p, tie, output, err))
        outcome = err->code == GW_E_NOTFOUND ? PROGRAM_REFUSED : PROGRAM_LOST;
    if (tie >= 0) close(tie);
    if (output >= 0) close(output);
    const patience w = {.what = "to say hello"};
    if (outcome == PROGRAM_ANSWERED) outcome = expect(p, &w, GW_PROGRAM_HELLO, &message, err);
    if (outcome != PROGRAM_ANSWERED) program_process_end(p);
    return outcome;
}

program_outcome program_process_describe(program_process *p, gw_program_description *description,
                                         gw_err *err) {
    const patience w = {.what = "to describe the job"};
    while (!description->complete) {
        gw_program_message message = {.kind = 0};
        size_t length = 0;
        gw_err why;
        program_outcome outcome = receive(p, &w, &message, &length, err);
        if (outcome != PROGRAM_ANSWERED) return outcome;
        if (message.kind == GW_PROGRAM_ERROR) return take_error(p, &message, err);
        if (gw_program_description_add(description, p->received, length, &why)) continue;
        *err = why;
        program_process_end(p);
        return PROGRAM_REFUSED;
    }
    program_output_show(p->output);
    return PROGRAM_ANSWERED;
}
