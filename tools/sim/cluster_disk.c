/* What survives a crash, and fetching states from disks and peers. Writes become durable some time before
 * they are reported, a half of a checkpoint's chunks before the other. */
#include "tools/sim/cluster.h"

#include "core/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_MOST_NS (1500 * SIM_MS)
#define HANG_GRID_NS  (100 * SIM_MS) /* what waits for a disk is tried again at these instants, in order */

void sim_disk_free(sim_disk *disk) {
    free(disk->record);
    for (uint32_t i = 0; i < disk->saved_count; i++) gw_set_free(&disk->saved[i].chunks);
    *disk = (sim_disk){0};
}

static gw_hash chunk_hash(uint64_t state, uint32_t chunk) {
    gw_hash hash;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = gw_mix64(state ^ gw_mix64(chunk * 4 + i));
        memcpy(hash.bytes + 8 * i, &word, 8);
    }
    return hash;
}

static gw_hash root_of(uint64_t step, const gw_hash *hashes, uint32_t count) {
    uint8_t bytes[8 + SIM_CHUNKS * sizeof(gw_hash)];
    gw_hash root;
    GW_CHECK(count <= SIM_CHUNKS);
    memcpy(bytes, &step, 8);
    memcpy(bytes + 8, hashes, count * sizeof *hashes);
    gw_blake2b(bytes, 8 + count * sizeof *hashes, root.bytes, sizeof root.bytes);
    return root;
}

gw_hash sim_root(uint64_t step, uint64_t state) {
    gw_hash hashes[SIM_CHUNKS];
    for (uint32_t i = 0; i < SIM_CHUNKS; i++) hashes[i] = chunk_hash(state, i);
    return root_of(step, hashes, SIM_CHUNKS);
}

static sim_saved *saved_of(sim_disk *disk, uint64_t step, uint64_t state, bool make) {
    for (uint32_t i = 0; i < disk->saved_count; i++)
        if (disk->saved[i].step == step && disk->saved[i].state == state) return &disk->saved[i];
    if (!make) return NULL;
    if (disk->saved_count == SIM_SAVED) { /* the oldest without a manifest is a left-over */
        for (uint32_t i = 0; i < disk->saved_count; i++) {
            if (disk->saved[i].manifest) continue;
            gw_set_free(&disk->saved[i].chunks);
            memmove(&disk->saved[i], &disk->saved[i + 1], (--disk->saved_count - i) * sizeof *disk->saved);
            break;
        }
    }
    GW_CHECK(disk->saved_count < SIM_SAVED);
    sim_saved *saved = &disk->saved[disk->saved_count++];
    *saved = (sim_saved){.step = step, .state = state, .chunks = gw_set_of(SIM_CHUNKS)};
    return saved;
}

uint32_t sim_disk_inventory(const sim_cluster *c, const sim_peer *p, gw_inventory *inventory, uint32_t most) {
    uint32_t count = 0;
    for (uint64_t step = c->options->steps + 1; step-- > 0 && count < most;) { /* newest first */
        for (uint32_t i = 0; i < p->disk.saved_count && count < most; i++) {
            const sim_saved *saved = &p->disk.saved[i];
            if (saved->step != step || !saved->manifest) continue;
            inventory[count++] = (gw_inventory){.step = step,
                                                .root = sim_root(step, saved->state),
                                                .fingerprint = sim_fingerprint(saved->state),
                                                .ended = saved->ended,
                                                .chunks = saved->chunks};
        }
    }
    return count;
}

/* What a hanging disk does happens when it does so no more, in the order it was asked for. */
static bool hangs(sim_cluster *c, const sim_peer *p, const sim_op *op) {
    if (p->disk_hangs_until_ns <= sim_now(c)) return false;
    sim_later(c, (sim_now(c) / HANG_GRID_NS + 1) * HANG_GRID_NS - sim_now(c), op);
    return true;
}

/* ---- writing ---- */

static void persist_durable(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (hangs(c, p, op)) return;
    free(p->disk.record);
    p->disk.record = malloc(op->length + 1u);
    GW_CHECK(p->disk.record != NULL);
    memcpy(p->disk.record, op->bytes, op->length);
    p->disk.record_length = op->length;
}

static void persist_told(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (hangs(c, p, op)) return;
    gw_event event = {.kind = GW_EV_PERSISTED, .token = op->token};
    sim_event(c, p, &event);
}

static void persist(sim_cluster *c, sim_peer *p, const gw_action *action) {
    uint64_t at_ns = sim_now(c) + sim_between(c, SIM_MS / 10, 5 * SIM_MS);
    if (at_ns <= p->persisted_ns) at_ns = p->persisted_ns + 1; /* one after the other */
    p->persisted_ns = at_ns;
    sim_op op = sim_op_to(p, persist_durable);
    op.bytes = action->bytes;
    op.length = (uint32_t)action->length;
    sim_later(c, at_ns - sim_now(c), &op);
    sim_op told = sim_op_to(p, persist_told);
    told.token = action->token;
    sim_later(c, at_ns - sim_now(c) + sim_between(c, 1000, SIM_MS), &told);
}

static void chunk_durable(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (hangs(c, p, op)) return;
    if (p->disk_bad_until_ns > sim_now(c)) return;
    gw_set_add(&saved_of(&p->disk, op->x, op->z, true)->chunks, (uint32_t)op->y);
}

static void stored(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (hangs(c, p, op)) return;
    uint32_t count = op->length / (uint32_t)sizeof(uint32_t);
    gw_hash hashes[SIM_CHUNKS];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chunk;
        memcpy(&chunk, op->bytes + i * sizeof chunk, sizeof chunk);
        hashes[i] = chunk_hash(op->x, chunk);
    }
    bool failed = op->y == 0 && p->disk_bad_until_ns > sim_now(c);
    gw_event event = {.kind = GW_EV_STORED,
                      .token = op->token,
                      .outcome = failed ? GW_FAILED : GW_DONE,
                      .text = failed ? "disk full" : NULL,
                      .hashes = hashes,
                      .count = count};
    sim_event(c, p, &event);
}

static void save(sim_cluster *c, sim_peer *p, const gw_action *action) {
    if (!p->m.has_state || p->m.step != action->step) {
        sim_violation(c, "peer %u saves step %" PRIu64 " but holds step %" PRIu64, p->number, action->step,
                      p->m.step);
        return;
    }
    p->m.saved_step = action->step;
    p->m.saved_state = p->m.state;
    uint64_t time_ns = sim_between(c, 5 * SIM_MS, 200 * SIM_MS);
    for (uint32_t i = 0; i < action->count && !action->flag; i++) {
        sim_op op = sim_op_to(p, chunk_durable);
        op.x = action->step;
        op.y = action->chunks[i];
        op.z = p->m.state;

        sim_later(c, i % 2 == 0 ? time_ns / 2 : time_ns - 1, &op);
    }
    sim_op op = sim_op_to(p, stored);
    op.token = action->token;
    op.x = p->m.state;
    op.y = action->flag;
    op.bytes = (const uint8_t *)action->chunks;
    op.length = action->count * (uint32_t)sizeof(uint32_t);
    sim_later(c, time_ns, &op);
}

static void manifest_stored(sim_cluster *c, sim_peer *p, const sim_op *op) {
    bool hash_only = op->y & 1;
    if (!hash_only && hangs(c, p, op)) return;
    bool failed = !hash_only && p->disk_bad_until_ns > sim_now(c);
    gw_hash root = sim_root(op->x, op->z);
    if (!hash_only && !failed) {
        sim_saved *saved = saved_of(&p->disk, op->x, op->z, true);
        saved->manifest = true;
        saved->ended = op->y >> 1 & 1;
    }
    gw_event event = {.kind = GW_EV_MANIFEST_STORED,
                      .token = op->token,
                      .outcome = failed ? GW_FAILED : GW_DONE,
                      .text = failed ? "disk full" : NULL,
                      .root = root};
    sim_event(c, p, &event);
}

static void manifest(sim_cluster *c, sim_peer *p, const gw_action *action) {
    gw_hash root = root_of(action->step, action->hashes, action->count);
    gw_hash right = sim_root(p->m.saved_step, p->m.saved_state);
    if (p->m.saved_step != action->step || !gw_hash_equal(&root, &right)) {
        sim_violation(c, "peer %u writes a manifest of step %" PRIu64 " of another state", p->number,
                      action->step);
        return;
    }
    sim_op op = sim_op_to(p, manifest_stored);
    op.token = action->token;
    op.x = action->step;
    op.y = action->flag | action->ended << 1;
    op.z = p->m.saved_state;
    sim_later(c, sim_between(c, SIM_MS, 20 * SIM_MS), &op);
}

static void retain(sim_peer *p, const gw_action *action) {
    sim_disk *disk = &p->disk;
    uint64_t oldest = UINT64_MAX;
    uint32_t kept = 0;
    bool keep[SIM_SAVED] = {false};
    for (uint32_t i = 0; i < disk->saved_count; i++) {
        gw_hash root = sim_root(disk->saved[i].step, disk->saved[i].state);
        keep[i] = false;
        for (uint32_t k = 0; k < action->count; k++) keep[i] |= gw_hash_equal(&root, &action->hashes[k]);
        if (keep[i] && disk->saved[i].step < oldest) oldest = disk->saved[i].step;
    }
    for (uint32_t i = 0; i < disk->saved_count; i++) {
        const sim_saved *saved = &disk->saved[i];
        if (keep[i] || (!saved->manifest && saved->step > oldest))
            disk->saved[kept++] = *saved;
        else
            gw_set_free(&disk->saved[i].chunks);
    }
    disk->saved_count = kept;
}

/* ---- fetching ---- */

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

static const sim_saved *saved_as(const sim_disk *disk, const gw_hash *root, uint64_t step) {
    for (uint32_t i = 0; i < disk->saved_count; i++) {
        gw_hash one = sim_root(disk->saved[i].step, disk->saved[i].state);
        if (disk->saved[i].step == step && gw_hash_equal(&one, root)) return &disk->saved[i];
    }
    return NULL;
}

static bool chunks_at_hand(const sim_cluster *c, const sim_peer *p, const fetch *f, uint64_t *state) {
    gw_set all = gw_set_of(SIM_CHUNKS);
    for (uint32_t i = 0; i <= f->count; i++) {
        const sim_peer *from = i < f->count ? &c->peers[f->sources[i]] : p;
        const sim_saved *saved = saved_as(&from->disk, &f->root, f->step);
        if (saved == NULL || !may_fetch(c, p, from)) continue;
        gw_set_unite(&all, &saved->chunks);
        *state = saved->state;
    }
    bool complete = gw_set_count(&all) == SIM_CHUNKS;
    gw_set_free(&all);
    return complete;
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
    if (f.kind == GW_LOAD_MANIFEST && hangs(c, p, op)) return;
    bool there = f.kind == GW_LOAD_INIT       ? f.step == 0
                 : f.kind == GW_LOAD_MANIFEST ? chunks_at_hand(c, p, &f, &state)
                                              : donor_at_hand(c, p, &f, &state);
    if (!there && sim_now(c) - f.since_ns < FETCH_MOST_NS) {
        sim_later(c, 50 * SIM_MS, op);
        return;
    }
    gw_event event = {.kind = GW_EV_LOADED, .token = op->token, .outcome = there ? GW_DONE : GW_FAILED};
    if (there) {
        p->m.has_state = true;
        p->m.step = f.step;
        p->m.state = state;
        event.fingerprint = sim_fingerprint(p->m.state);
    } else {
        event.text = "no source could be reached";
    }
    sim_event(c, p, &event);
}

static void load(sim_cluster *c, sim_peer *p, const gw_action *action) {
    fetch f = {.kind = action->load_kind,
               .step = action->step,
               .fingerprint = action->fingerprint,
               .root = action->root};
    f.since_ns = sim_now(c);
    const gw_peer_id *sources = action->load_kind == GW_LOAD_PEERS ? action->donors : action->holders;
    for (uint32_t i = 0; sources != NULL && i < action->count; i++)
        f.sources[f.count++] = sim_by_id(c, &sources[i])->number;
    if (p->m.applying) sim_violation(c, "peer %u loads a state while it applies", p->number);
    if (action->step > c->options->steps)
        sim_violation(c, "peer %u loads step %" PRIu64, p->number, action->step);
    sim_op op = sim_op_to(p, loaded);
    op.token = action->token;
    op.bytes = (const uint8_t *)&f;
    op.length = sizeof f;
    sim_later(c, sim_between(c, SIM_MS, 100 * SIM_MS), &op);
}

void sim_disk_action(sim_cluster *c, sim_peer *p, const gw_action *action) {
    switch (action->kind) {
    case GW_ACT_PERSIST:
        persist(c, p, action);
        break;
    case GW_ACT_SAVE:
        save(c, p, action);
        break;
    case GW_ACT_MANIFEST:
        manifest(c, p, action);
        break;
    case GW_ACT_RETAIN:
        retain(p, action);
        break;
    default:
        load(c, p, action);
        break;
    }
}
