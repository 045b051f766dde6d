#include "tools/sim/world/hazards.h"

#include "tools/sim/world/cluster.h"

static bool gives_up(sim_cluster *c, sim_peer *p, uint32_t worker) {
    (void)c, (void)p, (void)worker;
    return false;
}

static bool loses_worker(sim_cluster *c, sim_peer *p, uint32_t worker, gw_worker_loss *kind) {
    (void)c, (void)p, (void)worker, (void)kind;
    return false;
}

static bool drops_worker(sim_cluster *c, sim_peer *p) {
    (void)c, (void)p;
    return false;
}

static bool loses_payload(sim_cluster *c, sim_peer *p, uint32_t shard) {
    (void)c, (void)p, (void)shard;
    return false;
}

static uint64_t computes(sim_cluster *c, const sim_peer *p, uint32_t shard) {
    (void)c;
    return sim_contribution(p->m.state, p->m.step, shard);
}

static bool fails_probe(sim_cluster *c, sim_peer *p, uint64_t step) {
    (void)c, (void)p, (void)step;
    return false;
}

static bool refuses(sim_cluster *c, sim_peer *p, gw_sim_fault kind) {
    (void)c, (void)p, (void)kind;
    return false;
}

static bool loses_answer(sim_cluster *c, uint32_t thief, uint32_t victim) {
    (void)c, (void)thief, (void)victim;
    return false;
}

static void touches_part(sim_cluster *c, sim_peer *p) {
    (void)c, (void)p;
}

static bool damages_sum(sim_cluster *c, sim_peer *p, uint64_t step, sim_sum *sum, bool *damaged) {
    (void)c, (void)p, (void)step, (void)sum, (void)damaged;
    return false;
}

static bool would_change(sim_cluster *c, uint32_t from, uint32_t to) {
    (void)c, (void)from, (void)to;
    return false;
}

static uint32_t changes(sim_cluster *c, uint32_t from, uint32_t to) {
    (void)c, (void)from, (void)to;
    return 0;
}

const sim_hazards sim_no_hazards = {.gives_up = gives_up,
                                    .loses_payload = loses_payload,
                                    .computes = computes,
                                    .loses_worker = loses_worker,
                                    .drops_worker = drops_worker,
                                    .dies_of = loses_payload,
                                    .fails_probe = fails_probe,
                                    .refuses = refuses,
                                    .loses_answer = loses_answer,
                                    .touches_part = touches_part,
                                    .damages_sum = damages_sum,
                                    .would_change = would_change,
                                    .changes = changes};
