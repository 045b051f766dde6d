/* Whether what was given to the helpers and the checkpoint writer gets on: told to the brain, which knows
 * what to do about a LOAD, SAVE or MANIFEST that does not. Other tasks in which nothing gets on have failed
 * (node_task.c), unless they wait for a SAVE, and a reduction that hangs where it waits for no other peer
 * ends this one. */
#include "core/check.h"
#include "core/log.h"
#include "tools/godwit/node_inside.h"
#include "tools/godwit/stacks.h"

#include <stdlib.h>
#include <string.h>

static void run_log(void *task) {
    gw_stacks_log(task);
    free(task);
}

void gw_node_log_stacks(gw_node *node, const char *name) {
    char *copy = strdup(name);
    GW_CHECK_MEMORY(copy != NULL);
    gw_helper_give(node->stacks, run_log, copy);
}

void gw_node_work_given(gw_node *node, const gw_action *action) {
    gw_work *work = &node->work;
    if (action->kind == GW_ACT_LOAD) {
        work->load = action->token;
        work->load_step = action->step;
    }
    if (action->kind == GW_ACT_SAVE || action->kind == GW_ACT_MANIFEST) {
        if (work->save == 0) work->saved_ns = gw_now_ns();
        work->save = action->token;
    }
}

void gw_node_work_done(gw_node *node, const gw_event *event) {
    gw_work *work = &node->work;
    if (event->kind == GW_EV_LOADED) {
        work->load = 0;
        work->moved_ns = gw_now_ns();
    }
    gw_node_task_done(node, event);
    if (event->token == work->save) {
        work->save = 0;
        work->save_hangs = false;
    }
}

static void tell(gw_node *node, gw_token token) {
    if (token != 0) gw_node_feed(node, &(gw_event){.kind = GW_EV_PROGRESS, .token = token});
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

/* The brain knows what to do about a disk that hangs; the log is to say where. */
static void look_at_disk(gw_node *node) {
    gw_work *work = &node->work;
    if (work->save_hangs || work->save == 0 || !gw_watchdog_hangs(&node->dog, work->saved_ns, 0)) return;
    work->save_hangs = true;
    gw_log(GW_WARN, "node", "the disk hangs: nothing of a checkpoint gets on here (--hang-timeout)");
    gw_node_log_stacks(node, "gw-checkpoint");
    gw_node_log_stacks(node, "gw-disk");
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
    uint64_t computed = gw_workers_moved(node->workers, &running, &usual_ns) + atomic_load(&work->pieces) +
                        gw_wires_landed(node->wires, NULL);
    uint64_t saved = gw_saver_moved(node->saver);
    bool computes = running || computed != work->computed, saves = saved != work->saved;
    work->computed = computed;
    work->saved = saved;
    if (computes || saves || atomic_load(&work->staging)) work->moved_ns = now_ns;
    uint64_t landed_ns = gw_payloads_landed_ns(node->payloads); /* which a PROBE may wait for */
    if (work->task[GW_TASK_PROBE] != 0 && landed_ns > work->moved_ns) work->moved_ns = landed_ns;
    if (saves) work->saved_ns = now_ns;
    if (computes) tell(node, work->load);
    if (saves) tell(node, work->save);
    look_at_disk(node);
    if (!gw_node_task_hangs(node, usual_ns)) look_at_data(node, usual_ns);
}
