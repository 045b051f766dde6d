/* Promise: each step's sum has each of its shards exactly once, computed from the state that it is applied
 * to; every state is that of the undisturbed run; with a majority rule, only one view of an epoch commits
 * steps; and members do not fail with the same member for ever. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Checks that only one view of an epoch commits steps. It is called with a majority rule while no operator
 * has forced a view. */
static void check_epoch(sim_judges *j, const sim_memory *m) {
    sim_sums *s = &j->sums;
    if (m->sum_epoch >= s->committed_capacity) {
        uint64_t capacity = 2 * m->sum_epoch + 64;
        s->committed = realloc(s->committed, capacity * sizeof *s->committed);
        GW_ASSERT_MEMORY(s->committed != NULL);
        memset(s->committed + s->committed_capacity, 0,
               (capacity - s->committed_capacity) * sizeof *s->committed);
        s->committed_capacity = capacity;
    }
    if (s->committed[m->sum_epoch] != 0 && s->committed[m->sum_epoch] != m->sum_name)
        sim_violation(j->c, "two views of epoch %" PRIu64 " committed steps", m->sum_epoch);
    s->committed[m->sum_epoch] = m->sum_name;
}

static void on_applies(void *context, sim_peer *p, uint64_t step, bool skips) {
    sim_judges *j = context;
    sim_cluster *c = j->c;
    const sim_memory *m = &p->m;
    (void)skips;
    if (!m->has_state || !m->sum.there || m->sum.step != step || m->step != step) {
        sim_violation(
            c, "peer %u applies step %" PRIu64 ", its sum is of step %" PRIu64 ", its state of %" PRIu64,
            p->number, step, m->sum.step, m->step);
        return;
    }
    for (uint32_t s = 0; s < m->sum.shards; s++)
        if (m->sum.times[s] != 1)
            sim_violation(c, "peer %u applies a sum of step %" PRIu64 " that has shard %u %u times",
                          p->number, step, s, m->sum.times[s]);
    if (m->sum.mixed || (m->sum.state != m->state && !m->flipped))
        sim_violation(c, "peer %u applies a sum of step %" PRIu64 " that was computed from other states",
                      p->number, step);
    if (c->options->majority && !j->sums.forced) check_epoch(j, m);
}

/* Whether the sum has the right value, with float sums: its contributions are known, although no
 * undisturbed run tells the state. */
static bool has_right_value(const sim_cluster *c, const sim_memory *m, uint64_t parent) {
    uint64_t right = sim_step_sum(c->options, parent, m->step - 1);
    return m->sum.value == sim_sum_of_view(c->options, right, m->sum_name);
}

/* Checks the new state. A wrong contribution that no other peer was there to verify ends the run without a
 * failure. */
static void on_applied(void *context, sim_peer *p, uint64_t parent) {
    sim_judges *j = context;
    sim_cluster *c = j->c;
    const sim_memory *m = &p->m;
    const bool fast = c->options->fast;
    if (m->step > sim_last_step(c->options)) {
        sim_violation(c, "peer %u computes step %" PRIu64 " after the job has ended", p->number, m->step - 1);
        return;
    }
    if (fast ? has_right_value(c, m, parent) : m->state == c->states[m->step]) return;
    if (sim_computes_alone(j, p, m->step - 1))
        c->result->unseen = 1;
    else if (fast)
        sim_violation(c, "peer %u has applied a sum of step %" PRIu64 " that is not that of its shards",
                      p->number, m->step - 1);
    else
        sim_violation(c, "peer %u holds another state of step %" PRIu64 " than the undisturbed run",
                      p->number, m->step);
}

static sim_named *named_of(const sim_judges *j, const sim_peer *p) {
    return &j->sums.named[(size_t)p->number * j->c->count];
}

/* Checks that a peer does not keep failing to sum with the same member (core/brain/members/links.c): one
 * of the two, or each, is soon left out by the other. A member that has been left out for a minute may be
 * tried again. */
static void on_failed(void *context, sim_peer *p, const sim_peer *with) {
    enum { MOST_NAMED = 6 };
    const uint64_t forgiven_ns = 45000 * SIM_MS; /* a minute on the fastest clock */
    sim_judges *j = context;
    sim_named *named = &named_of(j, p)[with->number];
    uint64_t now_ns = sim_now(j->c);
    bool restarted = named->boot != with->boot || now_ns >= named->at_ns + forgiven_ns;
    *named = (sim_named){.times = restarted ? 1 : named->times + 1, .at_ns = now_ns, .boot = with->boot};
    if (named->times > MOST_NAMED && j->c->options->jump_ms == 0)
        sim_violation(j->c, "peer %u sums with peer %u, which has failed %u times", p->number, with->number,
                      named->times - 1);
}

static void on_reduced(void *context, sim_peer *p, const gw_view *view) {
    sim_judges *j = context;
    for (uint32_t i = 0; i < view->count; i++) {
        const sim_peer *member = sim_by_id(j->c, &view->members[i].id);
        if (member != NULL) named_of(j, p)[member->number].times = 0;
    }
}

/* Checks that a peer does not go back, with exact sums: the state of a later step is the better one,
 * unless the peer may have computed it wrong or was found to change bits. */
static void on_wanted(void *context, sim_peer *p, const sim_load_request *load) {
    sim_judges *j = context;
    const gw_sim_options *o = j->c->options;
    bool trusted = o->flip_ms == 0 && o->wrong_permille == 0 && sim_found_wrong(j, p) == 0;
    if (!o->fast && trusted && p->m.has_state && load->step < p->m.step)
        sim_violation(j->c, "peer %u goes back from step %" PRIu64 " to step %" PRIu64, p->number, p->m.step,
                      load->step);
}

static void forget(void *context, sim_peer *p) {
    sim_judges *j = context;
    memset(named_of(j, p), 0, j->c->count * sizeof *j->sums.named);
}

static void on_forced(void *context, sim_peer *p) {
    sim_judges *j = context;
    (void)p;
    j->sums.forced = true;
}

const sim_observer sim_sums_observer = {.step_applies = on_applies,
                                        .step_applied = on_applied,
                                        .sum_failed = on_failed,
                                        .sum_reduced = on_reduced,
                                        .state_wanted = on_wanted,
                                        .life_begins = forget,
                                        .process_ends = forget,
                                        .view_forced = on_forced};
