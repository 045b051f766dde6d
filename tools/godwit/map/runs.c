#include "tools/godwit/map/runs.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    WATCH_NS = 2000000,    /* a process that lives longer has its pipes watched */
    DRAIN_BYTES = 1 << 20, /* that are read of a pipe at the end of its process: more than a pipe holds */
    STRAYS_MOST = 64,
    NAME_BYTES = 64,
};

/* A pipe whose process has ended while others still hold it. */
typedef struct stray {
    gw_watch watch;
    gw_map_runs *runs;
} stray;

struct gw_map_runs {
    gw_map_runs_options options;
    char **environment; /* that of the options, then the three variables */
    char job[2 * NAME_BYTES], task[NAME_BYTES], attempt[NAME_BYTES];
    int null_fd;
    gw_map_run *first;
    uint32_t count;
    gw_timer look;              /* at runs whose pipes are not watched yet */
    stray *strays[STRAYS_MOST]; /* the oldest is replaced */
    uint32_t stray_next;
    uint8_t bytes[READ_BYTES];
};

gw_map_runs *gw_map_runs_open(const gw_map_runs_options *o, gw_err *err) {
    size_t count = 0;
    while (o->environment[count] != NULL) count++;
    gw_map_runs *r = calloc(1, sizeof *r);
    if (r != NULL) r->environment = malloc((count + 4) * sizeof(char *));
    if (r == NULL || r->environment == NULL) {
        free(r);
        gw_fail(err, GW_E_NOMEM, "no memory to run tasks");
        return NULL;
    }
    r->options = *o;
    r->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (r->null_fd < 0) {
        gw_fail_errno(err, errno, "cannot open /dev/null");
        free(r->environment);
        free(r);
        return NULL;
    }
    memcpy(r->environment, o->environment, count * sizeof(char *));
    r->environment[count] = r->job;
    r->environment[count + 1] = r->task;
    r->environment[count + 2] = r->attempt;
    r->environment[count + 3] = NULL;
    snprintf(r->job, sizeof r->job, "GODWIT_JOB=%s", o->job);
    return r;
}

static void drop_stray(stray *s) {
    if (s == NULL) return;
    int fd = s->watch.fd;
    gw_watch_remove(&s->watch);
    close(fd);
    free(s);
}

void gw_map_runs_close(gw_map_runs *r) {
    if (r == NULL) return;
    GW_ASSERT(r->count == 0);
    gw_timer_cancel(&r->look);
    for (uint32_t i = 0; i < STRAYS_MOST; i++) drop_stray(r->strays[i]);
    close(r->null_fd);
    free(r->environment);
    free(r);
}

/* What processes write. */

/* Adds what has been read of a pipe to its output. */
static void keep(gw_map_run *run, uint32_t which, size_t length) {
    gw_map_runs *r = run->runs;
    gw_err err;
    if (which == 0 && r->options.hash) {
        int failed = crypto_generichash_update(&run->hash, r->bytes, length);
        GW_ASSERT(failed == 0);
    }
    if (which == 0) run->row.bytes += length;
    if (!gw_map_output_add(r->options.store, which == 0 ? &run->output : &run->errors, r->bytes, length,
                           &err))
        r->options.failed(r->options.context, &err);
}

static void close_pipe(gw_map_run *run, uint32_t which) {
    gw_watch_remove(&run->watches[which]);
    if (run->pipes[which] >= 0) close(run->pipes[which]);
    run->pipes[which] = -1;
}

/* Reads a pipe once, which has something or is at its end. Returns how much it has read. */
static size_t read_pipe(gw_map_run *run, uint32_t which) {
    ssize_t got = read(run->pipes[which], run->runs->bytes, READ_BYTES);
    if (got > 0) keep(run, which, (size_t)got);
    if (got == 0) close_pipe(run, which);
    return got > 0 ? (size_t)got : 0;
}

static void on_output(void *context, uint32_t events) {
    gw_map_run *run = context;
    (void)events;
    if (read_pipe(run, 0) > 0 && run->runs->options.capture == GW_MAP_CAPTURE_LINES)
        run->runs->options.wrote(run->runs->options.context, run);
}

static void on_errors(void *context, uint32_t events) {
    gw_map_run *run = context;
    (void)events;
    if (read_pipe(run, 1) > 0 && run->runs->options.capture == GW_MAP_CAPTURE_LINES)
        run->runs->options.wrote(run->runs->options.context, run);
}

/* Drops what comes from a process that its task has left behind. */
static void on_stray(void *context, uint32_t events) {
    stray *s = context;
    (void)events;
    if (read(s->watch.fd, s->runs->bytes, READ_BYTES) > 0) return;
    for (uint32_t i = 0; i < STRAYS_MOST; i++)
        if (s->runs->strays[i] == s) s->runs->strays[i] = NULL;
    drop_stray(s);
}

/* Takes the pipe of a run that has ended, and that another process still holds: were it closed, that process would be
 * ended by the next thing that it writes. */
static void keep_stray(gw_map_run *run, uint32_t which) {
    gw_map_runs *r = run->runs;
    gw_err err;
    int fd = run->pipes[which];
    gw_watch_remove(&run->watches[which]);
    run->pipes[which] = -1;
    stray *s = calloc(1, sizeof *s);
    if (s != NULL) s->runs = r;
    if (s == NULL || !gw_watch_add(r->options.loop, &s->watch, fd, EPOLLIN, on_stray, s, &err)) {
        free(s);
        close(fd);
        return;
    }
    drop_stray(r->strays[r->stray_next]);
    r->strays[r->stray_next] = s;
    r->stray_next = (r->stray_next + 1) % STRAYS_MOST;
}

/* Reads what an ended process has left in its pipes. */
static void drain(gw_map_run *run) {
    size_t drained[2] = {0, 0};
    while (run->pipes[0] >= 0 || run->pipes[1] >= 0) {
        struct pollfd fds[2];
        for (uint32_t i = 0; i < 2; i++) fds[i] = (struct pollfd){.fd = run->pipes[i], .events = POLLIN};
        if (poll(fds, 2, 0) < 0 && errno == EINTR) continue;
        for (uint32_t i = 0; i < 2; i++) {
            if (run->pipes[i] < 0) continue;
            if ((fds[i].revents & POLLIN) != 0 && drained[i] < DRAIN_BYTES)
                drained[i] += read_pipe(run, i);
            else if (fds[i].revents == 0 || drained[i] >= DRAIN_BYTES)
                keep_stray(run, i);
            else
                close_pipe(run, i);
        }
    }
}

/* Watches the pipes of a run. */
static void watch_pipes(gw_map_run *run) {
    static gw_watch_call *const calls[2] = {on_output, on_errors};
    const gw_map_runs_options *o = &run->runs->options;
    gw_err err;
    for (uint32_t i = 0; i < 2; i++)
        if (run->pipes[i] >= 0 && run->watches[i].loop == NULL &&
            !gw_watch_add(o->loop, &run->watches[i], run->pipes[i], EPOLLIN, calls[i], run, &err))
            o->failed(o->context, &err);
    run->watched = true;
}

static void on_look(void *context);

static void look_later(gw_map_runs *r) {
    gw_err err;
    if (r->look.loop != NULL ||
        gw_timer_set(r->options.loop, &r->look, gw_now_ns() + WATCH_NS, on_look, r, &err))
        return;
    r->options.failed(r->options.context, &err);
}

/* Watches the pipes of runs that have lasted a while. Most processes that end at once write little, and need no watch: it
 * would wake the loop once more for each. */
static void on_look(void *context) {
    gw_map_runs *r = context;
    uint64_t now = gw_now_ns();
    bool younger = false;
    for (gw_map_run *run = r->first; run != NULL; run = run->next) {
        if (run->watched) continue;
        if (now - run->begun_ns >= WATCH_NS)
            watch_pipes(run);
        else
            younger = true;
    }
    if (younger) look_later(r);
}

/* Starting. */

/* Makes the pipes of a run; `ends` are what its process gets. */
static bool make_pipes(gw_map_run *run, int ends[2], gw_err *err) {
    for (uint32_t i = 0; i < 2; i++) {
        int both[2];
        if (pipe2(both, O_CLOEXEC) != 0) {
            gw_fail_errno(err, errno, "cannot make a pipe for a task");
            err->code = GW_E_NOMEM; /* there are too many descriptors for now */
            return false;
        }
        run->pipes[i] = both[0];
        ends[i] = both[1];
    }
    return true;
}

static void on_ended(void *context, uint32_t events);

static bool start(gw_map_run *run, const char *file, char *const *argv, gw_err *err) {
    gw_map_runs *r = run->runs;
    const gw_map_runs_options *o = &r->options;
    int ends[2] = {-1, -1};
    snprintf(r->task, sizeof r->task, "GODWIT_TASK=%llu", (unsigned long long)run->number + 1);
    snprintf(r->attempt, sizeof r->attempt, "GODWIT_ATTEMPT=%u", run->attempt);
    bool good = o->capture == GW_MAP_CAPTURE_NONE || make_pipes(run, ends, err);
    const int fds[3] = {r->null_fd, ends[0] >= 0 ? ends[0] : STDOUT_FILENO,
                        ends[1] >= 0 ? ends[1] : STDERR_FILENO};
    const gw_spawn spawn = {.file = file,
                            .argv = argv,
                            .environment = r->environment,
                            .directory = o->directory,
                            .fds = fds,
                            .fd_count = 3,
                            .inherits = true,
                            .nice = o->nice,
                            .death_signal = SIGTERM,
                            .files = o->files};
    run->begun_wall_ns = gw_wall_ns();
    run->begun_ns = gw_now_ns();
    good = good && gw_process_spawn(&spawn, &run->process, err);
    for (uint32_t i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
    return good && gw_watch_add(o->loop, &run->ended, run->process.fd, EPOLLIN, on_ended, run, err);
}

gw_map_run *gw_map_runs_start(gw_map_runs *r, const char *file, char *const *argv, uint64_t number,
                              uint32_t attempt, void *task, gw_err *err) {
    gw_map_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory to run a task");
        return NULL;
    }
    run->task = task;
    run->number = number;
    run->attempt = attempt;
    run->runs = r;
    run->process.fd = run->pipes[0] = run->pipes[1] = -1;
    run->watched = r->options.capture == GW_MAP_CAPTURE_NONE;
    if (r->options.hash) {
        int failed = crypto_generichash_init(&run->hash, NULL, 0, sizeof(gw_hash));
        GW_ASSERT(failed == 0);
    }
    if (!start(run, file, argv, err)) {
        close_pipe(run, 0);
        close_pipe(run, 1);
        if (run->process.fd >= 0) { /* it runs, and cannot be watched */
            int status;
            gw_process_kill(&run->process);
            gw_process_wait(&run->process, 1000000000, true, &status);
            gw_process_close(&run->process);
        }
        free(run);
        return NULL;
    }
    run->next = r->first;
    run->place = &r->first;
    if (run->next != NULL) run->next->place = &run->next;
    r->first = run;
    r->count++;
    if (!run->watched) look_later(r);
    return run;
}

/* Ending. */

/* Fills in how the process has ended. */
static void fill_row(gw_map_run *run, int status, const struct rusage *usage) {
    gw_map_row *row = &run->row;
    row->task = (uint32_t)run->number;
    row->attempt = run->attempt;
    row->exit_code = WIFEXITED(status) ? (uint8_t)WEXITSTATUS(status) : 0;
    row->signal = WIFSIGNALED(status) ? (uint8_t)WTERMSIG(status) : 0;
    row->outcome = status == 0 && run->stop == GW_MAP_STOP_NONE ? GW_MAP_SUCCESS : GW_MAP_FAILURE;
    if (run->stop == GW_MAP_STOP_TIMEOUT) {
        row->exit_code = GW_MAP_TOO_LONG;
        if (row->signal == 0) row->signal = SIGTERM; /* it has heeded that by itself */
    }
    row->wall_us = (gw_now_ns() - run->begun_ns) / 1000;
    row->rss_kib = (uint32_t)usage->ru_maxrss;
    if (!run->runs->options.hash) return;
    int failed = crypto_generichash_final(&run->hash, row->hash.bytes, sizeof row->hash.bytes);
    GW_ASSERT(failed == 0);
}

static void on_ended(void *context, uint32_t events) {
    gw_map_run *run = context;
    gw_map_runs *r = run->runs;
    struct rusage usage;
    int status;
    (void)events;
    if (!gw_process_reap(&run->process, run->killing, &status, &usage)) return;
    drain(run);
    fill_row(run, status, &usage);
    gw_watch_remove(&run->ended);
    gw_process_close(&run->process);
    gw_timer_cancel(&run->kill);
    gw_timer_cancel(&run->timeout);
    *run->place = run->next;
    if (run->next != NULL) run->next->place = run->place;
    r->count--;
    r->options.ended(r->options.context, run);
    gw_map_output_drop(r->options.store, &run->output);
    gw_map_output_drop(r->options.store, &run->errors);
    free(run);
}

static void on_kill(void *context) {
    gw_map_run *run = context;
    gw_process_signal_group(&run->process, SIGKILL);
}

void gw_map_run_end(gw_map_run *run, gw_map_stop why) {
    const gw_map_runs_options *o = &run->runs->options;
    gw_err err;
    if (run->killing) return;
    run->killing = true;
    run->stop = why;
    gw_process_signal_group(&run->process, SIGTERM);
    gw_process_signal_group(&run->process, SIGCONT); /* one that is stopped would not notice */
    if (!gw_timer_set(o->loop, &run->kill, gw_now_ns() + o->grace_ns, on_kill, run, &err)) on_kill(run);
}

void gw_map_runs_end_all(gw_map_runs *r, gw_map_stop why, bool at_once) {
    for (gw_map_run *run = r->first; run != NULL; run = run->next) {
        gw_map_run_end(run, why);
        if (at_once) gw_process_signal_group(&run->process, SIGKILL);
    }
}

void gw_map_runs_signal(gw_map_runs *r, int number) {
    for (gw_map_run *run = r->first; run != NULL; run = run->next)
        gw_process_signal_group(&run->process, number);
}

uint32_t gw_map_runs_count(const gw_map_runs *r) {
    return r->count;
}

gw_map_run *gw_map_runs_first(const gw_map_runs *r) {
    return r->first;
}

void gw_map_row_put_end(json_t *object, const gw_map_row *row) {
    bool too_long = gw_map_row_took_too_long(row);
    gw_json_count(object, "exit", too_long || gw_map_row_was_halted(row) ? 0 : row->exit_code);
    gw_json_count(object, "signal", row->signal);
    gw_json_flag(object, "timed_out", too_long);
}
