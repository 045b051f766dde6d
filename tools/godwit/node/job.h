/* The job that a node runs: the job's code, its plan, and its identity, which is what must be alike on every
 * peer of a job.
 *
 * The identity is text, one "name=value" a line. Its hash is the job's id, and two peers that differ can name
 * the first line that does.
 *
 * Threads: the main thread opens, identifies and closes; the rest is any thread's, as nothing changes in
 * between. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_JOB_H
#define GODWIT_TOOLS_GODWIT_NODE_JOB_H

#include "checkpoint/manifest.h"
#include "core/os/directory.h"
#include "kernels/device/device.h"
#include "tools/godwit/node/best.h"
#include "tools/godwit/node/origin.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/weights/model.h"
#include "tools/godwit/work/workers/workers.h"

typedef struct gw_node_job {
    const gw_run_options *options; /* borrowed */
    gw_params params;              /* of the options, with the state from which the job goes on */
    gw_node_origin origin;         /* that state; owned */
    gw_model first_model;          /* the weights of --init, with which the job begins; memory NULL = none */
    void *instance;                /* what the job's functions get */
    bool open;
    gw_plan plan;
    gw_node_best best; /* --keep-best and --patience */
    uint64_t steps;    /* of the job and of --steps the smaller number; UINT64_MAX = no end is known */
    /* Fingerprint of the initial state and, with one compute class, of a shard of the first step. */
    uint64_t probe;
    char *identity;
    gw_hash id;
    char parent_text[GW_HASH_TEXT], root_text[GW_HASH_TEXT], step_text[24]; /* gw_node_job_manifest_params */
    bool begun_now; /* gw_node_job_begin found no record of the job in the directory, and made one */
} gw_node_job;

/* Loads the weights of --init, opens the job with the first of these states (gw_node_origins_find) from
 * which it went on before or else with the last one, which is moved out of the list, and has it describe
 * its plan. After a failure, too, gw_node_job_close is called. `job` is zeroed before. */
bool gw_node_job_open(gw_node_job *job, const gw_run_options *options, gw_node_origin *origins,
                      uint32_t count, gw_err *err);
void gw_node_job_close(gw_node_job *job);

/* Whether peers of other compute classes may take part. Members get the same float sums, whatever computed
 * them, and applying them is the same on every device. Shards that two peers compute and compare (--verify)
 * have the same bits within one class only. */
bool gw_node_job_mixes_classes(const gw_node_job *job);

/* Computes the probe on the workers, then the identity and the job's id, and gives the device its key. */
bool gw_node_job_identify(gw_node_job *job, gw_device *device, gw_workers *workers, gw_err *err);

/* The step with which the job begins, for gw_peer_config. */
uint64_t gw_node_job_first_step(const gw_node_job *job);

/* The parameters that are part of the identity, in the order of the job's table; the caller frees the
 * list. */
gw_param *gw_node_job_shared_params(const gw_node_job *job, uint32_t *count);

/* The parameters that manifests have: those of the identity, what else the job has recorded, and the state
 * from which it went on. The caller frees the list; its texts live as long as `job`. */
gw_param *gw_node_job_manifest_params(gw_node_job *job, uint32_t *count);

/* With --continue: makes the parent's checkpoint one of this job (gw_node_origin_import). */
bool gw_node_job_import(gw_node_job *job, gw_store *store, gw_err *err);

/* Records in the directory that the job was begun there, in a file with the job's identity. `other` is the
 * newest checkpoint of another job if the directory has none of this one, and otherwise NULL. In a
 * directory of another job this job is begun only with --fresh or --continue, or if it was begun there
 * before; otherwise the call fails with GW_E_USAGE and names what differs. A job with one value changed is
 * another job, and a user who mistyped the value should not train from step 0. */
bool gw_node_job_begin(gw_node_job *job, gw_directory *directory, const gw_manifest *other, gw_err *err);
/* Removes what gw_node_job_begin and gw_node_job_import have just left of a job that was begun by this
 * process for the first time: the peer was turned away or could not start, and nobody can go on with the
 * job. */
void gw_node_job_take_back(const gw_node_job *job, gw_directory *directory);

#endif
