/* The job's effects of committed steps (core/godwit.h, `commit`), on the compute helper: in the order of the
 * actions, so that the state is the one the brain meant, while workers compute the next step. */
#include "tools/godwit/node/inside.h"

#include <stdlib.h>
#include <string.h>

bool gw_node_commit(const gw_task *task, gw_mail *mail, gw_err *err) {
    (void)mail;
    gw_device *device = task->node->device;
    return device->ops->commit(device, task->step, err);
}

void gw_node_committed(gw_node *node, const gw_event *event) {
    if (event->kind != GW_EV_COMMITTED || event->outcome == GW_DONE) return;
    node->finish = GW_FINISH_FAILED;
    free(node->final_text);
    node->final_text = strdup(event->text);
}
