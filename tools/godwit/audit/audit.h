/* Compares steps that are computed again (rerun.h) with the receipts in the directories of peers, and says what
 * differs: which step, in its sum or in the state that came of it, which shard, and who added that.
 *
 * One thread; calls take as long as the steps do. */
#ifndef GODWIT_TOOLS_GODWIT_AUDIT_AUDIT_H
#define GODWIT_TOOLS_GODWIT_AUDIT_AUDIT_H

#include "tools/godwit/audit/rerun.h"
#include "tools/godwit/audit/samples.h"

enum { GW_AUDIT_TEXT = 600 };

typedef enum gw_audit_kind {
    GW_AUDIT_FILE, /* a receipt does not fit the one before it: the file was changed, or its disk damaged it */
    GW_AUDIT_START,  /* the state from which the audit begins is not that of the receipt */
    GW_AUDIT_SUM,    /* the sum of the step differs */
    GW_AUDIT_STATE,  /* the sum is right, and the state after the step differs */
    GW_AUDIT_TENSOR, /* tensors of a checkpoint of the step differ */
} gw_audit_kind;

typedef struct gw_audit_finding {
    gw_audit_kind kind;
    uint32_t dir; /* index of the directory that differs */
    uint64_t step;
    /* SUM: whether what this directory's peer added is known, and differs; the one shard that does, UINT32_MAX
     * where it is none alone. */
    bool own_part;
    uint32_t shard;
    gw_audit_samples samples; /* of that shard */
    gw_receipt seen, right;
    char text[GW_AUDIT_TEXT]; /* a sentence without the directory */
} gw_audit_finding;

typedef struct gw_audit {
    gw_rerun *rerun;
    char *const *dirs; /* of peers of this job */
    uint32_t dir_count;
    /* Called after each step; NULL: nobody is told. */
    void (*progress)(void *context, const gw_remade *step);
    void *context;
    /* Results. */
    uint64_t first, last; /* steps that were computed again; last 0: none */
    uint32_t shards;      /* of the last of them */
    uint64_t compared;    /* receipts that were compared */
    gw_audit_finding *findings;
    uint32_t count;
} gw_audit;

/* Computes steps from the rerun's state up to the one after which `last` steps are done, and compares, until a
 * step differs, whose findings are noted: those after it follow from it. Fails where a step cannot be computed, and
 * with GW_E_NOTFOUND where none of the directories has a receipt of any of the steps. */
bool gw_audit_follow(gw_audit *audit, uint64_t last, gw_err *err);
/* Compares the rerun's state with a checkpoint of the same step, and notes the tensors that differ. */
bool gw_audit_compare_state(gw_audit *audit, uint32_t dir, gw_checkpoint *checkpoint, gw_err *err);
/* Follows the chain of the receipts in a directory, from its first receipt to its last, and notes the first that does
 * not fit the one before it. *first and *last become the steps; last 0: there are no receipts of this job. */
bool gw_audit_check_chain(gw_audit *audit, uint32_t dir, uint64_t *first, uint64_t *last, gw_err *err);
void gw_audit_free(gw_audit *audit); /* the findings */

/* Where two runs part. */
typedef struct gw_audit_parting {
    uint64_t first, last; /* the steps of which both have receipts; last 0: there are none */
    uint64_t step;        /* the first that differs; 0: none does */
    bool sums;            /* its sums differ; otherwise only the states do */
    gw_receipt one, other;
} gw_audit_parting;

/* Compares the receipts of job `job` in `dir` with those of job `other_job` in `other`. Coverage counts where the
 * jobs are one. */
bool gw_audit_part(const char *dir, const gw_hash *job, const char *other, const gw_hash *other_job,
                   gw_audit_parting *parting, gw_err *err);

/* The job whose receipts are in a directory: the one whose id begins with `digits`, or with NULL the one whose
 * receipts were written last. Fails with GW_E_NOTFOUND. */
bool gw_audit_find_job(const char *dir, const char *digits, gw_hash *job, gw_err *err);

#endif
