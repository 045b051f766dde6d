/* Whether the requests given to the helpers and the checkpoint writer make progress. The brain is told of
 * progress, and knows what to do about a LOAD, SAVE, MANIFEST or PERSIST without any. A look-up of another
 * peer that the disk does not answer is logged. Other tasks that make no progress have failed (task.c),
 * unless they wait for a SAVE. A reduction that hangs where it waits for no other peer ends this one. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/node/inside.h"
#include "tools/godwit/watch/stacks.h"

#include <stdlib.h>
#include <string.h>

static void run_log(void *task) {
    gw_stacks_log(task);
    free(task);
}

void gw_node_log_stacks(gw_node *node, const char *name) {
    char *copy = strdup(name);
    GW_ASSERT_MEMORY(copy != NULL);
    gw_helper_give(node->stacks, run_log, copy);
}

static const struct {
    const char *text, *threads[2];
} waits[GW_WAITS] = {
    [GW_WAIT_LOAD] = {"nothing of a state gets here: what it is read from hangs (--hang-timeout)",
                      {"gw-compute"}},
    [GW_WAIT_SAVE] = {"the disk hangs: nothing of a checkpoint gets on here (--hang-timeout)",
                      {"gw-checkpoint", "gw-disk"}},
    [GW_WAIT_RECORD] = {"the disk hangs: what this peer has promised is not recorded (--hang-timeout)",
                        {"gw-disk"}},
    [GW_WAIT_LOOKUP] = {"the disk hangs: others get nothing of the checkpoints here (--hang-timeout)",
                        {"gw-data-files"}},
};

static gw_wait wait_for(gw_action_kind kind) {
    return kind == GW_ACT_LOAD                              ? GW_WAIT_LOAD
           : kind == GW_ACT_SAVE || kind == GW_ACT_MANIFEST ? GW_WAIT_SAVE
           : kind == GW_ACT_PERSIST                         ? GW_WAIT_RECORD
                                                            : GW_WAITS;
}

static gw_wait wait_ended_by(gw_event_kind kind) {
    return kind == GW_EV_LOADED                                    ? GW_WAIT_LOAD
           : kind == GW_EV_STORED || kind == GW_EV_MANIFEST_STORED ? GW_WAIT_SAVE
           : kind == GW_EV_PERSISTED                               ? GW_WAIT_RECORD
                                                                   : GW_WAITS;
}

static void note_move(gw_awaited *a, uint64_t now_ns) {
    a->moved_ns = now_ns;
    a->logged = false;
}

void gw_node_work_given(gw_node *node, const gw_action *action) {
    gw_wait wait = wait_for(action->kind);
    if (wait == GW_WAITS) return;
    gw_awaited *a = &node->work.awaited[wait];
    if (a->token == 0) note_move(a, gw_now_ns()); /* otherwise it waits for the one before it */
    a->token = action->token;
    if (wait == GW_WAIT_LOAD) node->work.load_step = action->step;
}

void gw_node_work_done(gw_node *node, const gw_event *event) {
    gw_wait wait = wait_ended_by(event->kind);
    gw_node_task_done(node, event);
    if (wait == GW_WAITS) return;
    gw_awaited *a = &node->work.awaited[wait];
    note_move(a, gw_now_ns());
    if (event->token == a->token) a->token = 0;
    if (wait == GW_WAIT_LOAD) node->work.moved_ns = a->moved_ns; /* for the tasks behind it */
}

static void got_on(gw_node *node, gw_wait wait, uint64_t now_ns) {
    gw_awaited *a = &node->work.awaited[wait];
    note_move(a, now_ns);
    if (a->token != 0) gw_node_feed(node, &(gw_event){.kind = GW_EV_PROGRESS, .token = a->token});
}

/* Since when a reduction that must not wait for anybody is at it; 0 = there is none. One that was told to
 * stop no longer waits. One before which the compute helper has tasks has not begun. */
static uint64_t reduces_since(const gw_node *node) {
    const gw_reduction *reduction = &node->reduction;
    if (!atomic_load(&reduction->underway)) return 0;
    for (int kind = 0; kind < GW_TASKS; kind++)
        if (node->work.task[kind] != 0) return 0;
    uint64_t alone_ns = atomic_load(&reduction->alone_ns);
    if (alone_ns == 0 && atomic_load(&reduction->stop)) return atomic_load(&reduction->stop_ns);
    return alone_ns;
}

bool gw_node_commits(gw_node *node, uint64_t now_ns) {
    gw_watchdog_look(&node->dog, now_ns);
    return node->work.task[GW_TASK_COMMIT] != 0 && !node->work.hangs && !gw_node_task_hangs(node, 0);
}

static bool stands(const gw_node *node, const gw_awaited *a) {
    return a->token != 0 && gw_watchdog_hangs(&node->dog, a->moved_ns, 0);
}

/* What others ask for comes and goes without the loop, but for when it began. */
static void note_lookup(gw_node *node) {
    gw_awaited *a = &node->work.awaited[GW_WAIT_LOOKUP];
    uint64_t since_ns = gw_wires_files_since(node->wires);
    if (since_ns == a->token) return;
    note_move(a, since_ns);
    a->token = since_ns;
}

/* The log is to say where. */
static void look_at_awaited(gw_node *node) {
    for (gw_wait wait = 0; wait < GW_WAITS; wait++) {
        gw_awaited *a = &node->work.awaited[wait];
        if (a->logged || !stands(node, a)) continue;
        a->logged = true;
        gw_log(GW_WARN, "node", "%s", waits[wait].text);
        for (size_t i = 0; i < sizeof waits[wait].threads / sizeof *waits[wait].threads; i++)
            if (waits[wait].threads[i] != NULL) gw_node_log_stacks(node, waits[wait].threads[i]);
    }
}

bool gw_node_lookup_hangs(const gw_node *node) {
    return stands(node, &node->work.awaited[GW_WAIT_LOOKUP]);
}

bool gw_node_work_hangs(const gw_node *node) {
    bool hangs = node->work.hangs;
    for (int wait = 0; wait < GW_WAITS; wait++)
        hangs |= wait != GW_WAIT_LOOKUP && stands(node, &node->work.awaited[wait]);
    return hangs;
}

/* For a thread that others wait for in a reduction, for as long as this peer is alive. */
static void look_at_data(gw_node *node, uint64_t usual_ns) {
    uint64_t turn_ns = gw_wires_busy_since(node->wires), reduces_ns = reduces_since(node);
    if (reduces_ns != 0 && reduces_ns < node->work.moved_ns) reduces_ns = node->work.moved_ns;
    bool turns = turn_ns == 0 || !gw_watchdog_hangs(&node->dog, turn_ns, 0);
    if (turns && (reduces_ns == 0 || !gw_watchdog_hangs(&node->dog, reduces_ns, usual_ns))) return;
    node->work.hangs = true;
    gw_node_log_stacks(node, "gw-compute");
    gw_node_log_stacks(node, "gw-part");
    gw_node_log_stacks(node, "gw-data");
    const char *what = turns ? "a reduction hangs here where it waits for nobody (--hang-timeout)"
                             : "a data thread hangs (--hang-timeout)";
    gw_node_feed(node, &(gw_event){.kind = GW_EV_DEVICE_LOST, .text = what});
}

void gw_node_work_look(gw_node *node, uint64_t now_ns) {
    gw_work *work = &node->work;
    bool running; /* shards are watched one by one */
    uint64_t usual_ns;
    uint64_t computed = gw_workers_moved(node->workers, &running, &usual_ns) +
                        atomic_load(&node->engine.pieces) + gw_wires_landed(node->wires, NULL);
    uint64_t saved = gw_saver_moved(node->saver);
    bool computes = running || computed != work->computed, saves = saved != work->saved;
    work->computed = computed;
    work->saved = saved;
    if (computes || saves || atomic_load(&node->engine.staging)) work->moved_ns = now_ns;
    uint64_t landed_ns = gw_payloads_landed_ns(node->payloads); /* which a PROBE may wait for */
    if (work->task[GW_TASK_PROBE] != 0 && landed_ns > work->moved_ns) work->moved_ns = landed_ns;
    if (computes) got_on(node, GW_WAIT_LOAD, now_ns);
    if (saves) got_on(node, GW_WAIT_SAVE, now_ns);
    note_lookup(node);
    look_at_awaited(node);
    if (!gw_node_task_hangs(node, usual_ns)) look_at_data(node, usual_ns);
}
