/* What was told to be kept is kept: a checkpoint is told to be complete only when disks have as many copies
 * of all of it as they should, nobody deletes the last of them before as many later ones are complete as are
 * to be kept, and nobody goes on from less while the members of its view have it still. */
#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Who has ended, in that life, or is in a later view, takes no part in an earlier one that is installed only
 * now, though it voted for it once. */
static bool takes_part(const sim_peer *p, const gw_view *view) {
    return gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0 && p->brain != NULL &&
           p->m.fence.epoch <= view->epoch;
}

static bool is_sound(const sim_saved *saved, uint32_t chunk) {
    return saved != NULL && gw_set_has(&saved->chunks, chunk) && !gw_set_has(&saved->damaged, chunk);
}

/* On how many disks the chunk is as it should be. */
static uint32_t copies(sim_cluster *c, const gw_hash *root, uint64_t step, uint32_t chunk) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++)
        count += is_sound(sim_disk_saved_as(&c->peers[i].disk, root, step), chunk);
    return count;
}

/* This life has found no manifest of it anywhere, and told that it has nothing of it. */
static bool has_untold(const sim_peer *p, const sim_saved *saved) {
    return !saved->manifest && saved->untold == p->boot;
}

/* Whether members of the view that this peer has begun have all of it, and know what the chunks are those of.
 * They count what they can tell of: of chunks without a manifest only those that were so when they started;
 * or all of these.
 */
static bool view_has(sim_cluster *c, const sim_peer *loads, const sim_complete *one, bool untold) {
    gw_set there = gw_set_of(SIM_CHUNKS);
    bool manifest = false;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        const sim_saved *saved = sim_disk_saved_as(&p->disk, &one->root, one->step);
        if (saved == NULL || !takes_part(p, &loads->m.fence) || sim_record_outlaws(loads, p)) continue;
        if (sim_record_gives_up(p, &one->root)) continue;
        if (!untold && has_untold(p, saved)) continue;
        manifest |= saved->manifest;
        if (!saved->manifest && !p->strays) continue;
        for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
            if (is_sound(saved, chunk)) gw_set_add(&there, chunk);
    }
    bool all = gw_set_count(&there) == SIM_CHUNKS;
    gw_set_free(&there);
    return manifest && all;
}

/* Whether a member of the view (NULL: anybody) had another disk, with which it lost that name. */
static bool had_another_disk(const sim_peer *p, const gw_view *view) {
    if (view == NULL) return p->disks > 0;
    for (uint32_t disk = 0; disk < p->disks; disk++) {
        const gw_peer_id id = sim_name_with(p->number, disk);
        if (gw_view_rank(view, &id) >= 0) return true;
    }
    return false;
}

/* How many copies of the chunk disks may have lost after lives of the view's members (NULL: any) had told of
 * them. */
static uint32_t lost_copies(sim_cluster *c, const gw_view *view, const gw_hash *root, uint64_t step,
                            uint32_t chunk) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        const sim_saved *saved = sim_disk_saved_as(&p->disk, root, step);
        bool gone = had_another_disk(p, view);
        if (saved != NULL && gw_set_has(&saved->chunks, chunk)) {
            gone |= gw_set_has(&saved->damaged, chunk);
        } else if (saved != NULL && (saved->lost >> chunk & 1) != 0) {
            int rank = view == NULL ? -1 : gw_view_rank(view, &p->id);
            gone |= view == NULL || (rank >= 0 && view->members[rank].boot <= saved->lost_boot);
        }
        count += gone;
    }
    return count;
}

/* How many copies there must be of each chunk: as many as there are replicas, or members whose disks are
 * counted on. view NULL: of one that is over for who hears of it late. */
static uint32_t least_copies(const sim_cluster *c, const gw_view *view, uint64_t step) {
    uint32_t sound = 0;
    if (view == NULL) return 1;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        sound += gw_view_rank(view, &p->id) >= 0 && !p->disk_refuses && step >= p->disk_counts_from;
    }
    if (sound == 0) return 1;
    uint32_t replicas = sim_replicas(c->options);
    return sound < replicas ? sound : replicas;
}

/* The latest view that is known to have saved it. News of it may come in a later one. */
static uint64_t epoch_of(sim_cluster *c, const gw_hash *root, uint64_t step) {
    uint64_t epoch = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&c->peers[i].disk, root, step);
        if (saved != NULL && saved->manifest && saved->epoch > epoch) epoch = saved->epoch;
    }
    return epoch;
}

/* The one told last that disks have not spoilt; NULL = there is none. */
static sim_complete *last_sound(sim_cluster *c) {
    for (uint32_t i = 0; i < c->complete_count; i++)
        if (!c->complete[i].spoilt) return &c->complete[i];
    return NULL;
}

/* States are made again with other sums (fast): what a later view saved counts, and of one view the later
 * step. Otherwise a step has one state, and the latest step counts, or, where disks have spoilt what there
 * was, also what a later view has saved since. */
static bool is_newest(sim_cluster *c, uint64_t epoch, uint64_t step) {
    const sim_complete *last = &c->complete[0], *sound = last_sound(c);
    if (c->complete_count == 0) return true;
    if (c->options->fast) return epoch == last->epoch ? step > last->step : epoch > last->epoch;
    return sound != NULL ? step > sound->step : step > last->step || epoch > last->epoch;
}

#define ALL_CHUNKS ((UINT64_C(1) << SIM_CHUNKS) - 1)

/* Whether disks, but for this peer's (NULL: all), have all of it as it should be, each chunk on one that
 * knows what it is. */
static bool is_whole(sim_cluster *c, const sim_complete *one, const sim_peer *without) {
    uint64_t there = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&c->peers[i].disk, &one->root, one->step);
        if (saved != NULL && saved->manifest && &c->peers[i] != without)
            there |= saved->chunks.words[0] & ~saved->damaged.words[0];
    }
    return there == ALL_CHUNKS;
}

static void spoil(sim_cluster *c, const sim_peer *without) {
    for (uint32_t i = 0; i < c->complete_count; i++) {
        sim_complete *one = &c->complete[i];
        if (one->spoilt || is_whole(c, one, without)) continue;
        one->spoilt = true;
        c->result->spoilt++;
    }
}

void sim_disks_lost(sim_cluster *c) {
    spoil(c, NULL);
}

/* Whoever remembers that verdict tells it again, and what this peer has saved since is given up. */
void sim_begins_anew(sim_cluster *c, const sim_peer *p) {
    if (sim_record_lacks_verdict(p)) spoil(c, p);
}

static void fill_in(sim_cluster *c, sim_complete *one, uint64_t epoch, const gw_action *action) {
    *one = (sim_complete){.step = action->step, .epoch = epoch, .root = action->root};
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&c->peers[i].disk, &action->root, action->step);
        if (saved == NULL) continue;
        one->state = saved->state;
        one->had[i] = saved->chunks.words[0];
        one->life[i] = c->peers[i].brain == NULL ? 0 : c->peers[i].boot;
    }
}

static void remember(sim_cluster *c, uint64_t epoch, const gw_action *action) {
    uint32_t keep = sim_keep(c->options);
    memmove(c->complete + 1, c->complete, (keep - 1) * sizeof *c->complete);
    if (c->complete_count < keep) c->complete_count++;
    fill_in(c, &c->complete[0], epoch, action);
}

/* As a brain remembers it: the latest last, none twice. */
void sim_told_kept(const sim_cluster *c, sim_peer *p, const gw_hash *root) {
    sim_memory *m = &p->m;
    for (uint32_t i = 0; i < m->kept_count; i++)
        if (gw_hash_equal(&m->kept[i], root)) return;
    if (m->kept_count == sim_keep(c->options))
        memmove(m->kept, m->kept + 1, --m->kept_count * sizeof *m->kept);
    m->kept[m->kept_count++] = *root;
}

/* Whether disks had to have lost some for there to be as few as there are. */
static bool check_copies(sim_cluster *c, const sim_peer *p, const gw_view *view, const gw_action *action) {
    uint32_t least = least_copies(c, view, action->step);
    bool lost = false;
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++) {
        uint32_t count = copies(c, &action->root, action->step, chunk);
        if (count >= least) continue;
        lost = true;
        if (count + lost_copies(c, view, &action->root, action->step, chunk) >= least) continue;
        sim_violation(c,
                      "peer %u tells that the checkpoint of step %" PRIu64
                      " is complete, but of its chunk %u there are %u copies, not %u",
                      p->number, action->step, chunk, count, least);
    }
    return lost;
}

static sim_complete *told_before(sim_cluster *c, const gw_hash *root) {
    for (uint32_t i = 0; i < c->complete_count; i++)
        if (gw_hash_equal(&c->complete[i].root, root)) return &c->complete[i];
    return NULL;
}

void sim_told_complete(sim_cluster *c, sim_peer *p, const gw_action *action) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    c->result->checkpoints++;
    sim_told_kept(c, p, &action->root);
    uint64_t epoch = epoch_of(c, &action->root, action->step);
    sim_complete *before = told_before(c, &action->root);
    if (before != NULL && before->spoilt) {
        if (!is_whole(c, before, NULL)) return;
        fill_in(c, before, epoch, action); /* it has been saved again */
    } else if (is_newest(c, epoch, action->step)) {
        remember(c, epoch, action);
    } else { /* older ones may have been deleted since */
        c->result->told_late += before == NULL;
        return;
    }
    c->result->told_lost += check_copies(c, p, status.view, action);
    sim_disks_lost(c);
}

/* Chunks of this state that some disk has, bits. */
static uint64_t chunks_there(const sim_cluster *c, uint64_t step, uint64_t state) {
    uint64_t there = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_disk *disk = &c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++)
            if (disk->saved[k].step == step && disk->saved[k].state == state)
                there |= disk->saved[k].chunks.words[0];
    }
    return there;
}

typedef struct tally { /* of checkpoints of which every chunk and a manifest is on some disk */
    uint64_t step[GW_SIM_KEEP], state[GW_SIM_KEEP];
    uint32_t count;
    bool last; /* the last one that was told, or a later one that nobody was told of, but all went on from */
} tally;

/* That one itself, whichever of the views that saved it this disk knows; or a later one. States are made
 * again with other sums (fast): what a later view saved counts, and of one view the later step. */
static bool is_last(const sim_cluster *c, const sim_complete *last, const sim_saved *saved) {
    if (saved->step == last->step && saved->state == last->state) return true;
    if (c->options->fast && saved->epoch != last->epoch) return saved->epoch > last->epoch;
    return saved->step >= last->step;
}

static void add_to_tally(const sim_cluster *c, tally *t, const sim_complete *last, const sim_saved *saved) {
    if (!saved->manifest || chunks_there(c, saved->step, saved->state) != ALL_CHUNKS) return;
    t->last |= is_last(c, last, saved);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->step[i] == saved->step && t->state[i] == saved->state) return;
    if (t->count == GW_SIM_KEEP) return;
    t->step[t->count] = saved->step;
    t->state[t->count++] = saved->state;
}

static bool knows_complete(const sim_peer *p, const gw_hash *root) {
    bool knows = false;
    for (uint32_t i = 0; i < p->m.kept_count; i++) knows |= gw_hash_equal(&p->m.kept[i], root);
    return knows;
}

/* Of a checkpoint that is no longer whole: who had what is missing, and whether it may have deleted it. */
static void check_lost(sim_cluster *c, sim_complete *one) {
    uint64_t missing = ALL_CHUNKS & ~chunks_there(c, one->step, one->state);
    bool unheard = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *p = &c->peers[i];
        if ((one->had[i] & missing) == 0 || !sim_runs(p) || p->boot != one->life[i]) continue;
        unheard = true;
        if (!p->m.gave_way && (!c->options->fast || knows_complete(p, &one->root)))
            sim_violation(c,
                          "peer %u has deleted some of the checkpoint of step %" PRIu64
                          " that was told to be complete, and the last %u are not all there",
                          i, one->step, sim_keep(c->options));
    }
    if (missing == 0 || one->lost) return;
    one->lost = true;
    *(unheard ? &c->result->lost_unheard : &c->result->lost_with_lives) += 1;
}

/* --keep: of the checkpoints that were told to be complete the last one is there, and together with others
 * there are as many as are to be kept, or were told. Which others may differ: a life that does not know that
 * one was complete may keep another in its place. So one that is not there is excused, and counted, where all
 * those who had what is missing of it have ended since, or were told of as many later ones; with float sums
 * also where they never heard that it was complete, as the view changed before the leader's word came: it may
 * be of steps that were given up. Older ones than the last one may have made room on a full disk for what
 * came after them. What disks have lost so much of that the rest is not whole counts as if it had not been
 * told: nobody can keep it. */
void sim_check_kept(sim_cluster *c, const sim_peer *p) {
    const sim_complete *last = last_sound(c);
    uint32_t owed = 0;
    tally t = {0};
    if (last == NULL) return;
    for (uint32_t i = 0; i < c->complete_count; i++) owed += !c->complete[i].spoilt;
    for (uint32_t i = 0; i < c->count && (!t.last || t.count < owed); i++)
        for (uint32_t k = 0; k < c->peers[i].disk.saved_count; k++)
            add_to_tally(c, &t, last, &c->peers[i].disk.saved[k]);
    if (!t.last)
        sim_violation(c,
                      "peer %u has deleted the last copy of some of the checkpoint of step %" PRIu64
                      ", and there is no later one",
                      p->number, last->step);
    if (t.count >= owed) return;
    for (uint32_t i = 0; i < c->complete_count; i++)
        if (!c->complete[i].spoilt) check_lost(c, &c->complete[i]);
}

static bool has_manifest(sim_cluster *c, const gw_hash *root, uint64_t step) {
    bool has = false;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&c->peers[i].disk, root, step);
        has |= saved != NULL && saved->manifest;
    }
    return has;
}

/* False: it is one of those already. */
static bool note_end(sim_cluster *c, const gw_hash *root) {
    for (uint32_t i = 0; i < c->saved_end_count; i++)
        if (gw_hash_equal(root, &c->saved_ends[i])) return false;
    c->saved_ends = realloc(c->saved_ends, (c->saved_end_count + 1) * sizeof *c->saved_ends);
    GW_ASSERT_MEMORY(c->saved_ends != NULL);
    c->saved_ends[c->saved_end_count++] = *root;
    return true;
}

/* Done, or stopped, says whoever is the first to: then the state is on disks, but for what these have lost.
 * Who says so later may find that others have gone on from there. */
void sim_check_saved_end(sim_cluster *c, const sim_peer *p) {
    const gw_hash none = {0}, *root = &p->finish_root;
    const gw_view *view = p->m.fence.epoch > 0 ? &p->m.fence : NULL;
    bool before_all = p->finish == GW_FINISH_STOPPED && gw_hash_equal(root, &none);
    if (before_all || !note_end(c, root)) return;
    bool shown = c->options->fast && p->finish_step > 0; /* what a job begins with is the same for all */
    uint64_t state = shown ? c->shown[p->finish_step] : c->states[p->finish_step];
    gw_hash right = sim_root(p->finish_step, state);
    if (p->finish == GW_FINISH_STOPPED && !gw_hash_equal(root, &right))
        sim_violation(c, "peer %u ended with another root than it should", p->number);
    if (!has_manifest(c, root, p->finish_step) && c->options->damage_ms == 0 &&
        c->options->wipe_permille == 0)
        sim_violation(c, "peer %u ended at step %" PRIu64 ", of which there is no manifest", p->number,
                      p->finish_step);
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
        if (copies(c, root, p->finish_step, chunk) == 0 &&
            lost_copies(c, view, root, p->finish_step, chunk) == 0)
            sim_violation(c, "peer %u ended at step %" PRIu64 ", of whose chunk %u there is no copy",
                          p->number, p->finish_step, chunk);
}

/* Whether a member has it on record that the job has ended so. */
static bool knows_end(sim_cluster *c, const gw_view *view, const gw_hash *root) {
    bool knows = false;
    for (uint32_t i = 0; i < c->count; i++) {
        sim_peer *p = &c->peers[i];
        const sim_saved *saved = sim_disk_saved_as(&p->disk, root, sim_last_step(c->options));
        knows |= takes_part(p, view) && saved != NULL && saved->manifest && saved->ended;
    }
    return knows;
}

/* fast: some ended the job, and others that know make another end of it. Where all are here nobody else can
 * have what is missing of the last state. */
static void check_end_stays(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    const gw_view *view = &p->m.fence;
    if (!c->options->fast || c->result->done_ns == 0 || view->count >= c->options->founders) return;
    if (view->epoch == 0 || gw_hash_equal(&action->root, &c->final_root)) return;
    if (knows_end(c, view, &c->final_root))
        sim_violation(c, "peer %u goes on from step %" PRIu64 ", but its view knows that the job has ended",
                      p->number, action->step);
}

/* Whoever goes on from there undoes the newest sound checkpoint that was told to be complete. Float sums: one
 * of a later view, that was not told, may have been made without that one, and might have been told. */
static bool undoes(sim_cluster *c, const sim_complete *last, const gw_action *load) {
    if (!c->options->fast) return load->step < last->step;
    if (load->load_kind == GW_LOAD_MANIFEST && gw_hash_equal(&load->root, &last->root)) return false;
    uint64_t epoch = load->load_kind == GW_LOAD_MANIFEST ? epoch_of(c, &load->root, load->step) : 0;
    return !sim_descends(c, sim_state_of(c, load), last->state) && epoch <= last->epoch;
}

void sim_check_load(sim_cluster *c, const sim_peer *p, const gw_action *action) {
    const sim_complete *last = last_sound(c);
    bool from_disks = action->load_kind == GW_LOAD_INIT || action->load_kind == GW_LOAD_MANIFEST;
    if (from_disks) check_end_stays(c, p, action);
    if (!from_disks || last == NULL) return;
    if (p->m.fence.epoch == 0 || !undoes(c, last, action) || !view_has(c, p, last, true)) return;
    if (!view_has(c, p, last, false)) {
        c->result->untold++;
        return;
    }
    sim_violation(
        c, "peer %u goes on from step %" PRIu64 ", but its view has all of the checkpoint of step %" PRIu64,
        p->number, action->step, last->step);
}
