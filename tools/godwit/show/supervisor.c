#include "tools/godwit/show/supervisor.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "core/os/condition.h"
#include "core/os/notify.h"
#include "tools/godwit/show/display.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS     UINT64_C(1000000000)
#define LEAST_BEAT_NS UINT64_C(1000000)

/* The time that each message asks for: a loop that does not turn for as long, while the peer ends, is
 * given up. */
enum { EXTENSION_S = 30 };
enum { STATUS_BYTES = 240, MESSAGE_BYTES = STATUS_BYTES + 20 };

struct gw_supervisor {
    gw_notify notify;
    uint64_t beat_ns; /* between two beats, each of which sends what is due */
    gw_loop *loop;    /* NULL = none runs; the thread beats then */
    gw_timer timer;
    uint64_t status_ns; /* of the last STATUS= */
    char status[STATUS_BYTES];
    pthread_t thread;
    pthread_mutex_t lock; /* of the members below */
    pthread_cond_t changed;
    uint64_t ready_ns; /* when READY=1 is sent at the latest */
    bool in_loop, ready, stopping, stopping_told, closing;
};

/* Sends what is due. Called with the lock held. */
static void beat(gw_supervisor *s) {
    bool ready = !s->ready && (s->in_loop || gw_now_ns() >= s->ready_ns);
    bool stopping = s->stopping && !s->stopping_told;
    bool watched = (s->ready || ready) && s->notify.watchdog_ns > 0;
    char text[MESSAGE_BYTES], extension[48] = "";
    if (s->stopping) snprintf(extension, sizeof extension, "EXTEND_TIMEOUT_USEC=%d000000\n", EXTENSION_S);
    snprintf(text, sizeof text, "%s%s%s%s", ready ? "READY=1\n" : "", watched ? "WATCHDOG=1\n" : "",
             stopping ? "STOPPING=1\n" : "", extension);
    if (text[0] == '\0' || !gw_notify_send(&s->notify, text)) return;
    s->ready = s->ready || ready;
    s->stopping_told = s->stopping;
}

static void *beat_without_loop(void *context) {
    gw_supervisor *s = context;
    pthread_setname_np(pthread_self(), "gw-supervisor");
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        uint64_t next = s->in_loop ? UINT64_MAX : gw_now_ns() + s->beat_ns;
        if (!s->in_loop) beat(s);
        if (!s->in_loop && !s->ready && s->ready_ns < next) next = s->ready_ns;
        bool was_in_loop = s->in_loop;
        while (!s->closing && s->in_loop == was_in_loop && gw_cond_wait_until(&s->changed, &s->lock, next)) {
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int start(gw_supervisor *s) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for a thread of their own */
    int failure = pthread_create(&s->thread, NULL, beat_without_loop, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

bool gw_supervisor_open(gw_supervisor **supervisor, uint64_t ready_ns, gw_err *err) {
    gw_notify notify;
    gw_err trouble;
    *supervisor = NULL;
    if (!gw_notify_open(&notify, &trouble))
        gw_log(GW_WARN, "node", "the service manager is told nothing: %s", trouble.text);
    if (notify.fd < 0) return true;
    gw_supervisor *s = calloc(1, sizeof *s);
    if (s == NULL) {
        gw_notify_close(&notify);
        return gw_fail(err, GW_E_NOMEM, "no memory to tell the service manager");
    }
    s->notify = notify;
    s->beat_ns = SECOND_NS;
    if (notify.watchdog_ns > 0 && notify.watchdog_ns / 2 < s->beat_ns) s->beat_ns = notify.watchdog_ns / 2;
    if (s->beat_ns < LEAST_BEAT_NS) s->beat_ns = LEAST_BEAT_NS;
    s->ready_ns = gw_now_ns() + ready_ns;
    pthread_mutex_init(&s->lock, NULL);
    gw_cond_init(&s->changed);
    (void)gw_notify_send(&s->notify, "STATUS=starting\n");
    int failure = start(s);
    if (failure == 0) {
        *supervisor = s;
        return true;
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    gw_notify_close(&s->notify);
    free(s);
    return gw_fail_thread(err, failure, "the thread that tells the service manager");
}

static void set_in_loop(gw_supervisor *s, bool in_loop) {
    pthread_mutex_lock(&s->lock);
    s->in_loop = in_loop;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void beat_in_loop(void *context) {
    gw_supervisor *s = context;
    gw_err err;
    pthread_mutex_lock(&s->lock);
    beat(s);
    pthread_mutex_unlock(&s->lock);
    GW_ASSERT_MEMORY(gw_timer_set(s->loop, &s->timer, gw_now_ns() + s->beat_ns, beat_in_loop, s, &err));
}

void gw_supervisor_begin_loop(gw_supervisor *s, gw_loop *loop) {
    if (s == NULL) return;
    s->loop = loop;
    set_in_loop(s, true);
    beat_in_loop(s);
}

void gw_supervisor_end_loop(gw_supervisor *s) {
    if (s == NULL) return;
    gw_timer_cancel(&s->timer);
    s->loop = NULL;
    set_in_loop(s, false);
}

/* The thread that beats without a loop holds the lock for no longer than a datagram takes. */
static void stop(gw_supervisor *s) {
    pthread_mutex_lock(&s->lock);
    bool begins = !s->stopping;
    s->stopping = true;
    if (begins) beat(s);
    pthread_mutex_unlock(&s->lock);
}

void gw_supervisor_show(gw_supervisor *s, const gw_node_snapshot *snapshot, bool ends) {
    if (s == NULL) return;
    if (ends) stop(s);
    uint64_t now = gw_now_ns();
    if (s->status_ns != 0 && now - s->status_ns < SECOND_NS) return;
    char status[STATUS_BYTES], message[MESSAGE_BYTES];
    gw_display_format(snapshot, sizeof status - 1, status, sizeof status);
    if (strcmp(status, s->status) == 0) return;
    snprintf(message, sizeof message, "STATUS=%s\n", status);
    if (!gw_notify_send(&s->notify, message)) return;
    s->status_ns = now;
    memcpy(s->status, status, sizeof status);
}

void gw_supervisor_close(gw_supervisor *s) {
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    gw_notify_close(&s->notify);
    free(s);
}
