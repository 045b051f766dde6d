/* Checkpoints while the job runs, and its end (core/README.md, section 11). Every member stores the chunks
 * that are placed on it and tells the leader their hashes; the leader checks that holders agree and sends the
 * whole list, from which every member writes the same manifest; when all have it the checkpoint is
 * complete. */
#include "core/brain/save/checkpoint.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/commit.h"
#include "core/brain/faults/verify.h"
#include "core/brain/job_state.h"
#include "core/brain/members/contacts.h"
#include "core/brain/outbox.h"
#include "core/brain/save/deadlines.h"
#include "core/brain/save/final.h"
#include "core/brain/save/holders.h"
#include "core/brain/save/job_end.h"
#include "core/brain/save/kept.h"
#include "core/brain/self.h"
#include "core/brain/slots.h"
#include "core/brain/state.h"
#include "core/state/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAVE_LASTS_MS = 60000, /* a checkpoint that takes longer is abandoned */
    MOST_DOUBLINGS = 6,    /* after each such checkpoint the next may take twice as long, so that a slow disk
                              completes one */
    /* A disk that refused is tried again, first after the one time, and then ever more rarely up to the
     * other: what it lacks may be there soon, as descriptors are, or in days, as room may be. Once it has
     * refused for the longer time, checkpoints that nobody knows to be complete give way; a peer that knows
     * may still come. */
    WRITE_AGAIN_MS = 4000,
    WRITE_AGAIN_MOST_MS = 60000,
    WARN_AGAIN_MS = 60000,
    WARN_AGAIN_MOST_MS = 600000,
    /* A disk that has written so soon after it refused may be full again at once, and the log waits. */
    RECOVERED_MS = 60000,
};

void gw_saves_free(gw_save *save) {
    free(save->chunks);
    free(save->hashes);
    free(save->own_hashes);
    gw_set_free(&save->known);
    gw_set_free(&save->durable);
    gw_set_free(&save->answered);
    gw_set_free(&save->recorded);
    gw_set_free(&save->placed);
    *save = (gw_save){0};
}

/* Deciding when to save. */

static bool is_due(const gw_peer *p) {
    const gw_peer_config *c = &p->config;
    if (p->save.want_save) return true;
    if (p->now < p->save.save_again_ns && !gw_saves_anyone_writes(p, -1)) return false;
    bool regularly = c->checkpoint_steps != 0 || c->checkpoint_ns != 0;
    if (p->save.save_again_ns != 0 && (regularly || p->save.save_asked)) return true;
    if (c->checkpoint_steps != 0 && (p->state.step + 1) % c->checkpoint_steps == 0) return true;
    return c->checkpoint_ns != 0 && p->now >= p->save.saved_ns + c->checkpoint_ns;
}

void gw_saves_started(gw_peer *p) {
    p->save.saved_ns = p->now;
}

void gw_saves_ask(gw_peer *p) {
    p->save.want_save = true;
}

void gw_saves_ask_stop(gw_peer *p) {
    p->save.want_stop = true;
}

void gw_saves_remind(gw_peer *p) {
    gw_message stop = gw_peer_about_view(p, GW_MSG_ASK_STOP), save = gw_peer_about_view(p, GW_MSG_ASK_SAVE);
    if (p->save.want_stop) gw_peer_send(p, &p->view.current.leader, &stop);
    if (p->save.want_save) gw_peer_send(p, &p->view.current.leader, &save);
}

int64_t gw_saves_decide(const gw_peer *p) {
    int64_t decisions = 0;
    if (!p->save.open.active && is_due(p)) decisions |= GW_DECIDE_SAVE;
    if (p->save.want_stop) decisions |= GW_DECIDE_STOP;
    return decisions;
}

/* Storing chunks. */

bool gw_saves_anyone_writes(const gw_peer *p, int but) {
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if (!p->save.member_unwritable[rank] && (int)rank != but) return true;
    return false;
}

void gw_saves_note_disk(gw_peer *p, uint32_t rank, bool unwritable) {
    p->save.member_unwritable[rank] = p->save.unwritable_to_all[rank] = unwritable;
}

/* Writes the ids of the members whose disks take chunks, and returns how many. They are those that all
 * members know alike, whatever the leader has heard since: a member that leaves a chunk to another one must
 * be sure that the other one stores it. */
static uint32_t writable_members(const gw_peer *p, gw_peer_id *ids) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if (!p->save.unwritable_to_all[rank]) ids[count++] = p->view.current.members[rank].id;
    if (count > 0) return count;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        ids[rank] = p->view.current.members[rank].id;
    return p->view.current.count; /* no disk can write: the hashes are needed nevertheless */
}

static void stored_nothing(gw_peer *p);

static void store_chunks(gw_peer *p, bool hash_only) {
    if (p->save.disk_hangs) { /* a new request would wait behind the one that hangs */
        stored_nothing(p);
        return;
    }
    gw_action *save = gw_peer_act(p, GW_ACT_SAVE);
    save->token = p->save.open.store_token = gw_peer_token(p);
    gw_deadlines_disk_begins(p, save->token);
    save->step = p->save.open.step;
    save->save.hash_only = hash_only;
    if (!hash_only) p->save.part_step = p->save.open.step;
    save->save.count = p->save.open.chunk_count;
    save->save.chunks = gw_actions_copy(p->actions, p->save.open.chunks,
                                        p->save.open.chunk_count * sizeof *p->save.open.chunks);
}

static void on_stored(gw_peer *p, uint32_t rank, const gw_message *m);

void gw_saves_close(gw_peer *p) {
    gw_saves_free(&p->save.open);
}

/* Takes a STORED that came early. A member may have stored its chunks before the leader has applied the
 * step, or, for the last state, before the leader has heard that all members hold it. */
static void take_early(gw_peer *p, const gw_contact *from) {
    const gw_message *m = from->early;
    if (m == NULL) return;
    int rank = gw_view_rank(&p->view.current, &from->id);
    bool fits = rank >= 0 && p->save.open.active && gw_view_name_equal(&m->name, &p->view.current.name) &&
                m->stored.step == p->save.open.step;
    if (fits) on_stored(p, (uint32_t)rank, m);
    if (fits || m->stored.step < p->state.step) gw_contacts_drop_early(p, from);
}

bool gw_saves_before_leaving(const gw_peer *p) {
    return p->save.leaving && p->view.current.count == 1 && p->phase == GW_AT_PAUSED;
}

bool gw_saves_hold_step(const gw_peer *p) {
    return p->save.open.active && p->save.open.holds;
}

void gw_saves_open(gw_peer *p, bool final) {
    gw_saves_free(&p->save.open);
    p->save.held_end = (gw_held_end){.any = false};
    p->save.save_asked |= p->save.want_save;
    p->save.want_save = false;
    uint32_t chunks = p->config.state_chunks;
    gw_peer_id ids[GW_MAX_MEMBERS];
    uint32_t writable = writable_members(p, ids);
    gw_save *s = &p->save.open;
    bool leaves = gw_saves_before_leaving(p); /* this peer waits for this checkpoint and then leaves */
    *s =
        (gw_save){.active = true, .final = final, .step = p->state.step, .fingerprint = p->state.fingerprint};
    s->best = p->state.best;
    s->holds = !final && gw_job_state_is_unsaved_best(p);
    s->looks = final || leaves || s->holds || p->save.step_given_up;
    s->deadline_ns = UINT64_MAX;
    if (gw_peer_is_leader(p) && !final && !leaves)
        s->deadline_ns = p->now + gw_peer_ms(p, (uint64_t)SAVE_LASTS_MS << p->save.late_saves);
    s->chunks = calloc(chunks + 1, sizeof *s->chunks);
    s->hashes = calloc(chunks + 1, sizeof *s->hashes);
    GW_ASSERT_MEMORY(s->chunks != NULL && s->hashes != NULL);
    s->known = gw_set_of(chunks);
    s->durable = gw_set_of(chunks);
    s->answered = gw_set_of(p->view.current.count);
    s->recorded = gw_set_of(p->view.current.count);
    s->placed = gw_set_of(p->view.current.count);
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if (!p->save.unwritable_to_all[rank]) gw_set_add(&s->placed, rank);
    s->chunk_count = gw_placement_list(chunks, ids, writable, p->config.replicas, &p->config.id, s->chunks);
    if (!final) {
        p->save.unsaved_ns = 0;
        p->save.unsaved_logged = false;
    }
    bool last = (final || leaves || s->holds) && !gw_saves_anyone_writes(p, -1);
    bool again = p->save.unwritable && !p->save.disk_hangs && (last || p->now >= p->save.write_again_ns);
    if (again) p->save.unwritable = false;
    bool lacks_room = again && (last || p->now >= p->save.refused_ns + gw_peer_ms(p, WRITE_AGAIN_MOST_MS));
    if (!p->save.unwritable) gw_kept_make_room(p, lacks_room, last);
    store_chunks(p, p->save.unwritable);
    for (uint32_t i = 0; i < p->members.contact_count; i++) take_early(p, &p->members.contacts[i]);
}

void gw_saves_abandon(gw_peer *p) {
    if (!p->save.open.active) return;
    if (!p->save.open.final) {
        p->save.want_save |= !p->save.open.holds; /* the next view begins with one of the best state */
        gw_peer_say(p, GW_INFO, "the checkpoint of step %" PRIu64 " is abandoned; another follows",
                    p->save.open.step);
    }
    /* Staging for an abandoned checkpoint would needlessly hold up the next LOAD or APPLY. What has been
     * stored stays, as it may be part of a manifest by now. */
    if (p->save.open.store_token != 0) gw_peer_act(p, GW_ACT_ABANDON);
    gw_saves_free(&p->save.open);
}

/* Whether a warning is logged now. */
static bool warns_now(const gw_peer *p, gw_repeated_warning *warning) {
    if (p->now < warning->again_ns) return false;
    uint64_t least_ns = gw_peer_ms(p, WARN_AGAIN_MS), most_ns = gw_peer_ms(p, WARN_AGAIN_MOST_MS);
    warning->wait_ns = warning->wait_ns == 0 ? least_ns : 2 * warning->wait_ns;
    if (warning->wait_ns > most_ns) warning->wait_ns = most_ns;
    warning->again_ns = p->now + warning->wait_ns;
    return true;
}

/* At the leader. */

static void record_manifest(gw_peer *p) {
    const gw_save *s = &p->save.open;
    gw_action *manifest = gw_peer_act(p, GW_ACT_MANIFEST);
    manifest->token = p->save.open.manifest_token = gw_peer_token(p);
    manifest->manifest.epoch = gw_kept_epoch(p, p->view.current.epoch);
    manifest->step = s->step;
    manifest->manifest.fingerprint = s->fingerprint;
    manifest->manifest.count = s->known.size;
    manifest->manifest.hashes = gw_actions_copy(p->actions, s->hashes, s->known.size * sizeof *s->hashes);
    manifest->manifest.hash_only = s->incomplete || p->save.unwritable;
    manifest->manifest.ended = s->final && !p->state.stopped;
    manifest->manifest.best = s->best;
    if (!manifest->manifest.hash_only) gw_deadlines_disk_begins(p, manifest->token);
}

static gw_message list_of_chunks(const gw_peer *p) {
    gw_message message = gw_peer_about_view(p, GW_MSG_MANIFEST);
    message.manifest.step = p->save.open.step;
    message.manifest.fingerprint = p->save.open.fingerprint;
    message.manifest.hashes = p->save.open.hashes;
    message.manifest.count = p->save.open.known.size;
    message.manifest.incomplete = p->save.open.incomplete;
    return message;
}

/* If copies were placed on a disk that has failed meanwhile, gives the checkpoint up and has another written,
 * which will not use that disk. Returns whether it did. */
static bool placed_anew(gw_peer *p) {
    if (!p->save.open.lacks_copies || !gw_saves_anyone_writes(p, -1)) return false;
    gw_peer_say(p, GW_WARN,
                "a disk failed while the checkpoint of step %" PRIu64
                " was written: it is written again elsewhere",
                p->save.open.step);
    if (p->save.open.final || p->save.open.holds) {
        gw_agenda_change_view(p, "a disk failed before the %s checkpoint was complete",
                              p->save.open.final ? "final" : "best state's");
        return true;
    }
    p->save.want_save = true;
    gw_saves_free(&p->save.open);
    return true;
}

static void note_disk(gw_peer *p, uint32_t rank, bool failed) {
    p->save.open.lacks_copies |= failed && gw_set_has(&p->save.open.placed, rank);
    p->save.member_unwritable[rank] |= failed;
}

/* The time at which a disk is tried again after this many refusals in a row, of which the last is now. */
static uint64_t write_again_at(const gw_peer *p, uint32_t times) {
    uint64_t wait_ms = WRITE_AGAIN_MS;
    GW_ASSERT(times > 0);
    while (--times > 0 && wait_ms < WRITE_AGAIN_MOST_MS) wait_ms *= 2;
    return p->now + gw_peer_ms(p, wait_ms < WRITE_AGAIN_MOST_MS ? wait_ms : WRITE_AGAIN_MOST_MS);
}

/* No member could store the checkpoint. Before a disk is tried again, or a peer with a working disk comes,
 * the next one would only be hashed. After that it is due, however long the interval is. */
static void ended_unsaved(gw_peer *p) {
    p->save.save_again_ns = write_again_at(p, ++p->save.unsaved_times);
}

/* All members hold the state that is being saved. If it is the present one, the step that led to it is
 * committed. */
static void note_agreement(gw_peer *p) {
    if (p->state.step == p->save.open.step) gw_commit_agreed(p);
}

static void complete(gw_peer *p, uint64_t step, const gw_hash *root, bool unsaved);

/* Sends the members the end of the checkpoint, or one of them that has a new link. */
static void say_held_end(gw_peer *p, const gw_peer_id *to) {
    const gw_held_end *end = &p->save.held_end;
    if (!end->any || end->step != p->state.step) return;
    gw_message message = gw_peer_about_view(p, GW_MSG_COMPLETE);
    message.complete.step = end->step;
    message.complete.root = end->root;
    message.complete.unsaved = end->unsaved;
    if (to != NULL)
        gw_peer_send(p, to, &message);
    else
        gw_peer_send_members(p, &message);
}

/* Gives up the checkpoint of the best state, and tells the members, which wait for it. */
static void give_best_up(gw_peer *p) {
    const gw_hash none = {0};
    GW_ASSERT(gw_saves_hold_step(p));
    p->save.held_end = (gw_held_end){.any = true, .unsaved = true, .step = p->save.open.step};
    say_held_end(p, NULL);
    complete(p, p->save.open.step, &none, true);
}

static void all_answered(gw_peer *p) {
    gw_save *s = &p->save.open;
    note_agreement(p);
    if (placed_anew(p)) return;
    bool known = gw_set_count(&s->known) == s->known.size,
         durable = gw_set_count(&s->durable) == s->durable.size;
    if (!known || (!durable && !s->final)) {
        char unsaved[GW_HOLDERS_TEXT];
        if (warns_now(p, &p->save.given_up_warning))
            gw_peer_say(p, GW_WARN,
                        "the checkpoint of step %" PRIu64 " is given up: no disk could store %u of its %u "
                        "chunks. %s; it is tried again, each minute in "
                        "the end",
                        s->step, s->durable.size - gw_set_count(&s->durable), s->durable.size,
                        gw_holders_unsaved(p, unsaved));
        if (s->final) {
            gw_final_retry_hashing(p);
            return;
        }
        if (s->holds) {
            give_best_up(p);
            return;
        }
        ended_unsaved(p);
        gw_saves_free(s);
        return;
    }
    p->save.final_failures = 0;
    if (!durable && gw_final_waits_for_room(p)) return;
    s->listed = true;
    s->incomplete = !durable;
    gw_message message = list_of_chunks(p);
    gw_peer_send_members(p, &message);
    record_manifest(p);
}

static void on_stored(gw_peer *p, uint32_t rank, const gw_message *m) {
    gw_save *s = &p->save.open;
    char id[GW_SHORT_TEXT];
    if (gw_set_has(&s->answered, rank)) return; /* the message was sent again */
    note_disk(p, rank, m->stored.unwritable);
    if (m->stored.fingerprint != s->fingerprint) {
        gw_peer_say(p, GW_ERROR,
                    "peer %s and the leader hold different states of step %" PRIu64 ": checkpoint given up",
                    gw_peer_id_short(&p->view.current.members[rank].id, id), s->step);
        gw_agenda_change_view(p, "the members' states differ at a checkpoint");
        return;
    }
    for (uint32_t i = 0; i < m->stored.count; i++) {
        uint32_t chunk = m->stored.chunks[i];
        if (chunk >= s->known.size) return;
        if (gw_set_has(&s->known, chunk) && !gw_hash_equal(&s->hashes[chunk], &m->stored.hashes[i])) {
            gw_peer_say(
                p, GW_ERROR,
                "peer %s and another one have other bits each in chunk %u of the state of step %" PRIu64
                ": checkpoint given up",
                gw_peer_id_short(&p->view.current.members[rank].id, id), chunk, s->step);
            gw_agenda_suspect_states(p);
            gw_agenda_change_view(p, "holders of chunk %u disagree", chunk);
            return;
        }
        gw_set_add(&s->known, chunk);
        s->hashes[chunk] = m->stored.hashes[i];
        if (!m->stored.unwritable) gw_set_add(&s->durable, chunk);
    }
    if (m->stored.count > 0 && !m->stored.unwritable)
        p->save.member_unwritable[rank] = false; /* the disk has room again */
    gw_set_add(&s->answered, rank);
    if (gw_set_count(&s->answered) == p->view.current.count) all_answered(p);
}

static void on_recorded(gw_peer *p, uint32_t rank, const gw_hash *root, bool failed) {
    gw_save *s = &p->save.open;
    if (gw_set_count(&s->recorded) == 0) s->root = *root;
    if (!gw_hash_equal(&s->root, root)) {
        gw_agenda_change_view(p, "members computed different roots of step %" PRIu64, s->step);
        return;
    }
    note_disk(p, rank, failed);
    gw_set_add(&s->recorded, rank);
    if (gw_set_count(&s->recorded) < p->view.current.count || placed_anew(p)) return;
    bool final = s->final, unsaved = s->incomplete || !gw_saves_anyone_writes(p, -1);
    if (final && unsaved && gw_final_waits_for_room(p)) return;
    gw_hash whole = *root;
    gw_message message = gw_peer_about_view(p, final ? GW_MSG_END : GW_MSG_COMPLETE);
    if (final) {
        message.end.step = s->step;
        message.end.root = whole;
        message.end.stopped = p->state.stopped;
        message.end.unsaved = unsaved;
    } else {
        message.complete.step = s->step;
        message.complete.root = whole;
        message.complete.unsaved = unsaved;
    }
    gw_peer_send_members(p, &message);
    if (s->holds)
        p->save.held_end = (gw_held_end){.any = true, .unsaved = unsaved, .step = s->step, .root = whole};
    complete(p, s->step, &whole, unsaved);
}

/* At every member. */

static void note_written(gw_peer *p) {
    const gw_save *s = &p->save.open;
    const gw_checkpoint_ref one = {s->step, s->own_root};
    if (s->incomplete) return;
    gw_kept_recorded(p, &one);
    if (p->save.unwritable) return;
    const gw_inventory what = {.epoch = gw_kept_epoch(p, p->view.current.epoch),
                               .step = s->step,
                               .root = s->own_root,
                               .fingerprint = s->fingerprint,
                               .ended = s->final && !p->state.stopped,
                               .chunks = {.size = p->config.state_chunks}};
    gw_kept_take_back(p, &s->own_root);
    gw_peer_inventory_wrote(&p->inventory, &what, s->chunks, s->chunk_count);
}

/* Logs that the best state so far will not be there, and which other one is. */
static void say_best_unsaved(gw_peer *p, uint64_t step) {
    const gw_best *best = &p->state.best;
    char other[80] = "no other one is";
    if (best->kept.step > 0) snprintf(other, sizeof other, "that of step %" PRIu64 " stays", best->kept.step);
    gw_peer_say(p, GW_WARN, "the best state so far (%s), of step %" PRIu64 ", could not be saved: %s",
                p->config.best_by, step, other);
}

/* Ends a checkpoint whose chunks are on the disks of the members at `placed`. */
static void end_save(gw_peer *p, uint64_t step, const gw_hash *root, const gw_set *placed, bool final,
                     bool unsaved) {
    if (final && unsaved) {
        gw_final_unsaved(p, step, root);
        return;
    }
    if (unsaved) {
        char text[GW_HOLDERS_TEXT];
        ended_unsaved(p);
        if (warns_now(p, &p->save.given_up_warning))
            gw_peer_say(p, GW_WARN,
                        "the state of step %" PRIu64 " is not saved: no disks could store all of it. %s; it "
                        "is tried again, each minute in the end",
                        step, gw_holders_unsaved(p, text));
    } else {
        p->save.late_saves = p->save.unsaved_times = 0;
        p->save.save_asked = false;
        p->save.given_up_warning = (gw_repeated_warning){0};
        gw_kept_complete(p, step, root, placed);
    }
    if (!final) {
        p->save.completed = (gw_completed){.any = true, .unsaved = unsaved, .root = *root};
        return;
    }
    p->save.end.unsaved = false;
    p->save.end_sent = true;
    gw_peer_finish(p, p->state.stopped ? GW_FINISH_STOPPED : GW_FINISH_DONE, root, "step %" PRIu64, step);
}

static void complete(gw_peer *p, uint64_t step, const gw_hash *root, bool unsaved) {
    bool final = p->save.open.final;
    if (p->save.open.holds && unsaved) {
        say_best_unsaved(p, step);
        if (p->save.open.store_token != 0) gw_peer_act(p, GW_ACT_ABANDON);
    }
    gw_set placed = p->save.open.placed;
    p->save.open.placed = (gw_set){0};
    gw_saves_free(&p->save.open);
    end_save(p, step, root, &placed, final, unsaved);
    gw_set_free(&placed);
}

static gw_message stored_message(const gw_peer *p) {
    const gw_save *s = &p->save.open;
    gw_message message = gw_peer_about_view(p, GW_MSG_STORED);
    message.stored.step = s->step;
    message.stored.fingerprint = s->fingerprint;
    message.stored.unwritable = p->save.unwritable;
    message.stored.chunks = s->chunks;
    message.stored.hashes = s->own_hashes;
    message.stored.count = s->own_count;
    return message;
}

static void say_stored(gw_peer *p) {
    gw_message message = stored_message(p);
    gw_peer_send(p, &p->view.current.leader, &message);
}

static void say_recorded(gw_peer *p) {
    gw_message message = gw_peer_about_view(p, GW_MSG_RECORDED);
    message.recorded.step = p->save.open.step;
    message.recorded.root = p->save.open.own_root;
    message.recorded.unwritten = p->save.open.own_unrecorded;
    gw_peer_send(p, &p->view.current.leader, &message);
}

void gw_saves_link_up(gw_peer *p, const gw_contact *contact) {
    const gw_save *s = &p->save.open;
    bool to_leader = gw_peer_id_equal(&contact->id, &p->view.current.leader);
    if (to_leader) gw_saves_remind(p);
    if (gw_peer_is_leader(p)) say_held_end(p, &contact->id);
    if (!s->active) return;
    if (gw_peer_is_leader(p) && s->listed) {
        gw_message message = list_of_chunks(p);
        gw_peer_send(p, &contact->id, &message);
    }
    if (!to_leader) return;
    if (s->own_stored) say_stored(p);
    if (s->own_recorded) say_recorded(p);
}

static void cannot_write(gw_peer *p) {
    p->save.unwritable = true;
    p->save.last_refused_ns = p->now;
    if (p->save.refusals == 0) p->save.refused_ns = p->now;
    p->save.write_again_ns = write_again_at(p, ++p->save.refusals);
}

/* Logs the refusal of the disk, now and again, as the disk may stay full for days. */
static void say_unwritable(gw_peer *p, const gw_event *event) {
    snprintf(p->save.unwritable_why, sizeof p->save.unwritable_why, "%s", gw_peer_why(event));
    p->save.unwritable_logged = true;
    p->save.recovery_unsaid = false;
    if (!warns_now(p, &p->save.unwritable_warning)) return;
    bool others = gw_saves_anyone_writes(p, gw_peer_own_rank(p));
    char unsaved[GW_HOLDERS_TEXT];
    gw_peer_say(p, GW_WARN,
                "checkpoints cannot be written here: %s; the run goes on, and this disk is tried again, each "
                "minute in the end; %s",
                gw_peer_why(event), others ? "others keep its share" : gw_holders_unsaved(p, unsaved));
}

/* The disk has written its part of a checkpoint. If no chunks were placed on it, the manifest alone has
 * been written, and whether there is room for chunks shows with the next checkpoint. A disk that is nearly
 * full takes what is small and refuses the rest, in turn: the log hears of it only when it has not refused
 * for a while. */
static void took_part(gw_peer *p) {
    const gw_save *s = &p->save.open;
    if (s->chunk_count == 0 && !gw_set_has(&s->placed, (uint32_t)gw_peer_own_rank(p))) return;
    p->save.refusals = 0;
    p->save.recovery_unsaid |= p->save.unwritable_logged;
    p->save.unwritable_logged = false;
    if (!p->save.recovery_unsaid || p->now < p->save.last_refused_ns + gw_peer_ms(p, RECOVERED_MS)) return;
    p->save.recovery_unsaid = false;
    p->save.unwritable_warning = (gw_repeated_warning){0};
    gw_peer_say(p, GW_INFO, "checkpoints can be written here again");
}

static void say_stored_to_leader(gw_peer *p) {
    p->save.open.own_stored = true;
    if (gw_peer_is_leader(p)) {
        const gw_message own = stored_message(p);
        on_stored(p, (uint32_t)gw_peer_own_rank(p), &own);
        return;
    }
    say_stored(p);
}

/* Notes the hashes of the chunks that this peer has stored; without hashes it has stored none. A state
 * that has changed in memory since it was made would show in the next step. If no step ends before the
 * checkpoint is recorded, as with the final state, the best one or where the last peer leaves, the state
 * is checked now, after it was hashed, so that what was hashed is sound. */
static void tell_stored(gw_peer *p, const gw_hash *hashes, uint32_t count) {
    gw_save *s = &p->save.open;
    s->own_hashes = calloc(count + 1, sizeof *s->own_hashes);
    GW_ASSERT_MEMORY(s->own_hashes != NULL);
    if (count > 0) memcpy(s->own_hashes, hashes, count * sizeof *s->own_hashes);
    s->own_count = count;
    if (s->looks)
        gw_verify_look(p);
    else
        say_stored_to_leader(p);
}

void gw_saves_sound(gw_peer *p) {
    const gw_save *s = &p->save.open;
    if (s->active && s->looks && s->own_hashes != NULL && !s->own_stored) say_stored_to_leader(p);
}

static void stored_nothing(gw_peer *p) {
    p->save.unwritable = true;
    if (p->save.open.final && p->save.unsaved_ns == 0)
        p->save.unsaved_ns = p->now; /* so that a later leader does not begin the wait anew */
    tell_stored(p, NULL, 0);
}

void gw_saves_disk_hangs(gw_peer *p) {
    gw_save *s = &p->save.open;
    cannot_write(p);
    gw_peer_act(p, GW_ACT_ABANDON);
    if (!s->active) return;
    if (s->store_token != 0) {
        s->store_token = 0;
        stored_nothing(p);
    } else if (s->manifest_token != 0) {
        s->unwritten = true;
        record_manifest(p); /* its root is needed nevertheless */
    }
}

/* Whether a lone peer saves the last state before it ends or leaves, or the best one so far: no other disk
 * can take it, and no later one is worth more. */
static bool is_last_of_one(const gw_peer *p) {
    const gw_save *s = &p->save.open;
    return p->view.current.count == 1 && !p->save.disk_hangs &&
           (s->final || s->holds || gw_saves_before_leaving(p));
}

void gw_saves_stored(gw_peer *p, const gw_event *event) {
    gw_save *s = &p->save.open;
    gw_deadlines_disk_ends(p, event->token);
    if (!s->active || event->token != s->store_token) return;
    s->store_token = 0;
    bool failed = event->outcome != GW_DONE;
    bool present = p->state.present && p->state.step == s->step && !p->step.applying; /* it is still there */
    if (failed && !p->save.unwritable && present && is_last_of_one(p) && gw_kept_has_older(p)) {
        gw_kept_make_room(p, true, true);
        store_chunks(p, false);
        return;
    }
    if (failed && !p->save.unwritable) {
        cannot_write(p);
        say_unwritable(p, event);
        if (present) { /* others may need the hashes */
            store_chunks(p, true);
            return;
        }
    }
    if (failed) {
        stored_nothing(p);
        return;
    }
    GW_ASSERT(event->stored.count == s->chunk_count);
    tell_stored(p, event->stored.hashes, s->chunk_count);
}

void gw_saves_manifest_stored(gw_peer *p, const gw_event *event) {
    gw_save *s = &p->save.open;
    gw_deadlines_disk_ends(p, event->token);
    if (!s->active || event->token != s->manifest_token) return;
    s->manifest_token = 0;
    if (event->outcome != GW_DONE) {
        cannot_write(p);
        say_unwritable(p, event);
    } else if (!p->save.unwritable) {
        took_part(p);
    }
    s->own_unrecorded = event->outcome != GW_DONE || s->unwritten;
    /* If the leader nevertheless goes on without a disk that can write, no peer has written the manifest. */
    s->incomplete |= s->own_unrecorded && !gw_saves_anyone_writes(p, gw_peer_own_rank(p));
    s->own_root = event->manifest_stored.root;
    if (s->final)
        gw_end_recorded(p, s->step, s->fingerprint, &event->manifest_stored.root, p->state.stopped,
                        s->incomplete);
    s->own_recorded = true;
    note_written(p);
    if (gw_peer_is_leader(p)) {
        on_recorded(p, (uint32_t)gw_peer_own_rank(p), &event->manifest_stored.root, s->own_unrecorded);
        return;
    }
    say_recorded(p);
}

/* Answers a RECORDED for a checkpoint that is complete: the link to the member broke before COMPLETE reached
 * it. */
static void say_complete_again(gw_peer *p, const gw_contact *to, const gw_hash *recorded) {
    gw_message message = gw_peer_about_view(p, GW_MSG_COMPLETE);
    const gw_checkpoint_ref *whole = gw_kept_newest(p);
    GW_ASSERT(whole != NULL);
    if (!gw_hash_equal(&whole->root, recorded)) return; /* the step was made again, with other sums */
    message.complete.step = whole->step;
    message.complete.root = whole->root;
    gw_peer_send(p, &to->id, &message);
}

static void on_list(gw_peer *p, const gw_message *m) {
    gw_save *s = &p->save.open;
    if (s->manifest_token != 0 || s->own_recorded) return;
    if (m->manifest.count != s->known.size || m->manifest.fingerprint != s->fingerprint) return;
    s->incomplete = m->manifest.incomplete;
    note_agreement(p);
    if (m->manifest.count > 0) memcpy(s->hashes, m->manifest.hashes, m->manifest.count * sizeof *s->hashes);
    record_manifest(p);
}

/* Whether the checkpoint of this step is being made. */
static bool is_open(const gw_peer *p, uint64_t step) {
    return p->save.open.active && step == p->save.open.step;
}

void gw_saves_receive(gw_peer *p, const gw_contact *from, gw_message *m) {
    int rank = p->view.current.epoch == 0 ? -1 : gw_view_rank(&p->view.current, &from->id);
    if (rank < 0 || !gw_view_name_equal(&m->name, &p->view.current.name)) {
        if (m->kind == GW_MSG_COMPLETE) gw_kept_receive_complete(p, m);
        return;
    }
    bool leads = gw_peer_id_equal(&from->id, &p->view.current.leader), led = gw_peer_is_leader(p);
    switch (m->kind) {
    case GW_MSG_STORED:
        if (led && is_open(p, m->stored.step))
            on_stored(p, (uint32_t)rank, m);
        else if (led && m->stored.step >= p->state.step)
            gw_contacts_keep_early(p, from, m);
        break;
    case GW_MSG_MANIFEST:
        if (leads && is_open(p, m->manifest.step)) on_list(p, m);
        break;
    case GW_MSG_RECORDED:
        if (led && is_open(p, m->recorded.step))
            on_recorded(p, (uint32_t)rank, &m->recorded.root, m->recorded.unwritten);
        else if (led && p->save.kept_count > 0 && m->recorded.step == p->save.saved_step)
            say_complete_again(p, from, &m->recorded.root);
        break;
    case GW_MSG_COMPLETE:
        if (leads && is_open(p, m->complete.step))
            complete(p, m->complete.step, &m->complete.root, m->complete.unsaved);
        else if (leads)
            gw_kept_receive_complete(p, m);
        break;
    case GW_MSG_END:
        if (leads && is_open(p, m->end.step)) complete(p, m->end.step, &m->end.root, m->end.unsaved);
        break;
    case GW_MSG_ASK_STOP:
        p->save.want_stop = true;
        break;
    case GW_MSG_ASK_SAVE:
        p->save.want_save = true;
        break;
    default:
        break;
    }
}

bool gw_saves_end_without_leader(gw_peer *p, const gw_contact *gone) {
    bool through = p->save.open.active && p->save.open.final && p->save.open.own_recorded && gone->at_end &&
                   gw_peer_id_equal(&gone->id, &p->view.current.leader);
    gw_hash root = p->save.open.own_root;
    if (!through || !gw_end_is_of(p, gone, p->save.open.step, p->save.open.fingerprint, &root)) return false;
    complete(p, p->save.open.step, &root, gone->unsaved);
    return true;
}

void gw_saves_end(gw_peer *p) {
    p->phase = GW_AT_ENDING;
    gw_saves_open(p, true);
}

/* Time. */

void gw_saves_consider(gw_peer *p) {
    if (p->save.open.active && p->now >= p->save.open.deadline_ns) {
        gw_peer_say(p, GW_WARN, "the checkpoint of step %" PRIu64 " takes too long (a slow disk?)",
                    p->save.open.step);
        if (p->save.late_saves < MOST_DOUBLINGS) p->save.late_saves++;
        if (p->save.open.holds)
            give_best_up(p);
        else
            gw_saves_abandon(p);
    }
    gw_final_consider(p);
}

uint64_t gw_saves_deadline(const gw_peer *p) {
    uint64_t next = p->save.open.active ? p->save.open.deadline_ns : UINT64_MAX;
    return p->save.open.again_ns != 0 && p->save.open.again_ns < next ? p->save.open.again_ns : next;
}
