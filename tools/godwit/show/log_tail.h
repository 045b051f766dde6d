/* The last lines of the log, in memory, for the page: also those that a terminal does not show (--quiet).
 *
 * Thread: any. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_LOG_TAIL_H
#define GODWIT_TOOLS_GODWIT_SHOW_LOG_TAIL_H

#include "core/base/err.h"
#include "core/base/log.h"

#include <stdint.h>

enum { GW_LOG_TAIL = 256 /* lines */, GW_LOG_TAIL_TEXT = 600, GW_LOG_TAIL_ROOM = 24 /* bytes of each */ };

typedef struct gw_log_tail gw_log_tail;

typedef struct gw_log_line {
    uint64_t number; /* rises by one from line to line, from 1 on, in each process anew */
    double time;     /* seconds since 1970 */
    gw_level level;
    char room[GW_LOG_TAIL_ROOM], text[GW_LOG_TAIL_TEXT];
} gw_log_line;

/* Returns NULL when memory runs out. */
gw_log_tail *gw_log_tail_open(gw_err *err);
void gw_log_tail_close(gw_log_tail *tail); /* NULL is allowed */
void gw_log_tail_add(gw_log_tail *tail, gw_level level, const char *room, const char *text);
/* Copies the lines with numbers above `after`, in order and the latest where they are more than `most`. Returns
 * their number; *newest becomes the number of the newest line, 0 where there is none. */
uint32_t gw_log_tail_copy(gw_log_tail *tail, uint64_t after, gw_log_line *lines, uint32_t most,
                          uint64_t *newest);

#endif
