#include "tools/godwit/show/async_writer.h"

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
/* how long failed writes are tried again when the writer closes */
#define LAST_NS UINT64_C(2000000000)

typedef struct piece {
    struct piece *next;
    size_t count, done; /* bytes of the piece; bytes that are written already */
    char bytes[];
} piece;

struct gw_async_writer {
    int fd;
    bool device; /* a character device, such as a terminal */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t changed;
    piece *first, **end;
    size_t waiting; /* bytes that wait, with the piece that is being written */
    uint64_t left_out;
    int failure;
    bool closing;
    uint64_t give_up_ns; /* when to give up while closing */
};

/* Returns the errno, or 0; adds the number of written bytes to *done. */
static int write_bytes(int fd, const char *bytes, size_t count, size_t *done) {
    while (*done < count) {
        ssize_t written = write(fd, bytes + *done, count - *done);
        if (written >= 0) {
            *done += (size_t)written;
            /* another process that shares the descriptor has made it non-blocking */
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* State that only the thread uses. */
typedef struct writing {
    bool torn; /* a line was begun, and its rest is left out */
    bool given_up;
    uint64_t pause_ns; /* the pause before the current attempt; 0 = it is the first one */
} writing;

static int write_piece(int fd, piece *one, bool *torn) {
    size_t done = 0;
    int failure = *torn ? write_bytes(fd, "\n", 1, &done) : 0;
    if (failure != 0) return failure;
    *torn = false;
    return write_bytes(fd, one->bytes, one->count, &one->done);
}

bool gw_async_writer_lacks_room(int failure) {
    return failure == ENOSPC || failure == EDQUOT || failure == EFBIG;
}

/* Waits before a piece is tried again, with the lock held. Returns false when there is no time left for
 * another attempt. */
static bool pause_writing(gw_async_writer *writer, writing *w) {
    bool closing = writer->closing;
    w->pause_ns = w->pause_ns == 0 ? FIRST_PAUSE_NS : 2 * w->pause_ns;
    if (w->pause_ns > MOST_PAUSE_NS) w->pause_ns = MOST_PAUSE_NS;
    uint64_t end = gw_now_ns() + w->pause_ns;
    if (closing && end > writer->give_up_ns) return false;
    while (writer->closing == closing)
        if (!gw_cond_wait_until(&writer->changed, &writer->lock, end)) return true;
    w->pause_ns = 0; /* the writer has begun to close: try again at once */
    return true;
}

/* Makes one attempt to write a piece. Called with the lock held, which is released during the write.
 * Returns true if the piece has to be tried again. */
static bool attempt(gw_async_writer *writer, writing *w, piece *one) {
    if (gw_async_writer_failure_stays(writer, writer->failure)) return false;
    int failure = writer->failure;
    if (!w->given_up) {
        pthread_mutex_unlock(&writer->lock);
        failure = write_piece(writer->fd, one, &w->torn);
        pthread_mutex_lock(&writer->lock);
        writer->failure = failure;
        bool again = failure != 0 && !gw_async_writer_lacks_room(failure) &&
                     !gw_async_writer_failure_stays(writer, failure);
        if (again && pause_writing(writer, w)) return true;
        w->given_up = again;
        w->pause_ns = 0;
        if (failure != 0 && one->done > 0) w->torn = true;
    }
    if (failure != 0 && !gw_async_writer_failure_stays(writer, failure)) writer->left_out++;
    return false;
}

static void *run(void *context) {
    gw_async_writer *writer = context;
    writing w = {0};
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (writer->first == NULL && !writer->closing) pthread_cond_wait(&writer->changed, &writer->lock);
        piece *one = writer->first;
        if (one == NULL) break;
        if (attempt(writer, &w, one)) continue;
        writer->first = one->next;
        if (writer->first == NULL) writer->end = &writer->first;
        writer->waiting -= one->count;
        free(one);
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* Starts the thread with all signals blocked: signals are for other threads, and writing to a pipe without
 * a reader is an error instead of a signal. */
static int start(gw_async_writer *writer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

gw_async_writer *gw_async_writer_open(int fd, gw_err *err) {
    gw_async_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        gw_fail(err, GW_E_NOMEM, "output: out of memory");
        return NULL;
    }
    struct stat status;
    writer->fd = fd;
    writer->device = fstat(fd, &status) == 0 && S_ISCHR(status.st_mode);
    writer->end = &writer->first;
    pthread_mutex_init(&writer->lock, NULL);
    gw_cond_init(&writer->changed);
    int failure = start(writer);
    if (failure == 0) return writer;
    gw_fail_errno(err, failure, "output: thread");
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return NULL;
}

int gw_async_writer_close(gw_async_writer *writer) {
    if (writer == NULL) return 0;
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    writer->give_up_ns = gw_now_ns() + LAST_NS;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    GW_ASSERT(writer->first == NULL && writer->waiting == 0);
    int failure = writer->failure;
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
    return failure;
}

void gw_async_writer_put(gw_async_writer *writer, const char *bytes, size_t count) {
    piece *one = malloc(sizeof *one + count);
    GW_ASSERT_MEMORY(one != NULL);
    one->next = NULL;
    one->count = count;
    one->done = 0;
    memcpy(one->bytes, bytes, count);
    pthread_mutex_lock(&writer->lock);
    bool fits = writer->waiting + count <= GW_ASYNC_WRITER_BYTES;
    if (fits) {
        *writer->end = one;
        writer->end = &one->next;
        writer->waiting += count;
        pthread_cond_broadcast(&writer->changed);
    } else {
        writer->left_out++;
    }
    pthread_mutex_unlock(&writer->lock);
    if (!fits) free(one);
}

bool gw_async_writer_idle(gw_async_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    bool idle = writer->waiting == 0;
    pthread_mutex_unlock(&writer->lock);
    return idle;
}

void gw_async_writer_flush(gw_async_writer *writer, uint64_t patience_ns) {
    uint64_t end = gw_now_ns() + patience_ns;
    pthread_mutex_lock(&writer->lock);
    while (writer->waiting > 0)
        if (!gw_cond_wait_until(&writer->changed, &writer->lock, end)) break;
    pthread_mutex_unlock(&writer->lock);
}

int gw_async_writer_failure(gw_async_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    int failure = writer->failure;
    pthread_mutex_unlock(&writer->lock);
    return failure;
}

bool gw_async_writer_failure_stays(const gw_async_writer *writer, int failure) {
    switch (failure) {
    case EPIPE: /* the reader has gone */
    case ECONNRESET:
    case ENOTCONN:
    case EBADF:
    case EINVAL:
        return true;
    case EIO: /* the terminal has hung up; for a file, the server or the disk may answer again */
    case ENXIO:
        return writer->device;
    default:
        return false;
    }
}

uint64_t gw_async_writer_left_out(gw_async_writer *writer) {
    pthread_mutex_lock(&writer->lock);
    uint64_t left_out = writer->left_out;
    pthread_mutex_unlock(&writer->lock);
    return left_out;
}
