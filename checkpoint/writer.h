/* The background thread that writes checkpoints while the job goes on, with low CPU and I/O priority.
 *
 * For a checkpoint a peer calls gw_ckpt_snapshot at a step boundary, with the chunks placed on it, and
 * gw_ckpt_finish_staging before the next apply changes the state. The callback brings the hashes of the
 * chunks. When the leader has declared the checkpoint complete, the peer calls gw_ckpt_manifest,
 * gw_store_release(tag), and gw_ckpt_retain with the roots to keep. Until then it may call gw_ckpt_abandon at
 * any time.
 *
 * Jobs are carried out in the order submitted. All functions return at once, except gw_ckpt_finish_staging
 * and gw_ckpt_close. Each successful submission leads to exactly one callback, on the thread of the writer.
 * The callback must be quick and must not call gw_ckpt_close or gw_ckpt_finish_staging.
 *
 * A failed disk (full, read-only, broken) is an error in the callback and nothing more. The thread blocks
 * all signals, so that exceeding a file size limit is an error too, except the real-time signals, by which
 * a watchdog asks a thread for its stack. */
#ifndef GODWIT_CHECKPOINT_WRITER_H
#define GODWIT_CHECKPOINT_WRITER_H

#include "checkpoint/store.h"
#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_ckpt_writer gw_ckpt_writer;

typedef enum gw_ckpt_kind {
    GW_CKPT_SNAPSHOT = 1, /* chunks of the state are hashed and stored, or with hash_only only hashed */
    GW_CKPT_MANIFEST = 2,
    GW_CKPT_RETAIN = 3,
} gw_ckpt_kind;

typedef struct gw_ckpt_chunk {
    uint32_t index;
    gw_hash name;
} gw_ckpt_chunk;

typedef struct gw_ckpt_done {
    gw_ckpt_kind kind;
    uint64_t token;                /* as given with the request */
    bool hash_only;                /* snapshots */
    const gw_ckpt_chunk *chunks;   /* of a snapshot: all, in the order given; valid during the call */
    uint32_t chunk_count;          /* 0 if the job failed */
    uint64_t bytes, written_bytes; /* handled; of these written, as the rest was in the store already */
    uint64_t busy_us;              /* wall time since the job began on the thread of the writer */
    const gw_err *err; /* NULL: all is durable. GW_E_ABORTED: abandoned or closed. Valid during the call */
} gw_ckpt_done;

typedef void gw_ckpt_done_fn(void *context, const gw_ckpt_done *done);

/* Copies image bytes [offset, offset + length) of the state to `bytes`. Called on the thread of the writer
 * and, at the same time, on the thread in gw_ckpt_finish_staging; the state does not change while
 * snapshots are being staged. */
typedef bool gw_ckpt_read_fn(void *context, uint64_t offset, void *bytes, size_t length, gw_err *err);

/* Starts a writer. `store` must be open for writing and outlive the writer; with NULL, if the state
 * directory cannot be used, only hash-only snapshots succeed. `staging_bytes` bounds the staging buffers
 * (at least one chunk): if a snapshot needs more, gw_ckpt_finish_staging waits for the disk. */
bool gw_ckpt_open(gw_store *store, size_t staging_bytes, gw_ckpt_done_fn *done, void *context,
                  gw_ckpt_writer **writer, gw_err *err);
/* Ends the thread. With `drain` all queued jobs are carried out first; otherwise they are aborted, the
 * running one after its current batch. No other call may run at the same time or follow. NULL is allowed. */
void gw_ckpt_close(gw_ckpt_writer *writer, bool drain);

typedef struct gw_ckpt_request {
    uint64_t token;          /* chosen by the caller, passed to the callback */
    uint64_t tag;            /* for pins and for gw_ckpt_abandon; each attempt has its own */
    uint64_t state_bytes;    /* size of the whole image */
    const uint32_t *indices; /* the chunks to take; copied */
    uint32_t count;          /* may be 0: the callback comes all the same */
    bool hash_only;
    gw_ckpt_read_fn *read;
    void *read_context; /* valid until the callback, or until gw_ckpt_finish_staging has returned */
} gw_ckpt_request;

/* Takes a snapshot of the given chunks. They are copied in the background: the state must not change
 * between this call and the return of gw_ckpt_finish_staging. */
bool gw_ckpt_snapshot(gw_ckpt_writer *writer, const gw_ckpt_request *request, gw_err *err);

/* Returns when every snapshot submitted so far is copied, has failed or was abandoned; then the state may
 * change again. The calling thread helps to copy. Costs nothing if there is no snapshot. One thread at a
 * time. */
void gw_ckpt_finish_staging(gw_ckpt_writer *writer);

/* Makes an encoded manifest (copied) durable. */
bool gw_ckpt_manifest(gw_ckpt_writer *writer, uint64_t token, const void *bytes, size_t length, gw_err *err);

/* Deletes the manifests of `job_id` whose roots are not in `kept` (copied), or for whose root there is a
 * newer manifest; then the chunks that no remaining manifest needs and that are not pinned. If a manifest
 * that may be needed cannot be read (gw_catalog_retain, checkpoint/catalog.h), no chunk is deleted and the
 * job ends with GW_E_IO. */
bool gw_ckpt_retain(gw_ckpt_writer *writer, uint64_t token, const gw_hash *job_id, const gw_hash *kept,
                    uint32_t kept_count, gw_err *err);

/* Abandons the snapshots of a tag: those queued or running end with GW_E_ABORTED soon, and the pins of the
 * tag are released. Manifests and retentions go on. The tag should not be used again; each attempt has its
 * own. */
void gw_ckpt_abandon(gw_ckpt_writer *writer, uint64_t tag);

typedef struct gw_ckpt_stats {
    uint32_t queued;                      /* jobs that are not finished */
    uint64_t hashed_bytes, written_bytes; /* since open; they grow by batches of some chunks */
    uint64_t disk_changes;                /* as gw_store_changes counts them; 0 without a store */
    uint64_t hash_us, write_us;           /* wall time the thread spent on each */
    uint64_t staging_bytes;               /* buffers allocated now */
} gw_ckpt_stats;

/* Reads the counters. Any thread. */
void gw_ckpt_stats_read(gw_ckpt_writer *writer, gw_ckpt_stats *stats);

#endif
