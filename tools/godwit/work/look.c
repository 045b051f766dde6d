/* Whether the state in memory still has the bits that it had when it was made. */
#include "core/base/log.h"
#include "tools/godwit/node/inside.h"

static bool is_expected(uint64_t found, uint64_t made, const char *what, bool *damaged, gw_err *err) {
    if (found == made) return true;
    *damaged = true;
    return gw_fail(err, GW_E_CORRUPT, "%s has fingerprint %016llx instead of %016llx", what,
                   (unsigned long long)found, (unsigned long long)made);
}

bool gw_node_expects(const gw_node *node, gw_state_print found, bool *damaged, gw_err *err) {
    return is_expected(gw_state_print_whole(found), gw_state_print_whole(node->state.print), "the state",
                       damaged, err);
}

bool gw_node_copies_differ(const gw_err *err) {
    if (err->code != GW_E_CORRUPT) return false;
    gw_log(GW_ERROR, "node/gpus", "%s", err->text); /* the brain says only whose state it is */
    return true;
}

static bool hash(gw_node *node, gw_unit_work work, gw_state_print *found, bool *damaged, gw_err *err) {
    if (gw_workers_units(node->workers, work, found, err)) return true;
    *damaged = gw_node_copies_differ(err);
    return false;
}

bool gw_node_is_sound(gw_node *node, bool *damaged, gw_err *err) {
    gw_state_print found;
    return hash(node, GW_UNIT_HASH, &found, damaged, err) && gw_node_expects(node, found, damaged, err);
}

bool gw_node_read_soundly(gw_node *node, bool *damaged, gw_err *err) {
    gw_state_print found;
    return hash(node, GW_UNIT_LOOK, &found, damaged, err) &&
           is_expected(found.read, node->state.print.read, "what contributions read of the state", damaged,
                       err);
}

bool gw_node_look(const gw_task *task, gw_mail *mail, gw_err *err) {
    return gw_node_is_sound(task->node, &mail->event.damaged, err);
}
