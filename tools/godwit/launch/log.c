#include "tools/godwit/launch/log.h"

#include "core/base/assert.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

gw_launch_outlet gw_launch_outlet_on(int fd) {
    const char *none = getenv("NO_COLOR");
    return (gw_launch_outlet){.fd = fd, .colours = isatty(fd) == 1 && (none == NULL || none[0] == '\0')};
}

bool gw_launch_outlet_is_full(const gw_launch_outlet *outlet) {
    return outlet->end - outlet->at >= GW_LAUNCH_WAITING;
}

/* A pipe or a terminal that polls as writable takes so many bytes without blocking. */
static void write_piece(gw_launch_outlet *outlet) {
    const size_t waiting = outlet->end - outlet->at;
    ssize_t written =
        write(outlet->fd, outlet->bytes + outlet->at, waiting < PIPE_BUF / 8 ? waiting : PIPE_BUF / 8);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (written < 0) outlet->closed = true; /* its reader has gone: the commands go on */
    outlet->at = written < 0 ? outlet->end : outlet->at + (size_t)written;
}

void gw_launch_outlet_write(gw_launch_outlet *outlet, bool all) {
    while (gw_launch_outlet_waits(outlet)) {
        struct pollfd writable = {.fd = outlet->fd, .events = POLLOUT};
        if (poll(&writable, 1, all ? PATIENCE_MS : 0) <= 0) return;
        write_piece(outlet);
    }
}

bool gw_launch_outlet_waits(const gw_launch_outlet *outlet) {
    return outlet->at < outlet->end;
}

void gw_launch_outlet_close(gw_launch_outlet *outlet) {
    free(outlet->bytes);
    *outlet = (gw_launch_outlet){.fd = outlet->fd, .closed = true};
}

static void put(gw_launch_outlet *outlet, const char *bytes, size_t count) {
    if (outlet->closed) return;
    if (outlet->room - outlet->end < count) {
        if (outlet->at > 0) memmove(outlet->bytes, outlet->bytes + outlet->at, outlet->end - outlet->at);
        outlet->end -= outlet->at;
        outlet->at = 0;
    }
    if (outlet->room - outlet->end < count) {
        outlet->room = 2 * (outlet->end + count) + GW_LAUNCH_LINE;
        outlet->bytes = realloc(outlet->bytes, outlet->room);
        GW_ASSERT_MEMORY(outlet->bytes != NULL);
    }
    memcpy(outlet->bytes + outlet->end, bytes, count);
    outlet->end += count;
}

static void put_line(gw_launch_source *source) {
    static const int colours[] = {36, 33, 32,
                                  35, 34, 31}; /* they differ for people who see few colours, too */
    char before[400];
    const size_t count = sizeof colours / sizeof *colours;
    int length = source->to->colours
                     ? snprintf(before, sizeof before, "\033[%dm%-*s |\033[0m ",
                                colours[source->colour % count], (int)source->width, source->name)
                     : snprintf(before, sizeof before, "%-*s | ", (int)source->width, source->name);
    put(source->to, before, (size_t)length < sizeof before ? (size_t)length : sizeof before - 1);
    put(source->to, source->line, source->length);
    put(source->to, "\n", 1);
    source->length = 0;
}

void gw_launch_source_take(gw_launch_source *source, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n' || source->length == sizeof source->line) put_line(source);
        if (bytes[i] != '\n') source->line[source->length++] = bytes[i];
    }
}

void gw_launch_source_end(gw_launch_source *source) {
    if (source->length > 0) put_line(source);
}
