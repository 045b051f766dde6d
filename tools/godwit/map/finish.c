/* What becomes of a task whose attempt has ended: it is tried again, or it is noted, logged and printed, and the map may
 * halt because of it. */
#include "core/os/clock.h"
#include "tools/godwit/map/files.h"
#include "tools/godwit/map/inside.h"
#include "tools/godwit/map/results.h"
#include "tools/godwit/text/json.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_OUTPUT_BYTES = 1 << 20 /* a longer output is not part of the task's line of JSON */ };

gw_map_counts map_counts(const map *m) {
    gw_map_counts counts = {.done = m->succeeded + m->failed,
                            .failed = m->failed,
                            .running = m->runs != NULL ? gw_map_runs_count(m->runs) : 0};
    if (m->inputs == NULL || !gw_map_inputs_total(m->inputs, &counts.total)) counts.total = 0;
    return counts;
}

/* Printing. */

void map_flush(map *m) {
    gw_err err;
    if (m->output == NULL) return;
    if (gw_map_printer_backlog(m->output) + gw_map_printer_backlog(m->errors) > 0)
        gw_map_progress_hide(&m->progress);
    if (!gw_map_printer_flush(m->output, &err)) {
        if (err.code != GW_E_PEER) return map_trouble(m, &err);
        if (m->signal == 0) m->signal = SIGPIPE; /* nobody reads any more: a shell's commands end then, too */
        map_end(m, MAP_ENDS_NOW);
    }
    (void)gw_map_printer_flush(m->errors, &err); /* what cannot be told to anyone is no reason to end */
}

/* The tag of a task's lines, which is valid until the next call. */
static const char *tag_of(map *m, const map_task *task) {
    if (m->tag == NULL || m->options->json) return "";
    if (!gw_map_template_bare_line(m->tag, task->values, task->number + 1, task->slot, &m->tag_line)) {
        map_trouble(m, &(gw_err){GW_E_NOMEM, "no memory for the tag of a task"});
        return "";
    }
    return m->tag_line.bytes;
}

static void print(map *m, gw_map_output *output, gw_map_output *errors, const char *tag) {
    gw_err err;
    if (!gw_map_printer_put(m->output, output, tag, &err) ||
        !gw_map_printer_put(m->errors, errors, tag, &err))
        map_trouble(m, &err);
}

/* Prints the whole lines that a run has written so far. */
static void print_lines(map *m, gw_map_run *run) {
    gw_map_output lines = {.bytes = NULL}, errors = {.bytes = NULL};
    gw_err err;
    if (!gw_map_output_take_lines(m->store, &run->output, &lines, &err) ||
        !gw_map_output_take_lines(m->store, &run->errors, &errors, &err))
        map_trouble(m, &err);
    if (lines.total + errors.total > 0) print(m, &lines, &errors, tag_of(m, run->task));
    gw_map_output_drop(m->store, &lines);
    gw_map_output_drop(m->store, &errors);
}

void map_on_wrote(void *context, gw_map_run *run) {
    map *m = context;
    if (!m->options->keep_order || run->number == m->order.next) print_lines(m, run);
}

void map_on_failed(void *context, const gw_err *err) {
    map_trouble(context, err);
}

/* Prints what is next in the order of tasks. */
static void print_in_order(map *m) {
    gw_map_ended *left;
    uint64_t before = m->order.next;
    while (gw_map_order_take(&m->order, &left)) {
        if (left != NULL) print(m, &left->output, &left->errors, left->text);
        gw_map_ended_free(m->store, left);
    }
    if (m->order.next == before || m->options->print != GW_MAP_PRINT_LINES || m->runs == NULL) return;
    for (gw_map_run *run = gw_map_runs_first(m->runs); run != NULL; run = run->next)
        if (run->number == m->order.next) return print_lines(m, run);
}

/* Notes in the order of tasks that one has ended, and what it leaves. */
static void put_in_order(map *m, uint64_t number, gw_map_ended *left) {
    gw_err err;
    if (!gw_map_order_put(&m->order, number, left, &err)) map_trouble(m, &err);
    print_in_order(m);
}

void map_pass_over(map *m, uint64_t number) {
    if (m->options->keep_order) put_in_order(m, number, NULL);
}

static void print_task(map *m, const map_task *task, gw_map_output *output, gw_map_output *errors) {
    bool nothing = output->total + errors->total == 0;
    if (!m->options->keep_order) {
        if (!nothing) print(m, output, errors, tag_of(m, task));
        return;
    }
    gw_map_ended *left = nothing ? NULL : gw_map_ended_make(output, errors, tag_of(m, task));
    if (!nothing && left == NULL) map_trouble(m, &(gw_err){GW_E_NOMEM, "no memory for the output of a task"});
    put_in_order(m, task->number, left);
}

/* JSON. */

/* Adds an output as a text, where it is short enough. */
static void add_text(json_t *line, const char *key, const gw_map_output *output) {
    if (output->piece_count > 0 || output->total > JSON_OUTPUT_BYTES) return;
    char *text = malloc(output->length + 1);
    if (text == NULL) return;
    memcpy(text, output->bytes != NULL ? (const char *)output->bytes : "", output->length);
    text[output->length] = '\0';
    for (uint32_t i = 0; i < output->length; i++)
        if (text[i] == '\0') text[i] = '\x1a'; /* a zero byte would end the text */
    gw_json_text(line, key, text);
    free(text);
}

/* Puts a line of JSON in the place of an output. */
static void write_json(map *m, json_t *line, gw_map_output *output) {
    gw_err err;
    char *text = gw_json_line(line);
    json_decref(line);
    gw_map_output_drop(m->store, output);
    bool good = text != NULL || gw_fail(&err, GW_E_NOMEM, "no memory for a line of JSON");
    good = good && gw_map_output_add(m->store, output, text, strlen(text), &err) &&
           gw_map_output_add(m->store, output, "\n", 1, &err);
    free(text);
    if (!good) map_trouble(m, &err);
}

static void write_task(map *m, const map_task *task, gw_map_run *run) {
    json_t *line = json_object(), *inputs = json_array();
    const gw_map_row *row = &run->row;
    bool improved;
    gw_err err;
    if (!gw_map_table_join(m->table, row, &improved, &err)) map_trouble(m, &err);
    gw_json_count(line, "task", task->number + 1);
    for (uint32_t i = 0; i < task->values->count; i++) {
        json_t *one = json_object();
        gw_json_text(one, "input", task->values->text[i]);
        json_array_append(inputs, json_object_get(one, "input"));
        json_decref(one);
    }
    json_object_set_new(line, "inputs", inputs);
    gw_json_count(line, "attempt", row->attempt);
    gw_map_row_put_end(line, row);
    gw_json_real(line, "seconds", (double)row->wall_us / 1e6);
    gw_json_count(line, "rss_kib", row->rss_kib);
    gw_json_count(line, "bytes", row->bytes);
    gw_json_hash(line, "hash", &row->hash);
    if (m->options->runner != NULL) gw_json_peer(line, "node", &row->who);
    add_text(line, "output", &run->output);
    add_text(line, "errors", &run->errors);
    gw_map_output_drop(m->store, &run->errors);
    write_json(m, line, &run->output);
}

void map_print_summary(map *m) {
    gw_map_output text = {.bytes = NULL}, none = {.bytes = NULL};
    json_t *line = json_object();
    gw_hash hash = gw_map_table_hash(m->table, gw_map_table_tasks(m->table));
    gw_json_count(line, "tasks", m->succeeded + m->failed);
    gw_json_count(line, "failed", m->failed);
    const uint64_t took_us = (gw_now_ns() - m->progress.begun_ns) / 1000;
    gw_json_real(line, "seconds", (double)took_us / 1e6);
    gw_json_hash(line, "result", &hash);
    write_json(m, line, &text);
    print(m, &text, &none, "");
}

/* The job log. */

static void log_task(map *m, const map_task *task, const gw_map_run *run) {
    const gw_map_row *row = &run->row;
    const gw_map_runner *runner = m->options->runner;
    gw_err err;
    if (m->log.file == NULL || !map_render_line(m, task)) return;
    const gw_map_log_line line = {.task = task->number + 1,
                                  .begun_wall_ns = run->begun_wall_ns,
                                  .wall_us = row->wall_us,
                                  .bytes = row->bytes,
                                  .exit_code = gw_map_row_took_too_long(row) ? -1
                                               : gw_map_row_was_halted(row)  ? 0
                                                                             : row->exit_code,
                                  .signal = run->stop != GW_MAP_STOP_NONE && row->signal == 0 ? SIGTERM
                                                                                              : row->signal,
                                  .host = runner != NULL ? runner->name(runner->context, &row->who) : NULL,
                                  .command = m->line.bytes};
    if (!gw_map_log_write(&m->log, &line, &err)) map_trouble(m, &err);
}

/* Halts. */

/* The exit code of a halt, as GNU parallel has it. */
static int halt_code(const map *m, const gw_map_row *row, uint64_t total) {
    const gw_map_halt *h = &m->options->halt;
    if (h->what == GW_MAP_HALT_SUCCESS) return 0;
    if (h->percent > 0) return (int)(((double)m->failed * 100 + (double)total - 1) / (double)total);
    if (h->count == 1) return row->signal != 0 ? 128 + row->signal : row->exit_code;
    return (int)(m->failed < GW_MAP_FAILURES_MOST ? m->failed : GW_MAP_FAILURES_MOST);
}

/* Halts the map where it is to halt because of a task that has ended. */
static void consider_halt(map *m, const gw_map_row *row, uint64_t total) {
    const gw_map_halt *h = &m->options->halt;
    uint64_t count = h->what == GW_MAP_HALT_FAIL      ? m->failed
                     : h->what == GW_MAP_HALT_SUCCESS ? m->succeeded
                                                      : m->failed + m->succeeded;
    bool of_kind =
        h->what == GW_MAP_HALT_DONE || (h->what == GW_MAP_HALT_FAIL) == (row->outcome == GW_MAP_FAILURE);
    if (h->when == GW_MAP_HALT_NEVER || m->course != MAP_GOES_ON || !of_kind) return;
    if (h->percent > 0 && total == 0) return;
    if (h->percent > 0 ? (double)count * 100 < h->percent * (double)total : count < h->count) return;
    m->halt_code = halt_code(m, row, total);
    static const char *const what[] = {"failed", "succeeded", "ended"};
    map_tell(m, "%llu %s %s: no more tasks are started (--halt)%s", (unsigned long long)count,
             count == 1 ? "task has" : "tasks have", what[h->what],
             h->when == GW_MAP_HALT_NOW && gw_map_runs_count(m->runs) > 0 ? ", and those that run are ended"
                                                                          : "");
    map_end(m, h->when == GW_MAP_HALT_NOW ? MAP_ENDS_NOW : MAP_ENDS_SOON);
}

void map_follow_feed(map *m) {
    const gw_map_feed *feed = m->options->feed;
    gw_map_row failure = {.outcome = GW_MAP_NOTHING}, success = {.outcome = GW_MAP_SUCCESS};
    gw_map_counts counts = feed->counts(feed->context, &failure);
    m->failed = counts.failed;
    m->succeeded = counts.done - counts.failed;
    if (counts.failed > 0) consider_halt(m, &failure, counts.total);
    if (m->succeeded > 0) consider_halt(m, &success, counts.total);
}

/* Ends of attempts. */

/* Takes the files that a task has left and that are to be brought back. One that cannot be is told in its errors. */
static void take_files(map *m, const map_task *task, gw_map_run *run, gw_map_output *files) {
    static const char prefix[] = "godwit map: --fetch: ";
    gw_err err, full;
    for (uint32_t i = 0; i < m->options->fetch_count; i++) {
        bool good = gw_map_template_bare_line(m->fetches[i], task->values, task->number + 1, task->slot,
                                              &m->tag_line) ||
                    gw_fail(&err, GW_E_NOMEM, "no memory for its name");
        if (good && gw_map_files_take(m->store, m->options->feed->work, m->tag_line.bytes, files, &err))
            continue;
        if (!gw_map_output_add(m->store, &run->errors, prefix, sizeof prefix - 1, &full) ||
            !gw_map_output_add(m->store, &run->errors, err.text, strlen(err.text), &full) ||
            !gw_map_output_add(m->store, &run->errors, "\n", 1, &full))
            map_trouble(m, &full);
    }
}

/* Hands on what has become of a task that came from elsewhere. */
static void hand_on(map *m, map_task *task, gw_map_run *run) {
    const gw_map_feed *feed = m->options->feed;
    gw_map_written written = {.files = {.bytes = NULL}};
    gw_err err;
    if (run->row.outcome == GW_MAP_SUCCESS && feed->work >= 0) take_files(m, task, run, &written.files);
    written.output = run->output;
    written.errors = run->errors;
    bool halted = run->stop == GW_MAP_STOP_HALT;
    if (halted) {
        run->row.exit_code = GW_MAP_HALTED;
        if (run->row.signal == 0) run->row.signal = SIGTERM; /* it has heeded that by itself */
    }
    if ((!halted || m->over || m->halt_code >= 0) &&
        !feed->ended(feed->context, task->number, &run->row, m->store, &written, &err))
        map_trouble(m, &err);
    gw_map_output_drop(m->store, &written.files);
    map_drop_task(m, task);
}

void map_finish(map *m, map_task *task, gw_map_run *run) {
    const gw_map_options *o = m->options;
    bool success = run->row.outcome == GW_MAP_SUCCESS;
    uint64_t total = 0;
    gw_err err;
    if (o->feed != NULL) return hand_on(m, task, run);
    if (success)
        m->succeeded++;
    else
        m->failed++;
    log_task(m, task, run);
    if (o->results != NULL && !o->dry_run &&
        !gw_map_results_write(o->results, task->values, task->number + 1, m->store, &run->output,
                              &run->errors, &err))
        map_trouble(m, &err);
    if (m->table != NULL) write_task(m, task, run);
    print_task(m, task, &run->output, &run->errors);
    if (m->inputs == NULL || !gw_map_inputs_total(m->inputs, &total)) total = 0;
    if (run->stop != GW_MAP_STOP_HALT) consider_halt(m, &run->row, total);
    map_drop_task(m, task);
}

void map_on_ended(void *context, gw_map_run *run) {
    map *m = context;
    map_task *task = run->task;
    bool again = run->row.outcome == GW_MAP_FAILURE && run->stop != GW_MAP_STOP_HALT &&
                 task->attempts < m->options->attempts && m->course == MAP_GOES_ON;
    gw_timer_cancel(&m->pause); /* there may be room for another process */
    if (run->row.outcome == GW_MAP_SUCCESS) {
        gw_map_median_note(&m->times, run->row.wall_us * 1000);
        map_set_timeouts(m);
    }
    if (again)
        map_try_again(m, task);
    else
        map_finish(m, task, run);
}
