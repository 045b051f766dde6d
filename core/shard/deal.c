#include "core/shard/deal.h"

#include "core/base/assert.h"
#include "core/record/view.h"

typedef unsigned __int128 wide;

/* The speed that a member of unknown speed is taken to have: the mean of the known ones. */
static uint64_t mean_speed(const uint64_t *speeds, uint32_t count) {
    wide total = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += speeds[i];
        known += speeds[i] != 0;
    }
    return known == 0 ? 1 : (uint64_t)(total / known);
}

/* The member that would be done first if it had one position more; the lowest of equals. */
static uint32_t soonest(const uint32_t *shares, const uint64_t *speeds, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if ((wide)(shares[i] + 1) * speeds[best] < (wide)(shares[best] + 1) * speeds[i]) best = i;
    return best;
}

void gw_deal_cut(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *cuts) {
    GW_ASSERT(count > 0 && count <= GW_MAX_MEMBERS);
    uint64_t unknown = mean_speed(speeds, count), known[GW_MAX_MEMBERS];
    uint32_t shares[GW_MAX_MEMBERS], left = positions;
    wide total = 0;
    for (uint32_t i = 0; i < count; i++) total += known[i] = speeds[i] == 0 ? unknown : speeds[i];
    for (uint32_t i = 0; i < count; i++) {
        shares[i] = (uint32_t)((wide)positions * known[i] / total);
        left -= shares[i];
    }
    GW_ASSERT(left < count); /* each lost less than one by truncation */
    for (; left > 0; left--) shares[soonest(shares, known, count)]++;
    cuts[0] = 0;
    for (uint32_t i = 0; i < count; i++) cuts[i + 1] = cuts[i] + shares[i];
    GW_ASSERT(cuts[count] == positions);
}
