/* How the life of a peer before this one ended, as far as its journal and the machine tell: a process that is
 * killed writes nothing, and its supervisor may keep no record. Main thread. */
#ifndef GODWIT_TOOLS_GODWIT_JOURNAL_LIFE_H
#define GODWIT_TOOLS_GODWIT_JOURNAL_LIFE_H

#include "core/base/err.h"

#include <stdint.h>

enum { GW_LIFE_BOOT_TEXT = 40, GW_LIFE_TEXT = 400 };

/* Is in the log line of a process that ends itself in a hurry, after which nothing follows in the journal. */
#define GW_LIFE_LAST_WORDS "this process ends"

/* What is told of a process when it begins (the event "life"), so that the next one can tell how it ended. */
typedef struct gw_life {
    char boot_id[GW_LIFE_BOOT_TEXT]; /* of the machine since its start; "": not known */
    uint64_t memory_kills;           /* processes that the kernel had killed for lack of memory */
    int pid;
} gw_life;

typedef enum gw_life_end {
    GW_LIFE_NONE,    /* there was none before */
    GW_LIFE_ENDED,   /* by itself: its last event is "done" */
    GW_LIFE_GAVE_UP, /* by itself in a hurry: something hung, or a second signal came */
    GW_LIFE_CRASHED, /* by a fault of its own: a signal */
    GW_LIFE_MACHINE, /* the machine was restarted meanwhile, or lost its power */
    GW_LIFE_MEMORY,  /* the kernel killed a process for lack of memory meanwhile: this one, as it seems */
    GW_LIFE_KILLED,  /* by SIGKILL, from outside; nothing else leaves no trace */
} gw_life_end;

typedef struct gw_last_life {
    gw_life_end end;
    int signal;              /* CRASHED */
    double began, last;      /* when it began, and the time of its last event, in seconds since 1970 */
    uint64_t step;           /* steps done at the last event that tells them; 0: not known */
    char text[GW_LIFE_TEXT]; /* in words: "was killed (SIGKILL) ..." */
} gw_last_life;

/* Describes this process and machine. */
void gw_life_now(gw_life *life);
/* Tells from the journal of directory `dir` how the life before `now` ended. A journal that cannot be read
 * tells nothing (NONE). */
void gw_life_find_last(const char *dir, const gw_life *now, gw_last_life *last);
/* The word for an end, in JSON: "crashed". */
const char *gw_life_end_name(gw_life_end end);

#endif
