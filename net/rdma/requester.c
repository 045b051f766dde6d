#include "net/rdma/requester.h"

#include "core/base/assert.h"
#include "core/os/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    TASKS = 16, /* most outstanding operations; more go by the rails */
    PLACE = GW_WRITE_BYTES,
    AT_ONCE = 256, /* requesters polled in one round */
    EVENTS = 16,
    AWAIT_NS = 50000, /* how long a posting thread polls: a card takes less, waking a thread takes more */
    AWAIT_POLLS = 16, /* polls between two readings of the clock */
};

typedef struct task {
    gw_rdma_work work; /* first: task_of */
    struct task *next; /* in the list of free tasks, or of done ones whose completion is not reported yet */
    bool live;         /* its completion has not been reported */
    gw_op op;
    gw_rdma_outcome outcome;
    uint8_t *place; /* the PLACE bytes that the device reads or writes */
} task;

struct gw_rdma_requester {
    gw_rdma_requester *next; /* the next in the list of requesters */
    gw_rdma_requesters *requesters;
    gw_rdma_memory *memory;
    atomic_uint holders;
    atomic_bool busy; /* the queue pair has work for the thread of small operations to poll */
    pthread_mutex_t lock;
    pthread_cond_t reported; /* `reporting` has become 0 */
    /* The fields below are guarded by `lock`. */
    gw_path_endpoint *endpoint;
    uint32_t reporting;   /* threads that are reporting completions to the endpoint */
    gw_rdma_queue *queue; /* NULL: none */
    bool usable;          /* the queue pair is connected and has not broken */
    gw_rdma_words_message words;
    uint8_t *places;
    const gw_rdma_region *region;
    task tasks[TASKS];
    task *free;
};

struct gw_rdma_requesters {
    gw_rail_thread *thread;
    gw_rail_watch watch;
    gw_rdma_requester_events events;
    int epoll_fd;       /* waits for completions of all queue pairs */
    atomic_bool asleep; /* the thread of small operations sleeps or is about to */
    pthread_mutex_t lock;
    gw_rdma_requester *list;
};

/* Tasks. The functions are called with the requester's lock held. */

static void put_free(gw_rdma_requester *requester, task *t) {
    t->live = false;
    t->next = requester->free;
    requester->free = t;
}

static gw_completion completion_of(const task *t) {
    gw_completion completion = {.token = t->op.token, .peer = t->op.peer, .kind = t->op.kind};
    completion.status = t->outcome == GW_RDMA_DONE ? GW_OP_OK : GW_OP_UNKNOWN;
    bool word = t->op.kind == GW_OP_CAS || t->op.kind == GW_OP_FETCH_ADD ||
                (t->op.kind == GW_OP_READ && t->op.bytes == 8);
    if (completion.status == GW_OP_OK && word) memcpy(&completion.value, t->place, sizeof completion.value);
    if (completion.status == GW_OP_OK && t->op.kind == GW_OP_CAS && completion.value != t->op.expected)
        completion.status = GW_OP_MISMATCH;
    return completion;
}

typedef struct harvest {
    gw_rdma_requester *requester;
    task *first, **last;
} harvest;

static void on_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    harvest *h = context;
    task *t = (task *)work;
    if (!t->live) { /* its operation was abandoned */
        put_free(h->requester, t);
        return;
    }
    t->outcome = outcome;
    t->next = NULL;
    *h->last = t;
    h->last = &t->next;
}

/* Makes the completion of a task, and copies what was read to its place. */
static gw_completion complete(const task *t) {
    gw_completion completion = completion_of(t);
    if (completion.status == GW_OP_OK && t->op.kind == GW_OP_READ)
        memcpy(t->op.buffer, t->place, t->op.bytes);
    return completion;
}

/* Reports one task. Called without the lock. */
static void report_one(gw_rdma_requester *requester, gw_path_endpoint *endpoint, task *t) {
    const gw_rdma_requester_events *events = &requester->requesters->events;
    if (t->outcome == GW_RDMA_REFUSED) {
        if (t->op.kind == GW_OP_WRITE) t->op.buffer = t->place;
        events->passed(endpoint, &t->op);
        return;
    }
    gw_completion completion = complete(t);
    events->completed(endpoint, &completion);
}

/* Reports the done tasks, and a break of the queue pair, to the endpoint, for which it releases the lock.
 * Returns whether there was anything to report. */
static bool report_done(gw_rdma_requester *requester, task *first) {
    bool refused;
    const gw_err *trouble = gw_rdma_queue_trouble(requester->queue, &refused);
    bool breaks = requester->usable && trouble != NULL;
    if (first == NULL && !breaks) return false;
    gw_err why = {0};
    if (breaks) why = *trouble;
    if (breaks) requester->usable = false;
    gw_path_endpoint *endpoint = requester->endpoint;
    for (task *t = first; t != NULL; t = t->next) t->live = false;
    requester->reporting++;
    pthread_mutex_unlock(&requester->lock);
    for (task *t = first; t != NULL; t = t->next) report_one(requester, endpoint, t);
    if (breaks) requester->requesters->events.broken(endpoint, &why, refused);
    pthread_mutex_lock(&requester->lock);
    for (task *t = first, *next; t != NULL; t = next) {
        next = t->next;
        put_free(requester, t);
    }
    if (--requester->reporting == 0) pthread_cond_broadcast(&requester->reported);
    return true;
}

/* Polls one requester. Called on the thread of small operations. */
static bool poll_requester(gw_rdma_requester *requester, bool arm) {
    pthread_mutex_lock(&requester->lock);
    harvest h = {.requester = requester};
    h.last = &h.first;
    bool any = false;
    if (requester->queue != NULL && requester->endpoint != NULL) {
        gw_rdma_handlers handlers = {&h, on_done, NULL};
        if (arm) (void)gw_rdma_queue_arm(requester->queue);
        gw_rdma_queue_poll_flushed(requester->queue, &handlers);
        atomic_store(&requester->busy, gw_rdma_queue_is_busy(requester->queue));
        any = report_done(requester, h.first);
    }
    pthread_mutex_unlock(&requester->lock);
    return any;
}

/* The thread of small operations. */

static void release(gw_rdma_requester *requester) {
    if (atomic_fetch_sub(&requester->holders, 1) > 1) return;
    gw_rdma_memory_drop(requester->memory, requester->region);
    gw_rdma_memory_close(requester->memory);
    pthread_mutex_destroy(&requester->lock);
    pthread_cond_destroy(&requester->reported);
    free(requester->places);
    free(requester);
}

static bool poll_all(gw_rdma_requesters *requesters, bool arm) {
    gw_rdma_requester *busy[AT_ONCE];
    uint32_t count = 0;
    pthread_mutex_lock(&requesters->lock);
    for (gw_rdma_requester *a = requesters->list; a != NULL && count < AT_ONCE; a = a->next) {
        if (!atomic_load(&a->busy)) continue;
        atomic_fetch_add(&a->holders, 1);
        busy[count++] = a;
    }
    pthread_mutex_unlock(&requesters->lock);
    bool any = count == AT_ONCE;
    for (uint32_t i = 0; i < count; i++) {
        any = poll_requester(busy[i], arm) || any;
        release(busy[i]);
    }
    return any;
}

static bool on_poll(void *context) {
    gw_rdma_requesters *requesters = context;
    if (atomic_exchange(&requesters->asleep, false)) {
        struct epoll_event events[EVENTS];
        (void)epoll_wait(requesters->epoll_fd, events, EVENTS, 0);
    }
    return poll_all(requesters, false);
}

static bool on_arm(void *context) {
    gw_rdma_requesters *requesters = context;
    atomic_store(&requesters->asleep, true); /* from now on a thread that posts arms the queue pair */
    return !poll_all(requesters, true);
}

/* Life. */

gw_rdma_requesters *gw_rdma_requesters_open(gw_rail_thread *thread, const gw_rdma_requester_events *events,
                                            gw_err *err) {
    gw_rdma_requesters *requesters = calloc(1, sizeof *requesters);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (requesters == NULL || epoll_fd < 0) {
        gw_fail_errno(err, requesters == NULL ? ENOMEM : errno, "net/rdma: epoll_create1");
        if (epoll_fd >= 0) close(epoll_fd);
        free(requesters);
        return NULL;
    }
    *requesters = (gw_rdma_requesters){.thread = thread, .events = *events, .epoll_fd = epoll_fd};
    pthread_mutex_init(&requesters->lock, NULL);
    requesters->watch = (gw_rail_watch){epoll_fd, requesters, on_poll, on_arm};
    if (gw_rail_thread_watch(thread, &requesters->watch, err)) return requesters;
    close(epoll_fd);
    pthread_mutex_destroy(&requesters->lock);
    free(requesters);
    return NULL;
}

void gw_rdma_requesters_close(gw_rdma_requesters *requesters) {
    if (requesters == NULL) return;
    GW_ASSERT(requesters->list == NULL);
    gw_rail_thread_unwatch(requesters->thread, &requesters->watch);
    close(requesters->epoll_fd);
    pthread_mutex_destroy(&requesters->lock);
    free(requesters);
}

gw_rdma_requester *gw_rdma_requester_open(gw_rdma_requesters *requesters, gw_path_endpoint *endpoint,
                                          gw_rdma_memory *memory, gw_err *err) {
    gw_rdma_requester *requester = calloc(1, sizeof *requester);
    uint8_t *places = aligned_alloc(PLACE, (size_t)TASKS * PLACE);
    if (requester == NULL || places == NULL) {
        free(requester);
        free(places);
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    *requester = (gw_rdma_requester){.requesters = requesters, .endpoint = endpoint, .places = places};
    requester->region = gw_rdma_memory_take(memory, places, (size_t)TASKS * PLACE, GW_RDMA_LOCAL, err);
    if (requester->region == NULL) {
        free(requester);
        free(places);
        return NULL;
    }
    requester->memory = gw_rdma_memory_hold(memory);
    atomic_init(&requester->holders, 1);
    pthread_mutex_init(&requester->lock, NULL);
    pthread_cond_init(&requester->reported, NULL);
    for (uint32_t i = 0; i < TASKS; i++) {
        requester->tasks[i].place = places + (size_t)i * PLACE;
        put_free(requester, &requester->tasks[i]);
    }
    pthread_mutex_lock(&requesters->lock);
    requester->next = requesters->list;
    requesters->list = requester;
    pthread_mutex_unlock(&requesters->lock);
    return requester;
}

/* Completes all live tasks with GW_OP_UNKNOWN. They stay with the device if there is one. Called with the
 * lock held, which is released meanwhile. */
static void abandon(gw_rdma_requester *requester) {
    while (requester->reporting > 0) pthread_cond_wait(&requester->reported, &requester->lock);
    gw_completion completions[TASKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        if (!requester->tasks[i].live) continue;
        requester->tasks[i].live = false;
        requester->tasks[i].outcome = GW_RDMA_BROKEN;
        completions[count++] = completion_of(&requester->tasks[i]);
    }
    gw_path_endpoint *endpoint = requester->endpoint;
    pthread_mutex_unlock(&requester->lock);
    for (uint32_t i = 0; i < count; i++) requester->requesters->events.completed(endpoint, &completions[i]);
    pthread_mutex_lock(&requester->lock);
}

/* Closes the queue pair, so that no task is with the device afterwards. Called with the lock held. */
static void drop_queue(gw_rdma_requester *requester) {
    gw_rdma_queue_close(requester->queue);
    requester->queue = NULL;
    requester->usable = false;
    atomic_store(&requester->busy, false);
    requester->free = NULL;
    for (uint32_t i = 0; i < TASKS; i++) put_free(requester, &requester->tasks[i]);
}

void gw_rdma_requester_close(gw_rdma_requester *requester) {
    if (requester == NULL) return;
    pthread_mutex_lock(&requester->requesters->lock);
    gw_rdma_requester **at = &requester->requesters->list;
    while (*at != requester) at = &(*at)->next;
    *at = requester->next;
    pthread_mutex_unlock(&requester->requesters->lock);
    pthread_mutex_lock(&requester->lock);
    requester->usable = false;
    abandon(requester);
    requester->endpoint = NULL;
    drop_queue(requester);
    pthread_mutex_unlock(&requester->lock);
    release(requester);
}

gw_rdma_queue *gw_rdma_requester_renew(gw_rdma_requester *requester, gw_err *err) {
    static const gw_rdma_queue_options options = {.send_depth = TASKS, .inline_bytes = 64};
    pthread_mutex_lock(&requester->lock);
    requester->usable = false;
    abandon(requester);
    drop_queue(requester);
    gw_rdma_queue *queue =
        gw_rdma_queue_open_watched(requester->memory, &options, requester->requesters->epoll_fd, err);
    requester->queue = queue;
    pthread_mutex_unlock(&requester->lock);
    return queue;
}

void gw_rdma_requester_use(gw_rdma_requester *requester) {
    pthread_mutex_lock(&requester->lock);
    requester->usable = requester->queue != NULL;
    pthread_mutex_unlock(&requester->lock);
}

void gw_rdma_requester_set_keys(gw_rdma_requester *requester, const gw_rdma_words_message *words) {
    pthread_mutex_lock(&requester->lock);
    requester->words = *words;
    pthread_mutex_unlock(&requester->lock);
}

void gw_rdma_requester_abandon(gw_rdma_requester *requester) {
    pthread_mutex_lock(&requester->lock);
    abandon(requester);
    pthread_mutex_unlock(&requester->lock);
}

/* Posting. */

/* Finds the address of the operation in the owner's words. False: it is not there, or the keys known here are
 * not for its fence. */
static bool find_word(const gw_rdma_words_message *words, const gw_op *op, uint64_t *remote) {
    bool same = gw_fence_equal(&words->fence, &op->fence) && words->address != 0;
    uint64_t bytes = op->kind == GW_OP_READ || op->kind == GW_OP_WRITE ? op->bytes : 8;
    if (!same || bytes == 0 || bytes > PLACE || bytes % 8 != 0 || op->offset % 8 != 0) return false;
    for (uint32_t i = 0; i < words->count; i++) {
        if (words->regions[i].region != op->region) continue;
        if (bytes > words->regions[i].bytes || op->offset > words->regions[i].bytes - bytes) return false;
        *remote = words->address + words->regions[i].offset + op->offset;
        return true;
    }
    return false;
}

static void fill(gw_rdma_requester *requester, task *t, const gw_op *op, uint64_t remote) {
    static const gw_rdma_verb verbs[] = {[GW_OP_READ] = GW_RDMA_READ,
                                         [GW_OP_WRITE] = GW_RDMA_WRITE,
                                         [GW_OP_CAS] = GW_RDMA_CAS,
                                         [GW_OP_FETCH_ADD] = GW_RDMA_FETCH_ADD};
    t->op = *op;
    t->live = true;
    t->work = (gw_rdma_work){.verb = verbs[op->kind],
                             .local = t->place,
                             .lkey = requester->region->lkey,
                             .rkey = requester->words.rkey,
                             .bytes = op->kind == GW_OP_READ || op->kind == GW_OP_WRITE ? op->bytes : 8,
                             .remote = remote,
                             .expected = op->expected,
                             .operand = op->operand};
    if (op->kind == GW_OP_WRITE) memcpy(t->place, op->buffer, op->bytes);
}

/* Polls until the only outstanding work has completed, or AWAIT_NS have passed. */
static void await(gw_rdma_requester *requester, const gw_rdma_handlers *handlers) {
    uint64_t end = gw_now_ns() + AWAIT_NS;
    do {
        for (uint32_t polls = 0; polls < AWAIT_POLLS; polls++)
            if (gw_rdma_queue_poll(requester->queue, handlers) > 0 ||
                !gw_rdma_queue_is_busy(requester->queue))
                return;
    } while (gw_now_ns() < end);
}

/* Leaves the queue pair to the thread of small operations. That thread looks for busy requesters after it
 * has set `asleep`, and this function reads `asleep` after it has set `busy`, so one of the two sees the
 * other. */
static void leave(gw_rdma_requester *requester, const gw_rdma_handlers *handlers) {
    atomic_store(&requester->busy, true);
    if (!atomic_load(&requester->requesters->asleep)) return;
    (void)gw_rdma_queue_arm(requester->queue);
    gw_rdma_queue_poll_flushed(requester->queue,
                               handlers); /* work that completed before the arming makes no event */
}

/* Posts a task that has been filled in. */
static gw_path_posted start(gw_rdma_requester *requester, task *t, gw_completion *completion) {
    harvest h = {.requester = requester};
    h.last = &h.first;
    gw_rdma_handlers handlers = {&h, on_done, NULL};
    bool alone = !gw_rdma_queue_is_busy(requester->queue);
    gw_rdma_queue_post(requester->queue, &t->work);
    if (alone) await(requester, &handlers);
    if (h.first == NULL) leave(requester, &handlers);
    if (h.first == t && t->next == NULL && t->outcome == GW_RDMA_DONE) {
        *completion = complete(t);
        put_free(requester, t);
        return GW_PATH_DONE;
    }
    report_done(requester, h.first);
    return GW_PATH_STARTED;
}

gw_path_posted gw_rdma_requester_post(gw_rdma_requester *requester, const gw_op *op,
                                      gw_completion *completion) {
    uint64_t remote;
    gw_path_posted how = GW_PATH_PASS;
    GW_ASSERT(op->kind != GW_OP_FETCH);
    pthread_mutex_lock(&requester->lock);
    task *t = requester->free;
    if (t != NULL && requester->usable && find_word(&requester->words, op, &remote)) {
        requester->free = t->next;
        fill(requester, t, op, remote);
        how = start(requester, t, completion);
    }
    pthread_mutex_unlock(&requester->lock);
    return how;
}
