/* Who runs what on a standing flock. Every member computes the allotment from the same records, lives, capacities and
 * claims, and gets the same: no coordinator hands out nodes. Integers only.
 *
 * Jobs are placed in the order of (place, id), where place = counter - 128 * priority: a priority is worth 128 places
 * in the row, so that none starves. A job outranks another one if it comes 64 places or more before it, or comes before
 * it, has never started, and was submitted earlier.
 *
 *   1  Each job gets its least: of the nodes that it claims the first `least`, its core, and others where these do not
 *      suffice: beside all claims; else instead of what others claim beyond their cores; else instead of cores of jobs
 *      that it outranks, the last in order first. In a core, nodes on which the job runs come before those on which it
 *      is about to, so that none on which it runs gives way before it runs on another one; both are in the order of
 *      rendezvous hashing. A node whose GPUs the job does not need is taken last, the fullest first. A job that gets
 *      less than its least waits, unless it runs already and is not rigid: it goes on with what it has.
 *   2  What is left is dealt one node at a time to the job that has least by its shares, until each has its most: a
 *      node of its own claims, else one beside all claims, else one instead of what another claims beyond its core.
 *
 * A change of these rules, or of those by which jobs are placed at all (decide.h), is another version of the allotment.
 * While a flock is upgraded, member by member, all compute the least version that live members tell in their claims
 * (claims.h): gw_decide finds it among the lists that it decides by. Versions 1 and 2 differ there alone.
 *
 * (Rendezvous hashing: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.)
 * Pure; any thread. */
#ifndef GODWIT_CORE_FLOCK_ALLOT_H
#define GODWIT_CORE_FLOCK_ALLOT_H

#include "core/flock/record.h"

enum {
    GW_ALLOT_VERSION = 2 /* the latest that this build computes */,
    GW_ALLOT_PLACES = 128 /* of a priority */
};

/* What a child of a job needs of a node, and what a node has. */
typedef struct gw_allot_need {
    uint32_t cores, memory_mib, gpus;
} gw_allot_need;

typedef struct gw_allot_job {
    gw_job_record_id id;
    uint64_t counter; /* of its submission */
    int32_t priority;
    uint32_t least, most; /* nodes; 1 <= least <= most */
    uint32_t shares;      /* at least 1 */
    gw_allot_need need;
    uint32_t compute_class; /* 0: any */
    bool rigid;             /* it cannot go on with less than its least */
    bool started;
    const uint32_t *struck; /* indices of nodes that it may not have, rising */
    uint32_t struck_count;
} gw_allot_job;

typedef struct gw_allot_node {
    gw_peer_id id;
    gw_allot_need has; /* all of it */
    uint32_t compute_class;
} gw_allot_node;

/* A job claims a node: it runs there, or is about to. */
typedef struct gw_allot_claim {
    uint32_t job, node; /* indices */
    bool runs;
} gw_allot_claim;

/* A job is given a node. */
typedef struct gw_allot_pair {
    uint32_t job, node; /* indices */
} gw_allot_pair;

typedef struct gw_allot_input {
    const gw_allot_job *jobs; /* that are not over and not held, in any order */
    uint32_t job_count;
    const gw_allot_node *nodes; /* that live and take children, in any order */
    uint32_t node_count;
    const gw_allot_claim *claims; /* in any order */
    uint32_t claim_count;
} gw_allot_input;

typedef struct gw_allotment {
    gw_allot_pair *pairs; /* by job, then by node */
    uint32_t count;
    bool *waits; /* of each job */
} gw_allotment;

/* Computes the allotment, which the caller frees. Running out of memory ends the process. */
gw_allotment gw_allot(const gw_allot_input *input);
void gw_allotment_free(gw_allotment *allotment);

/* The place of a job in the row. */
int64_t gw_allot_place(const gw_allot_job *job);
/* Whether `job` may take what `other` holds as its least. */
bool gw_allot_outranks(const gw_allot_job *job, const gw_allot_job *other);

#endif
