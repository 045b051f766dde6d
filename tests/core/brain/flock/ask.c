/* What most tests start with, and ask. */
#include "core/brain/state.h"
#include "tests/core/brain/flock/inside.h"

#include <criterion/criterion.h>
#include <string.h>

uint32_t flock_said(const flock *f, uint32_t i, const char *part) {
    uint32_t count = 0;
    for (const char *at = f->peers[i].said; at != NULL && (at = strstr(at, part)) != NULL;
         at = strchr(at, '\n'))
        count++;
    return count;
}

void flock_start_all(flock *f) {
    for (uint32_t i = 0; i < f->count; i++) flock_start(f, i);
}

void flock_open_at_step_5(flock *f, uint32_t count, uint64_t steps, gw_quorum quorum) {
    flock_open(f, count, count, steps, quorum);
    flock_start_all(f);
    cr_assert(flock_run(f, flock_at_step_5, 100000));
}

bool flock_at_step_5(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->peers[i].brain != NULL && f->peers[i].step >= 5) return true;
    return false;
}

bool flock_all_have_a_checkpoint(const flock *f) {
    bool all = true;
    for (uint32_t i = 0; i < f->count; i++) all &= f->peers[i].checkpoints > 0;
    return all;
}

uint32_t flock_leader(const flock *f) {
    for (uint32_t i = 0; i < f->count; i++) {
        gw_peer_status status;
        if (f->peers[i].brain == NULL) continue;
        gw_peer_status_get(f->peers[i].brain, &status);
        if (status.view != NULL) return (uint32_t)flock_index(f, &status.view->leader);
    }
    cr_assert_fail("no leader");
    return 0;
}

gw_peer_status flock_status(const flock *f, uint32_t i) {
    gw_peer_status status;
    gw_peer_status_get(f->peers[i].brain, &status);
    return status;
}

const gw_view *flock_view(const flock *f, uint32_t i) {
    const gw_peer *brain = f->peers[i].brain;
    return brain != NULL && brain->view.current.epoch > 0 ? &brain->view.current : NULL;
}

bool flock_in_view_of(const flock *f, uint32_t i, uint32_t count) {
    const gw_view *view = flock_view(f, i);
    return view != NULL && view->count == count;
}

uint32_t flock_finished(const flock *f, gw_finish finish) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++)
        count += f->peers[i].brain != NULL && f->peers[i].finished && f->peers[i].finish == finish;
    return count;
}

void flock_expect_done(const flock *f, uint32_t least) {
    uint32_t done = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const flock_peer *p = &f->peers[i];
        if (p->brain == NULL) continue;
        cr_assert(p->finished, "peer %u", i);
        cr_assert_eq(p->finish, GW_FINISH_DONE, "peer %u: %s", i, p->finish_text);
        cr_assert_eq(p->state, flock_state_after(f->steps));
        done++;
    }
    cr_assert_geq(done, least);
}
