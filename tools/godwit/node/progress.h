/* What this node has been asked for and has not ended yet, and whether it makes progress.
 *
 * Requests (LOAD, SAVE, MANIFEST, PERSIST) depend on disks and on other peers. The brain hears of their
 * progress, and decides about those that make none. Tasks of the compute helper (tools/godwit/work/engine.h)
 * that make no progress are interrupted where the job can do that, which then begins them anew or has them
 * fail. Others have failed, as other peers may wait for them for as long as this peer lives: the brain hears
 * the failure. A reduction that hangs where it waits for no other peer, or a data thread that hangs, ends
 * this peer. A look-up for another peer that the disk does not answer is logged.
 *
 * Threads: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_PROGRESS_H
#define GODWIT_TOOLS_GODWIT_NODE_PROGRESS_H

#include "tools/godwit/node/feed.h"
#include "tools/godwit/thread/helper.h"
#include "tools/godwit/watch/watchdog.h"
#include "tools/godwit/work/data/links.h"
#include "tools/godwit/work/engine.h"
#include "tools/godwit/work/reduce.h"

/* The tasks of the compute helper. They run in the order given: a task finds the state that the one before it
 * has left. */
typedef enum gw_task_kind {
    GW_TASK_COMMIT,
    GW_TASK_PROBE,
    GW_TASK_LOOK,
    GW_TASK_APPLY,
    GW_TASKS,
} gw_task_kind;

/* Kinds of requests that a disk, or the peers that a state is fetched from, may keep waiting. */
typedef enum gw_request_kind {
    GW_REQUEST_LOAD,
    GW_REQUEST_SAVE, /* the actions SAVE and MANIFEST */
    GW_REQUEST_RECORD,
    GW_REQUEST_LOOKUP, /* look-ups of other peers in files here; the brain has no action for them */
    GW_REQUESTS,
} gw_request_kind;

typedef struct gw_pending {
    gw_token token;    /* of the latest request; 0 = none is under way (LOOKUP: the time when it began) */
    uint64_t moved_ns; /* when the request made progress last */
    bool logged;       /* the log has it that the request makes no progress */
} gw_pending;

typedef struct gw_progress {
    gw_node *node;     /* gets the events */
    gw_engine *engine; /* This and the next pointers are borrowed. */
    gw_reduction *reduction;
    gw_data_links *data_links;
    gw_helper *compute;
    gw_helper *stacks; /* logs where threads hang; waits half a second for each thread that takes no signal */
    gw_mailbox *mail;
    const gw_job_type *type;
    void *job; /* opened */
    gw_watchdog dog;
    gw_pending pending[GW_REQUESTS];
    uint64_t load_step;       /* step of the state of the latest LOAD */
    gw_token task[GW_TASKS];  /* token of the latest task of each kind; 0 = it has ended */
    uint32_t probed;          /* shard of the latest PROBE */
    bool hangs;               /* a helper or a data thread hangs: closing must not wait for it */
    uint64_t computed, saved; /* counters of progress at the last look */
    uint64_t moved_ns;        /* when any of the tasks made progress last */
    uint64_t task_step[GW_TASKS];
    uint64_t task_ns[GW_TASKS];  /* how long the last task of each kind took; 0: none has ended */
    uint64_t began_ns[GW_TASKS]; /* when the latest task of each kind was given */
    uint64_t leave_ns, grace_ns; /* when this peer was asked to leave, 0: it was not; and --grace */
    bool interrupted;            /* the job has interrupted a task since then */
} gw_progress;

/* Notes a request that an action makes, and one that an event ends; other kinds are ignored. */
void gw_progress_begin(gw_progress *progress, const gw_action *action);
void gw_progress_end(gw_progress *progress, const gw_event *event);

/* Has the compute helper carry out a task, which ends with the event of its kind. */
void gw_progress_task(gw_progress *progress, gw_task_kind kind, const gw_action *action, gw_task_run *run);

/* To be called once a second, after gw_watchdog_look. */
void gw_progress_look(gw_progress *progress);

/* This peer is asked to leave, and has `grace_ns` for it. A task that is under way from then on, and takes
 * much longer than the one before it, is begun anew when three eighths of that time are over, where the
 * job can interrupt it, and then has failed when six are. */
void gw_progress_leave(gw_progress *progress, uint64_t grace_ns);

/* Whether, at the last look, a helper or a thread of this peer hung: closing must not wait for it. */
bool gw_progress_hangs(const gw_progress *progress);
/* Whether, at the last look, a look-up for another peer in this peer's files hung: then the data links
 * cannot be closed. */
bool gw_progress_lookup_hangs(const gw_progress *progress);
/* Whether a LOAD is under way; then *step is that of its state. */
bool gw_progress_loads(const gw_progress *progress, uint64_t *step);
/* After FINISH: whether effects of the job are still under way, for which this process must wait. */
bool gw_progress_commits(gw_progress *progress, uint64_t now_ns);

/* Has the stacks helper log the stacks of all threads whose names begin with `name`. */
void gw_progress_log_stacks(gw_progress *progress, const char *name);

#endif
