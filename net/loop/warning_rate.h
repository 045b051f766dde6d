/* Warnings about what may go on for weeks, or what strangers can cause: the first at once, the next five
 * seconds later, and then after pauses that double up to an hour, each with how many there were since the
 * last. Once nothing has happened for an hour all begins anew: whatever comes every few minutes is still the
 * same trouble. */
#ifndef GODWIT_NET_LOOP_WARNING_RATE_H
#define GODWIT_NET_LOOP_WARNING_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define GW_WARNING_LEAST_NS UINT64_C(5000000000)
#define GW_WARNING_MOST_NS  UINT64_C(3600000000000)

/* Starts as zeros. */
typedef struct gw_rate_limit {
    uint64_t heard_ns, due_ns, pause_ns, pending;
} gw_rate_limit;

/* Counts one occurrence; true when it is time to speak, with *occurrences since the last time. */
static inline bool gw_rate_limit_admits(gw_rate_limit *limit, uint64_t now_ns, uint64_t *occurrences) {
    if (now_ns - limit->heard_ns > GW_WARNING_MOST_NS) limit->pause_ns = 0;
    limit->heard_ns = now_ns;
    limit->pending++;
    if (limit->pause_ns != 0 && now_ns < limit->due_ns) return false;
    uint64_t next_ns = limit->pause_ns == 0 ? GW_WARNING_LEAST_NS : 2 * limit->pause_ns;
    limit->pause_ns = next_ns < GW_WARNING_MOST_NS ? next_ns : GW_WARNING_MOST_NS;
    limit->due_ns = now_ns + limit->pause_ns;
    *occurrences = limit->pending;
    limit->pending = 0;
    return true;
}

#endif
