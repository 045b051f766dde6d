#include "tools/godwit/watch/watchdog.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

void gw_durations_note(gw_durations *durations, uint64_t ns) {
    durations->ns[durations->count++ % GW_DURATIONS] = ns;
}

static int compare(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

uint64_t gw_durations_usual(const gw_durations *durations) {
    uint64_t sorted[GW_DURATIONS];
    uint64_t count = durations->count < GW_DURATIONS ? durations->count : GW_DURATIONS;
    if (count == 0) return 0;
    memcpy(sorted, durations->ns, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], compare);
    return sorted[(count - 1) * 3 / 4];
}

void gw_watchdog_look(gw_watchdog *dog, uint64_t now_ns) {
    GW_ASSERT(now_ns >= dog->looked_ns);
    if (dog->looked_ns != 0 && now_ns - dog->looked_ns > 2 * dog->interval_ns) dog->awake_ns = now_ns;
    dog->looked_ns = now_ns;
}

bool gw_watchdog_hangs(const gw_watchdog *dog, uint64_t started_ns, uint64_t usual_ns) {
    uint64_t since = started_ns > dog->awake_ns ? started_ns : dog->awake_ns;
    uint64_t limit =
        usual_ns > UINT64_MAX / GW_WATCHDOG_MULTIPLE ? UINT64_MAX : usual_ns * GW_WATCHDOG_MULTIPLE;
    if (limit < dog->patience_ns) limit = dog->patience_ns;
    return dog->looked_ns > since && dog->looked_ns - since >= limit;
}
