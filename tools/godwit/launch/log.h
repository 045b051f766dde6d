/* The merged log of `godwit launch`: whole lines of several commands, each behind the name of its host. It is written in
 * pieces that do not block, so that a terminal that stands still stops nothing but the log. Thread: main. */
#ifndef GODWIT_TOOLS_GODWIT_LAUNCH_LOG_H
#define GODWIT_TOOLS_GODWIT_LAUNCH_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_LAUNCH_LINE = 8192, GW_LAUNCH_WAITING = 1 << 20 };

/* Where lines go to: stdout or stderr. */
typedef struct gw_launch_outlet {
    int fd;
    bool colours, closed;
    char *bytes; /* those that wait to be written begin at `at` */
    size_t at, end, room;
} gw_launch_outlet;

/* One command's output, cut into lines. */
typedef struct gw_launch_source {
    gw_launch_outlet *to;
    const char *name;
    size_t width;    /* of the longest name */
    uint32_t colour; /* its number among the hosts */
    char line[GW_LAUNCH_LINE];
    size_t length;
} gw_launch_source;

gw_launch_outlet gw_launch_outlet_on(int fd);
/* Whether no more output should be read before some of this has been written. */
bool gw_launch_outlet_is_full(const gw_launch_outlet *outlet);
/* Whether something waits to be written. */
bool gw_launch_outlet_waits(const gw_launch_outlet *outlet);
/* Writes what the descriptor takes now, once it is writable. With `all` it waits for at most two seconds at a time. */
void gw_launch_outlet_write(gw_launch_outlet *outlet, bool all);
void gw_launch_outlet_close(gw_launch_outlet *outlet);

/* Takes bytes of a command's output. A line that is too long is broken. */
void gw_launch_source_take(gw_launch_source *source, const char *bytes, size_t count);
/* The command's output has ended: shows a last line without its end. */
void gw_launch_source_end(gw_launch_source *source);

#endif
