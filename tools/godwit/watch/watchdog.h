/* Finds a shard that hangs: it has run for longer than the patience, and for longer than
 * GW_WATCHDOG_MULTIPLE times the usual duration (core/README.md, section 5). Pure: the caller has the
 * clock.
 *
 * The usual duration is the upper quartile of the last GW_DURATIONS. The longest duration would be wrong:
 * every shard that ran while this process was stopped took as long as the stop, and would delay the end of
 * one that hangs. The median would be wrong too: a step may have more short shards (of an evaluation) than
 * long ones.
 *
 * Time in which this process did not run at all (stopped, or starved) does not count: when the caller
 * looks later than planned, running shards are timed from that look on. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_WATCHDOG_H
#define GODWIT_TOOLS_GODWIT_WATCH_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_WATCHDOG_MULTIPLE = 20, GW_DURATIONS = 256 };

/* The durations of the last shards. Starts as zeros. */
typedef struct gw_durations {
    uint64_t ns[GW_DURATIONS]; /* the last durations, in no order */
    uint64_t count;            /* durations noted so far */
} gw_durations;

void gw_durations_note(gw_durations *durations, uint64_t ns);
uint64_t gw_durations_usual(const gw_durations *durations); /* 0 = no duration was noted */

/* Starts as zeros, except for the first two fields. */
typedef struct gw_watchdog {
    uint64_t patience_ns;
    uint64_t interval_ns; /* planned time between looks; a look after more than twice that ends a gap */
    uint64_t looked_ns;   /* 0 = never yet */
    uint64_t awake_ns;    /* the end of the last gap */
} gw_watchdog;

/* Notes a look at the time `now_ns`, which never falls. */
void gw_watchdog_look(gw_watchdog *dog, uint64_t now_ns);
/* Whether a shard that has run since `started_ns` hangs, as of the last look. `usual_ns` is the usual
 * duration of shards; 0 = not known. */
bool gw_watchdog_hangs(const gw_watchdog *dog, uint64_t started_ns, uint64_t usual_ns);

#endif
