/* Promise: with float sums, all members of a view make the same state of a step. No undisturbed run tells
 * what that state is, so the judge records each state that a view makes, with its parent, and compares the
 * other members' with it. */
#include "tools/sim/judge/judge.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

#include <inttypes.h>
#include <stdlib.h>

/* Returns the place of a state in the index: where it is named, or else the empty place where it belongs. */
static uint32_t *place_of(const sim_lineage *l, uint64_t state) {
    uint32_t mask = 2 * l->made_capacity - 1;
    for (uint32_t at = (uint32_t)gw_mix64(state) & mask;; at = (at + 1) & mask)
        if (l->index[at] == 0 || l->made[l->index[at] - 1].state == state) return &l->index[at];
}

/* Names a state in the index, unless an earlier view has made the same one. */
static void add_to_index(sim_lineage *l, uint32_t which) {
    uint32_t *place = place_of(l, l->made[which].state);
    if (*place == 0) *place = which + 1;
}

static void grow(sim_lineage *l) {
    l->made_capacity = l->made_capacity == 0 ? 64 : 2 * l->made_capacity;
    l->made = realloc(l->made, l->made_capacity * sizeof *l->made);
    free(l->index);
    l->index = calloc(2 * (size_t)l->made_capacity, sizeof *l->index);
    GW_ASSERT_MEMORY(l->made != NULL && l->index != NULL);
    for (uint32_t i = 0; i < l->made_count; i++) add_to_index(l, i);
}

static void on_applied(void *context, sim_peer *p, uint64_t parent) {
    sim_judges *j = context;
    sim_lineage *l = &j->lineage;
    const sim_memory *m = &p->m;
    if (!j->c->options->fast || m->step > sim_last_step(j->c->options)) return;
    for (uint32_t i = l->made_count; i-- > 0;) { /* most often it is one of the last */
        if (l->made[i].view != m->sum_name || l->made[i].step != m->step) continue;
        if (l->made[i].state != m->state)
            sim_violation(j->c, "peer %u holds another state of step %" PRIu64 " than others of its view",
                          p->number, m->step);
        return;
    }
    if (l->made_count == l->made_capacity) grow(l);
    l->made[l->made_count] = (sim_made){m->sum_name, m->step, m->state, parent};
    add_to_index(l, l->made_count++);
}

const sim_made *sim_maker(const sim_judges *j, uint64_t state) {
    const sim_lineage *l = &j->lineage;
    if (l->made_count == 0) return NULL;
    uint32_t place = *place_of(l, state);
    return place == 0 ? NULL : &l->made[place - 1];
}

const sim_made *sim_made_with(const sim_judges *j, uint64_t step, uint64_t fingerprint) {
    const sim_lineage *l = &j->lineage;
    for (uint32_t i = 0; i < l->made_count; i++)
        if (l->made[i].step == step && sim_fingerprint(l->made[i].state) == fingerprint) return &l->made[i];
    return NULL;
}

bool sim_descends(const sim_judges *j, uint64_t state, uint64_t from) {
    while (state != from) {
        const sim_made *made = sim_maker(j, state);
        if (made == NULL) return false;
        state = made->parent;
    }
    return true;
}

uint64_t sim_state_of(const sim_judges *j, const sim_load_request *load) {
    const sim_lineage *l = &j->lineage;
    for (uint32_t i = 0; i < l->made_count; i++) {
        const sim_made *made = &l->made[i];
        if (made->step != load->step) continue;
        if (load->kind == GW_LOAD_PEERS && sim_fingerprint(made->state) == load->fingerprint)
            return made->state;
        gw_hash root = sim_root(made->step, made->state);
        if (load->kind == GW_LOAD_MANIFEST && gw_hash_equal(&root, &load->root)) return made->state;
    }
    return j->c->states[0];
}

const sim_observer sim_lineage_observer = {.step_applied = on_applied};
