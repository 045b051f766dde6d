/* Processes of a map's tasks: they are started, what they write is kept, and they are ended where they take too long or
 * the map stops. Each run is one attempt at a task: a process that leads a session of its own, reads /dev/null, and knows
 * its task by its environment (GODWIT_JOB, GODWIT_TASK, GODWIT_ATTEMPT). A run is over when its process has ended,
 * whatever that left behind: what others write to its pipes later is read and dropped, while the map lasts.
 *
 * One thread, that of the loop, and it lives as long as the processes: where it ends, they get SIGTERM. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_RUNS_H
#define GODWIT_TOOLS_GODWIT_MAP_RUNS_H

#include "core/map/table.h"
#include "core/os/process.h"
#include "net/loop/loop.h"
#include "tools/godwit/map/store.h"

#include <jansson.h>
#include <sodium.h>

typedef struct gw_map_runs gw_map_runs;

/* Why a run was ended. */
typedef enum gw_map_stop {
    GW_MAP_STOP_NONE, /* it ended by itself */
    GW_MAP_STOP_TIMEOUT,
    GW_MAP_STOP_HALT,
} gw_map_stop;

/* One attempt at a task. */
typedef struct gw_map_run {
    /* given at the start */
    void *task;      /* the owner's */
    uint64_t number; /* of the task, from 0 on */
    uint32_t attempt;
    void *owner;      /* what the owner likes */
    gw_timer timeout; /* the owner's; it is cancelled when the run has ended */
    /* set when it has ended */
    gw_map_row row; /* its peer is none */
    gw_map_stop stop;
    gw_map_output output, errors;     /* what the owner does not take is dropped */
    uint64_t begun_ns, begun_wall_ns; /* gw_now_ns, and nanoseconds since 1970 */
    /* private to runs.c */
    struct gw_map_run *next, **place; /* in the list of those that run */
    gw_map_runs *runs;
    gw_process process;
    gw_watch ended, watches[2];
    int pipes[2]; /* of standard output and standard error; -1: closed */
    gw_timer kill;
    bool killing, watched;
    crypto_generichash_state hash;
} gw_map_run;

typedef enum gw_map_capture {
    GW_MAP_CAPTURE_NONE,  /* processes write to the descriptors of this one */
    GW_MAP_CAPTURE_ALL,   /* until they end */
    GW_MAP_CAPTURE_LINES, /* as ALL; `wrote` may take it before */
} gw_map_capture;

typedef struct gw_map_runs_options {
    gw_loop *loop;
    gw_map_store *store;
    const char *job;          /* of GODWIT_JOB */
    char *const *environment; /* ends with NULL; without the three names above */
    const char *directory;    /* where processes start; NULL: here */
    int nice;                 /* of the processes */
    uint64_t files;           /* the soft limit of their descriptors; 0: as here */
    uint64_t grace_ns;        /* between SIGTERM and SIGKILL */
    gw_map_capture capture;
    bool hash; /* of standard output, for the rows */
    void *context;
    void (*ended)(void *context, gw_map_run *run);    /* the run is freed when this returns */
    void (*wrote)(void *context, gw_map_run *run);    /* LINES: output or errors have grown */
    void (*failed)(void *context, const gw_err *err); /* an output cannot be kept: the map cannot go on */
} gw_map_runs_options;

/* The options are copied, what they point to is borrowed. NULL on failure. */
gw_map_runs *gw_map_runs_open(const gw_map_runs_options *options, gw_err *err);
/* Nothing runs any more. NULL is allowed. */
void gw_map_runs_close(gw_map_runs *runs);

/* Starts a process for a task. Fails as gw_process_spawn does: with GW_E_NOMEM where the system lacks processes,
 * descriptors or memory for now. */
gw_map_run *gw_map_runs_start(gw_map_runs *runs, const char *file, char *const *argv, uint64_t number,
                              uint32_t attempt, void *task, gw_err *err);

/* Sends SIGTERM to the process group of a run, and SIGKILL after the grace. */
void gw_map_run_end(gw_map_run *run, gw_map_stop why);
/* The same for all that run; with `at_once`, SIGKILL now. */
void gw_map_runs_end_all(gw_map_runs *runs, gw_map_stop why, bool at_once);
/* Sends a signal to the process groups of all runs. */
void gw_map_runs_signal(gw_map_runs *runs, int number);

uint32_t gw_map_runs_count(const gw_map_runs *runs);
/* The runs, in no order; `next` leads on. NULL: none. */
gw_map_run *gw_map_runs_first(const gw_map_runs *runs);

enum { GW_MAP_RUN_DESCRIPTORS = 4 /* that a run takes, at most */ };

/* Puts how an attempt has ended: "exit", "signal" and "timed_out". */
void gw_map_row_put_end(json_t *object, const gw_map_row *row);

#endif
