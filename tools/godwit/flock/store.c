#include "tools/godwit/flock/store.h"

#include "core/base/assert.h"
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/thread/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, HEAD_BYTES = 5, FILE_MODE = 0600 };
enum { SPARE_BYTES = 4 << 20, RETRY_S = 4 };

#define MOST_BYTES ((uint64_t)4 << 30)

static const uint8_t MAGIC[] = {'G', 'W', 'J', 'R', VERSION};

typedef struct entry {
    gw_job_record_id id;
    uint64_t digest;
} entry;

/* Bytes to be written, and the records that they are. */
typedef struct batch {
    uint8_t *bytes;
    size_t length, room;
    entry *entries;
    uint32_t count, entry_room;
    bool whole; /* the file is replaced by them */
} batch;

struct gw_record_store {
    gw_loop *loop;
    gw_io *io;
    gw_job_records *records;
    gw_record_store_events events;
    gw_helper *helper;
    char folder[GW_PATH_BYTES], path[GW_PATH_BYTES], temporary[GW_PATH_BYTES];
    batch waiting;
    bool writing, failing, rewrite;
    bool due;             /* a write is to be tried although the last one has failed */
    uint64_t file_bytes;  /* of the file as it is written */
    uint64_t whole_bytes; /* of the file when it was written as a whole */
    gw_timer retry;
    int fd; /* of the file, for the helper's thread while `writing` */
};

/* Batches. */

static void reserve(batch *b, size_t more) {
    if (b->length + more > b->room) {
        b->room = 2 * (b->length + more);
        b->bytes = realloc(b->bytes, b->room);
        GW_ASSERT_MEMORY(b->bytes != NULL);
    }
    if (b->count == b->entry_room) {
        b->entry_room = 2 * b->entry_room + 16;
        b->entries = realloc(b->entries, b->entry_room * sizeof *b->entries);
        GW_ASSERT_MEMORY(b->entries != NULL);
    }
}

static void add(batch *b, const gw_job_record *record) {
    size_t length = gw_job_record_bytes(record, true);
    reserve(b, length + GW_ENTRY_HEAD_BYTES);
    uint8_t *at = b->bytes + b->length;
    gw_writer w = gw_writer_on(at + GW_ENTRY_HEAD_BYTES, length);
    gw_job_record_put(&w, record, true);
    GW_ASSERT(!w.failed && w.length == length);
    gw_entry_seal(at, (uint32_t)length);
    b->length += length + GW_ENTRY_HEAD_BYTES;
    b->entries[b->count++] = (entry){record->id, gw_job_record_digest(record)};
}

static void add_all(batch *b, const gw_job_records *records) {
    b->whole = true;
    reserve(b, sizeof MAGIC);
    memcpy(b->bytes, MAGIC, sizeof MAGIC);
    b->length = sizeof MAGIC;
    for (uint32_t i = 0; i < gw_job_records_count(records); i++) add(b, gw_job_records_at(records, i));
}

static void drop(batch *b) {
    free(b->bytes);
    free(b->entries);
    *b = (batch){.whole = false};
}

/* Writing, on the helper's thread. */

typedef struct task {
    gw_record_store *store;
    batch batch;
    bool good;
    gw_err err;
} task;

static void write_next(gw_record_store *store);

static void written(void *context) {
    task *t = context;
    gw_record_store *store = t->store;
    store->writing = false;
    if (t->good) {
        store->file_bytes = t->batch.length + (t->batch.whole ? 0 : store->file_bytes);
        if (t->batch.whole) store->whole_bytes = store->file_bytes;
        if (store->failing) store->events.failing(store->events.context, NULL);
        store->failing = false;
        for (uint32_t i = 0; i < t->batch.count; i++)
            store->events.durable(store->events.context, &t->batch.entries[i].id, t->batch.entries[i].digest);
    } else {
        /* The end of the file is unknown after a write that failed. */
        store->rewrite = true;
        if (!store->failing) store->events.failing(store->events.context, t->err.text);
        store->failing = true;
    }
    drop(&t->batch);
    free(t);
    write_next(store);
}

static bool write_whole(gw_record_store *store, const batch *b, gw_err *err) {
    if (store->fd >= 0) store->io->close(store->io, store->fd);
    store->fd = -1;
    if (!gw_durable_replace(store->io, store->temporary, store->folder, store->path, b->bytes, b->length,
                            err))
        return false;
    store->fd = store->io->open(store->io, store->path, O_WRONLY | O_APPEND, FILE_MODE);
    return store->fd >= 0 || gw_fail_errno(err, errno, "%s cannot be opened", store->path);
}

static bool append(gw_record_store *store, const batch *b, gw_err *err) {
    if (!gw_durable_write_fd(store->io, store->fd, store->path, b->bytes, b->length, err)) return false;
    return store->io->fdatasync(store->io, store->fd) == 0 ||
           gw_fail_errno(err, errno, "%s cannot be flushed", store->path);
}

static void run(void *context) {
    task *t = context;
    gw_err err;
    t->good =
        t->batch.whole ? write_whole(t->store, &t->batch, &t->err) : append(t->store, &t->batch, &t->err);
    if (!gw_loop_post(t->store->loop, written, t, &err)) gw_log(GW_ERROR, "flock", "%s", err.text);
}

static void try_again(void *context) {
    gw_record_store *store = context;
    store->due = true;
    write_next(store);
}

static void write_next(gw_record_store *store) {
    gw_err err;
    if (store->writing || (store->waiting.count == 0 && !store->rewrite)) return;
    if (store->failing && !store->due) {
        uint64_t again_ns = gw_now_ns() + UINT64_C(1000000000) * RETRY_S;
        if (store->retry.loop != NULL ||
            gw_timer_set(store->loop, &store->retry, again_ns, try_again, store, &err))
            return;
    }
    store->due = false;
    task *t = calloc(1, sizeof *t);
    GW_ASSERT_MEMORY(t != NULL);
    t->store = store;
    if (store->rewrite || store->fd < 0 || store->file_bytes > 2 * store->whole_bytes + SPARE_BYTES) {
        drop(&store->waiting);
        add_all(&t->batch, store->records);
        store->rewrite = false;
    } else {
        t->batch = store->waiting;
        store->waiting = (batch){.whole = false};
    }
    store->writing = true;
    gw_helper_give(store->helper, run, t);
}

void gw_record_store_put(gw_record_store *store, const gw_job_record_id *id) {
    const gw_job_record *record = gw_job_records_find(store->records, id);
    if (record != NULL) add(&store->waiting, record);
    write_next(store);
}

void gw_record_store_rewrite(gw_record_store *store) {
    store->rewrite = true;
    write_next(store);
}

/* Reading. */

static bool take_entry(gw_record_store *store, gw_reader *r) {
    const uint8_t *bytes;
    uint32_t length;
    gw_job_record record;
    gw_err ignored;
    if (gw_entry_read(r, GW_JOB_RECORD_BYTES, &bytes, &length) != GW_ENTRY_WHOLE ||
        !gw_job_record_get(bytes, length, &record, &ignored))
        return false;
    gw_job_records_join(store->records, &record);
    gw_job_record_free(&record);
    return true;
}

static bool take(gw_record_store *store, const uint8_t *bytes, size_t length, gw_record_store_found *found,
                 gw_err *err) {
    gw_reader r = gw_reader_on(bytes, length);
    const uint8_t *magic = gw_get_view(&r, sizeof MAGIC);
    if (magic == NULL) return true; /* a crash came before anything was in it */
    if (memcmp(magic, MAGIC, HEAD_BYTES - 1) != 0)
        return gw_fail(err, GW_E_INVALID, "%s is no file of records", store->path);
    if (magic[HEAD_BYTES - 1] != VERSION)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s is of version %u; this build reads %d", store->path,
                       magic[HEAD_BYTES - 1], VERSION);
    for (bool skipped = false; gw_reader_left(&r) > 0;) {
        size_t start = r.position;
        if (take_entry(store, &r)) {
            found->entries++;
            found->damaged += skipped;
            skipped = false;
            continue;
        }
        /* The next entry begins somewhere behind; there is none where a crash has torn the last one. */
        r = gw_reader_on(bytes, length);
        gw_get_view(&r, start + 1);
        skipped = true;
    }
    return true;
}

static bool read_all(gw_record_store *store, gw_record_store_found *found, gw_err *err) {
    void *bytes;
    size_t length;
    *found = (gw_record_store_found){.entries = 0};
    if (!gw_durable_read(store->io, store->path, MOST_BYTES, &bytes, &length, err))
        return err->code == GW_E_NOTFOUND;
    bool good = take(store, bytes, length, found, err);
    free(bytes);
    return good;
}

gw_record_store *gw_record_store_open(gw_loop *loop, gw_io *io, const char *directory,
                                      gw_job_records *records, const gw_record_store_events *events,
                                      gw_record_store_found *found, gw_err *err) {
    gw_record_store *store = calloc(1, sizeof *store);
    GW_ASSERT_MEMORY(store != NULL);
    *store = (gw_record_store){
        .loop = loop, .io = io, .records = records, .events = *events, .rewrite = true, .fd = -1};
    if (gw_durable_path(store->folder, err, "%s", directory) &&
        gw_durable_path(store->path, err, "%s/%s", directory, GW_RECORD_STORE_NAME) &&
        gw_durable_path(store->temporary, err, "%s/%s.new", directory, GW_RECORD_STORE_NAME) &&
        read_all(store, found, err) && (store->helper = gw_helper_open("gw-records", err)) != NULL) {
        write_next(store); /* whole, and without what is torn or out of date */
        return store;
    }
    free(store);
    return NULL;
}

bool gw_record_store_close(gw_record_store *store, uint64_t patience_ns) {
    if (store == NULL) return true;
    uint64_t end_ns = gw_now_ns() + patience_ns;
    while (store->writing && gw_now_ns() < end_ns) gw_loop_turn(store->loop, end_ns - gw_now_ns());
    gw_timer_cancel(&store->retry);
    if (!gw_helper_close_until(store->helper, end_ns)) return false;
    if (store->fd >= 0) store->io->close(store->io, store->fd);
    drop(&store->waiting);
    free(store);
    return true;
}
