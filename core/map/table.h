/* The table of a map: what has become of each task of a list of commands. A row only grows: gw_map_table_join gives the
 * same table in whatever order and how often rows are joined, so that peers exchange rows without a protocol, and a task
 * that ran twice is recorded once. The better one of two rows of a task stays:
 *
 *   success before failure before nothing, then the lowest attempt, then the lowest peer, then the lowest of the rest in
 *   the order of gw_map_row. (An attempt of a peer has one row; the rest decides only between rows of a faulty peer.)
 *
 * The result of a map is the exit codes of its tasks and the hashes of what they wrote. It does not depend on who ran
 * them, when, how often, or how long that took.
 *
 * A row takes 64 bytes of memory, beside the ids of the peers, of which each is kept once. Rows lie in chunks, so that a
 * table that grows copies none of them. Pure; one thread at a time. */
#ifndef GODWIT_CORE_MAP_TABLE_H
#define GODWIT_CORE_MAP_TABLE_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    GW_MAP_TASKS_MOST = 1 << 30, /* of a map: task numbers are below it */
    GW_MAP_PEERS_MOST = 4096,    /* that the rows of one table name */
    GW_MAP_TOO_LONG = 255,       /* it took too long */
    GW_MAP_HALTED = 254,         /* the whole map was to end */
};

typedef enum gw_map_outcome {
    GW_MAP_NOTHING, /* there is no row */
    GW_MAP_FAILURE,
    GW_MAP_SUCCESS,
} gw_map_outcome;

/* One attempt at a task that has ended. */
typedef struct gw_map_row {
    uint32_t task; /* its position in the list, from 0 on */
    gw_map_outcome outcome;
    uint32_t attempt; /* from 1 on; of one peer, each attempt at a task has another number */
    gw_peer_id who;
    uint8_t exit_code; /* beside a signal: GW_MAP_TOO_LONG or GW_MAP_HALTED, why it was ended */
    uint8_t signal;    /* that ended it; 0: none */
    uint64_t wall_us;
    uint32_t rss_kib; /* the largest resident set of its process */
    uint64_t bytes;   /* that it wrote to its standard output */
    gw_hash hash;     /* of those bytes */
} gw_map_row;

/* Whether the attempt was ended as it took too long. */
static inline bool gw_map_row_took_too_long(const gw_map_row *row) {
    return row->signal != 0 && row->exit_code == GW_MAP_TOO_LONG;
}

/* Whether the attempt was ended as the whole map was to end. */
static inline bool gw_map_row_was_halted(const gw_map_row *row) {
    return row->signal != 0 && row->exit_code == GW_MAP_HALTED;
}

/* Less than 0 if `a` is better than `b`, more if it is worse, 0 if they are equal. Both are of one task. */
int gw_map_row_compare(const gw_map_row *a, const gw_map_row *b);

typedef struct gw_map_table gw_map_table;

/* An empty table for tasks below `most`, which is at most GW_MAP_TASKS_MOST; NULL when memory runs out. */
gw_map_table *gw_map_table_open(uint32_t most, gw_err *err);
void gw_map_table_close(gw_map_table *table); /* NULL is allowed */

/* Joins a row with that of its task. *improved tells whether the table has changed. Fails with GW_E_LIMIT where the row's
 * task is not below the table's bound or its peer would be one too many, with GW_E_INVALID where it is no row (outcome
 * GW_MAP_NOTHING or an unknown one, attempt 0), and with GW_E_NOMEM; then nothing has changed. */
bool gw_map_table_join(gw_map_table *table, const gw_map_row *row, bool *improved, gw_err *err);

/* Reads the row of a task. GW_MAP_NOTHING: there is none, and *row is left alone. */
gw_map_outcome gw_map_table_find(const gw_map_table *table, uint32_t task, gw_map_row *row);

/* The number of tasks whose row has this outcome; of GW_MAP_NOTHING, of those below the highest task with a row. */
uint32_t gw_map_table_count(const gw_map_table *table, gw_map_outcome outcome);
/* 1 + the highest task that has a row. */
uint32_t gw_map_table_tasks(const gw_map_table *table);

/* The hash of the result of tasks 0 to `tasks` - 1: of the exit code, the signal and the hash of the output of each; a
 * task without a row counts as such. */
gw_hash gw_map_table_hash(const gw_map_table *table, uint32_t tasks);

#endif
