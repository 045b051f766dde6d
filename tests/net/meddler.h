/* A man in the middle: stands on a port of loopback before a peer (TCP and UDP), passes on what comes, and
 * meddles when a test says so. It knows the protocol as a stranger may: where handshake messages and records
 * begin and end, but no key. Also floods the peer with what it has heard, with garbage, and with connections.
 *
 * Has a thread of its own; all functions belong to the test's. What it cannot do (out of descriptors) it
 * leaves. */
#ifndef GODWIT_TESTS_NET_MEDDLER_H
#define GODWIT_TESTS_NET_MEDDLER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum meddling {
    MEDDLE_FLIP = 1, /* one bit */
    MEDDLE_REPLAY,   /* comes twice */
    MEDDLE_REORDER,  /* comes after the next one */
    MEDDLE_DROP,
    MEDDLE_TRUNCATE, /* half of it; a connection is closed after that */
    MEDDLE_REFLECT,  /* goes back to whom it came from, and on */
    MEDDLE_SPLICE,   /* an earlier connection's takes its place; of datagrams, an old one comes besides */
    MEDDLINGS,
} meddling;

typedef enum meddle_place { MEDDLE_HANDSHAKE, MEDDLE_RECORD, MEDDLE_DATAGRAM, MEDDLE_PLACES } meddle_place;

typedef struct meddler meddler;

/* Listens on a free port. `sealed`: records have tags, as they have where peers have a key. */
meddler *meddler_open(bool sealed);
uint16_t meddler_port(const meddler *m);
/* Whom it stands before, on 127.0.0.1, from now on; until the first time connections wait. */
void meddler_target(meddler *m, uint16_t port);
/* Ends the thread, and every connection. */
void meddler_close(meddler *m);

/* From now on at most about so many bytes a second pass each way of each connection. */
void meddler_slow(meddler *m, uint32_t bytes_per_s);

/* From now on (or no longer) reads and acknowledges what the dialler of each connection says, or the target,
 * and passes none of it on: no record, and not that it has closed. Handshakes pass. */
typedef enum meddle_deaf {
    MEDDLE_HEARS = 0,
    MEDDLE_DEAF_TO_DIALLER = 1,
    MEDDLE_DEAF_TO_TARGET = 2
} meddle_deaf;
void meddler_swallow(meddler *m, meddle_deaf to);

/* Does that to the next thing there, once; in place of what was to be done there and is not yet. */
void meddler_strike(meddler *m, meddle_place place, meddling kind);
/* How often it has struck there. */
uint64_t meddler_struck(meddler *m, meddle_place place);

/* Keeps every datagram that it hears from now on. */
void meddler_record(meddler *m);
/* From now on sends all that it has kept to this port of 127.0.0.1, in order, some 20,000 a second, over and
 * over; 0: no longer. */
void meddler_replay(meddler *m, uint16_t port);

/* From now on (or no longer) some 20,000 datagrams a second, of those heard and of garbage, and 300
 * connections, one third silent, one with garbage, and one with a hello that was heard. */
void meddler_flood(meddler *m, bool on);
/* Datagrams and connections that the flood has sent. */
void meddler_flooded(meddler *m, uint64_t *datagrams, uint64_t *connections);

#endif
