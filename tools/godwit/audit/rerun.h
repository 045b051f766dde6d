/* Steps of a job, computed again on this machine alone, without peers and without effects outside: from a
 * checkpoint or from the beginning, with the fingerprint of every shard on the way.
 *
 * Threads: one thread calls; the shards and the units run on threads of the rerun's own. Every call may take
 * long. */
#ifndef GODWIT_TOOLS_GODWIT_AUDIT_RERUN_H
#define GODWIT_TOOLS_GODWIT_AUDIT_RERUN_H

#include "core/os/directory.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/receipt/receipt.h"
#include "tools/godwit/weights/checkpoint.h"

typedef struct gw_rerun gw_rerun;

/* Opens the job of the options, which must outlive the rerun, as a peer in this directory would, and a device of
 * the kind that they name, with options->workers threads. Changes nothing in the directory. Fails as a start of
 * the peer does, and with GW_E_UNSUPPORTED where the job's shards have payload that earlier steps made, or its
 * sums are floats, which nobody can compute again. NULL on failure. */
gw_rerun *gw_rerun_open(const gw_run_options *options, gw_directory *directory, gw_err *err);
void gw_rerun_close(gw_rerun *rerun); /* NULL is allowed */

/* The job's id and identity as this machine computes it; its plan; the state with which it begins. */
const gw_hash *gw_rerun_job(const gw_rerun *rerun);
const char *gw_rerun_identity(const gw_rerun *rerun);
const gw_plan *gw_rerun_plan(const gw_rerun *rerun);
uint64_t gw_rerun_first_step(const gw_rerun *rerun);
/* The number of steps of the whole job; UINT64_MAX: no end is known. */
uint64_t gw_rerun_steps(const gw_rerun *rerun);

/* Makes the first state of a job that does not go on from another one. */
bool gw_rerun_begin(gw_rerun *rerun, gw_err *err);
/* Reads the state from a checkpoint of this job. Fails with GW_E_CORRUPT where the checkpoint's chunks do not
 * have the fingerprint that its manifest states. */
bool gw_rerun_load(gw_rerun *rerun, gw_checkpoint *checkpoint, gw_err *err);
/* Steps done in the present state, and its fingerprint. */
uint64_t gw_rerun_at(const gw_rerun *rerun);
uint64_t gw_rerun_state(const gw_rerun *rerun);
/* Copies bytes of the state's image. */
bool gw_rerun_read(gw_rerun *rerun, uint64_t offset, uint64_t bytes, void *to, gw_err *err);

typedef struct gw_remade {
    uint64_t step;      /* steps done, including this one */
    bool evaluates;     /* its phase */
    gw_receipt receipt; /* without a chain */
    uint32_t shards;
    const uint64_t *print; /* fingerprints of the shards; valid until the next call */
    bool skipped;          /* the sum was not finite, and the update is left out (--on-bad skip) */
    char report[200];      /* what the job says of the step */
} gw_remade;

/* Computes the next step. */
bool gw_rerun_step(gw_rerun *rerun, gw_remade *step, gw_err *err);
/* The number of shards of the next step. */
bool gw_rerun_shards(gw_rerun *rerun, uint32_t *shards, gw_err *err);
/* Computes one shard of the next step and changes nothing. */
bool gw_rerun_shard(gw_rerun *rerun, uint32_t shard, uint64_t *print, gw_err *err);

/* What one shard adds to the sums of its step, by itself. NAN: the job has no such sum. */
typedef struct gw_shard_measure {
    double norm;   /* Euclidean, of all that it adds to sums of several elements: of its gradient */
    double report; /* what it adds to the report's sum */
    uint64_t bad;  /* elements that are not finite or too large, and count 0 */
} gw_shard_measure;

/* Computes one shard of the next step, measures it, and changes nothing. The sum of the report `key` is the sum of one
 * element that is called so, or whose name ends with the same word: "loss" or "sum.loss" for "val_loss". */
bool gw_rerun_measure(gw_rerun *rerun, uint32_t shard, const char *key, gw_shard_measure *measure,
                      gw_err *err);
/* Has the job tell the samples of a shard of the step behind which `step` steps are done. Fails with
 * GW_E_UNSUPPORTED where it does not tell them. */
bool gw_rerun_samples(gw_rerun *rerun, uint64_t step, uint32_t shard, gw_sample_sink *sink, gw_err *err);

#endif
