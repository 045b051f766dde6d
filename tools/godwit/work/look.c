/* Whether the state in memory still has the bits that it had when it was made. */
#include "core/base/log.h"
#include "tools/godwit/work/engine.h"

static bool is_expected(uint64_t found, uint64_t made, const char *what, bool *damaged, gw_err *err) {
    if (found == made) return true;
    *damaged = true;
    return gw_fail(err, GW_E_CORRUPT, "%s has fingerprint %016llx instead of %016llx", what,
                   (unsigned long long)found, (unsigned long long)made);
}

bool gw_engine_expects(const gw_engine *engine, gw_state_print found, bool *damaged, gw_err *err) {
    return is_expected(gw_state_print_whole(found), gw_state_print_whole(engine->state.print), "the state",
                       damaged, err);
}

bool gw_engine_copies_differ(const gw_err *err) {
    if (err->code != GW_E_CORRUPT) return false;
    gw_log(GW_ERROR, "node/gpus", "%s", err->text); /* the brain says only whose state it is */
    return true;
}

static bool hash(gw_engine *engine, gw_unit_work work, gw_state_print *found, bool *damaged, gw_err *err) {
    if (gw_workers_units(engine->workers, work, found, err)) return true;
    *damaged = gw_engine_copies_differ(err);
    return false;
}

bool gw_engine_is_sound(gw_engine *engine, bool *damaged, gw_err *err) {
    gw_state_print found;
    return hash(engine, GW_UNIT_HASH, &found, damaged, err) && gw_engine_expects(engine, found, damaged, err);
}

bool gw_engine_read_soundly(gw_engine *engine, bool *damaged, gw_err *err) {
    gw_state_print found;
    return hash(engine, GW_UNIT_LOOK, &found, damaged, err) &&
           is_expected(found.read, engine->state.print.read, "what contributions read of the state", damaged,
                       err);
}

bool gw_task_look(const gw_task *task, gw_mail *mail, gw_err *err) {
    return gw_engine_is_sound(task->engine, &mail->event.looked.damaged, err);
}
