/* What `godwit top` shows, drawn on a canvas from the texts of a peer's control socket (show/control.h). Pure; one
 * thread. */
#ifndef GODWIT_TOOLS_GODWIT_TOP_FRAME_H
#define GODWIT_TOOLS_GODWIT_TOP_FRAME_H

#include "tools/godwit/top/canvas.h"

#include <jansson.h>

enum { GW_TOP_SERIES = 64 /* bytes of a name with its final zero */ };

typedef enum gw_top_mode {
    GW_TOP_ALL,  /* curve, peers, and the last lines of the log */
    GW_TOP_PEER, /* one peer */
    GW_TOP_LOG,
    GW_TOP_EVENTS,
    GW_TOP_HELP,
} gw_top_mode;

/* By what the peers are sorted; each column of the table. */
typedef enum gw_top_sort {
    GW_TOP_BY_NAME,
    GW_TOP_BY_SPEED,
    GW_TOP_BY_SHARDS,
    GW_TOP_BY_STOLEN,
    GW_TOP_BY_MEMORY,
    GW_TOP_BY_GPU,
    GW_TOP_BY_WATTS,
    GW_TOP_SORTS,
} gw_top_sort;

/* All that is known and chosen. The texts may be NULL, and are borrowed. They come from a peer that this program
 * trusts no further than its texts: what is missing or of another kind is shown as not known. */
typedef struct gw_top_frame {
    const char *dir;
    const json_t *status, *peers, *series, *log, *events; /* whole answers */
    const char *trouble;                                  /* why there is no answer; NULL: there is one */
    const char *ending; /* how the peer has ended, where that is why; NULL: it has not, or nobody knows */
    bool ended_well;    /* as it was wanted to */
    gw_top_mode mode;
    gw_top_sort sort;
    int chosen; /* the line of the table, from 0 on */
    int scroll; /* lines of log or events back from the newest */
    bool logarithmic, ascii;
    char curve[GW_TOP_SERIES]; /* the name of the series that is drawn */
} gw_top_frame;

/* Draws the frame; frame->chosen is brought into the table's bounds. */
void gw_top_draw(gw_top_frame *frame, gw_canvas *canvas);

/* Changes frame->curve to the next series of those that are there, or with `step` -1 to the one before; where it
 * names none, to the job's loss or what comes first. */
void gw_top_choose_curve(gw_top_frame *frame, int step);

#endif
