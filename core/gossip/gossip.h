/* Membership by gossip: who is in the flock, alive or not, where, and a little metadata of each: a few
 * bytes whose meaning only the caller knows (the brain puts job, view, step and speed into it).
 *
 * SWIM (Das, Gupta, Motivala, "SWIM: Scalable Weakly-consistent Infection-style Process Group Membership
 * Protocol", DSN'02) with the refinements of Lifeguard (Dadgar, Phillips, Currey, "Lifeguard: Local Health
 * Awareness for More Accurate Failure Detection", DSN-W'18): a local health multiplier, suspicion that
 * shrinks with independent confirmations, and the buddy system (a suspect is told first). In addition:
 *   - every other probe goes to one of the two members that a peer watches, the next ones on a ring of all
 *     members. Thus each member is probed every 0.8 s (1.6 s in large flocks) even if one of its two watchers
 *     is slow, and not only when chance selects it;
 *   - anti-entropy by digests of the member table instead of copies of it, so that it costs little at 10,000
 *     peers and a datagram stays under GW_GOSSIP_DATAGRAM bytes;
 *   - dead peers and seeds go on being probed, rarely, so that partitions heal by themselves;
 *   - accusations about peers not known here are kept and relayed;
 *   - a newer boot of a peer is the death certificate of its older life;
 *   - a member that refutes suspicions is slow, and its answers are awaited up to four times as long; this is
 *     remembered longer in a larger flock. A peer that knows that it stood still requests it by a leap of its
 *     refutation number. Therefore suspicions and refutations, which spread to all members, stay rare even
 *     if some peers are slow;
 *   - after a gap in its own loop (SIGCONT, starvation) a peer starts its suspicions anew.
 *
 * Sans-IO: time and randomness come in as arguments, datagrams and events go out through a sink. No function
 * here blocks, and none but gw_gossip_create allocates more than a few growing tables. Encryption,
 * authentication and the replay window are the caller's: bytes given to gw_gossip_datagram are taken as sent
 * by a member of the cluster, perhaps long ago (net/secure/packet.h).
 *
 * Threads: an instance belongs to one thread. The sink is called from inside the functions marked "sinks",
 * and must not call any of them again. Times are nanoseconds of any monotonic clock. */
#ifndef GODWIT_CORE_GOSSIP_GOSSIP_H
#define GODWIT_CORE_GOSSIP_GOSSIP_H

#include "core/base/err.h"
#include "core/base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_GOSSIP_DATAGRAM = 1300,  /* most bytes of one datagram, before encryption */
    GW_GOSSIP_META_BYTES = 160, /* most bytes of a peer's metadata */
    GW_GOSSIP_NAME_BYTES = 63,  /* most bytes of a peer's name */
    GW_GOSSIP_ADDRS = 2,        /* most addresses of a peer */
    GW_GOSSIP_SEEDS = 64,       /* most seed addresses */
};

/* The state of a peer. If two rumours are about one life and one refutation number, the higher state
 * holds. */
typedef enum gw_gossip_state {
    GW_GOSSIP_IS_ALIVE = 0,
    GW_GOSSIP_IS_SUSPECT = 1, /* did not answer; a member until its suspicion expires */
    GW_GOSSIP_IS_DEAD = 2,
    GW_GOSSIP_IS_LEFT = 3, /* left on purpose; not probed any more */
} gw_gossip_state;

/* What is known of a peer. `meta` may be NULL (meta_bytes 0). */
typedef struct gw_gossip_member {
    gw_peer_id id;
    gw_incarnation incarnation; /* the newest life heard of */
    gw_addr addr[GW_GOSSIP_ADDRS];
    uint8_t addr_count; /* 0: only hearsay so far */
    uint8_t state;      /* gw_gossip_state */
    uint8_t meta_bytes;
    uint32_t meta_version; /* number of the metadata in this life; 0 = none has been heard */
    const uint8_t *meta;
    /* What people call the member in this life: at most GW_GOSSIP_NAME_BYTES of UTF-8 without control
     * characters, terminated; "" = it has none; NULL = none has been heard. Nothing follows from it. */
    const char *name;
} gw_gossip_member;

typedef enum gw_gossip_event_kind {
    /* The member is new, is back, has refuted a suspicion, or has a new life (after the DEAD of the older
     * one). */
    GW_GOSSIP_ALIVE,
    /* The member may be dead. Nothing follows from it but to prefer others. */
    GW_GOSSIP_SUSPECT,
    /* The life `incarnation` is dead: silent, proven dead, or replaced by a newer life. */
    GW_GOSSIP_DEAD,
    /* The member left on purpose. */
    GW_GOSSIP_LEFT,
    /* The metadata of the member has changed, or its name has become known. */
    GW_GOSSIP_META,
    /* Two processes run with one identity: `incarnation`, known here, and `other`. If the member is this peer
     * itself, `other` is as new or newer, and this process should stop. The event comes once for each pair of
     * lives. */
    GW_GOSSIP_CLONED,
    /* A peer of this cluster at `other_addr` sends datagrams of a version that this build does not read. The
     * event comes at most once a minute for each version; `member` is this peer. */
    GW_GOSSIP_UNREADABLE,
} gw_gossip_event_kind;

typedef struct gw_gossip_event {
    gw_gossip_event_kind kind;
    const gw_gossip_member *member; /* as it is after the event; valid during the call */
    gw_incarnation incarnation;     /* the life that this is about */
    bool proven;                    /* DEAD: a refused connection or a newer life proves it, not silence */
    uint64_t heard_ns;    /* DEAD: when this peer last heard from the member's newest life itself; 0: never */
    gw_incarnation other; /* CLONED: the other life */
    gw_addr other_addr;   /* CLONED: where the other life was heard from; family 0 = hearsay. UNREADABLE */
    /* UNREADABLE: of the datagrams; the least and the greatest that this peer reads. */
    uint8_t version, oldest, newest;
} gw_gossip_event;

/* Where datagrams and events go. The bytes are valid during the call. */
typedef struct gw_gossip_sink {
    void *context;
    void (*send)(void *context, const gw_addr *to, const void *bytes, size_t length);
    void (*event)(void *context, const gw_gossip_event *event);
} gw_gossip_sink;

/* The pace of the protocol. The figures in this project are measured with gw_gossip_timing_default(). */
typedef struct gw_gossip_timing {
    uint64_t period_ns;       /* time between two probes: of a watched member, of one of the round, in turn */
    uint64_t period_log_ns;   /* what each doubling of the flock from 64 to 1024 peers adds to period_ns */
    uint64_t ping_timeout_ns; /* after this time without an answer others are asked to ping */
    uint64_t probe_timeout_ns; /* after this time without any answer the member is suspect */
    uint64_t suspicion_ns; /* the shortest suspicion in a flock of two; unconfirmed ones last twice as long */
    uint64_t suspicion_log_ns; /* what each doubling of the flock adds to suspicion_ns */
    uint64_t rumour_ns;        /* pause between rounds of rumours, while there are any */
    uint64_t sync_ns;          /* pause between anti-entropy rounds of a small flock */
    uint64_t revive_ns;        /* pause between probes of the dead */
    uint64_t seed_ns;          /* pause between tries of a seed that is no live member */
    uint64_t meta_ns;          /* shortest time between two changes of one peer's metadata */
    uint64_t gap_ns;           /* a tick this late means that this peer itself stood still */
    uint32_t meta_bytes_per_s; /* metadata that each peer of a small flock may send */
    uint32_t indirect;         /* how many others are asked to ping (SWIM's k) */
    uint32_t fanout;           /* how many peers each round of rumours is sent to */
    uint32_t confirmations;    /* so many independent ones bring a suspicion to its shortest */
} gw_gossip_timing;

gw_gossip_timing gw_gossip_timing_default(void);

typedef struct gw_gossip_config {
    gw_peer_id id;
    gw_incarnation incarnation; /* boot persisted before use, nonce random, refutation 0 */
    gw_hash cluster;            /* packets of another cluster are dropped and counted */
    gw_addr addr[GW_GOSSIP_ADDRS];
    uint32_t addr_count;  /* 0: others use the address they hear this peer from */
    const gw_addr *seeds; /* copied; its own addresses among them are ignored */
    uint32_t seed_count;
    const char *name; /* copied; as in gw_gossip_member; NULL: the peer has none */
    /* Speak the version of datagrams before the present one only, as a build before it does. Simulations and
     * tests of flocks of both versions set it. */
    bool before;
    gw_gossip_timing timing;
    uint64_t rng_seed;
    gw_gossip_sink sink;
} gw_gossip_config;

typedef struct gw_gossip gw_gossip;

/* Fails on out of memory, too many seeds or addresses, a name that is too long, or an id of none. The caller
 * owns *gossip. */
bool gw_gossip_create(const gw_gossip_config *config, gw_gossip **gossip, gw_err *err);
void gw_gossip_destroy(gw_gossip *gossip); /* NULL is fine */

/* A flock whose members know each other, for thousands of instances in one process: they share one copy of
 * what is known of a member, until one of them learns more. Members are alive and have neither metadata nor
 * names (asserted), and read the present version of datagrams. */
typedef struct gw_gossip_roster gw_gossip_roster;

bool gw_gossip_roster_create(const gw_gossip_member *members, uint32_t count, gw_gossip_roster **roster,
                             gw_err *err);
/* Frees a roster, after the instances that were enrolled with it are destroyed. NULL is allowed. */
void gw_gossip_roster_destroy(gw_gossip_roster *roster);
/* Called before the start: the instance then knows all members of the roster, of which it may be one, as
 * after a long time together. No events report them. If this fails for want of memory, the instance can only
 * be destroyed. */
bool gw_gossip_enroll(gw_gossip *gossip, const gw_gossip_roster *roster, gw_err *err);

/* Begins to probe and to look for seeds. Called once, before the functions below. Sinks. */
void gw_gossip_start(gw_gossip *gossip, uint64_t now_ns);

/* Replaces the seeds. `seeds` is copied; at most GW_GOSSIP_SEEDS (asserted). If one of them is new, the next
 * tick is due at once and asks that seed first. */
void gw_gossip_seek(gw_gossip *gossip, const gw_addr *seeds, uint32_t count, uint64_t now_ns);

/* Replaces the addresses at which others reach this peer, and tells the other members. `addrs` is copied; at
 * most GW_GOSSIP_ADDRS (asserted). */
void gw_gossip_set_addresses(gw_gossip *gossip, const gw_addr *addrs, uint32_t count, uint64_t now_ns);

/* Receives one datagram, already decrypted. Its contents are not trusted: malformed datagrams are dropped and
 * counted. Sinks. */
void gw_gossip_datagram(gw_gossip *gossip, const gw_addr *from, const void *bytes, size_t length,
                        uint64_t now_ns);

/* When gw_gossip_tick is next due. Changes with every call that sinks, and with gw_gossip_seek. */
uint64_t gw_gossip_next_deadline(const gw_gossip *gossip);

/* Whether a tick has been due for longer than timing.gap_ns, which means that this process stood still. */
bool gw_gossip_stood_still(const gw_gossip *gossip, uint64_t now_ns);

/* Does what is due. The caller first hands over the datagrams that wait in its socket, since they may hold
 * the answers that a tick would miss. If the tick is late by more than timing.gap_ns, this process stood
 * still, and every probe and suspicion gets its full time again. Sinks. */
void gw_gossip_tick(gw_gossip *gossip, uint64_t now_ns);

/* Probes a peer at once, because something suggests that it is dead (a broken link, a failed collective).
 * Does nothing if the peer is unknown or dead. Sinks. */
void gw_gossip_suspect_hint(gw_gossip *gossip, const gw_peer_id *id, uint64_t now_ns);

/* Declares a life of a peer dead, because that is proven (its host refused the reconnection). Does nothing if
 * the id is unknown or the peer is known in a newer life. The refutation number of `incarnation` does not
 * matter. Sinks. */
void gw_gossip_confirm_dead(gw_gossip *gossip, const gw_peer_id *id, const gw_incarnation *incarnation,
                            uint64_t now_ns);

/* Leaves the flock. The instance goes on ticking so that the news spreads, but no longer probes or refutes. A
 * second call does nothing. Sinks. */
void gw_gossip_leave(gw_gossip *gossip, uint64_t now_ns);

/* Replaces this peer's metadata, at most GW_GOSSIP_META_BYTES bytes (asserted). The call is cheap and may
 * come with every change: only the newest metadata is sent, at most once in timing.meta_ns, and more rarely
 * in a large flock, where the metadata of all peers share a part of the bandwidth. */
void gw_gossip_set_meta(gw_gossip *gossip, const void *meta, size_t bytes, uint64_t now_ns);

/* Lookups. A pointer is valid until the next call that sinks. The members are this peer itself (number 0),
 * the living members, and the dead that are remembered; numbers change with calls that sink. */
const gw_gossip_member *gw_gossip_self(const gw_gossip *gossip);
const gw_gossip_member *gw_gossip_find(const gw_gossip *gossip, const gw_peer_id *id); /* NULL: unknown */
uint32_t gw_gossip_count(const gw_gossip *gossip);
const gw_gossip_member *gw_gossip_at(const gw_gossip *gossip, uint32_t number); /* number < count */

typedef struct gw_gossip_stats {
    uint64_t datagrams_sent, bytes_sent, datagrams_received, bytes_received;
    uint64_t foreign, malformed, unreadable; /* datagrams dropped; the last: of another version */
    uint64_t probes, probes_failed, suspicions, refutations, gaps;
    uint32_t health; /* local health multiplier less one: 0 = good, 8 = this peer is very slow */
} gw_gossip_stats;

void gw_gossip_stats_read(const gw_gossip *gossip, gw_gossip_stats *stats);

#endif
