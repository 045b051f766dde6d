/* What a peer shows to people: gw_peer_status_get and gw_peer_contact_at of core/brain/peer.h. */
#include "core/brain/peer.h"

#include "core/brain/members/contacts.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/holders.h"
#include "core/brain/save/kept.h"
#include "core/brain/state.h"
#include "core/brain/view/vote.h"

static bool waits_for_room(const gw_peer *p) {
    return p->phase == GW_AT_ENDING && p->save.unwritable && !gw_saves_anyone_writes(p, -1);
}

static const char *phase_text(const gw_peer *p) {
    if (waits_for_room(p)) return "waiting for a disk with room for the final state";
    if (p->save.leaving && p->phase == GW_AT_PAUSED) return "leaving: writing a checkpoint";
    if (p->save.leaving && p->phase == GW_AT_COMPUTING)
        return p->view.current.count > 1 ? "leaving when a checkpoint is complete"
                                         : "computing the last step before leaving";
    if (p->phase == GW_AT_FROZEN && p->view.current.epoch == 0) return "forming the first view";
    static const char *const names[] = {
        [GW_AT_WAITING] = "waiting for peers",
        [GW_AT_FROZEN] = "changing the view",
        [GW_AT_LOADING] = "fetching the state",
        [GW_AT_GATHERING] = "waiting for newcomers",
        [GW_AT_COMPUTING] = "computing",
        [GW_AT_SEALING] = "computing",
        [GW_AT_REDUCING] = "reducing",
        [GW_AT_DISPUTING] = "computing a disputed shard again",
        [GW_AT_APPLYING] = "applying",
        [GW_AT_PAUSED] = "paused for a new view",
        [GW_AT_ENDING] = "writing the final checkpoint",
        [GW_AT_OVER] = "finished",
    };
    return names[p->phase];
}

void gw_peer_status_get(const gw_peer *p, gw_peer_status *status) {
    *status = (gw_peer_status){
        .phase = phase_text(p),
        .waits = p->phase == GW_AT_WAITING || gw_votes_wait_long(p) || waits_for_room(p),
        .ends = p->save.leaving || p->phase == GW_AT_ENDING || p->phase == GW_AT_OVER,
        .disk_writable = !p->save.unwritable && !p->save.unwritable_logged && !p->save.disk_hangs,
        .waits_for = p->outbox.waits_for,
        .view = p->view.current.epoch > 0 ? &p->view.current : NULL,
        .step = p->state.step,
        .fingerprint = p->state.fingerprint,
        .committed_step = p->view.ballot.majority ? p->commit.step : p->state.step,
        .committed_fingerprint = p->view.ballot.majority ? p->commit.fingerprint : p->state.fingerprint,
        .has_state = p->state.present,
        .checkpoint_step = p->save.saved_step,
        .best = p->state.best,
        .views_installed = p->view.views_installed,
        .steps_repaired = p->view.steps_repaired,
        .shards_repaired = p->view.shards_repaired,
        .steals = p->step.steals,
        .shards_stolen = p->step.shards_stolen,
    };
    gw_gossip_stats_read(p->gossip, &status->gossip);
    const gw_checkpoint_ref *whole = gw_kept_newest(p);
    if (whole != NULL) status->checkpoint_root = whole->root;
    const gw_checkpoint_ref here = gw_holders_newest(p);
    status->whole_step = here.step > 0 ? here.step : UINT64_MAX;
    status->whole_root = here.root;
    bool loads = p->phase == GW_AT_LOADING && p->view.load_token != 0;
    status->loading_step = loads ? p->view.load_step : UINT64_MAX;
}

bool gw_peer_checkpoint_is_away(const gw_peer *p, const gw_hash *root) {
    for (uint32_t i = 0; i < p->save.kept_count; i++)
        if (gw_hash_equal(&p->save.kept[i].root, root)) return !gw_holders_live(p, &p->save.kept[i]);
    return false;
}

static void describe_member(const gw_peer *p, const gw_gossip_member *member, gw_peer_contact_info *info) {
    static const char *const states[] = {"alive", "suspect", "unreachable", "left"};
    *info = (gw_peer_contact_info){
        .id = member->id,
        .name = member->name,
        .incarnation = member->incarnation,
        .state = states[member->state],
        .addr = member->addr_count > 0 ? member->addr[0] : (gw_addr){0},
        .member = p->view.current.epoch > 0 && gw_view_rank(&p->view.current, &member->id) >= 0,
        .leader = p->view.current.epoch > 0 && gw_peer_id_equal(&p->view.current.leader, &member->id),
        .checkpoint_step = UINT64_MAX};
    if (gw_peer_id_equal(&member->id, &p->config.id)) {
        info->linked = true;
        info->step = p->state.step;
        info->speed = p->step.own_speed;
        info->checkpoint_step = gw_contacts_own_checkpoint(p);
        return;
    }
    const gw_contact *contact = gw_peer_contact(p, &member->id);
    if (contact == NULL) return;
    if (member->state == GW_GOSSIP_IS_DEAD) {
        if (contact->ended) info->state = "dead";
        info->gone_ns = contact->gone_ns;
    }
    info->linked = contact->linked;
    info->step = contact->step;
    info->speed = contact->speed;
    info->checkpoint_step = contact->checkpoint_step;
}

bool gw_peer_contact_at(const gw_peer *p, uint32_t index, gw_peer_contact_info *info) {
    if (index >= gw_gossip_count(p->gossip)) return false;
    describe_member(p, gw_gossip_at(p->gossip, index), info);
    return true;
}

bool gw_peer_contact_find(const gw_peer *p, const gw_peer_id *id, gw_peer_contact_info *info) {
    const gw_gossip_member *member = gw_gossip_find(p->gossip, id);
    if (member == NULL) return false;
    describe_member(p, member, info);
    return true;
}
