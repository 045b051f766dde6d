#include "checkpoint/writer.h"

#include "checkpoint/catalog.h"
#include "checkpoint/multi_hash.h"
#include "checkpoint/staging.h"
#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/priority.h"
#include "core/os/trace.h"

#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

typedef struct ckpt_job {
    struct ckpt_job *next;
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
} ckpt_job;

struct gw_ckpt_writer {
    gw_store *store; /* NULL: only hash-only snapshots succeed */
    gw_ckpt_done_fn *done;
    void *context;
    pthread_t thread;
    /* Guards everything below and the jobs. It is not held while copying, hashing or writing. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping, draining;
    ckpt_job *first, **last;
    gw_staging staging;
    gw_ckpt_stats stats;
};

static void free_job(ckpt_job *job) {
    free((uint32_t *)(uintptr_t)job->request.indices);
    free(job->chunks);
    free(job->buffers);
    free(job->payload);
    free(job->kept);
    free(job);
}

/* Staging. */

static bool wants_staging(const ckpt_job *job) {
    return job->kind == GW_CKPT_SNAPSHOT && !job->dead && job->staged_next < job->request.count;
}

/* Whether a snapshot has chunks that are not copied yet. Called with the lock held. */
static bool is_staging(const gw_ckpt_writer *writer) {
    for (const ckpt_job *job = writer->first; job != NULL; job = job->next)
        if (job->copying > 0 || wants_staging(job)) return true;
    return false;
}

/* Ends a job early with error *why; its staged buffers return to the pool at once. Called with the lock
 * held. */
static void kill_job(gw_ckpt_writer *writer, ckpt_job *job, const gw_err *why) {
    if (job->dead) return;
    job->dead = true;
    job->err = *why;
    for (uint32_t i = job->handled; job->buffers != NULL && i < job->staged_next; i++) {
        if (job->buffers[i] == NULL) continue; /* it is being copied, or in the current batch */
        gw_staging_give(&writer->staging, job->buffers[i]);
        job->buffers[i] = NULL;
    }
    pthread_cond_broadcast(&writer->changed);
}

/* Copies one chunk of the first snapshot that has chunks to copy. Called with the lock held, which is
 * released while copying. Returns false if there is nothing to copy or no free buffer. */
static bool stage_one(gw_ckpt_writer *writer) {
    ckpt_job *job = writer->first;
    while (job != NULL && !wants_staging(job)) job = job->next;
    if (job == NULL) return false;
    uint8_t *buffer = gw_staging_take(&writer->staging);
    if (buffer == NULL && writer->staging.made == 0) {
        gw_err err;
        gw_fail(&err, GW_E_NOMEM, "checkpoint/writer: out of memory for a staging buffer");
        kill_job(writer, job, &err);
    }
    if (buffer == NULL) return false;
    uint32_t at = job->staged_next++;
    job->copying++;
    pthread_mutex_unlock(&writer->lock);

    const gw_ckpt_request *request = &job->request;
    uint32_t index = request->indices[at];
    gw_err err;
    uint64_t began_ns = gw_trace_begin();
    bool copied = request->read(request->read_context, gw_chunk_offset(index), buffer,
                                gw_chunk_length(request->state_bytes, index), &err);
    gw_trace_end(GW_TRACE_STAGE, began_ns, index, job->tag, 0);
    pthread_mutex_lock(&writer->lock);
    job->copying--;
    if (copied && !job->dead)
        job->buffers[at] = buffer;
    else
        gw_staging_give(&writer->staging, buffer);
    if (!copied) {
        gw_fail_in(&err, "checkpoint/writer: copying chunk %u", index);
        kill_job(writer, job, &err);
    }
    pthread_cond_broadcast(&writer->changed);
    return true;
}

/* Carrying out jobs. */

/* A batch of chunks: taken from the job with the lock held, hashed and stored without the lock. */
typedef struct batch {
    gw_store_item items[GW_STORE_BATCH];
    uint8_t *buffers[GW_STORE_BATCH];
    uint32_t count;
    uint64_t bytes, written_bytes, hash_us, write_us;
} batch;

static bool store_batch(gw_ckpt_writer *writer, uint64_t tag, batch *b, gw_err *err) {
    if (writer->store == NULL)
        return gw_fail(err, GW_E_UNSUPPORTED, "checkpoint/writer: this peer has no usable state directory");
    uint64_t began_ns = gw_trace_begin(), began = gw_now_ns() / 1000;
    bool done = gw_store_put(writer->store, tag, b->items, b->count, err);
    b->write_us = gw_now_ns() / 1000 - began;
    for (uint32_t i = 0; done && i < b->count; i++)
        if (b->items[i].written) b->written_bytes += b->items[i].length;
    gw_trace_end(GW_TRACE_WRITE, began_ns, b->count, b->written_bytes, 0);
    return done;
}

static void unpin_batch(gw_ckpt_writer *writer, uint64_t tag, const batch *b) {
    for (uint32_t i = 0; writer->store != NULL && i < b->count; i++)
        gw_store_unpin(writer->store, tag, &b->items[i].name);
}

static void hash_batch(batch *b) {
    uint64_t began_ns = gw_trace_begin(), began = gw_now_ns() / 1000;
    gw_hash_input inputs[GW_STORE_BATCH];
    for (uint32_t i = 0; i < b->count; i++) {
        inputs[i] = (gw_hash_input){b->items[i].bytes, b->items[i].length, &b->items[i].name};
        b->bytes += b->items[i].length;
    }
    gw_multi_hash(inputs, b->count);
    b->hash_us = gw_now_ns() / 1000 - began;
    gw_trace_end(GW_TRACE_HASH, began_ns, b->count, b->bytes, 0);
}

static void account(gw_ckpt_writer *writer, ckpt_job *job, const batch *b) {
    job->bytes += b->bytes;
    job->written_bytes += b->written_bytes;
    writer->stats.hashed_bytes += b->bytes;
    writer->stats.written_bytes += b->written_bytes;
    writer->stats.hash_us += b->hash_us;
    writer->stats.write_us += b->write_us;
}

static void take_batch(ckpt_job *job, batch *b) {
    *b = (batch){0};
    for (uint32_t at = job->handled;
         b->count < GW_STORE_BATCH && at < job->staged_next && job->buffers[at] != NULL; at++) {
        uint32_t length = gw_chunk_length(job->request.state_bytes, job->request.indices[at]);
        b->buffers[b->count] = job->buffers[at];
        b->items[b->count++] = (gw_store_item){.bytes = job->buffers[at], .length = length};
        job->buffers[at] = NULL;
    }
}

static void work_on_snapshot(gw_ckpt_writer *writer, ckpt_job *job) {
    batch b;
    take_batch(job, &b);
    if (b.count == 0) return;
    pthread_mutex_unlock(&writer->lock);
    gw_err err;
    hash_batch(&b);
    bool done = job->request.hash_only || store_batch(writer, job->tag, &b, &err);
    pthread_mutex_lock(&writer->lock);
    for (uint32_t i = 0; i < b.count; i++) {
        gw_staging_give(&writer->staging, b.buffers[i]);
        if (!done || job->dead) continue;
        uint32_t at = job->handled++;
        job->chunks[at] = (gw_ckpt_chunk){job->request.indices[at], b.items[i].name};
    }
    account(writer, job, &b);
    if (!done) kill_job(writer, job, &err);
    if (job->abandoned && !job->request.hash_only) unpin_batch(writer, job->tag, &b);
    pthread_cond_broadcast(&writer->changed);
}

static bool retain(gw_store *store, const ckpt_job *job, gw_err *err) {
    gw_hash *needed;
    size_t needed_count;
    bool complete;
    gw_err why;
    if (!gw_catalog_retain(gw_store_io(store), gw_store_dir(store), &job->job_id, job->kept, job->kept_count,
                           &needed, &needed_count, &complete, &why, err))
        return false;
    gw_store_swept swept;
    bool done = complete
                    ? gw_store_sweep(store, needed, needed_count, &swept, err)
                    : gw_fail(err, GW_E_IO,
                              "checkpoint/writer: no chunk is deleted until this manifest can be read, or "
                              "is moved away: %s",
                              why.text);
    free(needed);
    return done;
}

static void work_on_files(gw_ckpt_writer *writer, ckpt_job *job) {
    gw_err err;
    bool done, manifest = job->kind == GW_CKPT_MANIFEST;
    pthread_mutex_unlock(&writer->lock);
    uint64_t began_ns = gw_trace_begin();
    if (writer->store == NULL)
        done = gw_fail(&err, GW_E_UNSUPPORTED, "checkpoint/writer: this peer has no usable state directory");
    else if (manifest)
        done = gw_catalog_save(gw_store_io(writer->store), gw_store_dir(writer->store), job->payload,
                               job->length, &err);
    else
        done = retain(writer->store, job, &err);
    gw_trace_end(manifest ? GW_TRACE_MANIFEST : GW_TRACE_RETAIN, began_ns, 0, manifest ? job->length : 0, 0);
    pthread_mutex_lock(&writer->lock);
    if (done && manifest) job->bytes = job->written_bytes = job->length;
    if (!done) kill_job(writer, job, &err);
}

/* Carries out the next batch of a snapshot, or the whole of another job. Called with the lock held, which
 * is released meanwhile. Returns true if the job is finished, or dead with no copying under way; false if
 * more is to be done. */
static bool carry_out(gw_ckpt_writer *writer, ckpt_job *job, bool *progress) {
    if (job->began_us == 0) job->began_us = gw_now_ns() / 1000;
    *progress = true;
    if (job->kind == GW_CKPT_SNAPSHOT) {
        uint32_t before = job->handled;
        if (!job->dead) work_on_snapshot(writer, job);
        *progress = job->handled > before;
        return (job->dead || job->handled == job->request.count) && job->copying == 0;
    }
    if (!job->dead) work_on_files(writer, job);
    return true;
}

/* The thread and its queue. */

/* Removes a finished job from the queue and calls back. Called with the lock held, which is released
 * meanwhile. */
static void finish(gw_ckpt_writer *writer, ckpt_job *job) {
    GW_ASSERT(writer->first == job && job->copying == 0);
    writer->first = job->next;
    if (writer->first == NULL) writer->last = &writer->first;
    writer->stats.queued--;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    gw_ckpt_done done = {
        .kind = job->kind,
        .token = job->token,
        .hash_only = job->request.hash_only,
        .chunks = job->chunks,
        .chunk_count = job->dead ? 0 : job->request.count, /* other kinds have none */
        .bytes = job->bytes,
        .written_bytes = job->written_bytes,
        .busy_us = gw_now_ns() / 1000 - job->began_us,
        .err = job->dead ? &job->err : NULL,
    };
    writer->done(writer->context, &done);
    free_job(job);
    pthread_mutex_lock(&writer->lock);
}

static void kill_queue(gw_ckpt_writer *writer) {
    gw_err err;
    gw_fail(&err, GW_E_ABORTED, "checkpoint/writer: closed before the job was finished");
    for (ckpt_job *job = writer->first; job != NULL; job = job->next) kill_job(writer, job, &err);
}

static void *run(void *context) {
    gw_ckpt_writer *writer = context;
    pthread_setname_np(pthread_self(), "gw-checkpoint");
    gw_priority_lower();
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        if (writer->stopping && !writer->draining) kill_queue(writer);
        if (stage_one(writer)) continue; /* staging comes first, because the next apply waits for it */
        ckpt_job *job = writer->first;
        bool progress = false;
        if (job != NULL && carry_out(writer, job, &progress))
            finish(writer, job);
        else if (job == NULL && writer->stopping)
            break;
        else if (!progress)
            pthread_cond_wait(&writer->changed, &writer->lock);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

bool gw_ckpt_open(gw_store *store, size_t staging_bytes, gw_ckpt_done_fn *done, void *context,
                  gw_ckpt_writer **writer, gw_err *err) {
    GW_ASSERT(done != NULL);
    /* The library chooses the fastest BLAKE2b of this processor. */
    if (sodium_init() < 0)
        return gw_fail(err, GW_E_UNSUPPORTED, "checkpoint/writer: libsodium cannot be initialised");
    gw_ckpt_writer *opened = calloc(1, sizeof *opened);
    if (opened == NULL || !gw_staging_init(&opened->staging, staging_bytes)) {
        free(opened);
        return gw_fail(err, GW_E_NOMEM, "checkpoint/writer: out of memory");
    }
    opened->store = store;
    opened->done = done;
    opened->context = context;
    opened->last = &opened->first;
    pthread_mutex_init(&opened->lock, NULL);
    pthread_cond_init(&opened->changed, NULL);
    sigset_t all, before;
    sigfillset(&all);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) sigdelset(&all, number);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread inherits the mask */
    int failed = pthread_create(&opened->thread, NULL, run, opened);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        gw_staging_free(&opened->staging);
        free(opened);
        return gw_fail_thread(err, failed, "checkpoint/writer: cannot start its thread");
    }
    *writer = opened;
    return true;
}

void gw_ckpt_close(gw_ckpt_writer *writer, bool drain) {
    if (writer == NULL) return;
    pthread_mutex_lock(&writer->lock);
    writer->stopping = true;
    writer->draining = drain;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    GW_ASSERT(writer->first == NULL);
    gw_staging_free(&writer->staging);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}

static bool fail_memory(gw_err *err) {
    return gw_fail(err, GW_E_NOMEM, "checkpoint/writer: out of memory");
}

static ckpt_job *new_job(gw_ckpt_kind kind, uint64_t token, uint32_t chunk_count) {
    ckpt_job *job = calloc(1, sizeof *job);
    if (job == NULL) return NULL;
    job->kind = kind;
    job->token = token;
    job->chunks = calloc(chunk_count > 0 ? chunk_count : 1, sizeof *job->chunks);
    if (job->chunks != NULL) return job;
    free(job);
    return NULL;
}

static void enqueue(gw_ckpt_writer *writer, ckpt_job *job) {
    pthread_mutex_lock(&writer->lock);
    GW_ASSERT(!writer->stopping);
    *writer->last = job;
    writer->last = &job->next;
    writer->stats.queued++;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
}

bool gw_ckpt_snapshot(gw_ckpt_writer *writer, const gw_ckpt_request *request, gw_err *err) {
    for (uint32_t i = 0; i < request->count; i++)
        GW_ASSERT(request->indices[i] < gw_chunk_count(request->state_bytes));
    ckpt_job *job = new_job(GW_CKPT_SNAPSHOT, request->token, request->count);
    if (job == NULL) return fail_memory(err);
    size_t room = request->count > 0 ? request->count : 1;
    uint32_t *indices = malloc(room * sizeof *indices);
    job->tag = request->tag;
    job->request = *request;
    job->request.indices = indices;
    job->buffers = calloc(room, sizeof *job->buffers);
    if (indices == NULL || job->buffers == NULL) {
        free_job(job);
        return fail_memory(err);
    }
    if (request->count > 0) memcpy(indices, request->indices, request->count * sizeof *indices);
    enqueue(writer, job);
    return true;
}

void gw_ckpt_finish_staging(gw_ckpt_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    while (is_staging(writer))
        if (!stage_one(writer)) pthread_cond_wait(&writer->changed, &writer->lock);
    pthread_mutex_unlock(&writer->lock);
}

bool gw_ckpt_manifest(gw_ckpt_writer *writer, uint64_t token, const void *bytes, size_t length, gw_err *err) {
    ckpt_job *job = new_job(GW_CKPT_MANIFEST, token, 0);
    if (job == NULL) return fail_memory(err);
    job->payload = malloc(length > 0 ? length : 1);
    if (job->payload == NULL) {
        free_job(job);
        return fail_memory(err);
    }
    if (length > 0) memcpy(job->payload, bytes, length);
    job->length = length;
    enqueue(writer, job);
    return true;
}

bool gw_ckpt_retain(gw_ckpt_writer *writer, uint64_t token, const gw_hash *job_id, const gw_hash *kept,
                    uint32_t kept_count, gw_err *err) {
    ckpt_job *job = new_job(GW_CKPT_RETAIN, token, 0);
    if (job == NULL) return fail_memory(err);
    job->kept = malloc(kept_count > 0 ? kept_count * sizeof *kept : 1);
    if (job->kept == NULL) {
        free_job(job);
        return fail_memory(err);
    }
    if (kept_count > 0) memcpy(job->kept, kept, kept_count * sizeof *kept);
    job->job_id = *job_id;
    job->kept_count = kept_count;
    enqueue(writer, job);
    return true;
}

void gw_ckpt_abandon(gw_ckpt_writer *writer, uint64_t tag) {
    gw_err err;
    gw_fail(&err, GW_E_ABORTED, "checkpoint/writer: abandoned");
    pthread_mutex_lock(&writer->lock);
    for (ckpt_job *job = writer->first; job != NULL; job = job->next) {
        if (job->tag != tag || job->kind != GW_CKPT_SNAPSHOT) continue;
        job->abandoned = true;
        kill_job(writer, job, &err);
    }
    pthread_mutex_unlock(&writer->lock);
    if (writer->store != NULL) gw_store_release(writer->store, tag);
}

void gw_ckpt_stats_read(gw_ckpt_writer *writer, gw_ckpt_stats *stats) {
    pthread_mutex_lock(&writer->lock);
    *stats = writer->stats;
    stats->staging_bytes = (uint64_t)writer->staging.made * GW_CHUNK_BYTES;
    pthread_mutex_unlock(&writer->lock);
    if (writer->store != NULL) stats->disk_changes = gw_store_changes(writer->store);
}
