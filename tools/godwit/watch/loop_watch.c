#include "tools/godwit/watch/loop_watch.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "tools/godwit/watch/watchdog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LOOKS_A_PATIENCE = 8 };
static const uint64_t longest_look_ns = 1000000000;

struct gw_loop_watch {
    gw_loop *loop;
    gw_timer timer;
    gw_watchdog dog; /* used by the watching thread only */
    gw_loop_hangs *hangs;
    void *context;
    _Atomic uint64_t turned_ns; /* when the loop's timer ran last */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing;
};

static void beat(void *context) {
    gw_loop_watch *w = context;
    gw_err err;
    uint64_t now = gw_now_ns();
    atomic_store(&w->turned_ns, now);
    GW_ASSERT_MEMORY(gw_timer_set(w->loop, &w->timer, now + w->dog.interval_ns, beat, w, &err));
}

/* Waits, with the lock held, until the time or until the watch closes. */
static void wait_until(gw_loop_watch *w, uint64_t ns) {
    while (!w->closing && gw_cond_wait_until(&w->changed, &w->lock, ns)) {
    }
}

static void *run(void *context) {
    gw_loop_watch *w = context;
    pthread_setname_np(pthread_self(), "gw-loop-watch");
    pthread_mutex_lock(&w->lock);
    while (!w->closing) {
        uint64_t turned = atomic_load(&w->turned_ns), now = gw_now_ns();
        gw_watchdog_look(&w->dog, now);
        if (gw_watchdog_hangs(&w->dog, turned, 0)) {
            w->hangs(w->context, (double)(now - turned) * 1e-9);
            break;
        }
        wait_until(w, now + w->dog.interval_ns);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static uint64_t interval(uint64_t patience_ns) {
    uint64_t ns = patience_ns / LOOKS_A_PATIENCE;
    return ns < longest_look_ns ? ns : longest_look_ns;
}

gw_loop_watch *gw_loop_watch_open(gw_loop *loop, uint64_t patience_ns, gw_loop_hangs *hangs, void *context,
                                  gw_err *err) {
    gw_loop_watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory to watch the event loop");
        return NULL;
    }
    w->loop = loop;
    w->hangs = hangs;
    w->context = context;
    w->dog = (gw_watchdog){.patience_ns = patience_ns, .interval_ns = interval(patience_ns)};
    beat(w);
    gw_cond_init(&w->changed);
    pthread_mutex_init(&w->lock, NULL);
    int failure = pthread_create(&w->thread, NULL, run, w);
    if (failure == 0) return w;
    gw_fail_thread(err, failure, "the thread that watches the event loop");
    gw_timer_cancel(&w->timer);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

void gw_loop_watch_close(gw_loop_watch *w) {
    if (w == NULL) return;
    gw_timer_cancel(&w->timer);
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
