/* Which shard kills whoever computes it, or makes them give up? After a first loss in a step its members are
 * careful: they say what they are about to compute before they begin. Of a peer that dies these claims tell
 * what it was at; one that gives up names its shard in its last words. The first loss of a step may be
 * anybody's fault; the shard that two more are charged to is poison, and the job stops (design section 5). */
#include "core/peer_state.h"

#include "core/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHARGES = 2 };

void gw_poison_claim(gw_peer *p, const gw_event *event) {
    if (p->view.epoch == 0) return;
    gw_message message = gw_peer_about_view(p, GW_MSG_CLAIM);
    message.step = p->step;
    message.worker = event->worker;
    message.shard = event->shard;
    gw_peer_send_members(p, &message);
}

/* Of whatever view of this step: when peers fall fast, this one may be behind or ahead. */
void gw_poison_claimed_by(gw_peer *p, gw_contact *from, const gw_message *m) {
    if (m->step != p->step) return;
    if (from->claim_count == 0) memset(from->claims, 0xFF, sizeof from->claims);
    from->claims[m->worker % GW_MAX_CLAIMS] = m->shard;
    from->claim_count++;
}

void gw_poison_forget(gw_peer *p) {
    p->step_deaths = p->lost_claims = 0;
    free(p->poison);
    p->poison = NULL;
    for (uint32_t i = 0; i < p->contact_count; i++) p->contacts[i].claim_count = 0;
}

void gw_poison_careful(gw_peer *p) {
    p->careful = true;
    if (p->step_deaths == 0) p->step_deaths = 1;
}

void gw_poison_give_up(gw_peer *p, uint32_t shard, const char *why) {
    p->fell_at = shard + 1;
    gw_peer_finish(p, GW_FINISH_FAILED, NULL, "shard %" PRIu32 " of step %" PRIu64 " %s", shard, p->step,
                   why);
}

static void charge(gw_peer *p, uint32_t shard) {
    if (shard >= p->shards) return;
    if (p->poison == NULL) p->poison = calloc(p->shards, 1);
    GW_CHECK(p->poison != NULL);
    if (++p->poison[shard] < MOST_CHARGES) return;
    char why[160];
    snprintf(why, sizeof why,
             "is poison: whoever computes it dies, fails or hangs (%" PRIu32
             " peers so far); its data or code must be mended before the job can go on",
             p->step_deaths);
    gw_poison_give_up(p, shard, why);
}

static bool has_last_words(const gw_peer *p, const gw_contact *contact) {
    return contact->fell_at != 0 && contact->step == p->step;
}

void gw_poison_member_fell(gw_peer *p, gw_contact *contact) {
    const gw_incarnation *life = &contact->incarnation;
    if (p->view.epoch == 0 || gw_view_rank_of_life(&p->view, &contact->id, life->boot, life->nonce) < 0)
        return;
    if (++p->step_deaths == 1) return;
    contact->uncharged = has_last_words(p, contact) || contact->claim_count == 0;
    if (contact->uncharged) {
        gw_poison_last_words(p, contact);
        return;
    }
    for (uint32_t worker = 0; worker < GW_MAX_CLAIMS; worker++) charge(p, contact->claims[worker]);
}

void gw_poison_last_words(gw_peer *p, gw_contact *contact) {
    if (!contact->uncharged || !has_last_words(p, contact)) return;
    contact->uncharged = false;
    charge(p, contact->fell_at - 1);
}
