#include "net/rdma/asker.h"

#include "core/base/assert.h"
#include "core/os/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    TASKS = 16, /* outstanding; more go by the rails */
    PLACE = GW_WRITE_BYTES,
    AT_ONCE = 256, /* askers looked after in one round */
    EVENTS = 16,
    FLUSH_POLLS = 100000,
    AWAIT_NS = 50000, /* who posts waits so long: a card takes less, waking a thread more */
    AWAIT_POLLS = 16, /* between two looks at the clock */
};

typedef struct task {
    gw_rdma_work work; /* first: task_of */
    struct task *next; /* free, or done and not said yet */
    bool live;         /* its completion is owed */
    gw_op op;
    gw_rdma_outcome outcome;
    uint8_t *place; /* what the device reads or writes: PLACE bytes */
} task;

struct gw_rdma_asker {
    gw_rdma_asker *next; /* of the askers' list */
    gw_rdma_askers *askers;
    gw_rdma_memory *memory;
    atomic_uint holders;
    atomic_bool busy; /* the queue pair has work that the thread of small operations is to look after */
    pthread_mutex_t lock;
    pthread_cond_t said; /* saying is 0 again */
    /* under the lock */
    gw_path_end *end;
    uint32_t saying;      /* threads that are giving completions to the end */
    gw_rdma_queue *queue; /* NULL: none */
    bool usable;          /* it is connected and has not broken */
    gw_rdma_told_words words;
    uint8_t *places;
    const gw_rdma_region *region;
    task tasks[TASKS];
    task *free;
};

struct gw_rdma_askers {
    gw_rail_thread *thread;
    gw_rail_watch watch;
    gw_rdma_asker_events events;
    int epoll_fd;       /* of the queue pairs' completions */
    atomic_bool asleep; /* the thread sleeps, or is about to */
    pthread_mutex_t lock;
    gw_rdma_asker *list;
};

/* An asker's tasks; under its lock. */

static void put_free(gw_rdma_asker *asker, task *t) {
    t->live = false;
    t->next = asker->free;
    asker->free = t;
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
    gw_rdma_asker *asker;
    task *first, **last;
} harvest;

static void on_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    harvest *h = context;
    task *t = (task *)work;
    if (!t->live) { /* abandoned */
        put_free(h->asker, t);
        return;
    }
    t->outcome = outcome;
    t->next = NULL;
    *h->last = t;
    h->last = &t->next;
}

static void on_said(void *context, uint32_t immediate, uint32_t bytes) {
    (void)context;
    (void)immediate;
    (void)bytes;
}

/* Puts what was read into its place. */
static gw_completion complete(const task *t) {
    gw_completion completion = completion_of(t);
    if (completion.status == GW_OP_OK && t->op.kind == GW_OP_READ)
        memcpy(t->op.buffer, t->place, t->op.bytes);
    return completion;
}

/* Without the lock. */
static void say_one(gw_rdma_asker *asker, gw_path_end *end, task *t) {
    const gw_rdma_asker_events *events = &asker->askers->events;
    if (t->outcome == GW_RDMA_REFUSED) {
        if (t->op.kind == GW_OP_WRITE) t->op.buffer = t->place;
        events->passed(end, &t->op);
        return;
    }
    gw_completion completion = complete(t);
    events->completed(end, &completion);
}

/* Gives what is done to the end, without the lock meanwhile; returns whether there was anything. */
static bool say_done(gw_rdma_asker *asker, task *first) {
    bool refused;
    const gw_err *trouble = gw_rdma_queue_trouble(asker->queue, &refused);
    bool breaks = asker->usable && trouble != NULL;
    if (first == NULL && !breaks) return false;
    gw_err why = {0};
    if (breaks) why = *trouble;
    if (breaks) asker->usable = false;
    gw_path_end *end = asker->end;
    for (task *t = first; t != NULL; t = t->next) t->live = false;
    asker->saying++;
    pthread_mutex_unlock(&asker->lock);
    for (task *t = first; t != NULL; t = t->next) say_one(asker, end, t);
    if (breaks) asker->askers->events.broken(end, &why, refused);
    pthread_mutex_lock(&asker->lock);
    for (task *t = first, *next; t != NULL; t = next) {
        next = t->next;
        put_free(asker, t);
    }
    if (--asker->saying == 0) pthread_cond_broadcast(&asker->said);
    return true;
}

/* The rest of a broken queue pair's work is flushed at once: it is said with the break. */
static void poll_to_the_break(gw_rdma_asker *asker, const gw_rdma_handlers *handlers) {
    gw_rdma_queue_poll(asker->queue, handlers);
    for (uint32_t polls = 0; polls < FLUSH_POLLS && gw_rdma_queue_trouble(asker->queue, NULL) != NULL &&
                             gw_rdma_queue_is_busy(asker->queue);
         polls++)
        gw_rdma_queue_poll(asker->queue, handlers);
}

/* On the thread of small operations. */
static bool look_after(gw_rdma_asker *asker, bool arm) {
    pthread_mutex_lock(&asker->lock);
    harvest h = {.asker = asker};
    h.last = &h.first;
    bool any = false;
    if (asker->queue != NULL && asker->end != NULL) {
        gw_rdma_handlers handlers = {&h, on_done, on_said};
        if (arm) (void)gw_rdma_queue_arm(asker->queue);
        poll_to_the_break(asker, &handlers);
        atomic_store(&asker->busy, gw_rdma_queue_is_busy(asker->queue));
        any = say_done(asker, h.first);
    }
    pthread_mutex_unlock(&asker->lock);
    return any;
}

/* The thread of small operations. */

static void let_go(gw_rdma_asker *asker) {
    if (atomic_fetch_sub(&asker->holders, 1) > 1) return;
    gw_rdma_memory_drop(asker->memory, asker->region);
    gw_rdma_memory_close(asker->memory);
    pthread_mutex_destroy(&asker->lock);
    pthread_cond_destroy(&asker->said);
    free(asker->places);
    free(asker);
}

static bool look_after_all(gw_rdma_askers *askers, bool arm) {
    gw_rdma_asker *busy[AT_ONCE];
    uint32_t count = 0;
    pthread_mutex_lock(&askers->lock);
    for (gw_rdma_asker *a = askers->list; a != NULL && count < AT_ONCE; a = a->next) {
        if (!atomic_load(&a->busy)) continue;
        atomic_fetch_add(&a->holders, 1);
        busy[count++] = a;
    }
    pthread_mutex_unlock(&askers->lock);
    bool any = count == AT_ONCE;
    for (uint32_t i = 0; i < count; i++) {
        any = look_after(busy[i], arm) || any;
        let_go(busy[i]);
    }
    return any;
}

static bool on_poll(void *context) {
    gw_rdma_askers *askers = context;
    if (atomic_exchange(&askers->asleep, false)) {
        struct epoll_event events[EVENTS];
        (void)epoll_wait(askers->epoll_fd, events, EVENTS, 0);
    }
    return look_after_all(askers, false);
}

static bool on_arm(void *context) {
    gw_rdma_askers *askers = context;
    atomic_store(&askers->asleep, true); /* from now on posting arms */
    return !look_after_all(askers, true);
}

/* Life. */

gw_rdma_askers *gw_rdma_askers_open(gw_rail_thread *thread, const gw_rdma_asker_events *events, gw_err *err) {
    gw_rdma_askers *askers = calloc(1, sizeof *askers);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (askers == NULL || epoll_fd < 0) {
        gw_fail_errno(err, askers == NULL ? ENOMEM : errno, "net/rdma: epoll_create1");
        if (epoll_fd >= 0) close(epoll_fd);
        free(askers);
        return NULL;
    }
    *askers = (gw_rdma_askers){.thread = thread, .events = *events, .epoll_fd = epoll_fd};
    pthread_mutex_init(&askers->lock, NULL);
    askers->watch = (gw_rail_watch){epoll_fd, askers, on_poll, on_arm};
    if (gw_rail_thread_watch(thread, &askers->watch, err)) return askers;
    close(epoll_fd);
    pthread_mutex_destroy(&askers->lock);
    free(askers);
    return NULL;
}

void gw_rdma_askers_close(gw_rdma_askers *askers) {
    if (askers == NULL) return;
    GW_ASSERT(askers->list == NULL);
    gw_rail_thread_unwatch(askers->thread, &askers->watch);
    close(askers->epoll_fd);
    pthread_mutex_destroy(&askers->lock);
    free(askers);
}

gw_rdma_asker *gw_rdma_asker_open(gw_rdma_askers *askers, gw_path_end *end, gw_rdma_memory *memory,
                                  gw_err *err) {
    gw_rdma_asker *asker = calloc(1, sizeof *asker);
    uint8_t *places = aligned_alloc(PLACE, (size_t)TASKS * PLACE);
    if (asker == NULL || places == NULL) {
        free(asker);
        free(places);
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory");
        return NULL;
    }
    *asker = (gw_rdma_asker){.askers = askers, .end = end, .places = places};
    asker->region = gw_rdma_memory_take(memory, places, (size_t)TASKS * PLACE, GW_RDMA_LOCAL, err);
    if (asker->region == NULL) {
        free(asker);
        free(places);
        return NULL;
    }
    asker->memory = gw_rdma_memory_hold(memory);
    atomic_init(&asker->holders, 1);
    pthread_mutex_init(&asker->lock, NULL);
    pthread_cond_init(&asker->said, NULL);
    for (uint32_t i = 0; i < TASKS; i++) {
        asker->tasks[i].place = places + (size_t)i * PLACE;
        put_free(asker, &asker->tasks[i]);
    }
    pthread_mutex_lock(&askers->lock);
    asker->next = askers->list;
    askers->list = asker;
    pthread_mutex_unlock(&askers->lock);
    return asker;
}

/* Under the lock. Completes what is live as unknown; it stays with the device, if there is one. */
static void abandon(gw_rdma_asker *asker) {
    while (asker->saying > 0) pthread_cond_wait(&asker->said, &asker->lock);
    gw_completion completions[TASKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < TASKS; i++) {
        if (!asker->tasks[i].live) continue;
        asker->tasks[i].live = false;
        asker->tasks[i].outcome = GW_RDMA_BROKEN;
        completions[count++] = completion_of(&asker->tasks[i]);
    }
    gw_path_end *end = asker->end;
    pthread_mutex_unlock(&asker->lock);
    for (uint32_t i = 0; i < count; i++) asker->askers->events.completed(end, &completions[i]);
    pthread_mutex_lock(&asker->lock);
}

/* Under the lock: no work of the tasks is with the device afterwards. */
static void drop_queue(gw_rdma_asker *asker) {
    gw_rdma_queue_close(asker->queue);
    asker->queue = NULL;
    asker->usable = false;
    atomic_store(&asker->busy, false);
    asker->free = NULL;
    for (uint32_t i = 0; i < TASKS; i++) put_free(asker, &asker->tasks[i]);
}

void gw_rdma_asker_close(gw_rdma_asker *asker) {
    if (asker == NULL) return;
    pthread_mutex_lock(&asker->askers->lock);
    gw_rdma_asker **at = &asker->askers->list;
    while (*at != asker) at = &(*at)->next;
    *at = asker->next;
    pthread_mutex_unlock(&asker->askers->lock);
    pthread_mutex_lock(&asker->lock);
    asker->usable = false;
    abandon(asker);
    asker->end = NULL;
    drop_queue(asker);
    pthread_mutex_unlock(&asker->lock);
    let_go(asker);
}

gw_rdma_queue *gw_rdma_asker_renew(gw_rdma_asker *asker, gw_err *err) {
    static const gw_rdma_queue_options options = {.send_depth = TASKS, .inline_bytes = 64};
    pthread_mutex_lock(&asker->lock);
    asker->usable = false;
    abandon(asker);
    drop_queue(asker);
    gw_rdma_queue *queue = gw_rdma_queue_open(asker->memory, &options, err);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    if (queue != NULL &&
        epoll_ctl(asker->askers->epoll_fd, EPOLL_CTL_ADD, gw_rdma_queue_fd(queue), &event) != 0) {
        gw_fail_errno(err, errno, "net/rdma: epoll_ctl");
        gw_rdma_queue_close(queue);
        queue = NULL;
    }
    asker->queue = queue;
    pthread_mutex_unlock(&asker->lock);
    return queue;
}

void gw_rdma_asker_use(gw_rdma_asker *asker) {
    pthread_mutex_lock(&asker->lock);
    asker->usable = asker->queue != NULL;
    pthread_mutex_unlock(&asker->lock);
}

void gw_rdma_asker_told(gw_rdma_asker *asker, const gw_rdma_told_words *words) {
    pthread_mutex_lock(&asker->lock);
    asker->words = *words;
    pthread_mutex_unlock(&asker->lock);
}

void gw_rdma_asker_abandon(gw_rdma_asker *asker) {
    pthread_mutex_lock(&asker->lock);
    abandon(asker);
    pthread_mutex_unlock(&asker->lock);
}

/* Posting. */

/* Where in the owner's words the operation goes; false: not there, or not with the keys at hand. */
static bool find_word(const gw_rdma_told_words *words, const gw_op *op, uint64_t *remote) {
    bool same = words->fence.epoch == op->fence.epoch &&
                gw_view_name_equal(&words->fence.view, &op->fence.view) && words->address != 0;
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

static void fill(gw_rdma_asker *asker, task *t, const gw_op *op, uint64_t remote) {
    static const gw_rdma_verb verbs[] = {[GW_OP_READ] = GW_RDMA_READ,
                                         [GW_OP_WRITE] = GW_RDMA_WRITE,
                                         [GW_OP_CAS] = GW_RDMA_CAS,
                                         [GW_OP_FETCH_ADD] = GW_RDMA_FETCH_ADD};
    t->op = *op;
    t->live = true;
    t->work = (gw_rdma_work){.verb = verbs[op->kind],
                             .local = t->place,
                             .lkey = asker->region->lkey,
                             .rkey = asker->words.rkey,
                             .bytes = op->kind == GW_OP_READ || op->kind == GW_OP_WRITE ? op->bytes : 8,
                             .remote = remote,
                             .expected = op->expected,
                             .operand = op->operand};
    if (op->kind == GW_OP_WRITE) memcpy(t->place, op->buffer, op->bytes);
}

/* Until the only work there is has completed, or took too long. */
static void await(gw_rdma_asker *asker, const gw_rdma_handlers *handlers) {
    uint64_t end = gw_now_ns() + AWAIT_NS;
    do {
        for (uint32_t polls = 0; polls < AWAIT_POLLS; polls++)
            if (gw_rdma_queue_poll(asker->queue, handlers) > 0 || !gw_rdma_queue_is_busy(asker->queue))
                return;
    } while (gw_now_ns() < end);
}

/* Leaves the queue pair to the thread of small operations. It looks for who is busy after it has said that it
 * sleeps, so one of the two sees the other. */
static void leave(gw_rdma_asker *asker, const gw_rdma_handlers *handlers) {
    atomic_store(&asker->busy, true);
    if (!atomic_load(&asker->askers->asleep)) return;
    (void)gw_rdma_queue_arm(asker->queue);
    poll_to_the_break(asker, handlers); /* what completed before it was armed makes no event */
}

/* The task has been filled. */
static gw_path_posted start(gw_rdma_asker *asker, task *t, gw_completion *completion) {
    harvest h = {.asker = asker};
    h.last = &h.first;
    gw_rdma_handlers handlers = {&h, on_done, on_said};
    bool alone = !gw_rdma_queue_is_busy(asker->queue);
    gw_rdma_queue_post(asker->queue, &t->work);
    if (alone) await(asker, &handlers);
    if (h.first == NULL) leave(asker, &handlers);
    if (h.first == t && t->next == NULL && t->outcome == GW_RDMA_DONE) {
        *completion = complete(t);
        put_free(asker, t);
        return GW_PATH_DONE;
    }
    say_done(asker, h.first);
    return GW_PATH_STARTED;
}

gw_path_posted gw_rdma_asker_post(gw_rdma_asker *asker, const gw_op *op, gw_completion *completion) {
    uint64_t remote;
    gw_path_posted how = GW_PATH_PASS;
    GW_ASSERT(op->kind != GW_OP_FETCH);
    pthread_mutex_lock(&asker->lock);
    task *t = asker->free;
    if (t != NULL && asker->usable && find_word(&asker->words, op, &remote)) {
        asker->free = t->next;
        fill(asker, t, op, remote);
        how = start(asker, t, completion);
    }
    pthread_mutex_unlock(&asker->lock);
    return how;
}
