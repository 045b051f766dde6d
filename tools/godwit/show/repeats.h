/* Limits how often messages are written that recur for weeks: ever more rarely (net/loop/warning_rate.h).
 * Pure; the caller has the clock. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_REPEATS_H
#define GODWIT_TOOLS_GODWIT_SHOW_REPEATS_H

#include "core/base/id.h"
#include "core/brain/peer.h"
#include "net/loop/warning_rate.h"

enum { GW_REPEATS_TEXTS = 32, GW_PHASE_TEXT = GW_TEXT_BYTES };

/* The last GW_REPEATS_TEXTS different texts, each with its rate limit. Starts as zeros. */
typedef struct gw_repeats {
    struct gw_repeats_text {
        gw_hash hash;
        gw_rate_limit limit;
    } texts[GW_REPEATS_TEXTS];
} gw_repeats;

/* Counts one occurrence of a text. Returns true when it is time to write it; *times becomes the number of
 * occurrences since it was written last. */
bool gw_repeats_admit(gw_repeats *repeats, const char *text, uint64_t now_ns, uint64_t *times);

/* The phase that was written last. Starts as zeros. */
typedef struct gw_phase_filter {
    char text[GW_PHASE_TEXT];
    gw_rate_limit limit;
} gw_phase_filter;

/* Whether to write a phase. A different text is written at once, and the same text never again. A text in
 * which only the numbers of steps differ is written now and then: a peer that waits has one for each step
 * of the others. */
bool gw_phase_filter_is_news(gw_phase_filter *filter, const char *text, uint64_t now_ns);

#endif
