/* Workers, the accumulator, the range word, and one-sided operations. */
#include "tools/sim/world/inside.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2 }; /* positions that the owner takes from its word at a time */

static void feed(sim_cluster *c, sim_peer *p);

void sim_work_forget(sim_peer *p) {
    sim_sum_free(&p->m.accumulator);
    sim_sum_free(&p->m.sum);
    free(p->m.list);
    p->m = (sim_memory){0};
}

/* Workers. */

static uint64_t shard_ns(sim_cluster *c, const sim_peer *p) {
    uint64_t mean_ns = (uint64_t)c->options->shard_us * 1000;
    return (uint64_t)((double)sim_between(c, mean_ns / 2, mean_ns + mean_ns / 2) * p->slowness) + 1;
}

/* The microjoules that a shard costs a peer: up to sixteen times what it costs another. */
static uint64_t cost_of(const sim_cluster *c, const sim_peer *p) {
    return 100000 * (1 + gw_mix64(c->options->seed ^ gw_mix64(p->number + 1)) % 16);
}

/* What a peer has measured of it, anew each time; one peer in eight cannot, and without --deal energy none
 * does. */
static uint64_t measured_cost(sim_cluster *c, const sim_peer *p) {
    uint64_t cost = cost_of(c, p);
    if (c->options->frugal == 0 || gw_mix64(cost ^ p->number) % 8 == 0) return 0;
    return sim_between(c, cost - cost / 20, cost + cost / 20);
}

static void sealed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_SEALED,
                      .token = op->token,
                      .sealed.rechecks = p->m.checks,
                      .sealed.recheck_count = p->m.check_count};
    const sim_sum *a = &p->m.accumulator;
    sim_bad_among(c->options, a->step, a->shards, a->times, &event.sealed.bad);
    if (p->m.busy_ns > 0 && p->m.done > 0)
        event.sealed.speed = (uint64_t)(1e12 * (double)p->m.done * SIM_WORKERS / (double)p->m.busy_ns);
    event.sealed.joules = measured_cost(c, p);
    p->m.done = p->m.busy_ns = 0;
    sim_event(c, p, &event);
}

static void perhaps_sealed(sim_cluster *c, sim_peer *p) {
    for (int w = 0; w < SIM_WORKERS; w++)
        if (p->m.workers[w].busy) return;
    if (p->m.seal_token == 0 || p->m.next_again < p->m.part.again_count) return;
    sim_op op = sim_op_to(p, sealed);
    op.token = p->m.seal_token;
    p->m.seal_token = 0;
    sim_later(c, 1000, &op);
}

static void shard_done(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_memory *m = &p->m;
    sim_worker *worker = &m->workers[op->x];
    if (!worker->busy || worker->turn != op->y) return; /* cancelled */
    if (c->hazards->dies_of(c, p, worker->shard)) return;
    worker->busy = false;
    GW_ASSERT(worker->shard < m->accumulator.shards);
    sim_recheck_keep(p, worker, op->z);
    if (worker->again) {
        perhaps_sealed(c, p);
        feed(c, p);
        return;
    }
    m->accumulator.times[worker->shard]++;
    m->accumulator.value += op->z;
    uint64_t from;
    memcpy(&from, op->bytes, sizeof from);
    if (m->accumulator.state != 0 && m->accumulator.state != from) m->accumulator.mixed = true;
    m->accumulator.state = from;

    m->done++;
    c->result->microjoules += cost_of(c, p);
    perhaps_sealed(c, p);
    feed(c, p);
}

static void lost(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {
        .kind = GW_EV_SHARD_LOST, .shard_lost.shard = (uint32_t)op->x, .text = "its payload is gone"};
    sim_event(c, p, &event);
    feed(c, p);
}

/* Gives a claim back if its payload is lost. */
static bool loses(sim_cluster *c, sim_peer *p, sim_worker *worker) {
    if (!c->hazards->loses_payload(c, p, worker->shard)) return false;
    worker->busy = false;
    sim_op op = sim_op_to(p, lost);
    op.x = worker->shard;
    sim_later(c, 1000, &op);
    return true;
}

static void compute(sim_cluster *c, sim_peer *p, uint32_t w);

/* Counts a worker process that ended at a shard of the present step, also over a freeze. Returns how many
 * there have been. */
static uint32_t count_loss(sim_memory *m, uint32_t shard) {
    sim_worker_losses *at = m->losses;
    if (m->loss_step != m->accumulator.step) memset(m->losses, 0, sizeof m->losses);
    m->loss_step = m->accumulator.step;
    while (at->count > 0 && at->shard != shard) {
        at++;
        GW_ASSERT(at < m->losses + SIM_LOSSES);
    }
    at->shard = shard;
    return ++at->count;
}

/* A worker process has ended at a shard. Another process computes the shard, unless two have ended at it. */
static void worker_lost(sim_cluster *c, sim_peer *p, const sim_op *op) {
    enum { TRIES = 2 };
    sim_memory *m = &p->m;
    uint32_t w = (uint32_t)op->x;
    sim_worker *worker = &m->workers[w];
    gw_worker_loss kind = (gw_worker_loss)op->z;
    if (!worker->busy || worker->turn != op->y) return; /* cancelled */
    bool counts = kind == GW_WORKER_CRASHED || kind == GW_WORKER_STARVED;
    bool back = counts && count_loss(m, worker->shard) >= TRIES;
    gw_event event = {.kind = GW_EV_WORKER_LOST,
                      .text = "a worker process ended",
                      .worker_lost.kind = kind,
                      .worker_lost.step = m->accumulator.step,
                      .worker_lost.shard = worker->shard,
                      .worker_lost.serial = ++m->processes,
                      .worker_lost.given_back = back};
    if (back) worker->busy = false;
    c->result->faults[GW_SIM_GIVEN_BACK] += back;
    c->result->faults[GW_SIM_OWED_SHARD] += back && m->fence.epoch == 0;
    SIM_NOTIFY(c, worker_lost, p, &event);
    if (back) SIM_NOTIFY(c, mishap, p, SIM_GAVE_UP_SHARD); /* more than it may give back end the peer */
    sim_event(c, p, &event);
    worker = &m->workers[w];
    if (p->finished) return;
    if (back) {
        perhaps_sealed(c, p);
        feed(c, p);
    } else if (worker->busy && worker->turn == op->y) {
        compute(c, p, w);
    }
}

/* The process of a worker ends at its shard if it is to. */
static bool ends_process(sim_cluster *c, sim_peer *p, uint32_t w) {
    gw_worker_loss kind;
    if (!c->hazards->loses_worker(c, p, w, &kind)) return false;
    sim_op op = sim_op_to(p, worker_lost);
    op.x = w;
    op.y = p->m.workers[w].turn;
    op.z = kind;
    sim_later(c, shard_ns(c, p) / 2 + 1, &op);
    return true;
}

/* A worker process was killed since its shard was dropped. */
static void dropped(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_WORKER_LOST,
                      .text = "its shard was dropped",
                      .worker_lost.kind = GW_WORKER_DROPPED,
                      .worker_lost.step = op->y,
                      .worker_lost.shard = (uint32_t)op->x,
                      .worker_lost.serial = ++p->m.processes};
    SIM_NOTIFY(c, worker_lost, p, &event);
    sim_event(c, p, &event);
}

static void drop(sim_cluster *c, sim_peer *p, sim_worker *worker, uint64_t step) {
    if (worker->busy && c->hazards->drops_worker(c, p)) {
        sim_op op = sim_op_to(p, dropped);
        op.x = worker->shard;
        op.y = step;
        sim_later(c, 1000 * SIM_MS, &op);
    }
    worker->busy = false;
}

static void compute(sim_cluster *c, sim_peer *p, uint32_t w) {
    sim_memory *m = &p->m;
    if (c->hazards->gives_up(c, p, w)) return;
    if (!m->workers[w].again && loses(c, p, &m->workers[w])) return;
    if (ends_process(c, p, w)) return;
    if (m->gave_up && m->step == m->accumulator.step) return;
    if (!m->has_state || m->step != m->accumulator.step) {
        sim_violation(c, "peer %u computes a shard of step %" PRIu64 " from the state of step %" PRIu64,
                      p->number, m->accumulator.step, m->step);
        return;
    }
    uint64_t time_ns = shard_ns(c, p);
    m->busy_ns += time_ns;
    sim_op op = sim_op_to(p, shard_done);
    op.x = w;
    op.y = m->workers[w].turn;
    op.z = c->hazards->computes(c, p, m->workers[w].shard);
    op.bytes = (const uint8_t *)&m->state;
    op.length = sizeof m->state;

    sim_later(c, time_ns, &op);
}

/* Reports a careful claim: its shard is computed only after the brain has heard of it and acted. */
static void claimed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_worker *worker = &p->m.workers[op->x];
    if (!worker->busy || worker->turn != op->y) return;
    p->m.workers[op->x].claimed = true;
    gw_event event = {.kind = GW_EV_CLAIM, .claim.worker = (uint32_t)op->x, .claim.shard = worker->shard};
    sim_event(c, p, &event);
    worker = &p->m.workers[op->x];
    if (!p->finished && worker->busy && worker->turn == op->y) compute(c, p, (uint32_t)op->x);
}

/* A worker corrects its claim: it names a shard that it had begun before, or none any more. */
static void corrected(sim_cluster *c, sim_peer *p, const sim_op *op) {
    sim_worker *worker = &p->m.workers[op->x];
    if (!worker->busy && !worker->claimed) return;
    worker->claimed = worker->busy;
    gw_event event = {.kind = GW_EV_CLAIM,
                      .claim.worker = (uint32_t)op->x,
                      .claim.shard = worker->busy ? worker->shard : GW_SHARD_ANY};
    sim_event(c, p, &event);
}

/* Corrects the claims of busy workers, or those of idle workers that still have one. */
static void correct_claims(sim_cluster *c, sim_peer *p, bool busy) {
    for (uint32_t w = 0; w < SIM_WORKERS; w++) {
        const sim_worker *worker = &p->m.workers[w];
        if (worker->busy != busy || (!busy && !worker->claimed)) continue;
        sim_op op = sim_op_to(p, corrected);
        op.x = w;
        sim_later(c, 1000, &op);
    }
}

static void dry(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_DRY, .dry.tag = (uint32_t)op->x};
    sim_event(c, p, &event);
}

static bool next_position(sim_memory *m, uint32_t *position) {
    if (m->private_first == m->private_end) {
        gw_word word = gw_word_unpack(m->word);
        uint32_t count;
        if (word.tag != m->tag || !gw_word_take(&word, BATCH, &m->private_first, &count)) return false;
        m->private_end = m->private_first + count;
        m->word = gw_word_pack(word);
    }
    *position = m->private_first++;
    return true;
}

/* Finds the next shard of a worker. Chosen shards come first, and their positions are skipped later. A
 * claim that the worker has announced stays. */
static bool next_shard(sim_cluster *c, sim_peer *p, bool claimed, sim_worker *next) {
    sim_memory *m = &p->m;
    *next = (sim_worker){.busy = true, .claimed = claimed, .turn = m->turns + 1};
    if (m->claiming && m->next_first < m->part.first_count) {
        next->shard = m->part.first[m->next_first++];
    } else if ((m->claiming || m->seal_token != 0) && m->next_again < m->part.again_count) {
        next->shard = m->part.again[m->next_again++];
        next->again = true;
    } else {
        uint32_t position;
        do {
            if (!m->claiming || !next_position(m, &position)) return false;
            if (m->list != NULL && position >= m->listed) {
                sim_violation(c, "peer %u claims position %u of a list of %u", p->number, position,
                              m->listed);
                return false;
            }
            next->shard = m->list == NULL ? position : m->list[position];
        } while (gw_verify_is_chosen(m->chosen, m->chosen_count, next->shard));
    }
    m->turns++;
    return true;
}

static void feed(sim_cluster *c, sim_peer *p) {
    sim_memory *m = &p->m;
    for (uint32_t w = 0; w < SIM_WORKERS && !p->finished; w++) {
        sim_worker *worker = &m->workers[w], next;
        if (worker->busy) continue;
        if (!next_shard(c, p, worker->claimed, &next)) {
            correct_claims(c, p, false);
            if (m->dry_told || !m->claiming) return;
            m->dry_told = true;
            sim_op op = sim_op_to(p, dry);
            op.x = m->tag;
            sim_later(c, sim_between(c, 1000, 20000), &op);
            return;
        }
        *worker = next;
        if (worker->shard >= m->accumulator.shards) {
            sim_violation(c, "peer %u claims shard %u of %u", p->number, worker->shard,
                          m->accumulator.shards);
            return;
        }
        if (!m->careful) {
            compute(c, p, w);
            continue;
        }
        sim_op op = sim_op_to(p, claimed);
        op.x = w;
        op.y = worker->turn;
        sim_later(c, 1000, &op);
    }
}

/* Freezing and dealing. */

static void frozen(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_sum *a = &p->m.accumulator;
    gw_set held = gw_set_of(a->shards), now = gw_set_of(a->shards);
    for (uint32_t i = 0; i < a->shards; i++)
        if (a->times[i] > 0) gw_set_add(&held, i);
    for (int w = 0; w < SIM_WORKERS; w++)
        if (p->m.workers[w].busy && !p->m.workers[w].again) gw_set_add(&now, p->m.workers[w].shard);
    gw_event event = {.kind = GW_EV_FROZEN,
                      .token = op->token,
                      .frozen.accumulator_step = a->there ? a->step : UINT64_MAX,
                      .frozen.poisoned = a->torn,
                      .frozen.held = &held,
                      .frozen.claimed = &now};
    p->m.accumulator.torn_told = a->torn;
    c->result->faults[GW_SIM_TORN_FREEZE] += a->torn;
    sim_event(c, p, &event);
    gw_set_free(&held);
    gw_set_free(&now);
}

static void freeze(sim_cluster *c, sim_peer *p, gw_token token) {
    sim_memory *m = &p->m;
    if (m->applying) sim_violation(c, "peer %u freezes while it applies", p->number);
    m->fence = (gw_view){0};
    m->word = 0;
    m->tag = m->private_first = m->private_end = 0;
    m->claiming = false;
    m->part.first_count = m->next_first = 0;
    m->seal_token = 0;
    sim_reduce_abort(c, p);
    uint64_t at_ns = sim_now(c) + sim_between(c, 2000, 100000);
    if (at_ns <= m->reduce_told_ns) at_ns = m->reduce_told_ns + 1000; /* REDUCED comes first */
    sim_op op = sim_op_to(p, frozen);
    op.token = token;
    sim_later(c, at_ns - sim_now(c), &op);
}

static void begin_step(sim_cluster *c, sim_peer *p, const gw_action *action) {
    uint64_t before = p->m.accumulator.step;
    sim_sum_free(&p->m.accumulator);
    bool over = action->step >= c->options->steps; /* nothing is computed from the last state */
    uint32_t shards = over ? 0 : sim_shards(c->options, action->step);
    if (action->begin_step.shards != shards)
        sim_violation(c, "peer %u begins step %" PRIu64 " with %u shards, not %u", p->number, action->step,
                      action->begin_step.shards, shards);
    p->m.accumulator = (sim_sum){.there = true, .step = action->step, .shards = shards};
    p->m.accumulator.times = calloc(shards + 1u, 1);
    GW_ASSERT_MEMORY(p->m.accumulator.times != NULL);
    for (int w = 0; w < SIM_WORKERS; w++) drop(c, p, &p->m.workers[w], before);
    correct_claims(c, p, false);
    p->m.chosen_count = p->m.check_count = p->m.next_again = 0;
    p->m.part = (gw_verify_part){.first_count = 0};
    SIM_NOTIFY(c, step_begun, p);
}

static void deal(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_memory *m = &p->m;
    if (m->accumulator.torn_told)
        sim_violation(c, "peer %u goes on with step %" PRIu64 ", a shard of which it has added in part",
                      p->number, m->accumulator.step);
    free(m->list);
    m->list = NULL;
    m->listed = 0;
    if (action->deal.list != NULL) {
        m->list = calloc(action->deal.list->size + 1, sizeof *m->list);
        GW_ASSERT_MEMORY(m->list != NULL);
        for (uint32_t i = gw_set_next(action->deal.list, 0); i < action->deal.list->size;
             i = gw_set_next(action->deal.list, i + 1))
            m->list[m->listed++] = i;
    }
    m->tag = action->deal.tag;
    m->careful = action->deal.careful;
    if (m->careful) correct_claims(c, p, true);
    m->word =
        gw_word_pack((gw_word){.tag = action->deal.tag, .next = action->deal.first, .end = action->deal.end});
    m->private_first = m->private_end = 0;
    m->claiming = true;
    m->dry_told = false;
    sim_recheck_deal(p, action);
    SIM_NOTIFY(c, dealt, p, action);
    feed(c, p);
}

static void take(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_memory *m = &p->m;
    gw_word own = gw_word_unpack(m->word);
    if (own.tag != m->tag || gw_word_left(own) > 0)
        sim_violation(c, "peer %u takes a stolen range over one of its own", p->number);
    m->word = gw_word_pack((gw_word){.tag = m->tag, .next = action->take.first, .end = action->take.end});
    m->dry_told = false;
    feed(c, p);
}

/* One-sided operations. */

static sim_asked *asked_of(sim_peer *p, gw_token token) {
    for (uint32_t i = 0; i < p->m.asked_count; i++)
        if (p->operations[i].token == token) return &p->operations[i];
    return NULL;
}

static void answer(sim_cluster *c, sim_peer *p, gw_token token, gw_word_outcome outcome, uint64_t word) {
    sim_asked *asked = asked_of(p, token);
    if (asked == NULL) return; /* the link broke first, and the answer is lost */
    bool swap = asked->swap;
    *asked = p->operations[--p->m.asked_count];
    gw_event event = {.kind = swap ? GW_EV_WORD_SWAPPED : GW_EV_WORD_READ,
                      .token = token,
                      .word.outcome = outcome,
                      .word.value = word};
    sim_event(c, p, &event);
}

static void on_answer(sim_cluster *c, sim_peer *p, const sim_op *op) {
    if (!gw_sim_network_reaches(&c->network, op->from, p->number)) {
        sim_later(c, 20 * SIM_MS, op); /* sent again until the link breaks */
        return;
    }
    answer(c, p, op->token, (gw_word_outcome)op->x, op->y);
}

typedef struct request {
    gw_view_name view;
    uint64_t expected, desired;
    uint64_t asker_life;
    bool swap;
} request;

static void on_request(sim_cluster *c, sim_peer *p, const sim_op *op) {
    const sim_link *link = sim_link_of(c, p->number, op->from);
    if (!link->up || link->session != op->session) return;
    if (!gw_sim_network_reaches(&c->network, op->from, p->number)) {
        sim_later(c, 20 * SIM_MS, op);
        return;
    }
    request r;
    memcpy(&r, op->bytes, sizeof r);
    sim_op back = sim_op_to(&c->peers[op->from], on_answer);
    back.life = r.asker_life;
    back.from = p->number;
    back.token = op->token;
    back.x = GW_WORD_OK;
    back.y = p->m.word;
    if (p->m.fence.epoch == 0 || !gw_view_name_equal(&p->m.fence.name, &r.view))
        back.x = GW_WORD_FENCED;
    else if (r.swap && p->m.word != r.expected)
        back.x = GW_WORD_DIFFERS;
    else if (r.swap)
        p->m.word = r.desired;
    if (r.swap && c->hazards->loses_answer(c, op->from, p->number)) {
        sim_break(c, p->number, op->from);
        return;
    }
    sim_later(c, sim_between(c, 5000, 100000), &back);
}

static void unknown(sim_cluster *c, sim_peer *p, const sim_op *op) {
    answer(c, p, op->token, GW_WORD_UNKNOWN, 0);
}

/* The word was not reached, and is unchanged. */
static void unreachable(sim_cluster *c, sim_peer *p, const sim_op *op) {
    answer(c, p, op->token, GW_WORD_FENCED, 0);
}

static void ask(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_memory *m = &p->m;
    sim_peer *victim = sim_by_id(c, &action->peer); /* NULL: another peer has its place now */
    GW_ASSERT(victim != p);
    if (m->asked_count == sizeof p->operations / sizeof p->operations[0]) {
        sim_violation(c, "peer %u has %u one-sided operations open", p->number, m->asked_count);
        return;
    }
    const sim_link *link = victim != NULL ? sim_link_of(c, p->number, victim->number) : NULL;
    bool swap = action->kind == GW_ACT_SWAP_WORD;
    p->operations[m->asked_count++] = (sim_asked){.token = action->token,
                                                  .target = victim != NULL ? victim->number : SIM_PEERS,
                                                  .session = link != NULL ? link->session : 0,
                                                  .swap = swap};
    if (link == NULL || !link->up) {
        sim_op op = sim_op_to(p, unknown);
        op.token = action->token;
        sim_later(c, 1000, &op);
        return;
    }
    if (sim_data_lost(c, p->number, victim->number)) {
        sim_op op = sim_op_to(p, unreachable);
        op.token = action->token;
        sim_later(c, 1000, &op);
        return;
    }
    request r = {.view = m->fence.name,
                 .expected = action->swap_word.expected,
                 .desired = action->swap_word.desired,
                 .asker_life = p->boot,
                 .swap = swap};
    sim_op op = sim_op_to(victim, on_request);
    op.from = p->number;
    op.token = action->token;
    op.session = link->session;
    op.bytes = (const uint8_t *)&r;
    op.length = sizeof r;
    sim_later(c, sim_between(c, 5000, 100000), &op);
}

void sim_work_broken(sim_cluster *c, sim_peer *p, uint32_t other) {
    for (uint32_t i = 0; i < p->m.asked_count; i++) {
        if (p->operations[i].target != other) continue;
        sim_op op = sim_op_to(p, unknown);
        op.token = p->operations[i].token;
        sim_later(c, 1000, &op);
    }
}

void sim_work_action(sim_cluster *c, sim_peer *p, const gw_action *action) {
    switch (action->kind) {
    case GW_ACT_FREEZE:
        freeze(c, p, action->token);
        break;
    case GW_ACT_INSTALL:
        p->m.fence = *action->install.view;
        break;
    case GW_ACT_BEGIN_STEP:
        begin_step(c, p, action);
        break;
    case GW_ACT_DEAL:
        deal(c, p, action);
        break;
    case GW_ACT_TAKE:
        take(c, p, action);
        break;
    case GW_ACT_SEAL:
        p->m.claiming = false;
        p->m.seal_token = action->token;
        perhaps_sealed(c, p);
        break;
    default:
        ask(c, p, action);
        break;
    }
}
