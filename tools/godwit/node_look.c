/* Whether the state in memory still has the bits that it had when it was made. */
#include "core/log.h"
#include "tools/godwit/node_inside.h"

bool gw_node_expects(const gw_node *node, uint64_t fingerprint, bool *damaged, gw_err *err) {
    if (fingerprint == node->state.fingerprint) return true;
    *damaged = true;
    return gw_fail(err, GW_E_CORRUPT, "the state has fingerprint %016llx instead of %016llx",
                   (unsigned long long)fingerprint, (unsigned long long)node->state.fingerprint);
}

bool gw_node_copies_differ(const gw_err *err) {
    if (err->code != GW_E_CORRUPT) return false;
    gw_log(GW_ERROR, "node/gpus", "%s", err->text); /* the brain says only whose state it is */
    return true;
}

bool gw_node_is_sound(gw_node *node, bool *damaged, gw_err *err) {
    uint64_t fingerprint;
    if (gw_workers_units(node->workers, GW_UNIT_HASH, &fingerprint, err))
        return gw_node_expects(node, fingerprint, damaged, err);
    *damaged = gw_node_copies_differ(err);
    return false;
}

bool gw_node_look(const gw_task *task, gw_mail *mail, gw_err *err) {
    return gw_node_is_sound(task->node, &mail->event.damaged, err);
}
