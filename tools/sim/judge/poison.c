/* Promise: a peer that ends the job because a shard is poison is right, by the lives that have ended. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Learns the step of a death from a peer whose view the life is in: for that peer it died in the peer's
 * own step. This matters for a life without a state, whose own step is not known. */
static void learn_step(sim_death *death, const sim_peer *by, const gw_view *view, const gw_peer_id *id) {
    gw_peer_status status;
    if (death->had_state || view == NULL) return;
    if (gw_view_rank_of_life(view, id, death->boot, death->nonce) < 0) return;
    gw_peer_status_get(by->brain, &status);
    death->step = status.step;
}

/* Looks at the deaths again: a life may have voted for this view, and died before the view was installed. */
static void on_installed(void *context, sim_peer *p, const gw_view *view) {
    sim_judges *j = context;
    for (uint32_t i = 0; i < j->poison.count; i++) {
        sim_death *death = &j->poison.deaths[i];
        learn_step(death, p, view, &j->c->peers[death->peer].id);
    }
}

static void on_last_word(void *context, sim_peer *p) {
    sim_judges *j = context;
    sim_poison *all = &j->poison;
    const sim_memory *m = &p->m;
    all->deaths = realloc(all->deaths, (all->count + 1) * sizeof *all->deaths);
    GW_ASSERT_MEMORY(all->deaths != NULL);
    sim_death *death = &all->deaths[all->count++];
    *death = (sim_death){.peer = p->number,
                         .boot = p->boot,
                         .nonce = p->nonce,
                         .had_state = m->has_state,
                         .step = m->accumulator.step,
                         .begun = gw_set_of(m->accumulator.shards)};
    for (uint32_t i = 0; i < j->c->count; i++) {
        gw_peer_status status;
        const sim_peer *q = &j->c->peers[i];
        if (q == p || !sim_runs(q)) continue;
        death->unseen |= q->paused_until_ns > sim_now(j->c);
        gw_peer_status_get(q->brain, &status);
        learn_step(death, q, status.view, &p->id);
    }
    for (uint32_t i = 0; i < m->accumulator.shards; i++)
        if (m->accumulator.times[i] > 0) gw_set_add(&death->begun, i);
    for (uint32_t i = 0; i < m->check_count; i++) gw_set_add(&death->begun, m->checks[i].shard);
    if (m->probing != 0 && m->probing <= death->begun.size) gw_set_add(&death->begun, m->probing - 1);
    for (uint32_t w = 0; w < SIM_WORKERS; w++)
        if (m->workers[w].busy) gw_set_add(&death->begun, m->workers[w].shard);
}

/* The worker processes that ended at the shard, as far as they count: of those of one peer one less than
 * makes a shard poison, unless that peer is alone. */
static uint32_t processes_lost(const sim_judges *j, bool alone, uint64_t step, uint32_t shard) {
    uint32_t of[SIM_PEERS] = {0}, count = 0;
    for (uint32_t i = 0; i < j->poison.process_count; i++) {
        const sim_lost_process *one = &j->poison.processes[i];
        if (one->step == step && one->shard == shard) of[one->peer]++;
    }
    for (uint32_t i = 0; i < SIM_PEERS; i++)
        count += alone || of[i] < GW_POISON_DEATHS ? of[i] : GW_POISON_DEATHS - 1;
    return count;
}

/* Whether enough lives had begun the shard. One of them is not counted, as its shard may be unknown,
 * unless worker processes ended at the shard. */
static bool was_begun(const sim_judges *j, uint64_t step, uint32_t shard) {
    uint32_t processes = processes_lost(j, true, step, shard), begun = processes == 0;
    for (uint32_t i = 0; i < j->poison.count; i++) {
        const sim_death *death = &j->poison.deaths[i];
        begun += death->step == step && shard < death->begun.size && gw_set_has(&death->begun, shard);
    }
    return begun + processes >= GW_POISON_DEATHS;
}

/* Whether the first peer that names a poison shard has proof: where no life but its own has ended, the worker
 * processes that ended at the shard must be enough. */
static bool is_proved(const sim_judges *j, const sim_peer *p, uint64_t step, uint32_t shard) {
    const sim_poison *all = &j->poison;
    if (j->c->options->worker_permille == 0 || !all->first[p->number]) return true;
    for (uint32_t i = 0; i < all->count; i++) {
        const sim_death *death = &all->deaths[i];
        bool own = death->peer == p->number && death->boot == p->boot;
        if (!own && (death->step == step || death->step + 1 == step || death->unseen)) return true;
    }
    return processes_lost(j, all->alone[p->number], step, shard) >= GW_POISON_DEATHS;
}

static void on_worker_lost(void *context, sim_peer *p, const gw_event *event) {
    sim_poison *all = &((sim_judges *)context)->poison;
    gw_worker_loss kind = event->worker_lost.kind;
    if (kind == GW_WORKER_KILLED || kind == GW_WORKER_DROPPED) return;
    all->processes = realloc(all->processes, (all->process_count + 1) * sizeof *all->processes);
    GW_ASSERT_MEMORY(all->processes != NULL);
    all->processes[all->process_count++] = (sim_lost_process){
        .peer = p->number, .step = event->worker_lost.step, .shard = event->worker_lost.shard};
}

/* A peer alone that has lost enough worker processes at a shard names it: it must not say that it gives up,
 * which its next life would do again. */
static void check_gives_up(const sim_judges *j, const sim_peer *p) {
    unsigned shard;
    uint64_t step;
    if (!j->poison.alone[p->number] || p->finish != GW_FINISH_FAILED ||
        strstr(p->finish_text, " cannot be computed here") == NULL ||
        sscanf(p->finish_text, "shard %u of step %" SCNu64, &shard, &step) != 2)
        return;
    if (processes_lost(j, true, step, shard) >= GW_POISON_DEATHS)
        sim_violation(j->c, "peer %u, alone, gives up shard %u, which is poison", p->number, shard);
}

static void on_finished(void *context, sim_peer *p) {
    sim_poison *all = &((sim_judges *)context)->poison;
    gw_peer_status status;
    bool names = p->finish == GW_FINISH_FAILED && strstr(p->finish_text, " is poison") != NULL;
    gw_peer_status_get(p->brain, &status);
    all->alone[p->number] = status.view != NULL && status.view->count == 1;
    all->first[p->number] = names && !all->named;
    all->named |= names;
    check_gives_up(context, p);
}

/* Checks that a shard is named poison rightly. By design a shard at which three lives died ends the job;
 * with many crashes this also happens by chance. All lives but one had begun the shard, and may have
 * finished it if that news was lost with them: for the first death of a step the shard is not known. That
 * life may have died before it had applied a sum, and so in the next step for peers that had applied it,
 * or in a later step than a paused peer knows. If several shards were computed together equally often, any
 * of them may be named. */
bool sim_names_poison(const sim_judges *j, const sim_peer *p) {
    unsigned shard;
    uint64_t step;
    const char *behind = strstr(p->finish_text, " of step "), * or = strstr(p->finish_text, " or ");
    if (p->finish != GW_FINISH_FAILED || behind == NULL || strstr(behind, " is poison") == NULL) return false;
    if (sscanf(p->finish_text, "shard %u", &shard) != 1) return false;
    if (sscanf(behind, " of step %" SCNu64, &step) != 1) return false;
    if (!is_proved(j, p, step, shard)) return false;
    uint32_t lost = 0, most = 0;
    for (uint32_t i = 0; i < j->poison.count; i++) {
        const sim_death *death = &j->poison.deaths[i];
        lost += death->step == step || death->step + 1 == step || (death->unseen && death->step > step);
        if (death->step == step && death->begun.size > most) most = death->begun.size;
    }
    bool begun = was_begun(j, step, shard), ties = or != NULL && or < behind;
    for (uint32_t other = 0; other < most && ties && !begun; other++) begun = was_begun(j, step, other);
    return lost + processes_lost(j, true, step, shard) >= GW_POISON_DEATHS && begun;
}

const sim_observer sim_poison_observer = {.view_installed = on_installed,
                                          .last_word = on_last_word,
                                          .worker_lost = on_worker_lost,
                                          .finished = on_finished};
