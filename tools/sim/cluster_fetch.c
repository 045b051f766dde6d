/* Fetching states: S_0, from checkpoints on one's own and others' disks, and from peers that have them. */
#include "tools/sim/cluster.h"

#include <inttypes.h>
#include <string.h>

#define FETCH_MOST_NS (1500 * SIM_MS)

typedef struct fetch {
    gw_load_kind kind;
    uint64_t step, fingerprint, since_ns;
    gw_hash root;
    uint32_t sources[SIM_PEERS], count; /* donors or holders */
} fetch;

static bool may_fetch(const sim_cluster *c, const sim_peer *p, const sim_peer *from) {
    if (p == from) return true;
    return from->brain != NULL && from->paused_until_ns <= sim_now(c) &&
           sim_reaches_both(c, p->number, from->number);
}

static bool chunks_at_hand(sim_cluster *c, sim_peer *p, const fetch *f, uint64_t *state) {
    gw_set all = gw_set_of(SIM_CHUNKS);
    bool manifest = false;
    for (uint32_t i = 0; i <= f->count; i++) {
        sim_peer *from = i < f->count ? &c->peers[f->sources[i]] : p;
        const sim_saved *saved = sim_disk_saved_as(&from->disk, &f->root, f->step);
        if (saved == NULL || !may_fetch(c, p, from)) continue;
        gw_set sound = sim_disk_sound(saved);
        gw_set_unite(&all, &sound);
        gw_set_free(&sound);
        manifest |= saved->manifest;
        *state = saved->state;
    }
    bool complete = manifest && gw_set_count(&all) == SIM_CHUNKS;
    gw_set_free(&all);
    return complete;
}

/* Its own, or that of somebody who can be reached: then it is kept. */
static bool has_manifest(sim_cluster *c, const sim_peer *p, const fetch *f, sim_saved *own) {
    for (uint32_t i = 0; i < f->count && !own->manifest; i++) {
        sim_peer *from = &c->peers[f->sources[i]];
        const sim_saved *saved = sim_disk_saved_as(&from->disk, &f->root, f->step);
        own->manifest = saved != NULL && saved->manifest && may_fetch(c, p, from);
    }
    return own->manifest;
}

static bool donor_at_hand(const sim_cluster *c, const sim_peer *p, const fetch *f, uint64_t *state) {
    for (uint32_t i = 0; i < f->count; i++) {
        const sim_peer *donor = &c->peers[f->sources[i]];
        if (donor == p || !may_fetch(c, p, donor) || !donor->m.has_state || donor->m.step != f->step)
            continue;
        if (f->fingerprint != 0 && sim_fingerprint(donor->m.state) != f->fingerprint) continue;
        *state = donor->m.state;
        return true;
    }
    return false;
}

static void loaded(sim_cluster *c, sim_peer *p, const sim_op *op) {
    fetch f;
    memcpy(&f, op->bytes, sizeof f);
    uint64_t state = c->states[0];
    if (f.kind == GW_LOAD_MANIFEST && sim_disk_hangs(c, p, op)) return;
    bool there = f.kind == GW_LOAD_INIT       ? f.step == 0
                 : f.kind == GW_LOAD_MANIFEST ? chunks_at_hand(c, p, &f, &state)
                                              : donor_at_hand(c, p, &f, &state);
    if (!there && sim_now(c) - f.since_ns < FETCH_MOST_NS) {
        sim_later(c, 50 * SIM_MS, op);
        return;
    }
    gw_event event = {.kind = GW_EV_LOADED, .token = op->token, .outcome = there ? GW_DONE : GW_FAILED};
    sim_saved *own = f.kind == GW_LOAD_MANIFEST ? sim_disk_saved_as(&p->disk, &f.root, f.step) : NULL;
    bool known = own != NULL && has_manifest(c, p, &f, own);
    gw_set sound = known ? sim_disk_sound(own) : gw_set_of(SIM_CHUNKS);
    if (there) {
        if (own != NULL) own->damaged.words[0] = 0; /* written again from what others have */
        p->m.has_state = true;
        p->m.step = f.step;
        p->m.state = state;
        p->m.flipped = false;
        event.fingerprint = sim_fingerprint(p->m.state);
    } else {
        event.text = "no source could be reached";
        if (f.kind == GW_LOAD_MANIFEST) event.held = &sound;
        sim_failed_load(c, f.kind, &f.root);
    }
    sim_event(c, p, &event);
    gw_set_free(&sound);
}

/* Exact: the state of a later step is the better one, unless somebody may have computed it wrong. */
static void check_no_roll_back(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    bool trusted = c->options->flip_ms == 0 && c->options->wrong_permille == 0;
    if (!c->options->fast && trusted && p->m.has_state && action->step < p->m.step)
        sim_violation(c, "peer %u goes back from step %" PRIu64 " to step %" PRIu64, p->number, p->m.step,
                      action->step);
}

void sim_load(sim_cluster *c, sim_peer *p, const gw_action *action) {
    fetch f = {.kind = action->load_kind,
               .step = action->step,
               .fingerprint = action->fingerprint,
               .root = action->root};
    f.since_ns = sim_now(c);
    const gw_peer_id *sources = action->load_kind == GW_LOAD_PEERS ? action->donors : action->holders;
    for (uint32_t i = 0; sources != NULL && i < action->count; i++) {
        const sim_peer *source = sim_by_id(c, &sources[i]);
        if (source != NULL) f.sources[f.count++] = source->number;
    }
    if (p->m.applying) sim_violation(c, "peer %u loads a state while it applies", p->number);
    if (action->step > c->options->steps)
        sim_violation(c, "peer %u loads step %" PRIu64, p->number, action->step);
    check_no_roll_back(c, p, action);
    sim_leaves_state(c, p, action);
    sim_op op = sim_op_to(p, loaded);
    op.token = action->token;
    op.bytes = (const uint8_t *)&f;
    op.length = sizeof f;
    sim_later(c, sim_between(c, SIM_MS, 100 * SIM_MS), &op);
}
