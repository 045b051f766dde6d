#include "net/rdma/reader.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "net/data/request.h"
#include "net/loop/backoff.h"
#include "net/rdma/lender.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    PARTS = 8, /* parts under way to one owner, which lends at least as many at once */
    /* READs at the device. The owner's device sends as fast as it can, and what the network cannot hold is
     * lost and costs a timeout. */
    PIECES = 4,
    PIECE_BYTES = 128 * 1024,
    EVENTS = 16,
    BROKEN_UNREAD_MOST = 3, /* queue pairs in a row that break before anything was READ by them */
};
_Static_assert(PARTS <= (int)GW_RDMA_LENT_MOST, "the owner lends them all");
_Static_assert(GW_RDMA_READ_LEAST >= (int)GW_SMALL_BYTES, "words are read by the requesters");

/* An operation. */
typedef struct task {
    struct task *next; /* in the list of waiting tasks, or of ended ones */
    gw_op op;
    uint64_t asked;     /* bytes for which parts were made */
    uint32_t parts;     /* parts under way */
    bool waits, passes; /* waits: some of it has no part yet; passes: it goes by the rails */
    gw_op_status status;
    uint64_t value;
} task;

typedef enum part_state { FREE, ASKED, LENT } part_state;

typedef struct part {
    part_state state;
    task *of;
    uint64_t id, at, bytes; /* `at`: the offset in the caller's buffer */
    /* LENT */
    uint64_t remote, posted; /* posted: bytes for which pieces were made */
    uint32_t rkey, pieces;   /* pieces: how many are at the device */
    bool failed;
    const gw_rdma_region *local;
} part;

/* One READ of the device. */
typedef struct piece {
    gw_rdma_work work; /* first: on_done */
    part *of;          /* NULL: the piece is free */
} piece;

struct gw_rdma_reader {
    gw_rdma_reader *next; /* the next in the list of readers */
    gw_rdma_readers *readers;
    gw_rdma_memory *memory;
    gw_path_endpoint *endpoint;
    pthread_mutex_t lock;
    pthread_cond_t reported; /* `reporting` has become 0 */
    /* The fields below are guarded by the lock. */
    uint32_t reporting;   /* threads that are reporting completions to the endpoint */
    gw_rdma_queue *queue; /* NULL: none */
    bool connected;       /* the queue pair is connected */
    /* Queue pairs in a row that broke before anything was READ (BROKEN_UNREAD_MOST). */
    uint32_t broken_unread;
    bool over; /* READs do not work: nothing is READ before again_ns */
    uint64_t again_ns;
    gw_rdma_pause pause;
    uint64_t no_memory_ns; /* when memory to read into could last not be registered; 0: never */
    uint64_t ids;
    task *first, **last; /* the waiting tasks, in order */
    part parts[PARTS];
    piece pieces[PIECES];
};

struct gw_rdma_readers {
    gw_rdma_reader_needed *needed;
    int epoll_fd; /* waits for completions of all queue pairs */
    gw_watch watch;
    gw_rdma_reader *list; /* used by the control thread */
};

uint64_t gw_rdma_pause_begin(gw_rdma_pause *pause, const gw_peer_id *peer, const gw_err *why,
                             const char *meanwhile) {
    char id[GW_SHORT_TEXT];
    bool news = pause->ns == 0;
    pause->ns = gw_backoff_next(pause->ns, GW_BACKOFF_FIRST_NS);
    gw_log(news ? GW_WARN : GW_DEBUG, "net/rdma", "%s: with peer %s %s; the next try is in %llu s", why->text,
           gw_peer_id_short(peer, id), meanwhile, (unsigned long long)(pause->ns / 1000000000u));
    return pause->ns;
}

void gw_rdma_pause_end(gw_rdma_pause *pause, const gw_peer_id *peer, const char *again) {
    char id[GW_SHORT_TEXT];
    if (pause->ns == 0) return;
    pause->ns = 0;
    gw_log(GW_INFO, "net/rdma", "with peer %s %s", gw_peer_id_short(peer, id), again);
}

/* Tasks and parts. The functions are called with the lock held. */

/* The ended tasks, which are to be reported without the lock. */
typedef struct endings {
    task *first;
} endings;

static void tell_back(gw_rdma_reader *reader, uint64_t id) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_back_message back = {id};
    reader->endpoint->path->host->tell(reader->endpoint, bytes, gw_rdma_back_encode(&back, bytes));
}

static void tell_want(gw_rdma_reader *reader, const part *p) {
    const gw_op *op = &p->of->op;
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_want_message want = {.id = p->id, .bytes = p->bytes};
    want.what = op->kind == GW_OP_FETCH ? GW_RDMA_BY_NAME : GW_RDMA_OF_REGION;
    want.name = op->name;
    want.fence = op->fence;
    want.region = op->region;
    want.offset = op->offset + p->at;
    reader->endpoint->path->host->tell(reader->endpoint, bytes, gw_rdma_want_encode(&want, bytes));
}

static void stop_waiting(gw_rdma_reader *reader, task *t) {
    if (!t->waits) return;
    task **at = &reader->first;
    while (*at != t) at = &(*at)->next;
    *at = t->next;
    if (*at == NULL) reader->last = at;
    t->waits = false;
}

static bool is_bad(const task *t) {
    return t->passes || t->status != GW_OP_OK;
}

/* Ends the task if no part of it is under way or to come. */
static void settle(gw_rdma_reader *reader, task *t, endings *ended) {
    if (is_bad(t)) stop_waiting(reader, t);
    if (t->waits || t->parts > 0) return;
    t->next = ended->first;
    ended->first = t;
}

static void end_part(gw_rdma_reader *reader, part *p, endings *ended) {
    task *t = p->of;
    gw_rdma_memory_drop(reader->memory, p->local);
    *p = (part){.state = FREE};
    t->parts--;
    settle(reader, t, ended);
}

/* Gives back a part that was lent and is not READ: its task goes by the rails. */
static void give_up_part(gw_rdma_reader *reader, part *p, endings *ended) {
    tell_back(reader, p->id);
    p->of->passes = true;
    end_part(reader, p, ended);
}

static uint64_t part_bytes(const task *t) {
    const gw_op *op = &t->op;
    if (op->kind == GW_OP_FETCH) return op->bytes;
    uint64_t left = op->bytes - t->asked;
    uint64_t room = GW_RDMA_PART_BYTES - (op->offset + t->asked) % GW_RDMA_PART_BYTES;
    return left < room ? left : room;
}

/* Requests parts of the waiting tasks while there are places. */
static void ask(gw_rdma_reader *reader) {
    for (uint32_t i = 0; i < PARTS && reader->first != NULL; i++) {
        part *p = &reader->parts[i];
        task *t = reader->first;
        if (p->state != FREE) continue;
        *p = (part){.state = ASKED, .of = t, .id = ++reader->ids, .at = t->asked, .bytes = part_bytes(t)};
        t->asked += p->bytes;
        t->parts++;
        if (t->asked == t->op.bytes) stop_waiting(reader, t);
        tell_want(reader, p);
    }
}

/* The oldest part of which bytes are left to be READ; NULL: there is none. */
static part *oldest_unread(gw_rdma_reader *reader) {
    part *oldest = NULL;
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &reader->parts[i];
        if (p->state != LENT || p->failed || p->posted == p->bytes) continue;
        if (oldest == NULL || p->id < oldest->id) oldest = p;
    }
    return oldest;
}

/* Posts as many READs as may be at the device. */
static void post_reads(gw_rdma_reader *reader) {
    for (uint32_t i = 0; i < PIECES && reader->connected; i++) {
        piece *q = &reader->pieces[i];
        part *p = q->of == NULL ? oldest_unread(reader) : NULL;
        if (p == NULL) continue;
        uint64_t left = p->bytes - p->posted;
        *q = (piece){.of = p,
                     .work = {.verb = GW_RDMA_READ,
                              .local = (uint8_t *)p->of->op.buffer + p->at + p->posted,
                              .lkey = p->local->lkey,
                              .rkey = p->rkey,
                              .bytes = left < PIECE_BYTES ? left : PIECE_BYTES,
                              .remote = p->remote + p->posted}};
        p->posted += q->work.bytes;
        p->pieces++;
        gw_rdma_queue_post(reader->queue, &q->work);
    }
}

/* Reports the ended tasks, for which it releases the lock. */
static void report(gw_rdma_reader *reader, const endings *ended) {
    if (ended->first == NULL) return;
    const gw_path_host *host = reader->endpoint->path->host;
    reader->reporting++;
    pthread_mutex_unlock(&reader->lock);
    for (task *t = ended->first, *next; t != NULL; t = next) {
        next = t->next;
        gw_completion completion = {t->op.token, t->op.peer, t->op.kind, t->status, t->value};
        if (t->passes && t->status == GW_OP_OK)
            host->pass(reader->endpoint, &t->op);
        else
            host->completed(reader->endpoint, &completion);
        free(t);
    }
    pthread_mutex_lock(&reader->lock);
    if (--reader->reporting == 0) pthread_cond_broadcast(&reader->reported);
}

/* Whether READs work. The functions are called with the lock held. */

/* Stops READs for a while. */
static void pause_reads(gw_rdma_reader *reader, const gw_err *why) {
    reader->over = true;
    reader->again_ns = gw_now_ns() + gw_rdma_pause_begin(&reader->pause, &reader->endpoint->peer, why,
                                                         "large transfers come in messages");
}

/* Allows one more queue pair after the pause. If it breaks before anything was READ, READs do not work
 * yet. */
static void allow_after_pause(gw_rdma_reader *reader) {
    if (!reader->over || gw_now_ns() < reader->again_ns) return;
    reader->over = false;
    reader->broken_unread = BROKEN_UNREAD_MOST - 1;
}

/* Notes that something was READ. */
static void note_success(gw_rdma_reader *reader) {
    reader->broken_unread = 0;
    gw_rdma_pause_end(&reader->pause, &reader->endpoint->peer, "large transfers are READ again");
}

/* The queue pair. The functions are called on the control thread. */

typedef struct harvest {
    gw_rdma_reader *reader;
    endings ended;
} harvest;

static void on_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    harvest *h = context;
    piece *q = (piece *)work;
    part *p = q->of;
    const gw_path_host *host = h->reader->endpoint->path->host;
    q->of = NULL;
    p->pieces--;
    p->failed = p->failed || outcome != GW_RDMA_DONE;
    if (outcome == GW_RDMA_DONE) {
        note_success(h->reader);
        host->pulled(h->reader->endpoint, work->bytes);
        if (p->of->op.landed != NULL) atomic_fetch_add(p->of->op.landed, work->bytes);
    }
    if (p->pieces > 0 || (!p->failed && p->posted < p->bytes)) return;
    if (p->failed) {
        give_up_part(h->reader, p, &h->ended);
        return;
    }
    tell_back(h->reader, p->id);
    end_part(h->reader, p, &h->ended);
}

static void drop_queue(gw_rdma_reader *reader) {
    gw_rdma_queue_close(reader->queue);
    reader->queue = NULL;
    reader->connected = false;
    for (uint32_t i = 0; i < PIECES; i++) reader->pieces[i].of = NULL;
}

/* Gives back the parts that were lent and cannot be READ: all of them, or only those that were begun. */
static void give_up_parts(gw_rdma_reader *reader, bool begun, endings *ended) {
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &reader->parts[i];
        if (p->state == LENT && (!begun || p->posted > 0)) give_up_part(reader, p, ended);
    }
}

static bool needs_queue(const gw_rdma_reader *reader) {
    bool needs = false;
    for (uint32_t i = 0; i < PARTS; i++) needs = needs || reader->parts[i].state == LENT;
    return needs && reader->queue == NULL && !reader->over;
}

static void poll_queue(gw_rdma_reader *reader, harvest *h) {
    gw_rdma_handlers handlers = {h, on_done, NULL};
    (void)gw_rdma_queue_arm(reader->queue);
    while (gw_rdma_queue_poll_flushed(reader->queue, &handlers) > 0) {
    }
}

/* Handles a break of the queue pair. What it was READING goes by the rails, the rest by the next queue pair.
 * If queue pairs break time after time, READs do not work between these two peers for the time being. */
static void replace_queue(gw_rdma_reader *reader, const gw_err *why, bool refused, endings *ended) {
    char id[GW_SHORT_TEXT];
    if (!refused && ++reader->broken_unread == BROKEN_UNREAD_MOST)
        pause_reads(reader, why);
    else if (!refused)
        gw_log(GW_INFO, "net/rdma", "%s: large transfers from peer %s begin again", why->text,
               gw_peer_id_short(&reader->endpoint->peer, id));
    drop_queue(reader);
    give_up_parts(reader, !reader->over, ended);
}

static void poll_reader(gw_rdma_reader *reader) {
    harvest h = {.reader = reader};
    pthread_mutex_lock(&reader->lock);
    if (reader->queue != NULL) {
        bool refused;
        poll_queue(reader, &h);
        const gw_err *trouble = gw_rdma_queue_trouble(reader->queue, &refused);
        if (trouble != NULL) replace_queue(reader, trouble, refused, &h.ended);
    }
    ask(reader);
    post_reads(reader);
    report(reader, &h.ended);
    bool needs = needs_queue(reader);
    pthread_mutex_unlock(&reader->lock);
    if (needs) reader->readers->needed(reader->endpoint);
}

static void on_readable(void *context, uint32_t mask) {
    gw_rdma_readers *readers = context;
    struct epoll_event events[EVENTS];
    (void)mask;
    (void)epoll_wait(readers->epoll_fd, events, EVENTS, 0);
    for (gw_rdma_reader *reader = readers->list, *next; reader != NULL; reader = next) {
        next = reader->next;
        poll_reader(reader);
    }
}

gw_rdma_queue *gw_rdma_reader_renew(gw_rdma_reader *reader, gw_err *err) {
    static const gw_rdma_queue_options options = {.send_depth = 2 * PIECES};
    pthread_mutex_lock(&reader->lock);
    GW_ASSERT(!reader->connected);
    drop_queue(reader);
    gw_rdma_queue *queue =
        gw_rdma_queue_open_watched(reader->memory, &options, reader->readers->epoll_fd, err);
    reader->queue = queue;
    pthread_mutex_unlock(&reader->lock);
    return queue;
}

void gw_rdma_reader_use(gw_rdma_reader *reader) {
    pthread_mutex_lock(&reader->lock);
    reader->connected = reader->queue != NULL;
    pthread_mutex_unlock(&reader->lock);
    poll_reader(reader); /* arms the queue pair and posts READs */
}

void gw_rdma_reader_lost(gw_rdma_reader *reader, const gw_err *why) {
    endings ended = {NULL};
    pthread_mutex_lock(&reader->lock);
    if (reader->queue != NULL) {
        if (!reader->connected) pause_reads(reader, why);
        drop_queue(reader);
        give_up_parts(reader, false, &ended);
        ask(reader);
        report(reader, &ended);
    }
    pthread_mutex_unlock(&reader->lock);
}

/* Answers of the owner. */

/* Warns that memory could not be registered. Where a process may lock little memory, some can be registered
 * now and then and no more, so the warning is repeated only if nothing of the kind has happened for a while.
 * Called with the lock held. */
static void warn_no_memory(gw_rdma_reader *reader, const gw_err *why) {
    uint64_t now = gw_now_ns();
    bool reported = reader->no_memory_ns != 0 && now < reader->no_memory_ns + GW_BACKOFF_MOST_NS;
    reader->no_memory_ns = now;
    gw_log(reported ? GW_DEBUG : GW_WARN, "net/rdma", "%s: the transfer comes in messages", why->text);
}

static bool take_answer(gw_rdma_reader *reader, part *p, const gw_rdma_lent_message *lent, endings *ended) {
    task *t = p->of;
    bool fetches = t->op.kind == GW_OP_FETCH;
    gw_err err;
    if (lent->answer != GW_RDMA_LENT) {
        t->passes = lent->answer == GW_RDMA_BY_RAILS;
        if (!t->passes) t->status = GW_OP_NOTFOUND;
        end_part(reader, p, ended);
        return fetches || t->passes;
    }
    if (fetches ? lent->bytes > p->bytes : lent->bytes != p->bytes) return false;
    if (fetches) t->value = lent->bytes;
    if (reader->over || is_bad(t)) {
        give_up_part(reader, p, ended);
        return true;
    }
    if (lent->bytes == 0) {
        tell_back(reader, p->id);
        end_part(reader, p, ended);
        return true;
    }
    const uint8_t *into = (const uint8_t *)t->op.buffer + p->at;
    p->local = gw_rdma_memory_take(reader->memory, into, lent->bytes, GW_RDMA_LOCAL, &err);
    if (p->local == NULL) {
        warn_no_memory(reader, &err);
        give_up_part(reader, p, ended);
        return true;
    }
    p->state = LENT;
    p->bytes = lent->bytes;
    p->remote = lent->address;
    p->rkey = lent->rkey;
    post_reads(reader);
    return true;
}

bool gw_rdma_reader_lent(gw_rdma_reader *reader, const gw_rdma_lent_message *lent) {
    endings ended = {NULL};
    bool good = true;
    pthread_mutex_lock(&reader->lock);
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &reader->parts[i];
        if (p->state != ASKED || p->id != lent->id)
            continue; /* otherwise the part was abandoned, and its loan was given back */
        good = take_answer(reader, p, lent, &ended);
        break;
    }
    ask(reader);
    report(reader, &ended);
    bool needs = needs_queue(reader);
    pthread_mutex_unlock(&reader->lock);
    if (needs) reader->readers->needed(reader->endpoint);
    return good;
}

/* Posting. */

bool gw_rdma_reader_takes(const gw_op *op) {
    return (op->kind == GW_OP_FETCH || op->kind == GW_OP_READ) && op->bytes > GW_RDMA_READ_LEAST;
}

gw_path_posted gw_rdma_reader_post(gw_rdma_reader *reader, const gw_op *op) {
    GW_ASSERT(gw_rdma_reader_takes(op));
    task *t = calloc(1, sizeof *t);
    if (t == NULL) return GW_PATH_PASS;
    *t = (task){.op = *op, .waits = true, .status = GW_OP_OK};
    pthread_mutex_lock(&reader->lock);
    allow_after_pause(reader);
    bool can = !reader->over;
    if (can) {
        *reader->last = t;
        reader->last = &t->next;
        ask(reader);
    }
    pthread_mutex_unlock(&reader->lock);
    if (!can) free(t);
    return can ? GW_PATH_STARTED : GW_PATH_PASS;
}

/* Ends everything: operations of which a part was requested complete as GW_OP_UNKNOWN, all others as
 * GW_OP_UNREACHABLE. When it returns no device touches the callers' memory. Called with the lock held. */
static void end_all(gw_rdma_reader *reader) {
    endings ended = {NULL};
    bool reads = false;
    while (reader->reporting > 0) pthread_cond_wait(&reader->reported, &reader->lock);
    for (uint32_t i = 0; i < PIECES; i++) reads = reads || reader->pieces[i].of != NULL;
    if (reads) drop_queue(reader);
    for (task *t = reader->first, *next; t != NULL; t = next) {
        next = t->next;
        if (t->parts > 0) continue;
        t->status = t->asked > 0 ? GW_OP_UNKNOWN : GW_OP_UNREACHABLE;
        settle(reader, t, &ended);
    }
    for (uint32_t i = 0; i < PARTS; i++) {
        part *p = &reader->parts[i];
        if (p->state == FREE) continue;
        p->of->status = GW_OP_UNKNOWN;
        tell_back(reader, p->id);
        end_part(reader, p, &ended);
    }
    report(reader, &ended);
}

void gw_rdma_reader_abandon(gw_rdma_reader *reader) {
    pthread_mutex_lock(&reader->lock);
    end_all(reader);
    pthread_mutex_unlock(&reader->lock);
}

/* Life. */

gw_rdma_reader *gw_rdma_reader_open(gw_rdma_readers *readers, gw_path_endpoint *endpoint,
                                    gw_rdma_memory *memory, gw_err *err) {
    gw_rdma_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    reader->readers = readers;
    reader->endpoint = endpoint;
    reader->memory = gw_rdma_memory_hold(memory);
    reader->last = &reader->first;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->reported, NULL);
    reader->next = readers->list;
    readers->list = reader;
    return reader;
}

void gw_rdma_reader_close(gw_rdma_reader *reader) {
    if (reader == NULL) return;
    gw_rdma_reader **at = &reader->readers->list;
    while (*at != reader) at = &(*at)->next;
    *at = reader->next;
    pthread_mutex_lock(&reader->lock);
    reader->over = true;
    reader->again_ns = UINT64_MAX;
    end_all(reader);
    drop_queue(reader);
    pthread_mutex_unlock(&reader->lock);
    gw_rdma_memory_close(reader->memory);
    pthread_mutex_destroy(&reader->lock);
    pthread_cond_destroy(&reader->reported);
    free(reader);
}

gw_rdma_readers *gw_rdma_readers_open(gw_loop *loop, gw_rdma_reader_needed *needed, gw_err *err) {
    gw_rdma_readers *readers = calloc(1, sizeof *readers);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (readers == NULL || epoll_fd < 0) {
        gw_fail_errno(err, readers == NULL ? ENOMEM : errno, "net/rdma: epoll_create1");
        if (epoll_fd >= 0) close(epoll_fd);
        free(readers);
        return NULL;
    }
    *readers = (gw_rdma_readers){.needed = needed, .epoll_fd = epoll_fd};
    if (gw_watch_add(loop, &readers->watch, epoll_fd, EPOLLIN, on_readable, readers, err)) return readers;
    close(epoll_fd);
    free(readers);
    return NULL;
}

void gw_rdma_readers_close(gw_rdma_readers *readers) {
    if (readers == NULL) return;
    GW_ASSERT(readers->list == NULL);
    gw_watch_remove(&readers->watch);
    close(readers->epoll_fd);
    free(readers);
}
