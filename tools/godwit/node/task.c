/* What the compute helper does for the brain, and for how long: one that gets nowhere has failed, as others
 * may wait for it for as long as this peer lives. (LOAD, whose sources may be slow, is the brain's to judge;
 * of REDUCE see progress.c.) */
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "tools/godwit/node/inside.h"

#include <stdlib.h>

/* A PROBE that hangs is told as a shard that does: the brain may have forgotten its token with the view. */
static const struct {
    gw_event_kind ended, hangs;
    const char *text;
} kinds[GW_TASKS] = {
    [GW_TASK_COMMIT] = {GW_EV_COMMITTED, GW_EV_COMMITTED,
                        "they take too long, the job's code seems to hang (--hang-timeout)"},
    [GW_TASK_PROBE] = {GW_EV_PROBED, GW_EV_SHARD_FAILED,
                       "asked for once more it takes too long and seems to hang (--hang-timeout)"},
    [GW_TASK_LOOK] = {GW_EV_LOOKED, GW_EV_LOOKED, "nothing of it gets on, it seems to hang (--hang-timeout)"},
    [GW_TASK_APPLY] = {GW_EV_APPLIED, GW_EV_APPLIED,
                       "nothing of it gets on, it seems to hang (--hang-timeout)"},
};

typedef struct given {
    gw_node *node;
    gw_task task;
    gw_task_kind kind;
    gw_task_run *run;
} given;

static void run_given(void *context) {
    given *g = context;
    gw_mail *mail = gw_mail_new(kinds[g->kind].ended, g->task.token);
    gw_err err = {0};
    bool good = g->run(&g->task, mail, &err);
    gw_mail_outcome(mail, good ? NULL : &err);
    gw_mailbox_post(g->node->mail, mail);
    free(g);
}

void gw_node_task(gw_node *node, gw_task_kind kind, const gw_action *action, gw_task_run *run) {
    given *g = malloc(sizeof *g);
    GW_ASSERT_MEMORY(g != NULL);
    *g = (given){.node = node,
                 .kind = kind,
                 .run = run,
                 .task = {.engine = &node->engine,
                          .token = action->token,
                          .step = action->step,
                          .shard = kind == GW_TASK_PROBE ? action->probe.shard : 0,
                          .skip_update = kind == GW_TASK_APPLY && action->apply.skip_update,
                          .check_state = kind == GW_TASK_APPLY && action->apply.check_state}};
    node->work.task[kind] = action->token;
    node->work.moved_ns = gw_now_ns();
    if (kind == GW_TASK_PROBE) node->work.probed = action->probe.shard;
    gw_helper_give(node->compute, run_given, g);
}

void gw_node_task_done(gw_node *node, const gw_event *event) {
    gw_work *work = &node->work;
    for (int kind = 0; kind < GW_TASKS; kind++) {
        if (event->kind != kinds[kind].ended) continue;
        work->moved_ns = gw_now_ns();
        if (event->token == work->task[kind]) work->task[kind] = 0;
    }
}

bool gw_node_task_hangs(gw_node *node, uint64_t usual_ns) {
    gw_work *work = &node->work;
    for (int kind = 0; kind < GW_TASKS; kind++) {
        /* Behind a LOAD, for which the brain has a deadline, a LOOK has not begun. */
        if (work->task[kind] == 0 || (kind == GW_TASK_LOOK && work->awaited[GW_WAIT_LOAD].token != 0))
            continue;
        /* Effects have nothing to do with how long a shard takes. */
        if (!gw_watchdog_hangs(&node->dog, work->moved_ns, kind == GW_TASK_COMMIT ? 0 : usual_ns)) continue;
        work->hangs = true;
        gw_node_log_stacks(node, "gw-compute");
        gw_node_log_stacks(node, "gw-worker");
        gw_node_log_stacks(node, "gw-part");
        if (kind == GW_TASK_PROBE) gw_node_log_stacks(node, GW_PAYLOAD_THREADS);
        gw_event event = {.kind = kinds[kind].hangs,
                          .token = work->task[kind],
                          .outcome = GW_FAILED,
                          .text = kinds[kind].text};
        if (event.kind == GW_EV_SHARD_FAILED) event.shard_failed.shard = work->probed;
        gw_node_feed(node, &event);
        return true;
    }
    return false;
}

void gw_node_committed(gw_node *node, const gw_event *event) {
    if (event->kind != GW_EV_COMMITTED || event->outcome == GW_DONE) return;
    node->finish = GW_FINISH_FAILED;
    free(node->final_text);
    node->final_text = strdup(event->text);
}
