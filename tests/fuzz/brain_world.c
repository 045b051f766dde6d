/* Time, links and lives in the world of the brains. */
#include "tests/fuzz/brain_world.h"

#include "core/rng.h"

#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
enum { PATIENCE_S = 10, MESSAGE_NS = 1000, MOST_TIMERS = 1000, CHECKPOINT_STEPS = 3 };

static uint32_t shards_of(const void *context, uint64_t step) {
    (void)context, (void)step;
    return WORLD_SHARDS;
}

uint64_t world_state_after(uint64_t steps) {
    uint64_t state = 1;
    for (uint64_t step = 0; step < steps && step <= WORLD_STEPS; step++) state = gw_mix64(state + step) | 1;
    return state;
}

int world_number_of(const world *w, const gw_peer_id *id) {
    for (uint32_t i = 0; i < w->count; i++)
        if (gw_peer_id_equal(&w->brains[i].config.id, id)) return (int)i;
    return -1;
}

/* Events. */

static void free_event(world_event *e) {
    free(e->owned);
    gw_set_free(&e->held);
    gw_set_free(&e->claimed);
    *e = (world_event){.owned = NULL};
}

world_event *world_post(world *w, uint32_t to, uint64_t delay_ns, gw_event event) {
    free_event(&w->lost);
    world_event *e = w->queued < WORLD_QUEUE ? &w->queue[w->queued++] : &w->lost;
    *e = (world_event){.at = w->now + delay_ns,
                       .serial = w->serial++,
                       .boot = w->brains[to].config.incarnation.boot,
                       .to = to,
                       .event = event};
    return e;
}

void world_post_bytes(world *w, uint32_t to, gw_event event, const void *bytes, size_t length) {
    if (w->queued == WORLD_QUEUE) return;
    world_event *e = world_post(w, to, MESSAGE_NS, event);
    e->owned = malloc(length + 1);
    GW_ASSERT_MEMORY(e->owned != NULL);
    memcpy(e->owned, bytes, length);
    if (event.kind == GW_EV_DATAGRAM) e->event.datagram.length = length;
    if (event.kind != GW_EV_MESSAGE) return;
    e->event.message.length = length;
    int from = world_number_of(w, &event.peer);
    GW_ASSERT(from >= 0);
    e->from = (uint32_t)from;
    e->link = w->links[to][from];
}

/* Looks at a brain's status, as people do. */
static void look(const world_brain *b) {
    gw_peer_status status;
    gw_peer_contact_info info;
    gw_peer_status_get(b->peer, &status);
    GW_ASSERT(status.phase != NULL && status.phase[0] != '\0');
    for (uint32_t k = 0; gw_peer_contact_at(b->peer, k, &info); k++) GW_ASSERT(info.state != NULL);
}

static void feed(world *w, uint32_t i, const gw_event *event) {
    world_brain *b = &w->brains[i];
    gw_actions_reset(&b->actions);
    gw_peer_step(b->peer, event, w->now, &b->actions);
    w->handled++;
    look(b);
    for (uint32_t k = 0; k < b->actions.count; k++) {
        GW_ASSERT(!b->finished); /* no action follows FINISH */
        world_carry_out(w, i, &b->actions.list[k]);
    }
}

/* Updates the world by an event that a brain is about to get. */
static void happen(world *w, world_brain *b, const world_event *e) {
    const gw_event *event = &e->event;
    switch (event->kind) {
    case GW_EV_REDUCED:
        if (event->outcome == GW_DONE && event->reduced.coverage_ok && event->reduced.fingerprint_ok)
            b->good_step = e->step;
        break;
    case GW_EV_APPLIED:
        b->applying = 0;
        break;
    case GW_EV_LOADED:
        b->loading = 0;
        if (event->outcome != GW_DONE) break;
        b->step = e->step;
        b->state = event->loaded.fingerprint;
        for (uint64_t step = e->step; step < WORLD_STEPS && e->rolls_back; step++) w->shown[step] = 0;
        break;
    default:
        break;
    }
}

static void record(world_brain *b, world_event *e) {
    if (e == NULL || e->event.kind != GW_EV_PERSISTED || e->event.outcome != GW_DONE) return;
    free(b->record);
    b->record = e->owned;
    b->record_length = e->record_length;
    e->owned = NULL;
}

static void do_chore(world *w, const world_event *e) {
    uint32_t other = e->other;
    if (e->chore == CHORE_SHARD) {
        if (e->accumulators == w->brains[e->to].accumulators) world_add_shard(w, e->to, e->shard);
    } else if (e->chore == CHORE_REDIAL) {
        if (w->brains[e->to].wants[other] || w->brains[other].wants[e->to]) world_link(w, e->to, other);
    } else {
        for (uint32_t k = 0; k < w->count; k++) world_unlink(w, e->to, k);
    }
}

static void handle(world *w, world_event *e) {
    world_brain *b = &w->brains[e->to];
    if (b->peer == NULL || e->boot != b->config.incarnation.boot) return;
    if (e->chore != CHORE_NONE && (!b->finished || e->chore == CHORE_CLOSE)) do_chore(w, e);
    if (b->finished || e->chore != CHORE_NONE) return;
    if (e->event.kind == GW_EV_MESSAGE && (e->link == 0 || e->link != w->links[e->to][e->from]))
        return; /* it is lost with its link */
    if (e->event.kind == GW_EV_FROZEN && e->held.size > 0) e->event.frozen.held = &e->held;
    if (e->event.kind == GW_EV_FROZEN && e->claimed.size > 0) e->event.frozen.claimed = &e->claimed;
    if (e->event.kind == GW_EV_LOADED && e->held.size > 0) e->event.loaded.held = &e->held;
    if (e->event.kind == GW_EV_REDUCED && e->owned != NULL) {
        e->event.reduced.slots = e->owned;
        e->event.reduced.check_table = (const int64_t *)e->owned + e->table_at;
    }
    if (e->event.kind == GW_EV_STORED) e->event.stored.hashes = e->owned;
    if (e->event.kind == GW_EV_SEEDS) e->event.seeds.addrs = e->owned;
    if (e->event.kind == GW_EV_MESSAGE) e->event.message.bytes = e->owned;
    if (e->event.kind == GW_EV_DATAGRAM) e->event.datagram.bytes = e->owned;
    happen(w, b, e);
    record(b, e);
    feed(w, e->to, &e->event);
}

static bool is_earlier(const world_event *a, const world_event *b) {
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

bool world_go_on(world *w) {
    uint64_t deadline = UINT64_MAX;
    uint32_t who = 0, next = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const world_brain *b = &w->brains[i];
        uint64_t due = b->peer == NULL || b->finished ? UINT64_MAX : gw_peer_deadline(b->peer);
        if (due < deadline) deadline = due, who = i;
    }
    for (uint32_t k = 1; k < w->queued; k++)
        if (is_earlier(&w->queue[k], &w->queue[next])) next = k;
    if (w->queued > 0 && w->queue[next].at <= deadline) {
        world_event e = w->queue[next];
        w->queue[next] = w->queue[--w->queued];
        if (e.at > w->now) w->now = e.at, w->timers = 0;
        handle(w, &e);
        free_event(&e);
        return true;
    }
    if (deadline == UINT64_MAX) return false;
    if (deadline > w->now) w->now = deadline, w->timers = 0;
    GW_ASSERT(w->timers++ < MOST_TIMERS); /* the brain asks again and again for a time that has passed */
    feed(w, who, &(gw_event){.kind = GW_EV_TIMER});
    return true;
}

/* Links. */

static gw_event link_event(const world *w, gw_event_kind kind, uint32_t other, gw_link_end end) {
    const gw_peer_config *config = &w->brains[other].config;
    return (gw_event){
        .kind = kind, .peer = config->id, .link.incarnation = config->incarnation, .link.end = end};
}

static bool runs(const world *w, uint32_t i) {
    return w->brains[i].peer != NULL && !w->brains[i].finished;
}

static void post_redial(world *w, uint32_t i, uint32_t other, uint64_t delay_ns) {
    world_event *e = world_post(w, i, delay_ns, (gw_event){0});
    e->other = other;
    e->chore = CHORE_REDIAL;
}

void world_link(world *w, uint32_t a, uint32_t b) {
    if (a == b || w->links[a][b] != 0 || w->cut[a][b] || !runs(w, a)) return;
    if (!runs(w, b)) {
        world_post(w, a, 200000, link_event(w, GW_EV_LINK_DOWN, b, GW_LINK_REFUSED));
        return;
    }
    w->links[a][b] = w->links[b][a] = ++w->link_count;
    world_post(w, a, MESSAGE_NS, link_event(w, GW_EV_LINK_UP, b, GW_LINK_CLOSED));
    world_post(w, b, MESSAGE_NS, link_event(w, GW_EV_LINK_UP, a, GW_LINK_CLOSED));
}

/* Breaks the link on the side of `i`, which is not told. */
void world_unlink(world *w, uint32_t i, uint32_t other) {
    if (w->links[i][other] == 0) return;
    w->links[i][other] = w->links[other][i] = 0;
    world_post(w, other, MESSAGE_NS, link_event(w, GW_EV_LINK_DOWN, i, GW_LINK_CLOSED));
    post_redial(w, other, i, 10 * 1000000);
}

void world_break_link(world *w, uint32_t a, uint32_t b) {
    if (a == b || w->links[a][b] == 0) return;
    world_post(w, a, MESSAGE_NS, link_event(w, GW_EV_LINK_DOWN, b, GW_LINK_CLOSED));
    world_unlink(w, a, b);
}

void world_cut(world *w, uint32_t a, uint32_t b, bool on) {
    world_break_link(w, a, b);
    w->cut[a][b] = w->cut[b][a] = on;
    if (!on) post_redial(w, a, b, MESSAGE_NS);
}

void world_data(world *w, uint32_t a, uint32_t b, bool lost) {
    const uint32_t ends[] = {a, b};
    for (int k = 0; k < 2 && a != b; k++)
        world_post(w, ends[k], MESSAGE_NS,
                   (gw_event){.kind = lost ? GW_EV_DATA_DOWN : GW_EV_DATA_UP,
                              .peer = w->brains[ends[1 - k]].config.id,
                              .data_down.own_fault = k == 0,
                              .text = lost ? "it is gone" : NULL});
}

void world_tell_seeds(world *w, uint32_t i, uint32_t bits) {
    gw_addr seeds[WORLD_BRAINS];
    uint32_t count = 0;
    for (uint32_t k = 0; k < w->count; k++)
        if ((bits >> k & 1) != 0) seeds[count++] = w->brains[k].config.addrs[0];
    world_post_bytes(w, i, (gw_event){.kind = GW_EV_SEEDS, .seeds.count = count}, seeds,
                     count * sizeof *seeds);
}

/* Lives. */

static void create(world *w, uint32_t i) {
    world_brain *b = &w->brains[i];
    gw_err err;
    b->config.record = b->record;
    b->config.record_length = b->record_length;
    b->config.inventory = b->saved;
    b->config.inventory_count = b->saved_count;
    b->peer = gw_peer_create(&b->config, &err);
    GW_ASSERT(b->peer != NULL);
    b->finished = false;
    b->view = (gw_view){.epoch = 0};
    b->newest_epoch = b->step = b->state = b->word = 0;
    b->good_step = b->accumulator_step = b->stored_step = UINT64_MAX;
    b->sealing = b->reducing = b->applying = b->loading = 0;
    b->state_free_ns = b->record_free_ns = 0;
    b->in_flight = -1;
    b->accumulators++;
    feed(w, i, &(gw_event){.kind = GW_EV_START});
}

static world_event *newest_record(world *w, uint32_t i) {
    world_event *newest = NULL;
    for (uint32_t k = 0; k < w->queued; k++) {
        world_event *e = &w->queue[k];
        bool ours = e->to == i && e->boot == w->brains[i].config.incarnation.boot &&
                    e->event.kind == GW_EV_PERSISTED && e->event.outcome == GW_DONE;
        if (ours && (newest == NULL || e->serial > newest->serial)) newest = e;
    }
    return newest;
}

void world_kill(world *w, uint32_t i, bool recorded) {
    world_brain *b = &w->brains[i];
    if (b->peer == NULL) return;
    for (uint32_t k = 0; k < w->count; k++) world_unlink(w, i, k);
    if (recorded) record(b, newest_record(w, i));
    b->fell = (gw_shard_death){.id = b->config.id,
                               .boot = b->config.incarnation.boot,
                               .step = b->accumulator_step,
                               .shard = (uint32_t)b->in_flight};
    b->config.fell = &b->fell;
    b->config.fell_count = b->in_flight >= 0 && !b->finished;
    gw_peer_destroy(b->peer);
    b->peer = NULL;
    memset(b->wants, 0, sizeof b->wants);
}

void world_start(world *w, uint32_t i) {
    world_brain *b = &w->brains[i];
    if (b->peer != NULL) return;
    b->config.incarnation.boot++;
    b->config.incarnation.nonce += WORLD_BRAINS;
    b->config.known_count = 0;
    for (uint32_t k = 0; k < w->count; k++)
        if (k != i) b->config.known[b->config.known_count++] = w->brains[k].config.addrs[0];
    create(w, i);
}

static void forget_saved(world_brain *b) {
    for (uint32_t k = 0; k < b->saved_count; k++) gw_set_free(&b->saved[k].chunks);
    b->saved_count = 0;
    gw_set_free(&b->stored);
}

void world_lose_disk(world *w, uint32_t i) {
    world_brain *b = &w->brains[i];
    GW_ASSERT(b->peer == NULL);
    forget_saved(b);
    free(b->record);
    b->record = NULL;
    b->record_length = 0;
    b->config.id.bytes[1]++;
    b->config.fell_count = 0;
}

world *world_open(uint8_t kind) {
    static const uint32_t shares[] = {0, GW_VERIFY_WHOLE / 100, GW_VERIFY_WHOLE / 2, GW_VERIFY_WHOLE};
    world *w = calloc(1, sizeof *w);
    GW_ASSERT_MEMORY(w != NULL);
    w->now = SECOND_NS;
    w->count = kind & WORLD_THREE ? 3 : 2;
    w->fast = (kind & WORLD_FAST) != 0 && (kind & WORLD_MAJORITY) != 0;
    for (uint32_t i = 0; i < w->count; i++) {
        w->brains[i].config =
            (gw_peer_config){.id = {{(uint8_t)(i + 1)}},
                             .incarnation = {.boot = 1, .nonce = i + 1},
                             .addrs = {{.family = 4, .ip = {10, 0, 0, 1}, .port = (uint16_t)(1000 + i)}},
                             .addr_count = 1,
                             .seeds = {{.family = 4, .ip = {10, 0, 0, 1}, .port = 1000}},
                             .seed_count = i > 0,
                             .identity = "job=fuzz\n",
                             .steps = WORLD_STEPS,
                             .effects = true,
                             .shards = shards_of,
                             .state_chunks = WORLD_CHUNKS,
                             .peers = w->count,
                             .quorum = kind & WORLD_MAJORITY ? GW_QUORUM_MAJORITY : GW_QUORUM_ANY,
                             .fast = w->fast,
                             .verify = shares[kind / WORLD_VERIFY % 4],
                             .deal_energy = (kind & WORLD_BEST) != 0,
                             .skip_bad = (kind & WORLD_SKIP_BAD) != 0,
                             .best = {.on = (kind & WORLD_BEST) != 0, .patience = WORLD_STEPS},
                             .best_by = "loss:min",
                             .checkpoint_steps = CHECKPOINT_STEPS,
                             .keep = 2,
                             .replicas = 2,
                             .join_timeout_ns = PATIENCE_S * SECOND_NS,
                             .resume_timeout_ns = PATIENCE_S * SECOND_NS,
                             .save_timeout_ns = PATIENCE_S * SECOND_NS,
                             .seed = i + 1};
    }
    for (uint32_t i = 0; i < w->count; i++) create(w, i);
    return w;
}

void world_close(world *w) {
    while (w->queued > 0) free_event(&w->queue[--w->queued]);
    free_event(&w->lost);
    for (uint32_t i = 0; i < w->count; i++) {
        world_brain *b = &w->brains[i];
        gw_peer_destroy(b->peer);
        gw_actions_free(&b->actions);
        forget_saved(b);
        free(b->record);
    }
    free(w);
}

bool world_is_done(const world *w) {
    bool made = false;
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->brains[i].finished) return false;
        made |= w->brains[i].step == WORLD_STEPS;
    }
    return made;
}
