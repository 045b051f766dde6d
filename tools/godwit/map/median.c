#include "tools/godwit/map/median.h"

/* The step of a time: its highest bit, and the six bits behind it. */
static uint32_t step_of(uint64_t time) {
    uint32_t power = 63 - (uint32_t)__builtin_clzll(time | 1);
    uint64_t part = power >= 6 ? time >> (power - 6) : time << (6 - power);
    return power * GW_MAP_MEDIAN_STEPS + (uint32_t)(part & (GW_MAP_MEDIAN_STEPS - 1));
}

/* The middle of a step. */
static uint64_t time_of(uint32_t step) {
    uint32_t power = step / GW_MAP_MEDIAN_STEPS;
    double part = (double)(step % GW_MAP_MEDIAN_STEPS) + (power > 6 ? 0.5 : 0);
    return (uint64_t)((double)(1ull << power) * (1 + part / GW_MAP_MEDIAN_STEPS));
}

void gw_map_median_note(gw_map_median *m, uint64_t time) {
    m->counts[step_of(time)]++;
    m->count++;
}

uint64_t gw_map_median_of(const gw_map_median *m) {
    uint64_t before = 0;
    for (uint32_t step = 0; m->count > 0 && step < GW_MAP_MEDIAN_POWERS * GW_MAP_MEDIAN_STEPS; step++) {
        before += m->counts[step];
        if (2 * before >= m->count) return time_of(step);
    }
    return 0;
}
