/* A peer's workers: its word, the shards that it takes from it, and what it finds out about them. */
#include "tests/core/brain/flock/inside.h"

#include "core/rng.h"
#include "core/shard/range.h"

#include <criterion/criterion.h>
#include <string.h>

static uint64_t measured_speed(const flock_peer *p) {
    if (p->speed == 0) return 1000;
    return gw_set_count(&p->added) > 0 ? p->speed : 0;
}

static void seal_if_done(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    if (p->sealing == 0 || p->owes_now) return;
    gw_event event = {.kind = GW_EV_SEALED,
                      .token = p->sealing,
                      .sealed.speed = measured_speed(p),
                      .sealed.joules = p->joules,
                      .sealed.rechecks = p->checks,
                      .sealed.recheck_count = p->check_count};
    if (p->bad_shard) event.sealed.bad = (gw_bad){.present = true, .shard = 3 + i, .tensor = 1, .index = 7};
    if (p->bad_at != NULL) event.sealed.bad = *p->bad_at;
    p->sealing = 0;
    flock_post(f, i, 1000 + p->seal_ns, event);
}

/* The peer has another worker process compute a shard that has ended one, and gives the shard back after the
 * second. Returns whether it is computed after all. */
static bool survives(flock *f, uint32_t i, uint32_t shard) {
    flock_peer *p = &f->peers[i];
    bool ends = p->ends_process == (int64_t)shard && (p->ends_at_step == 0 || p->ends_at_step == p->step);
    if (!ends) return true;
    bool counts = p->ends_by != GW_WORKER_KILLED && p->ends_by != GW_WORKER_DROPPED;
    if (p->loss_step != p->step) p->losses = 0;
    p->loss_step = p->step;
    for (bool back = false; !back;) {
        back = ++p->losses >= 2 && counts;
        flock_post(f, i, 0,
                   (gw_event){.kind = GW_EV_WORKER_LOST,
                              .text = f->reason,
                              .worker_lost.kind = p->ends_by != 0 ? p->ends_by : GW_WORKER_CRASHED,
                              .worker_lost.step = p->step,
                              .worker_lost.shard = shard,
                              .worker_lost.serial = ++p->processes,
                              .worker_lost.given_back = back});
        if (!counts && p->losses >= 10) return true;
    }
    return false;
}

/* Takes everything that is in the own word. */
static void work(flock *f, uint32_t i) {
    flock_peer *p = &f->peers[i];
    if (p->rests) return;
    gw_word word = gw_word_unpack(p->word);
    uint32_t first, count;
    while (word.tag != 0 && gw_word_take(&word, 1, &first, &count)) {
        uint32_t shard = first;
        if (p->list.size > 0) {
            shard = gw_set_next(&p->list, 0);
            for (uint32_t k = 0; k < first; k++) shard = gw_set_next(&p->list, shard + 1);
        }
        bool fails = p->fails_at_shard == (int64_t)shard, breaks = p->breaks_at_shard == (int64_t)shard;
        if (fails || breaks ||
            (p->dies_at_shard == (int64_t)shard && (p->dies_at_step == 0 || p->dies_at_step == p->step))) {
            gw_event claim = {.kind = GW_EV_CLAIM, .claim.shard = shard};
            if (p->careful) flock_post(f, i, 0, claim);
            gw_event end = {.kind = fails    ? GW_EV_SHARD_FAILED
                                    : breaks ? GW_EV_DEVICE_LOST
                                             : (gw_event_kind)0,
                            .text = f->reason};
            if (fails) end.shard_failed.shard = shard;
            flock_post(f, i, 10, end)->fatal_shard = shard;
            p->word = gw_word_pack(word);
            return;
        }
        if (p->gives_back > 0) {
            p->gives_back--;
            flock_post(f, i, 0,
                       (gw_event){.kind = GW_EV_SHARD_LOST, .shard_lost.shard = shard, .text = f->reason});
            continue;
        }
        if (!survives(f, i, shard)) continue;
        if (p->owes == (int64_t)shard) {
            p->owes_now = true;
            continue;
        }
        bool lost = p->loses_shard;
        p->loses_shard = false;
        if (lost) continue;
        p->adds[shard]++;
        p->computed++;
        gw_set_add(&p->added, shard);
    }
    p->word = gw_word_pack(word);
    if (p->dry_told || word.tag == 0) return;
    p->dry_told = true;
    flock_post(f, i, 1000, (gw_event){.kind = GW_EV_DRY, .dry.tag = word.tag});
}

void flock_take(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    p->word = gw_word_pack((gw_word){p->tag, a->take.first, a->take.end});
    p->dry_told = false;
    work(f, i);
}

void flock_wake(flock *f, uint32_t i) {
    f->peers[i].rests = false;
    work(f, i);
}

void flock_seal(flock *f, uint32_t i, const gw_action *a) {
    f->peers[i].sealing = a->token;
    seal_if_done(f, i);
}

void flock_word(flock *f, uint32_t i, const gw_action *a) {
    int victim = flock_index(f, &a->peer);
    flock_peer *v = &f->peers[victim];
    bool swap = a->kind == GW_ACT_SWAP_WORD;
    gw_event event = {
        .kind = swap ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ, .token = a->token, .word.value = v->word};
    bool fenced = v->brain == NULL || !gw_view_name_equal(&v->fence.name, &f->peers[i].fence.name);
    fenced |= !f->peers[i].linked[victim] || f->data_lost[i][victim];
    event.word.outcome = fenced ? GW_WORD_FENCED : GW_WORD_OK;
    if (swap && !fenced) {
        if (v->word == a->swap_word.expected)
            v->word = a->swap_word.desired;
        else
            event.word.outcome = GW_WORD_DIFFERS;
    }
    flock_post(f, i, 2000, event);
}

void flock_freeze(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    p->fence = (gw_view){0};
    p->word = 0;
    p->sealing = 0;
    if (p->reducing != 0)
        flock_post(f, i, 500, (gw_event){.kind = GW_EV_REDUCED, .token = p->reducing, .outcome = GW_ABORTED});
    p->reducing = 0;
    gw_event event = {.kind = GW_EV_FROZEN,
                      .token = a->token,
                      .frozen.accumulator_step = p->accumulator_step,
                      .frozen.poisoned = p->poisoned};
    p->poisoned = false;
    flock_event *e = flock_post(f, i, 1000, event);
    if (p->added.size == 0) return;
    e->held = gw_set_copy(&p->added);
    e->claimed = gw_set_of(p->added.size);
    if (!p->owes_now) return;
    gw_set_add(&e->claimed, (uint32_t)p->owes);
    event = (gw_event){.kind = GW_EV_WORKER_LOST,
                       .worker_lost.kind = GW_WORKER_CRASHED,
                       .worker_lost.step = p->step,
                       .worker_lost.shard = (uint32_t)p->owes,
                       .worker_lost.serial = ++p->processes,
                       .worker_lost.given_back = true};
    flock_post(f, i, 1001, event);
    p->owes = -1;
    p->owes_now = false;
}

void flock_begin_step(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    p->accumulator_step = a->step;
    gw_set_free(&p->added);
    p->added = gw_set_of(a->begin_step.shards);
    memset(p->adds, 0, sizeof p->adds);
}

/* The fingerprint of what this peer computes of a shard. */
static uint64_t fingerprint_of(flock_peer *p, uint32_t shard) {
    uint64_t right = gw_mix64(p->step << 20 ^ shard);
    if (p->wrongs == 0) return right;
    p->wrongs--;
    return ~right;
}

/* Who computes a chosen shard first is told here as it was dealt, whoever adds it. */
static void check(flock_peer *p, const gw_action *a) {
    uint32_t positions[GW_VERIFY_MOST], position = 0;
    gw_verify_part part;
    p->check_count = 0;
    p->chosen_count = a->deal.chosen_count;
    for (uint32_t i = 0; i < a->deal.chosen_count; i++) positions[i] = GW_VERIFY_HELD;
    for (uint32_t shard = 0; shard < FLOCK_SHARDS; shard++) {
        if (a->deal.list != NULL && !gw_set_has(a->deal.list, shard)) continue;
        for (uint32_t i = 0; i < a->deal.chosen_count; i++)
            if (a->deal.chosen[i] == shard) positions[i] = position;
        position++;
    }
    gw_verify_divide(a->deal.chosen, positions, a->deal.chosen_count, a->deal.cuts, a->deal.members,
                     a->deal.rank, a->step, NULL, 0, &part);
    for (uint32_t k = 0; k < part.first_count; k++)
        p->checks[p->check_count++] =
            (gw_recheck){.shard = part.first[k], .fingerprint = fingerprint_of(p, part.first[k])};
    for (uint32_t k = 0; k < part.again_count; k++)
        p->checks[p->check_count++] = (gw_recheck){
            .shard = part.again[k], .again = true, .fingerprint = fingerprint_of(p, part.again[k])};
}

void flock_deal(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    cr_assert_eq(p->accumulator_step, p->step, "a deal needs this step's accumulator");
    cr_assert_eq(p->added.size, FLOCK_SHARDS, "with room for its shards");
    gw_set_free(&p->list);
    if (a->deal.list != NULL) p->list = gw_set_copy(a->deal.list);
    p->tag = a->deal.tag;
    p->careful = a->deal.careful;
    p->dry_told = false;
    p->word = gw_word_pack((gw_word){a->deal.tag, a->deal.first, a->deal.end});
    check(p, a);
    work(f, i);
}

void flock_probe(flock *f, uint32_t i, const gw_action *a) {
    flock_peer *p = &f->peers[i];
    gw_outcome outcome = p->probe_fails ? GW_FAILED : p->probes_lost > 0 ? GW_ABORTED : GW_DONE;
    cr_assert_eq(a->step, p->step);
    p->probes_lost -= p->probes_lost > 0;
    flock_post(f, i, 500000,
               (gw_event){.kind = GW_EV_PROBED,
                          .token = a->token,
                          .outcome = outcome,
                          .text = f->reason,
                          .probed.fingerprint = fingerprint_of(p, a->probe.shard)});
}
