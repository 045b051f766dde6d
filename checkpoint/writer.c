#include "checkpoint/writer.h"

#include "checkpoint/writer_job.h"
#include "core/base/assert.h"
#include "core/os/clock.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    WRITER_NICE = 10,
    /* Values of linux/ioprio.h, which not every system has: class best effort, the lowest of its eight
     * levels. */
    IOPRIO_WHO_THREAD = 1,
    IOPRIO_LOWEST_BEST_EFFORT = 2 << 13 | 7,
};

/* The workers of the job come first. If the system refuses (old kernels, containers), only steps become
 * less even. */
static void lower_priority(void) {
    long thread = syscall(SYS_gettid);
    (void)!setpriority(PRIO_PROCESS, (id_t)thread, WRITER_NICE);
    (void)!syscall(SYS_ioprio_set, IOPRIO_WHO_THREAD, 0, IOPRIO_LOWEST_BEST_EFFORT);
}

/* Removes a finished job from the queue and calls back. Called with the lock held, which is released
 * meanwhile. */
static void finish(gw_ckpt_writer *writer, gw_ckpt_job *job) {
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
    gw_ckpt_job_free(job);
    pthread_mutex_lock(&writer->lock);
}

static void kill_queue(gw_ckpt_writer *writer) {
    gw_err err;
    gw_fail(&err, GW_E_ABORTED, "checkpoint/writer: closed before the job was finished");
    for (gw_ckpt_job *job = writer->first; job != NULL; job = job->next) gw_ckpt_kill(writer, job, &err);
}

static void *run(void *context) {
    gw_ckpt_writer *writer = context;
    pthread_setname_np(pthread_self(), "gw-checkpoint");
    lower_priority();
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        if (writer->stopping && !writer->draining) kill_queue(writer);
        if (gw_ckpt_stage_one(writer))
            continue; /* staging comes first, because the next apply waits for it */
        gw_ckpt_job *job = writer->first;
        bool progress = false;
        if (job != NULL && gw_ckpt_work(writer, job, &progress))
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

static gw_ckpt_job *new_job(gw_ckpt_kind kind, uint64_t token, uint32_t chunk_count) {
    gw_ckpt_job *job = calloc(1, sizeof *job);
    if (job == NULL) return NULL;
    job->kind = kind;
    job->token = token;
    job->chunks = calloc(chunk_count > 0 ? chunk_count : 1, sizeof *job->chunks);
    if (job->chunks != NULL) return job;
    free(job);
    return NULL;
}

static void enqueue(gw_ckpt_writer *writer, gw_ckpt_job *job) {
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
    gw_ckpt_job *job = new_job(GW_CKPT_SNAPSHOT, request->token, request->count);
    if (job == NULL) return fail_memory(err);
    size_t room = request->count > 0 ? request->count : 1;
    uint32_t *indices = malloc(room * sizeof *indices);
    job->tag = request->tag;
    job->request = *request;
    job->request.indices = indices;
    job->buffers = calloc(room, sizeof *job->buffers);
    if (indices == NULL || job->buffers == NULL) {
        gw_ckpt_job_free(job);
        return fail_memory(err);
    }
    if (request->count > 0) memcpy(indices, request->indices, request->count * sizeof *indices);
    enqueue(writer, job);
    return true;
}

void gw_ckpt_finish_staging(gw_ckpt_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    while (gw_ckpt_is_staging(writer))
        if (!gw_ckpt_stage_one(writer)) pthread_cond_wait(&writer->changed, &writer->lock);
    pthread_mutex_unlock(&writer->lock);
}

bool gw_ckpt_manifest(gw_ckpt_writer *writer, uint64_t token, const void *bytes, size_t length, gw_err *err) {
    gw_ckpt_job *job = new_job(GW_CKPT_MANIFEST, token, 0);
    if (job == NULL) return fail_memory(err);
    job->payload = malloc(length > 0 ? length : 1);
    if (job->payload == NULL) {
        gw_ckpt_job_free(job);
        return fail_memory(err);
    }
    if (length > 0) memcpy(job->payload, bytes, length);
    job->length = length;
    enqueue(writer, job);
    return true;
}

bool gw_ckpt_retain(gw_ckpt_writer *writer, uint64_t token, const gw_hash *job_id, const gw_hash *kept,
                    uint32_t kept_count, gw_err *err) {
    gw_ckpt_job *job = new_job(GW_CKPT_RETAIN, token, 0);
    if (job == NULL) return fail_memory(err);
    job->kept = malloc(kept_count > 0 ? kept_count * sizeof *kept : 1);
    if (job->kept == NULL) {
        gw_ckpt_job_free(job);
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
    for (gw_ckpt_job *job = writer->first; job != NULL; job = job->next) {
        if (job->tag != tag || job->kind != GW_CKPT_SNAPSHOT) continue;
        job->abandoned = true;
        gw_ckpt_kill(writer, job, &err);
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
