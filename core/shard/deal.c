#include "core/shard/deal.h"

#include "core/base/assert.h"
#include "core/record/view.h"

typedef unsigned __int128 wide;

/* What a member of unknown speed or cost is taken to have: the mean of the known ones. */
static uint64_t mean_of_known(const uint64_t *values, uint32_t count) {
    wide total = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += values[i];
        known += values[i] != 0;
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

/* Divides the positions among `count` members by their speeds, all of which are known. */
static void share_out(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *shares) {
    uint32_t left = positions;
    wide total = 0;
    for (uint32_t i = 0; i < count; i++) total += speeds[i];
    for (uint32_t i = 0; i < count; i++) {
        shares[i] = (uint32_t)((wide)positions * speeds[i] / total);
        left -= shares[i];
    }
    GW_ASSERT(left < count); /* each lost less than one by truncation */
    for (; left > 0; left--) shares[soonest(shares, speeds, count)]++;
}

static void replace_unknown(const uint64_t *values, uint32_t count, uint64_t known[GW_MAX_MEMBERS]) {
    uint64_t unknown = mean_of_known(values, count);
    for (uint32_t i = 0; i < count; i++) known[i] = values[i] == 0 ? unknown : values[i];
}

static void cut(const uint32_t *shares, uint32_t positions, uint32_t count, uint32_t *cuts) {
    cuts[0] = 0;
    for (uint32_t i = 0; i < count; i++) cuts[i + 1] = cuts[i] + shares[i];
    GW_ASSERT(cuts[count] == positions);
}

void gw_deal_cut(uint32_t positions, const uint64_t *speeds, uint32_t count, uint32_t *cuts) {
    GW_ASSERT(count > 0 && count <= GW_MAX_MEMBERS);
    uint64_t known[GW_MAX_MEMBERS];
    uint32_t shares[GW_MAX_MEMBERS];
    replace_unknown(speeds, count, known);
    share_out(positions, known, count, shares);
    cut(shares, positions, count, cuts);
}

/* The deal for the least energy. */

/* The class of a cost: its power of two, in eighths. Costs of one class count as equal. */
static uint32_t class_of(uint64_t joules) {
    uint32_t power = 63 - (uint32_t)__builtin_clzll(joules | 1);
    uint64_t eighths = power >= 3 ? joules >> (power - 3) : joules << (3 - power);
    return power * 8 + (uint32_t)(eighths & 7);
}

bool gw_deal_is_dearer(uint64_t joules, uint64_t others) {
    return joules != 0 && others != 0 && class_of(joules) > class_of(others);
}

/* The member that is done last with these shares; the lowest of equals. */
static uint32_t latest(const uint32_t *shares, const uint64_t *speeds, uint32_t count) {
    uint32_t last = 0;
    for (uint32_t i = 1; i < count; i++)
        if ((wide)shares[i] * speeds[last] > (wide)shares[last] * speeds[i]) last = i;
    return last;
}

/* Gives the members of a class as many of the positions as they can do, and returns how many are left. If
 * they can do more than there are, they share by their speeds. */
static uint32_t give_class(uint32_t class, const uint32_t *classes, const uint64_t *speeds,
                           const uint32_t *most, uint32_t count, uint32_t left, uint32_t *shares) {
    uint64_t speeds_of[GW_MAX_MEMBERS], can = 0;
    uint32_t members[GW_MAX_MEMBERS], shares_of[GW_MAX_MEMBERS], size = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (classes[i] != class) continue;
        members[size] = i;
        speeds_of[size++] = speeds[i];
        can += most[i];
    }
    if (left < can) share_out(left, speeds_of, size, shares_of);
    for (uint32_t k = 0; k < size; k++) shares[members[k]] = left < can ? shares_of[k] : most[members[k]];
    return left < can ? 0 : left - (uint32_t)can;
}

uint64_t gw_deal_cut_cheaply(uint32_t positions, const uint64_t *speeds, const uint64_t *joules,
                             uint32_t count, uint32_t slack, uint32_t *cuts) {
    GW_ASSERT(count > 0 && count <= GW_MAX_MEMBERS);
    uint64_t known[GW_MAX_MEMBERS], costs[GW_MAX_MEMBERS];
    uint32_t shares[GW_MAX_MEMBERS], most[GW_MAX_MEMBERS], classes[GW_MAX_MEMBERS];
    bool any = false;
    for (uint32_t i = 0; i < count; i++) any |= joules[i] != 0;
    gw_deal_cut(positions, speeds, count, cuts);
    if (!any || positions == 0) return 0;
    replace_unknown(speeds, count, known);
    replace_unknown(joules, count, costs);
    for (uint32_t i = 0; i < count; i++) shares[i] = cuts[i + 1] - cuts[i];
    uint32_t last = latest(shares, known, count);
    wide time = (wide)shares[last] * (1000 + slack); /* in 1000 / known[last] */
    for (uint32_t i = 0; i < count; i++) {
        wide one = (wide)known[last] * 1000, can = (time * known[i] + one / 8) / one;
        most[i] = can < positions ? (uint32_t)can : positions;
        classes[i] = class_of(costs[i]);
    }
    uint32_t left = positions;
    for (uint32_t done = 0; done < count;) { /* members of cheaper classes */
        uint32_t next = UINT32_MAX, size = 0;
        for (uint32_t i = 0; i < count; i++)
            if (classes[i] != UINT32_MAX && classes[i] < next) next = classes[i];
        left = give_class(next, classes, known, most, count, left, shares);
        for (uint32_t i = 0; i < count; i++) {
            if (classes[i] != next) continue;
            classes[i] = UINT32_MAX;
            size++;
        }
        done += size;
    }
    cut(shares, positions, count, cuts);
    wide due_ns = time * 1000000000 / known[last];
    return due_ns < UINT64_MAX / 4 ? (uint64_t)due_ns + 1 : UINT64_MAX / 4;
}
