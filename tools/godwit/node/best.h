/* What --keep-best compares: the report of the job's evaluations that the option names, and the direction. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_BEST_H
#define GODWIT_TOOLS_GODWIT_NODE_BEST_H

#include "core/record/best.h"
#include "tools/godwit/options/options.h"

typedef struct gw_node_best {
    const gw_evaluation *evaluation; /* of the job's plan; NULL = --keep-best is not given */
    gw_best_rule rule;
    char by[GW_BEST_BY_BYTES]; /* "val_loss:min"; "" = not given */
} gw_node_best;

/* Finds the report among those of the plan. Fails with GW_E_USAGE where there is no such report, which names
 * those that there are, where neither the option nor the job says which values are better, and with
 * GW_E_INVALID where the job's plan cannot be. Any thread. */
bool gw_node_best_choose(const gw_run_options *options, const gw_plan *plan, gw_node_best *best, gw_err *err);

/* Where --keep-best is not given: has the job keep its best state as it did before, by what its newest manifest,
 * or that of the job from which it goes on, compares ("val_loss:min"; "": nothing). Does nothing where the plan
 * has no such evaluation. Any thread. */
void gw_node_best_inherit(const gw_run_options *options, const gw_plan *plan, const char *by,
                          gw_node_best *best);

#endif
