/* The children of a member: the processes that it runs for jobs, each under a keeper (keeper.h), in a folder
 * DIR/jobs/ID of its own:
 *
 *   state/        of a job of steps: the directory of its peer
 *   work/         the working directory of a job that has none of its own, with the files that travel
 *   key           of the flock of the job's children
 *   siblings      addresses of the job's other children, which `godwit run --join file:` follows
 *
 * A member that starts adopts the children that run, and accounts for those that have ended meanwhile.
 *
 * Thread: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_CHILDREN_H
#define GODWIT_TOOLS_GODWIT_FLOCK_CHILDREN_H

#include "core/flock/spec.h"
#include "net/loop/loop.h"
#include "tools/godwit/flock/keeper.h"
#include "tools/godwit/limit/group.h"

/* A file in the folder of a job, from the first start of a child here on. */
#define GW_CHILD_KIND_NAME "kind"

/* Files in the folder of a map (tools/godwit/map/child): of one that is tried again the rows of the old one, and its own;
 * what its tasks have written here, and, with a dot and the id of a member behind, a copy of what they have there. */
#define GW_CHILD_ROWS_BEFORE "rows-before"
#define GW_CHILD_ROWS        "rows"
#define GW_CHILD_OUTPUTS     "outputs"

typedef struct gw_children gw_children;

/* What a child's end means for its job. */
typedef enum gw_child_verdict {
    GW_CHILD_LEFT,    /* nothing: it left as asked, or its keeper or its machine has ended */
    GW_CHILD_DONE,    /* the job is done */
    GW_CHILD_STOPPED, /* the job's user has stopped it */
    GW_CHILD_FAILED,  /* this round has failed */
    GW_CHILD_FATAL,   /* it would fail alike everywhere */
    GW_CHILD_STRUCK, /* it is this node's fault, as far as one can tell: the job is not to be started here again */
} gw_child_verdict;

typedef struct gw_child_end {
    gw_job_record_id id;
    gw_job_kind kind;
    uint32_t round;
    gw_child_verdict verdict;
    uint32_t code; /* exit code, or 128 + signal; and GW_JOB_ROUND_OUT_OF_MEMORY */
    gw_hash hash;  /* of the result, where it is done or stopped */
    double began, when;
    uint32_t killed; /* of a map that was killed while it ran tasks: the number of that (running.h), else 0 */
    char text[300];  /* for people */
} gw_child_end;

typedef struct gw_children_events {
    void *context;
    /* A child has ended. It is told again after a restart of the member unless gw_children_account was called. */
    void (*ended)(void *context, const gw_child_end *end);
} gw_children_events;

/* How a child is asked to end. */
typedef enum gw_child_stop {
    GW_CHILD_STOP_LATER, /* what it is at may take as long as it likes: of a map, the tasks that run */
    GW_CHILD_STOP_SOON,  /* it is killed after the member's grace_s */
    GW_CHILD_STOP_NOW, /* as the job is over: a map ends the tasks that run, and others may like some time as before */
} gw_child_stop;

typedef struct gw_child {
    gw_job_record_id id;
    gw_job_kind kind;
    uint32_t round;
    bool leaving;       /* it was asked to end */
    gw_child_stop stop; /* in which way */
    uint16_t port;
    double began;
    cpu_set_t cores; /* the processors that it runs on; none: this is not known */
} gw_child;

/* Opens DIR/jobs, and adopts the children that run. The ends of others come from the loop. `directory` and `groups`, in
 * which each child is to have a control group, are copied. */
gw_children *gw_children_open(gw_loop *loop, const char *directory, const gw_groups *groups,
                              const gw_children_events *events, gw_err *err);
/* Lets the children run. NULL is allowed. */
void gw_children_close(gw_children *children);

/* Where a child of a RUN listens: an address and a port. */
typedef struct gw_child_place {
    const char *host; /* numeric */
    uint16_t port;
    uint32_t grace_s;
    const cpu_set_t *cores; /* the processors that it runs on; NULL: any */
    const char *name;       /* of the node */
    const char *directory;  /* where the command runs; NULL: in work/ in the job's folder */
    const char *program;    /* of Godwit, for a RUN: its file stays when another build is installed */
} gw_child_place;

/* Starts a child. Fails where its folder cannot be written or no process can be made. */
bool gw_children_start(gw_children *children, const gw_job_record_id *id, const gw_job_spec *spec,
                       uint32_t round, const gw_child_place *place, gw_err *err);
/* Has a child run on other processors. Does nothing where there is none, or it runs on these. */
void gw_children_set_cores(gw_children *children, const gw_job_record_id *id, const cpu_set_t *cores);
/* Asks a child to end, unless it was asked so or more urgently before. Does nothing where there is none. */
void gw_children_stop(gw_children *children, const gw_job_record_id *id, gw_child_stop how);
/* Asks all children to end soon. */
void gw_children_stop_all(gw_children *children);
/* Writes the addresses of a job's other children where they have changed. */
void gw_children_tell_siblings(gw_children *children, const gw_job_record_id *id, const gw_addr *addrs,
                               uint32_t count);
/* The end of a child is durable in its job's record. Does nothing where no end was told. */
void gw_children_account(gw_children *children, const gw_job_record_id *id);

uint32_t gw_children_count(const gw_children *children);
const gw_child *gw_children_at(const gw_children *children, uint32_t index);
const gw_child *gw_children_find(const gw_children *children, const gw_job_record_id *id);
/* Writes the folder of a job on this node. */
bool gw_children_folder(const gw_children *children, const gw_job_record_id *id,
                        char folder[GW_KEEPER_FOLDER_TEXT], gw_err *err);

/* What an end means, for a test: `outcome` and `text` of the last event of a RUN's journal, or NULL. `away`:
 * it ran where the job's directory is not, and its options may name what is in that. Pure. */
gw_child_verdict gw_child_judge(gw_job_kind kind, const gw_keeper_end *end, const char *outcome, bool away);

#endif
