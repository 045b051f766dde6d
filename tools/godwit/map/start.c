/* Starting the tasks of a map. */
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "kernels/host/memory_limit.h"
#include "tools/godwit/map/inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BACKLOG_BYTES = 1 << 20,     /* that wait to be printed while tasks are started */
    REFUSED_PAUSE_NS = 50000000, /* until a process is tried again that the system refused to start */
    REFUSALS_MOST = 200,         /* in a row, while nothing runs */
    MEMORY_PAUSE_NS = 500000000, /* until the free memory is looked at again */
};

bool map_has_more(const map *m) {
    return m->course == MAP_GOES_ON && (m->again != NULL || !m->inputs_ended);
}

/* Slots. */

static uint32_t take_slot(map *m) {
    for (uint32_t i = 0; i < (m->slots + 63) / 64; i++) {
        if (m->free_slots[i] == 0) continue;
        uint32_t bit = (uint32_t)__builtin_ctzll(m->free_slots[i]);
        m->free_slots[i] &= ~(1ull << bit);
        return 64 * i + bit + 1;
    }
    return 0;
}

static void free_slot(map *m, uint32_t slot) {
    if (slot > 0) m->free_slots[(slot - 1) / 64] |= 1ull << ((slot - 1) % 64);
}

void map_drop_task(map *m, map_task *task) {
    free_slot(m, task->slot);
    free(task->values);
    free(task);
}

void map_try_again(map *m, map_task *task) {
    free_slot(m, task->slot);
    task->slot = 0;
    task->next = NULL;
    *m->again_last = task;
    m->again_last = &task->next;
}

/* The next task. */

/* What an earlier map has done, by its job log. */
static uint8_t logged_state(const map *m, uint64_t number) {
    return number + 1 < m->logged.count ? m->logged.state[number + 1] : GW_MAP_LOG_NOTHING;
}

static bool is_passed_over(const map *m, uint64_t number) {
    uint8_t state = logged_state(m, number);
    if (m->options->resume_failed) return state == GW_MAP_LOG_DONE;
    return m->options->resume && state != GW_MAP_LOG_NOTHING;
}

/* The next command that failed in an earlier map. */
static gw_map_next next_logged(map *m, gw_map_values **values, gw_err *err) {
    while (m->next_number + 1 < m->logged.count && logged_state(m, m->next_number) != GW_MAP_LOG_FAILED)
        map_pass_over(m, m->next_number++);
    if (m->next_number + 1 >= m->logged.count) return GW_MAP_NEXT_END;
    const char *command = m->logged.commands[m->next_number + 1];
    size_t length = strlen(command);
    *values = gw_map_values_make(1, &command, &length);
    if (*values != NULL) return GW_MAP_NEXT_READY;
    gw_fail(err, GW_E_NOMEM, "no memory for a task");
    return GW_MAP_NEXT_FAILED;
}

gw_map_next map_next_task(map *m, map_task **task, gw_err *err) {
    gw_map_values *values = NULL;
    gw_map_next next;
    if (m->again != NULL) {
        *task = m->again;
        m->again = (*task)->next;
        if (m->again == NULL) m->again_last = &m->again;
        return GW_MAP_NEXT_READY;
    }
    if (m->inputs_ended) return GW_MAP_NEXT_END;
    for (;;) {
        if (m->options->feed != NULL) {
            next = m->options->feed->next(m->options->feed->context, &m->next_number, &values, err);
            if (next != GW_MAP_NEXT_READY) return next;
            break;
        }
        next = m->options->retry_failed ? next_logged(m, &values, err)
                                        : gw_map_inputs_next(m->inputs, &values, err);
        if (next != GW_MAP_NEXT_READY) return next;
        if (m->options->retry_failed || !is_passed_over(m, m->next_number)) break;
        map_pass_over(m, m->next_number++);
        free(values);
    }
    *task = calloc(1, sizeof **task);
    if (*task == NULL) {
        free(values);
        gw_fail(err, GW_E_NOMEM, "no memory for a task");
        return GW_MAP_NEXT_FAILED;
    }
    (*task)->values = values;
    (*task)->number = m->next_number++;
    return GW_MAP_NEXT_READY;
}

/* Commands. */

/* Finds a program in PATH, as a shell does; "": it is not there, or is none of a file. The last answer is kept. */
static const char *find_program(map *m, const char *name) {
    if (strchr(name, '/') != NULL) return name;
    size_t length = strlen(name);
    if (length >= sizeof m->program_name) return "";
    if (strcmp(name, m->program_name) == 0) return m->program;
    memcpy(m->program_name, name, length + 1);
    const char *path = getenv("PATH");
    for (const char *at = path != NULL ? path : "/usr/local/bin:/usr/bin:/bin"; at != NULL;) {
        size_t part = strcspn(at, ":");
        struct stat status;
        if (part > 0 && *at == '/' && part + length + 2 <= sizeof m->program) {
            memcpy(m->program, at, part);
            m->program[part] = '/';
            memcpy(m->program + part + 1, name, length + 1);
            if (access(m->program, X_OK) == 0 && stat(m->program, &status) == 0 && S_ISREG(status.st_mode))
                return m->program;
        }
        at = at[part] == ':' ? at + part + 1 : NULL;
    }
    m->program[0] = '\0';
    return m->program;
}

bool map_render_line(map *m, const map_task *task) {
    if (gw_map_template_line(m->command, task->values, task->number + 1, task->slot, &m->line)) return true;
    map_trouble(m, &(gw_err){GW_E_NOMEM, "no memory for a command"});
    return false;
}

/* Starts the process of a task: the program itself where the command needs no shell and there is such a program, and
 * otherwise a shell, which tells by itself what it cannot find. */
static gw_map_run *start_process(map *m, map_task *task, gw_err *err) {
    static char option[] = "-c";
    bool plain;
    if (!gw_map_template_words(m->command, task->values, task->number + 1, task->slot, &m->words, &plain)) {
        gw_fail(err, GW_E_NOMEM, "no memory for a command");
        return NULL;
    }
    const char *program = plain ? find_program(m, m->words.words[0]) : "";
    if (program[0] != '\0') {
        gw_map_run *run =
            gw_map_runs_start(m->runs, program, m->words.words, task->number, task->attempts, task, err);
        if (run != NULL || err->code == GW_E_NOMEM || err->code == GW_E_LIMIT) return run;
    }
    if (!map_render_line(m, task)) {
        *err = m->trouble;
        return NULL;
    }
    const char *name = strrchr(m->options->shell, '/');
    char *argv[] = {(char *)(uintptr_t)(name != NULL ? name + 1 : m->options->shell), option, m->line.bytes,
                    NULL};
    return gw_map_runs_start(m->runs, m->options->shell, argv, task->number, task->attempts, task, err);
}

static void on_pause_over(void *context) {
    (void)context; /* the loop goes on, and tasks are started */
}

static void pause_starts(map *m, uint64_t until_ns) {
    gw_err err;
    if (m->pause.loop == NULL && !gw_timer_set(m->loop, &m->pause, until_ns, on_pause_over, m, &err))
        map_trouble(m, &err);
}

/* The system has no process for this task now. */
static void put_off(map *m, map_task *task, const gw_err *err) {
    task->attempts--;
    map_try_again(m, task);
    if (m->refusals++ == 0)
        map_tell(m, "task %llu has to wait: %s", (unsigned long long)task->number + 1, err->text);
    if (gw_map_runs_count(m->runs) == 0 && m->refusals > REFUSALS_MOST) map_trouble(m, err);
    pause_starts(m, gw_now_ns() + REFUSED_PAUSE_NS);
}

/* A command that the system does not take at all fails, as if it had not been found. */
static void refuse(map *m, map_task *task, const gw_err *err) {
    enum { CANNOT_EXECUTE = 126 };
    gw_map_run run = {.task = task, .attempt = task->attempts, .begun_wall_ns = gw_wall_ns()};
    run.row = (gw_map_row){.task = (uint32_t)task->number,
                           .outcome = GW_MAP_FAILURE,
                           .attempt = task->attempts,
                           .exit_code = CANNOT_EXECUTE};
    map_tell(m, "task %llu: %s", (unsigned long long)task->number + 1, err->text);
    map_finish(m, task, &run);
}

static void on_timeout(void *context);

/* Sets the time after which a run is ended. */
static void set_timeout(map *m, gw_map_run *run) {
    const gw_map_options *o = m->options;
    uint64_t after_ns = o->timeout_ns;
    gw_err err;
    if (o->timeout_percent > 0 && m->times.count >= 3)
        after_ns = gw_map_median_of(&m->times) / 100 * o->timeout_percent;
    if (after_ns > 0 &&
        !gw_timer_set(m->loop, &run->timeout, run->begun_ns + after_ns, on_timeout, run, &err))
        map_trouble(m, &err);
}

static void on_timeout(void *context) {
    gw_map_run *run = context;
    map *m = run->owner;
    if (m->options->timeout_percent > 0) { /* the median may have grown */
        set_timeout(m, run);
        if (run->timeout.loop != NULL && run->timeout.deadline_ns > gw_now_ns()) return;
        gw_timer_cancel(&run->timeout);
    }
    map_tell_too_long(m, run->number);
    gw_map_run_end(run, GW_MAP_STOP_TIMEOUT);
}

void map_set_timeouts(map *m) {
    if (m->options->timeout_percent == 0 || m->times.count != 3) return;
    for (gw_map_run *run = gw_map_runs_first(m->runs); run != NULL; run = run->next) set_timeout(m, run);
}

static void start_task(map *m, map_task *task) {
    gw_err err;
    task->attempts++;
    map_tell_command(m, task);
    gw_map_run *run = start_process(m, task, &err);
    if (run == NULL && err.code == GW_E_NOMEM) return put_off(m, task, &err);
    if (run == NULL && err.code != GW_E_LIMIT) { /* the shell itself cannot be started */
        map_drop_task(m, task);
        return map_trouble(m, &err);
    }
    m->refusals = 0;
    if (task->attempts == 1) m->started++;
    if (run == NULL) return refuse(m, task, &err);
    run->owner = m;
    m->begun_ns = run->begun_ns;
    set_timeout(m, run);
}

/* Prints the command of a task instead of running it. */
static void show_task(map *m, map_task *task) {
    gw_map_run run = {.task = task};
    gw_err err;
    if (!map_render_line(m, task)) return;
    m->line.bytes[m->line.length - 1] = '\n';
    if (!gw_map_output_add(m->store, &run.output, m->line.bytes, m->line.length, &err))
        return map_trouble(m, &err);
    run.row = (gw_map_row){.outcome = GW_MAP_SUCCESS, .attempt = 1, .task = (uint32_t)task->number};
    m->started++;
    map_finish(m, task, &run);
    gw_map_output_drop(m->store, &run.output);
}

static void on_input(void *context, uint32_t events) {
    map *m = context;
    (void)events;
    gw_watch_remove(&m->input_watch); /* the loop goes on, and inputs are read */
}

/* Whether a task may be started now; otherwise something wakes the loop when it may. */
static bool may_start(map *m) {
    const gw_map_options *o = m->options;
    if (!map_has_more(m) || m->in_trouble || m->pause.loop != NULL) return false;
    if (gw_map_runs_count(m->runs) >= m->slots) return false;
    if (m->output != NULL &&
        gw_map_printer_backlog(m->output) + gw_map_printer_backlog(m->errors) > BACKLOG_BYTES) {
        map_flush(m);
        if (gw_map_printer_backlog(m->output) + gw_map_printer_backlog(m->errors) > BACKLOG_BYTES)
            return false;
    }
    if (o->delay_ns > 0 && m->begun_ns > 0 && gw_now_ns() < m->begun_ns + o->delay_ns) {
        pause_starts(m, m->begun_ns + o->delay_ns);
        return false;
    }
    if (o->least_memory > 0 && gw_memory_left() < o->least_memory) {
        pause_starts(m, gw_now_ns() + MEMORY_PAUSE_NS);
        return false;
    }
    return true;
}

void map_start_tasks(map *m) {
    gw_err err;
    while (m->input_watch.loop == NULL && may_start(m)) {
        map_task *task = NULL;
        gw_map_next next = map_next_task(m, &task, &err);
        if (next == GW_MAP_NEXT_END) {
            m->inputs_ended = true;
            if (m->options->feed != NULL) /* what still runs here has been done elsewhere */
                gw_map_runs_end_all(m->runs, GW_MAP_STOP_HALT, false);
            return;
        }
        if (next == GW_MAP_NEXT_FAILED) return map_trouble(m, &err);
        if (next == GW_MAP_NEXT_LATER && m->options->feed != NULL) return;
        if (next == GW_MAP_NEXT_LATER) {
            if (!gw_watch_add(m->loop, &m->input_watch, gw_map_inputs_fd(m->inputs), EPOLLIN, on_input, m,
                              &err))
                map_trouble(m, &err);
            return;
        }
        GW_ASSERT(task != NULL);
        if (task->number >= GW_MAP_TASKS_MOST) {
            map_drop_task(m, task);
            return map_trouble(m, &(gw_err){GW_E_LIMIT, "there are more tasks than a map may have"});
        }
        task->slot = take_slot(m);
        GW_ASSERT(task->slot > 0);
        if (m->options->dry_run)
            show_task(m, task);
        else
            start_task(m, task);
    }
}
