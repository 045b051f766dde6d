/* Promise: a peer that is blamed for wrong bits in memory has been wrong, and a peer that was found wrong
 * takes part with nothing that it had: its contributions are dropped and its state is fetched again. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Records an error under the peer's name, as verdicts do. Later lives hear of a verdict, but not a life
 * that has lost its disk, which is another peer. */
static void on_wrong(void *context, sim_peer *p, sim_error_kind kind) {
    sim_corruption *k = &((sim_judges *)context)->corruption;
    if (k->count == k->capacity) {
        k->capacity = 2 * k->capacity + 16;
        k->errors = realloc(k->errors, k->capacity * sizeof *k->errors);
        GW_ASSERT_MEMORY(k->errors != NULL);
    }
    k->errors[k->count++] = (sim_error){.id = p->id, .step = p->m.step, .part = kind == SIM_WRONG_PART};
}

static bool erred_in(const sim_judges *j, const gw_peer_id *id, uint64_t step) {
    const sim_corruption *k = &j->corruption;
    for (uint32_t i = 0; i < k->count; i++)
        if (k->errors[i].step == step && !k->errors[i].part && gw_peer_id_equal(&k->errors[i].id, id))
            return true;
    return false;
}

bool sim_computes_alone(const sim_judges *j, const sim_peer *p, uint64_t step) {
    return p->m.fence.count == 1 && p->number == sim_faulty_machine(j->c->options) &&
           erred_in(j, &p->id, step);
}

static void record_verdict(sim_verdict *verdict, const sim_peer *by) {
    verdict->in = by->m.installed;
    verdict->by[by->number] = by->boot;
}

static bool begins_with(const gw_action *notice, const char *phrase) {
    return notice->notice.text != NULL && strncmp(notice->notice.text, phrase, strlen(phrase)) == 0;
}

/* Whether a verdict is about the current step of the peer that reports it: so are verdicts on a shard and
 * on the state held. That a state was outvoted is reported by a leader, which may be in another step, and
 * what others have found may be of any earlier step. */
static bool is_of_its_step(const gw_action *notice) {
    return begins_with(notice, "it computed ") || begins_with(notice, "its state changed in memory") ||
           begins_with(notice, "its part of the sum");
}

/* Whether a verdict is about what the peer has added up, and not about what it has computed or holds. */
static bool is_about_part(const gw_action *notice) {
    return begins_with(notice, "its part of the sum");
}

static bool is_counted(const sim_error *error, const gw_action *notice, bool of_its_step) {
    return error->part == is_about_part(notice) && gw_peer_id_equal(&error->id, &notice->peer) &&
           (!of_its_step || error->step == notice->step);
}

/* Checks that a peer that is blamed has been wrong. No peer gets wrong bits through others: only chosen
 * shards are wrong, no peer passes on a state that has changed, and the run ends once a peer is alone with
 * a wrong result that others might fetch (sums.c). The blamed peer must therefore have been wrong itself,
 * and since it last reported a verdict on itself: with that it gave up all that it had, and a second one
 * ends its life. (What an earlier life had of later steps is not settled by this if the others have begun
 * again since: peers that were left behind may still report it.) */
static void check_blame(sim_judges *j, sim_peer *by, const gw_action *notice) {
    sim_corruption *k = &j->corruption;
    bool changes = sim_is_verdict_on_changes(notice), of_its_step = is_of_its_step(notice), wrong = false;
    bool own =
        /* a verdict on changes is reported by all alike */
        gw_peer_id_equal(&notice->peer, &by->id) && !changes;
    /* the notice blames no peer; the end of the peer is checked later */
    if (gw_peer_id_is_none(&notice->peer)) return;
    for (uint32_t i = 0; i < k->count && !changes; i++)
        wrong |= is_counted(&k->errors[i], notice, of_its_step) && (!own || k->errors[i].settled != by->boot);
    for (uint32_t i = 0; i < k->count && own; i++)
        if (is_counted(&k->errors[i], notice, false) && (!of_its_step || k->errors[i].step <= notice->step))
            k->errors[i].settled = by->boot;
    k->suspects[by->number].found_wrong += own;
    if (sim_convicts_rightly(j, by, notice) || wrong) return;
    const sim_peer *p = sim_by_id(j->c, &notice->peer);
    sim_violation(j->c, "peer %u wrongly blames peer %d at step %" PRIu64 ": %s", by->number,
                  p == NULL ? -1 : (int)p->number, notice->step,
                  notice->notice.text == NULL ? "" : notice->notice.text);
}

/* A life ends as a faulty machine when it is found wrong for the second time. Where one of two members is
 * wrong, or two members are, no peer can tell which; where one of three or more is wrong, the others can. */
bool sim_blames_rightly(const sim_judges *j, const sim_peer *p) {
    enum { TIMES_THAT_END = 2 };
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    if (strstr(p->finish_text, "the machine is faulty") != NULL)
        return sim_found_wrong(j, p) >= TIMES_THAT_END;
    uint32_t members = status.view == NULL ? 0 : status.view->count, wrong = 0;
    for (uint32_t i = 0; i < members; i++) wrong += erred_in(j, &status.view->members[i].id, status.step);
    if (strstr(p->finish_text, "nobody can tell in whose memory") != NULL) return sim_halts_rightly(j, p);
    if (strstr(p->finish_text, "could not be fetched: ") != NULL) return sim_cannot_fetch(j, p);
    if (strstr(p->finish_text, "in this machine's memory") != NULL) return erred_in(j, &p->id, status.step);
    return wrong >= 2 || (wrong == 1 && members == 2);
}

uint32_t sim_found_wrong(const sim_judges *j, const sim_peer *p) {
    return j->corruption.suspects[p->number].found_wrong;
}

/* Whether the peer has begun its step. A peer that was about to take another state, and finds only then
 * that its own is wrong, has not. */
static bool has_begun(const sim_peer *p) {
    const sim_sum *sum = &p->m.accumulator;
    bool begun = sum->torn;
    for (uint32_t i = 0; i < sum->shards; i++) begun |= sum->times[i] != 0;
    for (uint32_t w = 0; w < SIM_WORKERS; w++) begun |= p->m.workers[w].busy;
    return begun;
}

/* Records a verdict. It does not concern a peer that is in another view meanwhile, which began with what
 * its own voters knew. With a majority rule, a peer that has changed bits keeps what no other peer holds
 * (core/brain/faults/verdicts.c). */
static void on_told(void *context, sim_peer *by, const gw_action *notice) {
    sim_judges *j = context;
    if (sim_accuses(j, by, notice)) return;
    check_blame(j, by, notice);
    const sim_peer *p = sim_by_id(j->c, &notice->peer);
    if (sim_is_verdict_on_changes(notice) && j->c->options->majority) return;
    if (p == NULL || p->brain == NULL || !gw_view_name_equal(&p->m.installed, &by->m.installed)) return;
    sim_suspect *suspect = &j->corruption.suspects[p->number];
    if (has_begun(p)) record_verdict(&suspect->on_work, by);
    if (!is_about_part(notice)) record_verdict(&suspect->on_state, by);
}

/* Returns a member of the view whose current life has reported the verdict, or SIM_PEERS. */
static uint32_t member_that_told(const sim_cluster *c, const gw_view *view, const sim_verdict *verdict) {
    if (gw_view_name_equal(&view->name, &verdict->in)) return SIM_PEERS;
    for (uint32_t i = 0; i < c->count; i++) {
        const sim_peer *by = &c->peers[i];
        bool lives = verdict->by[i] != 0 && verdict->by[i] == by->boot;
        if (lives && gw_view_rank_of_life(view, &by->id, by->boot, by->nonce) >= 0) return i;
    }
    return SIM_PEERS;
}

/* With a majority rule, a peer's state counts again when it has installed a view without the members that
 * found it wrong: the others agree with it, and may have shown it (core/brain/faults/verdicts.c). */
static void on_installed(void *context, sim_peer *p, const gw_view *view) {
    sim_judges *j = context;
    sim_verdict *verdict = &j->corruption.suspects[p->number].on_state;
    bool later = j->c->options->majority && !gw_view_name_equal(&view->name, &verdict->in);
    if (later && member_that_told(j->c, view, verdict) == SIM_PEERS) *verdict = (sim_verdict){.by = {0}};
}

/* Checks a peer that enters a reduction. A peer that was found to compute or to hold wrong bits takes part
 * in later views with nothing that it had: its part of the step is dropped and its state fetched again
 * (core/brain/faults/verify.c), because the members that found it report so when they vote. If none of
 * these is a member, no peer knows of it, and what it holds is verified like everything that is held
 * (core/shard/double_check.h).
 *
 * More is allowed for a member that the others only went on without, because they believed it dead or
 * could not reach it. When it comes back within the step, it brings its contributions, because the
 * contribution of a shard is a function of state, step and shard, whatever the view. Each shard counts
 * once (sums.c) and is computed from the state that the others hold. With exact sums its state itself may
 * count, where it is the state of its step; with float sums it does not (shown.c). */
static void on_entered(void *context, sim_peer *p) {
    sim_judges *j = context;
    const sim_suspect *suspect = &j->corruption.suspects[p->number];
    uint32_t work = member_that_told(j->c, &p->m.fence, &suspect->on_work),
             state = member_that_told(j->c, &p->m.fence, &suspect->on_state);
    if (work < SIM_PEERS)
        sim_violation(j->c,
                      "peer %u adds shards to the sum of step %" PRIu64
                      " that it had computed before peer %u found it to compute wrong",
                      p->number, p->m.accumulator.step, work);
    if (state < SIM_PEERS)
        sim_violation(j->c,
                      "peer %u takes part in step %" PRIu64
                      " with the state that it had when peer %u found it to be wrong",
                      p->number, p->m.accumulator.step, state);
}

static void on_step(void *context, sim_peer *p) {
    ((sim_judges *)context)->corruption.suspects[p->number].on_work = (sim_verdict){.by = {0}};
}

static void on_loaded(void *context, sim_peer *p, const sim_load_request *load) {
    (void)load;
    ((sim_judges *)context)->corruption.suspects[p->number].on_state = (sim_verdict){.by = {0}};
}

static void forget(void *context, sim_peer *p) {
    ((sim_judges *)context)->corruption.suspects[p->number] = (sim_suspect){.found_wrong = 0};
}

const sim_observer sim_corruption_observer = {.bits_wrong = on_wrong,
                                              .fault_told = on_told,
                                              .view_installed = on_installed,
                                              .sum_entered = on_entered,
                                              .step_begun = on_step,
                                              .state_loaded = on_loaded,
                                              .life_begins = forget,
                                              .process_ends = forget};
