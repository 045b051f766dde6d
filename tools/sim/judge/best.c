/* Promise: every peer has the record of the best evaluated state that follows from the values so far; its
 * checkpoint is deleted by no peer that knows it to be complete; and when the job is done, the disks have all
 * of it. */
#include "tools/sim/judge/judge.h"

#include <inttypes.h>
#include <string.h>

static sim_best_keeper *keeper_of(sim_judges *j, const sim_peer *p) {
    return &j->best.of[p->number];
}

static gw_best best_of(const sim_peer *p) {
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    return status.best;
}

/* Checks the record of a peer that begins a step, and so holds the state before it. */
static void on_begun(void *context, sim_peer *p) {
    sim_judges *j = context;
    uint64_t step = p->m.accumulator.step;
    gw_peer_status status;
    gw_peer_status_get(p->brain, &status);
    if (!status.has_state || status.step != step || step > sim_last_step(j->c->options)) return;
    const gw_best right = sim_best_after(j->c->options, step), *its = &status.best;
    bool same = its->any == right.any && gw_best_word(its) == gw_best_word(&right) &&
                its->step == right.step && its->waited == right.waited;
    if (!same)
        sim_violation(j->c,
                      "peer %u begins step %" PRIu64 " with the best value %g of step %" PRIu64
                      " and %u evaluations since, not %g of step %" PRIu64 " and %u",
                      p->number, step, its->value, its->step, its->waited, right.value, right.step,
                      right.waited);
    if (its->kept.step > its->step)
        sim_violation(j->c,
                      "peer %u keeps the state of step %" PRIu64 " as the best, which is of step %" PRIu64,
                      p->number, its->kept.step, its->step);
}

static void know(sim_judges *j, const sim_peer *p, uint64_t step, const gw_hash *root) {
    if (step == 0 || sim_best_after(j->c->options, step).step != step) return;
    *keeper_of(j, p) = (sim_best_keeper){.step = step, .root = *root};
}

static void on_told(void *context, sim_peer *p, uint64_t step, const gw_hash *root) {
    know(context, p, step, root);
}

static void on_loaded(void *context, sim_peer *p, const sim_load_request *load) {
    if (load->kind == GW_LOAD_MANIFEST) know(context, p, load->step, &load->root);
}

static void forget(void *context, sim_peer *p) {
    *keeper_of(context, p) = (sim_best_keeper){.step = 0};
}

static uint64_t chunks_here(sim_peer *p, const sim_best_keeper *best) {
    const sim_saved *saved = sim_disk_saved_as(&p->disk, &best->root, best->step);
    return saved != NULL && saved->manifest ? saved->chunks.words[0] : 0;
}

static void on_retain(void *context, sim_peer *p) {
    sim_best_keeper *own = keeper_of(context, p);
    own->had = own->step > 0 ? chunks_here(p, own) : 0;
}

/* A peer may delete the checkpoint if its state is beyond a better one, or, with float sums or after a
 * verdict, of another lineage. */
static void on_retained(void *context, sim_peer *p) {
    sim_judges *j = context;
    const sim_best_keeper *own = keeper_of(j, p);
    bool lineages = j->c->options->fast || sim_found_wrong(j, p) > 0;
    if (own->step == 0 || own->had == 0 || lineages || !p->m.has_state || p->m.step < own->step) return;
    if (sim_best_after(j->c->options, p->m.step).step != own->step || chunks_here(p, own) == own->had) return;
    sim_violation(j->c, "peer %u has deleted some of the best state, of step %" PRIu64, p->number, own->step);
}

/* Checks that the disks have the state that this peer, which is done, says is kept as the best. */
static void on_finished(void *context, sim_peer *p) {
    sim_judges *j = context;
    const gw_sim_options *o = j->c->options;
    bool disks_lose = o->wipe_permille != 0 || o->damage_ms != 0 || o->unsynced_permille != 0 ||
                      o->spoil_permille != 0 || o->flip_ms != 0 || o->wrong_permille != 0 ||
                      o->change_ms != 0;
    if (p->finish != GW_FINISH_DONE || disks_lose || o->fast) return;
    const gw_best best = best_of(p);
    if (best.kept.step == 0) return;
    uint64_t there = 0;
    for (uint32_t i = 0; i < j->c->count; i++) {
        const sim_best_keeper one = {.step = best.kept.step, .root = best.kept.root};
        there |= chunks_here(&j->c->peers[i], &one);
    }
    j->c->result->best_kept++;
    if (there != (UINT64_C(1) << SIM_CHUNKS) - 1)
        sim_violation(
            j->c, "peer %u is done and names the best state, of step %" PRIu64 ", of which disks lack chunks",
            p->number, best.kept.step);
}

const sim_observer sim_best_observer = {.step_begun = on_begun,
                                        .checkpoint_told = on_told,
                                        .state_loaded = on_loaded,
                                        .life_begins = forget,
                                        .process_ends = forget,
                                        .retain_begins = on_retain,
                                        .retain_ends = on_retained,
                                        .finished = on_finished};
