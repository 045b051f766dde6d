#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

void gw_gossip_health(gw_gossip *g, int change) {
    int health = (int)g->stats.health + change;
    if (health < 0) health = 0;
    if (health > GW_GOSSIP_HEALTH_MAX) health = GW_GOSSIP_HEALTH_MAX;
    g->stats.health = (uint32_t)health;
}

void gw_gossip_tell(gw_gossip *g, gw_gossip_event_kind kind, const gw_gossip_entry *entry,
                    const gw_incarnation *incarnation) {
    gw_gossip_event event = {.kind = kind, .member = &entry->public, .incarnation = *incarnation};
    event.proven = kind == GW_GOSSIP_DEAD && entry->proven;
    event.heard_ns = kind == GW_GOSSIP_DEAD ? g->heard_ns[entry->number] : 0;
    g->config.sink.event(g->config.sink.context, &event);
}

static void tell_clone(gw_gossip *g, const gw_gossip_entry *entry, const gw_incarnation *other,
                       const gw_addr *from) {
    gw_gossip_event event = {.kind = GW_GOSSIP_CLONED,
                             .member = &entry->public,
                             .incarnation = entry->public.incarnation,
                             .other = *other};
    if (from != NULL) event.other_addr = *from;
    g->config.sink.event(g->config.sink.context, &event);
}

/* Whether this peer stood still so recently that others may have missed its answers. */
static bool stood_still(const gw_gossip *g, uint64_t now_ns) {
    return g->late_ns != 0 && now_ns - g->late_ns < g->config.timing.suspicion_ns;
}

/* Answers a rumour that this life of this peer is suspect or dead by a higher refutation number (SWIM). A
 * peer that knows that it stood still requests the longest patience by a leap of the number, as the next
 * suspicion would come soon. */
static void refute(gw_gossip *g, uint32_t refutation, const gw_addr *from, uint64_t now_ns) {
    gw_gossip_entry *self = g->self;
    if (g->leaving) return;
    self->public.incarnation.refutation = refutation + (stood_still(g, now_ns) ? GW_GOSSIP_PATIENCE : 1);
    g->stats.refutations++;
    gw_gossip_health(g, 1);
    gw_gossip_spread(g, self, GW_NEWS, now_ns);
    gw_gossip_accuse(g, from, self); /* the peer that said so hears the refutation first */
    gw_gossip_rumour_round(g, now_ns);
}

/* Whether this process listens at an address. A peer that seems to send from there no longer listens
 * there. */
static bool is_own_address(const gw_gossip *g, const gw_addr *from) {
    const gw_gossip_member *self = &g->self->public;
    for (uint32_t i = 0; i < self->addr_count; i++)
        if (gw_addr_equal(&self->addr[i], from)) return true;
    return false;
}

static void merge_self(gw_gossip *g, const gw_gossip_record *record, gw_gossip_source source,
                       const gw_addr *from, uint64_t now_ns) {
    gw_gossip_entry *self = g->self;
    const gw_incarnation *mine = &self->public.incarnation, *theirs = &record->incarnation;
    if (!gw_same_life(mine, theirs)) {
        /* An older boot is this peer's own past, unless that life sends packets itself. A packet from this
         * process's own address does not count: an earlier life that had itself among its seeds sent packets
         * to this address, and the next life may receive them. */
        if (theirs->boot < mine->boot && (source != GW_FROM_SUBJECT || is_own_address(g, from))) return;
        if (source == GW_FROM_SUBJECT) gw_gossip_accuse(g, from, self);
        if (g->clone_nonce == theirs->nonce) return;
        g->clone_nonce = theirs->nonce;
        tell_clone(g, self, theirs, source == GW_FROM_SUBJECT ? from : NULL);
        return;
    }
    if (theirs->refutation > mine->refutation ||
        (theirs->refutation == mine->refutation && record->state != GW_GOSSIP_IS_ALIVE))
        refute(g, theirs->refutation, from, now_ns);
}

static void take_addresses(gw_gossip_entry *entry, const gw_gossip_record *record, gw_gossip_source source,
                           const gw_addr *from) {
    if (record->addr_count > 0) {
        memcpy(entry->public.addr, record->addr, sizeof entry->public.addr);
        entry->public.addr_count = record->addr_count;
    } else if (entry->public.addr_count == 0 && source == GW_FROM_SUBJECT) {
        entry->public.addr[0] = *from;
        entry->public.addr_count = 1;
    }
}

/* Stores the metadata of a record if it is newer than what is known. Returns whether it was. */
static bool take_meta(gw_gossip_entry *entry, const gw_gossip_record *record) {
    if (!record->has_meta || record->meta_version <= entry->public.meta_version) return false;
    if (!gw_gossip_entry_set_meta(entry, record->meta, record->meta_bytes)) return false;

    entry->public.meta_version = record->meta_version;
    return true;
}

/* Stores the name of a record if none is known of this life. Returns whether it did. */
static bool take_name(gw_gossip_entry *entry, const gw_gossip_record *record) {
    if (!record->has_name || entry->public.name != NULL) return false;
    return gw_gossip_entry_set_name(entry, record->name, record->name_bytes);
}

/* Whether a record tells of a newer version that its subject reads. */
static bool reads_more(const gw_gossip *g, const gw_gossip_entry *entry, const gw_gossip_record *record) {
    uint8_t known = entry->reads > GW_GOSSIP_OLDEST ? entry->reads : GW_GOSSIP_OLDEST;
    return record->reads > known && known < g->reads;
}

static void take_reads(const gw_gossip *g, gw_gossip_entry *entry, const gw_gossip_record *record) {
    if (reads_more(g, entry, record)) entry->reads = record->reads < g->reads ? record->reads : g->reads;
}

/* Sets the state that a record names, for the life that it names, and sends the event. `was` is the state in
 * which the same life was known before; DEAD for a life that was not known. */
static void enter_state(gw_gossip *g, gw_gossip_entry *entry, const gw_gossip_record *record,
                        gw_gossip_state was, gw_gossip_source source, uint64_t now_ns) {
    const gw_incarnation life = record->incarnation;
    entry->proven = record->state == GW_GOSSIP_IS_DEAD && record->proven;
    switch ((gw_gossip_state)record->state) {
    case GW_GOSSIP_IS_ALIVE:
        gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_ALIVE, now_ns);
        if (was != GW_GOSSIP_IS_ALIVE) gw_gossip_tell(g, GW_GOSSIP_ALIVE, entry, &life);
        break;
    case GW_GOSSIP_IS_SUSPECT:
        if (was >= GW_GOSSIP_IS_DEAD) {
            gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_ALIVE, now_ns);
            gw_gossip_tell(g, GW_GOSSIP_ALIVE, entry, &life);
        } else {
            gw_gossip_suspicion_end(g, entry); /* the old suspicion was about a lower refutation number */
        }
        gw_gossip_suspect(g, entry, &record->accuser, now_ns);
        return; /* that function has spread the news */
    case GW_GOSSIP_IS_DEAD:
        gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_DEAD, now_ns);
        gw_gossip_tell(g, GW_GOSSIP_DEAD, entry, &life);
        break;
    case GW_GOSSIP_IS_LEFT:
        gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_LEFT, now_ns);
        gw_gossip_tell(g, GW_GOSSIP_LEFT, entry, &life);
        break;
    }
    /* News learnt from anti-entropy while joining is known to all other members already, and is not
     * spread. */
    if (source != GW_FROM_SYNC || !g->joining) gw_gossip_spread(g, entry, GW_NEWS, now_ns);
}

/* Takes the first record about a peer. */
static void meet(gw_gossip *g, const gw_gossip_record *record, gw_gossip_source source, const gw_addr *from,
                 uint64_t now_ns) {
    /* Rumours about unknown peers are kept and passed on: during a mass restart the next peer may know the
     * accused. A dead entry of an unknown peer that comes by anti-entropy is not taken, since peers would
     * hand it to each other and never forget it. */
    if (source == GW_FROM_SYNC && record->state >= GW_GOSSIP_IS_DEAD) return;
    gw_gossip_entry *entry = gw_gossip_entry_add(g, &record->id, &record->incarnation);
    if (entry == NULL) return;
    gw_gossip_refuted(g, entry, record->incarnation.refutation, now_ns);
    take_addresses(entry, record, source, from);
    take_reads(g, entry, record);
    take_name(entry, record);
    if (take_meta(entry, record) && source == GW_FROM_RUMOUR) gw_gossip_spread(g, entry, GW_METAS, now_ns);
    enter_state(g, entry, record, GW_GOSSIP_IS_DEAD, source, now_ns);
}

/* Takes the first record about a later life of a known peer, which is the death certificate of the life
 * before. */
static void new_life(gw_gossip *g, gw_gossip_entry *entry, const gw_gossip_record *record,
                     gw_gossip_source source, const gw_addr *from, uint64_t now_ns) {
    const gw_incarnation old = entry->public.incarnation;
    bool was_live = gw_gossip_is_live(entry);
    gw_gossip_entry_set(g, entry, GW_GOSSIP_IS_DEAD, now_ns);
    entry->proven = true;
    entry->public.incarnation = record->incarnation;
    entry->public.meta_version = 0;
    entry->public.meta_bytes = 0;
    entry->public.addr_count = 0;
    entry->clone_told = false;
    entry->refuted = 0;
    entry->reads = 0;
    gw_gossip_refuted(g, entry, record->incarnation.refutation, now_ns);
    g->heard_ns[entry->number] = source == GW_FROM_SUBJECT ? now_ns : 0;
    take_addresses(entry, record, source, from);
    if (was_live) gw_gossip_tell(g, GW_GOSSIP_DEAD, entry, &old);
    take_reads(g, entry, record);
    gw_gossip_entry_drop_name(entry);
    take_name(entry, record);
    if (take_meta(entry, record)) gw_gossip_spread(g, entry, GW_METAS, now_ns);
    enter_state(g, entry, record, GW_GOSSIP_IS_DEAD, source, now_ns);
}

/* Whether a record reports a death by hearsay that this peer has reason to doubt: it has just heard from the
 * member itself, or the record comes by anti-entropy and may be from the other side of a partition. A
 * doubtful death is not taken but verified, so that a living member is not declared dead on hearsay; a dead
 * one is detected within one suspicion. */
static bool doubtful(const gw_gossip *g, const gw_gossip_entry *entry, const gw_gossip_record *record,
                     gw_gossip_source source, uint64_t now_ns) {
    if (record->state != GW_GOSSIP_IS_DEAD || record->proven || !gw_gossip_is_live(entry)) return false;
    if (source == GW_FROM_SYNC) return true;
    uint64_t heard_ns = g->heard_ns[entry->number];
    return heard_ns != 0 && now_ns - heard_ns < g->config.timing.suspicion_ns / 2;
}

/* Tells a member of its reported death, which it refutes if it lives, and probes it. */
static void verify(gw_gossip *g, gw_gossip_entry *entry, const gw_gossip_record *record, uint64_t now_ns) {
    const gw_addr *addr = gw_gossip_addr_of(entry);
    if (addr == NULL) return;
    gw_gossip_packet packet = gw_gossip_packet_of(g, GW_GOSSIP_RUMOURS);
    gw_gossip_send(g, addr, entry, &packet, record);
    gw_gossip_probe_start(g, entry, now_ns);
}

static void merge_same_life(gw_gossip *g, gw_gossip_entry *entry, const gw_gossip_record *record,
                            gw_gossip_source source, const gw_addr *from, uint64_t now_ns) {
    uint32_t mine = entry->public.incarnation.refutation, theirs = record->incarnation.refutation;
    gw_gossip_state was = (gw_gossip_state)entry->public.state;
    bool newer = theirs > mine || (theirs == mine && record->state > was);
    if (source == GW_FROM_SUBJECT && record->addr_count > 0) take_addresses(entry, record, source, from);
    if (newer && doubtful(g, entry, record, source, now_ns)) {
        verify(g, entry, record, now_ns);
        return;
    }
    take_reads(g, entry, record);
    bool new_name = take_name(entry, record);
    bool new_meta =
        take_meta(entry, record); /* before the event, as the receiver of LEFT reads the last metadata */
    if (newer) {
        if (theirs > mine) gw_gossip_refuted(g, entry, theirs - mine, now_ns);
        entry->public.incarnation.refutation = theirs;
        take_addresses(entry, record, source, from);
        enter_state(g, entry, record, was, source, now_ns);
    } else if (theirs == mine && record->state == GW_GOSSIP_IS_SUSPECT && was == GW_GOSSIP_IS_SUSPECT) {
        gw_gossip_suspect(g, entry, &record->accuser, now_ns);
    }
    if (new_meta || new_name) gw_gossip_tell(g, GW_GOSSIP_META, entry, &entry->public.incarnation);
    if (new_meta && source != GW_FROM_SYNC) gw_gossip_spread(g, entry, GW_METAS, now_ns);
}

/* Whether a record changes nothing, as most records do, because its news is known. */
static bool known_already(const gw_gossip *g, const gw_gossip_entry *entry, const gw_gossip_record *record,
                          gw_gossip_source source) {
    const gw_gossip_member *member = &entry->public;
    uint32_t mine = member->incarnation.refutation, theirs = record->incarnation.refutation;
    if (!gw_same_life(&member->incarnation, &record->incarnation) || theirs > mine) return false;
    bool says_more =
        theirs == mine && (record->state > member->state || record->state == GW_GOSSIP_IS_SUSPECT);
    bool new_meta = record->has_meta && record->meta_version > member->meta_version;
    bool new_name = record->has_name && member->name == NULL;
    return !says_more && !new_meta && !new_name && !reads_more(g, entry, record) &&
           (source != GW_FROM_SUBJECT || record->addr_count == 0);
}

void gw_gossip_merge(gw_gossip *g, const gw_gossip_record *record, gw_gossip_source source,
                     const gw_addr *from, uint64_t now_ns) {
    if (gw_peer_id_equal(&record->id, &g->self->public.id)) {
        merge_self(g, record, source, from, now_ns);
        return;
    }
    const gw_gossip_entry *met = gw_gossip_entry_find(g, &record->id);
    if (met == NULL) {
        meet(g, record, source, from, now_ns);
        return;
    }
    if (known_already(g, met, record, source)) return;
    gw_gossip_entry *entry = gw_gossip_entry_own(g, met);
    if (entry == NULL) return;
    const gw_incarnation known = entry->public.incarnation;
    if (gw_same_life(&known, &record->incarnation)) {
        merge_same_life(g, entry, record, source, from, now_ns);
    } else if (record->incarnation.boot > known.boot) {
        new_life(g, entry, record, source, from, now_ns);
    } else if (record->incarnation.boot == known.boot || source == GW_FROM_SUBJECT) {
        /* Two living processes use one identity; the one that sent this packet is told about the other. */
        if (source == GW_FROM_SUBJECT) gw_gossip_accuse(g, from, entry);
        if (entry->clone_told) return;
        entry->clone_told = true;
        tell_clone(g, entry, &record->incarnation, source == GW_FROM_SUBJECT ? from : NULL);
    }
}
