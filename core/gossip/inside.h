/* The state of a gossip instance and the functions that the files of this folder share.
 *
 *   gossip.c     life cycle, ticks, hints, this peer's metadata
 *   receive.c    incoming datagrams
 *   send.c       outgoing datagrams, rounds of rumours
 *   merge.c      the rules by which a record changes the table of members
 *   suspicion.c  suspicions and their end
 *   probe.c      pings, direct and indirect; probes of dead members and of seeds
 *   sync.c       anti-entropy
 *   table.c      members by id and by number
 *   ring.c       the members that this peer watches
 *   roster.c     members that many instances share
 *   rumours.c    the queue of rumours
 *   codec.c      the encoding of datagrams */
#ifndef GODWIT_CORE_GOSSIP_INSIDE_H
#define GODWIT_CORE_GOSSIP_INSIDE_H

#include "core/base/id_index.h"
#include "core/gossip/codec.h"
#include "core/gossip/gossip.h"
#include "core/gossip/rumours.h"
#include "core/rng.h"

enum {
    GW_GOSSIP_HEALTH_MAX = 8,   /* Lifeguard's S */
    GW_GOSSIP_PATIENCE = 3,     /* most additional probe timeouts granted to a slow member */
    GW_GOSSIP_WATCHED = 2,      /* members that each peer watches on the ring */
    GW_GOSSIP_CONFIRMERS = 8,   /* most confirmations that timing may ask for, plus the first accuser */
    GW_GOSSIP_PROBES = 64,      /* concurrent probes; hints beyond that wait for the round */
    GW_GOSSIP_RELAYS = 256,     /* concurrent pings on behalf of other peers */
    GW_GOSSIP_SYNC_PIECES = 16, /* most datagrams of entries in answer to one digest */
    GW_GOSSIP_LAST_ASKERS = 64, /* about how many peers ping a suspect once more before it is declared dead */
    GW_GOSSIP_META_PEERS = 64,  /* largest flock for which timing.meta_bytes_per_s holds */
    GW_GOSSIP_SYNC_META_MOST = 256, /* largest flock in which entries carry metadata */
};

/* A member that has been alive without a suspicion for this time, multiplied by the number of members, is
 * no longer considered slow. Since every member hears of every suspicion, the factor keeps the cost of
 * suspicions per member constant in larger flocks. In a small flock suspicions cost little, and a late
 * detection of a death costs more. */
#define GW_GOSSIP_STEADY_MEMBER_NS UINT64_C(500000000)

#define GW_GOSSIP_LEFT_KEPT_NS (600 * UINT64_C(1000000000))

/* Dead members are remembered for two reasons: they are found again when a partition ends, however long it
 * lasts, and old rumours about them are not taken for life. A dead member whose address belongs to another
 * member now cannot be found there and is forgotten after this time. A rumour older than that can only
 * come from a peer that was cut off for as long, which learns within a second or two that it is wrong. */
#define GW_GOSSIP_REPLACED_KEPT_NS (24 * 3600 * UINT64_C(1000000000))

/* The two queues of rumours: states go first, metadata as bandwidth allows. */
enum { GW_NEWS = 0, GW_METAS = 1 };

/* A member as this peer knows it: in memory of this instance, or in a roster that several instances read. */
typedef struct gw_gossip_entry {
    /* the first member, since the index finds an entry by the id with which it begins */
    gw_gossip_member public;

    uint64_t since_ns;  /* time of the last change of state or refutation */
    uint32_t number;    /* valid if owned */
    uint32_t rumour[2]; /* slots in the two queues */
    uint32_t suspicion; /* number in suspicions, plus 1; 0 = none */
    bool proven;        /* dead by proof */
    bool owned;         /* allocated by this instance, not part of a roster */
    bool clone_told;    /* CLONED was reported for this life */
    uint8_t reads;      /* the newest version of datagrams that this life is known to read; 0: the oldest */
    uint8_t refuted;    /* increase of its refutation number, at most GW_GOSSIP_PATIENCE */
} gw_gossip_entry;

typedef struct gw_suspicion {
    uint32_t member;
    uint32_t count; /* number of confirmers, the first accuser included */
    bool mine;      /* a probe of this peer has failed, and it goes on pinging the suspect */
    gw_peer_id confirmer[GW_GOSSIP_CONFIRMERS];
    uint64_t started_ns, deadline_ns;
    uint64_t nag_ns; /* when to send the accusation to the suspect again; UINT64_MAX: never */
} gw_suspicion;

typedef struct gw_probe {
    gw_peer_id target;
    uint64_t boot;
    uint32_t seq;
    uint32_t nacks_expected, nacks;
    bool indirect; /* other peers were asked to ping the target */
    uint64_t indirect_ns, verdict_ns;
} gw_probe;

/* A ping on behalf of another peer. */
typedef struct gw_relay {
    uint32_t seq, origin_seq;
    bool nacked;
    gw_addr origin;
    uint64_t nack_ns, end_ns;
} gw_relay;

struct gw_gossip {
    gw_gossip_config config; /* seeds points to `seeds` */
    gw_addr seeds[GW_GOSSIP_SEEDS];
    uint32_t next_seed; /* the seed to ask next */
    gw_rng rng;
    gw_gossip_stats stats;

    gw_gossip_entry *self;
    const gw_gossip_entry **entries; /* number 0 is this peer */
    uint64_t *heard_ns; /* for each member, when its present life was last heard directly; 0: never */
    uint32_t count, capacity, live, dead; /* `dead` excludes members that left */
    gw_id_index index;
    uint32_t *order; /* the probing round: a permutation of the members, visited up to `cursor` */
    uint32_t order_count, cursor;
    gw_peer_id watched[GW_GOSSIP_WATCHED]; /* the next live members on the ring, the next first */
    uint32_t watched_count;
    bool ring_known;              /* `watched` is up to date */
    uint32_t periods;             /* probe periods so far */
    uint32_t revivals, next_dead; /* pings to dead members so far; position of the last one in turn */

    gw_rumours rumours[2];
    double meta_tokens; /* bytes of metadata that may be sent now */
    uint64_t meta_tokens_ns;
    uint8_t meta[GW_GOSSIP_META_BYTES]; /* the newest metadata of this peer, possibly not published yet */
    uint8_t meta_bytes;
    bool meta_waits;

    gw_suspicion *suspicions;
    uint32_t suspicion_count, suspicion_capacity;
    gw_probe probes[GW_GOSSIP_PROBES];
    uint32_t probe_count;
    gw_relay relays[GW_GOSSIP_RELAYS];
    uint32_t relay_count;
    uint32_t seq;
    uint8_t reads;              /* the newest version of datagrams that this peer reads */
    uint8_t unreadable_version; /* the one that was reported last */
    uint64_t unreadable_ns;     /* when; 0: never */

    /* Deadlines of the periodic activities; UINT64_MAX: none. */
    uint64_t period_due, rumour_due, suspicion_due, probe_due, relay_due, sync_due, revive_due, seed_due,
        meta_due;
    uint64_t late_ns;       /* when this peer last noticed that it had stood still; 0: never */
    uint64_t introduced_ns; /* time of the last digest sent to an unknown peer */
    gw_addr sync_with;      /* target of the next anti-entropy round; family 0: a random member */
    uint64_t clone_nonce;   /* of the last reported clone of this peer itself */
    bool joining;           /* still learning the flock: what it learns is not news to other members */
    bool started, leaving;
};

/* gossip.c */
/* Notices whether this peer stood still. It is called before anything else is done at `now_ns`. */
void gw_gossip_notice_gap(gw_gossip *g, uint64_t now_ns);

/* table.c */
uint32_t gw_gossip_number(const gw_gossip *g, const gw_peer_id *id); /* UINT32_MAX: unknown */
const gw_gossip_entry *gw_gossip_entry_find(const gw_gossip *g, const gw_peer_id *id); /* NULL: unknown */
/* Returns an entry of this member that may be changed: an entry of a roster is copied first. NULL: out of
 * memory. */
gw_gossip_entry *gw_gossip_entry_own(gw_gossip *g, const gw_gossip_entry *entry);
/* The entry with this number, which is owned already, since it has a rumour or a suspicion. */
gw_gossip_entry *gw_gossip_entry_at(const gw_gossip *g, uint32_t number);
/* Adds a member, alive and without addresses. NULL: out of memory. */
gw_gossip_entry *gw_gossip_entry_add(gw_gossip *g, const gw_peer_id *id, const gw_incarnation *incarnation);
/* Adds all of these members except known ones, without copying them. Returns false when out of memory,
 * possibly after adding some. */
bool gw_gossip_entries_lend(gw_gossip *g, const gw_gossip_entry *entries, uint32_t count);
/* Frees an entry unless it belongs to a roster. */
void gw_gossip_entry_free(const gw_gossip_entry *entry);
/* Sets the state of a member and updates the counts and the suspicion. */
void gw_gossip_entry_set(gw_gossip *g, gw_gossip_entry *entry, gw_gossip_state state, uint64_t now_ns);
/* Replaces the metadata that public.meta owns. Returns false when out of memory; then nothing has changed. */
bool gw_gossip_entry_set_meta(gw_gossip_entry *entry, const void *meta, uint8_t bytes);
/* Replaces the name that public.name owns, likewise. Bytes that are not printable UTF-8 become '?'. */
bool gw_gossip_entry_set_name(gw_gossip_entry *entry, const char *name, uint8_t bytes);
void gw_gossip_entry_drop_name(gw_gossip_entry *entry);
/* Forgets one member that left long ago, or that died long ago and was replaced, or the oldest dead member
 * if the dead outnumber the living by far. */
void gw_gossip_reap(gw_gossip *g, uint64_t now_ns);
/* The next member of the probing round that is alive or suspect; NULL if there is none. */
const gw_gossip_entry *gw_gossip_next_in_round(gw_gossip *g);
/* Chooses up to `most` different random members that are alive or suspect, excluding this peer and
 * `except` (may be NULL). Returns how many. */
uint32_t gw_gossip_choose(gw_gossip *g, const gw_peer_id *except, uint32_t *numbers, uint32_t most);
bool gw_gossip_is_live(const gw_gossip_entry *entry);
/* The member that is alive or suspect and has this address; NULL if there is none. */
const gw_gossip_entry *gw_gossip_entry_at_addr(const gw_gossip *g, const gw_addr *addr);
/* The logarithm to base 2, rounded up; 0 for n <= 1. */
unsigned gw_gossip_log2(uint32_t n);

/* ring.c */
/* Notes that a member has become live or has ceased to be live. */
void gw_gossip_ring_changed(gw_gossip *g, const gw_gossip_entry *entry);
/* The watched member that is probed in the period of this number; NULL if there is none or its address is
 * unknown. */
const gw_gossip_entry *gw_gossip_watched(gw_gossip *g, uint32_t period);

/* send.c */
/* The version of datagrams in which to talk to a member; NULL: one that is not known. */
uint8_t gw_gossip_version_for(const gw_gossip *g, const gw_gossip_entry *to);
/* The packet's version is set when it is sent. */
gw_gossip_packet gw_gossip_packet_of(const gw_gossip *g, gw_gossip_type type);
gw_gossip_record gw_gossip_record_of(const gw_gossip *g, const gw_gossip_entry *entry, bool with_meta);
/* Sends a packet and fills the rest of the datagram with rumours: `first` (may be NULL), then accusations
 * against the receiver, then the queue. `to` is NULL if the address belongs to no known member. */
void gw_gossip_send(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *to,
                    const gw_gossip_packet *packet, const gw_gossip_record *first);
/* The address at which a member is reached; NULL if none is known. */
const gw_addr *gw_gossip_addr_of(const gw_gossip_entry *entry);
void gw_gossip_transmit(gw_gossip *g, const gw_addr *addr, const gw_writer *w);
void gw_gossip_spread(gw_gossip *g, gw_gossip_entry *entry, int queue, uint64_t now_ns);
void gw_gossip_rumour_round(gw_gossip *g, uint64_t now_ns);
/* Schedules a round of rumours if there are rumours and live members and no round is scheduled. */
void gw_gossip_wake_rumours(gw_gossip *g, uint64_t now_ns);
void gw_gossip_publish_meta(gw_gossip *g, uint64_t now_ns);
/* Sends a peer the accusation against it, so that it can refute; or tells a clone whose identity it uses. */
void gw_gossip_accuse(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *entry);

/* merge.c */
typedef enum gw_gossip_source {
    GW_FROM_SUBJECT, /* in a packet that the member itself sent */
    GW_FROM_RUMOUR,
    GW_FROM_SYNC,
    GW_FROM_PROOF, /* gw_gossip_confirm_dead */
} gw_gossip_source;

void gw_gossip_merge(gw_gossip *g, const gw_gossip_record *record, gw_gossip_source source,
                     const gw_addr *from, uint64_t now_ns);
void gw_gossip_tell(gw_gossip *g, gw_gossip_event_kind kind, const gw_gossip_entry *entry,
                    const gw_incarnation *incarnation);
void gw_gossip_health(gw_gossip *g, int change);

/* suspicion.c */
/* Starts or confirms a suspicion: `entry` is alive or suspect, and `accuser` reports that it did not
 * answer. */
void gw_gossip_suspect(gw_gossip *g, gw_gossip_entry *entry, const gw_peer_id *accuser, uint64_t now_ns);
void gw_gossip_suspicion_end(gw_gossip *g, gw_gossip_entry *entry);
void gw_gossip_suspicions_run(gw_gossip *g, uint64_t now_ns);
/* Restarts every suspicion, after this peer stood still. */
void gw_gossip_suspicions_restart(gw_gossip *g, uint64_t now_ns);
void gw_gossip_suspicions_shift(gw_gossip *g, uint64_t by_ns);
/* The number of additional timeouts for which an answer of this member is awaited, because it was slow
 * before. */
uint32_t gw_gossip_patience(const gw_gossip *g, const gw_gossip_entry *entry, uint64_t now_ns);
/* Notes that the refutation number of a member rose by `by`. */
void gw_gossip_refuted(const gw_gossip *g, gw_gossip_entry *entry, uint32_t by, uint64_t now_ns);

/* probe.c */
void gw_gossip_probe_start(gw_gossip *g, const gw_gossip_entry *entry, uint64_t now_ns);
void gw_gossip_ping(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *entry, uint32_t seq);
void gw_gossip_probes_run(gw_gossip *g, uint64_t now_ns);
void gw_gossip_probes_restart(gw_gossip *g, uint64_t now_ns);
void gw_gossip_probes_shift(gw_gossip *g, uint64_t by_ns);
void gw_gossip_relays_run(gw_gossip *g, uint64_t now_ns);
void gw_gossip_on_ack(gw_gossip *g, uint32_t seq);
void gw_gossip_on_nack(gw_gossip *g, uint32_t seq);
void gw_gossip_on_ping_req(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from,
                           uint64_t now_ns);
void gw_gossip_period(gw_gossip *g, uint64_t now_ns);
void gw_gossip_revive(gw_gossip *g, uint64_t now_ns);
void gw_gossip_try_seeds(gw_gossip *g, uint64_t now_ns);

/* sync.c */
/* `to` is NULL if the address belongs to no known member; then this peer introduces itself, too. */
void gw_gossip_send_digest(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *to, bool answer);
void gw_gossip_on_digest(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from);
void gw_gossip_on_entries(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from, uint64_t now_ns);
void gw_gossip_sync(gw_gossip *g, uint64_t now_ns);

#endif
