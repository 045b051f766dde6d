/* Whether what was given to the helpers and the checkpoint writer gets on: told to the brain, which knows
 * what to do about a LOAD, SAVE or MANIFEST that does not. An APPLY in which nothing gets on has failed. */
#include "tools/godwit/node_inside.h"

void gw_node_work_given(gw_node *node, const gw_action *action) {
    gw_work *work = &node->work;
    if (action->kind == GW_ACT_LOAD) work->load = action->token;
    if (action->kind == GW_ACT_SAVE || action->kind == GW_ACT_MANIFEST) work->save = action->token;
    if (action->kind == GW_ACT_APPLY) work->apply = action->token;
    if (action->kind == GW_ACT_COMMIT) work->commit = action->token;
    if (action->kind == GW_ACT_APPLY || action->kind == GW_ACT_COMMIT) work->moved_ns = gw_now_ns();
}

void gw_node_work_done(gw_node *node, const gw_event *event) {
    gw_work *work = &node->work;
    if (event->kind == GW_EV_LOADED) work->load = 0;
    if (event->kind == GW_EV_APPLIED) work->apply = 0;
    if (event->kind == GW_EV_COMMITTED) {
        work->moved_ns = gw_now_ns();
        if (event->token == work->commit) work->commit = 0;
    }
    if (event->token == work->save) work->save = 0;
}

static void tell(gw_node *node, gw_token token) {
    if (token != 0) gw_node_feed(node, &(gw_event){.kind = GW_EV_PROGRESS, .token = token});
}

void gw_node_work_look(gw_node *node, uint64_t now_ns) {
    gw_work *work = &node->work;
    bool running; /* shards are watched one by one */
    uint64_t usual_ns;
    uint64_t computed = gw_workers_moved(node->workers, &running, &usual_ns) + atomic_load(&work->pieces);
    uint64_t saved = gw_saver_moved(node->saver);
    bool computes = running || computed != work->computed, saves = saved != work->saved;
    work->computed = computed;
    work->saved = saved;
    if (computes || saves) work->moved_ns = now_ns;
    if (computes) tell(node, work->load);
    if (saves) tell(node, work->save);
    if (work->commit != 0 && gw_watchdog_hangs(&node->dog, work->moved_ns, 0)) {
        work->commit_hangs = true;
        gw_event failed = {.kind = GW_EV_COMMITTED,
                           .token = work->commit,
                           .outcome = GW_FAILED,
                           .text = "they take too long, the job's code seems to hang (--hang-timeout)"};
        gw_node_feed(node, &failed);
        return;
    }
    if (work->apply == 0 || !gw_watchdog_hangs(&node->dog, work->moved_ns, usual_ns)) return;
    gw_event failed = {.kind = GW_EV_APPLIED,
                       .token = work->apply,
                       .outcome = GW_FAILED,
                       .text = "nothing of it gets on, it seems to hang (--hang-timeout)"};
    gw_node_feed(node, &failed);
}
