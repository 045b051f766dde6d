/* The bytes of gossip datagrams. A datagram is
 *
 *   version u8 · type u8 · cluster 8 bytes · sender id 16 · sender incarnation 20
 *   what its type needs (see gw_gossip_packet)
 *   count u8, and that many records about members
 *
 * No version changes the first ten bytes. A build reads and writes version GW_GOSSIP_VERSION and the one before
 * (net/README.md, "Versions"). To a member that is not known to read the newer one it sends the older one, in
 * which a bit of a member's record tells that the member reads the newer one; a build of the older version ignores
 * that bit.
 *
 *   version 1   addresses and metadata
 *   version 2   a record with metadata also has the member's name
 *
 * Only files of this folder include it. The functions do no I/O. */
#ifndef GODWIT_CORE_GOSSIP_CODEC_H
#define GODWIT_CORE_GOSSIP_CODEC_H

#include "core/base/wire.h"
#include "core/gossip/gossip.h"

enum {
    GW_GOSSIP_VERSION = 2,
    GW_GOSSIP_OLDEST = GW_GOSSIP_VERSION - 1,
    /* The front of the cluster id, which tells clusters apart and authenticates nothing. */
    GW_GOSSIP_CLUSTER_BYTES = 8,
    GW_GOSSIP_FRONT = 2 + GW_GOSSIP_CLUSTER_BYTES, /* bytes that are the same in every version */
    GW_GOSSIP_RECORDS = 40,                        /* more than fit into a datagram */
    GW_GOSSIP_BUCKETS = 128,                       /* most buckets of a digest */
};

typedef enum gw_gossip_type {
    GW_GOSSIP_PING = 1,     /* seq, target, known_meta */
    GW_GOSSIP_ACK = 2,      /* seq; sent by the target or by a peer that was asked to ping it */
    GW_GOSSIP_PING_REQ = 3, /* seq, target, addr */
    GW_GOSSIP_NACK = 4,     /* seq; sent by a peer that was asked to ping and has no answer so far */
    GW_GOSSIP_RUMOURS = 5,  /* records only */
    GW_GOSSIP_DIGEST = 6,   /* flags, buckets, digest */
    GW_GOSSIP_ENTRIES = 7,  /* flags; the records are what a digest showed to differ */
} gw_gossip_type;

enum {
    GW_GOSSIP_ANSWER = 1, /* DIGEST: this is an answer, which is not answered by another digest */
    GW_GOSSIP_MORE = 1,   /* ENTRIES: more entries differ than were sent; ask again */
};

typedef struct gw_gossip_packet {
    uint8_t version; /* GW_GOSSIP_OLDEST or GW_GOSSIP_VERSION */
    uint8_t type;    /* gw_gossip_type */
    uint8_t cluster[GW_GOSSIP_CLUSTER_BYTES];
    gw_peer_id sender;
    gw_incarnation incarnation;
    uint32_t seq;
    gw_peer_id target;
    uint32_t known_meta; /* PING: version of the newest metadata of the target that the sender has */
    gw_addr addr;        /* PING_REQ: where the target is */
    uint8_t flags;
    uint8_t buckets; /* DIGEST: 1 to GW_GOSSIP_BUCKETS */
    uint64_t digest[GW_GOSSIP_BUCKETS];
} gw_gossip_packet;

/* A statement of one peer about another or about itself. */
typedef struct gw_gossip_record {
    uint8_t state; /* gw_gossip_state */
    bool proven;   /* DEAD: by proof, not by silence */
    bool has_meta, has_name;
    uint8_t reads; /* a version that its subject is known to read; 0: none is known */
    uint8_t addr_count;
    uint8_t meta_bytes, name_bytes;
    gw_peer_id id;
    gw_incarnation incarnation;
    gw_peer_id accuser; /* SUSPECT: whose probe failed */
    gw_addr addr[GW_GOSSIP_ADDRS];
    uint32_t meta_version;
    const uint8_t *meta; /* points into the datagram or to memory of the caller, as does `name` */
    const char *name;    /* not terminated */
} gw_gossip_record;

/* Writes everything but the records. The caller continues with the count and gw_gossip_record_put. */
void gw_gossip_packet_put(gw_writer *w, const gw_gossip_packet *packet);
/* Reads everything but the records. Fails the reader on a version that this build does not read, an unknown type
 * or a field out of range. */
void gw_gossip_packet_get(gw_reader *r, gw_gossip_packet *packet);

/* The version is that of the packet. A name is left out of a packet whose version has none. */
size_t gw_gossip_record_bytes(const gw_gossip_record *record, uint8_t version);
void gw_gossip_record_put(gw_writer *w, const gw_gossip_record *record, uint8_t version);
void gw_gossip_record_get(gw_reader *r, gw_gossip_record *record, uint8_t version);

#endif
