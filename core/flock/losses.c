#include "core/flock/losses.h"

#include <string.h>

void gw_losses_add(gw_losses *losses, uint64_t at_s) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < losses->count; i++)
        if (losses->at_s[i] <= at_s && at_s - losses->at_s[i] < GW_LOSSES_WITHIN_S)
            losses->at_s[kept++] = losses->at_s[i];
    if (kept == GW_LOSSES_MOST) memmove(losses->at_s, losses->at_s + 1, --kept * sizeof *losses->at_s);
    losses->at_s[kept] = at_s;
    losses->count = kept + 1;
}

uint64_t gw_losses_wait_s(const gw_losses *losses) {
    if (losses->count < 2) return 0;
    uint64_t wait_s = (uint64_t)GW_LOSSES_LEAST_S << losses->count;
    return wait_s < GW_LOSSES_LONGEST_S ? wait_s : GW_LOSSES_LONGEST_S;
}
