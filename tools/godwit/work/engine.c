#include "tools/godwit/work/engine.h"

#include "core/base/log.h"
#include "core/os/trace.h"

#include <math.h>
#include <string.h>

void gw_engine_wait_staged(gw_engine *engine) {
    atomic_store(&engine->staging, true);
    gw_saver_staged(engine->saver);
    atomic_store(&engine->staging, false);
}

/* Compares a fingerprint of the state in memory with the one taken when the state was made. `what` names the
 * state, or the part of it, in the error. */
static bool compare_prints(uint64_t found, uint64_t made, const char *what, bool *damaged, gw_err *err) {
    if (found == made) return true;
    *damaged = true;
    return gw_fail(err, GW_E_CORRUPT, "%s has fingerprint %016llx instead of %016llx", what,
                   (unsigned long long)found, (unsigned long long)made);
}

static bool compare_whole(const gw_engine *engine, gw_state_print found, bool *damaged, gw_err *err) {
    return compare_prints(gw_state_print_whole(found), gw_state_print_whole(engine->state.print), "the state",
                          damaged, err);
}

/* Whether units failed because the copies of the state on several GPUs differ: then the state is damaged. The
 * log gets which copies differ, because the brain reports only the peer. */
static bool copies_differ(const gw_err *err) {
    if (err->code != GW_E_CORRUPT) return false;
    gw_log(GW_ERROR, "work/engine", "%s", err->text);
    return true;
}

static bool hash_state(gw_engine *engine, gw_unit_work work, gw_state_print *found, bool *damaged,
                       gw_err *err) {
    if (gw_workers_units(engine->workers, work, found, err)) return true;
    *damaged = copies_differ(err);
    return false;
}

/* Whether the state in memory still has the bits that it had when it was made. No deal may be worked on
 * meanwhile. False: the bits differ (then *damaged is set), or they could not be hashed. */
static bool state_is_sound(gw_engine *engine, bool *damaged, gw_err *err) {
    gw_state_print found;
    return hash_state(engine, GW_UNIT_HASH, &found, damaged, err) &&
           compare_whole(engine, found, damaged, err);
}

bool gw_engine_read_part_is_sound(gw_engine *engine, bool *damaged, gw_err *err) {
    gw_state_print found;
    return hash_state(engine, GW_UNIT_HASH_READ, &found, damaged, err) &&
           compare_prints(found.read, engine->state.print.read, "what contributions read of the state",
                          damaged, err);
}

bool gw_task_look(const gw_task *task, gw_mail *mail, gw_err *err) {
    return state_is_sound(task->engine, &mail->event.looked.damaged, err);
}

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

bool gw_task_commit(const gw_task *task, gw_mail *mail, gw_err *err) {
    (void)mail;
    gw_device *device = task->engine->device;
    return device->ops->commit(device, task->step, err);
}

/* Notes the value of an evaluation. A step whose update is skipped has no scalars, and gives NaN. */
static void note_evaluation(const gw_task *task, const gw_scalars *scalars, gw_event *event) {
    const gw_engine *engine = task->engine;
    gw_phase phase = GW_TRAIN;
    if (engine->evaluation == NULL) return;
    (void)engine->job_type->shards(engine->job, task->step, &phase);
    event->applied.evaluated = phase == GW_EVALUATE;
    event->applied.value = scalars != NULL ? scalars->value[engine->evaluation->scalar] : (double)NAN;
}

/* Computes the next state in place of the present one. Called with the state's lock held for writing. *print
 * becomes the fingerprint of the next state. */
static bool step_forward(const gw_task *task, gw_state_print *print, gw_event *event, gw_err *err) {
    gw_engine *engine = task->engine;
    bool *damaged = &event->applied.damaged;
    if (task->skip_update) note_evaluation(task, NULL, event);
    if (task->skip_update) return !task->check_state || state_is_sound(engine, damaged, err);
    gw_scalars scalars = {0};
    if (!engine->device->ops->scalars(engine->device, &scalars, err)) return gw_fail_in(err, "scalars");
    event->applied.stop = scalars.stop;
    note_evaluation(task, &scalars, event);
    gw_state_print before;
    bool good = task->check_state ? gw_workers_check_and_apply(engine->workers, &before, print, err)
                                  : gw_workers_units(engine->workers, GW_UNIT_APPLY, print, err);
    if (!good) *damaged = copies_differ(err);
    if (good && task->check_state) good = compare_whole(engine, before, damaged, err);
    return good || gw_fail_in(err, "apply");
}

bool gw_task_apply(const gw_task *task, gw_mail *mail, gw_err *err) {
    gw_engine *engine = task->engine;
    uint64_t waits_ns = gw_trace_begin();
    gw_engine_wait_staged(engine);
    gw_trace_waited(GW_TRACE_STAGED, waits_ns, 0, task->step);
    pthread_rwlock_wrlock(&engine->state.lock);
    engine->state.valid = false;
    gw_state_print print = engine->state.print;
    bool good = step_forward(task, &print, &mail->event, err);
    if (good) {
        engine->state.valid = true;
        engine->state.step = task->step + 1;
        engine->state.print = print;
        mail->event.applied.fingerprint = gw_state_print_whole(print);
    }
    pthread_rwlock_unlock(&engine->state.lock);
    if (!good) return gw_fail_in(err, "step %llu", (unsigned long long)task->step);
    if (!task->skip_update) {
        char report[200] = "";
        engine->device->ops->report(engine->device, report, sizeof report);
        gw_mail_bytes(mail, report, strlen(report) + 1);
    }
    return true;
}
