/* Fetching states: the initial state, and states from checkpoints on the peer's own and other disks, and
 * from peers. */
#include "tools/sim/world/inside.h"

#include "core/state/placement.h"

#include <inttypes.h>
#include <string.h>

#define FETCH_MOST_NS (1500 * SIM_MS)

typedef struct fetch {
    gw_load_kind kind;
    uint64_t step, fingerprint, since_ns, epoch;
    gw_hash root;
    uint32_t sources[SIM_PEERS], count; /* donors or holders of the state */
    uint64_t told[SIM_PEERS];           /* by holder: the chunks that it reports to have, as bits */
} fetch;

static bool may_fetch(sim_cluster *c, const sim_peer *p, const sim_peer *from) {
    if (p == from) return true;
    if (sim_data_lost(c, p->number, from->number)) return false;
    return from->brain != NULL && from->paused_until_ns <= sim_now(c) &&
           sim_reaches_both(c, p->number, from->number);
}

static bool chunks_available(sim_cluster *c, sim_peer *p, const fetch *f, uint64_t *state) {
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

/* Whether the checkpoint's manifest is on the peer's own disk, or on one that can be reached; then the
 * peer keeps it. */
static bool has_manifest(sim_cluster *c, const sim_peer *p, const fetch *f, sim_saved *own) {
    bool has = own != NULL && own->manifest;
    for (uint32_t i = 0; i < f->count && !has && f->kind == GW_LOAD_MANIFEST; i++) {
        sim_peer *from = &c->peers[f->sources[i]];
        const sim_saved *saved = sim_disk_saved_as(&from->disk, &f->root, f->step);
        has = saved != NULL && saved->manifest && may_fetch(c, p, from);
        if (has && own != NULL) own->epoch = saved->epoch;
        if (has && own != NULL) own->ended = saved->ended;
        if (has && own != NULL) own->best = saved->best;
    }
    if (own != NULL) own->manifest = has;
    return has;
}

/* What the checkpoint's manifest says of the best state: that on the peer's own disk, or of a source. */
static gw_best best_of(sim_cluster *c, sim_peer *p, const fetch *f) {
    for (uint32_t i = 0; i <= f->count; i++) {
        sim_peer *from = i > 0 ? &c->peers[f->sources[i - 1]] : p;
        const sim_saved *saved = sim_disk_saved_as(&from->disk, &f->root, f->step);
        if (saved != NULL && saved->manifest && may_fetch(c, p, from)) return saved->best;
    }
    return (gw_best){0};
}

/* Whether a failed load has failed because of others. A load fails at its first chunk that is not
 * available, with the outcome of the last holder of that chunk: if that holder could not be reached, the
 * load has failed because of others, and the brain is told nothing about the chunks here, unless some of
 * them were found damaged. */
static bool failed_by_others(sim_cluster *c, const sim_peer *p, const fetch *f, const sim_saved *own) {
    if (own != NULL && own->damaged.words[0] != 0) return false;
    /* threads fetch the chunks in any order */
    uint32_t first = (uint32_t)(sim_lot(c->options, sim_now(c)) % SIM_CHUNKS);
    for (uint32_t i = 0; i < SIM_CHUNKS; i++) {
        uint32_t chunk = (first + i) % SIM_CHUNKS;
        const sim_peer *last = NULL;
        bool here = own != NULL && gw_set_has(&own->chunks, chunk), there = false;
        for (uint32_t asked = 0; asked < f->count && !here; asked++) {
            uint32_t holder = (chunk + asked) % f->count;
            sim_peer *from = &c->peers[f->sources[holder]];
            if (from == p || (f->told[holder] >> chunk & 1) == 0) continue;
            const sim_saved *saved = sim_disk_saved_as(&from->disk, &f->root, f->step);
            there |= saved != NULL && gw_set_has(&saved->chunks, chunk) &&
                     !gw_set_has(&saved->damaged, chunk) && may_fetch(c, p, from);
            last = from;
        }
        if (!here && !there) return last != NULL && !may_fetch(c, p, last);
    }
    return false;
}

/* Whether a source cannot be reached, which may have the manifest that is missing here. */
static bool source_is_unreachable(sim_cluster *c, const sim_peer *p, const fetch *f) {
    for (uint32_t i = 0; i < f->count; i++)
        if (!may_fetch(c, p, &c->peers[f->sources[i]])) return true;
    return false;
}

/* Whether a donor can be reached, and its state. *changes becomes the first reachable donor whose bits
 * arrive changed; SIM_PEERS = none. */
static bool donor_available(sim_cluster *c, const sim_peer *p, const fetch *f, uint64_t *state,
                            uint32_t *changes) {
    *changes = SIM_PEERS;
    for (uint32_t i = 0; i < f->count; i++) {
        const sim_peer *donor = &c->peers[f->sources[i]];
        if (donor == p || !may_fetch(c, p, donor) || !donor->m.has_state || donor->m.step != f->step)
            continue;
        if (f->fingerprint != 0 && sim_fingerprint(donor->m.state) != f->fingerprint) continue;
        if (c->hazards->would_change(c, donor->number, p->number)) {
            if (*changes == SIM_PEERS) *changes = donor->number;
            continue;
        }
        *state = donor->m.state;
        return true;
    }
    return false;
}

static bool is_placed_here(const sim_cluster *c, const sim_peer *p, uint32_t chunk) {
    const gw_view *view = &p->m.fence;
    gw_peer_id members[GW_MAX_MEMBERS];
    for (uint32_t i = 0; i < view->count; i++) members[i] = view->members[i].id;
    return gw_placement_holds(chunk, members, view->count, sim_replicas(c->options), &p->id);
}

/* Keeps the loaded manifest, the chunks that were damaged here, and those that are placed here. Returns
 * what is on the disk then, or NULL where a full disk takes none of it. */
static const sim_saved *keep_loaded(sim_cluster *c, sim_peer *p, const fetch *f, uint64_t state) {
    bool full = p->disk_full_until_ns > sim_now(c);
    sim_saved *own = sim_disk_saved_of(&p->disk, f->step, state, !full);
    if (own == NULL) return NULL;
    own->damaged.words[0] = 0;
    has_manifest(c, p, f, own);
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS && !full; chunk++) {
        if (gw_set_has(&own->chunks, chunk) || !is_placed_here(c, p, chunk)) continue;
        gw_set_add(&own->chunks, chunk);
        own->written_ns[chunk] = sim_now(c);
    }
    return own;
}

/* No donor has sent unchanged bits: the load fails with the first one whose bits arrived changed. */
static void load_changed(sim_cluster *c, sim_peer *p, const sim_op *op, const fetch *f, uint32_t from) {
    gw_event event = {
        .kind = GW_EV_LOADED, .token = op->token, .outcome = GW_FAILED, .peer = c->peers[from].id};
    c->result->faults[GW_SIM_CHANGED_STATE]++;
    bool holds = p->m.has_state && f->step <= p->m.step + 1;
    sim_hear_of_change(c, p, c->hazards->changes(c, from, p->number), holds, false, &event);
}

static void loaded(sim_cluster *c, sim_peer *p, const sim_op *op) {
    fetch f;
    memcpy(&f, op->bytes, sizeof f);
    uint64_t state = c->states[0];
    uint32_t changes = SIM_PEERS;
    if (f.kind == GW_LOAD_MANIFEST && sim_disk_waits(c, p, op)) return;
    bool there = f.kind == GW_LOAD_INIT       ? f.step == 0
                 : f.kind == GW_LOAD_MANIFEST ? chunks_available(c, p, &f, &state)
                                              : donor_available(c, p, &f, &state, &changes);
    if (!there && changes != SIM_PEERS) {
        load_changed(c, p, op, &f, changes);
        return;
    }
    sim_saved *own = f.kind == GW_LOAD_MANIFEST ? sim_disk_saved_as(&p->disk, &f.root, f.step) : NULL;
    bool known = has_manifest(c, p, &f, own);
    bool by_others = !there && f.kind == GW_LOAD_MANIFEST &&
                     (known ? failed_by_others(c, p, &f, own) : source_is_unreachable(c, p, &f));
    bool at_once = sim_lot(c->options, sim_now(c)) >> 32 & 1;
    if (!there && sim_now(c) - f.since_ns < FETCH_MOST_NS && !(by_others && at_once)) {
        sim_later(c, 50 * SIM_MS, op);
        return;
    }
    gw_event event = {.kind = GW_EV_LOADED, .token = op->token, .outcome = there ? GW_DONE : GW_FAILED};
    gw_set sound = known && own != NULL ? sim_disk_sound(own) : gw_set_of(SIM_CHUNKS), here = {0};
    if (there) {
        const sim_saved *kept = f.kind == GW_LOAD_MANIFEST ? keep_loaded(c, p, &f, state) : NULL;
        if (kept != NULL) here = gw_set_copy(&kept->chunks);
        if (kept != NULL) event.loaded.held = &here;
        if (f.kind == GW_LOAD_MANIFEST) event.loaded.best = best_of(c, p, &f);
        p->m.has_state = true;
        p->m.gave_up = false;
        p->m.step = f.step;
        p->m.state = state;
        p->m.flipped = false;
        event.loaded.fingerprint = sim_fingerprint(p->m.state);
        const sim_load_request load = {f.kind, f.step, f.fingerprint, f.root, f.epoch, NULL, 0};
        SIM_NOTIFY(c, state_loaded, p, &load);
    } else {
        event.text = "no source could be reached";
        bool told = f.kind == GW_LOAD_MANIFEST && !by_others;
        if (told) event.loaded.held = &sound;
        /* no peer here knows what its chunks belong to */
        if (told && !known && own != NULL) own->untold = p->boot;
        c->result->faults[GW_SIM_FAILED_FETCH] += by_others;
    }
    sim_event(c, p, &event);
    gw_set_free(&sound);
    gw_set_free(&here);
}

void sim_load(sim_cluster *c, sim_peer *p, const gw_action *action) {
    fetch f = {.kind = action->load.kind,
               .step = action->step,
               .fingerprint = action->load.fingerprint,
               .root = action->load.root};
    f.since_ns = sim_now(c);
    f.epoch = p->m.fence.epoch;
    const gw_peer_id *sources = action->load.sources;
    for (uint32_t i = 0; sources != NULL && i < action->load.source_count; i++) {
        const sim_peer *source = sim_by_id(c, &sources[i]);
        if (source == NULL) continue;
        if (action->load.kind == GW_LOAD_MANIFEST) f.told[f.count] = action->load.inventories[i].words[0];
        f.sources[f.count++] = source->number;
    }
    bool by_peers = action->load.kind == GW_LOAD_PEERS;
    const sim_load_request load = {f.kind,
                                   f.step,
                                   f.fingerprint,
                                   f.root,
                                   f.epoch,
                                   by_peers ? action->load.sources : NULL,
                                   by_peers ? action->load.source_count : 0};
    SIM_NOTIFY(c, state_wanted, p, &load);
    if (p->m.applying) sim_violation(c, "peer %u loads a state while it applies", p->number);
    if (action->step > c->options->steps)
        sim_violation(c, "peer %u loads step %" PRIu64, p->number, action->step);
    sim_op op = sim_op_to(p, loaded);
    op.token = action->token;
    op.bytes = (const uint8_t *)&f;
    op.length = sizeof f;
    sim_later(c, sim_between(c, SIM_MS, 100 * SIM_MS), &op);
}
