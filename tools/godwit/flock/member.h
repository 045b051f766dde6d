/* A member of a standing flock (`godwit up`): it finds the others by gossip, exchanges records of jobs and claims with
 * them (core/flock), and runs the children that the allotment gives it. The commands of the flock speak with it through
 * its door (door.h):
 *
 *   {"do": "hello"}                            who this member is, and what a submission needs to know
 *   {"do": "put", "chunks": [...]}             chunks of the files that travel with jobs (stock.c)
 *   {"do": "submit", "spec": {...}}            a job (submission.h); answered when two disks have it and its files, or
 *                                              when that takes too long
 *   {"do": "again", "job": ID, "nonce": ..., "key": ..., "counter": N, "when": MS}    a job that was not done, anew
 *   {"do": "results" | "result", "job": ID, "node": ID, ...}    what the job has left on a node (stock.c)
 *   {"do": "bring", "job": ID}                 its newest checkpoint, which comes into jobs/ of this member
 *   {"do": "jobs" [, "jobs": [ID...]]}         all of them, or these
 *   {"do": "nodes"}                            all of them
 *   {"do": "change", "job": ID, "cancel": true | "hold": BOOL | "priority": N}
 *   {"do": "log", "job": ID, "stream": "out" | "err" | "rows" | "outputs" | "history", "offset": N [, "node": ID]}     a piece of a child's output
 *   {"do": "wait", "jobs": [ID...], "seconds": N}                                     until they are over
 *   {"do": "drain", "node": ID, "on": BOOL}
 *   {"do": "forget", "before": SECONDS}        drops what is left of jobs that were over before a time, here alone
 *   {"do": "down"}                             asks the children to end, and ends when they have
 *
 * A member's directory holds its identity and lock as a peer's does, the records (store.h), `members`, which are those
 * that it has met within a day, and jobs/ (children.h).
 *
 * Thread: main. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_MEMBER_H
#define GODWIT_TOOLS_GODWIT_FLOCK_MEMBER_H

#include "core/base/err.h"
#include "core/flock/allot.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { GW_MEMBER_SEEDS = 64 };

/* The file that `godwit submit` leaves in the directory of a job, with 32 hexadecimal digits: a node that finds them there
 * has that very directory. */
#define GW_MEMBER_TOKEN_NAME ".godwit-token"

typedef struct gw_member_options {
    const char *directory;
    const char *listen, *advertise; /* HOST:PORT; advertise may be NULL */
    const char *http;               /* HOST:PORT, where browsers see the queue; NULL: nowhere */
    const char *flock;              /* its name */
    const char *key_file;           /* NULL: loopback only */
    const char *name;               /* of the node; NULL: the host's */
    char *seeds[GW_MEMBER_SEEDS];
    uint32_t seed_count;
    gw_allot_need has;            /* what children may use; 0 cores or memory: what is here */
    uint16_t port_low, port_high; /* that children may listen on; 0: any */
    uint64_t gate_ns, takeover_ns;
    uint32_t grace_s; /* that children have to end */
    bool drained;
} gw_member_options;

/* The default directory of a member on this machine, for `godwit up` and for the commands: GODWIT_FLOCK, or
 * godwit/flock/MACHINE in XDG_STATE_HOME. Returns text that the caller frees. */
char *gw_member_directory(void);

/* Runs a member until a signal or a command ends it. Returns the exit code; fails where it could not start. */
int gw_member_run(const gw_member_options *options, gw_err *err);

/* Whether a job, as an answer shows it, is over by its "state". Any thread. */
bool gw_member_job_is_over(const json_t *job);

#endif
