/* How the peers of a map share its tasks. Each peer holds the whole table of rows (table.h), tasks that were dealt to it
 * and wait, and tasks that run.
 *
 *   dealing    The live peer with the lowest id is the leader: it deals tasks to those that say how many they want, which
 *              is a tenth of a second's work beyond their slots. Who leads is nothing to agree upon: two peers that both
 *              lead for a while deal some tasks twice, and the table keeps one row of each. A new leader first asks all
 *              for what they hold, or deals after GW_MAP_SHARE_PATIENCE_NS without those that do not answer; so does one that
 *              a peer took for gone for a while
 *   stealing   Where all tasks are dealt and a peer is idle, the leader asks the peer with most waiting tasks for half of
 *              them. A task that runs is never taken
 *   rows       The rows of one life of a peer, its origin, are numbered in the order in which they came to be. They are
 *              sent to all at once; what got lost is asked for by number, from the origin or, when that is gone, from
 *              anybody who has it
 *   commit     A row is committed when GW_MAP_SHARE_DISKS of the live peers, or all of them, have it on their disks
 *   death      What a peer held that has vanished, and did not finish, is dealt again when nothing else is left, or after
 *              GW_MAP_SUPPLY_LATE_NS (supply.h), as it may be cut off for a moment. Nobody waits for anybody. Where a peer's child was
 *              killed, the tasks that it ran are dealt when all others are, each to a peer that has nothing else; and one
 *              during which two were killed has failed (deaths.h)
 *
 * Thus each task runs at least once, and is recorded once.
 *
 * Messages (core/base/wire.h) begin with a version u8 and a kind u8; all may be lost, doubled or late. They are not
 * trusted: gw_map_share_message returns false for one that is malformed.
 *
 * Sans-IO: time comes in as an argument, messages go out through the sink. Thread: one at a time. The sink's functions
 * must not call the share. Running out of memory ends the process. */
#ifndef GODWIT_CORE_MAP_SHARE_H
#define GODWIT_CORE_MAP_SHARE_H

#include "core/map/rows.h"

enum {
    GW_MAP_SHARE_DISKS = 3,
    GW_MAP_SHARE_ROWS = 512,               /* of one message */
    GW_MAP_SHARE_MESSAGE_BYTES = 60 << 10, /* no message is longer */
    GW_MAP_SHARE_SLOTS = 1 << 16,          /* of one peer, at most */
};

#define GW_MAP_SHARE_FLUSH_NS    UINT64_C(5000000) /* changes wait so long for others, to be told together */
#define GW_MAP_SHARE_ROUND_NS    UINT64_C(1000000000) /* everything is told so often */
#define GW_MAP_SHARE_REPEAT_NS   UINT64_C(300000000)  /* what has no answer is asked again */
#define GW_MAP_SHARE_PATIENCE_NS UINT64_C(2000000000)
#define GW_MAP_SHARE_AHEAD_NS    UINT64_C(100000000) /* work that waits at a peer beyond what runs */

/* One life of a peer: a process that numbers its rows from 0 on. */
typedef struct gw_map_origin {
    gw_peer_id peer;
    uint64_t life; /* random */
} gw_map_origin;

typedef struct gw_map_share gw_map_share;

typedef struct gw_map_share_sink {
    void *context;
    /* Sends a message to a live peer. What cannot be sent is lost. */
    void (*send)(void *context, const gw_peer_id *to, const void *bytes, size_t length);
    /* Rows of an origin that are new here, of this peer's own too, and the number of the first one. They are to be made
     * durable in this order, and to be told by gw_map_share_durable. */
    void (*learned)(void *context, const gw_map_origin *origin, uint64_t first, const gw_map_row *rows,
                    uint32_t count);
    /* The first `count` rows of an origin are committed. */
    void (*committed)(void *context, const gw_map_origin *origin, uint64_t count);
} gw_map_share_sink;

typedef struct gw_map_share_config {
    gw_map_origin self;
    uint32_t tasks; /* at most GW_MAP_TASKS_MOST */
    uint32_t slots;
    gw_map_share_sink sink;
} gw_map_share_config;

/* NULL when memory for the tables of so many tasks runs out. */
gw_map_share *gw_map_share_open(const gw_map_share_config *config, uint64_t now_ns, gw_err *err);
void gw_map_share_close(gw_map_share *share); /* NULL is allowed */

/* Rows that were durable here in an earlier life, in the order in which they were learned: before anything else. False:
 * they do not follow those before them, or are none of this map. */
bool gw_map_share_recover(gw_map_share *share, const gw_map_origin *origin, uint64_t first,
                          const gw_map_row *rows, uint32_t count);

/* The other peers that live now. Before the first call, and after gw_map_share_cut_off, nobody is known to live: what was
 * dealt before is run, and nothing is dealt. Sinks. */
void gw_map_share_set_peers(gw_map_share *share, const gw_peer_id *peers, uint32_t count, uint64_t now_ns);
/* This peer can neither hear nor be heard. */
void gw_map_share_cut_off(gw_map_share *share);
/* How many tasks may run here. With 0 this peer gives back what waits. Sinks. */
void gw_map_share_set_slots(gw_map_share *share, uint32_t slots, uint64_t now_ns);

/* Takes a message. False: it is malformed. Sinks. */
bool gw_map_share_message(gw_map_share *share, const gw_peer_id *from, const void *bytes, size_t length,
                          uint64_t now_ns);
uint64_t gw_map_share_next_deadline(const gw_map_share *share);
/* Does what is due. Sinks. */
void gw_map_share_tick(gw_map_share *share, uint64_t now_ns);

/* A process of this peer was killed while it ran these tasks; each death has another number, in all lives. Sinks. */
void gw_map_share_died(gw_map_share *share, uint32_t number, const uint32_t *tasks, uint32_t count,
                       uint64_t now_ns);
/* Writes the message by which the others hear of that, of at most GW_MAP_SHARE_MESSAGE_BYTES; some tasks are left out where
 * there are too many. `tasks` rise. Returns its length. Any thread. */
size_t gw_map_share_write_death(void *bytes, size_t room, uint32_t number, const uint32_t *tasks,
                                uint32_t count);

/* Takes a task that is not run any more, as GW_MAP_DEATHS_MOST processes were killed while they ran it. Its row is to
 * follow, as of one that has ended. False: there is none. */
bool gw_map_share_next_failed(gw_map_share *share, uint32_t *task, uint64_t now_ns);
/* Takes a task that is to be started now. False: there is none, or all slots are taken. */
bool gw_map_share_next(gw_map_share *share, uint32_t *task, uint64_t now_ns);
/* A task that was taken has ended for good after so long, and others may run in its place. Its row follows. Sinks. */
void gw_map_share_ended(gw_map_share *share, uint32_t task, uint64_t wall_us, uint64_t now_ns);
/* The row of a task that has ended, as soon as what it wrote is safe (copies.h). Its peer is set here. Sinks. */
void gw_map_share_finished(gw_map_share *share, const gw_map_row *row, uint64_t now_ns);
/* The first `count` rows of an origin are on this peer's disk. Sinks. */
void gw_map_share_durable(gw_map_share *share, const gw_map_origin *origin, uint64_t count, uint64_t now_ns);

/* Whether every task has a row, and all rows that are known here are committed. */
bool gw_map_share_is_complete(const gw_map_share *share);
/* Whether all live peers have said that they are complete. */
bool gw_map_share_all_complete(const gw_map_share *share);
const gw_map_table *gw_map_share_table(const gw_map_share *share);
uint32_t gw_map_share_running(const gw_map_share *share);
uint32_t gw_map_share_waiting(const gw_map_share *share);

#endif
