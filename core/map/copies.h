/* Where the outputs of a map's tasks are. What the tasks of a peer have written is one file there, which only grows. The
 * peer asks another one, its second, to copy that file, and tells the row of a task when a second disk has what the task
 * wrote, or when no other peer lives: whoever knows a row then finds its output while one of the two disks is there. A second
 * that dies, or does nothing for GW_MAP_COPIES_PATIENCE_NS, is replaced by the next one. The file of a dead peer is asked to
 * be copied once more by the peer that has most of it.
 *
 * Messages (core/base/wire.h), which may be lost, doubled or late and are not trusted:
 *
 *   version u8 | whole u8: 1 begins a list of all files | count u16 | files, each:
 *     whose 16 | bytes on the sender's disk u64 | peer that is asked to copy it 16, zeros: none
 *
 * Sans-IO: time comes in as an argument, messages go out through the sink, and gw_map_copies_next says what is to be
 * copied. Thread: one at a time. The sink must not call the copies. Running out of memory ends the process. */
#ifndef GODWIT_CORE_MAP_COPIES_H
#define GODWIT_CORE_MAP_COPIES_H

#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GW_MAP_COPIES_MESSAGE_BYTES = 60 << 10 /* no message is longer */ };

#define GW_MAP_COPIES_ROUND_NS    UINT64_C(1000000000) /* everything is told so often */
#define GW_MAP_COPIES_REPEAT_NS   UINT64_C(300000000)  /* what could not be copied is tried again */
#define GW_MAP_COPIES_PATIENCE_NS UINT64_C(5000000000)

typedef struct gw_map_copies gw_map_copies;

typedef struct gw_map_copies_sink {
    void *context;
    /* Sends a message to a live peer. What cannot be sent is lost. */
    void (*send)(void *context, const gw_peer_id *to, const void *bytes, size_t length);
} gw_map_copies_sink;

gw_map_copies *gw_map_copies_open(const gw_peer_id *self, const gw_map_copies_sink *sink, uint64_t now_ns);
void gw_map_copies_close(gw_map_copies *copies); /* NULL is allowed */

/* The other peers that live now. Before the first call, and after gw_map_copies_cut_off, nothing becomes safe. */
void gw_map_copies_set_peers(gw_map_copies *copies, const gw_peer_id *peers, uint32_t count, uint64_t now_ns);
/* This peer can neither hear nor be heard. */
void gw_map_copies_cut_off(gw_map_copies *copies);

/* The first `bytes` of a peer's file are on this disk; of this peer's own, too. */
void gw_map_copies_have(gw_map_copies *copies, const gw_peer_id *whose, uint64_t bytes, uint64_t now_ns);
/* What is to be copied could not be had. */
void gw_map_copies_failed(gw_map_copies *copies, const gw_peer_id *whose, uint64_t now_ns);

/* Takes a message. False: it is malformed. */
bool gw_map_copies_message(gw_map_copies *copies, const gw_peer_id *from, const void *bytes, size_t length,
                           uint64_t now_ns);
uint64_t gw_map_copies_next_deadline(const gw_map_copies *copies);
/* Does what is due. Sink. */
void gw_map_copies_tick(gw_map_copies *copies, uint64_t now_ns);

typedef struct gw_map_copies_errand {
    gw_peer_id whose, from; /* the file, and a live peer that has it */
    uint64_t have, bytes;   /* up to where it is here, and there */
} gw_map_copies_errand;
/* What this peer is to copy next. False: nothing now. */
bool gw_map_copies_next(const gw_map_copies *copies, gw_map_copies_errand *errand, uint64_t now_ns);
/* How many bytes of this peer's own file are safe. It never becomes less. */
uint64_t gw_map_copies_safe(const gw_map_copies *copies);
/* Whether another peer has more of this peer's own file than its own disk, which has lost some of it then. */
bool gw_map_copies_is_behind(const gw_map_copies *copies);

#endif
