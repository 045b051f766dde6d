/* The handshake that opens every TCP stream, as a state machine without I/O: the caller feeds bytes and sends
 * the output.
 *
 * Construction: SIGMA-I (Krawczyk, "SIGMA: the 'SIGn-and-MAc' approach to authenticated Diffie-Hellman",
 * CRYPTO 2003), laid out as TLS 1.3 does (RFC 8446: signatures over the transcript hash under a handshake
 * key), with the cluster's key mixed in like Noise's psk (Perrin, "The Noise Protocol Framework", rev. 34).
 *
 *   1  I -> R   e_i, algorithms, proof = MAC(key, header and these)   the responder tries every key it holds
 *   2  R -> I   e_r, algorithm, sealed{ S_r, claims_r, sign_r(transcript) }
 *   3  I -> R   sealed{ S_i, claims_i, sign_i(transcript) }
 *
 * master = BLAKE2b(key; X25519(e_i, e_r), hash of the clear transcript). Both sides prove that they hold a
 * cluster key and the Ed25519 identity that they claim. Identities travel sealed. Each direction has its own
 * key. The role is part of what is signed, so a reflected message fails. Without a keyring (plain mode) the
 * messages are the same with a zero key, and the records that follow are not encrypted.
 *
 * Every message begins with 10 bytes that are the same in every version: "gdwt", version u16, type u8, mode
 * u8, length u16 of the rest. Thus any two versions can tell each other which they are.
 *
 * Thread: an object belongs to one thread at a time. */
#ifndef GODWIT_NET_SECURE_SECURE_H
#define GODWIT_NET_SECURE_SECURE_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/secure/identity.h"
#include "net/secure/keyring.h"
#include "net/secure/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_HANDSHAKE_MAGIC "gdwt" /* the first bytes of every handshake message */

enum {
    GW_PROTOCOL_VERSION = 1,
    GW_BUILD_TEXT = 64,
    GW_HANDSHAKE_HEADER = 10,
    GW_HANDSHAKE_MESSAGE = 512, /* the longest handshake message, header included */
};

/* The purpose of a stream. */
typedef enum gw_stream_kind {
    GW_STREAM_CONTROL = 1, /* the brain's messages: net/link/link.h */
    GW_STREAM_DATA = 2,    /* one-sided operations and collectives, served by data threads */
    GW_STREAM_CLIENT = 3,  /* requests of a program that is no peer: tools/godwit/service */
} gw_stream_kind;

/* What this peer proves and claims in every handshake. The objects pointed to outlive every stream; `listen`
 * may be filled in when the port is known. */
typedef struct gw_local {
    const gw_identity *identity;
    const gw_keyring *keyring;
    gw_hash cluster;
    /* Where other peers reach this one; an any-address stands for the address that they see. */
    gw_addr listen;
    char build[GW_BUILD_TEXT]; /* the build's version, for people and for the compute class */
} gw_local;

/* What the other side has proved (id) and claimed (the rest). */
typedef struct gw_remote {
    gw_peer_id id;
    gw_incarnation incarnation;
    gw_addr listen; /* where it is reached; the stream replaces an any-address by the address of `from` */
    gw_addr from;   /* the other end of the socket; set by the stream */
    char build[GW_BUILD_TEXT];
    gw_stream_kind kind;
    /* Given by the dialler; its meaning depends on the kind (data: which rail; control: net/link/link.h). */
    uint64_t label;
    bool dialled; /* this side dialled */
} gw_remote;

/* The cause of a failed handshake; GW_FAULT_NONE while it has not failed. */
typedef enum gw_fault {
    GW_FAULT_NONE,
    GW_FAULT_GARBAGE,  /* another protocol, or a message that breaks this one */
    GW_FAULT_VERSION,  /* the other side speaks another protocol version: the text names both */
    GW_FAULT_CLUSTER,  /* the other side is of another cluster (--cluster) */
    GW_FAULT_KEY,      /* no cluster key in common */
    GW_FAULT_NO_KEY,   /* one side has keys, the other has none: the text says which */
    GW_FAULT_IDENTITY, /* a seal or signature does not verify: tampering on the way */
    GW_FAULT_SELF,     /* the address leads to this process itself */
    GW_FAULT_CLONE,    /* another process has this peer's identity: its state directory is a copy */
} gw_fault;

typedef enum gw_handshake_state {
    GW_HANDSHAKE_GOING,
    GW_HANDSHAKE_DONE,
    GW_HANDSHAKE_FAILED
} gw_handshake_state;

typedef struct gw_handshake gw_handshake;

/* Start the dialler's and the acceptor's side. `randomness` is 32 fresh secret bytes (randombytes_buf) and
 * the only random input. The dialler chooses the stream's kind and label. NULL when out of memory. */
gw_handshake *gw_handshake_dial(const gw_local *local, gw_stream_kind kind, uint64_t label,
                                const uint8_t randomness[32], gw_err *err);
gw_handshake *gw_handshake_answer(const gw_local *local, const uint8_t randomness[32], gw_err *err);
void gw_handshake_close(gw_handshake *handshake);

/* The output that waits to be sent; gw_handshake_sent reports how many bytes were. A failed handshake may
 * have output too: the alert that tells the other side the cause. */
const uint8_t *gw_handshake_output(const gw_handshake *handshake, size_t *count);
void gw_handshake_sent(gw_handshake *handshake, size_t count);

/* Processes bytes as they arrive. *used is how many of them belong to the handshake; the others are records.
 * On failure *err describes the cause for a person, and gw_handshake_fault names it. A finished handshake
 * uses no bytes. */
gw_handshake_state gw_handshake_feed(gw_handshake *handshake, const uint8_t *bytes, size_t count,
                                     size_t *used, gw_err *err);
gw_fault gw_handshake_fault(const gw_handshake *handshake);
/* Whether the acceptor has received a hello that a holder of the key has made. It may be a replay by somebody
 * else. */
bool gw_handshake_proved(const gw_handshake *handshake);

/* Gives the identity of the other side and the ciphers of both directions. Called once, after
 * GW_HANDSHAKE_DONE. */
void gw_handshake_finish(gw_handshake *handshake, gw_remote *remote, gw_cipher *seal, gw_cipher *open);

#endif
