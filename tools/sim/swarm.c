#include "tools/sim/swarm.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/sim/setup/limit.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_JOBS = 256, USUAL_PATIENCE_S = 30, LOOK_MS = 1000 };

typedef struct report { /* a worker's message; it fits into one write to a pipe */
    uint64_t seed;
    bool ended; /* true: the seed has ended; false: it begins */
    gw_sim_result result;
} report;

typedef struct worker {
    pid_t pid; /* 0 = no process */
    int fd;
    uint64_t seed;     /* its current seed, or the next one */
    bool busy, killed; /* killed: the swarm has killed it because it should stop */
} worker;

static volatile sig_atomic_t stop; /* number of requests to stop, in this process and in each worker */

static void ask_to_stop(int signal) {
    (void)signal;
    stop++;
}

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof stop_signals[0] };

static void heed_signals(struct sigaction before[STOP_SIGNALS]) {
    struct sigaction asked = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART};
    for (int i = 0; i < STOP_SIGNALS; i++) {
        GW_ASSERT(sigaction(stop_signals[i], NULL, &before[i]) == 0);
        bool nohup = stop_signals[i] == SIGHUP && before[i].sa_handler == SIG_IGN;
        GW_ASSERT(nohup || sigaction(stop_signals[i], &asked, NULL) == 0);
    }
}

static void restore_signals(const struct sigaction before[STOP_SIGNALS]) {
    for (int i = 0; i < STOP_SIGNALS; i++) GW_ASSERT(sigaction(stop_signals[i], &before[i], NULL) == 0);
}

static uint64_t now_s(void) {
    return gw_now_ns() / 1000000000;
}

static void work(const gw_sim_swarm *swarm, uint64_t first, uint64_t until_s, int fd) {
    report r = {.seed = first};
    bool told = true;
    signal(GW_SIM_OVER_LIMIT, SIG_DFL);
    for (; told && !stop && now_s() < until_s; r.seed += swarm->jobs) {
        gw_sim_options run = gw_sim_prepare(&swarm->options, r.seed, swarm->repairs);
        r.ended = false;
        told = write(fd, &r, sizeof r) == (ssize_t)sizeof r;
        gw_sim_limit(&run);
        gw_sim_run(&run, &r.result);
        r.ended = true;
        told = told && write(fd, &r, sizeof r) == (ssize_t)sizeof r;
    }
    exit(0); /* not _exit: a coverage build writes its counts at exit */
}

static void start_worker(const gw_sim_swarm *swarm, worker *w, uint64_t until_s) {
    int ends[2];
    fflush(NULL);
    GW_ASSERT(pipe(ends) == 0);
    w->pid = fork();
    GW_ASSERT(w->pid >= 0);
    if (w->pid == 0) {
        close(ends[0]);
        work(swarm, w->seed, until_s, ends[1]);
    }
    close(ends[1]);
    w->fd = ends[0];
    w->busy = w->killed = false;
}

static void note_failure(const gw_sim_swarm *swarm, gw_sim_findings *f, uint64_t seed, const char *why) {
    const gw_sim_options run = gw_sim_prepare(&swarm->options, seed, swarm->repairs);
    char command[GW_SIM_COMMAND];
    f->failed++;
    printf("seed %" PRIu64 " FAILED: %.250s\n  %s\n", seed, why,
           gw_sim_command(&run, command, sizeof command));
    fflush(stdout);
    if (f->kept == GW_SIM_FAILURES) return;
    f->failures[f->kept] = seed;
    snprintf(f->why[f->kept], sizeof f->why[f->kept], "%.250s", why);
    f->kept++;
}

static void take_report(const gw_sim_swarm *swarm, gw_sim_findings *f, worker *w, const report *r) {
    w->seed = r->ended ? r->seed + swarm->jobs : r->seed;
    w->busy = !r->ended;
    if (!r->ended) return;
    f->seeds++;
    gw_sim_result_add(&f->all, &r->result);
    if (r->result.failed) note_failure(swarm, f, r->seed, r->result.why);
}

/* Reports a seed that was killed: it may be one that never ends, and must not be lost. */
static void report_stopped(const gw_sim_swarm *swarm, uint64_t seed) {
    const gw_sim_options run = gw_sim_prepare(&swarm->options, seed, swarm->repairs);
    char command[GW_SIM_COMMAND];
    printf("seed %" PRIu64 " was stopped before its end\n  %s\n", seed,
           gw_sim_command(&run, command, sizeof command));
    fflush(stdout);
}

/* Describes the unexpected end of a worker. */
static void describe_end(const gw_sim_swarm *swarm, const worker *w, int status, char *why, size_t size) {
    bool signalled = WIFSIGNALED(status);
    char text[GW_SIM_LIMIT_TEXT];
    if (w->busy && signalled && WTERMSIG(status) == GW_SIM_OVER_LIMIT)
        snprintf(why, size, "%s", gw_sim_limit_say(&swarm->options, text));
    else
        snprintf(why, size, "%s: its process ended %s %d",
                 w->busy ? "an invariant is broken" : "the seed was not begun",
                 signalled ? "by signal" : "with exit code",
                 signalled ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Handles the end of a worker: the time is up, it was stopped, or it died in its current seed or before
 * the next one. */
static void reap(const gw_sim_swarm *swarm, gw_sim_findings *f, worker *w, uint64_t until_s) {
    int status = 0;
    char why[100];
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {
    }
    close(w->fd);
    w->pid = 0;
    if (w->killed && w->busy) report_stopped(swarm, w->seed);
    if (w->killed || (!w->busy && WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
    describe_end(swarm, w, status, why, sizeof why);
    f->seeds += w->busy;
    note_failure(swarm, f, w->seed, why);
    w->seed += swarm->jobs;
    if (!stop && now_s() < until_s) start_worker(swarm, w, until_s);
}

/* Passes a request to stop on to the workers, once. *since_s becomes the time of the request; 0 = none
 * yet. */
static void pass_on_stop(const gw_sim_swarm *swarm, worker **workers, uint32_t count, uint64_t *since_s) {
    uint64_t patience_s = swarm->patience_s != 0 ? swarm->patience_s : USUAL_PATIENCE_S;
    bool told = *since_s != 0;
    if (stop == 0) return;
    if (!told) *since_s = now_s();
    for (uint32_t i = 0; i < count && !told; i++) kill(workers[i]->pid, SIGTERM);
    bool kills = stop > 1 || now_s() >= *since_s + patience_s;
    for (uint32_t i = 0; i < count && kills; i++) {
        workers[i]->killed = true;
        kill(workers[i]->pid, SIGKILL);
    }
}

/* Reads reports until all workers have ended. */
static void listen_to(const gw_sim_swarm *swarm, gw_sim_findings *findings, worker *workers,
                      uint64_t until_s) {
    struct pollfd polls[MOST_JOBS];
    for (uint64_t stopping_since_s = 0;;) {
        uint32_t count = 0;
        worker *of[MOST_JOBS];
        for (uint32_t i = 0; i < swarm->jobs; i++) {
            if (workers[i].pid == 0) continue;
            of[count] = &workers[i];
            polls[count++] = (struct pollfd){.fd = workers[i].fd, .events = POLLIN};
        }
        if (count == 0) return;
        pass_on_stop(swarm, of, count, &stopping_since_s);
        if (poll(polls, count, LOOK_MS) < 0) continue; /* interrupted by a signal */
        for (uint32_t i = 0; i < count; i++) {
            if (polls[i].revents == 0) continue;
            report r;
            ssize_t got = read(polls[i].fd, &r, sizeof r);
            if (got == (ssize_t)sizeof r)
                take_report(swarm, findings, of[i], &r);
            else if (got >= 0)
                reap(swarm, findings, of[i], until_s);
        }
    }
}

bool gw_sim_swarm_run(const gw_sim_swarm *swarm, gw_sim_findings *findings) {
    _Static_assert(sizeof(report) <= 4096, "a pipe takes so much at once");
    static worker workers[MOST_JOBS];
    struct sigaction before[STOP_SIGNALS];
    GW_ASSERT(swarm->jobs >= 1 && swarm->jobs <= MOST_JOBS);
    memset(findings, 0, sizeof *findings);
    memset(workers, 0, sizeof workers);
    stop = 0;
    heed_signals(before);
    uint64_t until_s = now_s() + swarm->seconds;
    for (uint32_t i = 0; i < swarm->jobs; i++) {
        workers[i].seed = swarm->first + i;
        start_worker(swarm, &workers[i], until_s);
    }
    listen_to(swarm, findings, workers, until_s);
    restore_signals(before);
    return !stop;
}
