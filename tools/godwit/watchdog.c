#include "tools/godwit/watchdog.h"

#include "core/check.h"

void gw_watchdog_look(gw_watchdog *dog, uint64_t now_ns) {
    GW_CHECK(now_ns >= dog->looked_ns);
    if (dog->looked_ns != 0 && now_ns - dog->looked_ns > 2 * dog->interval_ns) dog->awake_ns = now_ns;
    dog->looked_ns = now_ns;
}

bool gw_watchdog_hangs(const gw_watchdog *dog, uint64_t started_ns, uint64_t longest_ns) {
    uint64_t since = started_ns > dog->awake_ns ? started_ns : dog->awake_ns;
    uint64_t limit =
        longest_ns > UINT64_MAX / GW_WATCHDOG_MULTIPLE ? UINT64_MAX : longest_ns * GW_WATCHDOG_MULTIPLE;
    if (limit < dog->patience_ns) limit = dog->patience_ns;
    return dog->looked_ns > since && dog->looked_ns - since >= limit;
}
