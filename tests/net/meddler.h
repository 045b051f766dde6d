/* A man in the middle. It listens on a port of loopback in front of a peer (TCP and UDP), passes on what
 * comes, and tampers with it when a test asks for that. It knows the protocol as a stranger may: where
 * handshake messages and records begin and end, but no key. It also floods the peer with what it has
 * recorded, with garbage, and with connections.
 *
 * It has a thread of its own; all functions are called by the test's thread. What it cannot do (for want of
 * descriptors) it leaves out. */
#ifndef GODWIT_TESTS_NET_MEDDLER_H
#define GODWIT_TESTS_NET_MEDDLER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum meddling {
    MEDDLE_FLIP = 1, /* flips one bit */
    MEDDLE_REPLAY,   /* delivers the unit twice */
    MEDDLE_REORDER,  /* delivers the unit after the next one */
    MEDDLE_DROP,
    MEDDLE_TRUNCATE, /* delivers half of the unit; a connection is closed after that */
    MEDDLE_REFLECT,  /* returns the unit to its sender, and delivers it */
    MEDDLE_SPLICE,   /* puts one of an earlier connection in its place; delivers an old datagram besides */
    MEDDLINGS,
} meddling;

typedef enum meddle_place { MEDDLE_HANDSHAKE, MEDDLE_RECORD, MEDDLE_DATAGRAM, MEDDLE_PLACES } meddle_place;

typedef struct meddler meddler;

/* Listens on a free port. `sealed`: records have tags, as they have if the peers have a key. */
meddler *meddler_open(bool sealed);
uint16_t meddler_port(const meddler *m);
/* Sets the port of 127.0.0.1 to which it passes everything from now on. Until the first call connections
 * wait. */
void meddler_target(meddler *m, uint16_t port);
/* Ends the thread and every connection. */
void meddler_close(meddler *m);

/* Limits each direction of each connection to about so many bytes a second. */
void meddler_slow(meddler *m, uint32_t bytes_per_s);

/* Makes it (or no longer makes it) read and acknowledge what the dialler of each connection sends, or what
 * the target sends, without passing anything on: no record, and not the close. Handshakes pass. */
typedef enum meddle_deaf {
    MEDDLE_HEARS = 0,
    MEDDLE_DEAF_TO_DIALLER = 1,
    MEDDLE_DEAF_TO_TARGET = 2
} meddle_deaf;
void meddler_swallow(meddler *m, meddle_deaf to);

/* Tampers in this way with the next unit there, once, in place of an earlier order that is not done yet. */
void meddler_strike(meddler *m, meddle_place place, meddling kind);
/* How often it has tampered there. */
uint64_t meddler_struck(meddler *m, meddle_place place);

/* Records every datagram from now on. */
void meddler_record(meddler *m);
/* Sends everything that it has recorded to this port of 127.0.0.1, in order, some 20,000 a second, over and
 * over; 0 stops it. */
void meddler_replay(meddler *m, uint16_t port);

/* Sends (or no longer sends) some 20,000 datagrams a second, recorded ones and garbage, and opens 300
 * connections a second: one third silent, one with garbage, and one with a recorded hello. */
void meddler_flood(meddler *m, bool on);
/* The datagrams and connections that the flood has sent. */
void meddler_flooded(meddler *m, uint64_t *datagrams, uint64_t *connections);

#endif
