#include "tools/godwit/map/child/row_log.h"

#include "core/base/assert.h"
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/thread/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION = 1, ROWS = 1, COMMITTED = 2, ORIGIN_BYTES = 24, ROWS_AT_ONCE = 4096, ORIGINS = 64 };

#define PAUSE_NS UINT64_C(50000000) /* between two writes */

static const uint8_t MAGIC[GW_ROW_LOG_HEAD_BYTES] = {'G', 'W', 'M', 'R', VERSION};

typedef struct mark {
    gw_map_origin origin;
    uint64_t count;
} mark;

/* Bytes to be written, and how many rows of each origin are on the disk then. */
typedef struct batch {
    uint8_t *bytes;
    size_t length, room;
    mark *marks;
    uint32_t mark_count, mark_room;
} batch;

struct gw_row_log {
    gw_loop *loop;
    gw_row_log_events events;
    gw_helper *helper;
    char path[GW_PATH_BYTES];
    int fd;
    batch waiting;
    bool writing, failed, closing;
    uint64_t wrote_ns;
    gw_timer pause;
};

/* Batches. */

static uint8_t *reserve(batch *b, size_t more) {
    if (b->length + more > b->room) {
        b->room = 2 * (b->length + more);
        b->bytes = realloc(b->bytes, b->room);
        GW_ASSERT_MEMORY(b->bytes != NULL);
    }
    return b->bytes + b->length;
}

static void drop(batch *b) {
    free(b->bytes);
    free(b->marks);
    *b = (batch){.length = 0};
}

/* Closes an entry whose body, of `length` bytes, stands behind room for its head. */
static void seal(batch *b, size_t length) {
    gw_entry_seal(b->bytes + b->length, (uint32_t)length);
    b->length += GW_ENTRY_HEAD_BYTES + length;
}

static gw_writer begin(batch *b, uint8_t kind, const gw_map_origin *origin, size_t more) {
    size_t length = 1 + ORIGIN_BYTES + more;
    gw_writer w = gw_writer_on(reserve(b, GW_ENTRY_HEAD_BYTES + length) + GW_ENTRY_HEAD_BYTES, length);
    gw_put_u8(&w, kind);
    gw_put_peer_id(&w, &origin->peer);
    gw_put_u64(&w, origin->life);
    return w;
}

static void mark_rows(batch *b, const gw_map_origin *origin, uint64_t count) {
    uint32_t at = 0;
    while (at < b->mark_count && memcmp(&b->marks[at].origin, origin, sizeof *origin) != 0) at++;
    if (at == b->mark_room) {
        b->mark_room = 2 * b->mark_room + 8;
        b->marks = realloc(b->marks, b->mark_room * sizeof *b->marks);
        GW_ASSERT_MEMORY(b->marks != NULL);
    }
    if (at == b->mark_count) b->mark_count++;
    b->marks[at] = (mark){*origin, count};
}

/* Writing, on the helper's thread. */

typedef struct task {
    gw_row_log *log;
    batch batch;
    bool good;
    gw_err err;
} task;

static void write_next(gw_row_log *log);

static void written(void *context) {
    task *t = context;
    gw_row_log *log = t->log;
    log->writing = false;
    log->wrote_ns = gw_now_ns();
    for (uint32_t i = 0; t->good && i < t->batch.mark_count; i++)
        log->events.durable(log->events.context, &t->batch.marks[i].origin, t->batch.marks[i].count);
    if (!t->good) {
        log->failed = true;
        log->events.failed(log->events.context, &t->err);
    }
    drop(&t->batch);
    free(t);
    write_next(log);
}

static void run(void *context) {
    task *t = context;
    const gw_row_log *log = t->log;
    gw_io *io = gw_io_system();
    gw_err err;
    t->good =
        gw_durable_write_fd(io, log->fd, log->path, t->batch.bytes, t->batch.length, &t->err) &&
        (io->fdatasync(io, log->fd) == 0 || gw_fail_errno(&t->err, errno, "%s cannot be flushed", log->path));
    if (!gw_loop_post(log->loop, written, t, &err)) gw_log(GW_ERROR, "map", "%s", err.text);
}

static void pause_over(void *context) {
    write_next(context);
}

static void write_next(gw_row_log *log) {
    gw_err err;
    uint64_t next_ns = log->wrote_ns + PAUSE_NS;
    if (log->writing || log->failed || log->waiting.length == 0) return;
    if (!log->closing && log->wrote_ns != 0 && gw_now_ns() < next_ns &&
        (log->pause.loop != NULL || gw_timer_set(log->loop, &log->pause, next_ns, pause_over, log, &err)))
        return;
    task *t = calloc(1, sizeof *t);
    GW_ASSERT_MEMORY(t != NULL);
    t->log = log;
    t->batch = log->waiting;
    log->waiting = (batch){.length = 0};
    log->writing = true;
    gw_helper_give(log->helper, run, t);
}

void gw_row_log_add(gw_row_log *log, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                    uint32_t count) {
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < ROWS_AT_ONCE ? count - done : ROWS_AT_ONCE;
        size_t most = 8 + 7 + (size_t)part * (16 + GW_MAP_ROWS_ROW_BYTES);
        gw_writer w = begin(&log->waiting, ROWS, origin, most);
        gw_put_u64(&w, first + done);
        gw_writer rest = gw_writer_on(w.bytes + w.length, most - 8);
        gw_map_rows_put(&rest, rows + done, part);
        GW_ASSERT(!w.failed && !rest.failed);
        seal(&log->waiting, w.length + rest.length);
        done += part;
    }
    mark_rows(&log->waiting, origin, first + count);
    write_next(log);
}

void gw_row_log_commit(gw_row_log *log, const gw_map_origin *origin, uint64_t count) {
    gw_writer w = begin(&log->waiting, COMMITTED, origin, 8);
    gw_put_u64(&w, count);
    GW_ASSERT(!w.failed);
    seal(&log->waiting, w.length);
    write_next(log);
}

/* Reading. */

/* Takes the body of an entry. False: it is none. */
static bool take(const uint8_t *bytes, uint32_t length, const gw_row_log_reader *reader) {
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t kind = gw_get_u8(&r);
    gw_map_origin origin;
    gw_get_peer_id(&r, &origin.peer);
    origin.life = gw_get_u64(&r);
    uint64_t number = gw_get_u64(&r);
    gw_map_row *rows;
    uint32_t count;
    gw_err ignored;
    if (r.failed) return false;
    if (kind == COMMITTED) {
        if (!gw_reader_done(&r)) return false;
        if (reader->committed != NULL) reader->committed(reader->context, &origin, number);
        return true;
    }
    size_t left = gw_reader_left(&r);
    if (kind != ROWS || !gw_map_rows_get(gw_get_view(&r, left), left, &rows, &count, &ignored)) return false;
    bool good = reader->rows == NULL || reader->rows(reader->context, &origin, number, rows, count);
    free(rows);
    return good;
}

bool gw_row_log_read(const void *bytes, size_t length, const gw_row_log_reader *reader, size_t *used) {
    gw_reader r = gw_reader_on(bytes, length);
    for (*used = 0;;) {
        const uint8_t *body;
        uint32_t body_bytes;
        gw_entry_found found = gw_entry_read(&r, GW_ROW_LOG_ENTRY_BYTES, &body, &body_bytes);
        if (found == GW_ENTRY_TORN) return true;
        if (found == GW_ENTRY_DAMAGED || !take(body, body_bytes, reader)) return false;
        *used = r.position;
    }
}

/* Reads what is there, and cuts off what is not whole. */
static bool recover(gw_row_log *log, const gw_row_log_reader *reader, gw_err *err) {
    static const uint64_t most = (uint64_t)64 << 30;
    void *bytes;
    size_t length, used = 0;
    gw_io *io = gw_io_system();
    if (!gw_durable_read(io, log->path, most, &bytes, &length, err)) {
        if (err->code != GW_E_NOTFOUND) return false;
        bytes = NULL;
        length = 0;
    }
    bool whole = length >= sizeof MAGIC, good = true;
    if (whole && memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        good = gw_fail(err, GW_E_UNSUPPORTED, "%s is of another build, or no file of rows", log->path);
    if (whole && good &&
        !gw_row_log_read((const uint8_t *)bytes + sizeof MAGIC, length - sizeof MAGIC, reader, &used))
        gw_log(GW_WARN, "map",
               "%s is damaged at byte %zu: what is lost there comes back from the other nodes", log->path,
               sizeof MAGIC + used);
    free(bytes);
    if (!good) return false;
    log->fd = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (log->fd < 0) return gw_fail_errno(err, errno, "%s cannot be opened", log->path);
    off_t end = whole ? (off_t)(sizeof MAGIC + used) : 0;
    if (ftruncate(log->fd, end) != 0 || lseek(log->fd, end, SEEK_SET) != end)
        return gw_fail_errno(err, errno, "%s cannot be cut", log->path);
    return whole || gw_durable_write_fd(io, log->fd, log->path, MAGIC, sizeof MAGIC, err);
}

gw_row_log *gw_row_log_open(gw_loop *loop, const char *folder, const gw_row_log_reader *reader,
                            const gw_row_log_events *events, gw_err *err) {
    gw_row_log *log = calloc(1, sizeof *log);
    GW_ASSERT_MEMORY(log != NULL);
    *log = (gw_row_log){.loop = loop, .events = *events, .fd = -1};
    if (gw_durable_path(log->path, err, "%s/%s", folder, GW_ROW_LOG_NAME) && recover(log, reader, err) &&
        (log->helper = gw_helper_open("gw-rows", err)) != NULL)
        return log;
    if (log->fd >= 0) close(log->fd);
    free(log);
    return NULL;
}

bool gw_row_log_close(gw_row_log *log, uint64_t patience_ns) {
    if (log == NULL) return true;
    uint64_t end_ns = gw_now_ns() + patience_ns;
    log->closing = true;
    write_next(log);
    while (log->writing && gw_now_ns() < end_ns) /* each write begins the next one */
        gw_loop_turn(log->loop, end_ns - gw_now_ns());
    gw_timer_cancel(&log->pause);
    if (!gw_helper_close_until(log->helper, end_ns)) return false;
    close(log->fd);
    drop(&log->waiting);
    free(log);
    return true;
}
