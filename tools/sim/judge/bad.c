/* Elements that are not finite: of one step some contributions have them. What peers tell of that, and
 * whether they skip its update, or end, as they are told to (--on-bad). */
#include "tools/sim/world/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { EVERY = 3, FIRST = 1, TENSOR = 2 }; /* which shards have them: there are at least four */

static gw_bad first_of(uint32_t shard) {
    return (gw_bad){
        .present = true, .shard = shard, .tensor = TENSOR, .index = (UINT64_C(1) << 40) + 1000 - shard};
}

/* times: of the shards, those that count are in it; NULL: all do. */
static uint64_t bad_among(const gw_sim_options *o, uint64_t step, uint32_t shards, const uint8_t *times,
                          gw_bad *first) {
    uint64_t count = 0;
    *first = (gw_bad){.present = false};
    if (o->bad_step == 0 || step != o->bad_step) return 0;
    for (uint32_t shard = shards; shard-- > 0;) {
        if (shard % EVERY != FIRST || (times != NULL && times[shard] == 0)) continue;
        *first = first_of(shard);
        count += shard + 1;
    }
    return count;
}

uint64_t sim_bad_in(const gw_sim_options *o, const sim_sum *sum, gw_bad *first) {
    return bad_among(o, sum->step, sum->shards, sum->times, first);
}

/* In all of a step. */
static uint64_t bad_of(const gw_sim_options *o, uint64_t step) {
    gw_bad first;
    return bad_among(o, step, sim_shards(o, step), NULL, &first);
}

uint64_t sim_state_after(const gw_sim_options *o, uint64_t state, uint64_t step) {
    return sim_next_state(state, bad_of(o, step) > 0 ? SIM_SKIPPED : sim_step_sum(o, state, step));
}

void sim_told_bad(sim_cluster *c, const sim_peer *p, const gw_action *notice) {
    gw_bad first = first_of(FIRST);
    bool right = bad_of(c->options, notice->step) > 0 && notice->shards == first.shard &&
                 notice->first == first.tensor && notice->desired == first.index;
    if (right) return;
    sim_violation(c, "peer %u tells of a bad element in shard %u of step %" PRIu64 " that is not the first",
                  p->number, notice->shards, notice->step);
}

void sim_check_skip(sim_cluster *c, const sim_peer *p, const gw_action *apply) {
    bool bad = bad_of(c->options, apply->step) > 0;
    if (bad && !c->options->skip)
        sim_violation(c, "peer %u applies step %" PRIu64 ", whose sum is bad", p->number, apply->step);
    if (bad != apply->flag)
        sim_violation(c, "peer %u %s the update of step %" PRIu64, p->number,
                      apply->flag ? "skips" : "does not skip", apply->step);
}

bool sim_ends_of_bad(const sim_cluster *c, const sim_peer *p) {
    char text[sizeof p->finish_text];
    uint64_t step = c->options->bad_step;
    if (step == 0 || c->options->skip || p->finish != GW_FINISH_FAILED) return false;
    snprintf(text, sizeof text,
             "%" PRIu64 " elements of the sum of step %" PRIu64
             " are not finite or out of range, the first in shard %d, ",
             bad_of(c->options, step), step, FIRST);
    return strncmp(p->finish_text, text, strlen(text)) == 0;
}
