/* The actions of brains: checked against the contract, and carried out as the fates decide. */
#include "tests/fuzz/brain_world.h"

#include "core/brain/message.h"
#include "core/rng.h"
#include "core/shard/range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
enum { SOON_NS = 1000, SHARD_NS = 100, MOST_PROGRESS = 64 };

/* Fates. */

/* The outcome: the low three bits of a fate. The other five, n, give the delay of 2^n us, up to half an
 * hour. */
typedef enum fate_kind { FAILS = 4, DAMAGED, WRONG, LOST, KINDS } fate_kind;

typedef struct fate {
    fate_kind kind; /* in a world without FAILS: success */
    uint64_t delay_ns;
    bool tells; /* progress reports */
} fate;

static fate next_fate(world *w, uint64_t usual_ns) {
    uint8_t byte = w->fate < w->fate_count ? w->fates[w->fate++] : 0;
    unsigned late = byte / KINDS;
    return (fate){.kind = (fate_kind)(byte % KINDS),
                  .delay_ns = late == 0 ? usual_ns : UINT64_C(1000) << late,
                  .tells = byte % 2 == 1};
}

static gw_event answer(gw_event_kind kind, const gw_action *a, bool good) {
    return (gw_event){.kind = kind,
                      .token = a->token,
                      .outcome = good ? GW_DONE : GW_FAILED,
                      .text = good ? NULL : "as fate has it"};
}

/* Returns the time of the outcome, which is not before the end of what was asked earlier. */
static uint64_t in_turn(const world *w, uint64_t *free_ns, uint64_t delay_ns) {
    uint64_t at = w->now + delay_ns > *free_ns ? w->now + delay_ns : *free_ns;
    *free_ns = at;
    return at - w->now;
}

/* Checks that a token belongs to one action, and to no other action that is under way. */
static void check_token(const world *w, uint32_t i, gw_token token) {
    const world_brain *b = &w->brains[i];
    GW_ASSERT(token != 0 && token != b->reducing && token != b->sealing);
    for (uint32_t k = 0; k < w->queued; k++)
        GW_ASSERT(w->queue[k].to != i || w->queue[k].event.token != token ||
                  w->queue[k].boot != b->config.incarnation.boot);
}

static bool has_token(gw_action_kind kind) {
    static const gw_action_kind kinds[] = {GW_ACT_FREEZE, GW_ACT_READ_WORD, GW_ACT_SWAP_WORD, GW_ACT_SEAL,
                                           GW_ACT_REDUCE, GW_ACT_PROBE,     GW_ACT_LOOK,      GW_ACT_APPLY,
                                           GW_ACT_COMMIT, GW_ACT_LOAD,      GW_ACT_SAVE,      GW_ACT_MANIFEST,
                                           GW_ACT_PERSIST};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (kinds[k] == kind) return true;
    return false;
}

/* The work of a step. */

static void seal_if_done(world *w, uint32_t i) {
    world_brain *b = &w->brains[i];
    if (b->sealing == 0 || b->in_flight >= 0) return;
    fate f = next_fate(w, SOON_NS);
    gw_event event = {.kind = GW_EV_SEALED,
                      .token = b->sealing,
                      .sealed.speed = 1000,
                      .sealed.joules = UINT64_C(1000) << 3 * i,
                      .sealed.recheck_count = b->check_count};
    if (f.kind == DAMAGED) event.sealed.speed = event.sealed.joules = 0;
    b->bad |= f.kind == WRONG;
    if (b->bad) event.sealed.bad = (gw_bad){.present = true, .shard = i, .tensor = 1, .index = 7};
    b->sealing = 0;
    event.sealed.rechecks = b->checks;
    world_post(w, i, f.delay_ns, event);
}

/* Claims the next shard, if the worker is free and a shard is left. */
static void work_on(world *w, uint32_t i) {
    world_brain *b = &w->brains[i];
    gw_word word = gw_word_unpack(b->word);
    uint32_t position, count;
    while (b->in_flight < 0 && word.tag != 0 && gw_word_take(&word, 1, &position, &count)) {
        b->word = gw_word_pack(word);
        if (position >= b->dealt_count) continue; /* of a forged deal */
        uint32_t shard = b->dealt[position];
        fate f = next_fate(w, SHARD_NS);
        if (f.kind == LOST) {
            world_post(w, i, 0,
                       (gw_event){.kind = GW_EV_SHARD_LOST, .shard_lost.shard = shard, .text = "no payload"});
            continue;
        }
        b->in_flight = (int)shard;
        if (f.kind == WRONG) { /* its first worker process ends at it, or the second as well */
            world_post(w, i, f.delay_ns,
                       (gw_event){.kind = GW_EV_WORKER_LOST,
                                  .text = "it ended",
                                  .worker_lost.kind = 1 + (gw_worker_loss)(shard % GW_WORKER_DROPPED),
                                  .worker_lost.step = b->accumulator_step,
                                  .worker_lost.shard = shard,
                                  .worker_lost.serial = ++b->processes,
                                  .worker_lost.given_back = b->processes % 2 == 0});
            if (b->processes % 2 == 0) {
                b->in_flight = -1;
                continue;
            }
        }
        if (b->careful) world_post(w, i, 0, (gw_event){.kind = GW_EV_CLAIM, .claim.shard = shard});
        gw_event event = {.kind = f.kind == FAILS ? GW_EV_SHARD_FAILED : GW_EV_DEVICE_LOST,
                          .text = "as fate has it"};
        if (f.kind == FAILS) event.shard_failed.shard = shard;
        world_event *e = world_post(w, i, f.delay_ns, event);
        e->shard = shard;
        e->accumulators = b->accumulators;
        if (f.kind != FAILS && f.kind != DAMAGED) e->chore = CHORE_SHARD;
    }
    if (b->in_flight >= 0 || word.tag == 0 || b->dry) return;
    b->dry = true;
    if (b->careful) world_post(w, i, 0, (gw_event){.kind = GW_EV_CLAIM, .claim.shard = UINT32_MAX});
    world_post(w, i, SOON_NS, (gw_event){.kind = GW_EV_DRY, .dry.tag = word.tag});
}

void world_add_shard(world *w, uint32_t i, uint32_t shard) {
    world_brain *b = &w->brains[i];
    b->adds[shard]++;
    b->in_flight = -1;
    if (b->sealing == 0) work_on(w, i);
    seal_if_done(w, i);
}

static void begin_step(const world *w, world_brain *b, const gw_action *a) {
    bool ends = a->begin_step.shards == 0; /* the job ends in that state: nothing is dealt any more */
    /* a forged leader may send anything */
    GW_ASSERT(ends || a->begin_step.shards == WORLD_SHARDS || w->forged);
    b->no_shards = ends;
    b->accumulator_step = a->step;
    b->accumulators++;
    b->in_flight = -1;
    b->check_count = 0;
    b->bad = false;
    memset(b->adds, 0, sizeof b->adds);
}

static uint64_t fingerprint_of(const gw_action *a, uint32_t shard, bool wrong) {
    uint64_t right = gw_mix64(a->step << 20 ^ shard);
    return wrong ? ~right : right;
}

/* Notes a chosen shard. Any worker may add it, but its fingerprints are reported as the shards were
 * divided. */
static void check_chosen(world *w, world_brain *b, const gw_action *a) {
    uint32_t positions[GW_VERIFY_MOST];
    gw_verify_part part;
    GW_ASSERT(a->deal.chosen_count <= WORLD_SHARDS || w->forged);
    for (uint32_t k = 0; k < a->deal.chosen_count; k++) {
        positions[k] = GW_VERIFY_HELD;
        for (uint32_t p = 0; p < b->dealt_count; p++)
            if (b->dealt[p] == a->deal.chosen[k]) positions[k] = p;
    }
    gw_verify_divide(a->deal.chosen, positions, a->deal.chosen_count, a->deal.cuts, a->deal.members,
                     a->deal.rank, a->step, b->checks, b->check_count, &part);
    uint32_t most = sizeof b->checks / sizeof b->checks[0];
    for (uint32_t k = 0; k < part.first_count + part.again_count && b->check_count < most; k++) {
        bool again = k >= part.first_count;
        uint32_t shard = again ? part.again[k - part.first_count] : part.first[k];
        b->checks[b->check_count++] =
            (gw_recheck){.shard = shard,
                         .again = again,
                         .fingerprint = fingerprint_of(a, shard, next_fate(w, 0).kind == WRONG)};
    }
}

static void deal(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(b->accumulator_step == b->step && a->step == b->step && a->deal.tag != 0 && b->view.epoch > 0);
    GW_ASSERT(!b->no_shards || w->forged);
    b->dealt_count = 0;
    for (uint32_t shard = 0; shard < WORLD_SHARDS; shard++)
        if (a->deal.list == NULL || gw_set_has(a->deal.list, shard)) b->dealt[b->dealt_count++] = shard;
    GW_ASSERT(a->deal.first <= a->deal.end && (a->deal.end <= b->dealt_count || w->forged));
    b->word = gw_word_pack((gw_word){a->deal.tag, a->deal.first, a->deal.end});
    b->careful = a->deal.careful;
    b->dry = false;
    check_chosen(w, b, a);
    work_on(w, i);
}

static void take(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    gw_word own = gw_word_unpack(b->word);
    GW_ASSERT(own.tag == a->take.tag && gw_word_left(own) == 0 && a->take.first < a->take.end);
    b->word = gw_word_pack((gw_word){a->take.tag, a->take.first, a->take.end});
    b->dry = false;
    work_on(w, i);
}

static void look_at_word(world *w, uint32_t i, const gw_action *a) {
    bool swap = a->kind == GW_ACT_SWAP_WORD;
    int victim = world_number_of(w, &a->peer);
    fate f = next_fate(w, 2 * SOON_NS);
    gw_event event = {.kind = swap ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ, .token = a->token};
    GW_ASSERT(gw_view_rank(&w->brains[i].view, &a->peer) >= 0 && victim != (int)i);
    bool fenced = victim < 0 || w->links[i][victim] == 0 || w->brains[victim].view.epoch == 0 ||
                  !gw_view_name_equal(&w->brains[victim].view.name, &w->brains[i].view.name);
    if (fenced || f.kind == FAILS) {
        event.word.outcome = GW_WORD_FENCED;
    } else {
        world_brain *v = &w->brains[victim];
        bool fits = !swap || v->word == a->swap_word.expected;
        event.word.value = v->word;
        event.word.outcome = f.kind >= WRONG ? GW_WORD_UNKNOWN : fits ? GW_WORD_OK : GW_WORD_DIFFERS;
        if (swap && fits && f.kind != LOST) v->word = a->swap_word.desired;
    }
    world_post(w, i, f.delay_ns, event);
}

static void freeze(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(b->applying == 0);
    if (b->reducing != 0)
        world_post(w, i, SOON_NS,
                   (gw_event){.kind = GW_EV_REDUCED, .token = b->reducing, .outcome = GW_ABORTED});
    if (b->sealing != 0) world_post(w, i, SOON_NS, (gw_event){.kind = GW_EV_SEALED, .token = b->sealing});
    b->view = (gw_view){.epoch = 0};
    b->word = b->reducing = b->sealing = 0;
    gw_event event = {
        .kind = GW_EV_FROZEN, .token = a->token, .frozen.accumulator_step = b->accumulator_step};
    event.frozen.poisoned = next_fate(w, 0).kind == WRONG;
    world_event *e = world_post(w, i, SOON_NS, event);
    if (b->accumulator_step == UINT64_MAX) return;
    e->held = gw_set_of(WORLD_SHARDS);
    e->claimed = gw_set_of(WORLD_SHARDS);
    for (uint32_t shard = 0; shard < WORLD_SHARDS; shard++)
        if (b->adds[shard] > 0) gw_set_add(&e->held, shard);
    if (b->in_flight >= 0) gw_set_add(&e->claimed, (uint32_t)b->in_flight);
}

static void install(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(gw_view_rank(a->install.view, &b->config.id) >= 0 && a->install.view->epoch > b->newest_epoch);
    b->view = *a->install.view;
    b->newest_epoch = a->install.view->epoch;
}

/* Sums. */

static const world_brain *entered(const world *w, const gw_view *view, uint32_t rank) {
    int i = world_number_of(w, &view->members[rank].id);
    const world_brain *b = i < 0 ? NULL : &w->brains[i];
    bool in =
        b != NULL && b->peer != NULL && b->reducing != 0 && gw_view_name_equal(&b->view.name, &view->name);
    return in ? b : NULL;
}

/* Fills in what one member is told of a sum that every member of the view has entered. */
static void tell_sum(world *w, uint32_t i, const int64_t *slots, bool right, uint64_t bad_count) {
    world_brain *b = &w->brains[i];
    fate f = next_fate(w, SOON_NS);
    bool fails = f.kind == FAILS;
    right &= f.kind < FAILS;
    gw_event event = {.kind = GW_EV_REDUCED,
                      .token = b->reducing,
                      .outcome = fails ? GW_FAILED : GW_DONE,
                      .text = right ? NULL : "as fate has it",
                      .reduced.coverage_ok = right,
                      .reduced.fingerprint_ok = right,
                      .reduced.damaged = f.kind == DAMAGED && !fails,
                      .reduced.bad_count = bad_count};
    if (fails) event.peer = b->view.members[(i + 1) % b->view.count].id;
    world_event *e = world_post(w, i, f.delay_ns, event);
    b->reducing = 0;
    e->step = b->reduce_step;
    if (!right) return;
    e->table_at = (size_t)b->view.count * GW_SLOTS;
    size_t bytes = (e->table_at + GW_VERIFY_TABLE) * sizeof *slots;
    e->owned = malloc(bytes);
    GW_ASSERT_MEMORY(e->owned != NULL);
    memcpy(e->owned, slots, bytes);
}

static void sum_up(world *w, const gw_view *view) {
    int64_t slots[WORLD_BRAINS * GW_SLOTS + GW_VERIFY_TABLE] = {0}, *table = slots + view->count * GW_SLOTS;
    unsigned adds[WORLD_SHARDS] = {0};
    uint64_t bad_count = 0, step = 0;
    if (view->count > w->count) return;
    for (uint32_t rank = 0; rank < view->count; rank++) {
        const world_brain *b = entered(w, view, rank);
        if (b == NULL) return;
        GW_ASSERT(rank == 0 || b->reduce_step == step || w->forged);
        step = b->reduce_step;
        memcpy(slots + (size_t)rank * GW_SLOTS, b->slots, sizeof b->slots);
        for (int k = 0; k < GW_VERIFY_TABLE; k++)
            table[k] = (int64_t)((uint64_t)table[k] + (uint64_t)b->table[k]);
        for (int shard = 0; shard < WORLD_SHARDS; shard++) adds[shard] += b->adds[shard];
        bad_count += b->bad;
    }
    bool right = true;
    for (int shard = 0; shard < WORLD_SHARDS; shard++) right &= adds[shard] == 1;
    for (uint32_t rank = 0; rank < view->count; rank++)
        tell_sum(w, (uint32_t)world_number_of(w, &view->members[rank].id), slots, right, bad_count);
}

static void reduce(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(b->reducing == 0 && b->applying == 0 && b->accumulator_step == a->step && b->in_flight < 0);
    b->good_step = UINT64_MAX;
    fate f = next_fate(w, SOON_NS);
    if (f.kind == FAILS || (f.kind == DAMAGED && a->reduce.check_table != NULL)) {
        gw_event event = answer(GW_EV_REDUCED, a, false);
        event.reduced.damaged = f.kind == DAMAGED;
        world_post(w, i, f.delay_ns, event);
        return;
    }
    b->reducing = a->token;
    b->reduce_step = a->step;
    memcpy(b->slots, a->reduce.slots, sizeof b->slots);
    memset(b->table, 0, sizeof b->table);
    if (a->reduce.check_table != NULL) memcpy(b->table, a->reduce.check_table, sizeof b->table);
    const gw_view view = b->view;
    sum_up(w, &view);
}

/* States. */

static uint64_t next_state(const world *w, const world_brain *b) {
    uint64_t state = gw_mix64(b->state + b->step), view;
    memcpy(&view, &b->view.name, sizeof view);
    return (w->fast ? gw_mix64(state ^ view) : state) | 1;
}

/* Applies a sum: only a right one, of all shards of the next step, and only once. */
static void apply(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(b->good_step == a->step && b->step == a->step && b->loading == 0 && b->applying == 0);
    fate f = next_fate(w, SOON_NS);
    bool damaged = f.kind == DAMAGED && a->apply.check_state;
    gw_event event = answer(GW_EV_APPLIED, a, f.kind != FAILS && !damaged);
    event.applied.damaged = damaged;
    b->good_step = UINT64_MAX;
    if (event.outcome == GW_DONE) {
        event.applied.fingerprint = b->state = next_state(w, b);
        event.applied.evaluated = true;
        event.applied.value = (double)(b->state % 64);
        b->step++;
    }
    b->applying = a->token;
    world_post(w, i, in_turn(w, &b->state_free_ns, f.delay_ns), event);
}

static void look(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    fate f = next_fate(w, SOON_NS);
    bool effects = a->kind == GW_ACT_COMMIT;
    GW_ASSERT(!effects || a->step + 1 == b->step);
    gw_event event = answer(effects ? GW_EV_COMMITTED : GW_EV_LOOKED, a,
                            f.kind != FAILS && (effects || f.kind != DAMAGED));
    event.looked.damaged = !effects && f.kind == DAMAGED;
    world_post(w, i, in_turn(w, &b->state_free_ns, f.delay_ns), event);
}

static void probe(world *w, uint32_t i, const gw_action *a) {
    fate f = next_fate(w, SOON_NS);
    GW_ASSERT(a->step == w->brains[i].step);
    gw_event event = answer(GW_EV_PROBED, a, f.kind != FAILS);
    event.probed.fingerprint = fingerprint_of(a, a->probe.shard, f.kind == WRONG);
    world_post(w, i, f.delay_ns, event);
}

/* Whether the brains that run have all chunks of that checkpoint among them. */
static bool find_saved(const world *w, const gw_hash *root, uint64_t *state, gw_best *best) {
    gw_set chunks = gw_set_of(WORLD_CHUNKS);
    for (uint32_t i = 0; i < w->count; i++)
        for (uint32_t k = 0; k < w->brains[i].saved_count && w->brains[i].peer != NULL; k++) {
            const gw_inventory *saved = &w->brains[i].saved[k];
            if (!gw_hash_equal(&saved->root, root)) continue;
            gw_set_unite(&chunks, &saved->chunks);
            *state = saved->fingerprint;
            *best = w->brains[i].saved_best[k];
        }
    bool whole = gw_set_count(&chunks) == WORLD_CHUNKS;
    gw_set_free(&chunks);
    return whole;
}

static bool find_donor(const world *w, const gw_action *a, uint64_t *state) {
    for (uint32_t k = 0; k < a->load.source_count; k++) {
        int i = world_number_of(w, &a->load.sources[k]);
        if (i < 0 || w->brains[i].peer == NULL || w->brains[i].step != a->step) continue;
        *state = w->brains[i].state;
        return true;
    }
    return false;
}

static bool find_state(const world *w, const gw_action *a, uint64_t *state, gw_best *best) {
    *state = world_state_after(a->step);
    if (a->load.kind == GW_LOAD_INIT) return a->step == 0;
    bool found = a->load.kind == GW_LOAD_MANIFEST ? find_saved(w, &a->load.root, state, best)
                                                  : find_donor(w, a, state);
    return found || w->forged; /* a peer has reported chunks that do not exist */
}

static void tell_progress(world *w, uint32_t i, const gw_action *a, const fate *f) {
    uint64_t seconds = f->delay_ns / SECOND_NS;
    if (seconds > MOST_PROGRESS) seconds = MOST_PROGRESS;
    for (uint64_t second = 1; second <= seconds && f->tells; second++)
        world_post(w, i, second * SECOND_NS, (gw_event){.kind = GW_EV_PROGRESS, .token = a->token});
}

static void load(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    uint64_t state;
    gw_best best = {0};
    GW_ASSERT(b->applying == 0 && b->loading == 0);
    fate f = next_fate(w, SOON_NS);
    bool good = find_state(w, a, &state, &best) && f.kind != FAILS && f.kind != DAMAGED;
    gw_event event = answer(GW_EV_LOADED, a, good);
    if (good) event.loaded.best = best;
    event.loaded.fingerprint = f.kind == WRONG && a->load.fingerprint != 0 ? ~state : state;
    b->good_step = UINT64_MAX;
    b->loading = a->token;
    world_event *e = world_post(w, i, in_turn(w, &b->state_free_ns, f.delay_ns), event);
    e->step = a->step;
    e->rolls_back = w->fast && a->load.kind != GW_LOAD_PEERS;
    if (!good && f.kind == DAMAGED && a->load.kind == GW_LOAD_MANIFEST) e->held = gw_set_of(WORLD_CHUNKS);
    tell_progress(w, i, a, &f);
}

/* The disk. */

static gw_hash hash_of(uint64_t state, uint32_t chunk) {
    uint64_t content = state ^ chunk;
    gw_hash hash;
    gw_blake2b(&content, sizeof content, hash.bytes, sizeof hash.bytes);
    return hash;
}

static void save(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(b->step == a->step && b->applying == 0);
    fate f = next_fate(w, 5 * SOON_NS);
    bool good = f.kind != FAILS && (a->save.hash_only || !b->disk_full);
    gw_event event = answer(GW_EV_STORED, a, good);
    event.stored.count = good ? a->save.count : 0;
    world_event *e = world_post(w, i, f.delay_ns, event);
    gw_hash *hashes = calloc(a->save.count + 1, sizeof *hashes);
    GW_ASSERT_MEMORY(hashes != NULL);
    e->owned = hashes;
    if (b->stored.size == 0 || b->stored_step != a->step) {
        gw_set_free(&b->stored);
        b->stored = gw_set_of(WORLD_CHUNKS);
        b->stored_step = a->step;
    }
    for (uint32_t k = 0; k < a->save.count; k++) {
        GW_ASSERT(a->save.chunks[k] < WORLD_CHUNKS);
        hashes[k] = hash_of(b->state, a->save.chunks[k]);
        if (good && !a->save.hash_only) gw_set_add(&b->stored, a->save.chunks[k]);
    }
    tell_progress(w, i, a, &f);
}

static void drop_saved(world_brain *b, uint32_t k) {
    gw_set_free(&b->saved[k].chunks);
    b->saved_count--;
    memmove(&b->saved[k], &b->saved[k + 1], (b->saved_count - k) * sizeof b->saved[0]);
    memmove(&b->saved_best[k], &b->saved_best[k + 1], (b->saved_count - k) * sizeof b->saved_best[0]);
}

static void manifest(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    fate f = next_fate(w, SOON_NS);
    gw_event event =
        answer(GW_EV_MANIFEST_STORED, a, f.kind != FAILS && (a->manifest.hash_only || !b->disk_full));
    gw_blake2b(a->manifest.hashes, a->manifest.count * sizeof *a->manifest.hashes,
               &event.manifest_stored.root, sizeof event.manifest_stored.root);
    world_post(w, i, f.delay_ns, event);
    tell_progress(w, i, a, &f);
    if (a->manifest.hash_only || event.outcome != GW_DONE) return;
    for (uint32_t k = b->saved_count; k > 0; k--)
        if (gw_hash_equal(&b->saved[k - 1].root, &event.manifest_stored.root)) drop_saved(b, k - 1);
    if (b->saved_count == WORLD_SAVED) drop_saved(b, WORLD_SAVED - 1);
    memmove(&b->saved_best[1], &b->saved_best[0], b->saved_count * sizeof b->saved_best[0]);
    memmove(&b->saved[1], &b->saved[0], b->saved_count++ * sizeof b->saved[0]);
    b->saved_best[0] = a->manifest.best;
    b->saved[0] = (gw_inventory){.epoch = a->manifest.epoch,
                                 .step = a->step,
                                 .root = event.manifest_stored.root,
                                 .fingerprint = a->manifest.fingerprint,
                                 .ended = a->manifest.ended};
    bool ours = b->stored.size > 0 && b->stored_step == a->step;
    b->saved[0].chunks = ours ? gw_set_copy(&b->stored) : gw_set_of(WORLD_CHUNKS);
}

static void retain(world_brain *b, const gw_action *a) {
    for (uint32_t k = b->saved_count; k > 0; k--) {
        bool kept = false;
        for (uint32_t n = 0; n < a->retain.count; n++)
            kept |= gw_hash_equal(&b->saved[k - 1].root, &a->retain.roots[n]);
        if (!kept) drop_saved(b, k - 1);
    }
}

static void persist(world *w, uint32_t i, const gw_action *a) {
    world_brain *b = &w->brains[i];
    fate f = next_fate(w, SOON_NS);
    gw_event event = answer(GW_EV_PERSISTED, a, f.kind != FAILS);
    world_event *e = world_post(w, i, in_turn(w, &b->record_free_ns, f.delay_ns), event);
    e->record_length = a->persist.length;
    e->owned = malloc(a->persist.length + 1);
    GW_ASSERT_MEMORY(e->owned != NULL);
    memcpy(e->owned, a->persist.bytes, a->persist.length);
}

/* Messages and notices. */

static void send_message(world *w, uint32_t i, const gw_action *a) {
    int to = world_number_of(w, &a->peer);
    gw_message message;
    gw_err err;
    GW_ASSERT(gw_message_decode(a->message.bytes, a->message.length, &message,
                                &err)); /* a brain sends no message that cannot be decoded */
    gw_message_free(&message);
    if (to < 0 || w->links[i][to] == 0) return;
    if (w->listener != NULL) w->listener(w->context, false, a->message.bytes, a->message.length);
    world_post_bytes(w, (uint32_t)to, (gw_event){.kind = GW_EV_MESSAGE, .peer = w->brains[i].config.id},
                     a->message.bytes, a->message.length);
}

static void send_datagram(world *w, uint32_t i, const gw_action *a) {
    for (uint32_t k = 0; k < w->count; k++) {
        if (w->cut[i][k] || !gw_addr_equal(&w->brains[k].config.addrs[0], &a->datagram.to)) continue;
        if (w->listener != NULL) w->listener(w->context, true, a->datagram.bytes, a->datagram.length);
        world_post_bytes(w, k,
                         (gw_event){.kind = GW_EV_DATAGRAM, .datagram.from = w->brains[i].config.addrs[0]},
                         a->datagram.bytes, a->datagram.length);
    }
}

static void want_link(world *w, uint32_t i, const gw_action *a) {
    int other = world_number_of(w, &a->peer);
    if (other >= 0) w->brains[i].wants[other] = a->link.wanted;
    if (other >= 0 && a->link.wanted) world_link(w, i, (uint32_t)other);
    if (other >= 0 && !a->link.wanted) world_unlink(w, i, (uint32_t)other);
    if (other < 0 && a->link.wanted)
        world_post(w, i, SOON_NS,
                   (gw_event){.kind = GW_EV_LINK_DOWN, .peer = a->peer, .link.end = GW_LINK_REFUSED});
}

/* Checks a shown state: a step has one state, which with exact sums is that of the undisturbed run. */
static void note(world *w, uint32_t i, const gw_action *a) {
    if (a->notice.kind != GW_NOTICE_STEP || w->forged) return;
    GW_ASSERT(a->step < WORLD_STEPS && a->notice.committed.fingerprint == w->brains[i].state);
    if (!w->fast) GW_ASSERT(a->notice.committed.fingerprint == world_state_after(a->step + 1));
    GW_ASSERT(w->shown[a->step] == 0 || w->shown[a->step] == a->notice.committed.fingerprint);
    w->shown[a->step] = a->notice.committed.fingerprint;
}

static void finish(world *w, uint32_t i) {
    w->brains[i].finished = true;
    world_post(w, i, 2 * SOON_NS, (gw_event){.kind = GW_EV_TIMER})->chore = CHORE_CLOSE;
}

void world_carry_out(world *w, uint32_t i, const gw_action *a) {
    if (has_token(a->kind)) check_token(w, i, a->token);
    switch (a->kind) {
    case GW_ACT_DATAGRAM:
        send_datagram(w, i, a);
        break;
    case GW_ACT_LINK:
        want_link(w, i, a);
        break;
    case GW_ACT_MESSAGE:
        send_message(w, i, a);
        break;
    case GW_ACT_FREEZE:
        freeze(w, i, a);
        break;
    case GW_ACT_INSTALL:
        install(w, i, a);
        break;
    case GW_ACT_BEGIN_STEP:
        begin_step(w, &w->brains[i], a);
        break;
    case GW_ACT_DEAL:
        deal(w, i, a);
        break;
    case GW_ACT_READ_WORD:
    case GW_ACT_SWAP_WORD:
        look_at_word(w, i, a);
        break;
    case GW_ACT_TAKE:
        take(w, i, a);
        break;
    case GW_ACT_SEAL:
        w->brains[i].sealing = a->token;
        seal_if_done(w, i);
        break;
    case GW_ACT_REDUCE:
        reduce(w, i, a);
        break;
    case GW_ACT_PROBE:
        probe(w, i, a);
        break;
    case GW_ACT_COMMIT:
    case GW_ACT_LOOK:
        look(w, i, a);
        break;
    case GW_ACT_APPLY:
        apply(w, i, a);
        break;
    case GW_ACT_LOAD:
        load(w, i, a);
        break;
    case GW_ACT_SAVE:
        save(w, i, a);
        break;
    case GW_ACT_MANIFEST:
        manifest(w, i, a);
        break;
    case GW_ACT_RETAIN:
        retain(&w->brains[i], a);
        break;
    case GW_ACT_PERSIST:
        persist(w, i, a);
        break;
    case GW_ACT_NOTICE:
        note(w, i, a);
        break;
    case GW_ACT_FINISH:
        finish(w, i);
        break;
    case GW_ACT_ABANDON: /* these actions end by themselves */
    case GW_ACT_LOG:
        if (getenv("FUZZ_TALKS") != NULL)
            fprintf(stderr, "%9.3f ms  brain %u: %s\n", (double)w->now / 1e6, i, a->log.text);
        break;
    }
}
