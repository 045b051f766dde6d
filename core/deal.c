#include "core/deal.h"

#include "core/check.h"

/* What a member of unknown speed is taken for: the mean of the others. */
static uint64_t mean_speed(const uint64_t *speeds, uint32_t count) {
    unsigned __int128 total = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += speeds[i];
        known += speeds[i] != 0;
    }
    return known == 0 ? 1 : (uint64_t)(total / known);
}

void gw_deal_cut(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *cuts) {
    GW_CHECK(count > 0);
    uint64_t unknown = mean_speed(speeds, count);
    unsigned __int128 total = 0, before = 0;
    for (uint32_t i = 0; i < count; i++) total += speeds[i] == 0 ? unknown : speeds[i];
    cuts[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        before += speeds[i] == 0 ? unknown : speeds[i];
        /* Rounded to nearest: truncation would give every fraction to the last member. */
        cuts[i + 1] = (uint32_t)((before * positions + total / 2) / total);
        GW_CHECK(cuts[i + 1] >= cuts[i]);
    }
    GW_CHECK(cuts[count] == positions);
}
