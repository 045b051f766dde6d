/* What peers show of the job (GW_NOTICE_STEP): where a majority rules, no two ever show different states of
 * one step. The one excuse is a state that is gone: every member that could have known of it, in the latest
 * view that held it, has lost its memory, or was found to compute wrong, after which what it holds counts for
 * nothing (core/brain/faults/verify.c). */
#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>

void sim_made_add(sim_cluster *c, const sim_made *made) {
    if (c->made_count == c->made_capacity) {
        c->made_capacity = 2 * c->made_capacity + 64;
        c->made = realloc(c->made, c->made_capacity * sizeof *c->made);
        GW_ASSERT_MEMORY(c->made != NULL);
    }
    c->made[c->made_count++] = *made;
}

void sim_installed(sim_cluster *c, sim_peer *p, const gw_view *view) {
    if (view->epoch > c->newest.epoch) c->newest = *view;
    p->m.installed = view->name;
    sim_forgive(c, p, view);
    p->m.held_before = p->m.held_epoch;
    if (p->m.has_state) p->m.held_epoch = view->epoch;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *q = &c->peers[i];
        bool without = q->brain != NULL && gw_view_rank_of_life(view, &q->id, q->boot, q->nonce) < 0;
        if (without && view->epoch > q->m.without_epoch) q->m.without_epoch = view->epoch;
    }
    if (!c->options->fast || !p->m.has_state) return;
    if (c->held_count == c->held_capacity) {
        c->held_capacity = 2 * c->held_capacity + 64;
        c->held = realloc(c->held, c->held_capacity * sizeof *c->held);
        GW_ASSERT_MEMORY(c->held != NULL);
    }
    sim_held *held = &c->held[c->held_count++];
    *held = (sim_held){.epoch = view->epoch, .state = sim_made_state(p)};
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *member = sim_by_id(c, &view->members[i].id);
        if (member != NULL) held->boot[member->number] = view->members[i].boot;
    }
}

const sim_made *sim_maker(const sim_cluster *c, uint64_t state) {
    for (uint32_t i = 0; i < c->made_count; i++)
        if (c->made[i].state == state) return &c->made[i];
    return NULL;
}

bool sim_descends(const sim_cluster *c, uint64_t state, uint64_t from) {
    while (state != from) {
        const sim_made *made = sim_maker(c, state);
        if (made == NULL) return false;
        state = made->parent;
    }
    return true;
}

/* Others give up waiting for a member (--resume-timeout) where that is soon, where a member may be out of
 * reach for long, or where it is left out as what it sends has other bits when it comes; and a view without
 * this one was installed later than all that it had a state in: that view may have gone on from any state. */
static bool was_given_up(const sim_cluster *c, const sim_peer *p) {
    bool in_time = c->options->resume_ms == 0 && c->options->haul == 0 && !sim_cannot_be_fetched_from(c, p);
    return !in_time && p->m.without_epoch > p->m.held_epoch;
}

/* A view without it was installed on this state, or on what came of it, later than all that it had a state
 * in: those of `view`, if it is none of them, need not ask it (NULL: of any). */
static bool was_left_behind(const sim_cluster *c, const sim_peer *p, uint64_t state, const gw_view *view) {
    if (was_given_up(c, p)) return true;
    if (view != NULL && gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0) return false;
    for (uint32_t i = 0; i < c->held_count; i++) {
        const sim_held *one = &c->held[i];
        bool without = one->epoch > p->m.held_epoch && one->boot[p->number] != p->boot;
        if (without && sim_descends(c, one->state, state)) return true;
    }
    return false;
}

/* A peer that holds this state, or what came of it, and was not left behind by those of `view`. */
static const sim_peer *who_knows(const sim_cluster *c, uint64_t state, const gw_view *view) {
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        bool holds = sim_runs(p) && p->m.has_state && sim_descends(c, sim_made_state(p), state);
        if (holds && !was_left_behind(c, p, state, view)) return p;
    }
    return NULL;
}

/* The last state that was shown of those that this one came of; 0 = none of them was. */
static uint64_t last_shown(const sim_cluster *c, uint64_t state) {
    for (const sim_made *made = sim_maker(c, state); made != NULL; made = sim_maker(c, made->parent))
        if (c->shown[made->step] == made->state) return made->state;
    return 0;
}

uint64_t sim_state_of(const sim_cluster *c, const gw_action *load) {
    for (uint32_t i = 0; i < c->made_count; i++) {
        const sim_made *made = &c->made[i];
        if (made->step != load->step) continue;
        if (load->load_kind == GW_LOAD_PEERS && sim_fingerprint(made->state) == load->fingerprint)
            return made->state;
        gw_hash root = sim_root(made->step, made->state);
        if (load->load_kind == GW_LOAD_MANIFEST && gw_hash_equal(&root, &load->root)) return made->state;
    }
    return c->states[0];
}

/* The view before this one in which a member of it had a state; 0 = in none, or it has gone on since. */
static uint64_t held_before(const sim_peer *p, const gw_view *view) {
    bool lives = p->brain != NULL && gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0;
    if (!lives || !p->m.has_state) return 0;
    if (gw_view_name_equal(&p->m.installed, &view->name)) return p->m.held_before;
    return p->m.held_epoch < view->epoch ? p->m.held_epoch : 0;
}

/* Members that others had gone on without bring no state of theirs that counts where some of those others
 * are: what the latest view held is what the next one goes on from. (Others may hold that very state, from an
 * earlier view; and whoever has just been found to compute wrong has no state that counts.) */
static void check_latest_stays(sim_cluster *c, const sim_peer *p, const gw_action *load) {
    const sim_peer *newest = NULL;
    uint64_t held = 0;
    for (uint32_t i = 0; i < load->count && load->load_kind == GW_LOAD_PEERS; i++) {
        const sim_peer *donor = sim_by_id(c, &load->donors[i]);
        uint64_t its = donor == NULL ? 0 : held_before(donor, &p->m.fence);
        if (its <= held) continue;
        held = its;
        newest = donor;
    }
    if (newest != NULL && held < p->m.held_before)
        sim_violation(c,
                      "peer %u leaves its state of view %" PRIu64 " for that of peer %u, of view %" PRIu64
                      ", which had been left behind",
                      p->number, p->m.held_before, newest->number, held);
}

void sim_leaves_state(sim_cluster *c, sim_peer *p, const gw_action *load) {
    sim_memory *m = &p->m;
    if (!c->options->fast || !m->has_state) return;
    GW_ASSERT(c->held_count > 0 && c->held[c->held_count - 1].epoch == m->fence.epoch);
    c->held_count--; /* this view was not installed on it */
    check_latest_stays(c, p, load);
    uint64_t shown = last_shown(c, sim_made_state(p));
    m->held_epoch = m->held_before;
    bool knows = shown != 0 && !was_left_behind(c, p, shown, NULL);
    if (knows && !sim_descends(c, sim_state_of(c, load), shown))
        sim_violation(c,
                      "peer %u leaves a state of step %" PRIu64
                      " that came of what was shown for one of step %" PRIu64 " that did not",
                      p->number, m->step, load->step);
}

void sim_tells_fault(sim_cluster *c, sim_peer *p, const gw_action *notice) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    if (!c->options->fast || !gw_peer_id_equal(&notice->peer, &p->id) || status.has_state) return;
    sim_commit_settle(c, p);
    p->m.has_state = false;
}

/* This peer lets people, or the job's effects, know of the state after `step` steps: of what it was when it
 * was made, though effects see what has flipped in it since, as they read it without a look (README, what
 * --verify cannot find). */
static void check_shown(sim_cluster *c, const sim_peer *p, uint64_t step) {
    if (!c->options->majority) return;
    if (c->shown[step] == 0 || c->shown[step] == sim_made_state(p)) {
        c->shown[step] = sim_made_state(p);
        return;
    }
    const sim_peer *other = who_knows(c, c->shown[step], &p->m.fence);
    if (other != NULL && !was_given_up(c, p)) /* one that was shows its last step when it wakes */
        sim_violation(c,
                      "peer %u shows another state of step %" PRIu64
                      " than was shown before, which peer %u still knows",
                      p->number, step, other->number);
    c->result->forgotten++;
    c->shown[step] = sim_made_state(p);
}

void sim_shows(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    uint64_t step = action->step + 1;
    GW_ASSERT(step <= c->options->steps);
    if (p->m.step != step || sim_fingerprint(sim_made_state(p)) != action->fingerprint) {
        sim_violation(c, "peer %u shows step %" PRIu64 " but holds another state", p->number, action->step);
        return;
    }
    c->result->steps_shown++;
    check_shown(c, p, step);
}

/* ---- effects ---- */

static void committed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_COMMITTED,
                      .token = op->token,
                      .outcome = op->x != 0 ? GW_FAILED : GW_DONE,
                      .text = op->x != 0 ? "no space left on device" : NULL};
    sim_event(c, p, &event);
}

static void take_place(sim_cluster *c, sim_peer *p) {
    sim_memory *m = &p->m;
    sim_op op = sim_op_to(p, committed);
    op.token = m->commit_token;
    uint64_t step = m->commit_step;
    m->commit_token = 0;
    if (!m->has_state || m->step != step + 1) {
        sim_violation(c, "peer %u has effects of step %" PRIu64 " but is at step %" PRIu64, p->number, step,
                      m->step);
        return;
    }
    if (!c->options->fast && sim_made_state(p) != c->states[m->step])
        sim_violation(c, "peer %u has effects of step %" PRIu64 " from another state", p->number, step);
    check_shown(c, p, m->step);
    op.x = sim_refuses(c, p, GW_SIM_FAILED_EFFECT);
    m->commit_failed = op.x != 0;
    c->effects[step] += op.x == 0;
    sim_later(c, 1000, &op);
}

static void in_its_time(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (p->m.commit_token == op->token) take_place(c, p);
}

/* Carried out in order with reductions, applies and loads: what a crash comes before is lost. */
void sim_commit(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_commit_settle(c, p);
    p->m.commit_token = action->token;
    p->m.commit_step = action->step;
    sim_op op = sim_op_to(p, in_its_time);
    op.token = action->token;
    sim_later(c, sim_between(c, 1000, 20 * SIM_MS), &op);
}

void sim_commit_settle(sim_cluster *c, sim_peer *p) {
    if (p->m.commit_token != 0) take_place(c, p);
}

void sim_check_effects(sim_cluster *c) {
    uint64_t steps = sim_last_step(c->options);
    for (uint64_t step = 0; step < steps; step++)
        if (c->effects[step] == 0 && !(step + 1 == steps && c->last_effect_failed))
            sim_violation(c, "the job is done, and no effect of step %" PRIu64 " has taken place", step);
}
