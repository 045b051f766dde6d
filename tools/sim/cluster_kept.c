/* What was told to be kept is kept: a checkpoint is told to be complete only when disks have all of it, and
 * nobody goes on from less while the members of its view have it still. */
#include "tools/sim/cluster.h"

#include <inttypes.h>

/* Who has ended, or is in a later view, takes no part in an earlier one that is installed only now, though it
 * voted for it once. */
static bool takes_part(const sim_peer *p, const gw_view *view) {
    return gw_view_rank(view, &p->id) >= 0 && p->brain != NULL && p->m.fence.epoch <= view->epoch;
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

void sim_complete(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    c->result->checkpoints++;
    bool newest = c->complete_step == UINT64_MAX || action->step > c->complete_step;
    if (!newest) return; /* older ones may have been deleted since */
    c->complete_step = action->step;
    c->complete_root = action->root;
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS && !disks_are_bad(c); chunk++)
        if (copies(c, NULL, &action->root, action->step, chunk) == 0)
            sim_violation(c,
                          "peer %u tells that the checkpoint of step %" PRIu64
                          " is complete, but nobody has its chunk %u",
                          p->number, action->step, chunk);
}

void sim_check_load(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    bool from_disks = action->load_kind == GW_LOAD_INIT || action->load_kind == GW_LOAD_MANIFEST;
    if (!from_disks || c->options->fast || c->failed_to_load || c->complete_step == UINT64_MAX) return;
    if (action->step >= c->complete_step || p->m.fence.epoch == 0) return;
    if (!has_manifest(c, &p->m.fence, &c->complete_root, c->complete_step)) return;
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
        if (copies(c, &p->m.fence, &c->complete_root, c->complete_step, chunk) == 0) return;
    sim_violation(
        c, "peer %u goes on from step %" PRIu64 ", but its view has all of the checkpoint of step %" PRIu64,
        p->number, action->step, c->complete_step);
}
