/* The life of a step: deal, compute and steal, seal, reduce, check, apply (core/README.md, sections 4 and
 * 5). */
#include "core/brain/step/steps.h"

#include "core/base/assert.h"
#include "core/brain/agenda.h"
#include "core/brain/commit.h"
#include "core/brain/faults/verify.h"
#include "core/brain/job_state.h"
#include "core/brain/members/contacts.h"
#include "core/brain/members/poison.h"
#include "core/brain/outbox.h"
#include "core/brain/save/checkpoint.h"
#include "core/brain/save/leave.h"
#include "core/brain/self.h"
#include "core/brain/slots.h"
#include "core/brain/state.h"
#include "core/brain/step/retry.h"
#include "core/shard/deal.h"
#include "core/shard/range.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NOT_READY_RETRY_US = 500, /* time after which a word that is not of this step yet is read again */
    NOBODY_RETRY_US = 50000,
    SHOW_HELD_MS = 2000, /* a step that is kept from its end for so long is shown to people */
    LEAST_IDLE_SHARDS = 16,
    MOST_IDLE_SHARDS = 1024,
    LATE = 8,       /* a member is late that takes longer than the deal allows by one part in so many */
    SOON_US = 1000, /* work that is done so soon is not waited for */
    SPARED_MOST_US = 50000, /* a member that is spared looks again after so long at the latest */
};
#define SHARD_NS UINT64_C(1000000000000) /* divided by a speed: the time that one shard takes */

/* Dealing. */

/* Asks for another view if this one counts on a shard that this peer has given back meanwhile. `missing`
 * are the shards that are dealt; NULL: all are. */
static void ask_again_for_owed(gw_peer *p, const gw_set *missing) {
    uint32_t owed = p->step.owed_shard_plus_1;
    p->step.owed_shard_plus_1 = 0;
    if (owed == 0 || p->step.owed_step != p->state.step || missing == NULL || gw_set_has(missing, owed - 1))
        return;
    p->step.lacks_shard = true;
    gw_agenda_change_view(p, "shard %u is given back", owed - 1);
}

void gw_steps_begin(gw_peer *p, const gw_set *missing, const uint32_t *cuts) {
    int rank = gw_peer_own_rank(p);
    GW_ASSERT(rank >= 0 && p->state.present && p->step.accumulator_step == p->state.step);
    p->phase = GW_AT_COMPUTING;
    p->step.thief.active = false;
    p->step.lacks_shard = false;
    p->step.held_ns = 0;
    p->step.due_ns = 0;
    p->step.tag = gw_word_tag(p->view.current.epoch, p->state.step);
    gw_action *deal = gw_peer_act(p, GW_ACT_DEAL);
    deal->deal.tag = p->step.tag;
    deal->step = p->state.step;
    deal->deal.first = cuts[rank];
    deal->deal.end = cuts[rank + 1];
    deal->deal.cuts = gw_actions_copy(p->actions, cuts, (p->view.current.count + 1) * sizeof *cuts);
    deal->deal.careful = p->step.careful;
    bool all = missing == NULL || gw_set_count(missing) == missing->size;
    if (!all) deal->deal.list = gw_actions_copy_set(p->actions, missing);
    gw_verify_deal(p, deal);
    ask_again_for_owed(p, all ? NULL : missing);
}

static void begin_whole_step(gw_peer *p) {
    p->step.shards = p->config.shards(p->config.shards_context, p->state.step);
    GW_ASSERT(p->step.shards > 0);
    gw_action *begin = gw_peer_act(p, GW_ACT_BEGIN_STEP);
    begin->step = p->state.step;
    begin->begin_step.shards = p->step.shards;
    p->step.begun_ns = p->now;
    p->step.accumulator_step = p->state.step;
    p->step.careful = gw_shard_deaths_in_step(&p->members.agreed, p->state.step); /* in an earlier life */
    uint32_t cuts[GW_MAX_MEMBERS + 1];
    uint64_t allowed_ns = 0;
    if (p->config.deal_energy)
        allowed_ns = gw_deal_cut_cheaply(p->step.shards, p->step.speeds, p->step.joules,
                                         p->view.current.count, p->config.deal_slack, cuts);
    else
        gw_deal_cut(p->step.shards, p->step.speeds, p->view.current.count, cuts);
    gw_steps_begin(p, NULL, cuts);
    if (allowed_ns > 0) p->step.due_ns = p->now + allowed_ns + allowed_ns / LATE;
}

/* Stealing. */

static void seal(gw_peer *p) {
    p->step.thief.active = false;
    p->phase = GW_AT_SEALING;
    gw_peer_act(p, GW_ACT_SEAL)->token = p->step.seal_token = gw_peer_token(p);
}

/* Seals, as nothing is left to claim or to steal. While a checkpoint of the best state is being made, this
 * peer waits: the sum of the step would change the state, and after a death the checkpoint is begun again. */
static void seal_or_wait(gw_peer *p) {
    p->step.thief.active = false;
    if (gw_saves_hold_step(p))
        p->step.held_ns = p->now;
    else
        seal(p);
}

static bool is_live_deal(const gw_thief *t, uint32_t rank, uint32_t tag) {
    return t->known[rank] && gw_word_unpack(t->words[rank]).tag == tag;
}

/* Whether a thief finishes one shard before the victim, which computes one, has done all that is left.
 * Otherwise the flock would wait for the slow thief at the end of the step. A speed of 0 is not known. */
static bool is_worth_stealing(uint32_t left, uint64_t thief_speed, uint64_t victim_speed) {
    if (left == 0 || thief_speed == 0 || victim_speed == 0) return left > 0;
    return ((unsigned __int128)left + 1) * thief_speed >= victim_speed;
}

/* How long a member takes for so many shards, by its last speed; 0 = not known. */
static uint64_t time_for(const gw_peer *p, uint32_t rank, uint32_t shards) {
    uint64_t speed = p->step.speeds[rank];
    return speed == 0 ? 0 : (uint64_t)((unsigned __int128)shards * SHARD_NS / speed);
}

/* Whether this peer leaves a victim its work, as its own shards are dearer and the victim will be done in
 * time. Then *wait_ns is the time after which it looks again, as the victim may be late then; 0: the
 * victim is nearly done. */
static bool spares(const gw_peer *p, uint32_t rank, uint32_t left, uint64_t *wait_ns) {
    uint64_t needed_ns = time_for(p, rank, left), most_ns = UINT64_C(1000) * SPARED_MOST_US;
    *wait_ns = 0;
    if (p->step.due_ns == 0 || needed_ns == 0 || p->now + needed_ns > p->step.due_ns) return false;
    if (!gw_deal_is_dearer(p->step.joules[gw_peer_own_rank(p)], p->step.joules[rank])) return false;
    if (needed_ns >= UINT64_C(1000) * SOON_US) *wait_ns = needed_ns / 2 < most_ns ? needed_ns / 2 : most_ns;
    return true;
}

/* The victim whose remaining work takes longest at its own speed; -1: no word that is ready has any for this
 * peer. *wait_ns is the time after which a member that is spared now may be a victim; 0 = none will. */
static int choose_victim(const gw_peer *p, uint64_t *wait_ns) {
    const gw_thief *t = &p->step.thief;
    uint64_t own_speed = p->step.speeds[gw_peer_own_rank(p)], wait;
    int best = -1;
    *wait_ns = 0;
    unsigned __int128 best_cost = 0, best_speed = 1;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        if (!is_live_deal(t, rank, p->step.tag)) continue;
        uint32_t left = gw_word_left(gw_word_unpack(t->words[rank]));
        uint64_t speed = p->step.speeds[rank] == 0 ? 1 : p->step.speeds[rank];
        if (!is_worth_stealing(left, own_speed, p->step.speeds[rank])) continue;
        if (spares(p, rank, left, &wait)) {
            if (wait > 0 && (*wait_ns == 0 || wait < *wait_ns)) *wait_ns = wait;
            continue;
        }
        if (best >= 0 && left * best_speed <= best_cost * speed) continue;
        best = (int)rank;
        best_cost = left;
        best_speed = speed;
    }
    return best;
}

static bool all_words_ready(const gw_peer *p) {
    int own = gw_peer_own_rank(p);
    for (uint32_t rank = 0; rank < p->view.current.count; rank++)
        if ((int)rank != own && !is_live_deal(&p->step.thief, rank, p->step.tag)) return false;
    return true;
}

/* All words of this round have been read: steals, reads them again later, or seals. The reduction waits
 * anyway for a member whose word is not ready, so to read it again costs nothing, and lets this peer help
 * that member. */
static void decide(gw_peer *p) {
    gw_thief *t = &p->step.thief;
    uint64_t wait_ns;
    int victim = choose_victim(p, &wait_ns);
    if (victim < 0) {
        if (!all_words_ready(p))
            t->retry_ns = p->now + NOT_READY_RETRY_US * 1000;
        else if (wait_ns > 0)
            t->retry_ns = p->now + wait_ns;
        else
            seal_or_wait(p);
        return;
    }
    gw_word word = gw_word_unpack(t->words[victim]), rest;
    uint64_t own_speed = p->step.speeds[gw_peer_own_rank(p)];
    bool some = gw_word_split(word, own_speed, p->step.speeds[victim], &rest, &t->first, &t->end);
    GW_ASSERT(some);
    t->victim = (uint32_t)victim;
    t->desired = gw_word_pack(rest);
    gw_action *swap = gw_peer_act(p, GW_ACT_SWAP_WORD);
    swap->token = t->swap = gw_peer_token(p);
    swap->peer = p->view.current.members[victim].id;
    swap->swap_word.expected = t->words[victim];
    swap->swap_word.desired = t->desired;
}

static void look_around(gw_peer *p) {
    gw_thief *t = &p->step.thief;
    t->active = true;
    t->outstanding = 0;
    t->swap = 0;
    t->retry_ns = 0;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        t->tokens[rank] = 0;
        t->known[rank] = false;
        const gw_peer_id *id = &p->view.current.members[rank].id;
        const gw_contact *contact = gw_peer_contact(p, id);
        if (gw_peer_id_equal(id, &p->config.id) || contact == NULL || !contact->linked) continue;
        gw_action *read = gw_peer_act(p, GW_ACT_READ_WORD);
        read->token = t->tokens[rank] = gw_peer_token(p);
        read->peer = *id;
        t->outstanding++;
    }
    if (t->outstanding > 0) return;
    decide(p);
    if (t->retry_ns != 0)
        t->retry_ns = p->now + NOBODY_RETRY_US * 1000; /* no word could be read, so there is no hurry */
}

void gw_steps_dry(gw_peer *p, const gw_event *event) {
    if (p->phase != GW_AT_COMPUTING || event->dry.tag != p->step.tag || p->step.thief.active) return;
    look_around(p);
}

void gw_steps_word_read(gw_peer *p, const gw_event *event) {
    gw_thief *t = &p->step.thief;
    if (!t->active || event->token == 0) return;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        if (t->tokens[rank] != event->token) continue;
        t->tokens[rank] = 0;
        t->known[rank] = event->word.outcome == GW_WORD_OK;
        t->words[rank] = event->word.value;
        if (--t->outstanding == 0) decide(p);
        return;
    }
}

void gw_steps_word_swapped(gw_peer *p, const gw_event *event) {
    gw_thief *t = &p->step.thief;
    if (!t->active || event->token != t->swap || t->swap == 0) return;
    t->swap = 0;
    switch (event->word.outcome) {
    case GW_WORD_OK: {
        uint32_t count = t->end - t->first;
        p->step.steals++;
        p->step.shards_stolen += count;
        gw_action *take = gw_peer_act(p, GW_ACT_TAKE);
        take->take.tag = p->step.tag;
        take->take.first = t->first;
        take->take.end = t->end;
        gw_action *notice = gw_peer_notice(p, GW_NOTICE_STEAL, " ");
        notice->peer = p->view.current.members[t->victim].id;
        notice->notice.steal.shards = count;
        t->active = false;
        break;
    }
    case GW_WORD_DIFFERS:
        t->words[t->victim] = event->word.value;
        decide(p);
        break;
    case GW_WORD_FENCED:
        t->known[t->victim] = false;
        decide(p);
        break;
    case GW_WORD_UNKNOWN:
        t->active = false;
        gw_agenda_change_view(p, "the outcome of a steal is unknown");
        break;
    }
}

static void consider_held(gw_peer *p) {
    bool long_held = p->now >= p->step.held_ns + gw_peer_ms(p, SHOW_HELD_MS);
    if (gw_saves_hold_step(p)) {
        if (long_held)
            gw_peer_waits(p, "the checkpoint of the best state so far, of step %" PRIu64, p->state.step);
        return;
    }
    p->step.held_ns = 0;
    if (long_held) gw_peer_waits_no_more(p);
    look_around(p); /* others may have shards left */
}

void gw_steps_consider(gw_peer *p) {
    if (p->phase == GW_AT_COMPUTING && p->step.thief.active && p->step.thief.retry_ns != 0 &&
        p->now >= p->step.thief.retry_ns)
        look_around(p);
    if (p->phase == GW_AT_COMPUTING && p->step.held_ns != 0) consider_held(p);
    gw_retry_consider(p);
}

/* Claims given back. */

void gw_steps_shard_lost(gw_peer *p, const gw_event *event) {
    /* If this peer froze meanwhile, the shard is missing in its report anyway. */
    if (p->phase != GW_AT_COMPUTING && p->phase != GW_AT_SEALING) return;
    p->step.lacks_shard = true;
    gw_poison_give_back(p, event->shard_lost.shard, event);
}

/* The shard of a worker process that has ended may be one of an earlier step, or of an accumulator that was
 * dropped meanwhile. */
void gw_steps_worker_lost(gw_peer *p, const gw_event *event) {
    if (event->worker_lost.step != p->state.step || p->step.accumulator_step != p->state.step) return;
    gw_poison_worker_lost(p, event);
    if (p->phase == GW_AT_OVER || !event->worker_lost.given_back) return;
    if (p->phase == GW_AT_COMPUTING || p->phase == GW_AT_SEALING) {
        p->step.lacks_shard = true;
        gw_poison_give_back(p, event->worker_lost.shard, event);
        return;
    }
    p->step.owed_shard_plus_1 = event->worker_lost.shard + 1;
    p->step.owed_step = event->worker_lost.step;
}

/* Sealing and reducing. */

static int64_t row_check(const int64_t *row) {
    uint64_t check = 0;
    for (int i = 0; i < GW_SLOT_CHECK; i++) check = gw_mix64(check ^ (uint64_t)row[i]);
    return (int64_t)check;
}

/* Encodes a bad element as two integers, which are ordered as (shard, tensor, index) and are 0 for none. */
static void put_bad(int64_t *row, const gw_bad *bad) {
    if (!bad->present) return;
    row[GW_SLOT_BAD] = (int64_t)((uint64_t)(bad->shard + 1) << 32 | bad->tensor);
    row[GW_SLOT_BAD_INDEX] = (int64_t)bad->index;
}

/* The first bad element of all members. It is not present if no shard has one: a float sum can be out of
 * range although each of its parts is within it. */
static gw_bad first_bad(const gw_peer *p, const int64_t *slots) {
    const int64_t *least = NULL;
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const int64_t *row = slots + (size_t)rank * GW_SLOTS;
        if (row[GW_SLOT_BAD] == 0) continue;
        bool less =
            least == NULL || row[GW_SLOT_BAD] < least[GW_SLOT_BAD] ||
            (row[GW_SLOT_BAD] == least[GW_SLOT_BAD] && row[GW_SLOT_BAD_INDEX] < least[GW_SLOT_BAD_INDEX]);
        if (less) least = row;
    }
    if (least == NULL) return (gw_bad){.present = false};
    uint64_t key = (uint64_t)least[GW_SLOT_BAD];
    return (gw_bad){.present = true,
                    .shard = (uint32_t)(key >> 32) - 1,
                    .tensor = (uint32_t)key,
                    .index = (uint64_t)least[GW_SLOT_BAD_INDEX]};
}

/* Notes a measured speed (0: this peer had no shard), and forgets an old one. A peer that stood still for a
 * moment was slow in that step. If there are few shards, it is dealt none after that, and nothing measures
 * its speed again. After a while, its speed counts as unknown, and it is dealt the mean. If it is still slow,
 * the others wait for one shard of it; for this reason the while is many shards, and twice as many each
 * time. */
static void note_speed(gw_peer *p, uint64_t measured) {
    if (measured > 0) {
        if (!p->step.speed_old) p->step.idle_shards = LEAST_IDLE_SHARDS;
        p->step.own_speed = measured;
        p->step.speed_ns = p->now;
        p->step.speed_old = false;
        return;
    }
    if (p->step.own_speed == 0 || p->step.speed_old) return;
    GW_ASSERT(p->step.idle_shards >= LEAST_IDLE_SHARDS && p->now >= p->step.speed_ns);
    if (p->now - p->step.speed_ns < p->step.idle_shards * (SHARD_NS / p->step.own_speed)) return;
    p->step.speed_old = true;
    if (p->step.idle_shards < MOST_IDLE_SHARDS) p->step.idle_shards *= 2;
}

uint64_t gw_steps_speed(const gw_peer *p) {
    return p->step.speed_old ? 0 : p->step.own_speed;
}

void gw_steps_sealed(gw_peer *p, const gw_event *event, bool newcomers) {
    if (p->phase != GW_AT_SEALING || event->token != p->step.seal_token) return;
    p->step.seal_token = 0;
    note_speed(p, event->sealed.speed);
    p->step.own_joules = event->sealed.joules < GW_JOULES_MOST ? event->sealed.joules : GW_JOULES_MOST;
    if (p->step.lacks_shard) return; /* a view has been asked for in which the shard is dealt again */
    p->phase = GW_AT_REDUCING;
    gw_action *reduce = gw_peer_act(p, GW_ACT_REDUCE);
    reduce->token = p->step.reduce_token = gw_peer_token(p);
    reduce->step = p->state.step;
    reduce->reduce.arrangement = p->faults.arrangement;
    int64_t *row = reduce->reduce.slots;
    row[GW_SLOT_SPEED] = (int64_t)gw_steps_speed(p);
    row[GW_SLOT_FINGERPRINT] = (int64_t)p->state.fingerprint;
    if (gw_peer_is_leader(p) && p->config.best.on) row[GW_SLOT_BEST] = gw_best_word(&p->state.best);
    if (gw_peer_is_leader(p)) row[GW_SLOT_DECISIONS] = gw_saves_decide(p) | (newcomers ? GW_DECIDE_PAUSE : 0);
    if (p->save.unwritable) row[GW_SLOT_FLAGS] |= GW_FLAG_UNWRITABLE;
    /* A cost is as old as the speed: a peer that has been spared for long is tried again. */
    if (p->config.deal_energy && !p->step.speed_old)
        row[GW_SLOT_FLAGS] |= (int64_t)(p->step.own_joules << GW_JOULES_SHIFT);
    put_bad(row, &event->sealed.bad);
    row[GW_SLOT_CHECK] = row_check(row);
    gw_verify_reduce(p, event, reduce);
}

static const char *what_is_wrong(gw_peer *p, const gw_event *event) {
    if (!event->reduced.coverage_ok) return "its coverage is wrong";
    if (!event->reduced.fingerprint_ok) return "its fingerprint is wrong";
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const int64_t *row = event->reduced.slots + (size_t)rank * GW_SLOTS;
        if (row[GW_SLOT_CHECK] != row_check(row)) return "a member's decisions were damaged on the way";
    }
    return gw_verify_states_agree(p, event->reduced.slots) ? NULL : "the members' states differ";
}

static void take_decisions(gw_peer *p, const int64_t *slots) {
    int leader = gw_view_rank(&p->view.current, &p->view.current.leader);
    p->step.decisions = slots[(size_t)leader * GW_SLOTS + GW_SLOT_DECISIONS];
    gw_job_state_adopt_best(p, slots[(size_t)leader * GW_SLOTS + GW_SLOT_BEST]);
    for (uint32_t rank = 0; rank < p->view.current.count; rank++) {
        const int64_t *row = slots + (size_t)rank * GW_SLOTS;
        p->step.speeds[rank] = (uint64_t)row[GW_SLOT_SPEED];
        p->step.joules[rank] = (uint64_t)row[GW_SLOT_FLAGS] >> GW_JOULES_SHIFT;
        gw_saves_note_disk(p, rank, row[GW_SLOT_FLAGS] & GW_FLAG_UNWRITABLE);
    }
}

static const char *tensor_name(const gw_peer *p, uint32_t tensor, char number[16]) {
    if (tensor < p->config.tensor_count) return p->config.tensors[tensor].name;
    snprintf(number, 16, "%" PRIu32, tensor);
    return number;
}

static void say_where(const gw_peer *p, const gw_bad *bad, char *text, size_t capacity) {
    char number[16];
    if (bad->present)
        snprintf(text, capacity, "the first in shard %u, tensor %s, element %" PRIu64, bad->shard,
                 tensor_name(p, bad->tensor, number), bad->index);
    else
        snprintf(text, capacity, "none of them in a shard: what they add up to is out of range");
}

/* Tells people which elements are bad, and what is done about it. */
static void tell_bad(gw_peer *p, const gw_event *event) {
    char where[GW_MAX_TENSOR_NAME + 100], text[GW_TEXT_BYTES];
    gw_bad bad = first_bad(p, event->reduced.slots);
    say_where(p, &bad, where, sizeof where);
    gw_action *notice = gw_peer_notice(p, GW_NOTICE_BAD, " ");
    notice->step = p->state.step;
    notice->notice.bad = bad;
    snprintf(text, sizeof text,
             "%" PRIu64 " elements of the sum of step %" PRIu64 " are not finite or out of range, %s",
             event->reduced.bad_count, p->state.step, where);
    if (p->config.skip_bad)
        gw_peer_say(p, GW_WARN, "%s: the step's update is skipped", text);
    else
        gw_peer_finish(
            p, GW_FINISH_FAILED, NULL,
            "%s: a learning rate that is too high is a frequent cause, and so are gradients that are not "
            "clipped (--on-bad skip would skip such updates)",
            text);
}

static void apply_sum(gw_peer *p, const gw_event *event) {
    bool skip = event->reduced.bad_count > 0;
    if (skip) tell_bad(p, event);
    if (p->phase == GW_AT_OVER) return;
    take_decisions(p, event->reduced.slots);
    if (p->phase != GW_AT_FROZEN) p->phase = GW_AT_APPLYING;
    p->step.applying = true;
    gw_action *apply = gw_peer_act(p, GW_ACT_APPLY);
    apply->token = p->step.apply_token = gw_peer_token(p);
    apply->step = p->state.step;
    apply->apply.skip_update = skip;
    apply->apply.check_state = p->config.verify > 0;
}

void gw_steps_reduced(gw_peer *p, const gw_event *event) {
    if (event->token != p->step.reduce_token) return;
    p->step.reduce_token = 0;
    GW_ASSERT(!p->step.applying);
    if (p->view.current.epoch == 0)
        return; /* this peer was left behind meanwhile, and joins again with the state that it has */
    if (event->outcome == GW_DONE) {
        if (event->reduced.coverage_ok && event->reduced.fingerprint_ok) gw_retry_succeeded(p);
        const char *wrong = what_is_wrong(p, event);
        if (wrong == NULL) {
            gw_commit_agreed(p);
            if (!gw_verify_disputes(p, event)) apply_sum(p, event);
            return;
        }
        if (p->phase == GW_AT_OVER) return;
        p->step.failures++;
        snprintf(p->step.refused, sizeof p->step.refused, "%s%s%s", wrong, event->text == NULL ? "" : ", ",
                 event->text == NULL ? "" : event->text);
        gw_peer_say(p, GW_ERROR, "the sum of step %" PRIu64 " is not applied: %s", p->state.step,
                    p->step.refused);
        if (event->reduced.damaged) gw_verify_own_part(p);
        if (p->phase == GW_AT_OVER) return;
        if (p->phase != GW_AT_FROZEN)
            gw_agenda_change_view(p, "the sum of step %" PRIu64 " was refused: %s", p->state.step,
                                  p->step.refused);
    } else if (event->reduced.damaged) {
        gw_verify_damaged(p);
    } else {
        gw_retry_failed(p, event);
    }
}

/* The boundary. */

/* Decides what follows when the state after a step is in place and no change of views is needed. */
static void go_on(gw_peer *p) {
    if (p->state.ended) {
        gw_saves_end(p);
        return;
    }
    if (gw_leave_at_boundary(p) || gw_leave_rest(p)) return;
    if ((p->step.decisions & GW_DECIDE_SAVE) || gw_job_state_is_unsaved_best(p)) gw_saves_open(p, false);
    if ((p->step.decisions & GW_DECIDE_PAUSE) == 0) {
        begin_whole_step(p);
        return;
    }
    p->phase = GW_AT_PAUSED;
    gw_agenda_pause_at_boundary(p);
}

static void take_step(gw_peer *p, const gw_event *event) {
    gw_job_state_advance(p, event->applied.fingerprint);
    gw_commit_applied(p);
    p->step.last_ns = p->step.begun_ns != 0 && p->now > p->step.begun_ns ? p->now - p->step.begun_ns : 0;
    p->step.failures = 0;
    gw_verify_forget_doubt(p);
    gw_poison_forget(p, p->state.step);
    if (event->applied.evaluated) gw_job_state_evaluated(p, event->applied.value);
    bool impatient = gw_best_is_over(&p->state.best, &p->config.best);
    if (impatient)
        gw_peer_say(p, GW_INFO,
                    "the job ends with step %" PRIu64 ": %" PRIu32
                    " evaluations in a row were no better (%s) than %.9g of step %" PRIu64,
                    p->state.step, p->state.best.waited, p->config.best_by, p->state.best.value,
                    p->state.best.step);
    bool last = event->applied.stop || impatient ||
                p->state.step >= p->config.steps; /* the job is done, even if a stop was requested here */
    bool stopped = !last && (p->state.stopped || (p->step.decisions & GW_DECIDE_STOP) != 0);
    gw_job_state_set_end(p, p->state.step, last || stopped, stopped);
}

void gw_steps_applied(gw_peer *p, const gw_event *event) {
    if (event->token != p->step.apply_token || !p->step.applying) return;
    p->step.applying = false;
    p->step.apply_token = 0;
    if (event->outcome == GW_DONE) {
        take_step(p, event);
    } else if (event->applied.damaged) {
        gw_verify_damaged(p);
    } else {
        gw_peer_finish(p, GW_FINISH_FAILED, NULL, "step %" PRIu64 " could not be applied: %s", p->state.step,
                       gw_peer_why(event));
    }
    if (p->phase == GW_AT_OVER) return;
    if (p->phase == GW_AT_APPLYING) {
        if (p->state.present) go_on(p);
        return;
    }
    if (p->step.decisions & GW_DECIDE_SAVE) gw_saves_ask(p); /* at the next boundary; this one has passed */
}

/* What a view does with a step. */

void gw_steps_open(gw_peer *p) {
    p->step.accumulator_step = UINT64_MAX;
}

void gw_steps_freeze(gw_peer *p) {
    p->step.thief.active = false;
    p->step.held_ns = 0;
    p->step.seal_token = 0;
}

void gw_steps_frozen(gw_peer *p, const gw_event *event) {
    p->step.accumulator_step = event->frozen.poisoned ? UINT64_MAX : event->frozen.accumulator_step;
}

void gw_steps_view_begins(gw_peer *p, const gw_install *i) {
    p->step.failures = i->failures;
    p->step.careful = gw_shard_deaths_in_step(&i->losses, i->step);
    p->step.shards = i->missing.size;
    for (uint32_t k = 0; k < i->view.count; k++) p->step.speeds[k] = i->cuts[k + 1] - i->cuts[k];
    memset(p->step.joules, 0, sizeof p->step.joules); /* ranks have changed; the next sum tells them */
}

/* Begins the accumulator of a step, with all its shards. It does so even if the job is stopped and nothing is
 * computed: the next view may go on from this state, with members that do not know of the stop. */
void gw_steps_begin_accumulator(gw_peer *p, uint64_t step) {
    gw_action *begin = gw_peer_act(p, GW_ACT_BEGIN_STEP);
    begin->step = step;
    begin->begin_step.shards = step < p->config.steps ? p->config.shards(p->config.shards_context, step) : 0;
    p->step.accumulator_step = step;
}
