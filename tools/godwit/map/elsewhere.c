/* A map whose tasks run elsewhere: its inputs are read, the tasks are handed over, and what comes back is printed. */
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/map/files.h"
#include "tools/godwit/map/inside.h"
#include "tools/godwit/map/task_list.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_PAUSE_MS = 5, LAST_PAUSE_MS = 100, UNTIL_TOLD_MS = 5000 };

#define CANCEL_NS                                                                                            \
    UINT64_C(15000000000) /* for the tasks to end, and it to be known, after they were told to */

typedef struct far {
    map *m;
    gw_task_list tasks;
    uint8_t *has_ended; /* a bit for each position */
    uint32_t ended;
    int work; /* the working directory, where files are brought back to */
} far;

/* Waits for more inputs, and serves signals. Tells once, when none came for a while, that they have to end. */
static void wait_for_inputs(map *m, bool *told) {
    struct pollfd waits[2] = {{gw_map_inputs_fd(m->inputs), POLLIN, 0}, {m->signal_fd, POLLIN, 0}};
    if (poll(waits, 2, *told ? -1 : UNTIL_TOLD_MS) == 0) {
        map_tell(
            m, "the inputs have not ended: tasks on a flock start when all are read; with --here they start "
               "as they come, on this machine");
        *told = true;
    }
    gw_loop_turn(m->loop, 0);
}

/* Reads all inputs. False: the map ends before. */
static bool read_tasks(map *m, gw_task_writer *writer) {
    gw_err err;
    bool told = false;
    while (m->course == MAP_GOES_ON) {
        map_task *task = NULL;
        gw_map_next next = map_next_task(m, &task, &err);
        if (next == GW_MAP_NEXT_END) break;
        if (next == GW_MAP_NEXT_LATER) {
            wait_for_inputs(m, &told);
            continue;
        }
        bool good = next == GW_MAP_NEXT_READY;
        if (good && task->number >= GW_MAP_TASKS_MOST)
            good = gw_fail(&err, GW_E_LIMIT, "there are more tasks than a map may have");
        good = good && gw_task_writer_add(writer, (uint32_t)task->number, task->values, &err);
        if (task != NULL) map_drop_task(m, task);
        if (!good) {
            map_trouble(m, &err);
            return false;
        }
    }
    gw_task_writer_end(writer);
    m->inputs_ended = true;
    return m->course == MAP_GOES_ON;
}

/* A task has ended. */
static void take(void *context, uint32_t position, const gw_map_row *row, gw_map_written *written) {
    far *f = context;
    map *m = f->m;
    uint8_t bit = (uint8_t)(1 << position % 8);
    GW_ASSERT(position < f->tasks.count && (f->has_ended[position / 8] & bit) == 0);
    map_task *task = calloc(1, sizeof *task);
    GW_ASSERT_MEMORY(task != NULL && (task->values = gw_task_list_values(&f->tasks, position)) != NULL);
    task->number = gw_task_list_number(&f->tasks, position);
    f->has_ended[position / 8] |= bit;
    f->ended++;
    m->started++;
    gw_map_run run = {.task = task, .number = task->number, .attempt = row->attempt, .row = *row};
    run.row.task = (uint32_t)task->number;
    map_tell_command(m, task);
    if (gw_map_row_was_halted(row)) run.stop = GW_MAP_STOP_HALT;
    if (gw_map_row_took_too_long(row)) map_tell_too_long(m, task->number);
    gw_err err;
    if (!gw_map_files_put(m->store, f->work, &written->files, &err)) map_trouble(m, &err);
    gw_map_output_drop(m->store, &written->files);
    run.output = written->output;
    run.errors = written->errors;
    run.begun_wall_ns = gw_wall_ns() - 1000 * row->wall_us;
    map_finish(m, task, &run);
    gw_map_output_drop(m->store, &run.output);
    gw_map_output_drop(m->store, &run.errors);
}

static void show_progress(const map *m, const far *f) {
    gw_map_counts counts = {.done = f->ended, .failed = m->failed, .total = f->tasks.count};
    gw_map_progress_draw(&((map *)(uintptr_t)m)->progress, &counts, false);
}

/* Lets a moment pass, and serves signals and what is printed meanwhile. */
static void pause_for(map *m, uint32_t ms) {
    uint64_t end_ns = gw_now_ns() + ms * UINT64_C(1000000);
    map_course before = m->course;
    for (uint64_t now; (now = gw_now_ns()) < end_ns && m->course == before;)
        gw_loop_turn(m->loop, end_ns - now);
}

/* Takes what comes until all tasks have ended, or no more will come. */
static void follow(map *m, far *f) {
    const gw_map_runner *runner = m->options->runner;
    uint64_t cancelled_ns = 0;
    uint32_t pause_ms = FIRST_PAUSE_MS;
    bool over = false, eased = false;
    gw_err err;
    while (f->ended < f->tasks.count && !over && !m->in_trouble) {
        uint32_t before = f->ended;
        if (m->course == MAP_ENDS_SOON && m->signal != 0 && !eased) {
            eased = true;
            runner->ease(runner->context);
        }
        if (m->course == MAP_ENDS_NOW && cancelled_ns == 0) {
            cancelled_ns = gw_now_ns();
            runner->cancel(runner->context);
        }
        if (m->hurries) break;
        if (cancelled_ns != 0 && gw_now_ns() > cancelled_ns + CANCEL_NS) {
            map_tell(m,
                     "not all nodes have said within %u s how its tasks have ended: 'godwit info' tells more",
                     (unsigned)(CANCEL_NS / 1000000000));
            break;
        }
        if (!runner->fetch(runner->context, m->store, take, f, &over, &err)) return map_trouble(m, &err);
        map_flush(m);
        show_progress(m, f);
        pause_ms = f->ended > before              ? FIRST_PAUSE_MS
                   : 2 * pause_ms < LAST_PAUSE_MS ? 2 * pause_ms
                                                  : LAST_PAUSE_MS;
        if (!over && f->ended < f->tasks.count) pause_for(m, pause_ms);
    }
    if (over && !m->options->only_hand_over && f->ended < f->tasks.count && m->course == MAP_GOES_ON)
        map_trouble(m, &(gw_err){GW_E_ABORTED,
                                 "the job was ended before all its tasks had: 'godwit info' tells more"});
}

void map_run_elsewhere(map *m) {
    const gw_map_runner *runner = m->options->runner;
    far f = {.m = m, .work = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    gw_task_writer writer = {.bytes = NULL};
    gw_err err;
    if (read_tasks(m, &writer) && writer.count > 0) {
        f.has_ended = calloc(writer.count / 8 + 1, 1);
        GW_ASSERT_MEMORY(f.has_ended != NULL);
        if (gw_task_list_read(writer.bytes, writer.length, &f.tasks, &err) &&
            runner->submit(runner->context, writer.bytes, writer.length, f.tasks.count, &err)) {
            m->is_elsewhere = true;
            follow(m, &f);
        } else {
            map_trouble(m, &err);
        }
    }
    if (m->table != NULL && !m->in_trouble && !m->options->only_hand_over) map_print_summary(m);
    for (map_flush(m); map_is_printing(m); map_flush(m)) gw_loop_turn(m->loop, UINT64_MAX);
    gw_task_list_free(&f.tasks);
    free(writer.bytes);
    free(f.has_ended);
    if (f.work >= 0) close(f.work);
    gw_map_progress_hide(&m->progress);
}
