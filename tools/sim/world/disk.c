/* Checkpoints on disks, which survive a crash. Writes become durable some time before they are reported,
 * half of a checkpoint's chunks before the other half. (Records are in record.c.) */
#include "tools/sim/world/inside.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HANG_GRID_NS  (100 * SIM_MS)  /* operations that wait for a disk are tried again at these instants */
#define CRAWL_GRID_NS (5000 * SIM_MS) /* operations of a crawling disk end at these instants */

static void free_saved(sim_saved *saved) {
    gw_set_free(&saved->chunks);
    gw_set_free(&saved->damaged);
}

void sim_disk_free(sim_disk *disk) {
    sim_record_free(&disk->record);
    sim_record_free(&disk->flushed);
    for (uint32_t i = 0; i < disk->saved_count; i++) free_saved(&disk->saved[i]);
    *disk = (sim_disk){0};
}

static void know(sim_disk *disk, uint32_t number) {
    uint32_t at = 0;
    while (at < disk->known_count && disk->known[at] != number) at++;
    if (at == GW_MAX_KNOWN) at--; /* the one met longest ago is forgotten */
    if (at == disk->known_count) disk->known_count++;
    memmove(disk->known + 1, disk->known, at * sizeof *disk->known);
    disk->known[0] = number;
}

void sim_disk_remember(sim_cluster *c, sim_peer *p, const gw_view *view) {
    if (p->disk_full_until_ns > sim_now(c) || p->disk_hangs_until_ns > sim_now(c)) return;
    for (uint32_t i = 0; i < c->count; i++)
        if (i != p->number && gw_view_rank(view, &c->peers[i].id) >= 0) know(&p->disk, i);
}

sim_saved *sim_disk_saved_of(sim_disk *disk, uint64_t step, uint64_t state, bool make) {
    for (uint32_t i = 0; i < disk->saved_count; i++)
        if (disk->saved[i].step == step && disk->saved[i].state == state) return &disk->saved[i];
    if (!make) return NULL;
    if (disk->saved_count == SIM_SAVED) { /* the oldest one without a manifest is left over */
        for (uint32_t i = 0; i < disk->saved_count; i++) {
            if (disk->saved[i].manifest) continue;
            free_saved(&disk->saved[i]);
            memmove(&disk->saved[i], &disk->saved[i + 1], (--disk->saved_count - i) * sizeof *disk->saved);
            break;
        }
    }
    GW_ASSERT(disk->saved_count < SIM_SAVED);
    sim_saved *saved = &disk->saved[disk->saved_count++];
    *saved = (sim_saved){
        .step = step, .state = state, .chunks = gw_set_of(SIM_CHUNKS), .damaged = gw_set_of(SIM_CHUNKS)};
    return saved;
}

uint32_t sim_disk_inventory(const sim_cluster *c, const sim_peer *p, gw_inventory *inventory, uint32_t most) {
    uint32_t count = 0;
    for (uint64_t step = c->options->steps + 1; step-- > 0 && count < most;) { /* the newest first */
        for (uint32_t i = 0; i < p->disk.saved_count && count < most; i++) {
            const sim_saved *saved = &p->disk.saved[i];
            if (saved->step != step || !saved->manifest) continue;
            inventory[count++] = (gw_inventory){.epoch = saved->epoch,
                                                .step = step,
                                                .root = sim_root(step, saved->state),
                                                .fingerprint = sim_fingerprint(saved->state),
                                                .ended = saved->ended,
                                                .chunks = saved->chunks};
        }
    }
    return count;
}

bool sim_disk_has_orphans(const sim_disk *disk) {
    bool any = false;
    for (uint32_t i = 0; i < disk->saved_count; i++)
        any |= !disk->saved[i].manifest && gw_set_count(&disk->saved[i].chunks) > 0;
    return any;
}

static uint64_t next_of(const sim_cluster *c, uint64_t grid_ns) {
    return (sim_now(c) / grid_ns + 1) * grid_ns;
}

static uint64_t next_grid(const sim_cluster *c) {
    return next_of(c, HANG_GRID_NS);
}

/* Makes a disk hang until one of the instants at which waiting operations are tried again, so that nothing
 * that is asked for later comes first. */
void sim_disk_hang(sim_cluster *c, sim_peer *p, uint64_t for_ns) {
    p->disk_hangs_until_ns = next_grid(c) + for_ns / HANG_GRID_NS * HANG_GRID_NS;
}

void sim_disk_crawl(sim_cluster *c, sim_peer *p, uint64_t for_ns) {
    p->disk_crawls_until_ns = next_of(c, CRAWL_GRID_NS) + for_ns / CRAWL_GRID_NS * CRAWL_GRID_NS;
}

void sim_disk_end_hang(sim_cluster *c, sim_peer *p) {
    if (p->disk_hangs_until_ns > sim_now(c)) sim_disk_hang(c, p, 0);
    if (p->disk_crawls_until_ns > sim_now(c)) sim_disk_crawl(c, p, 0);
}

/* Whether an operation has to wait. Operations that wait for a disk happen in the order in which they came
 * to wait, and before later ones, although pauses of the peer hold up some of them for longer.
 * held_until_ns is 0 where the disk is ready. */
static bool waits_in(sim_cluster *c, sim_line *line, const sim_op *op, uint64_t held_until_ns) {
    bool in_line = op->turn > line->served;
    bool behind = in_line ? op->turn > line->served + 1 : line->taken > line->served;
    if (held_until_ns == 0 && !behind) {
        line->served += in_line;
        return false;
    }
    sim_op again = *op;
    if (!in_line) again.turn = ++line->taken;
    sim_later(c, (held_until_ns != 0 ? held_until_ns : next_grid(c)) - sim_now(c), &again);
    return true;
}

static uint64_t hang_ends(const sim_cluster *c, const sim_peer *p) {
    return p->disk_hangs_until_ns > sim_now(c) ? next_grid(c) : 0;
}

bool sim_disk_hangs(sim_cluster *c, sim_peer *p, const sim_op *op) {
    return waits_in(c, &p->m.small_files, op, hang_ends(c, p));
}

static void tell_progress(sim_cluster *c, sim_peer *p, gw_token token) {
    gw_event event = {.kind = GW_EV_PROGRESS, .token = token};
    sim_event(c, p, &event);
}

bool sim_disk_waits(sim_cluster *c, sim_peer *p, const sim_op *op) {
    uint64_t until_ns = hang_ends(c, p);
    bool crawls = until_ns == 0 && p->disk_crawls_until_ns > sim_now(c);
    bool goes_on = crawls && op->token != 0 && sim_now(c) % CRAWL_GRID_NS == 0;
    if (!waits_in(c, &p->m.large_files, op, crawls ? next_of(c, CRAWL_GRID_NS) : until_ns)) return false;
    if (goes_on) tell_progress(c, p, op->token);
    return true;
}

/* Returns the duration of a write. */
uint64_t sim_disk_time(sim_cluster *c, const sim_peer *p, uint64_t least_ns, uint64_t most_ns) {
    enum { SLOWER = 100 };
    uint64_t time_ns = sim_between(c, least_ns, most_ns);
    return p->disk_slow_until_ns > sim_now(c) ? time_ns * sim_between(c, 2, SLOWER) : time_ns;
}

/* Writing. */

/* Whether a SAVE was given up. A disk has one writer, which gives up the rest of a SAVE when it gets one
 * of another step, or is told to delete: nothing of an older step follows, however slow the disk is. */
static bool is_given_up(const sim_peer *p, uint64_t step) {
    return !p->m.has_open || p->m.open_step != step;
}

static void chunk_durable(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (sim_disk_waits(c, p, op) || is_given_up(p, op->x)) return;
    if (p->disk_full_until_ns > sim_now(c)) return;
    sim_saved *saved = sim_disk_saved_of(&p->disk, op->x, op->z, true);
    gw_set_add(&saved->chunks, (uint32_t)op->y); /* a damaged chunk is there, and is not written again */
    saved->written_ns[op->y] = sim_now(c);
    tell_progress(c, p, op->token);
}

/* Reports the end of a save. It has failed if a chunk is missing: a chunk may have met a full disk,
 * whatever the disk is like now, or the save was given up before. */
static void stored(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (sim_disk_waits(c, p, op)) return;
    uint32_t count = op->length / (uint32_t)sizeof(uint32_t);
    bool hash_only = op->y != 0, failed = !hash_only && p->disk_full_until_ns > sim_now(c);
    const sim_saved *saved = sim_disk_saved_of(&p->disk, op->z, op->x, false);
    gw_hash hashes[SIM_CHUNKS];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chunk;
        memcpy(&chunk, op->bytes + i * sizeof chunk, sizeof chunk);
        hashes[i] = sim_chunk_hash(op->x, chunk);
        failed |= !hash_only && (saved == NULL || !gw_set_has(&saved->chunks, chunk));
    }
    gw_event event = {.kind = GW_EV_STORED,
                      .token = op->token,
                      .outcome = failed ? GW_FAILED : GW_DONE,
                      .text = failed ? "disk full" : NULL,
                      .stored.hashes = hashes,
                      .stored.count = count};
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
    if (!action->save.hash_only) p->m.open_step = action->step;
    p->m.has_open |= !action->save.hash_only;
    uint64_t time_ns = sim_disk_time(c, p, 5 * SIM_MS, 200 * SIM_MS);
    for (uint32_t i = 0; i < action->save.count && !action->save.hash_only; i++) {
        sim_op op = sim_op_to(p, chunk_durable);
        op.x = action->step;
        op.y = action->save.chunks[i];
        op.z = p->m.state;
        op.token = action->token;
        sim_later(c, i % 2 == 0 ? time_ns / 2 : time_ns - 1, &op);
    }
    sim_op op = sim_op_to(p, stored);
    op.token = action->token;
    op.x = p->m.state;
    op.y = action->save.hash_only;
    op.z = action->step;
    op.bytes = (const uint8_t *)action->save.chunks;
    op.length = action->save.count * (uint32_t)sizeof(uint32_t);
    sim_later(c, time_ns, &op);
}

/* What a manifest says, on its way to the disk. */
typedef struct written {
    gw_hash root;
    gw_best best;
} written;

static void manifest_stored(sim_cluster *c, sim_peer *p, const sim_op *op) {
    bool hash_only = op->y & 1;
    if (!hash_only && sim_disk_waits(c, p, op)) return;
    bool failed = !hash_only && p->disk_full_until_ns > sim_now(c);
    written what;
    memcpy(&what, op->bytes, sizeof what);
    if (!hash_only && !failed) {
        sim_saved *saved = sim_disk_saved_of(&p->disk, op->x, op->z, true);
        saved->manifest = true;
        saved->ended = op->y >> 1 & 1;
        saved->best = what.best;
        if (op->y >> 2 > saved->epoch) saved->epoch = op->y >> 2; /* manifests are written in order */
    }
    gw_event event = {.kind = GW_EV_MANIFEST_STORED,
                      .token = op->token,
                      .outcome = failed ? GW_FAILED : GW_DONE,
                      .text = failed ? "disk full" : NULL,
                      .manifest_stored.root = what.root};
    sim_event(c, p, &event);
    if (!hash_only && !failed) SIM_NOTIFY(c, manifest_stored, p, op->x);
}

static void manifest(sim_cluster *c, sim_peer *p, const gw_action *action) {
    gw_hash root = sim_root_of(action->step, action->manifest.hashes, action->manifest.count);
    gw_hash own = sim_root(p->m.saved_step, p->m.saved_state);
    bool saved_here = p->m.saved_step == action->step && gw_hash_equal(&root, &own);
    SIM_NOTIFY(c, manifest_made, p, action->step, &root, saved_here, action->manifest.hash_only);
    sim_op op = sim_op_to(p, manifest_stored);
    op.token = action->token;
    op.x = action->step;
    op.y = (uint64_t)action->manifest.hash_only | (uint64_t)action->manifest.ended << 1 |
           action->manifest.epoch << 2;
    op.z = p->m.saved_state;
    const written what = {.root = root, .best = action->manifest.best};
    op.bytes = (const uint8_t *)&what;
    op.length = sizeof what;
    sim_later(c, sim_disk_time(c, p, SIM_MS, 20 * SIM_MS), &op);
}

/* Deletes what is not retained. No checkpoint is under way then, so chunks without a manifest belong to
 * none. */
static void retain(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_disk *disk = &p->disk;
    uint32_t kept = 0, count = disk->saved_count;
    p->m.has_open = false;
    for (uint32_t i = 0; i < disk->saved_count; i++) {
        gw_hash root = sim_root(disk->saved[i].step, disk->saved[i].state);
        bool keep = false;
        for (uint32_t k = 0; k < action->retain.count; k++)
            keep |= gw_hash_equal(&root, &action->retain.roots[k]);
        if (keep)
            disk->saved[kept++] = disk->saved[i];
        else
            free_saved(&disk->saved[i]);
    }
    disk->saved_count = kept;
    if (kept < count && p->disk_is_tight && p->disk_full_until_ns > sim_now(c))
        p->disk_full_until_ns = sim_now(c);
}

void sim_disk_action(sim_cluster *c, sim_peer *p, const gw_action *action) {
    switch (action->kind) {
    case GW_ACT_SAVE:
        save(c, p, action);
        break;
    case GW_ACT_MANIFEST:
        manifest(c, p, action);
        break;
    default:
        SIM_NOTIFY(c, retain_begins, p);
        retain(c, p, action);
        SIM_NOTIFY(c, retain_ends, p);
        break;
    }
}

/* Reading. */

sim_saved *sim_disk_saved_as(sim_disk *disk, const gw_hash *root, uint64_t step) {
    for (uint32_t i = 0; i < disk->saved_count; i++) {
        gw_hash one = sim_root(disk->saved[i].step, disk->saved[i].state);
        if (disk->saved[i].step == step && gw_hash_equal(&one, root)) return &disk->saved[i];
    }
    return NULL;
}

gw_set sim_disk_sound(const sim_saved *saved) {
    gw_set sound = gw_set_copy(&saved->chunks);
    sound.words[0] &= ~saved->damaged.words[0]; /* SIM_CHUNKS fit into one word */
    return sound;
}
