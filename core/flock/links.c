#include "core/flock/links.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

/* Whether a comes before b when one goes up from `from`, around the ring of all ids. */
static bool comes_before(const gw_peer_id *from, const gw_peer_id *a, const gw_peer_id *b) {
    bool a_wraps = gw_peer_id_compare(a, from) < 0, b_wraps = gw_peer_id_compare(b, from) < 0;
    return a_wraps != b_wraps ? b_wraps : gw_peer_id_compare(a, b) < 0;
}

uint32_t gw_flock_links_first(const gw_peer_id *member, const gw_peer_id *others, uint32_t count,
                              uint32_t most, uint32_t chosen[GW_FLOCK_LINKS_ALL]) {
    uint64_t draws[GW_FLOCK_LINKS_ALL], own = gw_id_mix(member->bytes);
    uint32_t next = 0, got = 0;
    GW_ASSERT(most > 0 && most <= GW_FLOCK_LINKS_ALL);
    for (uint32_t i = 0; i < count; i++) {
        if (comes_before(member, &others[i], &others[next])) next = i;
        uint64_t draw =
            gw_mix64(gw_id_mix(others[i].bytes) + own); /* the highest are kept, in falling order */
        uint32_t at = got;
        while (at > 0 && draws[at - 1] < draw) at--;
        if (at == most) continue;
        if (got < most) got++;
        for (uint32_t k = got - 1; k > at; k--) {
            draws[k] = draws[k - 1];
            chosen[k] = chosen[k - 1];
        }
        draws[at] = draw;
        chosen[at] = i;
    }
    for (uint32_t i = 0; i < got; i++)
        if (chosen[i] == next) return got;
    if (got > 0) chosen[got - 1] = next;
    return got;
}

uint32_t gw_flock_links_choose(const gw_peer_id *member, const gw_peer_id *others, uint32_t count,
                               uint32_t chosen[GW_FLOCK_LINKS_ALL]) {
    uint32_t most = count <= GW_FLOCK_LINKS_ALL ? GW_FLOCK_LINKS_ALL : GW_FLOCK_LINKS;
    return gw_flock_links_first(member, others, count, most, chosen);
}
