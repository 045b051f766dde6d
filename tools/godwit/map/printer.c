#include "tools/godwit/map/printer.h"

#include "core/base/assert.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 2 * GW_MAP_PIECE_BYTES,
    SAFE_BYTES = 4096, /* a pipe that can be written to takes so many without waiting */
};

typedef struct item {
    struct item *next;
    gw_map_output output;
    uint32_t piece; /* the next one; piece_count: the bytes in memory */
    bool begins;    /* the next byte begins a line */
    char tag[];
} item;

struct gw_map_printer {
    gw_loop *loop;
    gw_map_store *store;
    int fd;
    const char *name;
    bool waits; /* a write may wait: it is no regular file */
    gw_watch watch;
    item *first, **last;
    uint64_t
        backlog; /* bytes of the outputs in the row; of the first one, of those that are not in `buffer` */
    uint8_t piece[GW_MAP_PIECE_BYTES]; /* what is being copied to `buffer` */
    uint32_t piece_at, piece_length;
    uint8_t buffer[BUFFER_BYTES];
    uint32_t begin, end;
    bool failed;
    gw_err err; /* of the failure */
};

gw_map_printer *gw_map_printer_open(gw_loop *loop, gw_map_store *store, int fd, const char *name,
                                    gw_err *err) {
    gw_map_printer *p = calloc(1, sizeof *p);
    struct stat status;
    if (p == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory to print outputs");
        return NULL;
    }
    p->loop = loop;
    p->store = store;
    p->fd = fd;
    p->name = name;
    p->last = &p->first;
    p->waits = fstat(fd, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (S_ISCHR(status.st_mode) && isatty(fd) != 1 && poll(&ready, 1, 0) == 1)
        p->waits = false; /* /dev/null */
    return p;
}

static void drop_first(gw_map_printer *p) {
    item *first = p->first;
    p->first = first->next;
    if (p->first == NULL) p->last = &p->first;
    gw_map_output_drop(p->store, &first->output);
    free(first);
    p->piece_at = p->piece_length = 0;
}

void gw_map_printer_close(gw_map_printer *p) {
    if (p == NULL) return;
    gw_watch_remove(&p->watch);
    while (p->first != NULL) drop_first(p);
    free(p);
}

uint64_t gw_map_printer_backlog(const gw_map_printer *p) {
    return p->backlog + (p->end - p->begin);
}

bool gw_map_printer_put(gw_map_printer *p, gw_map_output *output, const char *tag, gw_err *err) {
    if (output->total == 0 || p->failed) {
        gw_map_output_drop(p->store, output);
        return true;
    }
    size_t length = tag != NULL ? strlen(tag) : 0;
    item *added = malloc(sizeof *added + length + 1);
    if (added == NULL) return gw_fail(err, GW_E_NOMEM, "no memory to print outputs");
    *added = (item){.output = *output, .begins = true};
    memcpy(added->tag, tag != NULL ? tag : "", length + 1);
    *p->last = added;
    p->last = &added->next;
    p->backlog += output->total;
    *output = (gw_map_output){.bytes = NULL};
    return true;
}

/* Copies bytes to the buffer, with the tag before each line. Returns how many there was room for. */
static uint32_t copy(gw_map_printer *p, item *from, const uint8_t *bytes, uint32_t length) {
    const uint32_t tag = (uint32_t)strlen(from->tag);
    uint32_t done = 0;
    if (tag == 0) {
        uint32_t room = BUFFER_BYTES - p->end;
        done = length < room ? length : room;
        /* An output without bytes has no memory either. */
        if (done > 0) memcpy(p->buffer + p->end, bytes, done);
        p->end += done;
        return done;
    }
    while (done < length) {
        uint32_t room = BUFFER_BYTES - p->end;
        if (from->begins) {
            if (tag < BUFFER_BYTES / 2 ? room < tag : room == 0) break;
            uint32_t part = tag < room ? tag : room; /* a tag of many kilobytes is cut */
            memcpy(p->buffer + p->end, from->tag, part);
            p->end += part;
            room -= part;
            from->begins = false;
        }
        if (room == 0) break;
        uint32_t most = length - done < room ? length - done : room;
        const uint8_t *line = memchr(bytes + done, '\n', most);
        uint32_t part = line != NULL ? (uint32_t)(line - bytes) + 1 - done : most;
        memcpy(p->buffer + p->end, bytes + done, part);
        p->end += part;
        done += part;
        from->begins = line != NULL;
    }
    return done;
}

/* Fills the buffer from the outputs in the row. */
static bool fill(gw_map_printer *p, gw_err *err) {
    while (p->first != NULL && p->end < BUFFER_BYTES) {
        item *first = p->first;
        gw_map_output *o = &first->output;
        bool in_memory = first->piece == o->piece_count;
        if (p->piece_at == p->piece_length) {
            p->piece_at = 0;
            p->piece_length = in_memory ? o->length : o->pieces[first->piece].length;
            if (!in_memory && !gw_map_output_read(p->store, o, first->piece, p->piece, err)) return false;
        }
        const uint8_t *bytes = in_memory ? o->bytes : p->piece;
        uint32_t copied = copy(p, first, bytes + p->piece_at, p->piece_length - p->piece_at);
        p->piece_at += copied;
        p->backlog -= copied;
        if (p->piece_at < p->piece_length) break; /* the buffer is full */
        if (in_memory)
            drop_first(p);
        else
            first->piece++;
    }
    return true;
}

static void on_writable(void *context, uint32_t events) {
    gw_map_printer *p = context;
    gw_err err;
    (void)events;
    gw_watch_remove(&p->watch);
    (void)gw_map_printer_flush(p, &err); /* the owner's next flush fails as this one */
}

static bool fail(gw_map_printer *p, gw_err *err) {
    if (!p->failed) p->err = *err;
    p->failed = true;
    while (p->first != NULL) drop_first(p);
    p->backlog = 0;
    p->begin = p->end = 0;
    *err = p->err;
    return false;
}

/* Waits for the descriptor by the loop. */
static bool wait_for_room(gw_map_printer *p, gw_err *err) {
    if (p->watch.loop != NULL) return true;
    return gw_watch_add(p->loop, &p->watch, p->fd, EPOLLOUT, on_writable, p, err) || fail(p, err);
}

bool gw_map_printer_flush(gw_map_printer *p, gw_err *err) {
    struct pollfd ready = {.fd = p->fd, .events = POLLOUT};
    if (p->failed) return fail(p, err);
    for (;;) {
        if (p->begin == p->end) {
            p->begin = p->end = 0;
            if (!fill(p, err)) return fail(p, err);
            if (p->end == 0) return true;
        }
        size_t part = p->end - p->begin;
        if (p->waits) {
            if (poll(&ready, 1, 0) == 0) return wait_for_room(p, err);
            if (part > SAFE_BYTES) part = SAFE_BYTES;
        }
        ssize_t wrote = write(p->fd, p->buffer + p->begin, part);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno == EAGAIN) return wait_for_room(p, err);
        if (wrote < 0) {
            int why = errno;
            gw_fail_errno(err, why, "cannot write to %s", p->name);
            if (why == EPIPE || why == ECONNRESET) err->code = GW_E_PEER;
            return fail(p, err);
        }
        p->begin += (uint32_t)wrote;
    }
}
