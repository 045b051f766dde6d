/* Warnings that strangers can cause are written at most once in five seconds, with how many there were. */
#ifndef GODWIT_NET_QUIET_H
#define GODWIT_NET_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#define GW_QUIET_NS 5000000000u

/* Starts as zeros. */
typedef struct gw_quiet {
    uint64_t spoke_ns, pending;
} gw_quiet;

/* Counts one occurrence; true when it is time to speak, with *occurrences since the last time. */
static inline bool gw_quiet_may_speak(gw_quiet *quiet, uint64_t now_ns, uint64_t *occurrences) {
    quiet->pending++;
    if (quiet->spoke_ns != 0 && now_ns - quiet->spoke_ns < GW_QUIET_NS) return false;
    *occurrences = quiet->pending;
    quiet->spoke_ns = now_ns != 0 ? now_ns : 1;
    quiet->pending = 0;
    return true;
}

#endif
