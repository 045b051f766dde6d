#include "core/map/deaths.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

bool gw_map_deaths_add(gw_map_deaths *d, const gw_peer_id *peer, uint32_t number, const uint32_t *tasks,
                       uint32_t count) {
    for (uint32_t i = 0; i < d->count; i++)
        if (d->list[i].number == number && gw_peer_id_equal(&d->list[i].peer, peer)) return false;
    if (d->killed == NULL) d->killed = calloc((size_t)d->tasks + 1, 1);
    if (d->count == d->room) {
        d->room = 2 * d->room + 4;
        d->list = realloc(d->list, d->room * sizeof *d->list);
    }
    gw_map_death one = {.peer = *peer, .number = number, .tasks = calloc((size_t)count + 1, sizeof *tasks)};
    GW_ASSERT_MEMORY(d->killed != NULL && d->list != NULL && one.tasks != NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (tasks[i] >= d->tasks) continue;
        one.tasks[one.count++] = tasks[i];
        if (d->killed[tasks[i]] < UINT8_MAX) d->killed[tasks[i]]++;
    }
    d->list[d->count++] = one;
    return true;
}

uint32_t gw_map_deaths_of(const gw_map_deaths *d, uint32_t task) {
    return d->killed != NULL ? d->killed[task] : 0;
}

void gw_map_deaths_free(gw_map_deaths *d) {
    for (uint32_t i = 0; i < d->count; i++) free(d->list[i].tasks);
    free(d->list);
    free(d->killed);
    *d = (gw_map_deaths){.tasks = d->tasks};
}
