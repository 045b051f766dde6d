/* Silent data corruption: shards that are computed twice (core/shard/double_check.h), and states that are no
 * longer what they were.
 *
 * If two members differ about a shard, the sum is not applied. All members compute the shard once more from
 * the same state and send each other their results (WITNESS), from which all come to the same verdict. What
 * the two have added to the step is dropped in any case. The member that is found wrong loses its state,
 * which may be the cause: in the next view it fetches the state from the others like a newcomer. It does so
 * in a later view if it did not hear of the verdict and has gone on alone (core/brain/faults/verdicts.c). One
 * cosmic ray costs a peer no more than that. A second fault in one life of the process shows a machine that
 * computes wrong; then the peer ends, and a person must look at it. If nobody can tell which member is wrong,
 * as with two members that both get their own result again, the job stops, and may be resumed with a third
 * peer.
 *
 * A vote names the members that are in doubt, so that a repair before the verdict does not keep what they
 * have added to the step. */
#include "core/brain/faults/verify.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/faults/halt.h"
#include "core/brain/faults/verdicts.h"
#include "core/brain/job_state.h"
#include "core/brain/members/poison.h"
#include "core/brain/outbox.h"
#include "core/brain/self.h"
#include "core/brain/slots.h"
#include "core/brain/state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_FAULTS = 1, /* faults in one life after which a peer may go on */
    VERDICT_MS = 20, /* a new view waits this long, in which the others come to the same verdict */
};

static const char OUTVOTED[] = "this peer holds other bits of the state than most";

void gw_verify_report(gw_peer *p, const gw_peer_id *peer, const char *format, ...) {
    char text[400], id[GW_SHORT_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    gw_action *notice = gw_peer_notice(p, GW_NOTICE_CORRUPT, "%s", text);
    if (peer != NULL) notice->peer = *peer;
    notice->step = p->state.step;
    gw_peer_say(p, GW_ERROR, "corruption at step %" PRIu64 ": peer %s: %s", p->state.step,
                peer == NULL ? "(not known)" : gw_peer_id_short(peer, id), text);
}

/* Counts a fault of this machine. Returns false if it was not the first one, and ends this peer. */
static bool may_stay(gw_peer *p, const char *what) {
    if (++p->faults.times_wrong <= MOST_FAULTS) return true;
    gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                   "step %" PRIu64 ": %s, and this was not its first error: the machine is faulty (memory, "
                   "processor), so this peer leaves, so that the others go on",
                   p->state.step, what);
    return false;
}

/* This peer was found to compute or hold wrong bits, so its state counts for nothing. Returns false if it
 * ends. */
static bool own_fault(gw_peer *p, const char *what) {
    gw_job_state_drop(p);
    return may_stay(p, what);
}

/* States. */

/* Two fingerprints of states: the one that most members hold, and the one that most of the rest hold. */
typedef struct poll {
    int64_t most, second;
    uint32_t most_count, second_count;
} poll;

static int64_t fingerprint_at(const int64_t *slots, uint32_t rank) {
    return slots[(size_t)rank * GW_SLOTS + GW_SLOT_FINGERPRINT];
}

static poll poll_states(const gw_peer *p, const int64_t *slots) {
    poll result = {0};
    for (uint32_t i = 0; i < p->view.current.count; i++) {
        int64_t one = fingerprint_at(slots, i);
        uint32_t count = 0;
        for (uint32_t k = 0; k < p->view.current.count; k++) count += fingerprint_at(slots, k) == one;
        if (count > result.most_count) {
            result.second = result.most;
            result.second_count = result.most_count;
            result.most = one;
            result.most_count = count;
        } else if (one != result.most && count > result.second_count) {
            result.second = one;
            result.second_count = count;
        }
    }
    return result;
}

/* The step to which a conviction of a wrong state of step `step` goes back: the state itself is wrong. (If a
 * shard was wrong, the state before is not.) */
static uint64_t before(uint64_t step) {
    return step > 0 ? step - 1 : 0;
}

static void tell_outvoted(gw_peer *p, const gw_peer_id *peer, uint64_t held, uint64_t most) {
    gw_verify_report(p, peer,
                     "it holds other bits of the state than most (%016" PRIx64 ", not %016" PRIx64
                     "): it must fetch them anew",
                     held, most);
}

/* The members that hold another state than most fetch it anew. If as many hold one state as another, nobody
 * can tell which is right, and all members end. */
bool gw_verify_states_agree(gw_peer *p, const int64_t *slots) {
    poll held = poll_states(p, slots);
    if (held.second_count == held.most_count) {
        gw_verify_report(p, NULL,
                         "%" PRIu32 " members hold %016" PRIx64 " as the state, %" PRIu32 " hold %016" PRIx64,
                         held.most_count, (uint64_t)held.most, held.second_count, (uint64_t)held.second);
        gw_halt(p, &p->view.current,
                "as many members hold one state of step %" PRIu64 " as another (%016" PRIx64 ", %016" PRIx64
                "), and nobody can tell which are right: start again to resume from the newest checkpoint, "
                "with one more peer or without any that fails a memory test (godwit audit, with the peers' "
                "directories, tells which is right)",
                p->state.step, (uint64_t)held.most, (uint64_t)held.second);
        return false;
    }
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        int64_t one = fingerprint_at(slots, rank);
        if (one == held.most) continue;
        gw_verdicts_remember(p, &p->view.current.members[rank].id, before(p->state.step));
        tell_outvoted(p, &p->view.current.members[rank].id, (uint64_t)one, (uint64_t)held.most);
    }
    if ((int64_t)p->state.fingerprint != held.most) own_fault(p, OUTVOTED);
    return held.most_count == p->view.current.count;
}

static bool is_outvoted(const gw_peer *p, const gw_install *i, bool has_state, uint64_t step,
                        uint64_t fingerprint) {
    return i->load == GW_LOAD_PEERS && !p->config.fast && has_state && step == i->step &&
           fingerprint != i->fingerprint;
}

void gw_verify_name_outvoted(gw_peer *p, gw_install *i) {
    for (uint32_t rank = 0; rank < i->view.count; rank++) {
        const gw_report *r = p->view.attempt.reports[rank];
        if (!is_outvoted(p, i, r->has_state, r->step, r->fingerprint)) continue;
        const gw_conviction one = {
            /* the member hears of it in the new view, and may be convicted there again */
            .id = i->view.members[rank].id,
            .boot = i->view.members[rank].boot,
            .epoch = i->view.epoch - 1,
            .step = before(i->step)};
        gw_convictions_add(&i->convictions, &one);
        tell_outvoted(p, &one.id, r->fingerprint, i->fingerprint);
    }
}

/* Whether a conviction is of the state that this life of the peer holds. Otherwise it is of an earlier life,
 * or of a state that this life has given up since. The state that it has loaded since may be from its own
 * checkpoints, and as wrong, but that is no new fault of the machine. */
static bool is_of_this_state(const gw_peer *p, const gw_conviction *own) {
    return own->boot == p->config.incarnation.boot && p->view.loaded_epoch <= own->epoch;
}

bool gw_verify_accepts(gw_peer *p, const gw_install *i, bool hears) {
    const gw_conviction *own = gw_convictions_of(&i->convictions, &p->config.id);
    if (hears && !is_of_this_state(p, own)) {
        gw_peer_say(p, GW_WARN, "%s was found to compute or to hold other bits%s",
                    own->boot != p->config.incarnation.boot ? "an earlier life of this peer"
                                                            : "this peer, before it loaded its state,",
                    p->state.present ? ": it fetches the state anew" : "");
        gw_job_state_drop(p);
        return true;
    }
    if (is_outvoted(p, i, p->state.present, p->state.step, p->state.fingerprint)) {
        if (!gw_peer_is_leader(p)) tell_outvoted(p, &p->config.id, p->state.fingerprint, i->fingerprint);
        return own_fault(p, OUTVOTED);
    }
    if (!hears) return true;
    gw_verify_report(p, &p->config.id, "others found that it computed or held other bits");
    return own_fault(p, "others found that this peer computed or held other bits");
}

/* A deal and its results. */

/* Removes dealt shards from the chosen ones, as a shard that may kill its peers is computed by one peer at a
 * time. Shards that are held have killed none. */
static void leave_out_dealt(gw_peer *p, const gw_set *dealt) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->faults.chosen_count && dealt != NULL; i++)
        if (!gw_set_has(dealt, p->faults.chosen[i])) p->faults.chosen[kept++] = p->faults.chosen[i];
    p->faults.chosen_count = kept;
}

/* A peer that is alone chooses shards, too: no other computes them again, but its results are kept, as its
 * accumulator may yet be added to those of other peers in this very step. */
void gw_verify_deal(gw_peer *p, gw_action *deal) {
    p->faults.chosen_count = 0;
    deal->deal.rank = (uint32_t)gw_peer_own_rank(p);
    deal->deal.members = p->view.current.count;
    if (p->config.verify == 0) return;
    uint64_t key;
    memcpy(&key, p->job.bytes, sizeof key);
    p->faults.chosen_count =
        gw_verify_choose(key, p->config.verify, p->state.step, p->step.shards, p->faults.chosen);
    if (p->step.careful) leave_out_dealt(p, deal->deal.list);
    deal->deal.chosen =
        gw_actions_copy(p->actions, p->faults.chosen, p->faults.chosen_count * sizeof p->faults.chosen[0]);
    deal->deal.chosen_count = p->faults.chosen_count;
}

void gw_verify_reduce(gw_peer *p, const gw_event *sealed, gw_action *reduce) {
    if (p->config.verify == 0) return;
    int64_t table[GW_VERIFY_TABLE] = {0};
    gw_verify_put(table, p->faults.chosen, p->faults.chosen_count, p->view.current.count,
                  (uint32_t)gw_peer_own_rank(p), p->state.step, sealed->sealed.rechecks,
                  sealed->sealed.recheck_count);
    reduce->reduce.check_table = gw_actions_copy(p->actions, table, sizeof table);
}

/* A dispute. */

static void forget_old_testimony(gw_peer *p) {
    gw_testimony *t = &p->faults.testimony;
    if (gw_view_name_equal(&t->view, &p->view.current.name) && t->step == p->state.step) return;
    *t = (gw_testimony){.view = p->view.current.name, .step = p->state.step};
}

static void doubt(gw_peer *p, const gw_dispute *d) {
    p->faults.doubt = (gw_doubt){.any = true, .step = p->state.step};
    for (int i = 0; i < 2; i++) p->faults.doubt.accused[i] = p->view.current.members[d->ranks[i]].id;
}

static void disagree(gw_peer *p, uint32_t rank) {
    char id[GW_SHORT_TEXT];
    gw_agenda_change_view(p, "peer %s disputes another shard than this peer",
                          gw_peer_id_short(&p->view.current.members[rank].id, id));
}

/* Whether the other members dispute the same shard as this peer: `disputed` is the shard, plus 1; 0 = none.
 * All have the same table of the sum, unless one of them reads it wrong. It would then wait for the results
 * of the others for ever, or they for its, so a new view is asked for. */
static bool others_agree(gw_peer *p, uint32_t disputed) {
    const gw_testimony *t = &p->faults.testimony;
    bool of_this_sum = gw_view_name_equal(&t->view, &p->view.current.name) && t->step == p->state.step,
         agree = true;
    for (uint32_t rank = 0; rank < p->view.current.count && of_this_sum && agree; rank++) {
        agree = t->shard[rank] == 0 || t->shard[rank] == disputed;
        if (!agree) disagree(p, rank);
    }
    return agree;
}

bool gw_verify_disputes(gw_peer *p, const gw_event *reduced) {
    gw_dispute d;
    uint32_t again;
    if (p->faults.chosen_count == 0 || reduced->reduced.check_table == NULL) return !others_agree(p, 0);
    bool any = gw_verify_find(reduced->reduced.check_table, p->faults.chosen, p->faults.chosen_count,
                              p->view.current.count, (uint32_t)gw_peer_own_rank(p), &d, &again);
    if (!any) {
        if (again > 0) gw_peer_notice(p, GW_NOTICE_VERIFIED, " ")->notice.verified.shards = again;
        return !others_agree(p, 0);
    }
    char one[GW_SHORT_TEXT], other[GW_SHORT_TEXT];
    doubt(p, &d);
    gw_peer_say(p, GW_ERROR,
                "peers %s and %s differ about shard %" PRIu32 " of step %" PRIu64 " (%016" PRIx64
                ", %016" PRIx64 "): nothing of the step is applied before all have computed it again",
                gw_peer_id_short(&p->faults.doubt.accused[0], one),
                gw_peer_id_short(&p->faults.doubt.accused[1], other), d.shard, p->state.step,
                d.fingerprints[0], d.fingerprints[1]);
    if (p->phase == GW_AT_FROZEN) return true; /* the next view deals the shard again */
    p->phase = GW_AT_DISPUTING;
    p->faults.dispute = d;
    gw_action *probe = gw_peer_act(p, GW_ACT_PROBE);
    probe->token = p->faults.probe_token = gw_peer_token(p);
    probe->step = p->state.step;
    probe->probe.shard = d.shard;
    return true;
}

static void convict(gw_peer *p, int wrong) {
    const gw_dispute *d = &p->faults.dispute;
    const gw_testimony *t = &p->faults.testimony;
    const gw_peer_id *id = &p->faults.doubt.accused[wrong];
    char name[GW_SHORT_TEXT], what[160];
    gw_verdicts_remember(p, id, p->state.step);
    gw_verify_report(p, id,
                     "it computed %016" PRIx64 " for shard %" PRIu32 ", others %016" PRIx64
                     "; asked once more it got %016" PRIx64,
                     d->fingerprints[wrong], d->shard, d->fingerprints[1 - wrong],
                     t->fingerprint[d->ranks[wrong]]);
    snprintf(what, sizeof what, "this peer computed other bits of shard %" PRIu32 " than others", d->shard);
    if (gw_peer_id_equal(id, &p->config.id) && !own_fault(p, what)) return;
    gw_agenda_set_proposal(p, p->now + gw_peer_ms(p, VERDICT_MS));
    gw_agenda_change_view(p, "peer %s computed other bits of shard %" PRIu32, gw_peer_id_short(id, name),
                          d->shard);
}

/* Whether the verdict no longer depends on results that are missing. If the other members are not equally
 * divided, the results of the two accused ones do not count, and an accused member that hangs must not delay
 * the verdict for ever. */
static bool may_judge(const gw_peer *p) {
    const gw_dispute *d = &p->faults.dispute;
    const gw_testimony *t = &p->faults.testimony;
    uint32_t for_them[2] = {0};
    bool all = true;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        bool accused = rank == d->ranks[0] || rank == d->ranks[1], testified = t->shard[rank] == d->shard + 1;
        if (!testified && !accused) return false;
        all &= testified;
        for (int i = 0; i < 2 && !accused; i++) for_them[i] += t->fingerprint[rank] == d->fingerprints[i];
    }
    return all || for_them[0] != for_them[1];
}

static void judge(gw_peer *p) {
    const gw_dispute *d = &p->faults.dispute;
    const gw_testimony *t = &p->faults.testimony;
    if (p->phase != GW_AT_DISPUTING || p->agenda.view_change || !others_agree(p, d->shard + 1) ||
        !may_judge(p))
        return;
    int wrong = gw_verify_judge(d, t->fingerprint, p->view.current.count);
    if (wrong >= 0) {
        convict(p, wrong);
        return;
    }
    char one[GW_SHORT_TEXT], other[GW_SHORT_TEXT];
    gw_verify_report(p, NULL, "peers %s and %s differ about shard %" PRIu32,
                     gw_peer_id_short(&p->faults.doubt.accused[0], one),
                     gw_peer_id_short(&p->faults.doubt.accused[1], other), d->shard);
    gw_halt(p, &p->view.current,
            "peers %s and %s compute different bits of shard %" PRIu32 " of step %" PRIu64
            ", and nobody can tell which are right: start again with a third peer, or without the one that "
            "fails a memory test",
            one, other, d->shard, p->state.step);
}

static void bear_witness(gw_peer *p, const gw_peer_id *to) {
    gw_message message = gw_peer_about_view(p, GW_MSG_WITNESS);
    message.witness.step = p->state.step;
    message.witness.shard = p->faults.dispute.shard;
    message.witness.fingerprint = p->faults.testimony.fingerprint[gw_peer_own_rank(p)];
    if (to == NULL)
        gw_peer_send_members(p, &message);
    else
        gw_peer_send(p, to, &message);
}

void gw_verify_probed(gw_peer *p, const gw_event *event) {
    if (event->token != p->faults.probe_token || p->phase != GW_AT_DISPUTING) return;
    p->faults.probe_token = 0;
    if (event->outcome == GW_ABORTED) {
        gw_poison_give_back(p, p->faults.dispute.shard, event);
        return;
    }
    if (event->outcome != GW_DONE) {
        gw_poison_give_up(p, p->faults.dispute.shard, event);
        return;
    }
    int rank = gw_peer_own_rank(p);
    forget_old_testimony(p);
    p->faults.testimony.shard[rank] = p->faults.dispute.shard + 1;
    p->faults.testimony.fingerprint[rank] = event->probed.fingerprint;
    bear_witness(p, NULL);
    judge(p);
}

void gw_verify_receive_witness(gw_peer *p, const gw_contact *from, const gw_message *m) {
    int rank = gw_view_rank(&p->view.current, &from->id);
    if (rank < 0 || !gw_view_name_equal(&m->name, &p->view.current.name)) return;
    if (m->witness.step > p->state.step) return;
    if (m->witness.step < p->state.step ||
        p->step.applying) { /* the step was, or is being, applied here without a dispute */
        disagree(p, (uint32_t)rank);
        return;
    }
    forget_old_testimony(p);
    p->faults.testimony.shard[rank] = m->witness.shard + 1;
    p->faults.testimony.fingerprint[rank] = m->witness.fingerprint;
    judge(p);
}

/* Sends a member this peer's result again, if it has one: the link may have lost it. */
void gw_verify_link_up(gw_peer *p, const gw_contact *contact) {
    const gw_testimony *t = &p->faults.testimony;
    bool of_this_sum = gw_view_name_equal(&t->view, &p->view.current.name) && t->step == p->state.step;
    bool testified = p->phase == GW_AT_DISPUTING && of_this_sum &&
                     t->shard[gw_peer_own_rank(p)] == p->faults.dispute.shard + 1;
    if (testified) bear_witness(p, &contact->id);
}

/* A damaged state. */

void gw_verify_look(gw_peer *p) {
    gw_peer_act(p, GW_ACT_LOOK)->token = p->faults.look_token = gw_peer_token(p);
}

bool gw_verify_looked(gw_peer *p, const gw_event *event) {
    if (event->token != p->faults.look_token) return false;
    p->faults.look_token = 0;
    if (event->outcome == GW_DONE) return true;
    if (event->looked.damaged)
        gw_verify_damaged(p);
    else
        gw_peer_finish(p, GW_FINISH_FAILED, NULL,
                       "whether the state of step %" PRIu64 " is sound could not be checked: %s",
                       p->state.step, gw_peer_why(event));
    return false;
}

void gw_verify_freeze(gw_peer *p) {
    p->faults.probe_token = 0;
}

void gw_verify_forget_doubt(gw_peer *p) {
    p->faults.doubt.any = false;
}

void gw_verify_damaged(gw_peer *p) {
    gw_verify_report(p, &p->config.id, "its state changed in memory after it was made (%016" PRIx64 ")",
                     p->state.fingerprint);
    if (p->view.current.count == 1) {
        gw_peer_finish(
            p, GW_FINISH_FAILED, NULL,
            "the state of step %" PRIu64
            " changed in this machine's memory, and no other peer holds it: start again to resume from "
            "the newest checkpoint",
            p->state.step);
        return;
    }
    char id[GW_SHORT_TEXT];
    if (!own_fault(p, "this peer's state changed in memory")) return;
    if (p->phase == GW_AT_FROZEN || p->view.current.epoch == 0) return; /* a change of views is under way */
    gw_agenda_change_view(p, "the state of peer %s changed in its memory",
                          gw_peer_id_short(&p->config.id, id));
}

void gw_verify_own_part(gw_peer *p) {
    gw_verify_report(p, &p->config.id, "its part of the sum changed in memory after it was added up");
    p->faults.doubt = (gw_doubt){.any = true, .step = p->state.step, .accused = {p->config.id}};
    if (p->view.current.count > 1) may_stay(p, "what this peer had added up changed in memory");
}

void gw_verify_doubted(const gw_attempt *a, gw_set *doubted) {
    for (uint32_t i = 0; i < a->view.count; i++) {
        const gw_report *r = a->reports[i];
        for (uint32_t k = 0; k < 2; k++) {
            int rank = gw_peer_id_is_none(&r->accused[k]) ? -1 : gw_view_rank(&a->view, &r->accused[k]);
            if (rank >= 0 && a->reports[rank]->step == r->step) gw_set_add(doubted, (uint32_t)rank);
        }
    }
}
