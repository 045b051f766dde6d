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
