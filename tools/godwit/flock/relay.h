/* How the children of a map on different nodes speak with each other: each by its own member, on DIR/relay.sock with mode
 * 0600, and the members by the links between them. A child needs no port, no key and no gossip of its own, and who lives
 * is what the members know. What is on its way while a member is away is lost: the children's protocol
 * (core/map/share.h) makes it good.
 *
 * Packets (SOCK_SEQPACKET), each a kind u8 and:
 *
 *   to the member    HELLO: the job's id 16 | MESSAGE: to 16, bytes | PROGRESS: done u32, failed u32, tasks u32
 *   to the child     MESSAGE: from 16, bytes | PEERS: own id 16, slots u32, count u16, ids 16 each
 *
 * The first byte of a message says for what of a child the others are.
 *
 * Thread: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_RELAY_H
#define GODWIT_TOOLS_GODWIT_FLOCK_RELAY_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/flock/record.h"
#include "net/loop/loop.h"

enum {
    GW_RELAY_BYTES = 64 << 10, /* of a packet, at most */
    GW_RELAY_PEERS = 1024,
    GW_RELAY_CHILDREN = 256,
};

enum { GW_RELAY_SHARE = 1 /* core/map/share.h */, GW_RELAY_COPIES /* core/map/copies.h */ };

#define GW_RELAY_NAME "relay.sock"

typedef struct gw_relay_progress {
    uint32_t done, failed, tasks; /* failed ones are among those that are done */
} gw_relay_progress;

/* The member's side. */
typedef struct gw_relay gw_relay;

typedef struct gw_relay_events {
    void *context;
    /* A child has a message for that of the same job on another node. */
    void (*message)(void *context, const gw_job_record_id *job, const gw_peer_id *to, const void *bytes,
                    size_t length);
    /* A child has connected, and is to be told its peers. */
    void (*joined)(void *context, const gw_job_record_id *job);
} gw_relay_events;

/* Opens the socket, in place of one that a dead process left. The caller holds the directory's lock. NULL on failure. */
gw_relay *gw_relay_open(gw_loop *loop, const char *directory, const gw_relay_events *events, gw_err *err);
void gw_relay_close(gw_relay *relay); /* NULL is allowed */
/* Gives the child of a job here a message from that on another node. Where there is no child, it is lost. */
void gw_relay_deliver(gw_relay *relay, const gw_job_record_id *job, const gw_peer_id *from, const void *bytes,
                      size_t length);
/* Tells the child of a job which nodes have children of it, and how many tasks it may run, where that has changed. */
void gw_relay_tell(gw_relay *relay, const gw_job_record_id *job, const gw_peer_id *self, uint32_t slots,
                   const gw_peer_id *peers, uint32_t count);
/* How far the child of a job says to be; all zeros: it has not said anything. */
gw_relay_progress gw_relay_progress_of(const gw_relay *relay, const gw_job_record_id *job);

/* The child's side. */
typedef struct gw_relay_child gw_relay_child;

typedef struct gw_relay_child_events {
    void *context;
    void (*peers)(void *context, const gw_peer_id *self, uint32_t slots, const gw_peer_id *peers,
                  uint32_t count);
    void (*message)(void *context, const gw_peer_id *from, const void *bytes, size_t length);
    /* The member has gone; the child looks for the next one by itself. */
    void (*cut)(void *context);
} gw_relay_child_events;

/* Connects to the member of a directory, now or when there is one. The directory's name is copied. NULL on failure. */
gw_relay_child *gw_relay_child_open(gw_loop *loop, const char *directory, const gw_job_record_id *job,
                                    const gw_relay_child_events *events, gw_err *err);
void gw_relay_child_close(gw_relay_child *child); /* NULL is allowed */
/* Sends a message of at most GW_RELAY_BYTES - 17 bytes; it is lost where no member is there, or where too many wait. */
void gw_relay_child_send(gw_relay_child *child, const gw_peer_id *to, const void *bytes, size_t length);
void gw_relay_child_tell(gw_relay_child *child, const gw_relay_progress *progress);

#endif
