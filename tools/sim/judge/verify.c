/* Silent corruption: one peer whose contributions are sometimes wrong, bits that flip in states; and the
 * shards that are computed twice to find that. Only chosen shards are made wrong, and not while that peer is
 * alone: what nobody computes again nobody can find. And whoever was found wrong brings nothing of what it
 * had. */
#include "tools/sim/world/cluster.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_in(const gw_action *deal, uint32_t shard) {
    return deal->list == NULL || gw_set_has(deal->list, shard);
}

void sim_verify_deal(sim_peer *p, const gw_action *deal) {
    sim_memory *m = &p->m;
    uint32_t positions[GW_VERIFY_MOST];
    m->next_first = m->next_again = 0;
    m->part = (gw_verify_part){.first_count = 0};
    m->chosen_count = deal->count;
    if (deal->count == 0) return;
    memcpy(m->chosen, deal->chosen, deal->count * sizeof m->chosen[0]);
    for (uint32_t i = 0; i < deal->count; i++) {
        positions[i] = is_in(deal, m->chosen[i]) ? m->chosen[i] : GW_VERIFY_HELD;
        for (uint32_t at = 0; at < m->listed; at++)
            if (m->list[at] == m->chosen[i]) positions[i] = at;
    }
    gw_verify_divide(m->chosen, positions, m->chosen_count, deal->cuts, deal->members, deal->rank,
                     m->accumulator.step, m->checks, m->check_count, &m->part);
}

void sim_verify_keep(sim_peer *p, const sim_worker *worker, uint64_t value) {
    sim_memory *m = &p->m;
    if (!gw_verify_is_chosen(m->chosen, m->chosen_count, worker->shard)) return;
    for (uint32_t i = 0; i < m->check_count; i++)
        if (m->checks[i].shard == worker->shard && m->checks[i].again == worker->again) return;
    GW_ASSERT(m->check_count < 2 * GW_VERIFY_MOST);
    m->checks[m->check_count++] =
        (gw_recheck){.shard = worker->shard, .again = worker->again, .fingerprint = value};
}

static bool is_faulty(const sim_cluster *c, const sim_peer *p) {
    return p->number == c->options->seed % c->count && c->options->wrong_permille > 0;
}

/* By name, as verdicts are: later lives hear of them, but not one that has lost its disk, and is another. */
static void note_error(sim_cluster *c, const sim_peer *p, bool part) {
    if (c->error_count == c->error_capacity) {
        c->error_capacity = 2 * c->error_capacity + 16;
        c->errors = realloc(c->errors, c->error_capacity * sizeof *c->errors);
        GW_ASSERT_MEMORY(c->errors != NULL);
    }
    c->errors[c->error_count++] = (sim_error){.id = p->id, .step = p->m.step, .part = part};
}

static bool erred_in(const sim_cluster *c, const gw_peer_id *id, uint64_t step) {
    bool any = false;
    for (uint32_t i = 0; i < c->error_count && !any; i++)
        any = c->errors[i].step == step && !c->errors[i].part && gw_peer_id_equal(&c->errors[i].id, id);
    return any;
}

bool sim_computes_alone(const sim_cluster *c, const sim_peer *p, uint64_t step) {
    return p->m.fence.count == 1 && is_faulty(c, p) && erred_in(c, &p->id, step);
}

uint64_t sim_compute(sim_cluster *c, const sim_peer *p, uint32_t shard) {
    const sim_memory *m = &p->m;
    uint64_t value = sim_contribution(m->state, m->step, shard);
    if (c->calm || !is_faulty(c, p) || m->fence.count < 2) return value;
    if (!gw_verify_is_chosen(m->chosen, m->chosen_count, shard)) return value;
    if (!sim_chance(c, c->options->wrong_permille / 1000.0)) return value;
    c->result->faults[GW_SIM_WRONG]++;
    note_error(c, p, false);
    sim_trace(c, "peer %u computes shard %u of step %" PRIu64 " wrong", p->number, shard, m->step);
    return value ^ UINT64_C(1) << sim_between(c, 0, 63);
}

static void probed(sim_cluster *c, sim_peer *p, const sim_op *op) {
    gw_event event = {.kind = GW_EV_PROBED,
                      .token = op->token,
                      .outcome = op->y != 0 ? GW_ABORTED : GW_DONE,
                      .fingerprint = op->x};
    if (op->y != 0) event.text = "its payload is gone";
    if (op->z != 0) {
        event.outcome = GW_FAILED;
        event.text = "out of memory";
        p->gave_up = true;
    }
    sim_event(c, p, &event);
    p->m.probing = 0;
}

/* As many as would name the shard poison are to be more than chance. */
static bool fails_to_probe(sim_cluster *c, sim_peer *p, uint64_t step) {
    if (c->gave_up[step] == GW_POISON_LOSSES - 1 || !sim_refuses(c, p, GW_SIM_FAILED_PROBE)) return false;
    c->gave_up[step]++;
    return true;
}

void sim_probe(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_op op = sim_op_to(p, probed);
    if (p->m.step != action->step)
        sim_violation(c, "peer %u probes step %" PRIu64 " from the state of step %" PRIu64, p->number,
                      action->step, p->m.step);
    c->result->disputes++;
    p->m.probing = action->first + 1;
    op.token = action->token;
    op.y = sim_loses(c, p, action->first);
    op.x = op.y != 0 ? 0 : sim_compute(c, p, action->first);
    op.z = op.y == 0 && fails_to_probe(c, p, action->step);
    sim_later(c, sim_between(c, SIM_MS, 20 * SIM_MS), &op);
}

static void looked(sim_cluster *c, sim_peer *p, const sim_op *op) {
    bool failed = sim_refuses(c, p, GW_SIM_FAILED_LOOK), damaged = !failed && p->m.flipped;
    gw_event event = {.kind = GW_EV_LOOKED,
                      .token = op->token,
                      .outcome = failed || damaged ? GW_FAILED : GW_DONE,
                      .damaged = damaged,
                      .text = failed    ? "the device failed"
                              : damaged ? "the state has another fingerprint"
                                        : NULL};
    sim_event(c, p, &event);
}

void sim_look(sim_cluster *c, sim_peer *p, const gw_action *action) {
    sim_op op = sim_op_to(p, looked);
    op.token = action->token;
    sim_later(c, sim_between(c, SIM_MS / 10, 5 * SIM_MS), &op);
}

/* ---- who is thrown out ---- */

static void add_verdict(sim_verdict *verdict, const sim_peer *by) {
    verdict->in = by->m.installed;
    verdict->by[by->number] = by->boot;
}

/* A verdict on a shard, or on the state that is held, is of the step that its teller is in. That a state was
 * outvoted a leader tells who may be in another one, and what others have found was in any earlier one. */
static bool is_of_its_step(const char *text) {
    static const char *const phrases[] = {"it computed ", "its state changed in memory",
                                          "its part of the sum"};
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strncmp(text, phrases[i], strlen(phrases[i])) == 0) return true;
    return false;
}

static const char *evidence_of(const gw_action *notice) {
    return notice->text == NULL ? "" : notice->text;
}

/* It is about what its peer has added up, and not about what that computed or holds. */
static bool is_about_part(const gw_action *notice) {
    return strncmp(evidence_of(notice), "its part of the sum", strlen("its part of the sum")) == 0;
}

static bool is_counted(const sim_error *error, const gw_action *notice, bool of_its_step) {
    return error->part == is_about_part(notice) && gw_peer_id_equal(&error->id, &notice->peer) &&
           (!of_its_step || error->step == notice->step);
}

/* Nobody comes by wrong bits through others: only chosen shards are wrong, no peer hands on a state that has
 * changed, and once one is alone with what it has computed wrong, which another might fetch (README, what
 * --verify cannot find), the run ends (check_applied). So whoever is named must have been wrong itself. And
 * it must have been so since it last told of itself that it was: all that it had then it has given up, and a
 * second time ends its life. (Not what an earlier life had of later steps, where the flock has begun anew
 * since: those who were left behind with that may tell of it yet.) */
static void check_blame(sim_cluster *c, sim_peer *by, const gw_action *notice) {
    const char *text = evidence_of(notice);
    bool changes = sim_is_verdict_on_changes(notice), of_its_step = is_of_its_step(text), wrong = false;
    bool own = gw_peer_id_equal(&notice->peer, &by->id) && !changes; /* of that it hears as the others do */
    if (gw_peer_id_is_none(&notice->peer)) return;                   /* not known: its end tells so, too */
    for (uint32_t i = 0; i < c->error_count && !changes; i++)
        wrong |= is_counted(&c->errors[i], notice, of_its_step) && (!own || c->errors[i].paid != by->boot);
    for (uint32_t i = 0; i < c->error_count && own; i++)
        if (is_counted(&c->errors[i], notice, false) && (!of_its_step || c->errors[i].step <= notice->step))
            c->errors[i].paid = by->boot;
    by->m.found_wrong += own;
    if (sim_convicts_rightly(c, by, notice) || wrong) return;
    const sim_peer *p = sim_by_id(c, &notice->peer);
    sim_violation(c, "peer %u wrongly blames peer %d at step %" PRIu64 ": %s", by->number,
                  p == NULL ? -1 : (int)p->number, notice->step, text);
}

/* A life ends as a faulty machine the second time that it was found wrong. Nobody can tell who is wrong where
 * one of two members is, or where two of them are; of one the others can. */
bool sim_blames_rightly(const sim_cluster *c, const sim_peer *p) {
    enum { TIMES_THAT_END = 2 };
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    if (strstr(p->finish_text, "the machine is faulty") != NULL) return p->m.found_wrong >= TIMES_THAT_END;
    uint32_t members = status.view == NULL ? 0 : status.view->count, wrong = 0;
    for (uint32_t i = 0; i < members; i++) wrong += erred_in(c, &status.view->members[i].id, status.step);
    if (strstr(p->finish_text, "nobody can tell in whose memory") != NULL) return sim_halts_rightly(c, p);
    if (strstr(p->finish_text, "could not be fetched: ") != NULL) return sim_cannot_fetch(c, p);
    if (strstr(p->finish_text, "in this machine's memory") != NULL) return erred_in(c, &p->id, status.step);
    return wrong >= 2 || (wrong == 1 && members == 2);
}

/* Any of its step: who was about to take another state, and finds only then that its own is wrong, has not.
 */
static bool has_begun(const sim_peer *p) {
    const sim_sum *sum = &p->m.accumulator;
    bool begun = sum->torn;
    for (uint32_t i = 0; i < sum->shards; i++) begun |= sum->times[i] != 0;
    for (uint32_t w = 0; w < SIM_WORKERS; w++) begun |= p->m.workers[w].busy;
    return begun;
}

/* Of who is in another view meanwhile it says nothing: that one began with what its own voters knew. By
 * majority what nobody else holds counts all the same, of who has changed bits
 * (core/brain/faults/verdicts.c). */
void sim_convict(sim_cluster *c, sim_peer *by, const gw_action *notice) {
    if (sim_accuses(c, by, notice)) return;
    check_blame(c, by, notice);
    sim_peer *p = sim_by_id(c, &notice->peer);
    if (sim_is_verdict_on_changes(notice) && c->options->majority) return;
    if (p == NULL || p->brain == NULL || !gw_view_name_equal(&p->m.installed, &by->m.installed)) return;
    if (has_begun(p)) add_verdict(&p->m.on_work, by);
    if (!is_about_part(notice)) add_verdict(&p->m.on_state, by);
}

/* A member of the view, in this life, that had told of it; SIM_PEERS = none. */
static uint32_t who_knows(const sim_cluster *c, const gw_view *view, const sim_verdict *verdict) {
    uint32_t i = 0;
    if (gw_view_name_equal(&view->name, &verdict->in)) return SIM_PEERS;
    for (; i < SIM_PEERS; i++) {
        const sim_peer *by = &c->peers[i];
        bool lives = verdict->by[i] != 0 && verdict->by[i] == by->boot;
        if (lives && gw_view_rank_of_life(view, &by->id, by->boot, by->nonce) >= 0) break;
    }
    return i;
}

/* By majority its state counts again when it has installed a view without those who found it wrong: the
 * others agree with it, and may have shown it (core/brain/faults/verdicts.c). */
void sim_forgive(const sim_cluster *c, sim_peer *p, const gw_view *view) {
    sim_verdict *verdict = &p->m.on_state;
    bool later = c->options->majority && !gw_view_name_equal(&view->name, &verdict->in);
    if (later && who_knows(c, view, verdict) == SIM_PEERS) *verdict = (sim_verdict){.by = {0}};
}

void sim_heed_earlier_fault(sim_cluster *c, sim_peer *p, const char *said) {
    if (strstr(said, " was found to compute or to hold other bits") == NULL) return;
    sim_commit_settle(c, p); /* what it has to show is of that state */
    p->m.has_state = false;
}

uint64_t sim_made_state(const sim_peer *p) {
    return p->m.flipped ? p->m.unflipped : p->m.state;
}

/* Whoever was found to compute or to hold wrong bits takes part in the views after that with nothing that it
 * had: its part of the step is dropped, and its state fetched anew (core/brain/faults/verify.c), as those
 * tell who found it, when they vote. Where none of these is a member nobody knows of it, and what it holds is
 * computed again like all that is held (core/shard/double_check.h).
 *
 * Of a member that others merely went on without, as they took it for dead or could not reach it, more is
 * allowed: coming back within the step it brings what it has added to it, as the contribution of a shard is a
 * function of state, step and shard, whoever is in which view. Each counts once (check_sum), and is of the
 * state that the others hold. Its state itself may count with exact sums, where it is the state of its step;
 * with float sums it does not (check_latest_stays). */
void sim_check_expelled(sim_cluster *c, const sim_peer *p) {
    const gw_view *view = &p->m.fence;
    uint32_t work = who_knows(c, view, &p->m.on_work), state = who_knows(c, view, &p->m.on_state);
    if (work < SIM_PEERS)
        sim_violation(c,
                      "peer %u adds to the sum of step %" PRIu64
                      " what it had computed before peer %u found it to compute wrong",
                      p->number, p->m.accumulator.step, work);
    if (state < SIM_PEERS)
        sim_violation(c,
                      "peer %u takes part in step %" PRIu64
                      " with the state that it had when peer %u found it to be wrong",
                      p->number, p->m.accumulator.step, state);
}

/* ---- bits that flip ---- */

/* A state that has changed everywhere is lost, and the job with it. */
static bool others_have_it(const sim_cluster *c, const sim_peer *p) {
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *q = &c->peers[i];
        if (q != p && sim_runs(q) && q->m.has_state && !q->m.flipped && q->m.step == p->m.step &&
            gw_view_name_equal(&q->m.fence.name, &p->m.fence.name))
            return true;
    }
    return false;
}

static void flip(sim_cluster *c, sim_peer *p) {
    c->result->faults[GW_SIM_FLIP]++;
    note_error(c, p, false);
    p->m.flipped = true;
    p->m.unflipped = p->m.state;
    p->m.state ^= UINT64_C(1) << sim_between(c, 0, 63);
    sim_trace(c, "a bit of peer %u's state flips", p->number);
}

void sim_spoil_part(sim_cluster *c, sim_peer *p) {
    c->result->faults[GW_SIM_SPOILT_PART]++;
    note_error(c, p, true);
    p->m.accumulator.spoilt = true;
    p->m.accumulator.value ^= UINT64_C(1) << sim_between(c, 0, 63);
    sim_trace(c, "a bit of what peer %u has added up to step %" PRIu64 " flips", p->number,
              p->m.accumulator.step);
}

/* At any time. Effects of the step before read that state, unseen by any look: they have taken place by now.
 */
void sim_flip(sim_cluster *c) {
    sim_peer *p = &c->peers[sim_between(c, 0, c->count - 1)];
    if (!sim_runs(p) || !p->m.has_state || p->m.flipped || !others_have_it(c, p)) return;
    sim_commit_settle(c, p);
    flip(c, p);
}
