/* Promise: the name by which a peer knows another is the one that this life of the other has, and a life that
 * speaks the version of gossip before, which has no names, is known by none. */
#include "tools/sim/judge/judge.h"

#include <inttypes.h>
#include <string.h>

static void on_installed(void *context, sim_peer *p, const gw_view *view) {
    const sim_judges *j = context;
    gw_peer_contact_info info;
    (void)view;
    for (uint32_t i = 0; gw_peer_contact_at(p->brain, i, &info); i++) {
        const sim_peer *of = sim_by_id(j->c, &info.id);
        if (info.name == NULL || of == NULL || of == p) continue;
        char name[SIM_NAME_TEXT];
        sim_life_name(of->number, info.incarnation.boot, name);
        if (sim_is_older(j->c, of->number, info.incarnation.boot) || strcmp(info.name, name) != 0)
            sim_violation(j->c, "peer %u calls life %" PRIu64 " of peer %u '%s'", p->number,
                          info.incarnation.boot, of->number, info.name);
    }
}

const sim_observer sim_names_observer = {.view_installed = on_installed};
