#include "net/loop/loop.h"

#include "core/base/assert.h"
#include "core/os/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { READY_BATCH = 64 };

typedef struct posted {
    gw_loop_call *call;
    void *context;
} posted;

typedef struct post_queue {
    posted *calls;
    size_t count, capacity;
} post_queue;

struct gw_loop {
    int epoll_fd, wake_fd;
    int ready_count, ready_next;
    struct epoll_event ready[READY_BATCH];
    size_t watches;

    gw_timer **heap; /* by (deadline, serial) */
    size_t timers, timer_capacity;
    uint64_t timer_serial;
    _Atomic uint64_t turn_ns; /* when the present turn began; 0 while the loop waits */

    pthread_mutex_t lock; /* guards incoming and stopping */
    post_queue incoming;
    bool stopping;
    post_queue running; /* the loop thread's own: swapped with incoming, so neither is allocated anew */
};

gw_loop *gw_loop_open(gw_err *err) {
    gw_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for an event loop");
        return NULL;
    }
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}; /* NULL: the wake-up */
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) {
        gw_fail_errno(err, errno, "cannot make an event loop");
        if (loop->epoll_fd >= 0) close(loop->epoll_fd);
        if (loop->wake_fd >= 0) close(loop->wake_fd);
        free(loop);
        return NULL;
    }
    int failed = pthread_mutex_init(&loop->lock, NULL);
    GW_ASSERT(failed == 0);
    return loop;
}

void gw_loop_close(gw_loop *loop) {
    GW_ASSERT(loop->watches == 0);
    GW_ASSERT(loop->timers == 0);
    close(loop->epoll_fd);
    close(loop->wake_fd);
    pthread_mutex_destroy(&loop->lock);
    free(loop->heap);
    free(loop->incoming.calls);
    free(loop->running.calls);
    free(loop);
}

/* Watches. */

bool gw_watch_add(gw_loop *loop, gw_watch *watch, int fd, uint32_t events, gw_watch_call *call, void *context,
                  gw_err *err) {
    GW_ASSERT(watch->loop == NULL && call != NULL);
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return gw_fail_errno(err, errno, "cannot watch a descriptor");
    *watch = (gw_watch){.loop = loop, .fd = fd, .events = events, .call = call, .context = context};
    loop->watches++;
    return true;
}

void gw_watch_change(gw_watch *watch, uint32_t events) {
    GW_ASSERT(watch->loop != NULL);
    if (watch->events == events) return;
    struct epoll_event event = {.events = events, .data.ptr = watch};
    int failed = epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
    GW_ASSERT(failed == 0);
    watch->events = events;
}

void gw_watch_remove(gw_watch *watch) {
    gw_loop *loop = watch->loop;
    if (loop == NULL) return;
    int failed = epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    GW_ASSERT(failed == 0);
    for (int i = loop->ready_next; i < loop->ready_count; i++)
        if (loop->ready[i].data.ptr == watch)
            loop->ready[i].events = 0; /* the event has arrived and must not be reported any more */
    watch->loop = NULL;
    loop->watches--;
}

/* Timers: a binary heap of pointers; a timer knows its place in it. */

static bool before(const gw_timer *a, const gw_timer *b) {
    return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->serial < b->serial;
}

static void heap_put(gw_loop *loop, size_t place, gw_timer *timer) {
    loop->heap[place] = timer;
    timer->place = place;
}

static void heap_up(gw_loop *loop, size_t place) {
    gw_timer *timer = loop->heap[place];
    while (place > 0 && before(timer, loop->heap[(place - 1) / 2])) {
        heap_put(loop, place, loop->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(loop, place, timer);
}

static void heap_down(gw_loop *loop, size_t place) {
    gw_timer *timer = loop->heap[place];
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= loop->timers) break;
        if (child + 1 < loop->timers && before(loop->heap[child + 1], loop->heap[child])) child++;
        if (!before(loop->heap[child], timer)) break;
        heap_put(loop, place, loop->heap[child]);
        place = child;
    }
    heap_put(loop, place, timer);
}

bool gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call, void *context,
                  gw_err *err) {
    GW_ASSERT(call != NULL);
    gw_timer_cancel(timer);
    if (loop->timers == loop->timer_capacity) {
        size_t capacity = loop->timer_capacity ? 2 * loop->timer_capacity : 64;
        gw_timer **heap = realloc(loop->heap, capacity * sizeof(gw_timer *));
        if (heap == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for a timer");
        loop->heap = heap;
        loop->timer_capacity = capacity;
    }
    *timer = (gw_timer){.loop = loop,
                        .deadline_ns = deadline_ns,
                        .serial = loop->timer_serial++,
                        .call = call,
                        .context = context};
    heap_put(loop, loop->timers++, timer);
    heap_up(loop, timer->place);
    return true;
}

void gw_timer_cancel(gw_timer *timer) {
    gw_loop *loop = timer->loop;
    if (loop == NULL) return;
    size_t place = timer->place;
    GW_ASSERT(place < loop->timers && loop->heap[place] == timer);
    timer->loop = NULL;
    gw_timer *last = loop->heap[--loop->timers];
    if (last == timer) return;
    heap_put(loop, place, last);
    heap_up(loop, place);
    heap_down(loop, last->place);
}

static void run_timers(gw_loop *loop) {
    uint64_t now = gw_now_ns(), newest = loop->timer_serial; /* timers set from here on wait for a turn */
    while (loop->timers > 0) {
        gw_timer *timer = loop->heap[0];
        if (timer->deadline_ns > now || timer->serial >= newest) break;
        gw_timer_cancel(timer);
        timer->call(timer->context);
    }
}

/* Posted calls. */

static void wake(gw_loop *loop) {
    uint64_t one = 1;
    ssize_t written = write(loop->wake_fd, &one, sizeof one);
    GW_ASSERT(written == (ssize_t)sizeof one || errno == EAGAIN); /* EAGAIN: it is awake 2^64 times over */
}

bool gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err) {
    GW_ASSERT(call != NULL);
    pthread_mutex_lock(&loop->lock);
    post_queue *queue = &loop->incoming;
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity ? 2 * queue->capacity : 64;
        posted *calls = realloc(queue->calls, capacity * sizeof *calls);
        if (calls == NULL) {
            pthread_mutex_unlock(&loop->lock);
            return gw_fail(err, GW_E_NOMEM, "no memory for a posted call");
        }
        queue->calls = calls;
        queue->capacity = capacity;
    }
    queue->calls[queue->count++] = (posted){call, context};
    bool first = queue->count == 1;
    pthread_mutex_unlock(&loop->lock);
    if (first) wake(loop); /* later ones find the loop woken already */
    return true;
}

void gw_loop_stop(gw_loop *loop) {
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->lock);
    wake(loop);
}

static void run_posted(gw_loop *loop) {
    GW_ASSERT(loop->running.count == 0);
    pthread_mutex_lock(&loop->lock);
    post_queue taken = loop->incoming;
    loop->incoming = loop->running;
    loop->running = taken;
    pthread_mutex_unlock(&loop->lock);
    for (size_t i = 0; i < loop->running.count; i++)
        loop->running.calls[i].call(loop->running.calls[i].context);
    loop->running.count = 0;
}

/* Running. */

static int wait_ms(const gw_loop *loop, uint64_t wait_ns) {
    if (loop->timers > 0) {
        uint64_t now = gw_now_ns(), deadline = loop->heap[0]->deadline_ns;
        uint64_t until = deadline > now ? deadline - now : 0;
        if (until < wait_ns) wait_ns = until;
    }
    if (wait_ns == UINT64_MAX) return -1;
    const uint64_t longest_ms = 3600000;
    uint64_t ms = wait_ns / 1000000u + (wait_ns % 1000000u != 0);
    return (int)(ms < longest_ms ? ms : longest_ms);
}

static void run_ready(gw_loop *loop) {
    for (loop->ready_next = 0; loop->ready_next < loop->ready_count;) {
        struct epoll_event *event = &loop->ready[loop->ready_next++];
        gw_watch *watch = event->data.ptr;
        if (event->events == 0) continue;
        if (watch == NULL) {
            uint64_t wakes;
            ssize_t got = read(loop->wake_fd, &wakes, sizeof wakes);
            GW_ASSERT(got == (ssize_t)sizeof wakes || errno == EAGAIN);
            continue;
        }
        watch->call(watch->context, event->events);
    }
    loop->ready_count = 0;
}

static void look(gw_loop *loop, int wait_ms) {
    int count = epoll_wait(loop->epoll_fd, loop->ready, READY_BATCH, wait_ms);
    /* A process that was stopped (SIGSTOP) returns here with EINTR. What has arrived meanwhile is handled
     * before any timer that is overdue. */
    if (count < 0 && errno == EINTR) count = epoll_wait(loop->epoll_fd, loop->ready, READY_BATCH, 0);
    GW_ASSERT(count >= 0 || errno == EINTR);
    loop->ready_count = count > 0 ? count : 0;
}

void gw_loop_turn(gw_loop *loop, uint64_t wait_ns) {
    GW_ASSERT(loop->ready_count == 0); /* not from a callback */
    look(loop, wait_ms(loop, wait_ns));
    atomic_store(&loop->turn_ns, gw_now_ns());
    for (size_t reported = 0;;) {
        size_t count = (size_t)loop->ready_count;
        reported += count;
        run_ready(loop);
        if (count < READY_BATCH || reported > loop->watches)
            break; /* epoll reports all descriptors in turn */
        look(loop, 0);
    }
    run_posted(loop);
    run_timers(loop);
    atomic_store(&loop->turn_ns, 0);
}

uint64_t gw_loop_busy_since(const gw_loop *loop) {
    return atomic_load(&loop->turn_ns);
}

void gw_loop_run(gw_loop *loop) {
    for (;;) {
        pthread_mutex_lock(&loop->lock);
        bool stopping = loop->stopping;
        loop->stopping = false;
        pthread_mutex_unlock(&loop->lock);
        if (stopping) return;
        gw_loop_turn(loop, UINT64_MAX);
    }
}
