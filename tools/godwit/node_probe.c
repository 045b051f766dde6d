/* A disputed shard is computed once more, from the state in place, and added to nothing (--verify). */
#include "core/check.h"
#include "tools/godwit/node_inside.h"

#include <stdlib.h>

typedef struct probe {
    gw_node *node;
    gw_token token;
    uint64_t step;
    uint32_t shard;
} probe;

static bool compute(const probe *task, uint64_t *fingerprint, gw_err *err) {
    gw_node *node = task->node;
    const void *payload = NULL;
    gw_payload_end end = GW_PAYLOAD_HERE;
    if (node->payloads) end = gw_payloads_take(node->payloads, task->shard, &payload, err);
    if (end == GW_PAYLOAD_GIVEN_UP) return gw_fail(err, GW_E_ABORTED, "the view has ended");
    if (end != GW_PAYLOAD_HERE) return gw_fail_in(err, "payload");
    bool good = gw_workers_probe(node->workers, task->step, task->shard, payload, fingerprint, err);
    if (node->payloads) gw_payloads_release(node->payloads, task->shard, payload);
    return good;
}

static void run_probe(void *context) {
    probe *task = context;
    gw_mail *mail = gw_mail_new(GW_EV_PROBED, task->token);
    gw_err err = {0};
    bool good = compute(task, &mail->event.fingerprint, &err);
    gw_mail_outcome(mail, good ? NULL : &err);
    gw_mailbox_post(task->node->mail, mail);
    free(task);
}

void gw_node_probe(gw_node *node, const gw_action *action) {
    probe *task = malloc(sizeof *task);
    GW_CHECK_MEMORY(task != NULL);
    *task = (probe){.node = node, .token = action->token, .step = action->step, .shard = action->first};
    gw_helper_give(node->compute, run_probe, task);
}
