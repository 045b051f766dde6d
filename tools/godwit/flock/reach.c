/* The links to other members: those that this one keeps (core/flock/links.h), and those that something needs now, which end
 * when they have not been used for a while. What is sent by one that is not there yet waits for it. */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/flock/links.h"
#include "core/os/clock.h"
#include "tools/godwit/flock/inside.h"

#include <stdlib.h>
#include <string.h>

enum { WAITING = 256, WAITING_BYTES = 32 << 20 }; /* messages to one member that wait for its link */

struct gw_contact {
    gw_peer_id id;
    bool kept;        /* its link is one of those that this member keeps */
    uint64_t used_ns; /* when it was used last, or asked for */
    struct {
        uint8_t *bytes;
        size_t length;
    } waiting[WAITING];
    uint32_t waiting_count;
    size_t waiting_bytes;
};

static gw_contact *find(const gw_flock_member *m, const gw_peer_id *id) {
    for (uint32_t i = 0; i < m->contact_count; i++)
        if (gw_peer_id_equal(&m->contacts[i]->id, id)) return m->contacts[i];
    return NULL;
}

static gw_contact *find_or_add(gw_flock_member *m, const gw_peer_id *id) {
    gw_contact *c = find(m, id);
    if (c != NULL) return c;
    m->contacts = realloc(m->contacts, (m->contact_count + 1) * sizeof(gw_contact *));
    c = calloc(1, sizeof *c);
    GW_ASSERT_MEMORY(m->contacts != NULL && c != NULL);
    c->id = *id;
    m->contacts[m->contact_count++] = c;
    return c;
}

static void forget_waiting(gw_contact *c) {
    for (uint32_t i = 0; i < c->waiting_count; i++) free(c->waiting[i].bytes);
    c->waiting_count = 0;
    c->waiting_bytes = 0;
}

static void drop(gw_flock_member *m, uint32_t index) {
    gw_contact *c = m->contacts[index];
    gw_links_unwant(m->links, &c->id);
    gw_exchange_down(m->exchange, &c->id);
    forget_waiting(c);
    free(c);
    m->contacts[index] = m->contacts[--m->contact_count];
}

static void want(gw_flock_member *m, const gw_peer_id *id) {
    const gw_gossip_member *other = gw_gossip_find(m->gossip, id);
    gw_err err;
    if (other == NULL || other->addr_count == 0) return;
    if (!gw_links_want(m->links, id, other->addr, other->addr_count, &err))
        gw_member_warn(m, "link: %s", err.text);
}

/* The others that live; the caller frees them. */
static gw_peer_id *live_others(const gw_flock_member *m, const gw_peer_id *but, uint32_t *count) {
    gw_peer_id *others = calloc(gw_gossip_count(m->gossip) + 1, sizeof *others);
    GW_ASSERT_MEMORY(others != NULL);
    *count = 0;
    for (uint32_t i = 0; i < gw_gossip_count(m->gossip); i++) {
        const gw_peer_id *id = &gw_gossip_at(m->gossip, i)->id;
        bool self = gw_peer_id_equal(id, &m->identity.id);
        if (!gw_peer_id_equal(id, but) && (self || gw_member_is_live(m, id))) others[(*count)++] = *id;
    }
    return others;
}

/* Keeps the links that are to be kept; the others end when they are not used. */
static void follow(void *context) {
    gw_flock_member *m = context;
    uint32_t count, chosen[GW_FLOCK_LINKS_ALL];
    gw_peer_id *others = live_others(m, &m->identity.id, &count);
    uint32_t got = gw_flock_links_choose(&m->identity.id, others, count, chosen);
    for (uint32_t i = 0; i < m->contact_count; i++) {
        gw_contact *c = m->contacts[i];
        if (c->kept) c->used_ns = gw_now_ns();
        c->kept = false;
    }
    for (uint32_t i = 0; i < got; i++) {
        find_or_add(m, &others[chosen[i]])->kept = true;
        want(m, &others[chosen[i]]);
    }
    free(others);
}

static void set_timer(gw_flock_member *m, gw_timer *timer, uint64_t at_ns, gw_loop_call *call) {
    gw_err err;
    if (!gw_timer_set(m->loop, timer, at_ns, call, m, &err)) gw_log(GW_ERROR, "flock", "%s", err.text);
}

/* Whether the other member keeps the link, so that it would make it again. */
static bool is_kept_there(const gw_flock_member *m, const gw_peer_id *id) {
    uint32_t count, chosen[GW_FLOCK_LINKS_ALL];
    gw_peer_id *others = live_others(m, id, &count);
    uint32_t got = gw_flock_links_choose(id, others, count, chosen);
    bool kept = false;
    for (uint32_t i = 0; i < got; i++) kept |= gw_peer_id_equal(&others[chosen[i]], &m->identity.id);
    free(others);
    return kept;
}

/* Ends links that have not been used for a while. */
static void sweep(void *context) {
    gw_flock_member *m = context;
    uint64_t now = gw_now_ns();
    for (uint32_t i = m->contact_count; i-- > 0;) {
        const gw_contact *c = m->contacts[i];
        if (!c->kept && now >= c->used_ns + GW_FLOCK_LINKS_IDLE_NS && !is_kept_there(m, &c->id)) drop(m, i);
    }
    set_timer(m, &m->sweep_links_timer, now + GW_FLOCK_LINKS_IDLE_NS / 2, sweep);
}

void gw_member_reach_open(gw_flock_member *m) {
    set_timer(m, &m->sweep_links_timer, gw_now_ns() + GW_FLOCK_LINKS_IDLE_NS / 2, sweep);
}

void gw_member_reach_close(gw_flock_member *m) {
    gw_timer_cancel(&m->follow_links_timer);
    gw_timer_cancel(&m->sweep_links_timer);
    for (uint32_t i = 0; i < m->contact_count; i++) {
        forget_waiting(m->contacts[i]);
        free(m->contacts[i]);
    }
    free(m->contacts);
}

void gw_member_reach_live(gw_flock_member *m, const gw_peer_id *id) {
    if (find(m, id) != NULL) want(m, id); /* its addresses may be others */
    set_timer(m, &m->follow_links_timer, gw_now_ns(), follow);
}

void gw_member_reach_lost(gw_flock_member *m, const gw_peer_id *id) {
    for (uint32_t i = m->contact_count; i-- > 0;)
        if (gw_peer_id_equal(&m->contacts[i]->id, id)) drop(m, i);
    gw_links_unwant(m->links, id); /* the other one may have made it */
    gw_exchange_down(m->exchange, id);
    set_timer(m, &m->follow_links_timer, gw_now_ns(), follow);
}

void gw_member_reach(gw_flock_member *m, const gw_peer_id *id) {
    if (!gw_member_is_live(m, id) || gw_peer_id_equal(id, &m->identity.id)) return;
    find_or_add(m, id)->used_ns = gw_now_ns();
    want(m, id);
}

void gw_member_reach_up(gw_flock_member *m, const gw_peer_id *id) {
    gw_contact *c = find(m, id);
    gw_err err;
    if (c == NULL) return;
    for (uint32_t i = 0; i < c->waiting_count; i++)
        gw_links_send(m->links, id, c->waiting[i].bytes, c->waiting[i].length, &err);
    forget_waiting(c);
}

/* Has a message wait for the link; takes its bytes. */
static bool wait_for_link(gw_flock_member *m, const gw_peer_id *to, uint8_t *bytes, size_t length) {
    gw_member_reach(m, to);
    gw_contact *c = find(m, to);
    if (c == NULL || c->waiting_count == WAITING || c->waiting_bytes + length > WAITING_BYTES) {
        free(bytes);
        return false;
    }
    c->waiting[c->waiting_count].bytes = bytes;
    c->waiting[c->waiting_count++].length = length;
    c->waiting_bytes += length;
    return true;
}

bool gw_member_send(gw_flock_member *m, const gw_peer_id *to, uint8_t kind, const void *bytes,
                    size_t length) {
    gw_err err;
    gw_contact *c = kind != GW_LINK_EXCHANGE ? find(m, to) : NULL;
    uint8_t *message = malloc(length + 1);
    GW_ASSERT_MEMORY(message != NULL);
    message[0] = kind;
    memcpy(message + 1, bytes, length);
    if (c != NULL) c->used_ns = gw_now_ns();
    /* A link that is kept breaks only where the other member is in trouble: who sends is to know. */
    if (kind != GW_LINK_EXCHANGE && (c == NULL || !c->kept) && gw_links_remote(m->links, to) == NULL)
        return wait_for_link(m, to, message, length + 1);
    bool good = gw_links_send(m->links, to, message, length + 1, &err);
    free(message);
    return good;
}

void gw_member_reach_heard(gw_flock_member *m, const gw_peer_id *from) {
    gw_contact *c = find(m, from);
    if (c != NULL) c->used_ns = gw_now_ns();
}
