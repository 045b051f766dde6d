#include "core/map/supply.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

void gw_map_supply_begin(gw_map_supply *s) {
    s->frontier = s->skipped = s->skipped_end = 0;
    s->again_count = s->late_first = s->late_count = 0;
}

static bool was_offered(const gw_map_supply *s, uint32_t task) {
    return task < s->frontier && (task < s->skipped || task >= s->skipped_end);
}

void gw_map_supply_again(gw_map_supply *s, uint32_t task) {
    if (!was_offered(s, task)) return;
    if (s->again_count == s->again_room) {
        s->again_room = 2 * s->again_room + 16;
        s->again = realloc(s->again, s->again_room * sizeof *s->again);
        GW_ASSERT_MEMORY(s->again != NULL);
    }
    s->again[s->again_count++] = task;
}

void gw_map_supply_late(gw_map_supply *s, uint32_t task, uint64_t now_ns) {
    if (!was_offered(s, task)) return;
    if (s->late_count == s->late_room && s->late_first > 0) {
        s->late_count -= s->late_first;
        memmove(s->late, s->late + s->late_first, s->late_count * sizeof *s->late);
        s->late_first = 0;
    }
    if (s->late_count == s->late_room) {
        s->late_room = 2 * s->late_room + 16;
        s->late = realloc(s->late, s->late_room * sizeof *s->late);
        GW_ASSERT_MEMORY(s->late != NULL);
    }
    s->late[s->late_count++] = (gw_map_late){task, now_ns + GW_MAP_SUPPLY_LATE_NS};
}

void gw_map_supply_follow(gw_map_supply *s, uint32_t from, uint64_t now_ns) {
    uint32_t half = (s->tasks - from) / 2;
    s->frontier = from + half;
    s->skipped = from;
    s->skipped_end = from + half;
    s->skips_until_ns = now_ns + GW_MAP_SUPPLY_SKIP_NS;
    for (uint32_t task = 0; task < from; task++) gw_map_supply_late(s, task, now_ns);
}

static bool take(uint32_t *from, uint32_t end, uint32_t *task) {
    if (*from >= end) return false;
    *task = (*from)++;
    return true;
}

bool gw_map_supply_next(gw_map_supply *s, uint32_t *task, uint64_t now_ns) {
    if (s->again_count > 0) {
        *task = s->again[--s->again_count];
        return true;
    }
    bool any_late = s->late_first < s->late_count;
    if (!any_late || now_ns < s->late[s->late_first].due_ns) {
        if (now_ns >= s->skips_until_ns && take(&s->skipped, s->skipped_end, task)) return true;
        if (take(&s->frontier, s->tasks, task) || take(&s->skipped, s->skipped_end, task)) return true;
    }
    if (any_late) *task = s->late[s->late_first++].task;
    return any_late;
}

void gw_map_supply_free(gw_map_supply *s) {
    free(s->again);
    free(s->late);
    *s = (gw_map_supply){.tasks = s->tasks};
}
