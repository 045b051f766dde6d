/* The peers that this one knows (contacts): what gossip reports of them, their metadata, links and HELLO. */
#include "core/brain/members/contacts.h"

#include "core/base/assert.h"
#include "core/brain/members/inside.h"
#include "core/brain/members/poison.h"
#include "core/brain/members/strangers.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    META_VERSION = 2,
    AGAIN_MS = 10000,  /* a peer that stays for less time is said to come again and again */
    AWAY_MS = 120000,  /* a peer that was away for longer counts as new */
    REFUSED_MS = 2000, /* the news that an address refused a connection is at most this old */
};

void gw_contacts_drop_early(gw_peer *p, const gw_contact *contact) {
    if (contact->early == NULL) return;
    gw_message_free(contact->early);
    free(contact->early);
    gw_contacts_own(p, contact)->early = NULL;
}

void gw_contacts_keep_early(gw_peer *p, const gw_contact *contact, gw_message *m) {
    gw_contacts_drop_early(p, contact);
    gw_message *early = malloc(sizeof *early);
    GW_ASSERT_MEMORY(early != NULL);
    *early = *m;
    memset(m, 0, sizeof *m);
    gw_contacts_own(p, contact)->early = early;
}

void gw_contacts_close(gw_peer *p) {
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        gw_contacts_drop_early(p, &p->members.contacts[i]);
    free(p->members.contacts);
    gw_id_index_free(&p->members.contact_index);
}

static gw_id_records records(const gw_peer *p) {
    return (gw_id_records){p->members.contacts, sizeof *p->members.contacts};
}

const gw_contact *gw_peer_contact(const gw_peer *p, const gw_peer_id *id) {
    uint32_t number = gw_id_index_find(&p->members.contact_index, records(p), id);
    return number == UINT32_MAX ? NULL : &p->members.contacts[number];
}

static gw_contact *find(gw_peer *p, const gw_peer_id *id) {
    const gw_contact *contact = gw_peer_contact(p, id);
    return contact == NULL ? NULL : gw_contacts_own(p, contact);
}

static bool has_peer(const gw_view *views, uint32_t count, const gw_peer_id *id) {
    for (uint32_t i = 0; i < count; i++)
        if (views[i].epoch > 0 && gw_view_rank(&views[i], id) >= 0) return true;
    return false;
}

/* Whether a contact is not needed any more: no decision that this peer may still have to make depends on it,
 * and the world and gossip have forgotten it. */
static bool is_forgotten(const gw_peer *p, const gw_contact *c) {
    if (c->alive || c->linked || c->wanted || c->early != NULL) return false;
    if ((c->at_end || c->sent_end) && gw_contacts_same_job(p, c))
        return false; /* it knows of the job's end */
    if (gw_gossip_find(p->gossip, &c->id) != NULL) return false;
    return !has_peer(&p->view.current, 1, &c->id) && !has_peer(&p->view.voted, 1, &c->id) &&
           !has_peer(&p->view.attempt.view, 1, &c->id) && !has_peer(&p->view.ballot.installed, 1, &c->id) &&
           !has_peer(p->view.ballot.later, p->view.ballot.later_count, &c->id) &&
           !has_peer(p->view.learned, p->view.learned_count, &c->id);
}

/* Removes the contacts that are not needed. A peer without a view keeps them all, because it judges by the
 * peers that it has met whether it has missed the job. */
static void forget_contacts(gw_peer *p) {
    uint32_t kept = 0;
    if (p->members.contacts == NULL || p->view.current.epoch == 0) return;
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        if (!is_forgotten(p, &p->members.contacts[i])) p->members.contacts[kept++] = p->members.contacts[i];
    if (kept == p->members.contact_count) return;
    p->members.contact_count = kept;
    gw_id_index_rebuild(&p->members.contact_index, records(p), kept);
}

/* Makes room for one more contact. The array grows unless a quarter of it has become free, so that contacts
 * are rarely searched for some to forget. */
static void make_room(gw_peer *p) {
    if (p->members.contact_count < p->members.contact_capacity) return;
    forget_contacts(p);
    if (p->members.contact_count < p->members.contact_capacity - p->members.contact_capacity / 4) return;
    p->members.contact_capacity = p->members.contact_capacity == 0 ? 8 : 2 * p->members.contact_capacity;
    gw_contact *grown = realloc(p->members.contacts, p->members.contact_capacity * sizeof *grown);
    GW_ASSERT_MEMORY(grown != NULL);
    p->members.contacts = grown;
    bool room = gw_id_index_reserve(&p->members.contact_index, records(p), p->members.contact_count,
                                    p->members.contact_capacity);
    GW_ASSERT_MEMORY(room);
}

/* Adds a contact. Pointers to other contacts are invalid afterwards. */
static gw_contact *add_contact(gw_peer *p, const gw_peer_id *id) {
    make_room(p);
    GW_ASSERT(p->members.contacts != NULL);
    gw_contact *contact = &p->members.contacts[p->members.contact_count];
    *contact = (gw_contact){.id = *id, .checkpoint_step = UINT64_MAX, .claims_lost = UINT64_MAX};
    gw_id_index_put(&p->members.contact_index, records(p), p->members.contact_count++);
    return contact;
}

/* Metadata in gossip. */

/* Sets what metadata says to the state of a life that has sent none yet. */
static void clear_metadata(gw_contact *contact) {
    contact->has_view = contact->at_end = contact->leaving = contact->blameless = contact->unsaved = false;
    memset(contact->job, 0, sizeof contact->job);
    contact->epoch = contact->step = contact->fingerprint = contact->speed = 0;
    contact->checkpoint_step = UINT64_MAX;
    contact->view_name = (gw_view_name){0};
    contact->leader = (gw_peer_id){0};
    contact->view_count = contact->fatal_shard_plus_1 = 0;
}

/* Takes a member's metadata over. Metadata that is empty or of another version is ignored. */
static void read_metadata(gw_peer *p, gw_contact *contact, const gw_gossip_member *member) {
    gw_reader r = gw_reader_on(member->meta, member->meta_bytes);
    uint8_t version = gw_get_u8(&r), flags = gw_get_u8(&r);
    uint8_t job[8];
    gw_get_bytes(&r, job, sizeof job);
    gw_contact next = *contact;
    next.has_view = flags & 1;
    next.at_end = flags >> 1 & 1;
    next.leaving = flags >> 2 & 1;
    next.blameless = flags >> 3 & 1;
    next.unsaved = flags >> 4 & 1;
    memcpy(next.job, job, sizeof job);
    next.epoch = gw_get_epoch(&r);
    gw_get_view_name(&r, &next.view_name);
    gw_get_peer_id(&r, &next.leader);
    next.view_count = gw_get_u32(&r);
    next.step = gw_get_u64(&r);
    next.fingerprint = gw_get_u64(&r);
    next.checkpoint_step = gw_get_u64(&r);
    next.speed = gw_get_u64(&r);
    next.fatal_shard_plus_1 = gw_get_u32(&r);
    if (version != META_VERSION || !gw_reader_done(&r)) return;
    *contact = next;
    if (next.epoch > p->members.gossiped_epoch) p->members.gossiped_epoch = next.epoch;
}

uint64_t gw_contacts_own_checkpoint(const gw_peer *p) {
    const gw_inventory *newest = gw_peer_inventory_newest(&p->inventory);
    if (p->save.kept_count == 0) return newest != NULL ? newest->step : UINT64_MAX;
    for (uint32_t i = p->save.kept_count; i-- > 0;) {
        const gw_inventory *here = gw_peer_inventory_find(&p->inventory, &p->save.kept[i].root);
        if (here != NULL && gw_set_count(&here->chunks) > 0) return p->save.kept[i].step;
    }
    return UINT64_MAX;
}

void gw_contacts_announce(gw_peer *p) {
    uint8_t bytes[GW_GOSSIP_META_BYTES];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    uint64_t known = gw_contacts_own_checkpoint(p);
    gw_put_u8(&w, META_VERSION);
    gw_put_u8(&w, (uint8_t)((p->view.current.epoch > 0) | (p->save.end_sent << 1) | (p->save.leaving << 2) |
                            (p->members.blameless << 3) | (p->save.end.unsaved << 4)));
    gw_put_bytes(&w, p->job.bytes, 8);
    gw_put_u64(&w, p->view.current.epoch);
    gw_put_view_name(&w, &p->view.current.name);
    gw_put_peer_id(&w, &p->view.current.leader);
    gw_put_u32(&w, p->view.current.count);
    gw_put_u64(&w, p->state.step);
    gw_put_u64(&w, p->state.fingerprint);
    gw_put_u64(&w, known);
    gw_put_u64(&w, p->step.own_speed);
    gw_put_u32(&w, p->members.fatal_shard_plus_1);
    GW_ASSERT(!w.failed);
    if (w.length == p->members.meta_length && memcmp(bytes, p->members.meta, w.length) == 0) return;
    memcpy(p->members.meta, bytes, w.length);
    p->members.meta_length = w.length;
    gw_gossip_set_meta(p->gossip, bytes, w.length, p->now);
}

/* Events of gossip. */

static void want_link(gw_peer *p, gw_contact *contact, const gw_gossip_member *member) {
    if (member->addr_count == 0) return;
    gw_action *action = gw_peer_act(p, GW_ACT_LINK);
    action->peer = contact->id;
    action->link.wanted = true;
    action->link.addr_count = member->addr_count;
    action->link.addrs =
        gw_actions_copy(p->actions, member->addr, member->addr_count * sizeof member->addr[0]);
    contact->wanted = true;
}

void gw_contacts_look_for(gw_peer *p, const gw_contact *contact) {
    const gw_gossip_member *member = gw_gossip_find(p->gossip, &contact->id);
    if (member != NULL && !contact->alive && !contact->ended && !contact->wanted)
        want_link(p, gw_contacts_own(p, contact), member);
}

static void drop_link(gw_peer *p, gw_contact *contact) {
    if (!contact->wanted) return;
    gw_peer_act(p, GW_ACT_LINK)->peer = contact->id;
    contact->wanted = false;
    if (contact->linked) contact->unlinked_since_ns = p->now;
    p->members.links_due_ns = 0;
    contact->linked = contact->greeted =
        false; /* the world does not report the end of a link that is not wanted */
}

/* Forgets what came over the last link if that was to another life than this one. */
static void see_life(gw_contact *contact, const gw_incarnation *life) {
    if (gw_same_life(&contact->linked_life, life)) return;
    contact->ran_this_job = contact->sent_end = contact->sent_fell = false;
    contact->data_missing = contact->data_flaps = false;
}

static void begin_life(gw_contact *contact, const gw_incarnation *life) {
    clear_metadata(contact);
    contact->incarnation = *life;
    contact->refusal_state = (gw_view_ref){0};
    contact->ended = false;
}

/* Notes that a peer has come. It comes again and again if its last stay was short: its last life, or if this
 * is still the same life, the time between two silences. */
static void note_coming(const gw_peer *p, gw_contact *contact, bool new_life) {
    uint64_t until_ns = contact->alive ? p->now : contact->gone_ns;
    uint64_t since_ns = new_life ? contact->life_since_ns : contact->alive_since_ns;
    bool back = contact->alive || p->now < contact->gone_ns + gw_peer_ms(p, AWAY_MS);
    bool again = back && contact->came_ns != 0 && until_ns < since_ns + gw_peer_ms(p, AGAIN_MS);
    if (!again) contact->came_ns = p->now;
    if (new_life) contact->life_since_ns = p->now;
}

static void peer_alive(gw_peer *p, const gw_gossip_member *member, const gw_incarnation *life) {
    gw_contact *contact = find(p, &member->id);
    if (contact == NULL) contact = add_contact(p, &member->id);
    bool new_life = !gw_same_life(&contact->incarnation, life), news = !contact->alive || new_life;
    if (new_life) begin_life(contact, life);
    contact->incarnation = *life;
    see_life(contact, life);
    read_metadata(p, contact, member);
    if (!news) return;
    note_coming(p, contact, new_life);
    contact->alive = true;
    p->members.links_due_ns = 0;
    contact->ended = false;
    contact->alive_since_ns = p->now;
    if (!contact->linked) contact->unlinked_since_ns = p->now;
    want_link(p, contact, member);
    gw_peer_notice(p, GW_NOTICE_PEER_ALIVE, " ")->peer = member->id;
}

/* Takes over the metadata that comes with an event. It may be of a life that this peer has never heard to be
 * alive, because it came and went between two rounds of gossip. If such a life was in no view and does not
 * report the job's end, its metadata is ignored, and that of the life before it is kept. */
static void read_words(gw_peer *p, gw_contact *contact, const gw_gossip_event *event) {
    const gw_incarnation *life = &event->incarnation;
    if (gw_same_life(&contact->incarnation, life)) {
        read_metadata(p, contact, event->member);
        return;
    }
    if (life->boot <= contact->incarnation.boot) return; /* a later life is known from a link */
    gw_contact next = *contact;
    begin_life(&next, life);
    see_life(&next, life);
    read_metadata(p, &next, event->member);
    if (contact->incarnation.boot == 0 || next.has_view || next.at_end) *contact = next;
}

/* Whether this process has been linked to this life of the peer, or to an earlier one. */
static bool has_met_by(const gw_contact *contact, uint64_t boot) {
    return contact->linked_life.boot != 0 && boot >= contact->linked_life.boot;
}

/* A peer has died or left. If this process has never met it, the news may be a recording of earlier gossip
 * that somebody replays; it is then not taken as proof that the process has ended (gw_contacts_look_for). */
static const gw_contact *peer_gone(gw_peer *p, const gw_gossip_event *event) {
    gw_contact *contact = find(p, &event->member->id);
    if (contact == NULL) contact = add_contact(p, &event->member->id);
    bool lived = contact->alive, left = event->kind == GW_GOSSIP_LEFT;
    GW_ASSERT(!lived || gw_same_life(&contact->incarnation,
                                     &event->incarnation)); /* the life that was last reported alive */
    read_words(p, contact, event);
    contact->alive = false;
    uint64_t boot = event->incarnation.boot;
    bool earlier = boot < contact->incarnation.boot || (contact->linked && boot < contact->linked_life.boot);
    contact->ended |= !earlier && (left || event->proven) && has_met_by(contact, boot);
    if (!lived)
        return NULL; /* its end is known; or its life was not, and the peers that knew it handle its end */
    contact->gone_ns = p->now;
    gw_poison_apply_last_words(contact);
    contact->joining_until_ns = 0;
    /* A peer that fell silent may merely be cut off. A peer that left without wishing to leave, and before
     * the job's end, could not go on. */
    bool ended = contact->at_end || contact->sent_end;
    bool fell = !ended && (left ? !contact->leaving : event->proven);
    if (fell && !contact->blameless) gw_poison_note_death(p, contact);
    if (!left) drop_link(p, contact); /* messages that a leaving peer has sent may still be on their way */
    gw_action *notice = gw_peer_notice(p, left ? GW_NOTICE_PEER_LEFT : GW_NOTICE_PEER_DEAD, " ");
    notice->peer = contact->id;
    notice->notice.death.life = event->incarnation;
    notice->notice.death.ended = contact->ended;
    notice->notice.death.gave_up = left && fell;
    notice->notice.death.proven = event->proven;
    bool replaced = !gw_same_life(&event->member->incarnation, &event->incarnation);
    notice->notice.death.replaced = replaced;
    bool silent = !left && !replaced && event->heard_ns != 0 && event->heard_ns < p->now;
    notice->notice.death.silent_ns = silent ? p->now - event->heard_ns : 0;
    return contact;
}

/* Whether this process is the one that goes on, of two with one identity. All other peers take the process
 * with the higher boot count for the next life of the same peer, and the earlier one for dead. If the boot
 * counts are equal, they keep the process that they heard of first; a process that is in a view is known to
 * them. */
static bool is_the_one(const gw_peer *p, const gw_incarnation *other) {
    const gw_incarnation *life = &p->config.incarnation;
    return other->boot < life->boot || (other->boot == life->boot && p->view.current.epoch > 0);
}

static void peer_cloned(gw_peer *p, const gw_gossip_event *event) {
    char id[GW_SHORT_TEXT], addr[GW_ADDR_TEXT], where[GW_ADDR_TEXT + 8] = "";
    gw_peer_id_short(&event->member->id, id);
    if (event->other_addr.family != 0)
        snprintf(where, sizeof where, " at %s", gw_addr_text(&event->other_addr, addr));
    bool of_ours = gw_peer_id_equal(&event->member->id, &p->config.id);
    if (of_ours && !is_the_one(p, &event->other))
        gw_peer_finish(
            p, GW_FINISH_DENIED, NULL,
            "another process%s runs with this peer's identity %s: its directory is a copy of this one; give "
            "every peer a --dir of its own",
            where, id);
    else
        gw_peer_say(p, GW_WARN, "two processes run with one identity %s (%s%s): a copied directory", id,
                    of_ours            ? "this one, and another"
                    : where[0] != '\0' ? "one of them"
                                       : "it is said",
                    where);
}

static void peer_unreadable(gw_peer *p, const gw_gossip_event *event) {
    char addr[GW_ADDR_TEXT];
    gw_peer_say(
        p, GW_WARN,
        "the peer at %s speaks version %u of Godwit's gossip, and this build speaks versions %u and %u: "
        "builds that are more than one version apart do not work together. Run a newer build of Godwit "
        "%s",
        gw_addr_text(&event->other_addr, addr), event->version, event->oldest, event->newest,
        event->version < event->oldest ? "there" : "here");
}

const gw_contact *gw_contacts_gossip_event(gw_peer *p, const gw_gossip_event *event) {
    if (p->phase == GW_AT_OVER) return NULL;
    /* CLONED and UNREADABLE are the only events that gossip reports of this peer itself. */
    bool of_self = gw_peer_id_equal(&event->member->id, &p->config.id);
    GW_ASSERT(event->kind == GW_GOSSIP_CLONED || event->kind == GW_GOSSIP_UNREADABLE || !of_self);
    gw_contact *contact;
    switch (event->kind) {
    case GW_GOSSIP_ALIVE:
        peer_alive(p, event->member, &event->incarnation);
        break;
    case GW_GOSSIP_DEAD:
    case GW_GOSSIP_LEFT:
        return peer_gone(p, event);
    case GW_GOSSIP_META:
        contact = find(p, &event->member->id);
        if (contact == NULL) break;
        read_words(p, contact, event);
        gw_poison_note_last_words(p, contact);
        break;
    case GW_GOSSIP_CLONED:
        peer_cloned(p, event);
        break;
    case GW_GOSSIP_UNREADABLE:
        peer_unreadable(p, event);
        break;
    case GW_GOSSIP_SUSPECT:
        break;
    }
    return NULL;
}

/* Links. */

static void link_up(gw_peer *p, gw_contact *contact, const gw_incarnation *life) {
    contact->linked = true;
    see_life(contact, life);
    gw_poison_linked(p, contact, life);
    contact->linked_life = *life;
    contact->greeted = false;
    gw_message hello = {.kind = GW_MSG_HELLO,
                        .epoch = p->view.current.epoch,
                        .name = p->view.current.name,
                        .hello.identity = p->identity,
                        .hello.probe = p->config.probe,
                        .hello.ways = p->config.ways,
                        .hello.has_view = p->view.current.epoch > 0};
    gw_peer_send(p, &contact->id, &hello);
}

static void link_down(gw_peer *p, gw_contact *contact, const gw_event *event) {
    bool was_linked = contact->linked;
    contact->linked = contact->greeted = false;
    if (was_linked) contact->unlinked_since_ns = p->now;
    p->members.links_due_ns = 0;
    /* If all addresses refused, the life of the last link has ended, and so have all lives before it. A later
     * life that gossip has reported since may well be alive. The world knows only the life of the last link,
     * if there was one. If gossip reported another life a while ago, that life has been dialled since
     * then. */
    bool of_this_life = event->link.incarnation.boot > contact->incarnation.boot ||
                        gw_same_life(&event->link.incarnation, &contact->incarnation) ||
                        p->now >= contact->alive_since_ns + gw_peer_ms(p, REFUSED_MS);
    bool proof = event->link.end == GW_LINK_REFUSED && of_this_life;
    if (proof)
        gw_gossip_confirm_dead(p->gossip, &event->peer, &contact->incarnation, p->now);
    else
        gw_gossip_suspect_hint(p->gossip, &event->peer, p->now);
    if (!contact->alive) {
        contact->ended |= proof;
        drop_link(p, contact); /* the peer left, and its process has ended now */
    }
}

void gw_contacts_link(gw_peer *p, const gw_event *event) {
    gw_contact *contact = find(p, &event->peer);
    if (contact == NULL) {
        if (event->kind != GW_EV_LINK_UP) return;
        contact = add_contact(p, &event->peer); /* its link came before gossip reported it */
        contact->incarnation = event->link.incarnation;
    }
    if (event->kind == GW_EV_LINK_UP)
        link_up(p, contact, &event->link.incarnation);
    else
        link_down(p, contact, event);
}

/* HELLO. */

static void greet(gw_contact *from) {
    from->greeted = true;
    from->differs = from->apart = false;
    from->ran_this_job = true;
}

bool gw_contacts_receive_hello(gw_peer *p, const gw_contact *sender, const gw_message *message) {
    gw_contact *from = gw_contacts_own(p, sender);
    from->ways = message->hello.ways;
    if (gw_strangers_is_one(p, message))
        gw_strangers_met(p, from, message);
    else
        greet(from);
    return from->greeted;
}

/* Questions about a contact. */

void gw_contacts_receive_end(gw_peer *p, const gw_contact *sender, const gw_message *message) {
    gw_contact *from = gw_contacts_own(p, sender);
    memcpy(from->job, p->job.bytes, sizeof from->job);
    from->sent_end = true;
    from->end_root = message->end.root;
    from->unsaved = message->end.unsaved;
}

void gw_contacts_receive_refusal(gw_peer *p, const gw_contact *sender, const gw_message *message) {
    gw_contacts_own(p, sender)->refusal_state = message->refuse.state;
}

/* What the view does with contacts. */

void gw_contacts_block(gw_peer *p, const gw_contact *blocked, uint64_t ms, uint64_t most_ms) {
    gw_contact *contact = gw_contacts_own(p, blocked);
    uint64_t wait_ms = ms << contact->blocks;
    if (wait_ms < most_ms) contact->blocks++;
    contact->blocked_until_ns = p->now + gw_peer_ms(p, wait_ms < most_ms ? wait_ms : most_ms);
}

void gw_contacts_unblock(gw_peer *p, const gw_contact *contact) {
    gw_contacts_own(p, contact)->blocked_until_ns = 0;
}

void gw_contacts_note_request(gw_peer *p, const gw_contact *contact, uint64_t until_ns,
                              const gw_view_name *offered) {
    gw_contact *own = gw_contacts_own(p, contact);
    own->joining_until_ns = until_ns;
    own->offered = *offered;
}

void gw_contacts_view_begins(gw_peer *p, bool founded) {
    const gw_view_name none = {0};
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        gw_contact *contact = &p->members.contacts[i];
        bool member = gw_view_rank(&p->view.current, &contact->id) >= 0;
        if (member || founded) contact->blocks = 0; /* the blocks of founding are far shorter */
        if (member) {
            gw_contacts_note_request(p, contact, 0, &none);
            gw_contacts_unblock(p, contact);
        } else {
            gw_poison_left_out(contact);
        }
    }
}

bool gw_contacts_same_job(const gw_peer *p, const gw_contact *contact) {
    return !contact->differs && memcmp(contact->job, p->job.bytes, sizeof contact->job) == 0;
}

bool gw_contacts_runs_this_job(const gw_peer *p, const gw_contact *contact) {
    return contact->alive && contact->has_view && gw_contacts_same_job(p, contact);
}

bool gw_contacts_knows_flock(const gw_peer *p) {
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        if (gw_contacts_runs_this_job(p, &p->members.contacts[i])) return true;
    return false;
}

bool gw_contacts_has_met(const gw_contact *contact) {
    return has_met_by(contact, contact->incarnation.boot);
}

bool gw_contacts_greeted(const gw_contact *contact) {
    return contact->alive && contact->linked && contact->greeted &&
           gw_same_life(&contact->linked_life, &contact->incarnation);
}

bool gw_contacts_is_member(const gw_peer *p, const gw_contact *contact) {
    const gw_incarnation *life = &contact->incarnation;
    return gw_view_rank_of_life(&p->view.current, &contact->id, life->boot, life->nonce) >= 0;
}

bool gw_contacts_member_lives(gw_peer *p, const gw_view *view, uint32_t rank) {
    const gw_member *member = &view->members[rank];
    if (gw_peer_id_equal(&member->id, &p->config.id)) return gw_member_is(member, &p->config.incarnation);
    const gw_contact *contact = gw_peer_contact(p, &member->id);
    return contact != NULL && contact->alive && gw_member_is(member, &contact->incarnation);
}
