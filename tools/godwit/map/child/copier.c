#include "tools/godwit/map/child/copier.h"

#include "core/base/assert.h"
#include "core/base/hex.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/durable.h"
#include "tools/godwit/flock/children.h"
#include "tools/godwit/flock/door.h"
#include "tools/godwit/map/child/outputs.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/thread/helper.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEP_BYTES = 8 << 20 /* that are copied before they are flushed */ };

#define PAUSE_NS  UINT64_C(50000000)    /* between two flushes */
#define ANSWER_NS UINT64_C(20000000000) /* of the member */

/* The copy of a member's file. */
typedef struct copy {
    gw_peer_id whose;
    int fd;
    uint64_t bytes;
} copy;

struct gw_copier {
    gw_loop *loop;
    gw_copier_events events;
    const char *folder, *directory;
    char job[GW_JOB_RECORD_ID_TEXT];
    gw_helper *flusher, *fetcher;
    int fd;
    uint64_t end, flushed, flushed_ns;
    bool flushing, copying, failed, closing;
    gw_timer pause;
    gw_member_door_client door; /* of the fetcher's thread */
    pthread_mutex_t lock;       /* guards the door's descriptor, and `leaving` */
    bool leaving;
    copy *copies;
    uint32_t count, room;
};

static void fail(gw_copier *c, const gw_err *err) {
    if (c->failed || c->closing) return;
    c->failed = true;
    c->events.failed(c->events.context, err);
}

/* Flushing the own file. */

typedef struct flush {
    gw_copier *copier;
    uint64_t bytes;
    bool good;
    gw_err err;
} flush;

static void flush_next(gw_copier *c);

static void flush_done(void *context) {
    flush *f = context;
    gw_copier *c = f->copier;
    c->flushing = false;
    c->flushed_ns = gw_now_ns();
    if (f->good) c->flushed = f->bytes;
    if (!f->good)
        fail(c, &f->err);
    else if (!c->closing)
        c->events.flushed(c->events.context, c->flushed);
    free(f);
    flush_next(c);
}

static void run_flush(void *context) {
    flush *f = context;
    gw_io *io = gw_io_system();
    gw_err err;
    f->good = io->fdatasync(io, f->copier->fd) == 0 ||
              gw_fail_errno(&f->err, errno, "what the tasks have written cannot be flushed");
    if (!gw_loop_post(f->copier->loop, flush_done, f, &err)) gw_log(GW_ERROR, "map", "%s", err.text);
}

static void pause_over(void *context) {
    flush_next(context);
}

static void flush_next(gw_copier *c) {
    gw_err err;
    uint64_t next_ns = c->flushed_ns + PAUSE_NS;
    if (c->flushing || c->failed || c->closing || c->flushed == c->end) return;
    if (c->flushed_ns != 0 && gw_now_ns() < next_ns &&
        (c->pause.loop != NULL || gw_timer_set(c->loop, &c->pause, next_ns, pause_over, c, &err)))
        return;
    flush *f = calloc(1, sizeof *f);
    GW_ASSERT_MEMORY(f != NULL);
    f->copier = c;
    f->bytes = c->end;
    c->flushing = true;
    gw_helper_give(c->flusher, run_flush, f);
}

bool gw_copier_add(gw_copier *c, gw_map_store *store, uint32_t task, uint32_t attempt,
                   const gw_map_written *written, uint64_t *end, gw_err *err) {
    if (!gw_outputs_add(c->fd, &c->end, store, task, attempt, written, err)) return false;
    *end = c->end;
    flush_next(c);
    return true;
}

/* Copying. */

static copy *find_copy(gw_copier *c, const gw_peer_id *whose) {
    for (uint32_t i = 0; i < c->count; i++)
        if (gw_peer_id_equal(&c->copies[i].whose, whose)) return &c->copies[i];
    return NULL;
}

static copy *open_copy(gw_copier *c, const gw_peer_id *whose, gw_err *err) {
    copy *found = find_copy(c, whose);
    char name[sizeof GW_CHILD_OUTPUTS + GW_ID_TEXT], digits[GW_ID_TEXT];
    if (found != NULL) return found;
    if (c->count == c->room) {
        c->room = 2 * c->room + 4;
        c->copies = realloc(c->copies, c->room * sizeof *c->copies);
        GW_ASSERT_MEMORY(c->copies != NULL);
    }
    copy *one = &c->copies[c->count];
    gw_hex(whose->bytes, sizeof whose->bytes, digits);
    snprintf(name, sizeof name, "%s.%s", GW_CHILD_OUTPUTS, digits);
    *one = (copy){.whose = *whose};
    one->fd = gw_outputs_open(c->folder, name, &one->bytes, err);
    if (one->fd < 0) return NULL;
    c->count++;
    return one;
}

typedef struct fetch {
    gw_copier *copier;
    gw_map_copies_errand errand;
    int fd;
    uint64_t at;
    bool good;    /* all of it, or a step, is here */
    bool written; /* the disk has taken what came */
    gw_err err;
} fetch;

static void fetch_done(void *context) {
    fetch *f = context;
    gw_copier *c = f->copier;
    copy *one = find_copy(c, &f->errand.whose);
    c->copying = false;
    if (!f->written) fail(c, &f->err);
    if (f->written && !c->closing) {
        bool more = f->at > one->bytes;
        one->bytes = f->at;
        if (more) c->events.copied(c->events.context, &one->whose, one->bytes);
        if (!f->good) {
            gw_log(GW_DEBUG, "map", "a copy of outputs: %s", f->err.text);
            c->events.missed(c->events.context, &one->whose);
        }
    }
    free(f);
}

static bool connect_door(gw_copier *c, gw_err *err) {
    if (c->door.fd >= 0) return true;
    gw_member_door_client door;
    if (!gw_member_door_connect(c->directory, &door, err)) return false;
    pthread_mutex_lock(&c->lock);
    bool leaving = c->leaving;
    if (!leaving) c->door = door;
    pthread_mutex_unlock(&c->lock);
    if (leaving) gw_member_door_disconnect(&door);
    return !leaving || gw_fail(err, GW_E_ABORTED, "this child ends");
}

static void disconnect_door(gw_copier *c) {
    pthread_mutex_lock(&c->lock);
    gw_member_door_disconnect(&c->door);
    pthread_mutex_unlock(&c->lock);
}

/* Fetches the next piece, and writes it. Returns whether it has come. */
static bool fetch_piece(fetch *f) {
    gw_copier *c = f->copier;
    char whose[GW_ID_TEXT], from[GW_ID_TEXT];
    void *bytes;
    size_t count;
    gw_hex(f->errand.whose.bytes, sizeof f->errand.whose.bytes, whose);
    gw_hex(f->errand.from.bytes, sizeof f->errand.from.bytes, from);
    if (!connect_door(c, &f->err)) return false;
    json_t *request = json_pack("{s:s,s:s,s:s,s:s,s:s,s:I}", "do", "log", "job", c->job, "stream",
                                GW_CHILD_OUTPUTS, "of", whose, "node", from, "offset", (json_int_t)f->at);
    json_t *answer = gw_member_door_ask(&c->door, request, ANSWER_NS, &bytes, &count, &f->err);
    if (answer == NULL) { /* what is left of an answer would be taken for the next one */
        if (f->err.code != GW_E_USAGE) disconnect_door(c);
        return false;
    }
    json_decref(answer);
    if (count > f->errand.bytes - f->at) count = (size_t)(f->errand.bytes - f->at);
    if (count == 0) {
        free(bytes);
        return gw_fail(&f->err, GW_E_NOTFOUND, "the node has less than it said");
    }
    f->written = (lseek(f->fd, (off_t)f->at, SEEK_SET) >= 0 ||
                  gw_fail_errno(&f->err, errno, "the copy of outputs cannot be written")) &&
                 gw_durable_write_fd(gw_io_system(), f->fd, "the copy of outputs", bytes, count, &f->err);
    free(bytes);
    if (f->written) f->at += count;
    return f->written;
}

static void run_fetch(void *context) {
    fetch *f = context;
    gw_io *io = gw_io_system();
    gw_err err;
    f->written = true;
    do f->good = fetch_piece(f);
    while (f->good && f->at < f->errand.bytes && f->at - f->errand.have < STEP_BYTES);
    if (f->written && f->at > f->errand.have)
        f->written = io->fdatasync(io, f->fd) == 0 ||
                     gw_fail_errno(&f->err, errno, "the copy of outputs cannot be flushed");
    if (!gw_loop_post(f->copier->loop, fetch_done, f, &err)) gw_log(GW_ERROR, "map", "%s", err.text);
}

void gw_copier_copy(gw_copier *c, const gw_map_copies_errand *errand) {
    gw_err err;
    if (c->copying || c->failed || c->closing) return;
    const copy *one = open_copy(c, &errand->whose, &err);
    if (one == NULL) return fail(c, &err);
    fetch *f = calloc(1, sizeof *f);
    GW_ASSERT_MEMORY(f != NULL);
    *f = (fetch){.copier = c, .errand = *errand, .fd = one->fd, .at = one->bytes};
    f->errand.have = one->bytes;
    c->copying = true;
    gw_helper_give(c->fetcher, run_fetch, f);
}

bool gw_copier_is_copying(const gw_copier *c) {
    return c->copying;
}

/* Opening and closing. */

/* Opens the copy that is there under this name, if it is one. */
static bool find_one(void *context, const char *folder, const char *name, gw_err *err) {
    gw_copier *c = context;
    size_t prefix = sizeof GW_CHILD_OUTPUTS;
    gw_peer_id whose;
    (void)folder;
    if (strncmp(name, GW_CHILD_OUTPUTS ".", prefix) != 0 ||
        !gw_unhex(name + prefix, whose.bytes, sizeof whose.bytes))
        return true;
    return open_copy(c, &whose, err) != NULL;
}

gw_copier *gw_copier_open(gw_loop *loop, const char *folder, const char *directory,
                          const gw_job_record_id *job, const gw_copier_events *events, gw_err *err) {
    gw_copier *c = calloc(1, sizeof *c);
    GW_ASSERT_MEMORY(c != NULL);
    *c = (gw_copier){
        .loop = loop, .events = *events, .folder = folder, .directory = directory, .door = {.fd = -1}};
    gw_hex(job->bytes, sizeof job->bytes, c->job);
    pthread_mutex_init(&c->lock, NULL);
    c->fd = gw_outputs_open(folder, GW_CHILD_OUTPUTS, &c->end, err);
    if (c->fd >= 0 && gw_durable_list(gw_io_system(), folder, find_one, c, err) &&
        (c->flusher = gw_helper_open("gw-flush", err)) != NULL &&
        (c->fetcher = gw_helper_open("gw-copies", err)) != NULL)
        return c;
    GW_ASSERT(gw_copier_close(c, 0)); /* its threads have nothing to do */
    return NULL;
}

bool gw_copier_begin(gw_copier *c, gw_err *err) {
    gw_io *io = gw_io_system();
    if (io->fdatasync(io, c->fd) != 0)
        return gw_fail_errno(err, errno, "what the tasks have written cannot be flushed");
    c->flushed = c->end;
    c->events.flushed(c->events.context, c->flushed);
    for (uint32_t i = 0; i < c->count; i++) {
        if (io->fdatasync(io, c->copies[i].fd) != 0)
            return gw_fail_errno(err, errno, "a copy of outputs cannot be flushed");
        c->events.copied(c->events.context, &c->copies[i].whose, c->copies[i].bytes);
    }
    return true;
}

bool gw_copier_close(gw_copier *c, uint64_t patience_ns) {
    if (c == NULL) return true;
    uint64_t end_ns = gw_now_ns() + patience_ns;
    c->closing = true;
    pthread_mutex_lock(&c->lock);
    c->leaving = true;
    if (c->door.fd >= 0) shutdown(c->door.fd, SHUT_RDWR); /* nobody waits for the member any more */
    pthread_mutex_unlock(&c->lock);
    while ((c->flushing || c->copying) && gw_now_ns() < end_ns) gw_loop_turn(c->loop, end_ns - gw_now_ns());
    gw_timer_cancel(&c->pause);
    if (c->flushing || c->copying) return false;
    gw_helper_close(c->flusher);
    gw_helper_close(c->fetcher);
    gw_member_door_disconnect(&c->door);
    for (uint32_t i = 0; i < c->count; i++) close(c->copies[i].fd);
    if (c->fd >= 0) close(c->fd);
    pthread_mutex_destroy(&c->lock);
    free(c->copies);
    free(c);
    return true;
}
