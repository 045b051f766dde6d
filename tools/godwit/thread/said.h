/* What was said before, and comes again and again for weeks, is written ever more seldom (net/loop/warning_rate.h).
 * Pure; the clock is the caller's. */
#ifndef GODWIT_TOOLS_GODWIT_THREAD_SAID_H
#define GODWIT_TOOLS_GODWIT_THREAD_SAID_H

#include "core/base/id.h"
#include "net/loop/warning_rate.h"

enum { GW_SAID_TEXTS = 32, GW_SAID_PHASE = 160 };

/* The texts heard last. Starts as zeros. */
typedef struct gw_said {
    struct gw_said_text {
        gw_hash hash;
        gw_rate_limit quiet;
    } texts[GW_SAID_TEXTS];
} gw_said;

/* Whether it is time to write a text, with *times that it came since it was written last. */
bool gw_said_may_speak(gw_said *said, const char *text, uint64_t now_ns, uint64_t *times);

/* The phase told last. Starts as zeros. */
typedef struct gw_said_phase {
    char text[GW_SAID_PHASE];
    gw_rate_limit quiet;
} gw_said_phase;

/* Whether to tell a phase: another one at once; the same never; one in which the numbers of steps alone are
 * others, as while this peer waits and the flock goes on without it, now and then. */
bool gw_said_phase_is_news(gw_said_phase *said, const char *text, uint64_t now_ns);

#endif
