/* Promise: peers report the first bad element of a step correctly, and skip the step's update or end the
 * job, as --on-bad says. In one step of the run some contributions have elements that are not finite. */
#include "tools/sim/judge/judge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void on_told(void *context, sim_peer *p, const gw_action *notice) {
    sim_judges *j = context;
    gw_bad first;
    bool right = sim_bad_of(j->c->options, notice->step, &first) > 0 &&
                 notice->notice.bad.shard == first.shard && notice->notice.bad.tensor == first.tensor &&
                 notice->notice.bad.index == first.index;
    if (right) return;
    sim_violation(j->c, "peer %u reports a bad element in shard %u of step %" PRIu64 " that is not the first",
                  p->number, notice->notice.bad.shard, notice->step);
}

static void on_applies(void *context, sim_peer *p, uint64_t step, bool skips) {
    sim_judges *j = context;
    gw_bad first;
    bool bad = sim_bad_of(j->c->options, step, &first) > 0;
    if (bad && !j->c->options->skip)
        sim_violation(j->c, "peer %u applies step %" PRIu64 ", whose sum is bad", p->number, step);
    if (bad != skips)
        sim_violation(j->c, "peer %u %s the update of step %" PRIu64, p->number,
                      skips ? "skips" : "does not skip", step);
}

bool sim_ends_of_bad(const sim_cluster *c, const sim_peer *p) {
    char text[sizeof p->finish_text];
    gw_bad first;
    uint64_t step = c->options->bad_step;
    if (step == 0 || c->options->skip || p->finish != GW_FINISH_FAILED) return false;
    uint64_t count = sim_bad_of(c->options, step, &first);
    snprintf(text, sizeof text,
             "%" PRIu64 " elements of the sum of step %" PRIu64
             " are not finite or out of range, the first in shard %" PRIu32 ", ",
             count, step, first.shard);
    return strncmp(p->finish_text, text, strlen(text)) == 0;
}

const sim_observer sim_bad_observer = {.bad_told = on_told, .step_applies = on_applies};
