/* A disputed shard is computed once more, from the state in place, and added to nothing (--verify). */
#include "tools/godwit/work/engine.h"

bool gw_task_probe(const gw_task *task, gw_mail *mail, gw_err *err) {
    gw_engine *engine = task->engine;
    const void *payload = NULL;
    gw_err why = {0};
    gw_payload_end end = GW_PAYLOAD_HERE;
    if (engine->payloads) end = gw_payloads_take(engine->payloads, task->shard, &payload, &why);
    if (end == GW_PAYLOAD_GIVEN_UP) return gw_fail(err, GW_E_ABORTED, "the view has ended");
    if (end != GW_PAYLOAD_HERE) return gw_fail(err, GW_E_ABORTED, "%s", why.text);
    bool good = gw_workers_probe(engine->workers, task->step, task->shard, payload,
                                 &mail->event.probed.fingerprint, err);
    if (engine->payloads) gw_payloads_release(engine->payloads, task->shard, payload);
    return good;
}
