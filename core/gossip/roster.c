#include "core/gossip/inside.h"

#include "core/base/assert.h"

#include <stdlib.h>

struct gw_gossip_roster {
    uint32_t count;
    gw_gossip_entry entries[];
};

bool gw_gossip_roster_create(const gw_gossip_member *members, uint32_t count, gw_gossip_roster **roster,
                             gw_err *err) {
    gw_gossip_roster *made = calloc(1, sizeof *made + count * sizeof made->entries[0]);
    if (made == NULL) return gw_fail(err, GW_E_NOMEM, "gossip: out of memory");
    made->count = count;
    for (uint32_t i = 0; i < count; i++) {
        GW_ASSERT(members[i].meta == NULL && members[i].name == NULL &&
                  members[i].state == GW_GOSSIP_IS_ALIVE);
        made->entries[i].public = members[i];
        made->entries[i].reads = GW_GOSSIP_VERSION;
    }
    *roster = made;
    return true;
}

void gw_gossip_roster_destroy(gw_gossip_roster *roster) {
    free(roster);
}

bool gw_gossip_enroll(gw_gossip *g, const gw_gossip_roster *roster, gw_err *err) {
    GW_ASSERT(!g->started);
    if (!gw_gossip_entries_lend(g, roster->entries, roster->count))
        return gw_fail(err, GW_E_NOMEM, "gossip: out of memory");
    g->joining = false;
    return true;
}
