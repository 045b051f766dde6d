/* The job's effects of committed steps (core/godwit.h, `commit`), on the compute helper: in the order of the
 * actions, so that the state is the one the brain meant, while workers compute the next step. */
#include "core/check.h"
#include "tools/godwit/node_inside.h"

#include <stdlib.h>
#include <string.h>

typedef struct commit {
    gw_node *node;
    gw_token token;
    uint64_t step;
} commit;

static void run_commit(void *context) {
    commit *task = context;
    gw_mail *mail = gw_mail_new(GW_EV_COMMITTED, task->token);
    gw_err err = {0};
    bool good = task->node->device->ops->commit(task->node->device, task->step, &err);
    gw_mail_outcome(mail, good ? NULL : &err);
    gw_mailbox_post(task->node->mail, mail);
    free(task);
}

void gw_node_commit(gw_node *node, const gw_action *action) {
    commit *task = malloc(sizeof *task);
    GW_CHECK_MEMORY(task != NULL);
    *task = (commit){.node = node, .token = action->token, .step = action->step};
    gw_helper_give(node->compute, run_commit, task);
}

void gw_node_committed(gw_node *node, const gw_event *event) {
    if (event->kind != GW_EV_COMMITTED || event->outcome == GW_DONE) return;
    node->finish = GW_FINISH_FAILED;
    free(node->final_text);
    node->final_text = strdup(event->text);
}
