#include "tools/godwit/outlet.h"

#include "core/check.h"
#include "net/condition.h"
#include "net/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct piece {
    struct piece *next;
    size_t count;
    char bytes[];
} piece;

struct gw_outlet {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t changed;
    piece *first, **end;
    size_t waiting; /* bytes, the piece that is being written counted */
    uint64_t left_out;
    int failure;
    bool closing;
};

/* Returns the errno, or 0; *done: how many bytes were written. */
static int write_bytes(int fd, const char *bytes, size_t count, size_t *done) {
    *done = 0;
    while (*done < count) {
        ssize_t written = write(fd, bytes + *done, count - *done);
        if (written >= 0) {
            *done += (size_t)written;
        } else if (errno == EAGAIN) { /* somebody made it so: it is shared with other processes */
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* *torn: a line was begun and is not whole. */
static int write_piece(int fd, const piece *one, bool *torn) {
    size_t done;
    int failure = *torn ? write_bytes(fd, "\n", 1, &done) : 0;
    if (failure != 0) return failure;
    failure = write_bytes(fd, one->bytes, one->count, &done);
    *torn = failure != 0 && done > 0;
    return failure;
}

static void *run(void *context) {
    gw_outlet *outlet = context;
    bool torn = false;
    pthread_mutex_lock(&outlet->lock);
    for (;;) {
        while (outlet->first == NULL && !outlet->closing) pthread_cond_wait(&outlet->changed, &outlet->lock);
        piece *one = outlet->first;
        if (one == NULL) break;
        int failure = outlet->failure;
        pthread_mutex_unlock(&outlet->lock);
        if (!gw_outlet_failure_stays(failure)) failure = write_piece(outlet->fd, one, &torn);
        pthread_mutex_lock(&outlet->lock);
        if (failure != 0 && !gw_outlet_failure_stays(failure)) outlet->left_out++;
        outlet->failure = failure;
        outlet->first = one->next;
        if (outlet->first == NULL) outlet->end = &outlet->first;
        outlet->waiting -= one->count;
        free(one);
        pthread_cond_broadcast(&outlet->changed);
    }
    pthread_mutex_unlock(&outlet->lock);
    return NULL;
}

/* Signals are for other threads; and a pipe that nobody reads is an error here, no signal. */
static int start(gw_outlet *outlet) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&outlet->thread, NULL, run, outlet);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

gw_outlet *gw_outlet_open(int fd, gw_err *err) {
    gw_outlet *outlet = calloc(1, sizeof *outlet);
    if (outlet == NULL) {
        gw_fail(err, GW_E_NOMEM, "output: out of memory");
        return NULL;
    }
    outlet->fd = fd;
    outlet->end = &outlet->first;
    pthread_mutex_init(&outlet->lock, NULL);
    gw_cond_init(&outlet->changed);
    int failure = start(outlet);
    if (failure == 0) return outlet;
    gw_fail_errno(err, failure, "output: thread");
    pthread_cond_destroy(&outlet->changed);
    pthread_mutex_destroy(&outlet->lock);
    free(outlet);
    return NULL;
}

int gw_outlet_close(gw_outlet *outlet) {
    if (outlet == NULL) return 0;
    pthread_mutex_lock(&outlet->lock);
    outlet->closing = true;
    pthread_cond_broadcast(&outlet->changed);
    pthread_mutex_unlock(&outlet->lock);
    pthread_join(outlet->thread, NULL);
    GW_CHECK(outlet->first == NULL && outlet->waiting == 0);
    int failure = outlet->failure;
    pthread_cond_destroy(&outlet->changed);
    pthread_mutex_destroy(&outlet->lock);
    free(outlet);
    return failure;
}

void gw_outlet_put(gw_outlet *outlet, const char *bytes, size_t count) {
    piece *one = malloc(sizeof *one + count);
    GW_CHECK_MEMORY(one != NULL);
    one->next = NULL;
    one->count = count;
    memcpy(one->bytes, bytes, count);
    pthread_mutex_lock(&outlet->lock);
    bool fits = outlet->waiting + count <= GW_OUTLET_BYTES;
    if (fits) {
        *outlet->end = one;
        outlet->end = &one->next;
        outlet->waiting += count;
        pthread_cond_broadcast(&outlet->changed);
    } else {
        outlet->left_out++;
    }
    pthread_mutex_unlock(&outlet->lock);
    if (!fits) free(one);
}

bool gw_outlet_idle(gw_outlet *outlet) {
    pthread_mutex_lock(&outlet->lock);
    bool idle = outlet->waiting == 0;
    pthread_mutex_unlock(&outlet->lock);
    return idle;
}

void gw_outlet_flush(gw_outlet *outlet, uint64_t patience_ns) {
    uint64_t end = gw_now_ns() + patience_ns;
    pthread_mutex_lock(&outlet->lock);
    while (outlet->waiting > 0)
        if (!gw_cond_wait_until(&outlet->changed, &outlet->lock, end)) break;
    pthread_mutex_unlock(&outlet->lock);
}

int gw_outlet_failure(gw_outlet *outlet) {
    pthread_mutex_lock(&outlet->lock);
    int failure = outlet->failure;
    pthread_mutex_unlock(&outlet->lock);
    return failure;
}

bool gw_outlet_failure_stays(int failure) {
    return failure != 0 && failure != ENOSPC && failure != EDQUOT && failure != EFBIG;
}

uint64_t gw_outlet_left_out(gw_outlet *outlet) {
    pthread_mutex_lock(&outlet->lock);
    uint64_t left_out = outlet->left_out;
    pthread_mutex_unlock(&outlet->lock);
    return left_out;
}
