/* Peers that ask to be admitted to this peer's view, or that a proposal waits for. */
#include "core/brain/view/joiners.h"

#include "core/brain/members/contacts.h"
#include "core/brain/members/links.h"
#include "core/brain/state.h"
#include "core/brain/view/majority.h"

enum { MOST_LIVES_LOST = 2 }; /* a peer that has died so often in one step waits for the next step */

static bool was_member(const gw_view *views, uint32_t count, const gw_peer_id *id) {
    for (uint32_t i = 0; i < count; i++)
        if (gw_view_rank(&views[i], id) >= 0) return true;
    return false;
}

/* While a proposal waits for some peer, every peer without a view belongs into it, whether it has asked or
 * not. A member of the views that the proposal follows belongs into it, too, as its own view may be one that
 * cannot go on. */
bool gw_joiners_misses(const gw_peer *p, const gw_contact *contact) {
    if (p->view.wait_since_ns == 0 || !gw_contacts_same_job(p, contact)) return false;
    if (!contact->has_view) return true;
    return p->view.ballot.majority &&
           (was_member(&p->view.ballot.installed, 1, &contact->id) ||
            was_member(p->view.ballot.later, p->view.ballot.later_count, &contact->id) ||
            was_member(p->view.learned, p->view.learned_count, &contact->id));
}

static bool is_joining(const gw_peer *p, const gw_contact *contact) {
    return (contact->joining_until_ns > p->now || gw_joiners_misses(p, contact)) &&
           gw_links_ready(p, contact) && !gw_links_path_broken(p, contact) &&
           !gw_contacts_is_member(p, contact);
}

/* Whether the view has room for a newcomer. */
static bool has_room(gw_peer *p) {
    uint32_t living = 0;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        living += gw_contacts_member_lives(p, &p->view.current, rank);
    return living < GW_MAX_MEMBERS;
}

uint32_t gw_joiners_count(gw_peer *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        count += p->members.contacts[i].joining_until_ns > p->now &&
                 !gw_contacts_is_member(p, &p->members.contacts[i]);
    return count > 0 ? count : 1;
}

typedef bool comes(const gw_peer *p, const gw_contact *contact);

static bool does_any(gw_peer *p, comes *come) {
    for (uint32_t i = 0; i < p->members.contact_count; i++)
        if (come(p, &p->members.contacts[i])) return has_room(p);
    return false;
}

bool gw_joiners_any(gw_peer *p) {
    return does_any(p, is_joining);
}

/* Whether a newcomer may be admitted in this step. A peer that has died in it again and again may not: if it
 * dies of every shard and is back at once, an innocent shard would be named as poison. Deaths are forgotten
 * with the step, and the last state has no shards. */
static bool may_come_now(const gw_peer *p, const gw_contact *contact) {
    if (!is_joining(p, contact)) return false;
    return p->state.ended ||
           gw_shard_deaths_lives(&p->members.deaths, &contact->id, p->state.step) < MOST_LIVES_LOST;
}

/* The view in which a newcomer lives: its leader has offered that view, or this peer misses the newcomer. */
static gw_view_name view_of_newcomer(const gw_peer *p, const gw_contact *contact) {
    bool missed =
        gw_view_name_is_none(&contact->offered) && contact->has_view && gw_joiners_misses(p, contact);
    return missed ? contact->view_name : contact->offered;
}

bool gw_joiners_absorb(const gw_peer *p, const gw_contact *newcomer, gw_view_name *names, uint32_t *count) {
    const gw_view_name name = view_of_newcomer(p, newcomer);
    if (gw_view_name_is_none(&name)) return true;
    for (uint32_t i = 0; i < *count; i++)
        if (gw_view_name_equal(&names[i], &name)) return true;
    if (*count == GW_MAX_ABSORBED) return false;
    names[(*count)++] = name;
    return true;
}

/* Adds the newcomers for which `come` holds. If they live in more views than a proposal can name, the rest
 * comes with the next proposal, as a peer refuses a proposal that does not name its view. */
static uint32_t add_joiners(gw_peer *p, gw_member *members, uint32_t count, comes *come) {
    gw_view_name absorbed[GW_MAX_ABSORBED];
    uint32_t absorbed_count = 0;
    for (uint32_t i = 0; i < p->members.contact_count && count < GW_MAX_MEMBERS; i++) {
        const gw_contact *c = &p->members.contacts[i];
        if (!come(p, c) || !gw_joiners_absorb(p, c, absorbed, &absorbed_count)) continue;
        members[count++] =
            (gw_member){.id = c->id, .boot = c->incarnation.boot, .nonce = c->incarnation.nonce};
    }
    return count;
}

/* Adds newcomers. If a majority is reached only with all of them, all are taken. */
uint32_t gw_joiners_add(gw_peer *p, gw_member *members, uint32_t count) {
    uint32_t some = add_joiners(p, members, count, may_come_now);
    if (!p->view.ballot.majority || gw_majority_is_enough(p, members, some)) return some;
    return add_joiners(p, members, count, is_joining);
}

bool gw_joiners_may_come(gw_peer *p) {
    return does_any(p, may_come_now);
}
