/* The line that shows on a terminal how far a map is (--bar). It is taken away before anything else is printed, and drawn
 * again afterwards. One thread. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_PROGRESS_H
#define GODWIT_TOOLS_GODWIT_MAP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { GW_MAP_PROGRESS_NS = 200000000 /* between two drawings */, GW_MAP_PROGRESS_TEXT = 400 };

typedef struct gw_map_progress {
    int fd; /* the terminal; -1: nothing is shown */
    bool shown;
    uint64_t begun_ns, drawn_ns;
} gw_map_progress;

/* What is known of a map. */
typedef struct gw_map_counts {
    uint64_t done, failed, running;
    uint64_t total; /* 0: not known */
} gw_map_counts;

/* Shows it on standard error if that is a terminal that can. */
gw_map_progress gw_map_progress_begin(bool wanted);
/* Draws the line if it is time to, or `now`. */
void gw_map_progress_draw(gw_map_progress *progress, const gw_map_counts *counts, bool now);
void gw_map_progress_hide(gw_map_progress *progress);

/* The line's text, for a terminal of `columns`, after `elapsed_ns`. Pure. */
void gw_map_progress_text(const gw_map_counts *counts, uint64_t elapsed_ns, uint32_t columns,
                          char text[GW_MAP_PROGRESS_TEXT]);

#endif
