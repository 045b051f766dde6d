#include "core/shard/holders.h"

#include "core/base/assert.h"
#include "core/record/view.h"
#include "core/state/placement.h"

#include <stdlib.h>
#include <string.h>

/* The next holder of `shard`: the highest score among members that do not hold it yet and have room, or, when
 * only holders have room, among all that do not hold it. */
static uint32_t choose(const gw_holders *h, uint32_t shard, uint32_t held, const gw_peer_id *members,
                       uint32_t count, const uint32_t *room) {
    uint32_t best = UINT32_MAX;
    bool best_room = false;
    uint64_t best_score = 0;
    for (uint32_t m = 0; m < count; m++) {
        if (memchr(h->ranks + (size_t)shard * h->copies, (int)m, held) != NULL) continue;
        uint64_t score = gw_placement_score(shard, &members[m]);
        bool better = (room[m] > 0) != best_room ? room[m] > 0 : score > best_score;
        if (best != UINT32_MAX && !better) continue;
        best = m;
        best_room = room[m] > 0;
        best_score = score;
    }
    GW_ASSERT(best != UINT32_MAX);
    return best;
}

gw_holders gw_holders_of(uint32_t shards, uint32_t copies, const gw_peer_id *members, uint32_t count) {
    GW_ASSERT(count > 0 && count <= GW_MAX_MEMBERS && copies > 0);
    gw_holders h = {.shards = shards, .copies = copies < count ? copies : count};
    if (shards == 0) return h;
    h.ranks = calloc(shards, h.copies);
    GW_ASSERT_MEMORY(h.ranks != NULL);
    for (uint32_t round = 0; round < h.copies; round++) {
        uint32_t room[GW_MAX_MEMBERS];
        for (uint32_t m = 0; m < count; m++) room[m] = shards / count + (m < shards % count);
        for (uint32_t s = 0; s < shards; s++) {
            uint32_t m = choose(&h, s, round, members, count, room);
            h.ranks[(size_t)s * h.copies + round] = (uint8_t)m;
            if (room[m] > 0) room[m]--;
        }
    }
    return h;
}

void gw_holders_free(gw_holders *holders) {
    free(holders->ranks);
    *holders = (gw_holders){0};
}

bool gw_holders_has(const gw_holders *holders, uint32_t shard, uint32_t rank) {
    return shard < holders->shards && rank < GW_MAX_MEMBERS &&
           memchr(holders->ranks + (size_t)shard * holders->copies, (int)rank, holders->copies) != NULL;
}

/* A shard's first holder; GW_MAX_MEMBERS if no member holds it. */
static uint32_t first_holder(const gw_holders *holders, uint32_t shard) {
    return shard < holders->shards ? holders->ranks[(size_t)shard * holders->copies] : GW_MAX_MEMBERS;
}

/* The next element of `list` (NULL: any number) from `shard` on, or `shards`. */
static uint32_t next_listed(const gw_set *list, uint32_t shards, uint32_t shard) {
    if (list == NULL || shard >= shards) return shard < shards ? shard : shards;
    return gw_set_next(list, shard);
}

uint32_t *gw_holders_order(const gw_holders *holders, uint32_t shards, const gw_set *list,
                           const uint32_t *cuts, uint32_t count) {
    GW_ASSERT(list == NULL || list->size == shards);
    GW_ASSERT(cuts[count] == (list == NULL ? shards : gw_set_count(list)));
    uint32_t *order = malloc(((size_t)cuts[count] + 1) * sizeof *order);
    uint32_t *over = calloc((size_t)cuts[count] + 1, sizeof *over); /* shards beyond their holder's share */
    GW_ASSERT_MEMORY(order != NULL && over != NULL);
    uint32_t next[GW_MAX_MEMBERS], beyond = 0, placed = 0;
    memcpy(next, cuts, count * sizeof *next);
    for (uint32_t s = next_listed(list, shards, 0); s < shards; s = next_listed(list, shards, s + 1)) {
        uint32_t m = first_holder(holders, s);
        if (m < count && next[m] < cuts[m + 1])
            order[next[m]++] = s;
        else
            over[beyond++] = s;
    }
    for (uint32_t m = 0; m < count; m++)
        while (next[m] < cuts[m + 1]) order[next[m]++] = over[placed++];
    GW_ASSERT(placed == beyond);
    free(over);
    return order;
}
