/* The pauses between tries of something that fails, such as a path or a device: they double, up to ten
 * minutes. */
#ifndef GODWIT_NET_LOOP_BACKOFF_H
#define GODWIT_NET_LOOP_BACKOFF_H

#include <stdint.h>

#define GW_BACKOFF_FIRST_NS UINT64_C(30000000000)
#define GW_BACKOFF_MOST_NS  UINT64_C(600000000000)

/* The pause after the next failure, where `pause_ns` is the pause after the last one; 0: there was none, or
 * it has worked since, and the pause is `first_ns`. Pure. */
static inline uint64_t gw_backoff_next(uint64_t pause_ns, uint64_t first_ns) {
    uint64_t next_ns = pause_ns == 0 ? first_ns : 2 * pause_ns;
    return next_ns < GW_BACKOFF_MOST_NS ? next_ns : GW_BACKOFF_MOST_NS;
}

#endif
