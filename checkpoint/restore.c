#include "checkpoint/restore.h"

#include "core/base/assert.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct running {
    const gw_restore *restore;
    pthread_mutex_t lock; /* guards everything below */
    uint32_t next;
    bool failed;
    gw_err err; /* of the first failure */
    gw_restore_stats stats;
} running;

static bool fail_chunk(const gw_restore *restore, uint32_t index, gw_err *err) {
    char digits[GW_HASH_TEXT];
    gw_hex(restore->manifest->chunks[index].bytes, sizeof(gw_hash), digits);
    return gw_fail_in(err, "checkpoint/restore: step %llu, chunk %u (%.16s)",
                      (unsigned long long)restore->manifest->step, index, digits);
}

/* Fetches a chunk from the first candidate peer whose bytes match its name. */
static bool fetch(const gw_restore *restore, uint32_t index, void *bytes, uint32_t length, gw_err *err) {
    const gw_hash *name = &restore->manifest->chunks[index];
    uint32_t asked = 0, before = 0;
    while (restore->fetch(restore->context, index, &asked, name, bytes, length, err)) {
        GW_ASSERT(asked > before);
        before = asked;
        gw_hash actual;
        gw_blake2b(bytes, length, actual.bytes, sizeof actual.bytes);
        if (gw_hash_equal(&actual, name)) return true;
    }
    if (before == 0 || err->code == GW_E_ABORTED) return false;
    return gw_fail(err, GW_E_CORRUPT, "as sent by a peer: hash differs");
}

static void count(running *run, uint32_t *what, uint32_t more) {
    pthread_mutex_lock(&run->lock);
    *what += more;
    pthread_mutex_unlock(&run->lock);
}

static void note_here(running *run, uint32_t index) {
    pthread_mutex_lock(&run->lock);
    if (run->restore->here != NULL) gw_set_add(run->restore->here, index);
    pthread_mutex_unlock(&run->lock);
}

/* Stores a fetched chunk. A failure, for instance a full disk, is counted and does not fail the restore. */
static void store(running *run, uint32_t index, const void *bytes, uint32_t length) {
    const gw_restore *restore = run->restore;
    gw_store_item item = {.name = restore->manifest->chunks[index], .bytes = bytes, .length = length};
    gw_err err;
    bool done = gw_store_put(restore->store, restore->tag, &item, 1, &err);
    if (done) note_here(run, index);
    pthread_mutex_lock(&run->lock);
    if (done) {
        run->stats.stored++;
    } else {
        if (run->stats.unstored++ == 0) run->stats.unstored_err = err;
    }
    pthread_mutex_unlock(&run->lock);
}

static bool restore_chunk(running *run, uint32_t index, void *bytes, gw_err *err) {
    const gw_restore *restore = run->restore;
    const gw_hash *name = &restore->manifest->chunks[index];
    uint32_t length = gw_chunk_length(restore->manifest->state_bytes, index);
    bool here = false, damaged = false;
    gw_fail(err, GW_E_NOTFOUND, "not held by this peer");
    if (restore->store != NULL) {
        gw_store_pin(restore->store, restore->tag, name, length);
        here = gw_store_read(restore->store, name, bytes, length, err);
        damaged = !here && err->code != GW_E_NOTFOUND;
    }
    count(run, &run->stats.damaged, damaged);
    if (!here && restore->fetch == NULL) return false;
    gw_err local = *err;
    if (!here && !fetch(restore, index, bytes, length, err))
        return damaged ? gw_fail_in(err, "%s; and from peers", local.text) : false;
    count(run, here ? &run->stats.local : &run->stats.fetched, 1);
    if (here) note_here(run, index);
    bool wanted = damaged || (restore->keep != NULL && restore->keep(restore->context, index));
    if (!here && wanted && restore->store != NULL) store(run, index, bytes, length);
    return restore->write(restore->context, gw_chunk_offset(index), bytes, length, err);
}

static void note_failure(running *run, const gw_err *err) {
    pthread_mutex_lock(&run->lock);
    if (!run->failed) run->err = *err;
    run->failed = true;
    pthread_mutex_unlock(&run->lock);
}

static void *chunk_room(const running *run) {
    return malloc(gw_chunk_room(run->restore->manifest->state_bytes));
}

static void work(running *run, void *bytes) {
    gw_err err;
    for (;;) {
        pthread_mutex_lock(&run->lock);
        bool ended = run->failed || run->next == run->restore->manifest->chunk_count;
        uint32_t index = ended ? 0 : run->next++;
        pthread_mutex_unlock(&run->lock);
        if (ended) break;
        if (restore_chunk(run, index, bytes, &err)) continue;
        fail_chunk(run->restore, index, &err);
        note_failure(run, &err);
    }
}

/* A helping thread. If it gets no memory for a chunk, the restore goes on with one thread fewer. */
static void *help(void *context) {
    void *bytes = chunk_room(context);
    if (bytes != NULL) work(context, bytes);
    free(bytes);
    return NULL;
}

static void work_here(running *run) {
    gw_err err;
    void *bytes = chunk_room(run);
    if (bytes == NULL) gw_fail(&err, GW_E_NOMEM, "checkpoint/restore: out of memory for a chunk");
    if (bytes == NULL)
        note_failure(run, &err);
    else
        work(run, bytes);
    free(bytes);
}

bool gw_restore_run(const gw_restore *restore, gw_restore_stats *stats, gw_err *err) {
    GW_ASSERT(restore->threads >= 1 && restore->threads <= GW_RESTORE_THREADS && restore->write != NULL);
    GW_ASSERT(restore->here == NULL || restore->here->size == restore->manifest->chunk_count);
    running run = {.restore = restore};
    pthread_mutex_init(&run.lock, NULL);
    pthread_t helpers[GW_RESTORE_THREADS];
    uint32_t started = 0;
    while (started + 1 < restore->threads && started + 1 < restore->manifest->chunk_count)
        if (pthread_create(&helpers[started], NULL, help, &run) != 0)
            break; /* fewer threads do as well, later */
        else
            started++;
    work_here(&run);
    for (uint32_t i = 0; i < started; i++) pthread_join(helpers[i], NULL);
    pthread_mutex_destroy(&run.lock);
    *stats = run.stats;
    if (run.failed) *err = run.err;
    return !run.failed;
}
