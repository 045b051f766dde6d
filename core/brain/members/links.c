/* Missing links: control links, which carry messages, and the data links beside them, over which range words
 * are read, states are fetched and sums are carried. A member to which either link stays missing would hold
 * the step up for ever: its word cannot be read, so no member seals, and no reduction fails that would show
 * the fault. Therefore, after a while, one of the two ends is left out of the view. */
#include "core/brain/members/links.h"

#include "core/brain/members/contacts.h"
#include "core/brain/members/inside.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/state.h"

#include <stdio.h>
#include <string.h>

enum {
    UNLINKED_MS = 1000,       /* a control link may be missing for this long */
    DATA_NEW_MS = 1000,       /* while a flock is founded, a data link may take this long to come */
    DATA_LASTS_MS = 1000,     /* a data link that lasts for less time counts as missing throughout */
    DATA_MS = 5000,           /* a data link between members may be missing for this long; then the end that
                                 stays leaves the other one out */
    DATA_OTHER_MS = 10000,    /* after this time the other end acts, too */
    DATA_CUT_OFF_MS = 15000,  /* a peer at which the fault seems to be acts after this time only */
    PATH_FAILURES = 2,        /* reductions that may fail on a path before the end that stays acts */
    PATH_FAILURES_OTHER = 4,  /* reductions that may fail before the other end acts, too */
    PATH_FORGIVEN_MS = 60000, /* a path whose last failure is older is used again */
};

/* Whether this peer is the end that stays when something is broken between it and a contact. Both ends see
 * the fault, and they must not leave each other out: the leader stays, otherwise the lower id. The other end
 * acts only if nothing has changed after a longer time, for instance because the leader does not see the
 * fault. */
static bool stays(const gw_peer *p, const gw_contact *contact) {
    bool theirs_leads = p->view.current.epoch > 0 && gw_peer_id_equal(&p->view.current.leader, &contact->id);
    return gw_peer_is_leader(p) || (!theirs_leads && gw_peer_id_compare(&p->config.id, &contact->id) < 0);
}

bool gw_links_path_broken(const gw_peer *p, const gw_contact *contact) {
    if (contact->path_failures == 0 || p->now >= contact->path_failed_ns + gw_peer_ms(p, PATH_FORGIVEN_MS))
        return false;
    return contact->path_failures >= (stays(p, contact) ? PATH_FAILURES : PATH_FAILURES_OTHER);
}

void gw_links_blame_path(gw_peer *p, const gw_peer_id *id) {
    const gw_contact *found = gw_peer_contact(p, id);
    if (found == NULL) return;
    gw_contact *blamed = gw_contacts_own(p, found);
    blamed->path_failures++;
    blamed->path_failed_ns = p->now;
}

void gw_links_clear_paths(gw_peer *p) {
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        if (gw_view_rank(&p->view.current, &p->members.contacts[i].id) >= 0)
            p->members.contacts[i].path_failures = 0;
}

void gw_links_look_anew(gw_peer *p) {
    p->members.links_due_ns = 0;
}

/* Whether data links to most of the other members are missing, so that the fault is probably here. */
static bool is_cut_off(gw_peer *p) {
    uint32_t others = 0, missing = 0;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const gw_contact *contact = gw_peer_contact(p, &p->view.current.members[rank].id);
        if (contact == NULL || !contact->alive) continue;
        others++;
        missing += contact->data_missing;
    }
    return others > 1 && 2 * missing > others;
}

bool gw_links_lack_data(gw_peer *p) {
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const gw_contact *contact = gw_peer_contact(p, &p->view.current.members[rank].id);
        if (contact != NULL && contact->alive && contact->data_missing) return true;
    }
    return false;
}

static uint64_t data_patience_ms(gw_peer *p, const gw_contact *contact) {
    if (contact->data_fails_here || is_cut_off(p)) return DATA_CUT_OFF_MS;
    return stays(p, contact) ? DATA_MS : DATA_OTHER_MS;
}

static bool lacks_data(const gw_peer *p, const gw_contact *contact, uint64_t ms) {
    return contact->data_missing && p->now >= contact->data_missing_since_ns + gw_peer_ms(p, ms);
}

/* The time from which on one of a contact's links counts as missing; UINT64_MAX: both links stand. */
static uint64_t missed_from_ns(gw_peer *p, const gw_contact *contact) {
    uint64_t control = contact->linked ? UINT64_MAX : contact->unlinked_since_ns + gw_peer_ms(p, UNLINKED_MS);
    if (!contact->data_missing) return control;
    uint64_t data = contact->data_missing_since_ns + gw_peer_ms(p, data_patience_ms(p, contact));
    return data < control ? data : control;
}

bool gw_links_lately(gw_peer *p, const gw_contact *contact) {
    return p->now < missed_from_ns(p, contact);
}

/* While a view makes steps, a newcomer must have its data link before it is admitted, as it would hold them
 * up. */
bool gw_links_admit(const gw_peer *p, const gw_contact *contact) {
    bool lacks = p->view.current.epoch > 0 ? contact->data_missing : lacks_data(p, contact, DATA_NEW_MS);
    return contact->linked && !lacks && !contact->data_fails_here;
}

bool gw_links_carry(const gw_peer *p, const gw_contact *contact) {
    bool new = p->now < contact->data_up_ns + gw_peer_ms(p, DATA_LASTS_MS);
    return !contact->data_missing && !(contact->data_flaps && new);
}

bool gw_links_ready(const gw_peer *p, const gw_contact *contact) {
    return gw_contacts_greeted(contact) && gw_links_carry(p, contact) && p->now >= contact->blocked_until_ns;
}

const gw_contact *gw_links_missing(gw_peer *p) {
    const gw_contact *missing = NULL;
    if (p->now < p->members.links_due_ns) return NULL;
    uint64_t due_ns = UINT64_MAX;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const gw_contact *contact = gw_peer_contact(p, &p->view.current.members[rank].id);
        if (contact == NULL || !contact->alive) continue;
        uint64_t from_ns = missed_from_ns(p, contact);
        if (missing == NULL && p->now >= from_ns) missing = contact;
        if (from_ns < due_ns) due_ns = from_ns;
    }
    p->members.links_due_ns = due_ns;
    return missing;
}

void gw_links_data(gw_peer *p, const gw_event *event) {
    const gw_contact *found = gw_peer_contact(p, &event->peer);
    if (found == NULL) return;
    gw_contact *contact = gw_contacts_own(p, found);
    bool missing = event->kind == GW_EV_DATA_DOWN;
    if (missing && !contact->data_missing) {
        contact->data_flaps =
            contact->data_up_ns != 0 && p->now < contact->data_up_ns + gw_peer_ms(p, DATA_LASTS_MS);
        if (!contact->data_flaps || contact->data_missing_since_ns == 0)
            contact->data_missing_since_ns = p->now;
        if (!contact->data_flaps) contact->data_warned = false;
    }
    if (!missing && contact->data_missing) contact->data_up_ns = p->now;
    contact->data_missing = missing;
    contact->data_fails_here = missing && event->data_down.own_fault;
    snprintf(contact->data_why, sizeof contact->data_why, "%s", event->text == NULL ? "" : event->text);
    p->members.links_due_ns = p->members.data_due_ns = 0;
}

const char *gw_links_describe(const gw_contact *contact, char *text, size_t capacity) {
    char id[GW_SHORT_TEXT];
    bool data = contact->linked && contact->data_missing;
    bool known = data && contact->data_why[0] != '\0';
    snprintf(text, capacity, "no %slink to peer %s%s%s", data ? "data " : "",
             gw_peer_id_short(&contact->id, id), known ? ": " : "", known ? contact->data_why : "");
    return text;
}

const gw_contact *gw_links_newcomer_without_data(const gw_peer *p) {
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (gw_contacts_greeted(c) && !c->differs && lacks_data(p, c, DATA_NEW_MS)) return c;
    }
    return NULL;
}

/* Warns of missing data links. A peer that waits for one to become a member would otherwise wait
 * unnoticed. */
void gw_links_consider(gw_peer *p) {
    if (p->now < p->members.data_due_ns) return;
    uint64_t due_ns = UINT64_MAX;
    for (uint32_t i = 0; i < p->members.contact_count; i++) {
        gw_contact *c = &p->members.contacts[i];
        char text[GW_LINK_TEXT];
        if (!c->data_missing || c->data_warned || !c->alive || !c->linked) continue;
        uint64_t from_ns = c->data_missing_since_ns + gw_peer_ms(p, DATA_MS);
        if (p->now < from_ns) {
            due_ns = from_ns < due_ns ? from_ns : due_ns;
            continue;
        }
        c->data_warned = true;
        gw_peer_say(p, GW_WARN, "%s; until it stands the two are in no view together",
                    gw_links_describe(c, text, sizeof text));
    }
    p->members.data_due_ns = due_ns;
}
