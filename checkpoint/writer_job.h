/* The jobs of the writer, shared by its queue (writer.c) and the code that carries them out
 * (writer_job.c). Only these two include this header. */
#ifndef GODWIT_CHECKPOINT_WRITER_JOB_H
#define GODWIT_CHECKPOINT_WRITER_JOB_H

#include "checkpoint/staging.h"
#include "checkpoint/writer.h"

#include <pthread.h>

typedef struct gw_ckpt_job {
    struct gw_ckpt_job *next;
    gw_ckpt_kind kind;
    uint64_t token, tag; /* only snapshots have a tag */
    bool dead;           /* failed, abandoned or closed, as `err` says: no more of the job is begun */
    bool abandoned;      /* chunks that it still pins must be unpinned */
    gw_err err;
    uint64_t bytes, written_bytes, began_us;

    /* Members of snapshots: chunks are staged, then hashed and stored, in the order given. */
    gw_ckpt_request request; /* its array of indices is a copy that the job frees */
    gw_ckpt_chunk *chunks;
    uint8_t **buffers; /* by position; not NULL while staged and not handled */
    uint32_t staged_next, handled, copying;

    /* Members of manifests: the encoded bytes. */
    uint8_t *payload;
    size_t length;

    /* Members of retentions: the roots to keep. */
    gw_hash job_id, *kept;
    uint32_t kept_count;
} gw_ckpt_job;

struct gw_ckpt_writer {
    gw_store *store; /* NULL: only hash-only snapshots succeed */
    gw_ckpt_done_fn *done;
    void *context;
    pthread_t thread;
    pthread_mutex_t
        lock; /* guards everything below and the jobs; not held while copying, hashing or writing */
    pthread_cond_t changed;
    bool stopping, draining;
    gw_ckpt_job *first, **last;
    gw_staging staging;
    gw_ckpt_stats stats;
};

/* Copies one chunk of the first snapshot that has chunks to copy. Called with the lock held, which is
 * released while copying. Returns false if there is nothing to copy or no free buffer. */
bool gw_ckpt_stage_one(gw_ckpt_writer *writer);

/* Whether a snapshot has chunks that are not copied yet. Called with the lock held. */
bool gw_ckpt_is_staging(const gw_ckpt_writer *writer);

/* Ends a job early with error *why; its staged buffers return to the pool at once. Called with the lock
 * held. */
void gw_ckpt_kill(gw_ckpt_writer *writer, gw_ckpt_job *job, const gw_err *why);

/* Carries out the next batch of a snapshot, or the whole of another job. Called with the lock held, which
 * is released meanwhile. Returns true if the job is finished, or dead with no copying under way; false if
 * more is to be done. */
bool gw_ckpt_work(gw_ckpt_writer *writer, gw_ckpt_job *job, bool *progress);

void gw_ckpt_job_free(gw_ckpt_job *job);

#endif
