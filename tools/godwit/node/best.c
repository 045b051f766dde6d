#include "tools/godwit/node/best.h"

#include "core/base/log.h"
#include "tools/godwit/text/suggest.h"

#include <stdio.h>
#include <string.h>

static bool check_plan(const gw_plan *plan, const char *job, gw_err *err) {
    for (uint32_t i = 0; i < plan->evaluation_count; i++) {
        const gw_evaluation *one = &plan->evaluations[i];
        size_t plain = one->name == NULL ? 0 : strspn(one->name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
        bool named = plain > 0 && plain < GW_REPORT_BYTES && one->name[plain] == '\0';
        if (!named || one->scalar >= GW_MAX_SCALARS || one->better > GW_MORE_IS_BETTER)
            return gw_fail(
                err, GW_E_INVALID,
                "job %s: its evaluation %u needs a name of at most %d of [a-z0-9._-], a scalar below %d "
                "and a direction",
                job, i, GW_REPORT_BYTES - 1, GW_MAX_SCALARS);
    }
    return true;
}

static bool has_option(const gw_job_type *job, const char *name) {
    for (const gw_option *option = job->options; option != NULL && option->name != NULL; option++)
        if (strcmp(option->name, name) == 0) return true;
    return false;
}

/* Fails with the names of the reports that there are. */
static bool refuse(const gw_run_options *options, const gw_plan *plan, gw_err *err) {
    gw_suggestion suggestion = {.word = options->keep_best};
    char names[200] = "", meant[64] = "";
    size_t used = 0;
    if (plan->evaluation_count == 0)
        return gw_fail(
            err, GW_E_USAGE,
            "--keep-best: the job %s makes no evaluation with these options, by which states could be "
            "compared%s",
            options->job->name, has_option(options->job, "val") ? ": give data for it, by --val" : "");
    for (uint32_t i = 0; i < plan->evaluation_count; i++) {
        gw_suggest(&suggestion, plan->evaluations[i].name);
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                     plan->evaluations[i].name);
    }
    if (suggestion.name != NULL) snprintf(meant, sizeof meant, "; did you mean '%s'?", suggestion.name);
    return gw_fail(err, GW_E_USAGE, "--keep-best: an evaluation of %s reports no '%s', but %s%s",
                   options->job->name, options->keep_best, names, meant);
}

static const gw_evaluation *evaluation_named(const gw_plan *plan, const char *name) {
    for (uint32_t i = 0; i < plan->evaluation_count; i++)
        if (strcmp(plan->evaluations[i].name, name) == 0) return &plan->evaluations[i];
    return NULL;
}

static void set_rule(gw_node_best *best, gw_direction better) {
    best->rule.on = true;
    best->rule.more = better == GW_MORE_IS_BETTER;
    snprintf(best->by, sizeof best->by, "%s:%s", best->evaluation->name, best->rule.more ? "max" : "min");
}

bool gw_node_best_choose(const gw_run_options *options, const gw_plan *plan, gw_node_best *best,
                         gw_err *err) {
    *best = (gw_node_best){.rule.patience = options->patience};
    if (!check_plan(plan, options->job->name, err)) return false;
    if (options->keep_best[0] == '\0') return true;
    best->evaluation = evaluation_named(plan, options->keep_best);
    if (best->evaluation == NULL) return refuse(options, plan, err);
    gw_direction better = options->keep_best_direction;
    if (better == 0) better = best->evaluation->better;
    if (better == 0)
        return gw_fail(
            err, GW_E_USAGE,
            "--keep-best: the job %s does not say whether more or less of %s is better: give %s:min "
            "or %s:max",
            options->job->name, options->keep_best, options->keep_best, options->keep_best);
    set_rule(best, better);
    return true;
}

void gw_node_best_inherit(const gw_run_options *options, const gw_plan *plan, const char *by,
                          gw_node_best *best) {
    char name[GW_BEST_BY_BYTES];
    snprintf(name, sizeof name, "%s", by);
    char *direction = strchr(name, ':');
    if (options->keep_best[0] != '\0' || options->keep_best_off || direction == NULL) return;
    *direction++ = '\0';
    best->evaluation = evaluation_named(plan, name);
    if (best->evaluation == NULL) return;
    set_rule(best, strcmp(direction, "max") == 0 ? GW_MORE_IS_BETTER : GW_LESS_IS_BETTER);
    gw_log(
        GW_INFO, "node",
        "the best state by %s is kept as before, although --keep-best is not given: give --keep-best %s to "
        "every peer, or off to let it go",
        best->by, best->by);
}
