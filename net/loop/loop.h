/* The event loop of one thread. It serves descriptors (epoll), one-shot timers, and calls posted by other
 * threads.
 *
 * Watches and timers are structures that their owner embeds and keeps alive while they are set; the loop
 * allocates nothing for them. Everything runs on the thread that calls gw_loop_run or gw_loop_turn, one
 * callback at a time; a callback may add, change and remove any watch or timer, its own included, and after
 * gw_watch_remove or gw_timer_cancel returns, that callback is not called again.
 *
 * Thread: all functions belong to the loop's thread but gw_loop_post, gw_loop_stop and gw_loop_busy_since,
 * which any thread may call. */
#ifndef GODWIT_NET_LOOP_LOOP_H
#define GODWIT_NET_LOOP_LOOP_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gw_loop gw_loop;

/* `events` is epoll's mask: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP. */
typedef void gw_watch_call(void *context, uint32_t events);
typedef void gw_loop_call(void *context);

typedef struct gw_watch {
    gw_loop *loop; /* NULL while not added */
    int fd;
    uint32_t events;
    gw_watch_call *call;
    void *context;
} gw_watch;

typedef struct gw_timer {
    gw_loop *loop; /* NULL while not set */
    uint64_t deadline_ns, serial;
    size_t place; /* in the loop's heap */
    gw_loop_call *call;
    void *context;
} gw_timer;

/* A loop with nothing to do; NULL on failure. Closing one checks that no watch or timer is left and drops
 * posted calls that have not run. */
gw_loop *gw_loop_open(gw_err *err);
void gw_loop_close(gw_loop *loop);

/* Runs until gw_loop_stop. A stop that came before the run ends it at once. */
void gw_loop_run(gw_loop *loop);
/* Waits at most `wait_ns` (0 = only looks; UINT64_MAX = no limit) for something to do, then does everything
 * that is due: ready descriptors, posted calls, timers by deadline (equal ones in the order they were set).
 * What these make due is left to the next turn, unless very many descriptors are ready. Resolution of the
 * wait is one millisecond, rounded up. */
void gw_loop_turn(gw_loop *loop, uint64_t wait_ns);
/* Any thread, also from a callback. */
void gw_loop_stop(gw_loop *loop);
/* The time (gw_now_ns) at which the loop began the turn that it is running; 0 while it waits or does not run.
 * Any thread: watchdogs ask for it. */
uint64_t gw_loop_busy_since(const gw_loop *loop);
/* Has the loop's thread run `call(context)`. Posted calls run in the order in which they were posted. Fails
 * only when out of memory. Any thread. */
bool gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err);

/* Calls `call` whenever `fd` has one of `events` (level-triggered). The descriptor stays the caller's, who
 * removes the watch before closing it. */
bool gw_watch_add(gw_loop *loop, gw_watch *watch, int fd, uint32_t events, gw_watch_call *call, void *context,
                  gw_err *err);
/* Changes the events that an added watch waits for. With 0 it reports errors and hang-ups only. */
void gw_watch_change(gw_watch *watch, uint32_t events);
/* Removes the watch. Does nothing if it is not added. */
void gw_watch_remove(gw_watch *watch);

/* Sets a timer, or sets it anew: `call(context)` runs once, when gw_now_ns() has reached `deadline_ns`. Fails
 * only when out of memory. */
bool gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call, void *context,
                  gw_err *err);
/* Cancels the timer. Does nothing if it is not set or has run. */
void gw_timer_cancel(gw_timer *timer);

#endif
