#include "core/brain/job_state.h"

#include "core/brain/state.h"

void gw_job_state_take(gw_peer *p, uint64_t step, uint64_t fingerprint, bool sound) {
    gw_job_state_name(p, step, fingerprint);
    p->state.present = sound;
}

void gw_job_state_advance(gw_peer *p, uint64_t fingerprint) {
    gw_job_state_name(p, p->state.step + 1, fingerprint);
}

void gw_job_state_drop(gw_peer *p) {
    p->state.present = false;
}

void gw_job_state_name(gw_peer *p, uint64_t step, uint64_t fingerprint) {
    p->state.step = step;
    p->state.fingerprint = fingerprint;
}

void gw_job_state_set_end(gw_peer *p, uint64_t step, bool ended, bool stopped) {
    p->state.end_step = step;
    p->state.ended = ended;
    p->state.stopped = stopped;
}

void gw_job_state_set_best(gw_peer *p, const gw_best *best) {
    const gw_checkpoint_ref former = p->state.best.kept;
    p->state.best = best != NULL && p->config.best.on ? *best : (gw_best){0};
    if (!p->config.fast) gw_best_note_checkpoint(&p->state.best, &former);
}

void gw_job_state_adopt_best(gw_peer *p, int64_t word) {
    if (p->config.best.on) gw_best_adopt(&p->state.best, word);
}

void gw_job_state_evaluated(gw_peer *p, double value) {
    if (p->config.best.on) gw_best_take(&p->state.best, &p->config.best, value, p->state.step);
}

void gw_job_state_note_checkpoint(gw_peer *p, const gw_checkpoint_ref *whole) {
    gw_best_note_checkpoint(&p->state.best, whole);
}

bool gw_job_state_is_unsaved_best(const gw_peer *p) {
    return p->state.present && gw_best_lacks_checkpoint(&p->state.best, p->state.step);
}
