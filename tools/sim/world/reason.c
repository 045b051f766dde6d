#include "tools/sim/world/cluster.h"

#include <string.h>

static gw_sim_excuse reason_of_failure(const char *text) {
    static const struct {
        const char *phrase;
        gw_sim_excuse excuse;
    } phrases[] = {
        {"the machine is faulty", GW_SIM_WRONG_BITS},
        {"nobody can tell which are right", GW_SIM_WRONG_BITS},
        {"nobody can tell in whose memory", GW_SIM_WRONG_BITS},
        {"could not be fetched: ",
         GW_SIM_WRONG_BITS}, /* the last attempt may have failed for another reason */
        {"start again to resume", GW_SIM_WRONG_BITS},
        {"so that the others go on", GW_SIM_OWN_DISK},
        {"(failing disk: ", GW_SIM_DISKS},
        {"the others compute its shards", GW_SIM_DEVICE},
        {"cannot be computed here", GW_SIM_GAVE_UP},
        {"could not be applied: ", GW_SIM_REFUSED},
        {"effects cannot take place here: ", GW_SIM_REFUSED},
        {"is sound could not be checked: ", GW_SIM_REFUSED},
        {"or they all failed", GW_SIM_ALONE},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strstr(text, phrases[i].phrase) != NULL) return phrases[i].excuse;
    return GW_SIM_NO_EXCUSE;
}

gw_sim_excuse sim_reason_of_end(const sim_peer *p) {
    switch (p->finish) {
    case GW_FINISH_LEFT:
        return strstr(p->finish_text, "the others ended the job") != NULL ? GW_SIM_MISSED_END : GW_SIM_LEFT;
    case GW_FINISH_STOPPED:
        return GW_SIM_STOPPED;
    case GW_FINISH_UNSAVED:
        return GW_SIM_DISKS;
    case GW_FINISH_FAILED:
        return reason_of_failure(p->finish_text);
    default:
        return GW_SIM_NO_EXCUSE;
    }
}
