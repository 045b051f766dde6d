/* Finds a shard that hangs: one that runs for longer than a patience, and than GW_WATCHDOG_MULTIPLE times the
 * usual duration (core/README.md, section 5). Pure: the clock is the caller's.
 *
 * The usual duration is the upper quartile of the last GW_DURATIONS. Not the longest: every shard that ran
 * while this process was stopped took as long as that, and one such must not put off the end of one that
 * hangs. Not the median: a step may have more short shards (of an evaluation) than long ones.
 *
 * Time in which this process did not run at all (stopped, or starved) is nobody's fault: when the looks come
 * later than planned, what runs is timed from the late look on. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_WATCHDOG_H
#define GODWIT_TOOLS_GODWIT_WATCH_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_WATCHDOG_MULTIPLE = 20, GW_DURATIONS = 256 };

/* The durations of the last shards. Starts as zeros. */
typedef struct gw_durations {
    uint64_t ns[GW_DURATIONS]; /* the last ones, in no order */
    uint64_t count;            /* ever noted */
} gw_durations;

void gw_durations_note(gw_durations *durations, uint64_t ns);
uint64_t gw_durations_usual(const gw_durations *durations); /* 0 = none was noted */

/* Zeros but for the first two. */
typedef struct gw_watchdog {
    uint64_t patience_ns;
    uint64_t interval_ns; /* between looks; one that is later by more than this again is a gap */
    uint64_t looked_ns;   /* 0 = never yet */
    uint64_t awake_ns;    /* the end of the last gap */
} gw_watchdog;

/* Notes that the caller looks, at `now_ns` (never earlier than before). */
void gw_watchdog_look(gw_watchdog *dog, uint64_t now_ns);
/* Whether a shard that runs since `started_ns` hangs, as seen at the last look. `usual_ns`: of shards, 0 =
 * not known. */
bool gw_watchdog_hangs(const gw_watchdog *dog, uint64_t started_ns, uint64_t usual_ns);

#endif
