/* What a brain asks for, done; and what it tells, noted. */
#include "core/brain/state.h"
#include "tests/core/brain/flock/inside.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep_said(flock_peer *p, const char *text) {
    size_t length = strlen(text);
    p->said = realloc(p->said, p->said_length + length + 2);
    cr_assert_not_null(p->said);
    memcpy(p->said + p->said_length, text, length);
    memcpy(p->said + p->said_length + length, "\n", 2);
    p->said_length += length + 1;
}

/* Where no majority rules a peer shows what it has before it hears whether others have the same. */
static void expect_right(const flock *f, uint32_t i, uint64_t state, uint64_t steps) {
    bool excused = f->peers[i].flipped && f->quorum == GW_QUORUM_ANY;
    cr_assert(excused || state == flock_state_after(steps), "peer %u, step %lu", i, steps - 1);
}

/* What is shown of a step is right, comes once, and in order. */
static void note_shown(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    expect_right(f, i, a->notice.committed.fingerprint, a->step + 1);
    cr_assert_geq(a->step + 1, p->shown_step + (f->quorum == GW_QUORUM_MAJORITY));
    p->shown_step = a->step + 1;
    for (uint32_t rank = 0; rank < p->fence.count; rank++) {
        const flock_peer *other = &f->peers[flock_index(f, &p->fence.members[rank].id)];
        if (other->brain != NULL && other != p) p->showed_early |= other->brain->state.step < a->step + 1;
    }
}

/* Effects of a step are had from the state that came of it, when others may know of it. */
static void note_effects(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    bool fails = p->effects_fail_at != 0 && a->step + 1 == p->effects_fail_at;
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    cr_assert(status.has_state, "peer %u has effects of a state that it has dropped", i);
    cr_assert_eq(a->step + 1, p->step);
    expect_right(f, i, p->state, p->step);
    if (a->step < FLOCK_EFFECTS && !fails) f->effects[a->step]++;
    flock_post(f, i, 100000,
               (gw_event){.kind = GW_EV_COMMITTED,
                          .token = a->token,
                          .outcome = fails ? GW_FAILED : GW_DONE,
                          .text = f->reason});
}

static void log_line(const flock *f, uint32_t i, flock_peer *p, const char *text) {
    keep_said(p, text);
    if (getenv("FLOCK_TALKS") != NULL)
        fprintf(stderr, "%9.3f ms  peer %u: %s\n", (double)f->now / 1e6, i, text);
}

static void note(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    if (a->notice.kind == GW_NOTICE_CHECKPOINT) p->checkpoints++;
    if (a->notice.kind == GW_NOTICE_RESUMING) p->resuming++;
    if (a->notice.kind == GW_NOTICE_RESUMED) p->resumed++;
    if (a->notice.kind == GW_NOTICE_VERIFIED) p->verified += a->notice.verified.shards;
    if (a->notice.kind == GW_NOTICE_CORRUPT) {
        p->corruptions++;
        p->corrupt = a->peer;
    }
    if (a->notice.kind == GW_NOTICE_HEALED) p->offers++;
    if (a->notice.kind == GW_NOTICE_STEP) note_shown(f, i, a);
    if (a->notice.kind == GW_NOTICE_PHASE) log_line(f, i, p, a->notice.text);
}

static void note_finish(flock_peer *p, const gw_action *a) {
    p->finished = true;
    p->finish = a->finish.result;
    p->final_root = a->finish.root;
    snprintf(p->finish_text, sizeof p->finish_text, "%s", a->finish.text);
}

void flock_carry_out(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    switch (a->kind) {
    case GW_ACT_DATAGRAM:
        flock_datagram(f, i, a);
        break;
    case GW_ACT_LINK:
        flock_link_or_drop(f, i, a);
        break;
    case GW_ACT_MESSAGE:
        flock_message(f, i, a);
        break;
    case GW_ACT_FREEZE:
        flock_freeze(f, i, a);
        break;
    case GW_ACT_INSTALL:
        p->fence = *a->install.view;
        break;
    case GW_ACT_BEGIN_STEP:
        flock_begin_step(f, i, a);
        break;
    case GW_ACT_DEAL:
        flock_deal(f, i, a);
        break;
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
        flock_word(f, i, a);
        break;
    case GW_ACT_TAKE:
        flock_take(f, i, a);
        break;
    case GW_ACT_SEAL:
        flock_seal(f, i, a);
        break;
    case GW_ACT_PROBE:
        flock_probe(f, i, a);
        break;
    case GW_ACT_LOOK:
        flock_look(f, i, a);
        break;
    case GW_ACT_REDUCE:
        flock_reduce(f, i, a);
        break;
    case GW_ACT_APPLY:
        flock_apply(f, i, a);
        break;
    case GW_ACT_COMMIT:
        note_effects(f, i, a);
        break;
    case GW_ACT_LOAD:
        flock_load(f, i, a);
        break;
    case GW_ACT_SAVE:
        flock_save(f, i, a);
        break;
    case GW_ACT_ABANDON:
        p->abandoned++;
        break;
    case GW_ACT_MANIFEST:
        flock_manifest(f, i, a);
        break;
    case GW_ACT_PERSIST:
        flock_persist(f, i, a);
        break;
    case GW_ACT_FINISH:
        note_finish(p, a);
        break;
    case GW_ACT_NOTICE:
        note(f, i, a);
        break;
    case GW_ACT_RETAIN:
        p->retained = a->retain.count;
        flock_retain(p, a);
        break;
    case GW_ACT_LOG:
        log_line(f, i, p, a->log.text);
        break;
    }
}
