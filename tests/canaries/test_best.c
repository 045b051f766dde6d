/* The best evaluated state: what is known of it, and its checkpoint. */
#include "tests/canaries/canary.h"

#include "core/brain/state.h" /* which life it is */

#include <criterion/criterion.h>
#include <string.h>

static gw_sim_options evaluating(void) {
    gw_sim_options options = canary_quiet();
    options.evaluate_every = 3;
    options.fault_ms = 9000;
    return options;
}

/* One peer hears another value than the others do. */
static void mishear(gw_peer *peer, gw_event *event, gw_actions *actions) {
    (void)peer, (void)actions;
    if (event->kind == GW_EV_APPLIED && event->applied.evaluated && ++canary_seen == 20)
        event->applied.value = 1e6;
    if (event->kind == GW_EV_APPLIED && event->applied.evaluated && canary_seen == 21)
        event->applied.value = -1e6;
}

static void drop_best(const gw_peer *peer, gw_action *retain) {
    gw_hash *roots = (gw_hash *)(uintptr_t)retain->retain.roots;
    gw_peer_status status;
    uint32_t kept = 0;
    gw_peer_status_get(peer, &status);
    for (uint32_t i = 0; i < retain->retain.count; i++)
        if (!gw_hash_equal(&roots[i], &status.best.kept.root)) roots[kept++] = roots[i];
    retain->retain.count = kept;
}

static void keep_no_best(gw_peer *peer, gw_actions *actions, uint32_t at) {
    if (actions->list[at].kind == GW_ACT_RETAIN) drop_best(peer, &actions->list[at]);
}

/* A life that has not heard that the checkpoint is complete has only been told which one it is. */
static void keep_none_of_an_earlier_life(gw_peer *peer, gw_actions *actions, uint32_t at) {
    if (actions->list[at].kind == GW_ACT_RETAIN && peer->config.incarnation.boot > 1)
        drop_best(peer, &actions->list[at]);
}

Test(canary_best, a_value_is_not_that_of_the_evaluation) {
    gw_sim_options options = evaluating();
    canary_find_believed(&options, "with the best value", mishear, NULL);
}

Test(canary_best, the_best_checkpoint_is_deleted) {
    gw_sim_options options = evaluating();
    options.keep = 1;
    canary_find(&options, "has deleted some of the best state", keep_no_best);
}

Test(canary_best, the_best_checkpoint_is_deleted_after_all_peers_have_died) {
    gw_sim_options options = evaluating();
    options.keep = 1;
    options.power_ms = 2500;
    options.checkpoint_steps = 2;
    options.evaluate_every = 40;
    canary_find(&options, "is done and names the best state", keep_none_of_an_earlier_life);
}
