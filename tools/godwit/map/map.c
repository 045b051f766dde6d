#include "tools/godwit/map/map.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/map/inside.h"
#include "tools/godwit/thread/descriptors.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    MEMORY_BYTES = 64 << 20, /* of outputs in memory */
    OWN_DESCRIPTORS = 128,   /* of the map itself, and what others have left open */
    JOB_BYTES = 8,
};

void map_tell(map *m, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_map_progress_hide(&m->progress);
    gw_log(GW_WARN, "map", "%s", text);
}

void map_tell_too_long(map *m, uint64_t task) {
    map_tell(m, "task %llu took too long and is ended", (unsigned long long)task + 1);
}

void map_tell_command(map *m, const map_task *task) {
    if (!m->options->verbose || !map_render_line(m, task)) return;
    gw_map_progress_hide(&m->progress);
    fprintf(stderr, "%s\n", m->line.bytes);
}

void map_trouble(map *m, const gw_err *err) {
    if (!m->in_trouble) m->trouble = *err;
    m->in_trouble = true;
    map_end(m, MAP_ENDS_NOW);
}

void map_end(map *m, map_course course) {
    const gw_map_feed *feed = m->options->feed;
    if (feed != NULL && m->course == MAP_GOES_ON && course > m->course) feed->leave(feed->context);
    if (course > m->course) m->course = course;
    if (m->course == MAP_ENDS_NOW && m->runs != NULL) gw_map_runs_end_all(m->runs, GW_MAP_STOP_HALT, false);
}

/* Signals. The first SIGINT or SIGTERM lets the tasks that run end by themselves, the second one ends them, the third one
 * kills them. SIGHUP ends them at once, as the terminal has gone. */

static void on_ending_signal(map *m, int number) {
    uint32_t running = gw_map_runs_count(m->runs);
    bool first = m->signal == 0;
    const char *again = number == SIGINT ? "Ctrl-C" : "another signal";
    if (m->signal == 0) m->signal = number;
    m->over |= number == SIGHUP;
    m->hurries = m->course == MAP_ENDS_NOW;
    if (m->hurries) {
        gw_map_runs_end_all(m->runs, GW_MAP_STOP_HALT, true);
        return;
    }
    if (!first || number == SIGHUP || (running == 0 && !m->is_elsewhere)) return map_end(m, MAP_ENDS_NOW);
    if (m->is_elsewhere)
        map_tell(m, "no more tasks are started; those that run go on: %s ends them at once", again);
    else if (m->options->feed == NULL) /* what a child of a flock tells nobody reads */
        map_tell(m, "no more tasks are started; %u %s: %s ends %s at once", running,
                 running == 1 ? "goes on" : "go on", again, running == 1 ? "it" : "them");
    map_end(m, MAP_ENDS_SOON);
}

/* Ctrl-Z stops the tasks, which are no members of the terminal's foreground, and this process. */
static void stop_with_tasks(map *m) {
    gw_map_progress_hide(&m->progress);
    gw_map_runs_signal(m->runs, SIGSTOP);
    raise(SIGSTOP);
    gw_map_runs_signal(m->runs, SIGCONT);
}

static void on_signal(void *context, uint32_t events) {
    map *m = context;
    struct signalfd_siginfo info;
    (void)events;
    while (read(m->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            stop_with_tasks(m);
        else
            on_ending_signal(m, (int)info.ssi_signo);
    }
}

/* Blocks the signals, but for those that are ignored (nohup), and has the loop hear of them. */
static bool take_signals(map *m, gw_err *err) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN)
            sigaddset(&taken, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &taken, NULL);
    m->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (m->signal_fd < 0) return gw_fail_errno(err, errno, "signalfd");
    return gw_watch_add(m->loop, &m->signal_watch, m->signal_fd, EPOLLIN, on_signal, m, err);
}

/* Opening. */

/* The number of slots that there can be, and the limit of descriptors that tasks get, which is that of this process. */
static uint32_t count_slots(map *m, uint64_t *files) {
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024}, processes = {.rlim_cur = RLIM_INFINITY};
    const uint32_t wanted = m->options->slots;
    getrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NPROC, &processes);
    *files = limit.rlim_cur;
    gw_descriptors_take();
    uint64_t most = limit.rlim_max > OWN_DESCRIPTORS + GW_MAP_RUN_DESCRIPTORS
                        ? (limit.rlim_max - OWN_DESCRIPTORS) / GW_MAP_RUN_DESCRIPTORS
                        : 1;
    if (most > GW_MAP_SLOTS_MOST) most = GW_MAP_SLOTS_MOST;
    if (wanted > 0 && wanted <= most) return wanted;
    if (wanted > most)
        map_tell(m, "only %llu tasks run at a time: there may be no more descriptors (ulimit -Hn)",
                 (unsigned long long)most);
    if (wanted == 0 && processes.rlim_cur < most) most = processes.rlim_cur;
    return (uint32_t)most;
}

static bool open_runs(map *m, gw_err *err) {
    const gw_map_options *o = m->options;
    uint8_t id[JOB_BYTES];
    char job[2 * JOB_BYTES + 1];
    uint64_t files;
    randombytes_buf(id, sizeof id);
    gw_hex(id, sizeof id, job);
    m->slots = count_slots(m, &files);
    m->free_slots = calloc((m->slots + 63) / 64, sizeof *m->free_slots);
    if (m->free_slots == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for the slots");
    for (uint32_t i = 0; i < m->slots; i++) m->free_slots[i / 64] |= 1ull << (i % 64);
    int nice = getpriority(PRIO_PROCESS, 0) + o->nice;
    gw_map_capture capture = o->print == GW_MAP_PRINT_MIXED   ? GW_MAP_CAPTURE_NONE
                             : o->print == GW_MAP_PRINT_LINES ? GW_MAP_CAPTURE_LINES
                                                              : GW_MAP_CAPTURE_ALL;
    const gw_map_runs_options options = {.loop = m->loop,
                                         .store = m->store,
                                         .job = o->job != NULL ? o->job : job,
                                         .environment = o->environment,
                                         .directory = o->directory,
                                         .nice = nice < 19 ? nice : 19,
                                         .files = files,
                                         .grace_ns = o->grace_ns,
                                         .capture = capture,
                                         .hash = o->json || o->feed != NULL,
                                         .context = m,
                                         .ended = map_on_ended,
                                         .wrote = map_on_wrote,
                                         .failed = map_on_failed};
    m->runs = gw_map_runs_open(&options, err);
    return m->runs != NULL;
}

/* Opens the job log, after what it says of an earlier map has been read. */
static bool open_log(map *m, gw_err *err) {
    const gw_map_options *o = m->options;
    bool resumes = o->resume || o->resume_failed || o->retry_failed;
    if (o->job_log == NULL) return true;
    if (resumes && !gw_map_log_read(o->job_log, o->retry_failed, &m->logged, err)) return false;
    return o->dry_run || gw_map_log_open(&m->log, o->job_log, !resumes, err);
}

static bool open_templates(map *m, gw_err *err) {
    const gw_map_options *o = m->options;
    gw_map_template_options command = {.words = o->words,
                                       .word_count = o->retry_failed ? 0 : o->word_count,
                                       .quote = o->quote,
                                       .repeat = o->repeat,
                                       .none = o->inputs.most == 0,
                                       .replace = o->replace};
    m->command = gw_map_template_open(&command, err);
    if (m->command == NULL) return false;
    for (uint32_t i = 0; i < o->fetch_count; i++) {
        gw_map_template_options name = {
            .words = &o->fetch[i], .word_count = 1, .none = true, .replace = o->replace};
        if ((m->fetches[i] = gw_map_template_open(&name, err)) == NULL) return false;
    }
    if (!o->tag) return true;
    char *text;
    if (asprintf(&text, "%s\t", o->tag_text != NULL ? o->tag_text : "{}") < 0)
        return gw_fail(err, GW_E_NOMEM, "no memory for the tags");
    gw_map_template_options tag = {.words = &text, .word_count = 1, .none = true, .replace = o->replace};
    m->tag = gw_map_template_open(&tag, err);
    free(text);
    return m->tag != NULL;
}

static void on_trouble(void *context, const gw_err *err) {
    map_trouble(context, err);
}

static bool open_map(map *m, gw_err *err) {
    const gw_map_options *o = m->options;
    m->loop = gw_loop_open(err);
    if (m->loop == NULL) return false;
    m->store = gw_map_store_open(o->folder, MEMORY_BYTES, err);
    if (m->store == NULL || !open_templates(m, err) || !open_log(m, err)) return false;
    m->order.store = m->store;
    if (!o->retry_failed && o->feed == NULL && (m->inputs = gw_map_inputs_open(&o->inputs, err)) == NULL)
        return false;
    m->output = gw_map_printer_open(m->loop, m->store, STDOUT_FILENO, "standard output", err);
    m->errors = m->output != NULL
                    ? gw_map_printer_open(m->loop, m->store, STDERR_FILENO, "standard error", err)
                    : NULL;
    if (m->errors == NULL) return false;
    if (o->json && (m->table = gw_map_table_open(GW_MAP_TASKS_MOST, err)) == NULL) return false;
    /* The threads of a feed are to have no signals either. */
    return open_runs(m, err) && take_signals(m, err) &&
           (o->feed == NULL ||
            (m->fed = o->feed->open(o->feed->context, m->loop, m->store, on_trouble, m, err)));
}

static void close_map(map *m) {
    gw_watch_remove(&m->input_watch);
    gw_watch_remove(&m->signal_watch);
    gw_timer_cancel(&m->pause);
    gw_timer_cancel(&m->progress_timer);
    gw_map_runs_close(m->runs);
    gw_map_printer_close(m->output);
    gw_map_printer_close(m->errors);
    gw_map_order_free(&m->order);
    gw_map_inputs_close(m->inputs);
    while (m->again != NULL) {
        map_task *task = m->again;
        m->again = task->next;
        task->slot = 0;
        map_drop_task(m, task);
    }
    gw_map_template_close(m->command);
    gw_map_template_close(m->tag);
    for (uint32_t i = 0; i < m->options->fetch_count; i++) gw_map_template_close(m->fetches[i]);
    gw_map_command_free(&m->words);
    gw_map_command_free(&m->line);
    gw_map_command_free(&m->tag_line);
    gw_map_log_tasks_free(&m->logged);
    gw_map_table_close(m->table);
    gw_map_store_close(m->store);
    free(m->free_slots);
    if (m->loop != NULL) gw_loop_close(m->loop);
    if (m->signal_fd >= 0) close(m->signal_fd);
}

/* Running. */

static void on_progress(void *context) {
    map *m = context;
    gw_err err;
    gw_map_counts counts = map_counts(m);
    gw_map_progress_draw(&m->progress, &counts, true);
    if (!gw_timer_set(m->loop, &m->progress_timer, gw_now_ns() + GW_MAP_PROGRESS_NS, on_progress, m, &err))
        map_trouble(m, &err);
}

bool map_is_printing(const map *m) {
    if (m->course == MAP_ENDS_NOW && m->signal != 0) return false;
    return !m->in_trouble && gw_map_printer_backlog(m->output) + gw_map_printer_backlog(m->errors) > 0;
}

static void run_map(map *m) {
    bool summed = m->table == NULL;
    for (;;) {
        if (m->fed) map_follow_feed(m);
        map_start_tasks(m);
        if (m->progress.fd >= 0 && m->progress_timer.loop == NULL) on_progress(m);
        map_flush(m);
        bool ended = gw_map_runs_count(m->runs) == 0 && !map_has_more(m);
        if (ended && !summed) {
            map_print_summary(m);
            summed = true;
            continue;
        }
        if (ended && !map_is_printing(m)) break;
        gw_loop_turn(m->loop, UINT64_MAX);
    }
    gw_map_progress_hide(&m->progress);
}

static int exit_code_of(const map *m) {
    if (m->in_trouble) return GW_MAP_TROUBLE;
    if (m->signal != 0) return 128 + m->signal;
    if (m->halt_code >= 0) return m->halt_code;
    if (m->options->halt.percent > 0 && m->started > 0) /* as GNU parallel: the share of tasks that failed */
        return (int)((100 * m->failed + m->started - 1) / m->started);
    return (int)(m->failed < GW_MAP_FAILURES_MOST ? m->failed : GW_MAP_FAILURES_MOST);
}

int gw_map_main_loop(const gw_map_options *options, gw_err *err) {
    map m = {.options = options, .signal_fd = -1, .halt_code = -1};
    int code = GW_MAP_TROUBLE;
    m.again_last = &m.again;
    m.progress = gw_map_progress_begin(options->bar);
    if (open_map(&m, err)) {
        if (options->runner != NULL)
            map_run_elsewhere(&m);
        else
            run_map(&m);
        gw_err closing;
        if (!gw_map_log_close(&m.log, &closing)) map_trouble(&m, &closing);
        code = exit_code_of(&m);
        if (m.in_trouble) *err = m.trouble;
        if (m.fed && !options->feed->close(options->feed->context))
            return code; /* a thread uses what there is */
        m.fed = false;
    } else {
        (void)gw_map_log_close(&m.log, &m.trouble);
    }
    if (m.fed) options->feed->close(options->feed->context);
    close_map(&m);
    return code;
}
