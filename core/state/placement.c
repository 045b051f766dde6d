#include "core/state/placement.h"

#include "core/base/assert.h"
#include "core/rng.h"

/* Two rounds of mixing over both halves of the id, which is itself a hash. */
uint64_t gw_placement_score(uint32_t index, const gw_peer_id *member) {
    gw_reader r = gw_reader_on(member->bytes, sizeof member->bytes);
    uint64_t low = gw_get_u64(&r), high = gw_get_u64(&r);
    return gw_mix64(gw_mix64(index ^ low) ^ high);
}

uint32_t gw_placement_holders(uint32_t index, const gw_peer_id *members, uint32_t member_count,
                              uint32_t replicas, uint32_t *holders) {
    GW_ASSERT(replicas >= 1 && replicas <= GW_MAX_REPLICAS);
    uint64_t best[GW_MAX_REPLICAS];
    uint32_t found = 0;
    for (uint32_t m = 0; m < member_count; m++) {
        uint64_t mine = gw_placement_score(index, &members[m]);
        uint32_t at = found;
        while (at > 0 &&
               (mine > best[at - 1] ||
                (mine == best[at - 1] && gw_peer_id_compare(&members[m], &members[holders[at - 1]]) < 0)))
            at--;
        if (at == replicas) continue;
        if (found < replicas) found++;
        for (uint32_t i = found - 1; i > at; i--) {
            best[i] = best[i - 1];
            holders[i] = holders[i - 1];
        }
        best[at] = mine;
        holders[at] = m;
    }
    return found;
}

bool gw_placement_holds(uint32_t index, const gw_peer_id *members, uint32_t member_count, uint32_t replicas,
                        const gw_peer_id *peer) {
    uint32_t holders[GW_MAX_REPLICAS];
    uint32_t count = gw_placement_holders(index, members, member_count, replicas, holders);
    for (uint32_t i = 0; i < count; i++)
        if (gw_peer_id_equal(&members[holders[i]], peer)) return true;
    return false;
}

uint32_t gw_placement_list(uint32_t chunk_count, const gw_peer_id *members, uint32_t member_count,
                           uint32_t replicas, const gw_peer_id *peer, uint32_t *indices) {
    uint32_t found = 0;
    for (uint32_t index = 0; index < chunk_count; index++)
        if (gw_placement_holds(index, members, member_count, replicas, peer)) indices[found++] = index;
    return found;
}
