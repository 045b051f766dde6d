/* Checkpoints of one peer: snapshots, manifests and retention, in the background (checkpoint/writer.h).
 * Each request of the brain ends with one event.
 *
 * Threads: the loop's, unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_SAVE_H
#define GODWIT_TOOLS_GODWIT_WORK_SAVE_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "core/brain/world.h"
#include "core/godwit.h"
#include "kernels/device/device.h"
#include "tools/godwit/receipt/receipts.h"
#include "tools/godwit/thread/mail.h"

/* The parameter of a manifest that has the chain's value of the job's receipts after its step, as 16 hexadecimal
 * digits; a checkpoint whose chain was not known has none. It is no part of the job's identity. */
#define GW_SAVER_CHAIN "receipt-chain"

typedef struct gw_saver gw_saver;

typedef struct gw_saver_options {
    gw_store *store; /* outlives the saver */
    gw_device *device;
    gw_mailbox *mail;
    const gw_plan *plan;
    const char *job_name;
    gw_hash job_id;
    const char *best_by;    /* what --keep-best compares, which manifests record; "": nothing */
    const gw_param *params; /* of the identity; copied */
    uint32_t param_count;
    gw_receipts *receipts; /* outlive the saver; NULL: manifests tell no chain */
} gw_saver_options;

/* The most memory that a saver takes for a state of so many bytes: the chunks that it holds while the disk
 * writes. */
uint64_t gw_saver_need(uint64_t image_bytes);
/* NULL on failure. */
gw_saver *gw_saver_open(const gw_saver_options *options, gw_err *err);
/* Writes everything that is queued first. NULL is allowed. */
void gw_saver_close(gw_saver *saver);

/* The actions SAVE, MANIFEST and RETAIN of core/brain/world.h. */
void gw_saver_save(gw_saver *saver, const gw_action *action);
void gw_saver_manifest(gw_saver *saver, const gw_action *action);
void gw_saver_retain(gw_saver *saver, const gw_action *action);
/* The compute helper calls it before it changes the state: waits until no snapshot is being copied. */
void gw_saver_staged(gw_saver *saver);
/* Any thread: stores a manifest that came from another peer (encoded bytes, checked). */
void gw_saver_keep_manifest(gw_saver *saver, uint64_t step, const void *bytes, size_t length);
/* The action ABANDON. */
void gw_saver_abandon(gw_saver *saver);
/* Any thread: a counter that changes while the writer or the disk makes progress. */
uint64_t gw_saver_moved(gw_saver *saver);
/* Any thread: bytes of chunks written to disk since the start. */
uint64_t gw_saver_written(gw_saver *saver);

enum { GW_LACK_TEXT = 320 };

/* What a directory has of a job at the start. */
typedef struct gw_found {
    gw_inventory *list; /* the job's checkpoints, newest first, as gw_peer_config has them */
    uint32_t count;
    bool orphans;       /* there are chunks that no manifest names, of whatever job */
    gw_manifest newest; /* of this job, or where it has none, of another one; job_name empty: of none */
    const gw_inventory *whole; /* the newest of `list` whose chunks are all here; NULL: there is none */
    /* Bytes of chunks that only checkpoints before `whole` need, the best one left out: a last state takes
     * their room where there is no other. */
    uint64_t older_bytes;
    char lack[GW_LACK_TEXT]; /* the chunks that the newest checkpoint lacks here, in words; "": none */
} gw_found;

/* Looks for the checkpoints of this job on disk. A damaged manifest is logged and left out. gw_found_free
 * frees what was found, also after a failure. */
bool gw_found_load(gw_store *store, const gw_hash *job_id, uint64_t state_bytes, gw_found *found,
                   gw_err *err);
void gw_found_free(gw_found *found);

#endif
