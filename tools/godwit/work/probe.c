/* A disputed shard is computed once more, from the state in place, and added to nothing (--verify). */
#include "tools/godwit/node/inside.h"

bool gw_node_probe(const gw_task *task, gw_mail *mail, gw_err *err) {
    gw_node *node = task->node;
    const void *payload = NULL;
    gw_err why = {0};
    gw_payload_end end = GW_PAYLOAD_HERE;
    if (node->payloads) end = gw_payloads_take(node->payloads, task->shard, &payload, &why);
    if (end == GW_PAYLOAD_GIVEN_UP) return gw_fail(err, GW_E_ABORTED, "the view has ended");
    if (end != GW_PAYLOAD_HERE) return gw_fail(err, GW_E_ABORTED, "%s", why.text);
    bool good =
        gw_workers_probe(node->workers, task->step, task->shard, payload, &mail->event.fingerprint, err);
    if (node->payloads) gw_payloads_release(node->payloads, task->shard, payload);
    return good;
}
