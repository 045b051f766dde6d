/* Warnings about what may go on for weeks, or what strangers can cause: the first at once, the next five
 * seconds later, and then after pauses that double up to an hour, each with how many there were since the
 * last. Once nothing has happened for an hour all begins anew: whatever comes every few minutes is still the
 * same trouble. */
#ifndef GODWIT_NET_LOOP_QUIET_H
#define GODWIT_NET_LOOP_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#define GW_QUIET_LEAST_NS UINT64_C(5000000000)
#define GW_QUIET_MOST_NS  UINT64_C(3600000000000)

/* Starts as zeros. */
typedef struct gw_quiet {
    uint64_t heard_ns, due_ns, pause_ns, pending;
} gw_quiet;

/* Counts one occurrence; true when it is time to speak, with *occurrences since the last time. */
static inline bool gw_quiet_may_speak(gw_quiet *quiet, uint64_t now_ns, uint64_t *occurrences) {
    if (now_ns - quiet->heard_ns > GW_QUIET_MOST_NS) quiet->pause_ns = 0;
    quiet->heard_ns = now_ns;
    quiet->pending++;
    if (quiet->pause_ns != 0 && now_ns < quiet->due_ns) return false;
    uint64_t next_ns = quiet->pause_ns == 0 ? GW_QUIET_LEAST_NS : 2 * quiet->pause_ns;
    quiet->pause_ns = next_ns < GW_QUIET_MOST_NS ? next_ns : GW_QUIET_MOST_NS;
    quiet->due_ns = now_ns + quiet->pause_ns;
    *occurrences = quiet->pending;
    quiet->pending = 0;
    return true;
}

#endif
