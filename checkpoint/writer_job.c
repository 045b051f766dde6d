#include "checkpoint/writer_job.h"

#include "checkpoint/catalog.h"
#include "checkpoint/multi_hash.h"
#include "core/base/assert.h"
#include "core/os/clock.h"

#include <stdlib.h>

void gw_ckpt_job_free(gw_ckpt_job *job) {
    free((uint32_t *)(uintptr_t)job->request.indices);
    free(job->chunks);
    free(job->buffers);
    free(job->payload);
    free(job->kept);
    free(job);
}

/* Staging. */

static bool wants_staging(const gw_ckpt_job *job) {
    return job->kind == GW_CKPT_SNAPSHOT && !job->dead && job->staged_next < job->request.count;
}

bool gw_ckpt_is_staging(const gw_ckpt_writer *writer) {
    for (const gw_ckpt_job *job = writer->first; job != NULL; job = job->next)
        if (job->copying > 0 || wants_staging(job)) return true;
    return false;
}

void gw_ckpt_kill(gw_ckpt_writer *writer, gw_ckpt_job *job, const gw_err *why) {
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

bool gw_ckpt_stage_one(gw_ckpt_writer *writer) {
    gw_ckpt_job *job = writer->first;
    while (job != NULL && !wants_staging(job)) job = job->next;
    if (job == NULL) return false;
    uint8_t *buffer = gw_staging_take(&writer->staging);
    if (buffer == NULL && writer->staging.made == 0) {
        gw_err err;
        gw_fail(&err, GW_E_NOMEM, "checkpoint/writer: out of memory for a staging buffer");
        gw_ckpt_kill(writer, job, &err);
    }
    if (buffer == NULL) return false;
    uint32_t at = job->staged_next++;
    job->copying++;
    pthread_mutex_unlock(&writer->lock);

    const gw_ckpt_request *request = &job->request;
    uint32_t index = request->indices[at];
    gw_err err;
    bool copied = request->read(request->read_context, gw_chunk_offset(index), buffer,
                                gw_chunk_length(request->state_bytes, index), &err);
    pthread_mutex_lock(&writer->lock);
    job->copying--;
    if (copied && !job->dead)
        job->buffers[at] = buffer;
    else
        gw_staging_give(&writer->staging, buffer);
    if (!copied) {
        gw_fail_in(&err, "checkpoint/writer: copying chunk %u", index);
        gw_ckpt_kill(writer, job, &err);
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
    uint64_t began = gw_now_ns() / 1000;
    bool done = gw_store_put(writer->store, tag, b->items, b->count, err);
    b->write_us = gw_now_ns() / 1000 - began;
    for (uint32_t i = 0; done && i < b->count; i++)
        if (b->items[i].written) b->written_bytes += b->items[i].length;
    return done;
}

static void unpin_batch(gw_ckpt_writer *writer, uint64_t tag, const batch *b) {
    for (uint32_t i = 0; writer->store != NULL && i < b->count; i++)
        gw_store_unpin(writer->store, tag, &b->items[i].name);
}

static void hash_batch(batch *b) {
    uint64_t began = gw_now_ns() / 1000;
    gw_hash_input inputs[GW_STORE_BATCH];
    for (uint32_t i = 0; i < b->count; i++) {
        inputs[i] = (gw_hash_input){b->items[i].bytes, b->items[i].length, &b->items[i].name};
        b->bytes += b->items[i].length;
    }
    gw_multi_hash(inputs, b->count);
    b->hash_us = gw_now_ns() / 1000 - began;
}

static void account(gw_ckpt_writer *writer, gw_ckpt_job *job, const batch *b) {
    job->bytes += b->bytes;
    job->written_bytes += b->written_bytes;
    writer->stats.hashed_bytes += b->bytes;
    writer->stats.written_bytes += b->written_bytes;
    writer->stats.hash_us += b->hash_us;
    writer->stats.write_us += b->write_us;
}

static void take_batch(gw_ckpt_job *job, batch *b) {
    *b = (batch){0};
    for (uint32_t at = job->handled;
         b->count < GW_STORE_BATCH && at < job->staged_next && job->buffers[at] != NULL; at++) {
        uint32_t length = gw_chunk_length(job->request.state_bytes, job->request.indices[at]);
        b->buffers[b->count] = job->buffers[at];
        b->items[b->count++] = (gw_store_item){.bytes = job->buffers[at], .length = length};
        job->buffers[at] = NULL;
    }
}

static void work_on_snapshot(gw_ckpt_writer *writer, gw_ckpt_job *job) {
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
    if (!done) gw_ckpt_kill(writer, job, &err);
    if (job->abandoned && !job->request.hash_only) unpin_batch(writer, job->tag, &b);
    pthread_cond_broadcast(&writer->changed);
}

static bool retain(gw_store *store, const gw_ckpt_job *job, gw_err *err) {
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

static void work_on_files(gw_ckpt_writer *writer, gw_ckpt_job *job) {
    gw_err err;
    bool done;
    pthread_mutex_unlock(&writer->lock);
    if (writer->store == NULL)
        done = gw_fail(&err, GW_E_UNSUPPORTED, "checkpoint/writer: this peer has no usable state directory");
    else if (job->kind == GW_CKPT_MANIFEST)
        done = gw_catalog_save(gw_store_io(writer->store), gw_store_dir(writer->store), job->payload,
                               job->length, &err);
    else
        done = retain(writer->store, job, &err);
    pthread_mutex_lock(&writer->lock);
    if (done && job->kind == GW_CKPT_MANIFEST) job->bytes = job->written_bytes = job->length;
    if (!done) gw_ckpt_kill(writer, job, &err);
}

bool gw_ckpt_work(gw_ckpt_writer *writer, gw_ckpt_job *job, bool *progress) {
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
