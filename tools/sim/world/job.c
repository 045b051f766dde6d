#include "tools/sim/world/job.h"

#include "core/base/assert.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

uint64_t sim_contribution(uint64_t state, uint64_t step, uint32_t shard) {
    return gw_mix64(gw_mix64(state ^ gw_mix64(step)) + shard);
}

uint64_t sim_step_sum(const gw_sim_options *options, uint64_t state, uint64_t step) {
    uint64_t sum = 0;
    for (uint32_t s = 0; s < sim_shards(options, step); s++) sum += sim_contribution(state, step, s);
    return sum;
}

uint64_t sim_next_state(uint64_t state, uint64_t sum) {
    return gw_mix64(state) + gw_mix64(sum ^ 0x5eed);
}

uint64_t sim_state_after(const gw_sim_options *options, uint64_t state, uint64_t step) {
    gw_bad first;
    bool bad = sim_bad_of(options, step, &first) > 0;
    return sim_next_state(state, bad ? SIM_SKIPPED : sim_step_sum(options, state, step));
}

uint64_t sim_sum_of_view(const gw_sim_options *options, uint64_t sum, uint64_t view) {
    return options->fast ? sum ^ gw_mix64(view) : sum;
}

uint32_t sim_shards(const void *context, uint64_t step) {
    const gw_sim_options *options = context;
    return options->shards + (uint32_t)(step % 3);
}

uint64_t sim_fingerprint(uint64_t state) {
    return gw_mix64(state ^ 0xf1f1) | 1;
}

gw_hash sim_chunk_hash(uint64_t state, uint32_t chunk) {
    gw_hash hash;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = gw_mix64(state ^ gw_mix64(chunk * 4 + i));
        memcpy(hash.bytes + 8 * i, &word, 8);
    }
    return hash;
}

gw_hash sim_root_of(uint64_t step, const gw_hash *hashes, uint32_t count) {
    uint8_t bytes[8 + SIM_CHUNKS * sizeof(gw_hash)];
    gw_hash root;
    GW_ASSERT(count <= SIM_CHUNKS);
    memcpy(bytes, &step, 8);
    memcpy(bytes + 8, hashes, count * sizeof *hashes);
    gw_blake2b(bytes, 8 + count * sizeof *hashes, root.bytes, sizeof root.bytes);
    return root;
}

gw_hash sim_root(uint64_t step, uint64_t state) {
    gw_hash hashes[SIM_CHUNKS];
    for (uint32_t i = 0; i < SIM_CHUNKS; i++) hashes[i] = sim_chunk_hash(state, i);
    return sim_root_of(step, hashes, SIM_CHUNKS);
}

bool sim_evaluates(const gw_sim_options *options, uint64_t step, double *value) {
    enum { VALUES = 40, NO_VALUE_EVERY = 16 };
    if (options->evaluate_every == 0 || (step + 1) % options->evaluate_every != 0) return false;
    uint64_t lot = sim_lot(options, gw_mix64(step) ^ 0xe7a1);
    gw_bad first;
    bool none = lot >> 32 & 1 && lot % NO_VALUE_EVERY == 0;
    *value = none || sim_bad_of(options, step, &first) > 0 ? (double)NAN : (double)(lot % VALUES) - 10;
    return true;
}

gw_best_rule sim_best_rule(const gw_sim_options *options) {
    return (gw_best_rule){.on = options->evaluate_every != 0,
                          .more = sim_lot(options, 0xd14ec) % 2 == 0,
                          .patience = options->patience};
}

gw_best sim_best_after(const gw_sim_options *options, uint64_t steps) {
    const gw_best_rule rule = sim_best_rule(options);
    gw_best best = {0};
    double value;
    for (uint64_t step = options->first_step; step < steps && rule.on; step++)
        if (sim_evaluates(options, step, &value)) gw_best_take(&best, &rule, value, step + 1);
    return best;
}

uint64_t sim_last_step(const gw_sim_options *options) {
    const gw_best_rule rule = sim_best_rule(options);
    uint64_t own = sim_own_end(options);
    gw_best best = {0};
    double value;
    for (uint64_t step = options->first_step; step < own && rule.on && rule.patience > 0; step++) {
        if (!sim_evaluates(options, step, &value)) continue;
        gw_best_take(&best, &rule, value, step + 1);
        if (gw_best_is_over(&best, &rule)) return step + 1;
    }
    return own;
}

uint64_t sim_own_end(const gw_sim_options *options) {
    return options->end_step != 0 && options->end_step < options->steps ? options->end_step : options->steps;
}

uint64_t sim_bad_among(const gw_sim_options *o, uint64_t step, uint32_t shards, const uint8_t *times,
                       gw_bad *first) {
    enum {
        EVERY = 3,
        FIRST = 1,
        TENSOR = 2
    }; /* which shards have bad elements; a step has four shards or more */
    uint64_t count = 0;
    *first = (gw_bad){.present = false};
    if (o->bad_step == 0 || step != o->bad_step) return 0;
    for (uint32_t shard = shards; shard-- > 0;) {
        if (shard % EVERY != FIRST || (times != NULL && times[shard] == 0)) continue;
        *first = (gw_bad){
            .present = true, .shard = shard, .tensor = TENSOR, .index = (UINT64_C(1) << 40) + 1000 - shard};
        count += shard + 1;
    }
    return count;
}

uint64_t sim_bad_of(const gw_sim_options *o, uint64_t step, gw_bad *first) {
    return sim_bad_among(o, step, sim_shards(o, step), NULL, first);
}

uint32_t sim_faulty_machine(const gw_sim_options *options) {
    return options->wrong_permille > 0 ? (uint32_t)(options->seed % options->peers) : UINT32_MAX;
}

bool sim_sums_are_small(const gw_sim_options *options) {
    return sim_lot(options, 0x5a11) % 2 == 0;
}

uint64_t sim_lot(const gw_sim_options *options, uint64_t of) {
    return gw_mix64(options->seed ^ gw_mix64(of));
}

uint32_t sim_replicas(const gw_sim_options *options) {
    return options->replicas != 0 ? options->replicas : 2;
}

uint32_t sim_keep(const gw_sim_options *options) {
    uint32_t keep = options->keep != 0 ? options->keep : 2;
    GW_ASSERT(keep <= GW_SIM_KEEP);
    return keep;
}

uint64_t sim_resume_ns(const gw_sim_options *options) {
    if (options->resume_ms != 0) return options->resume_ms * SIM_MS;
    return (options->fast ? 60000 : 10000) * SIM_MS;
}

uint64_t sim_grace_ns(const gw_sim_options *options) {
    static const uint64_t graces_ms[] = {0, 20, 500, 10000};
    return graces_ms[sim_lot(options, 0x96ace) % (sizeof graces_ms / sizeof *graces_ms)] * SIM_MS;
}

/* Peers that all leave wait longer in some runs than a peer that leaves others behind. */
uint64_t sim_save_timeout_ns(const gw_sim_options *options) {
    bool patient = options->leave_ms != 0 && sim_lot(options, 0x1eaf) % 2 == 0;
    return (patient ? 40000 : 2000) * SIM_MS;
}
