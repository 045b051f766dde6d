/* The rows that a map's child on a flock has on its disk: its own and those of the others, in the order in which it
 * learned them, in the file `rows` of the job's folder. Whoever reads that file from its beginning, as `godwit map` in
 * front does by way of the members, learns what has become of each task, and which rows are committed.
 *
 * Bytes (core/base/wire.h): "GWMR" and version u8 | entries (core/base/entry.h), each: kind u8 and, by kind:
 *
 *   1  rows        peer 16 | life u64 | number of the first u64 | rows (core/map/rows.h)
 *   2  committed   peer 16 | life u64 | so many of its rows u64
 *
 * Thread: the loop's; a thread of its own writes. */
#ifndef GODWIT_TOOLS_GODWIT_MAP_CHILD_ROW_LOG_H
#define GODWIT_TOOLS_GODWIT_MAP_CHILD_ROW_LOG_H

#include "core/map/share.h"
#include "net/loop/loop.h"
#include "tools/godwit/flock/children.h"

#define GW_ROW_LOG_NAME GW_CHILD_ROWS

enum { GW_ROW_LOG_HEAD_BYTES = 5, GW_ROW_LOG_ENTRY_BYTES = 2 << 20 /* no entry is longer */ };

/* What is found in the file. False of `rows`: they make no sense, and the file is taken to end before them. */
typedef struct gw_row_log_reader {
    void *context;
    bool (*rows)(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                 uint32_t count);
    void (*committed)(void *context, const gw_map_origin *origin, uint64_t count);
} gw_row_log_reader;

/* Reads the whole entries that stand in `bytes`, which begin with an entry, and tells how many bytes they are. False: what
 * follows them is damaged. */
bool gw_row_log_read(const void *bytes, size_t length, const gw_row_log_reader *reader, size_t *used);

typedef struct gw_row_log gw_row_log;

typedef struct gw_row_log_events {
    void *context;
    /* The first `count` rows of an origin are on the disk. */
    void (*durable)(void *context, const gw_map_origin *origin, uint64_t count);
    /* The disk takes no writes: the child has to end. */
    void (*failed)(void *context, const gw_err *err);
} gw_row_log_events;

/* Reads the file in `folder`, cuts what a crash has torn off its end, and adds to it from then on. NULL on failure. */
gw_row_log *gw_row_log_open(gw_loop *loop, const char *folder, const gw_row_log_reader *reader,
                            const gw_row_log_events *events, gw_err *err);
/* Writes what waits, for `patience_ns` at most. False: the disk does not answer, and the process must end as it is. NULL
 * is allowed. */
bool gw_row_log_close(gw_row_log *log, uint64_t patience_ns);

void gw_row_log_add(gw_row_log *log, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                    uint32_t count);
void gw_row_log_commit(gw_row_log *log, const gw_map_origin *origin, uint64_t count);

#endif
