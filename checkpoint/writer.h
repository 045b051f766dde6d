/* The background thread that writes checkpoints behind the run, with low CPU and I/O priority.
 *
 * What one peer does for a checkpoint: `gw_ckpt_snapshot` at a step boundary with the chunks placed on it;
 * `gw_ckpt_finish_staging` before the next apply changes the state; the callback brings the chunks' hashes;
 * when the leader has called the checkpoint complete, `gw_ckpt_manifest`, `gw_store_release(tag)`, and
 * `gw_ckpt_retain` with the roots that are to stay. `gw_ckpt_abandon` at any time before.
 *
 * Jobs are carried out in the order given. Functions return at once but for gw_ckpt_finish_staging and
 * gw_ckpt_close; each successful submission leads to exactly one callback, on the writer's thread (or, for
 * what was still queued, on the closing one). The callback must be quick and must not call gw_ckpt_close or
 * gw_ckpt_finish_staging.
 *
 * A failed disk (full, read-only, broken) is an error in the callback and nothing more. The thread blocks all
 * signals, so that a file size limit is an error too, but for the real-time ones, by which a watchdog asks a
 * thread where it is. */
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
    GW_CKPT_SNAPSHOT = 1, /* chunks of the state hashed and stored (or, hash_only, just hashed) */
    GW_CKPT_MANIFEST = 2,
    GW_CKPT_RETAIN = 3,
} gw_ckpt_kind;

typedef struct gw_ckpt_chunk {
    uint32_t index;
    gw_hash name;
} gw_ckpt_chunk;

typedef struct gw_ckpt_done {
    gw_ckpt_kind kind;
    uint64_t token;                /* the one given with the request */
    bool hash_only;                /* snapshots */
    const gw_ckpt_chunk *chunks;   /* snapshots: all, in the order given. Valid during the call */
    uint32_t chunk_count;          /* 0 when it failed */
    uint64_t bytes, written_bytes; /* handled; of these written (the rest was there already) */
    uint64_t busy_us;              /* wall time from its start on the writer's thread */
    const gw_err *err; /* NULL: all durable. GW_E_ABORTED: abandoned or closed. Valid during the call */
} gw_ckpt_done;

typedef void gw_ckpt_done_fn(void *context, const gw_ckpt_done *done);

/* Copies image bytes [offset, offset + length) of the state to `bytes`. Called on the writer's thread and on
 * the one in gw_ckpt_finish_staging, at once; the state does not change while snapshots are being staged. */
typedef bool gw_ckpt_read_fn(void *context, uint64_t offset, void *bytes, size_t length, gw_err *err);

/* `store` must be open for writing and outlive the writer; with NULL (the state directory cannot be used)
 * only hash-only snapshots succeed. `staging_bytes` bounds the staging buffers (at least one chunk): when a
 * snapshot needs more, gw_ckpt_finish_staging waits for the disk. */
bool gw_ckpt_open(gw_store *store, size_t staging_bytes, gw_ckpt_done_fn *done, void *context,
                  gw_ckpt_writer **writer, gw_err *err);
/* Ends the thread. drain: everything queued is carried out first; otherwise what has not begun is aborted,
 * and what has ends after the batch in hand. No other call may run or follow. NULL is allowed. */
void gw_ckpt_close(gw_ckpt_writer *writer, bool drain);

typedef struct gw_ckpt_request {
    uint64_t token;          /* the caller's, for the callback */
    uint64_t tag;            /* for pins and for gw_ckpt_abandon; one per attempt */
    uint64_t state_bytes;    /* the whole image's */
    const uint32_t *indices; /* which chunks; copied */
    uint32_t count;          /* 0 is allowed: the callback comes all the same */
    bool hash_only;
    gw_ckpt_read_fn *read;
    void *read_context; /* valid until the callback, or until gw_ckpt_finish_staging has returned */
} gw_ckpt_request;

/* Takes a snapshot of the given chunks. The copying is done behind the caller; from here until
 * gw_ckpt_finish_staging has returned the state must not change. */
bool gw_ckpt_snapshot(gw_ckpt_writer *writer, const gw_ckpt_request *request, gw_err *err);

/* Returns when every snapshot submitted so far is copied (the caller's thread helps), failed or was
 * abandoned: the state may change again. Costs nothing when there is none. One thread at a time. */
void gw_ckpt_finish_staging(gw_ckpt_writer *writer);

/* Makes an encoded manifest (copied) durable. */
bool gw_ckpt_manifest(gw_ckpt_writer *writer, uint64_t token, const void *bytes, size_t length, gw_err *err);

/* Deletes the manifests of `job_id` whose roots are not in `kept` (copied) or have a newer one, then the
 * chunks that no manifest left needs and nobody has pinned. When a kept manifest that is here, or any one
 * that is not damaged, cannot be read no chunk is deleted (checkpoint/catalog.h), and it ends with GW_E_IO.
 */
bool gw_ckpt_retain(gw_ckpt_writer *writer, uint64_t token, const gw_hash *job_id, const gw_hash *kept,
                    uint32_t kept_count, gw_err *err);

/* Gives up the snapshots of a tag, which should not be used again (give each attempt its own): those
 * queued or running end with GW_E_ABORTED soon, and the tag's pins are released. Its manifests and retentions
 * are not touched. */
void gw_ckpt_abandon(gw_ckpt_writer *writer, uint64_t tag);

typedef struct gw_ckpt_stats {
    uint32_t queued;                      /* jobs not finished */
    uint64_t hashed_bytes, written_bytes; /* since open, by batches of some chunks */
    uint64_t disk_changes;                /* gw_store_changes; 0 without a store */
    uint64_t hash_us, write_us;           /* wall time the thread spent on each */
    uint64_t staging_bytes;               /* buffers allocated now */
} gw_ckpt_stats;

/* Any thread. */
void gw_ckpt_stats_read(gw_ckpt_writer *writer, gw_ckpt_stats *stats);

#endif
