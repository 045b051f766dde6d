/* Promise: with a majority rule, no two peers ever show people, or the job's effects, different states of
 * one step. The only excuse is a state that is gone: every member that could know it, in the latest view
 * that held it, has lost its memory or was found to compute wrong, after which its state does not count
 * (core/brain/faults/verify.c). */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>

static void on_installed(void *context, sim_peer *p, const gw_view *view) {
    sim_judges *j = context;
    sim_cluster *c = j->c;
    sim_shown *s = &j->shown;
    struct sim_holder *own = &s->holders[p->number];
    own->before = own->epoch;
    if (p->m.has_state) own->epoch = view->epoch;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *q = &c->peers[i];
        bool without = q->brain != NULL && gw_view_rank_of_life(view, &q->id, q->boot, q->nonce) < 0;
        if (without && view->epoch > s->holders[i].without) s->holders[i].without = view->epoch;
    }
    if (!c->options->fast || !p->m.has_state) return;
    if (s->held_count == s->held_capacity) {
        s->held_capacity = 2 * s->held_capacity + 64;
        s->held = realloc(s->held, s->held_capacity * sizeof *s->held);
        GW_ASSERT_MEMORY(s->held != NULL);
    }
    sim_held *held = &s->held[s->held_count++];
    *held = (sim_held){.epoch = view->epoch, .state = sim_made_state(p)};
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *member = sim_by_id(c, &view->members[i].id);
        if (member != NULL) held->boot[member->number] = view->members[i].boot;
    }
}

/* Whether the others may have given up waiting for this peer: --resume-timeout is short, a member may be
 * out of reach for long, or it is left out because what it sends arrives changed; and a view without it
 * was installed after every view in which it had a state. That view may have gone on from any state. */
static bool was_given_up(const sim_judges *j, const sim_peer *p) {
    const gw_sim_options *o = j->c->options;
    const struct sim_holder *its = &j->shown.holders[p->number];
    bool in_time = o->resume_ms == 0 && o->haul == 0 && !sim_cannot_be_fetched_from(j, p);
    return !in_time && its->without > its->epoch;
}

/* Whether the members of `view` need not ask the peer (NULL = the members of any view): it is none of
 * them, and a view without it was installed on this state, or on a descendant of it, after every view in
 * which the peer had a state. */
static bool was_left_behind(const sim_judges *j, const sim_peer *p, uint64_t state, const gw_view *view) {
    const sim_shown *s = &j->shown;
    if (was_given_up(j, p)) return true;
    if (view != NULL && gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0) return false;
    for (uint32_t i = 0; i < s->held_count; i++) {
        const sim_held *one = &s->held[i];
        bool without = one->epoch > s->holders[p->number].epoch && one->boot[p->number] != p->boot;
        if (without && sim_descends(j, one->state, state)) return true;
    }
    return false;
}

/* Returns a peer that holds this state or a descendant of it, and was not left behind by the members of
 * `view`; NULL = none. */
static const sim_peer *peer_that_knows(const sim_judges *j, uint64_t state, const gw_view *view) {
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *p = &j->c->peers[i];
        bool holds = sim_runs(p) && p->m.has_state && sim_descends(j, sim_made_state(p), state);
        if (holds && !was_left_behind(j, p, state, view)) return p;
    }
    return NULL;
}

/* Returns the last shown state among the ancestors of this one; 0 = none of them was shown. */
static uint64_t last_shown(const sim_judges *j, uint64_t state) {
    for (const sim_made *made = sim_maker(j, state); made != NULL; made = sim_maker(j, made->parent))
        if (j->shown.state[made->step] == made->state) return made->state;
    return 0;
}

/* Returns the epoch of the view before this one in which the member had a state; 0 = none, or it has gone
 * on since. */
static uint64_t held_before(const sim_judges *j, const sim_peer *p, const gw_view *view) {
    const struct sim_holder *its = &j->shown.holders[p->number];
    bool lives = p->brain != NULL && gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0;
    if (!lives || !p->m.has_state) return 0;
    if (gw_view_name_equal(&p->m.installed, &view->name)) return its->before;
    return its->epoch < view->epoch ? its->epoch : 0;
}

/* Checks that the state of the latest view stays. Members that others went on without must not replace the
 * state of those others: the next view goes on from what the latest view held. (Others may hold that very
 * state from an earlier view, and a peer that was just found to compute wrong has no state that counts.) */
static void check_latest_stays(sim_judges *j, const sim_peer *p, const sim_load_request *load) {
    const sim_peer *newest = NULL;
    uint64_t held = 0, own = j->shown.holders[p->number].before;
    for (uint32_t i = 0; i < load->donor_count; i++) {
        const sim_peer *donor = sim_by_id(j->c, &load->donors[i]);
        uint64_t its = donor == NULL ? 0 : held_before(j, donor, &p->m.fence);
        if (its <= held) continue;
        held = its;
        newest = donor;
    }
    if (newest != NULL && held < own)
        sim_violation(j->c,
                      "peer %u leaves its state of view %" PRIu64 " for that of peer %u, of view %" PRIu64
                      ", which had been left behind",
                      p->number, own, newest->number, held);
}

/* Checks a load, with float sums: the peer leaves its own state. */
static void on_wanted(void *context, sim_peer *p, const sim_load_request *load) {
    sim_judges *j = context;
    sim_shown *s = &j->shown;
    if (!j->c->options->fast || !p->m.has_state) return;
    GW_ASSERT(s->held_count > 0 && s->held[s->held_count - 1].epoch == p->m.fence.epoch);
    s->held_count--; /* this view was not installed on that state after all */
    check_latest_stays(j, p, load);
    uint64_t shown = last_shown(j, sim_made_state(p));
    s->holders[p->number].epoch = s->holders[p->number].before;
    bool knows = shown != 0 && !was_left_behind(j, p, shown, NULL);
    if (knows && !sim_descends(j, sim_state_of(j, load), shown))
        sim_violation(j->c,
                      "peer %u leaves a state of step %" PRIu64
                      " that descends from what was shown for one of step %" PRIu64 " that does not",
                      p->number, p->m.step, load->step);
}

static void on_loaded(void *context, sim_peer *p, const sim_load_request *load) {
    ((sim_judges *)context)->shown.holders[p->number].epoch = load->epoch;
}

/* Checks a state that the peer shows to people or to the job's effects: the state as it was made. Effects
 * see bits that have flipped since, because they read the state without a look. */
static void check_shown(sim_judges *j, const sim_peer *p, uint64_t step) {
    uint64_t *shown = &j->shown.state[step];
    if (!j->c->options->majority) return;
    if (*shown != 0 && *shown != sim_made_state(p)) {
        const sim_peer *other = peer_that_knows(j, *shown, &p->m.fence);
        /* a peer that was given up shows its last step when it wakes */
        if (other != NULL && !was_given_up(j, p))
            sim_violation(j->c,
                          "peer %u shows another state of step %" PRIu64
                          " than was shown before, which peer %u still knows",
                          p->number, step, other->number);
        j->c->result->forgotten++;
    }
    *shown = sim_made_state(p);
}

static void on_shown(void *context, sim_peer *p, uint64_t of_step, uint64_t fingerprint) {
    sim_judges *j = context;
    uint64_t step = of_step + 1;
    GW_ASSERT(step <= j->c->options->steps);
    if (p->m.step != step || sim_fingerprint(sim_made_state(p)) != fingerprint) {
        sim_violation(j->c, "peer %u shows step %" PRIu64 " but holds another state", p->number, of_step);
        return;
    }
    j->c->result->steps_shown++;
    check_shown(j, p, step);
}

static void on_effects(void *context, sim_peer *p, uint64_t step, bool failed) {
    sim_judges *j = context;
    if (!j->c->options->fast && sim_made_state(p) != j->c->states[p->m.step])
        sim_violation(j->c, "peer %u has effects of step %" PRIu64 " from another state", p->number, step);
    check_shown(j, p, p->m.step);
    j->shown.effects[step] += !failed;
}

static void on_finished(void *context, sim_peer *p) {
    if (p->finish == GW_FINISH_DONE) /* a process whose last effects fail ends with a failure */
        ((sim_judges *)context)->shown.last_effect_failed |= p->m.commit_failed;
}

static void forget(void *context, sim_peer *p) {
    ((sim_judges *)context)->shown.holders[p->number] = (struct sim_holder){.epoch = 0};
}

const sim_observer sim_shown_observer = {.view_installed = on_installed,
                                         .state_wanted = on_wanted,
                                         .state_loaded = on_loaded,
                                         .state_shown = on_shown,
                                         .effects_done = on_effects,
                                         .finished = on_finished,
                                         .life_begins = forget,
                                         .process_ends = forget};
