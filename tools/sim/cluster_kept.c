/* What was told to be kept is kept: a checkpoint is told to be complete only when disks have as many copies
 * of all of it as they should, nobody deletes the last of them, and nobody goes on from less while the
 * members of its view have it still. */
#include "tools/sim/cluster.h"

#include "core/check.h"

#include <inttypes.h>

/* Who has ended, in that life, or is in a later view, takes no part in an earlier one that is installed only
 * now, though it voted for it once. */
static bool takes_part(const sim_peer *p, const gw_view *view) {
    return gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0 && p->brain != NULL &&
           p->m.fence.epoch <= view->epoch;
}

/* On how many disks of a view's members (NULL: of all) the chunk is as it should be. Members count what they
 * can tell of: of chunks without a manifest only those that were so when they started. */
static uint32_t copies(sim_cluster *c, const gw_view *view, const gw_hash *root, uint64_t step,
                       uint32_t chunk) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (view != NULL && !takes_part(p, view)) continue;
        const sim_saved *saved = sim_disk_saved_as(&p->disk, root, step);
        if (view != NULL && saved != NULL && !saved->manifest && !p->strays) continue;
        count += saved != NULL && gw_set_has(&saved->chunks, chunk) && !gw_set_has(&saved->damaged, chunk);
    }
    return count;
}

/* Whether a member knows what the chunks are those of. */
static bool has_manifest(sim_cluster *c, const gw_view *view, const gw_hash *root, uint64_t step) {
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        if (!takes_part(p, view)) continue;
        const sim_saved *saved = sim_disk_saved_as(&p->disk, root, step);
        if (saved != NULL && saved->manifest) return true;
    }
    return false;
}

/* Disks may have lost what they had. */
static bool disks_are_bad(const sim_cluster *c) {
    const uint64_t *faults = c->result->faults;
    return faults[GW_SIM_WIPE] + faults[GW_SIM_DAMAGED_CHUNK] + faults[GW_SIM_UNSYNCED] > 0;
}

/* How many copies there must be of each chunk: as many as there are replicas, or members whose disks have
 * never refused anything. */
static uint32_t least_copies(const sim_cluster *c, const gw_view *view) {
    uint32_t sound = 0;
    for (uint32_t i = 0; i < c->count; i++)
        sound += gw_view_rank(view, &c->peers[i].id) >= 0 && !c->peers[i].disk_ailed;
    if (sound == 0) return 1;
    return sound < SIM_REPLICAS ? sound : SIM_REPLICAS;
}

/* States are made again with other sums (fast): what a later view tells counts, and of one view the later
 * step. Otherwise a step has one state, and the latest step counts. */
static bool is_newest(const sim_cluster *c, const gw_view *view, uint64_t step) {
    if (c->complete_step == UINT64_MAX) return true;
    if (!c->options->fast || view->epoch == c->complete_epoch) return step > c->complete_step;
    return view->epoch > c->complete_epoch;
}

void sim_complete(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    c->result->checkpoints++;
    GW_CHECK(status.view != NULL);
    if (!is_newest(c, status.view, action->step)) return; /* older ones may have been deleted since */
    c->complete_epoch = status.view->epoch;
    c->complete_step = action->step;
    c->complete_root = action->root;
    c->failed_to_load = false;
    uint32_t least = least_copies(c, status.view);
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS && !disks_are_bad(c); chunk++) {
        uint32_t count = copies(c, NULL, &action->root, action->step, chunk);
        if (count < least)
            sim_violation(c,
                          "peer %u tells that the checkpoint of step %" PRIu64
                          " is complete, but of its chunk %u there are %u copies, not %u",
                          p->number, action->step, chunk, count, least);
    }
}

static bool is_whole(sim_cluster *c, const gw_hash *root, uint64_t step) {
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
        if (copies(c, NULL, root, step, chunk) == 0) return false;
    return true;
}

/* Of that one or of a later one that nobody was told of, but all went on from. */
void sim_check_kept(sim_cluster *c, const sim_peer *p) {
    if (disks_are_bad(c) || c->complete_step == UINT64_MAX) return;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_disk *disk = &c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++) {
            const sim_saved *saved = &disk->saved[k];
            gw_hash root = sim_root(saved->step, saved->state);
            if (saved->manifest && saved->step >= c->complete_step && is_whole(c, &root, saved->step)) return;
        }
    }
    sim_violation(c,
                  "peer %u has deleted the last copy of some of the checkpoint of step %" PRIu64
                  ", and there is no later one",
                  p->number, c->complete_step);
}

void sim_failed_load(sim_cluster *c, gw_load_kind kind, const gw_hash *root) {
    c->failed_to_load |= kind == GW_LOAD_MANIFEST && gw_hash_equal(root, &c->complete_root);
}

void sim_check_load(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    bool from_disks = action->load_kind == GW_LOAD_INIT || action->load_kind == GW_LOAD_MANIFEST;
    if (!from_disks || c->failed_to_load || c->complete_step == UINT64_MAX) return;
    if (action->step >= c->complete_step || p->m.fence.epoch == 0) return;
    if (!has_manifest(c, &p->m.fence, &c->complete_root, c->complete_step)) return;
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
        if (copies(c, &p->m.fence, &c->complete_root, c->complete_step, chunk) == 0) return;
    sim_violation(
        c, "peer %u goes on from step %" PRIu64 ", but its view has all of the checkpoint of step %" PRIu64,
        p->number, action->step, c->complete_step);
}
