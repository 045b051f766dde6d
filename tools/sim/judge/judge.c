#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"

#include <stdlib.h>

static void *zeros(size_t count, size_t size) {
    void *all = calloc(count, size);
    GW_ASSERT_MEMORY(all != NULL);
    return all;
}

sim_judges *sim_judges_open(sim_cluster *c) {
    static const sim_observer *const observers[] = {
        &sim_lineage_observer, &sim_changes_observer,         &sim_corruption_observer,  &sim_sums_observer,
        &sim_shown_observer,   &sim_claimed_lineage_observer, &sim_kept_observer,        &sim_best_observer,
        &sim_bad_observer,     &sim_names_observer,           &sim_told_deaths_observer, &sim_views_observer,
        &sim_poison_observer,  &sim_deals_observer,           &sim_ends_observer,        &sim_final_observer};
    sim_judges *j = zeros(1, sizeof *j);
    size_t steps = c->options->steps + 1u;
    j->c = c;
    j->corruption.suspects = zeros(c->count, sizeof *j->corruption.suspects);
    j->sums.named = zeros((size_t)c->count * c->count, sizeof *j->sums.named);
    j->shown.state = zeros(steps, sizeof *j->shown.state);
    j->shown.effects = zeros(steps, sizeof *j->shown.effects);
    j->shown.holders = zeros(c->count, sizeof *j->shown.holders);
    j->kept.keepers = zeros(c->count, sizeof *j->kept.keepers);
    j->best.of = zeros(c->count, sizeof *j->best.of);
    j->views.of = zeros(c->count, sizeof *j->views.of);
    j->ends.of = zeros(c->count, sizeof *j->ends.of);
    for (size_t i = 0; i < sizeof observers / sizeof observers[0]; i++) sim_observe(c, observers[i], j);
    return j;
}

void sim_judges_close(sim_judges *j) {
    for (uint32_t i = 0; i < j->poison.count; i++) gw_set_free(&j->poison.deaths[i].begun);
    free(j->lineage.made);
    free(j->lineage.index);
    free(j->changes.list);
    free(j->corruption.errors);
    free(j->corruption.suspects);
    free(j->sums.committed);
    free(j->sums.named);
    free(j->shown.state);
    free(j->shown.effects);
    free(j->shown.held);
    free(j->shown.holders);
    free(j->kept.ends);
    free(j->kept.keepers);
    free(j->best.of);
    free(j->views.of);
    free(j->poison.deaths);
    free(j->poison.processes);
    free(j->ends.of);
    free(j);
}
