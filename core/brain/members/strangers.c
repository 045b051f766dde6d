/* Strangers: peers that run another job, or this one with other options, or to which data cannot travel. This
 * file decides whether this peer or the stranger is turned away, and what the user reads. If a view exists,
 * the peer that comes to it is turned away. While a flock is being founded, the smaller group is: that is
 * decided once as many peers are here as are waited for (--peers) and no other has come for a while. If, for
 * example, one of three peers has a wrong parameter, that one is turned away, whatever its id and whoever was
 * first. If two groups have one size, the one without the lowest id is turned away. */
#include "core/brain/members/strangers.h"

#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"
#include "core/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLE_MS = 1500, MORE_TEXT = 24 /* room for "; and 12 more" */ };

/* The differing lines of two identities, as text for people. */
typedef struct differing {
    char *text;
    size_t size, used;
    uint32_t count, named; /* differences, and those of them that the text has */
} differing;

/* Appends the text of a difference, if there is room for it and for how many more there are. The first one
 * is cut where it has no room. */
static void add_text(differing *d, const char *text) {
    size_t length = strlen(text) + strlen("; "), most = d->size - MORE_TEXT;
    bool fits = d->named == d->count && (d->used + length < most || d->named == 0);
    d->count++;
    if (!fits) return;
    d->named++;
    snprintf(d->text + d->used, most - d->used, "%s%s", d->used == 0 ? "" : "; ", text);
    d->used += strlen(d->text + d->used);
}

/* Appends the difference of a line. NULL: the line is absent on that side. */
static void add_difference(differing *d, const char *theirs, const char *here) {
    const char *digest = gw_identity_digest_text(theirs != NULL ? theirs : here);
    char text[sizeof((gw_contact *)NULL)->difference];
    if (theirs == NULL || gw_identity_is_endless(theirs)) theirs = "not given";
    if (here == NULL || gw_identity_is_endless(here)) here = "not given";
    if (digest == NULL)
        snprintf(text, sizeof text, "theirs: %.*s, here: %.*s", (int)strcspn(theirs, "\n"), theirs,
                 (int)strcspn(here, "\n"), here);
    add_text(d, digest != NULL ? digest : text);
}

/* Writes the lines that differ between two identities, except for those whose difference follows from
 * another one's: by name and value as many as there is room for, then how many more. */
static void name_differences(const char *theirs, const char *ours, char *text, size_t size) {
    differing d = {.text = text, .size = size};
    char notes[GW_IDENTITY_NOTES][GW_IDENTITY_NOTE];
    const uint32_t count = gw_identity_notes(theirs, ours, notes);
    for (uint32_t i = 0; i < count; i++) add_text(&d, notes[i]);
    for (const char *line = theirs; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *here = gw_identity_line(ours, line);
        bool same = here != NULL && gw_identity_is_same_line(line, here);
        if (!same && !gw_identity_follows(theirs, ours, line)) add_difference(&d, line, here);
    }
    for (const char *line = ours; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        if (gw_identity_line(theirs, line) == NULL && !gw_identity_follows(theirs, ours, line))
            add_difference(&d, NULL, line);
    if (d.count > d.named) snprintf(text + d.used, size - d.used, "; and %u more", d.count - d.named);
}

/* The step from which a job goes on, by the identity of one of its peers; less than any other where the
 * peer does not know it. */
static int64_t first_step_of(const char *identity) {
    const char *line = gw_identity_line(identity, "parent-step=");
    return line == NULL ? -1 : strtoll(line + strlen("parent-step="), NULL, 10);
}

/* Whether both peers go on from a state of another job, and not from the same one. */
static bool differ_in_origin(const char *theirs, const char *ours) {
    static const char *const names[] = {"parent=", "parent-step=", "parent-root="};
    if (gw_identity_line(theirs, names[0]) == NULL || gw_identity_line(ours, names[0]) == NULL) return false;
    bool differ = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        differ |= gw_identity_differ_in(theirs, ours, names[i]);
    return differ;
}

/* Whether a line of one of the identities tells of more than the state from which the job goes on. A peer
 * that keeps the best state does it by what that state says, too. */
static bool tells_more(const char *theirs, const char *ours, const char *line) {
    static const char best[] = "keep-best=";
    return strncmp(line, best, sizeof best - 1) != 0 && gw_identity_differ_in(theirs, ours, line) &&
           !gw_identity_follows(theirs, ours, line);
}

/* Whether two jobs that go on from different states would differ if they went on from the same. */
static bool differ_otherwise(const char *theirs, const char *ours) {
    char notes[GW_IDENTITY_NOTES][GW_IDENTITY_NOTE];
    bool more = gw_identity_notes(theirs, ours, notes) > 1; /* the first tells of the states */
    for (const char *line = theirs; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        more |= tells_more(theirs, ours, line);
    for (const char *line = ours; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        more |= tells_more(theirs, ours, line);
    return more;
}

/* Whether this peer begins again with the first state of a peer that it has met. Another peer that knows
 * one is right if it has a view; otherwise the later state is, as a checkpoint that is newer on some disk
 * than on others. */
static bool takes_origin_of(const gw_peer *p, const gw_message *m) {
    const char *theirs = m->hello.identity;
    if (!p->config.rebases || p->view.current.epoch > 0 || !differ_in_origin(theirs, p->identity) ||
        differ_otherwise(theirs, p->identity))
        return false;
    int64_t step = first_step_of(theirs);
    return step >= 0 && (m->hello.has_view || step > first_step_of(p->identity));
}

/* Ends this life of the peer with the lines of the identity that name the state from which the job goes
 * on. */
static void take_origin(gw_peer *p, const char *theirs) {
    char lines[GW_TEXT_BYTES] = "";
    size_t used = 0;
    for (const char *line = theirs; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        int length = (int)strcspn(line, "\n");
        if (strncmp(line, "parent", strlen("parent")) != 0) continue;
        if (used + (size_t)length + 2 > sizeof lines) return; /* not of a peer of this build */
        used += (size_t)snprintf(lines + used, sizeof lines - used, "%.*s\n", length, line);
    }
    gw_peer_finish(p, GW_FINISH_REBASE, NULL, "%s", lines);
}

/* Whether two peers have a way in common by which data may travel; 0 means all ways. */
static bool have_a_way(uint32_t theirs, uint32_t ours) {
    return theirs == 0 || ours == 0 || (theirs & ours) != 0;
}

bool gw_strangers_is_one(const gw_peer *p, const gw_message *m) {
    return strcmp(m->hello.identity, p->identity) != 0 || m->hello.probe != p->config.probe ||
           !have_a_way(m->hello.ways, p->config.ways);
}

static const char *ways_text(uint32_t ways) {
    return ways == GW_WAY_TCP ? "tcp" : ways == GW_WAY_SHM ? "shm" : ways == GW_WAY_RDMA ? "rdma" : "another";
}

static void tell_apart(const gw_peer *p, gw_contact *from, const gw_message *m) {
    bool other_job = strcmp(m->hello.identity, p->identity) != 0;
    from->apart = !other_job && m->hello.probe == p->config.probe;
    if (other_job)
        name_differences(m->hello.identity, p->identity, from->difference, sizeof from->difference);
    else if (from->apart)
        snprintf(from->difference, sizeof from->difference, "theirs: --transport %s, here: --transport %s",
                 ways_text(m->hello.ways), ways_text(p->config.ways));
    else
        snprintf(from->difference, sizeof from->difference,
                 "the probe shard has other bits there (%016" PRIx64 ") than here (%016" PRIx64
                 "): different hardware or libraries",
                 m->hello.probe, p->config.probe);
}

/* What is wrong with a contact, as the end of a sentence that begins with its name. */
static const char *what_it_does(const gw_contact *c) {
    return c->apart ? "exchanges data in other ways" : "runs another job, or this one with other options";
}

/* What the user can do. */
static const char *what_to_do(const gw_contact *c) {
    return c->apart ? "To work together they need one way in common"
                    : "To work together they need the same options, data and build; to run apart, this one "
                      "another --cluster";
}

/* Whether this peer asked to join `contact`. If not, it has come across the contact at an address that its
 * earlier life knew, and leaves it alone. */
static bool asked_to_join(const gw_peer *p, const gw_contact *contact) {
    const gw_gossip_member *member = NULL;
    for (uint32_t i = 0; i < gw_gossip_count(p->gossip) && member == NULL; i++)
        if (gw_peer_id_equal(&gw_gossip_at(p->gossip, i)->id, &contact->id))
            member = gw_gossip_at(p->gossip, i);
    for (uint32_t i = 0; member != NULL && i < member->addr_count; i++)
        for (uint32_t k = 0; k < p->config.seed_count; k++)
            if (gw_addr_equal(&member->addr[i], &p->config.seeds[k])) return true;
    return contact->apart ||
           p->config.known_count ==
               0; /* apart: it runs this job, so this peer belongs to it however the contact was found */
}

static uint64_t kind_of(const gw_message *m, bool apart) {
    gw_hash hash;
    uint64_t kind;
    gw_blake2b(m->hello.identity, strlen(m->hello.identity), hash.bytes, sizeof hash.bytes);
    memcpy(&kind, hash.bytes, sizeof kind);
    return kind ^ gw_mix64(m->hello.probe) ^ (apart ? m->hello.ways : 0);
}

void gw_strangers_met(gw_peer *p, gw_contact *from, const gw_message *m) {
    char id[GW_SHORT_TEXT];
    if (takes_origin_of(p, m)) {
        take_origin(p, m->hello.identity);
        return;
    }
    gw_peer_id_short(&from->id, id);
    from->differs = true;
    from->greeted = false;
    tell_apart(p, from, m);
    from->kind = kind_of(m, from->apart);
    bool ours_runs = p->view.current.epoch > 0, theirs_runs = m->hello.has_view;
    p->members.stranger_ns = p->now;
    if (differ_in_origin(m->hello.identity, p->identity) &&
        !differ_otherwise(m->hello.identity, p->identity) &&
        (ours_runs || first_step_of(m->hello.identity) < first_step_of(p->identity))) {
        char theirs[GW_IDENTITY_ORIGIN] = "another state", ours[GW_IDENTITY_ORIGIN] = "its own";
        gw_identity_origin(m->hello.identity, theirs);
        gw_identity_origin(p->identity, ours);
        gw_peer_say(
            p, GW_INFO,
            "peer %s goes on from %s, and this one from %s: that peer takes the state of this one and begins "
            "there, unless its --continue names a step",
            id, theirs, ours);
        return;
    }
    if (theirs_runs && !ours_runs && asked_to_join(p, from))
        gw_peer_finish(p, GW_FINISH_DENIED, NULL, "peer %s %s (%s). %s", id, what_it_does(from),
                       from->difference, what_to_do(from));
    else
        gw_peer_say(p, GW_WARN, "peer %s %s (%s)%s", id, what_it_does(from), from->difference,
                    ours_runs || theirs_runs ? ": not admitted" : "");
}

/* A group of peers that could work together. */
typedef struct camp {
    uint32_t count;
    const gw_peer_id *lowest;
} camp;

static void enlist(camp *c, const gw_peer_id *id) {
    c->count++;
    if (c->lowest == NULL || gw_peer_id_compare(id, c->lowest) < 0) c->lowest = id;
}

static bool outweighs(const camp *a, const camp *b) {
    if (a->count != b->count) return a->count > b->count;
    return a->count > 0 && gw_peer_id_compare(a->lowest, b->lowest) < 0;
}

/* The group of this peer. With `alike` it has only the peers that allow exactly the same ways, since a peer
 * that allows several ways may have one in common with either group. */
static camp own_camp(const gw_peer *p, bool alike) {
    camp own = {0};
    enlist(&own, &p->config.id);
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (c->alive && c->greeted && (!alike || c->ways == p->config.ways)) enlist(&own, &c->id);
    }
    return own;
}

/* The group of the strangers of one kind. */
static camp camp_of(const gw_peer *p, uint64_t kind) {
    camp theirs = {0};
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (c->alive && c->differs && c->kind == kind) enlist(&theirs, &c->id);
    }
    return theirs;
}

/* Whether as many peers are here as this one waits for, and no other has come for a while. */
static bool is_settled(const gw_peer *p) {
    uint64_t newest_ns = p->members.stranger_ns;
    uint32_t here = 1;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (c->alive && c->alive_since_ns > newest_ns) newest_ns = c->alive_since_ns;
        here += c->alive && (c->greeted || c->differs);
    }
    return here >= p->config.peers && p->now >= newest_ns + gw_peer_ms(p, SETTLE_MS);
}

void gw_strangers_consider(gw_peer *p) {
    if (p->members.stranger_ns == 0) return;
    bool settled = is_settled(p);
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (!c->alive || !c->differs) continue;
        camp theirs = camp_of(p, c->kind), own = own_camp(p, c->apart);
        bool stays = c->has_view || (settled && outweighs(&theirs, &own));
        if (!stays || !asked_to_join(p, c)) continue;
        char id[GW_SHORT_TEXT];
        gw_peer_finish(p, GW_FINISH_DENIED, NULL,
                       "peer %s %s (%s). There %s %" PRIu32 " such peer%s, and %" PRIu32 " like this one. %s",
                       gw_peer_id_short(&c->id, id), what_it_does(c), c->difference,
                       theirs.count == 1 ? "is" : "are", theirs.count, theirs.count == 1 ? "" : "s",
                       own.count, what_to_do(c));
        return;
    }
}
