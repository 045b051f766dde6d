/* `godwit map` on this machine: the inputs of a command become tasks, the tasks run in slots, and what they write is
 * printed. One call runs a whole map. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_MAP_H
#define GODWIT_TOOLS_GODWIT_MAP_MAP_H

#include "tools/godwit/map/feed.h"
#include "tools/godwit/map/inputs.h"
#include "tools/godwit/map/runner.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum gw_map_print {
    GW_MAP_PRINT_TASKS, /* the output of a task when it has ended, in one piece */
    GW_MAP_PRINT_LINES, /* whole lines, as they come */
    GW_MAP_PRINT_MIXED, /* tasks write to the descriptors of this process */
} gw_map_print;

/* When a map ends before its inputs do (--halt). */
typedef enum gw_map_halt_when { GW_MAP_HALT_NEVER, GW_MAP_HALT_SOON, GW_MAP_HALT_NOW } gw_map_halt_when;
typedef enum gw_map_halt_what { GW_MAP_HALT_FAIL, GW_MAP_HALT_SUCCESS, GW_MAP_HALT_DONE } gw_map_halt_what;

typedef struct gw_map_halt {
    gw_map_halt_when when;
    gw_map_halt_what what;
    uint64_t count; /* of tasks that have become so */
    double percent; /* of all tasks, where it is not 0 */
} gw_map_halt;

enum { GW_MAP_FETCHES = 64, GW_MAP_SLOTS_MOST = 1 << 16, GW_MAP_FAILURES_MOST = 101, GW_MAP_TROUBLE = 255 };

/* All strings and arrays are borrowed. */
typedef struct gw_map_options {
    char *const *words; /* of the command; none: the inputs are commands */
    uint32_t word_count;
    bool quote, repeat;
    const char *replace;
    gw_map_inputs_options inputs;
    uint32_t slots; /* 0: as many as there may be processes and descriptors */
    gw_map_print print;
    bool keep_order, tag, dry_run, verbose, bar;
    const char *tag_text; /* a template for the tag; NULL: the inputs */
    const char *job_log;  /* NULL: none */
    bool resume, resume_failed, retry_failed;
    gw_map_halt halt;
    uint32_t attempts; /* at a task, at least 1 */
    uint64_t timeout_ns;
    uint32_t timeout_percent; /* of the median of the tasks that succeeded; 0: none */
    uint64_t delay_ns, grace_ns, least_memory;
    int nice;              /* added to that of this process */
    const char *folder;    /* for outputs that are too large for memory */
    const char *results;   /* a folder that gets the outputs; NULL: none */
    const char *directory; /* where the tasks run; NULL: here */
    const char *shell;
    char *const *environment; /* ends with NULL */
    bool json;
    char *const *fetch; /* templates of the names of files that are brought back from another directory */
    uint32_t fetch_count;
    const char *job;             /* GODWIT_JOB of the tasks; NULL: a random one */
    const gw_map_feed *feed;     /* NULL: the inputs are the tasks */
    const gw_map_runner *runner; /* NULL: tasks run here */
    bool only_hand_over;         /* to the runner: nothing is fetched */
} gw_map_options;

/* Runs the map to its end. Returns the exit code: the number of tasks that failed, GW_MAP_FAILURES_MOST at most; with a
 * halt what gw_map_halt asks for; 128 + the number of a signal that ended it; GW_MAP_TROUBLE where the map itself could
 * not go on, with *err set. Thread: main; it blocks signals while it runs. */
int gw_map_main_loop(const gw_map_options *options, gw_err *err);

#endif
