#include "tools/godwit/show/outlet.h"

#include "core/base/assert.h"
#include "core/os/clock.h"
#include "core/os/condition.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_PAUSE_NS UINT64_C(10000000)
#define MOST_PAUSE_NS  UINT64_C(5000000000)
#define LAST_NS        UINT64_C(2000000000) /* so long it is tried again once it closes */

typedef struct piece {
    struct piece *next;
    size_t count, done; /* bytes; those that are written already */
    char bytes[];
} piece;

struct gw_outlet {
    int fd;
    bool device; /* a terminal, say */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t changed;
    piece *first, **end;
    size_t waiting; /* bytes, the piece that is being written counted */
    uint64_t left_out;
    int failure;
    bool closing;
    uint64_t give_up_ns; /* once it closes */
};

/* Returns the errno, or 0; adds to *done how many bytes were written. */
static int write_bytes(int fd, const char *bytes, size_t count, size_t *done) {
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

/* The thread's own. */
typedef struct writing {
    bool torn; /* a line was begun, and its end is left out */
    bool given_up;
    uint64_t pause_ns; /* before the attempt that is made now; 0: it is the first one */
} writing;

static int write_piece(int fd, piece *one, bool *torn) {
    size_t done = 0;
    int failure = *torn ? write_bytes(fd, "\n", 1, &done) : 0;
    if (failure != 0) return failure;
    *torn = false;
    return write_bytes(fd, one->bytes, one->count, &one->done);
}

bool gw_outlet_lacks_room(int failure) {
    return failure == ENOSPC || failure == EDQUOT || failure == EFBIG;
}

/* Before a piece is tried again, with the lock held. False: there is no time left for that. */
static bool pause_writing(gw_outlet *outlet, writing *w) {
    bool closing = outlet->closing;
    w->pause_ns = w->pause_ns == 0 ? FIRST_PAUSE_NS : 2 * w->pause_ns;
    if (w->pause_ns > MOST_PAUSE_NS) w->pause_ns = MOST_PAUSE_NS;
    uint64_t end = gw_now_ns() + w->pause_ns;
    if (closing && end > outlet->give_up_ns) return false;
    while (outlet->closing == closing)
        if (!gw_cond_wait_until(&outlet->changed, &outlet->lock, end)) return true;
    w->pause_ns = 0; /* it has begun to close: at once */
    return true;
}

/* With the lock held, which it gives back while it writes. True: the piece has to be tried again. */
static bool attempt(gw_outlet *outlet, writing *w, piece *one) {
    if (gw_outlet_failure_stays(outlet, outlet->failure)) return false;
    int failure = outlet->failure;
    if (!w->given_up) {
        pthread_mutex_unlock(&outlet->lock);
        failure = write_piece(outlet->fd, one, &w->torn);
        pthread_mutex_lock(&outlet->lock);
        outlet->failure = failure;
        bool again =
            failure != 0 && !gw_outlet_lacks_room(failure) && !gw_outlet_failure_stays(outlet, failure);
        if (again && pause_writing(outlet, w)) return true;
        w->given_up = again;
        w->pause_ns = 0;
        if (failure != 0 && one->done > 0) w->torn = true;
    }
    if (failure != 0 && !gw_outlet_failure_stays(outlet, failure)) outlet->left_out++;
    return false;
}

static void *run(void *context) {
    gw_outlet *outlet = context;
    writing w = {0};
    pthread_mutex_lock(&outlet->lock);
    for (;;) {
        while (outlet->first == NULL && !outlet->closing) pthread_cond_wait(&outlet->changed, &outlet->lock);
        piece *one = outlet->first;
        if (one == NULL) break;
        if (attempt(outlet, &w, one)) continue;
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
    struct stat status;
    outlet->fd = fd;
    outlet->device = fstat(fd, &status) == 0 && S_ISCHR(status.st_mode);
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
    outlet->give_up_ns = gw_now_ns() + LAST_NS;
    pthread_cond_broadcast(&outlet->changed);
    pthread_mutex_unlock(&outlet->lock);
    pthread_join(outlet->thread, NULL);
    GW_ASSERT(outlet->first == NULL && outlet->waiting == 0);
    int failure = outlet->failure;
    pthread_cond_destroy(&outlet->changed);
    pthread_mutex_destroy(&outlet->lock);
    free(outlet);
    return failure;
}

void gw_outlet_put(gw_outlet *outlet, const char *bytes, size_t count) {
    piece *one = malloc(sizeof *one + count);
    GW_ASSERT_MEMORY(one != NULL);
    one->next = NULL;
    one->count = count;
    one->done = 0;
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

bool gw_outlet_failure_stays(const gw_outlet *outlet, int failure) {
    switch (failure) {
    case EPIPE: /* the reader has gone */
    case ECONNRESET:
    case ENOTCONN:
    case EBADF:
    case EINVAL:
        return true;
    case EIO: /* the terminal has; of a file these are a server or a disk that may answer again */
    case ENXIO:
        return outlet->device;
    default:
        return false;
    }
}

uint64_t gw_outlet_left_out(gw_outlet *outlet) {
    pthread_mutex_lock(&outlet->lock);
    uint64_t left_out = outlet->left_out;
    pthread_mutex_unlock(&outlet->lock);
    return left_out;
}
