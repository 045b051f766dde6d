/* Datagrams that carry gossip are sealed and opened here. The format is:
 *
 *   version u8 | mode u8 (0 plain, 1 sealed) | cluster, first 8 bytes | sender 16 | boot u64 | nonce u64
 *   | counter u64 | [sealed: 24 random bytes] | body | tag 16
 *
 * A sealed packet is encrypted by XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha) under the keyring's packet
 * keys: the first key seals, all keys open. The header and the whole cluster id are associated data. The tag
 * of a plain packet is BLAKE2b-128 keyed by the cluster id: a checksum, not a protection.
 *
 * Replay. The pair (boot, counter) never repeats for a sender, because the boot count is durable before it is
 * used; no clock is trusted. Each life (sender, nonce) has a window of 1024 counters. A packet of an older
 * boot than a known life of its sender is refused. Two lives of equal boot are clones of one directory:
 * packets of both are delivered, so that gossip can expose them. At most GW_PACKET_SENDERS lives are
 * remembered, in memory; the one not heard for longest is evicted.
 *
 * A recorded packet therefore passes once, at a process that has heard nothing later of its sender since it
 * started or has evicted it. The consequences are bounded: a dead peer counts as alive until it fails to
 * answer a ping (each process numbers its own pings), a digest is answered to the address that it seems to
 * come from, and a directory is reported to be copied. No live peer is taken for dead, because later claims
 * about a life (by boot, refutation number, state and number of its blob) override earlier ones. Claims that
 * cannot be taken back, that a process or the job has ended, are not believed of a peer to which this process
 * has never had a link (gw_contacts_has_met in core/).
 *
 * Dropped packets are counted and, per reason, logged at a limited rate (net/loop/warning_rate.h). Thread:
 * belongs to one thread. Pure but for randomness and the log. */
#ifndef GODWIT_NET_SECURE_PACKET_H
#define GODWIT_NET_SECURE_PACKET_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/secure/identity.h"
#include "net/secure/keyring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_PACKET_VERSION = 1,
    GW_DATAGRAM_BYTES = 1400, /* the largest datagram that is sent; it fits the MTU of every path */
    GW_PACKET_OVERHEAD = 90,  /* the overhead of sealed packets; plain ones have 24 bytes less */
    GW_PACKET_BODY = GW_DATAGRAM_BYTES - GW_PACKET_OVERHEAD,
    GW_PACKET_SENDERS = 8192,
};

typedef enum gw_packet_verdict {
    GW_PACKET_GOOD,
    GW_PACKET_GARBAGE,   /* too short, too long, unknown mode, or a wrong checksum */
    GW_PACKET_VERSIONED, /* another version of this format */
    GW_PACKET_FOREIGN,   /* the packet is of another cluster */
    GW_PACKET_UNSEALED,  /* the packet is plain and this peer has a key */
    GW_PACKET_SEALED,    /* the packet is sealed and this peer has no key */
    GW_PACKET_WRONG_KEY, /* no key of this peer opens it, or it was tampered with */
    GW_PACKET_REPLAYED,  /* seen before, or older than the window */
    GW_PACKET_OUTDATED,  /* the packet is of an older boot of its sender */
    GW_PACKET_OWN,       /* the packet was sent by this process */
    GW_PACKET_VERDICTS,
} gw_packet_verdict;

typedef struct gw_packets gw_packets;

/* Opens it with copies of the keys. NULL if out of memory. */
gw_packets *gw_packets_open(const gw_identity *identity, const gw_keyring *keyring, const gw_hash *cluster,
                            gw_err *err);
void gw_packets_close(gw_packets *packets);

/* Writes a datagram that carries `body`, of at most GW_PACKET_BODY bytes, and returns its length, at most
 * GW_DATAGRAM_BYTES. */
size_t gw_packet_seal(gw_packets *packets, const void *body, size_t body_bytes,
                      uint8_t datagram[GW_DATAGRAM_BYTES]);

/* Opens a datagram that came from `from` (used for the log), decrypting in place. For a good one, *sender is
 * its sender and *body points into `datagram`. `now_ns` serves to limit the rate of warnings. */
gw_packet_verdict gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram, size_t bytes,
                                 uint64_t now_ns, gw_peer_id *sender, const uint8_t **body,
                                 size_t *body_bytes);

/* The number of datagrams with each verdict, GW_PACKET_VERDICTS entries; valid while `packets` is. */
const uint64_t *gw_packet_counts(const gw_packets *packets);
/* A text for people, which is a constant, such as "sealed with a key that this peer does not have, or
 * tampered with". */
const char *gw_packet_verdict_text(gw_packet_verdict verdict);

#endif
