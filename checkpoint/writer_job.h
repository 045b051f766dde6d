/* The writer's jobs, shared by its queue (writer.c) and by what carries them out (writer_job.c). Internal to
 * this room. */
#ifndef GODWIT_CHECKPOINT_WRITER_JOB_H
#define GODWIT_CHECKPOINT_WRITER_JOB_H

#include "checkpoint/staging.h"
#include "checkpoint/writer.h"

#include <pthread.h>

typedef struct gw_ckpt_job {
    struct gw_ckpt_job *next;
    gw_ckpt_kind kind;
    uint64_t token, tag; /* tag: of a snapshot */
    bool dead;           /* failed, abandoned or closed: nothing more of it is begun; `err` says why */
    bool abandoned;      /* what it still pins must be unpinned */
    gw_err err;
    uint64_t bytes, written_bytes, began_us;

    /* Snapshots. Chunks are staged, then handled, in the order given. */
    gw_ckpt_request request; /* its indices are ours */
    gw_ckpt_chunk *chunks;
    uint8_t **buffers; /* by position; set while staged and not handled */
    uint32_t staged_next, handled, copying;

    /* Manifests. */
    uint8_t *payload;
    size_t length;

    /* Retention. */
    gw_hash job_id, *kept;
    uint32_t kept_count;
} gw_ckpt_job;

struct gw_ckpt_writer {
    gw_store *store; /* NULL: only hash-only snapshots work */
    gw_ckpt_done_fn *done;
    void *context;
    pthread_t thread;
    pthread_mutex_t lock; /* everything below, and the jobs; not held while copying, hashing or writing */
    pthread_cond_t changed;
    bool stopping, draining;
    gw_ckpt_job *first, **last;
    gw_staging staging;
    gw_ckpt_stats stats;
};

/* Copies one chunk of the first snapshot that has one to copy and gets a buffer. Called with the lock held,
 * which is given up while copying. False: nothing to copy, or no buffer. */
bool gw_ckpt_stage_one(gw_ckpt_writer *writer);

/* Whether a snapshot has chunks that are not copied yet. Lock held. */
bool gw_ckpt_is_staging(const gw_ckpt_writer *writer);

/* Ends a job early, with an error that is set already; its staged buffers go back at once. Lock held. */
void gw_ckpt_kill(gw_ckpt_writer *writer, gw_ckpt_job *job, const gw_err *why);

/* Carries out the next batch of a job (all of it, for other kinds than snapshots). Lock held, given up
 * meanwhile. True when the job is finished or dead with nothing under way; false when it waits for staging.
 */
bool gw_ckpt_work(gw_ckpt_writer *writer, gw_ckpt_job *job, bool *progress);

void gw_ckpt_job_free(gw_ckpt_job *job);

#endif
