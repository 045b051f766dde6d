/* Promise: when a checkpoint is reported to be complete, the disks have as many copies of all its chunks
 * as they should; no peer deletes the last complete checkpoint, or more than --keep allows; and no peer
 * resumes from less while the members of its view still have the whole of it. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Whether the peer takes part in the view. A peer whose named life has ended, or that is in a later view,
 * does not take part in an earlier view that is installed only now, even if it voted for it. */
static bool takes_part(const sim_peer *p, const gw_view *view) {
    return gw_view_rank_of_life(view, &p->id, p->boot, p->nonce) >= 0 && p->brain != NULL &&
           p->m.fence.epoch <= view->epoch;
}

static bool is_sound(const sim_saved *saved, uint32_t chunk) {
    return saved != NULL && gw_set_has(&saved->chunks, chunk) && !gw_set_has(&saved->damaged, chunk);
}

/* Returns how many disks have an intact copy of the chunk. */
static uint32_t copies(sim_judges *j, const gw_hash *root, uint64_t step, uint32_t chunk) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->c->count; i++)
        count += is_sound(sim_disk_saved_as(&j->c->peers[i].disk, root, step), chunk);
    return count;
}

/* Whether this life has found no manifest of the checkpoint anywhere, and has reported that it has nothing
 * of it. */
static bool has_untold(const sim_peer *p, const sim_saved *saved) {
    return !saved->manifest && saved->untold == p->boot;
}

/* Whether the members of the view that this peer has begun have all chunks, and know what they belong to.
 * A member can report chunks without a manifest only if they were so when it started; with `untold` all of
 * these are counted. */
static bool view_has(sim_judges *j, const sim_peer *loads, const sim_complete *one, bool untold) {
    gw_set there = gw_set_of(SIM_CHUNKS);
    bool manifest = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        sim_peer *p = &j->c->peers[i];
        const sim_saved *saved = sim_disk_saved_as(&p->disk, &one->root, one->step);
        if (saved == NULL || !takes_part(p, &loads->m.fence) || sim_record_outlaws(loads, p)) continue;
        if (sim_record_gives_up(p, &one->root)) continue;
        if (!untold && has_untold(p, saved)) continue;
        manifest |= saved->manifest;
        if (!saved->manifest && !p->orphans) continue;
        for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
            if (is_sound(saved, chunk)) gw_set_add(&there, chunk);
    }
    bool all = gw_set_count(&there) == SIM_CHUNKS;
    gw_set_free(&there);
    return manifest && all;
}

/* Whether a member of the view (NULL = any peer) is this peer under a name that it lost with an earlier
 * disk. */
static bool had_another_disk(const sim_peer *p, const gw_view *view) {
    if (view == NULL) return p->disks > 0;
    for (uint32_t disk = 0; disk < p->disks; disk++) {
        const gw_peer_id id = sim_name_with(p->number, disk);
        if (gw_view_rank(view, &id) >= 0) return true;
    }
    return false;
}

/* Returns how many copies of the chunk disks may have lost after lives of the view's members (NULL = any
 * peers) had reported them. */
static uint32_t lost_copies(sim_judges *j, const gw_view *view, const gw_hash *root, uint64_t step,
                            uint32_t chunk) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->c->count; i++) {
        sim_peer *p = &j->c->peers[i];
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

/* Returns how many copies of each chunk there must be: as many as there are replicas, or members whose
 * disks are relied on. `view` is NULL where the peer that reports has left its view, and hears late. */
static uint32_t least_copies(const sim_judges *j, const gw_view *view, uint64_t step) {
    uint32_t sound = 0;
    if (view == NULL) return 1;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_keeper *keeper = &j->kept.keepers[i];
        sound += gw_view_rank(view, &j->c->peers[i].id) >= 0 && !keeper->disk_refuses &&
                 step >= keeper->counts_from;
    }
    if (sound == 0) return 1;
    uint32_t replicas = sim_replicas(j->c->options);
    return sound < replicas ? sound : replicas;
}

/* Returns the epoch of the latest view that is known to have saved the checkpoint. Its completion may be
 * reported in a later one. */
static uint64_t epoch_of(sim_judges *j, const gw_hash *root, uint64_t step) {
    uint64_t epoch = 0;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&j->c->peers[i].disk, root, step);
        if (saved != NULL && saved->manifest && saved->epoch > epoch) epoch = saved->epoch;
    }
    return epoch;
}

/* Returns the newest reported checkpoint that the disks have not spoilt, or NULL. */
static sim_complete *last_sound(sim_judges *j) {
    for (uint32_t i = 0; i < j->kept.complete_count; i++)
        if (!j->kept.complete[i].spoilt) return &j->kept.complete[i];
    return NULL;
}

/* Whether a checkpoint is the newest one. With float sums, states are computed again with other sums: the
 * later view counts, and within a view the later step. With exact sums a step has one state, and the later
 * step counts; where disks have spoilt everything, so does what a later view has saved since. */
static bool is_newest(sim_judges *j, uint64_t epoch, uint64_t step) {
    const sim_complete *last = &j->kept.complete[0], *sound = last_sound(j);
    if (j->kept.complete_count == 0) return true;
    if (j->c->options->fast) return epoch == last->epoch ? step > last->step : epoch > last->epoch;
    return sound != NULL ? step > sound->step : step > last->step || epoch > last->epoch;
}

/* Whether the disks, without this peer's (NULL = all disks), have an intact copy of every chunk, each on a
 * disk that also has the manifest. */
static bool is_whole(sim_judges *j, const sim_complete *one, const sim_peer *without) {
    uint64_t there = 0;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&j->c->peers[i].disk, &one->root, one->step);
        if (saved != NULL && saved->manifest && &j->c->peers[i] != without)
            there |= saved->chunks.words[0] & ~saved->damaged.words[0];
    }
    return there == SIM_ALL_CHUNKS;
}

static void spoil(sim_judges *j, const sim_peer *without) {
    for (uint32_t i = 0; i < j->kept.complete_count; i++) {
        sim_complete *one = &j->kept.complete[i];
        if (one->spoilt || is_whole(j, one, without)) continue;
        one->spoilt = true;
        j->c->result->spoilt++;
    }
}

static void on_disks_lost(void *context) {
    spoil(context, NULL);
}

/* Begins a life. If its record lacks the last verdict on it, the peer hears of it again from others that
 * remember it, and gives up what it has saved since. */
static void on_life(void *context, sim_peer *p) {
    sim_judges *j = context;
    if (sim_record_lacks_verdict(p)) spoil(j, p);
    sim_keeper *own = &j->kept.keepers[p->number];
    own->kept_count = 0;
    own->gave_way = false;
}

static void on_end(void *context, sim_peer *p) {
    sim_keeper *own = &((sim_judges *)context)->kept.keepers[p->number];
    own->kept_count = 0;
    own->gave_way = false;
}

static void fill_in(const sim_judges *j, sim_complete *one, uint64_t epoch, uint64_t step,
                    const gw_hash *root) {
    *one = (sim_complete){.step = step, .epoch = epoch, .root = *root};
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&j->c->peers[i].disk, root, step);
        if (saved == NULL) continue;
        one->state = saved->state;
        one->had[i] = saved->chunks.words[0];
        one->life[i] = j->c->peers[i].brain == NULL ? 0 : j->c->peers[i].boot;
    }
}

static void remember(sim_judges *j, uint64_t epoch, uint64_t step, const gw_hash *root) {
    uint32_t keep = sim_keep(j->c->options);
    memmove(j->kept.complete + 1, j->kept.complete, (keep - 1) * sizeof *j->kept.complete);
    if (j->kept.complete_count < keep) j->kept.complete_count++;
    fill_in(j, &j->kept.complete[0], epoch, step, root);
}

/* Notes that this life knows the checkpoint to be complete. As in a brain, the latest one is last, and
 * none is listed twice. */
static void know_complete(sim_judges *j, const sim_peer *p, const gw_hash *root) {
    sim_keeper *own = &j->kept.keepers[p->number];
    for (uint32_t i = 0; i < own->kept_count; i++)
        if (gw_hash_equal(&own->kept[i], root)) return;
    if (own->kept_count == sim_keep(j->c->options))
        memmove(own->kept, own->kept + 1, --own->kept_count * sizeof *own->kept);
    own->kept[own->kept_count++] = *root;
}

/* Checks the number of copies of a checkpoint that is reported to be complete. Returns whether there are
 * too few because disks have lost some. */
static bool check_copies(sim_judges *j, const sim_peer *p, const gw_view *view, uint64_t step,
                         const gw_hash *root) {
    uint32_t least = least_copies(j, view, step);
    bool lost = false;
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++) {
        uint32_t count = copies(j, root, step, chunk);
        if (count >= least) continue;
        lost = true;
        if (count + lost_copies(j, view, root, step, chunk) >= least) continue;
        sim_violation(j->c,
                      "peer %u reports that the checkpoint of step %" PRIu64
                      " is complete, but of its chunk %u there are %u copies, not %u",
                      p->number, step, chunk, count, least);
    }
    return lost;
}

static sim_complete *told_before(sim_judges *j, const gw_hash *root) {
    for (uint32_t i = 0; i < j->kept.complete_count; i++)
        if (gw_hash_equal(&j->kept.complete[i].root, root)) return &j->kept.complete[i];
    return NULL;
}

static void on_told(void *context, sim_peer *p, uint64_t step, const gw_hash *root) {
    sim_judges *j = context;
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    j->c->result->checkpoints++;
    know_complete(j, p, root);
    uint64_t epoch = epoch_of(j, root, step);
    sim_complete *before = told_before(j, root);
    if (before != NULL && before->spoilt) {
        if (!is_whole(j, before, NULL)) return;
        fill_in(j, before, epoch, step, root); /* the checkpoint has been saved again */
    } else if (is_newest(j, epoch, step)) {
        remember(j, epoch, step, root);
    } else { /* older checkpoints may have been deleted since */
        j->c->result->told_late += before == NULL;
        return;
    }
    j->c->result->told_lost += check_copies(j, p, status.view, step, root);
    spoil(j, NULL);
}

/* Returns the chunks of this state that some disk has, as bits. */
static uint64_t chunks_there(const sim_judges *j, uint64_t step, uint64_t state) {
    uint64_t there = 0;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_disk *disk = &j->c->peers[i].disk;
        for (uint32_t k = 0; k < disk->saved_count; k++)
            if (disk->saved[k].step == step && disk->saved[k].state == state)
                there |= disk->saved[k].chunks.words[0];
    }
    return there;
}

typedef struct tally { /* the checkpoints of which every chunk and a manifest are on some disk */
    uint64_t step[GW_SIM_KEEP], state[GW_SIM_KEEP];
    uint32_t count;
    /* the newest reported checkpoint is among them, or a later one that was not reported but resumed from */
    bool last;
} tally;

/* Whether a saved checkpoint is the newest reported one, in whichever view this disk knows it was saved,
 * or a later one. With float sums, states are computed again with other sums: the later view counts, and
 * within a view the later step. */
static bool is_last(const sim_judges *j, const sim_complete *last, const sim_saved *saved) {
    if (saved->step == last->step && saved->state == last->state) return true;
    if (j->c->options->fast && saved->epoch != last->epoch) return saved->epoch > last->epoch;
    return saved->step >= last->step;
}

static void add_to_tally(const sim_judges *j, tally *t, const sim_complete *last, const sim_saved *saved) {
    if (!saved->manifest || chunks_there(j, saved->step, saved->state) != SIM_ALL_CHUNKS) return;
    t->last |= is_last(j, last, saved);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->step[i] == saved->step && t->state[i] == saved->state) return;
    if (t->count == GW_SIM_KEEP) return;
    t->step[t->count] = saved->step;
    t->state[t->count++] = saved->state;
}

static bool knows_complete(const sim_keeper *own, const gw_hash *root) {
    bool knows = false;
    for (uint32_t i = 0; i < own->kept_count; i++) knows |= gw_hash_equal(&own->kept[i], root);
    return knows;
}

/* Checks a checkpoint that is no longer whole: each peer that had what is missing must have been allowed
 * to delete it. */
static void check_lost(sim_judges *j, sim_complete *one) {
    uint64_t missing = SIM_ALL_CHUNKS & ~chunks_there(j, one->step, one->state);
    bool unheard = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_peer *p = &j->c->peers[i];
        if ((one->had[i] & missing) == 0 || !sim_runs(p) || p->boot != one->life[i]) continue;
        unheard = true;
        const sim_keeper *own = &j->kept.keepers[i];
        if (!own->gave_way && (!j->c->options->fast || knows_complete(own, &one->root)))
            sim_violation(j->c,
                          "peer %u has deleted some of the checkpoint of step %" PRIu64
                          " that was reported to be complete, and the last %u are not all there",
                          i, one->step, sim_keep(j->c->options));
    }
    if (missing == 0 || one->lost) return;
    one->lost = true;
    *(unheard ? &j->c->result->lost_unheard : &j->c->result->lost_with_lives) += 1;
}

/* Checks --keep after a deletion: of the checkpoints that were reported to be complete the newest is
 * there, and together with others there are as many as --keep demands or as were reported. The others may
 * differ: a life that does not know that one was complete may keep another instead. A missing one is
 * therefore excused, and counted, if all lives that had the missing chunks have ended since, or know of as
 * many later ones. With float sums it is also excused if they never heard that it was complete, because
 * the view changed before the leader's message came: it may be of steps that were given up. Older
 * checkpoints may have made room on a full disk. A checkpoint of which the disks have lost so much that
 * the rest is not whole counts as if it had not been reported: no peer can keep it. */
static void on_retained(void *context, sim_peer *p) {
    sim_judges *j = context;
    const sim_complete *last = last_sound(j);
    uint32_t owed = 0;
    tally t = {0};
    if (last == NULL) return;
    for (uint32_t i = 0; i < j->kept.complete_count; i++) owed += !j->kept.complete[i].spoilt;
    for (uint32_t i = 0; i < j->c->count && (!t.last || t.count < owed); i++)
        for (uint32_t k = 0; k < j->c->peers[i].disk.saved_count; k++)
            add_to_tally(j, &t, last, &j->c->peers[i].disk.saved[k]);
    if (!t.last)
        sim_violation(j->c,
                      "peer %u has deleted the last copy of some of the checkpoint of step %" PRIu64
                      ", and there is no later one",
                      p->number, last->step);
    if (t.count >= owed) return;
    for (uint32_t i = 0; i < j->kept.complete_count; i++)
        if (!j->kept.complete[i].spoilt) check_lost(j, &j->kept.complete[i]);
}

static bool has_manifest(sim_judges *j, const gw_hash *root, uint64_t step) {
    bool has = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_saved *saved = sim_disk_saved_as(&j->c->peers[i].disk, root, step);
        has |= saved != NULL && saved->manifest;
    }
    return has;
}

/* Notes the root of a final checkpoint; returns false if it was noted before. */
static bool note_end(sim_judges *j, const gw_hash *root) {
    for (uint32_t i = 0; i < j->kept.end_count; i++)
        if (gw_hash_equal(root, &j->kept.ends[i])) return false;
    j->kept.ends = realloc(j->kept.ends, (j->kept.end_count + 1) * sizeof *j->kept.ends);
    GW_ASSERT_MEMORY(j->kept.ends != NULL);
    j->kept.ends[j->kept.end_count++] = *root;
    return true;
}

/* Checks the first report that the job is done or stopped: the state must be on disks, except for what
 * these have lost. A peer that reports it later may find that others have gone on from there. */
static void check_saved_end(sim_judges *j, const sim_peer *p) {
    const gw_hash none = {0}, *root = &p->finish_root;
    const gw_view *view = p->m.fence.epoch > 0 ? &p->m.fence : NULL;
    bool before_all = p->finish == GW_FINISH_STOPPED && gw_hash_equal(root, &none);
    if (before_all || !note_end(j, root)) return;
    bool shown = j->c->options->fast && p->finish_step > 0; /* the initial state is the same for all */
    uint64_t state = shown ? j->shown.state[p->finish_step] : j->c->states[p->finish_step];
    gw_hash right = sim_root(p->finish_step, state);
    if (p->finish == GW_FINISH_STOPPED && !gw_hash_equal(root, &right))
        sim_violation(j->c, "peer %u ended with another root than it should", p->number);
    if (!has_manifest(j, root, p->finish_step) && j->c->options->damage_ms == 0 &&
        j->c->options->wipe_permille == 0)
        sim_violation(j->c, "peer %u ended at step %" PRIu64 ", of which there is no manifest", p->number,
                      p->finish_step);
    for (uint32_t chunk = 0; chunk < SIM_CHUNKS; chunk++)
        if (copies(j, root, p->finish_step, chunk) == 0 &&
            lost_copies(j, view, root, p->finish_step, chunk) == 0)
            sim_violation(j->c, "peer %u ended at step %" PRIu64 ", of whose chunk %u there is no copy",
                          p->number, p->finish_step, chunk);
}

/* Checks a lone peer that ends unsaved by a disk that is full as it is small: had it deleted what is older
 * than a whole checkpoint which it knows and has, there would be room. */
static void check_made_room(sim_judges *j, sim_peer *p) {
    const sim_keeper *own = &j->kept.keepers[p->number];
    uint64_t whole = 0;
    uint32_t older = 0;
    bool full = p->disk_is_tight && p->disk_full_until_ns > sim_now(j->c);
    if (!full || p->m.fence.count != 1 || j->c->options->fast) return;
    for (uint32_t i = 0; i < p->disk.saved_count; i++) {
        const sim_saved *one = &p->disk.saved[i];
        const gw_hash root = sim_root(one->step, one->state);
        bool all = one->manifest && (one->chunks.words[0] & ~one->damaged.words[0]) == SIM_ALL_CHUNKS;
        if (all && one->step > whole && knows_complete(own, &root)) whole = one->step;
    }
    for (uint32_t i = 0; i < p->disk.saved_count; i++)
        older += p->disk.saved[i].manifest && p->disk.saved[i].step < whole;
    bool best = j->c->options->evaluate_every != 0; /* one of them may be the best state */
    if (older > best)
        sim_violation(j->c,
                      "peer %u ends unsaved on a small disk, and %u checkpoints before a whole one of step "
                      "%" PRIu64 " take its room",
                      p->number, older, whole);
}

static void on_finished(void *context, sim_peer *p) {
    sim_judges *j = context;
    const gw_sim_options *o = j->c->options;
    if (p->finish == GW_FINISH_UNSAVED) check_made_room(j, p);
    if (p->finish == GW_FINISH_DONE) {
        uint64_t last = sim_last_step(o);
        /* With float sums it is the state of the last step that was shown last, which differs from an
         * earlier one only if no peer knew that one any more. */
        gw_hash root = sim_root(last, o->fast ? j->shown.state[last] : j->c->states[last]);
        j->kept.final_root = root;
        if (!gw_hash_equal(&root, &p->finish_root))
            sim_violation(j->c, "peer %u ended with another root than it should", p->number);
    }
    if (p->finish == GW_FINISH_DONE || p->finish == GW_FINISH_STOPPED) check_saved_end(j, p);
}

/* Whether a member has this end of the job on record. */
static bool knows_end(sim_judges *j, const gw_view *view, const gw_hash *root) {
    bool knows = false;
    for (uint32_t i = 0; i < j->c->count; i++) {
        sim_peer *p = &j->c->peers[i];
        const sim_saved *saved = sim_disk_saved_as(&p->disk, root, sim_last_step(j->c->options));
        knows |= takes_part(p, view) && saved != NULL && saved->manifest && saved->ended;
    }
    return knows;
}

/* Checks that the end of a job stays, with float sums: some peers have ended the job, and others that know
 * of it must not make another end of it. If all founders are here, no other peer can have what is missing
 * of the last state, and they may. */
static void check_end_stays(sim_judges *j, const sim_peer *p, const sim_load_request *load) {
    const gw_view *view = &p->m.fence;
    if (!j->c->options->fast || j->c->result->done_ns == 0 || view->count >= j->c->options->founders) return;
    if (view->epoch == 0 || gw_hash_equal(&load->root, &j->kept.final_root)) return;
    if (knows_end(j, view, &j->kept.final_root))
        sim_violation(j->c,
                      "peer %u goes on from step %" PRIu64 ", but its view knows that the job has ended",
                      p->number, load->step);
}

/* Whether a peer that resumes from there undoes the newest intact checkpoint that was reported to be
 * complete. With float sums, a checkpoint of a later view may have been made without that one, although
 * its completion was not reported. */
static bool undoes(sim_judges *j, const sim_complete *last, const sim_load_request *load) {
    if (!j->c->options->fast) return load->step < last->step;
    if (load->kind == GW_LOAD_MANIFEST && gw_hash_equal(&load->root, &last->root)) return false;
    uint64_t epoch = load->kind == GW_LOAD_MANIFEST ? epoch_of(j, &load->root, load->step) : 0;
    return !sim_descends(j, sim_state_of(j, load), last->state) && epoch <= last->epoch;
}

static void on_wanted(void *context, sim_peer *p, const sim_load_request *load) {
    sim_judges *j = context;
    const sim_complete *last = last_sound(j);
    bool from_disks = load->kind == GW_LOAD_INIT || load->kind == GW_LOAD_MANIFEST;
    if (from_disks) check_end_stays(j, p, load);
    if (!from_disks || last == NULL) return;
    if (p->m.fence.epoch == 0 || !undoes(j, last, load) || !view_has(j, p, last, true)) return;
    if (!view_has(j, p, last, false)) {
        j->c->result->untold++;
        return;
    }
    sim_violation(j->c,
                  "peer %u goes on from step %" PRIu64
                  ", but its view has all of the checkpoint of step %" PRIu64,
                  p->number, load->step, last->step);
}

static void on_loaded(void *context, sim_peer *p, const sim_load_request *load) {
    if (load->kind == GW_LOAD_MANIFEST) know_complete(context, p, &load->root);
}

static void on_retain(void *context, sim_peer *p) {
    sim_keeper *own = &((sim_judges *)context)->kept.keepers[p->number];
    own->gave_way |= own->disk_refuses;
}

static void on_mishap(void *context, sim_peer *p, sim_mishap mishap) {
    if (mishap == SIM_DISK_REFUSES) ((sim_judges *)context)->kept.keepers[p->number].disk_refuses = true;
}

/* From the next checkpoint on, others rely on the disk if its own peer does, which may have given up
 * writing. */
static void on_stored(void *context, sim_peer *p, uint64_t step) {
    sim_keeper *own = &((sim_judges *)context)->kept.keepers[p->number];
    gw_peer_status status;
    if (!own->disk_refuses || !sim_runs(p)) return;
    gw_peer_status_get(p->brain, &status);
    if (!status.disk_writable) return;
    own->disk_refuses = false;
    own->counts_from = step + 1;
}

/* Checks the root of a manifest. A peer whose disk hangs was asked for no chunk, not even for its hash,
 * and computes the root only from what the others report. (A state that has changed in memory has a root
 * that the judge does not know.) */
static void on_manifest(void *context, sim_peer *p, uint64_t step, const gw_hash *root, bool saved,
                        bool told) {
    sim_judges *j = context;
    const gw_sim_options *o = j->c->options;
    if (saved) return;
    const sim_load_request load = {.kind = GW_LOAD_MANIFEST, .step = step, .root = *root};
    gw_hash right = sim_root(step, o->fast ? sim_state_of(j, &load) : j->c->states[step]);
    if (told && (gw_hash_equal(root, &right) || o->flip_ms != 0)) return;
    sim_violation(j->c, "peer %u writes a manifest of step %" PRIu64 " of another state", p->number, step);
}

const sim_observer sim_kept_observer = {.disks_lost = on_disks_lost,
                                        .life_begins = on_life,
                                        .process_ends = on_end,
                                        .finished = on_finished,
                                        .mishap = on_mishap,
                                        .state_wanted = on_wanted,
                                        .state_loaded = on_loaded,
                                        .checkpoint_told = on_told,
                                        .manifest_made = on_manifest,
                                        .manifest_stored = on_stored,
                                        .retain_begins = on_retain,
                                        .retain_ends = on_retained};
