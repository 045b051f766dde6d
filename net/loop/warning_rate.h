/* A rate limit for warnings about conditions that may last for weeks, or that strangers can cause. The first
 * occurrence is logged at once, the next one at the earliest five seconds later, and then after pauses that
 * double up to an hour. Each warning says how many occurrences there were since the last one. After an hour
 * without an occurrence the limit starts anew; a condition that recurs every few minutes is still the same
 * one. Thread: its owner's. */
#ifndef GODWIT_NET_LOOP_WARNING_RATE_H
#define GODWIT_NET_LOOP_WARNING_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define GW_WARNING_LEAST_NS UINT64_C(5000000000)
#define GW_WARNING_MOST_NS  UINT64_C(3600000000000)

/* The state of one limit. All zeros is the initial state. */
typedef struct gw_rate_limit {
    uint64_t heard_ns; /* the latest occurrence */
    uint64_t due_ns;   /* the earliest time of the next warning */
    uint64_t pause_ns; /* the pause that ends at due_ns */
    uint64_t pending;  /* occurrences since the last warning */
} gw_rate_limit;

/* Counts one occurrence. True if a warning is due now; *occurrences is then the number of occurrences since
 * the last one. */
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
