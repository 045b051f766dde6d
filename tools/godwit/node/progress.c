#include "tools/godwit/node/progress.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/trace.h"
#include "tools/godwit/watch/stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void run_log(void *task) {
    gw_stacks_log(task);
    free(task);
}

void gw_progress_log_stacks(gw_progress *progress, const char *name) {
    char *copy = strdup(name);
    GW_ASSERT_MEMORY(copy != NULL);
    gw_helper_give(progress->stacks, run_log, copy);
}

/* Requests. */

static const struct {
    const char *text, *threads[2];
} requests[GW_REQUESTS] = {
    [GW_REQUEST_LOAD] = {"a state that is loaded makes no progress: the disk or the peers that it comes from "
                         "hang (--hang-timeout)",
                         {"gw-compute"}},
    [GW_REQUEST_SAVE] = {"the disk hangs: a checkpoint makes no progress here (--hang-timeout)",
                         {"gw-checkpoint", "gw-disk"}},
    [GW_REQUEST_RECORD] = {"the disk hangs: what this peer has promised is not recorded (--hang-timeout)",
                           {"gw-disk"}},
    [GW_REQUEST_LOOKUP] = {"the disk hangs: other peers get nothing of the checkpoints here (--hang-timeout)",
                           {"gw-data-files"}},
};

static gw_request_kind request_of(gw_action_kind kind) {
    return kind == GW_ACT_LOAD                              ? GW_REQUEST_LOAD
           : kind == GW_ACT_SAVE || kind == GW_ACT_MANIFEST ? GW_REQUEST_SAVE
           : kind == GW_ACT_PERSIST                         ? GW_REQUEST_RECORD
                                                            : GW_REQUESTS;
}

static gw_request_kind request_ended_by(gw_event_kind kind) {
    return kind == GW_EV_LOADED                                    ? GW_REQUEST_LOAD
           : kind == GW_EV_STORED || kind == GW_EV_MANIFEST_STORED ? GW_REQUEST_SAVE
           : kind == GW_EV_PERSISTED                               ? GW_REQUEST_RECORD
                                                                   : GW_REQUESTS;
}

static void note_move(gw_pending *pending, uint64_t now_ns) {
    pending->moved_ns = now_ns;
    pending->logged = false;
}

void gw_progress_begin(gw_progress *progress, const gw_action *action) {
    gw_request_kind kind = request_of(action->kind);
    if (kind == GW_REQUESTS) return;
    gw_pending *pending = &progress->pending[kind];
    if (pending->token == 0) note_move(pending, gw_now_ns()); /* otherwise it waits for the one before it */
    pending->token = action->token;
    if (kind == GW_REQUEST_LOAD) progress->load_step = action->step;
}

bool gw_progress_loads(const gw_progress *progress, uint64_t *step) {
    *step = progress->load_step;
    return progress->pending[GW_REQUEST_LOAD].token != 0;
}

static bool stands_still(const gw_progress *progress, const gw_pending *pending) {
    return pending->token != 0 && gw_watchdog_hangs(&progress->dog, pending->moved_ns, 0);
}

bool gw_progress_lookup_hangs(const gw_progress *progress) {
    return stands_still(progress, &progress->pending[GW_REQUEST_LOOKUP]);
}

bool gw_progress_hangs(const gw_progress *progress) {
    bool hangs = progress->hangs;
    for (int kind = 0; kind < GW_REQUESTS; kind++)
        hangs |= kind != GW_REQUEST_LOOKUP && stands_still(progress, &progress->pending[kind]);
    return hangs;
}

static void report_progress(gw_progress *progress, gw_request_kind kind, uint64_t now_ns) {
    gw_pending *pending = &progress->pending[kind];
    note_move(pending, now_ns);
    if (pending->token != 0)
        gw_node_feed(progress->node, &(gw_event){.kind = GW_EV_PROGRESS, .token = pending->token});
}

/* Look-ups for other peers come and go without the loop, which only learns when the present one began. */
static void note_lookup(gw_progress *progress) {
    gw_pending *pending = &progress->pending[GW_REQUEST_LOOKUP];
    uint64_t since_ns = gw_data_links_files_since(progress->data_links);
    if (since_ns == pending->token) return;
    note_move(pending, since_ns);
    pending->token = since_ns;
}

static void log_requests_that_stand(gw_progress *progress) {
    for (gw_request_kind kind = 0; kind < GW_REQUESTS; kind++) {
        gw_pending *pending = &progress->pending[kind];
        if (pending->logged || !stands_still(progress, pending)) continue;
        pending->logged = true;
        gw_log(GW_WARN, "node", "%s", requests[kind].text);
        for (size_t i = 0; i < sizeof requests[kind].threads / sizeof *requests[kind].threads; i++)
            if (requests[kind].threads[i] != NULL)
                gw_progress_log_stacks(progress, requests[kind].threads[i]);
    }
}

/* Tasks of the compute helper. */

/* The event that ends a task of each kind, and the event and text that report one that hangs. A PROBE that
 * hangs is reported as a shard that does: the brain may have forgotten its token with the view. */
static const struct {
    gw_event_kind ended, hangs;
    gw_trace_kind trace;
    const char *text;
} tasks[GW_TASKS] = {
    [GW_TASK_COMMIT] = {GW_EV_COMMITTED, GW_EV_COMMITTED, GW_TRACE_COMMIT,
                        "they take too long, the job's code seems to hang (--hang-timeout)"},
    [GW_TASK_PROBE] = {GW_EV_PROBED, GW_EV_SHARD_FAILED, GW_TRACE_PROBE,
                       "computed once more it takes too long and seems to hang (--hang-timeout)"},
    [GW_TASK_LOOK] = {GW_EV_LOOKED, GW_EV_LOOKED, GW_TRACE_LOOK,
                      "it makes no progress and seems to hang (--hang-timeout)"},
    [GW_TASK_APPLY] = {GW_EV_APPLIED, GW_EV_APPLIED, GW_TRACE_APPLY,
                       "it makes no progress and seems to hang (--hang-timeout)"},
};

typedef struct given {
    gw_mailbox *mail;
    gw_task task;
    gw_task_kind kind;
    gw_task_run *run;
} given;

static void run_given(void *context) {
    given *g = context;
    gw_mail *mail = gw_mail_new(tasks[g->kind].ended, g->task.token);
    gw_err err = {0};
    uint64_t began_ns = gw_trace_begin();
    bool good = g->run(&g->task, mail, &err);
    gw_trace_end(tasks[g->kind].trace, began_ns, g->task.shard, g->task.step, 0);
    gw_mail_outcome(mail, good ? NULL : &err);
    gw_mailbox_post(g->mail, mail);
    free(g);
}

void gw_progress_task(gw_progress *progress, gw_task_kind kind, const gw_action *action, gw_task_run *run) {
    given *g = malloc(sizeof *g);
    GW_ASSERT_MEMORY(g != NULL);
    *g = (given){.mail = progress->mail,
                 .kind = kind,
                 .run = run,
                 .task = {.engine = progress->engine,
                          .token = action->token,
                          .step = action->step,
                          .shard = kind == GW_TASK_PROBE ? action->probe.shard : 0,
                          .skip_update = kind == GW_TASK_APPLY && action->apply.skip_update,
                          .check_state = kind == GW_TASK_APPLY && action->apply.check_state}};
    progress->task[kind] = action->token;
    progress->moved_ns = progress->began_ns[kind] = gw_now_ns();
    progress->task_step[kind] = action->step;
    if (kind == GW_TASK_PROBE) progress->probed = action->probe.shard;
    gw_helper_give(progress->compute, run_given, g);
}

void gw_progress_end(gw_progress *progress, const gw_event *event) {
    for (int kind = 0; kind < GW_TASKS; kind++) {
        if (event->kind != tasks[kind].ended) continue;
        progress->moved_ns = gw_now_ns();
        if (event->token != progress->task[kind]) continue;
        progress->task[kind] = 0;
        progress->task_ns[kind] = progress->moved_ns - progress->began_ns[kind];
    }
    gw_request_kind kind = request_ended_by(event->kind);
    if (kind == GW_REQUESTS) return;
    gw_pending *pending = &progress->pending[kind];
    note_move(pending, gw_now_ns());
    if (event->token == pending->token) pending->token = 0;
    /* Tasks that were given after the LOAD begin now. */
    if (kind == GW_REQUEST_LOAD) progress->moved_ns = pending->moved_ns;
}

/* Has a job that can interrupt a task do so, which is then timed anew. */
static bool interrupt(gw_progress *progress, gw_task_kind kind) {
    const gw_job_type *type = progress->type;
    uint64_t step = progress->task_step[kind];
    if ((kind != GW_TASK_COMMIT && kind != GW_TASK_APPLY) || type->interrupt == NULL ||
        !type->interrupt(progress->job, step, GW_INTERRUPT_UPDATE))
        return false;
    gw_log(GW_WARN, "node",
           "%s step %" PRIu64 " has made no progress for %.0f s and seems to hang (--hang-timeout)",
           kind == GW_TASK_COMMIT ? "what comes after" : "the update of", step,
           (double)(progress->dog.looked_ns - progress->moved_ns) * 1e-9);
    progress->moved_ns = progress->dog.looked_ns;
    return true;
}

enum {
    LEAVE_MULTIPLE = 4
}; /* a task that takes so many times as long as the one before it holds a leaving peer up */

/* Whether the task holds this peer up, which has been asked to leave and has `eighths` of its time behind it. */
static bool holds_up(const gw_progress *progress, gw_task_kind kind, uint64_t eighths) {
    uint64_t now_ns = progress->dog.looked_ns, began_ns = progress->began_ns[kind];
    if (progress->leave_ns == 0 || now_ns < progress->leave_ns + progress->grace_ns / 8 * eighths)
        return false;
    return now_ns > began_ns + LEAVE_MULTIPLE * progress->task_ns[kind];
}

/* Whether a task has failed, as it hangs, or as it hung and holds up this peer, which leaves. What can be begun anew
 * is, before. */
static bool has_failed(gw_progress *progress, gw_task_kind kind, uint64_t usual_ns) {
    if (gw_watchdog_hangs(&progress->dog, progress->moved_ns, usual_ns)) return !interrupt(progress, kind);
    if (progress->interrupted) return holds_up(progress, kind, 6);
    progress->interrupted = holds_up(progress, kind, 3) && interrupt(progress, kind);
    return false;
}

void gw_progress_leave(gw_progress *progress, uint64_t grace_ns) {
    if (progress->leave_ns == 0) progress->leave_ns = gw_now_ns();
    progress->grace_ns = grace_ns;
}

/* Tells the brain of the first task that hangs, if any, and returns whether there is one. `usual_ns` is
 * the usual duration of a shard (watchdog.h). */
static bool report_hanging_task(gw_progress *progress, uint64_t usual_ns) {
    for (int kind = 0; kind < GW_TASKS; kind++) {
        /* A LOOK that was given after a LOAD has not begun; the brain has a deadline for the LOAD. */
        bool behind_load = kind == GW_TASK_LOOK && progress->pending[GW_REQUEST_LOAD].token != 0;
        if (progress->task[kind] == 0 || behind_load) continue;
        /* The duration of effects has nothing to do with that of shards. */
        uint64_t usual = kind == GW_TASK_COMMIT ? 0 : usual_ns;
        if (!has_failed(progress, (gw_task_kind)kind, usual)) continue;
        progress->hangs = true;
        gw_progress_log_stacks(progress, "gw-compute");
        gw_progress_log_stacks(progress, "gw-worker");
        gw_progress_log_stacks(progress, "gw-part");
        if (kind == GW_TASK_PROBE) gw_progress_log_stacks(progress, GW_PAYLOAD_THREADS);
        gw_event event = {.kind = tasks[kind].hangs,
                          .token = progress->task[kind],
                          .outcome = GW_FAILED,
                          .text = tasks[kind].text};
        if (event.kind == GW_EV_SHARD_FAILED) event.shard_failed.shard = progress->probed;
        gw_node_feed(progress->node, &event);
        return true;
    }
    return false;
}

bool gw_progress_commits(gw_progress *progress, uint64_t now_ns) {
    gw_watchdog_look(&progress->dog, now_ns);
    return progress->task[GW_TASK_COMMIT] != 0 && !progress->hangs && !report_hanging_task(progress, 0);
}

/* Reductions and data threads. */

/* Since when the reduction has been computing without waiting for another peer; 0 = it is not. A reduction
 * that was told to stop no longer waits for others. One before which the compute helper has tasks has not
 * begun. */
static uint64_t reduces_alone_since(const gw_progress *progress) {
    const gw_reduction *reduction = progress->reduction;
    if (!atomic_load(&reduction->underway)) return 0;
    for (int kind = 0; kind < GW_TASKS; kind++)
        if (progress->task[kind] != 0) return 0;
    uint64_t alone_ns = atomic_load(&reduction->alone_ns);
    if (alone_ns == 0 && atomic_load(&reduction->stop)) alone_ns = atomic_load(&reduction->stop_ns);
    /* The reduction begins when the task before it ends. */
    return alone_ns != 0 && alone_ns < progress->moved_ns ? progress->moved_ns : alone_ns;
}

/* Other members wait for the threads of a reduction for as long as this peer is alive. */
static void check_data_threads(gw_progress *progress, uint64_t usual_ns) {
    uint64_t turn_ns = gw_data_links_busy_since(progress->data_links),
             alone_ns = reduces_alone_since(progress);
    bool turns = turn_ns == 0 || !gw_watchdog_hangs(&progress->dog, turn_ns, 0);
    if (turns && (alone_ns == 0 || !gw_watchdog_hangs(&progress->dog, alone_ns, usual_ns))) return;
    progress->hangs = true;
    gw_progress_log_stacks(progress, "gw-compute");
    gw_progress_log_stacks(progress, "gw-part");
    gw_progress_log_stacks(progress, "gw-data");
    const char *what = turns ? "a reduction hangs here where it waits for nobody (--hang-timeout)"
                             : "a data thread hangs (--hang-timeout)";
    gw_node_feed(progress->node, &(gw_event){.kind = GW_EV_DEVICE_LOST, .text = what});
}

void gw_progress_look(gw_progress *progress) {
    const gw_engine *engine = progress->engine;
    uint64_t now_ns = progress->dog.looked_ns;
    bool running; /* shards are under way; the watchdog looks at each of them */
    uint64_t usual_ns;
    uint64_t computed = gw_workers_moved(engine->workers, &running, &usual_ns) +
                        atomic_load(&engine->pieces) + gw_data_links_landed(progress->data_links, NULL);
    uint64_t saved = gw_saver_moved(engine->saver);
    bool computes = running || computed != progress->computed, saves = saved != progress->saved;
    progress->computed = computed;
    progress->saved = saved;
    if (computes || saves || atomic_load(&engine->staging)) progress->moved_ns = now_ns;
    /* A PROBE may wait for payload. */
    uint64_t landed_ns = gw_payloads_landed_ns(engine->payloads);
    if (progress->task[GW_TASK_PROBE] != 0 && landed_ns > progress->moved_ns) progress->moved_ns = landed_ns;
    if (computes) report_progress(progress, GW_REQUEST_LOAD, now_ns);
    if (saves) report_progress(progress, GW_REQUEST_SAVE, now_ns);
    note_lookup(progress);
    log_requests_that_stand(progress);
    if (!report_hanging_task(progress, usual_ns)) check_data_threads(progress, usual_ns);
}
