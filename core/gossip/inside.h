/* The inside of the gossip room: its state, and what its files offer each other. Nobody else includes this.
 *
 *   gossip.c            life cycle, ticks, hints, the blob
 *   gossip_receive.c    datagrams in
 *   gossip_send.c       datagrams out, rounds of rumours
 *   gossip_merge.c      the rules: what a record changes
 *   gossip_suspicion.c  from suspect to dead
 *   gossip_probe.c      pings, direct and indirect; the dead and the seeds
 *   gossip_sync.c       anti-entropy
 *   gossip_table.c      members by id and number
 *   gossip_ring.c       whom each watches
 *   gossip_roster.c     members that many instances share
 *   gossip_rumour.c     the queue of rumours
 *   gossip_codec.c      bytes */
#ifndef GODWIT_CORE_GOSSIP_INSIDE_H
#define GODWIT_CORE_GOSSIP_INSIDE_H

#include "core/base/id_index.h"
#include "core/gossip/codec.h"
#include "core/gossip/gossip.h"
#include "core/gossip/rumours.h"
#include "core/rng.h"

enum {
    GW_GOSSIP_HEALTH_MAX = 8,   /* Lifeguard's S */
    GW_GOSSIP_PATIENCE = 3,     /* most probe timeouts more that are granted to one who lives but is slow */
    GW_GOSSIP_WATCHED = 2,      /* members that each watches on the ring */
    GW_GOSSIP_CONFIRMERS = 8,   /* most confirmations that timing may ask for, and the first accuser */
    GW_GOSSIP_PROBES = 64,      /* at once; more hints than that wait for their turn in the round */
    GW_GOSSIP_RELAYS = 256,     /* pings made for others at once */
    GW_GOSSIP_SYNC_PIECES = 16, /* datagrams of entries for one digest */
    GW_GOSSIP_LAST_ASKERS = 64, /* about so many peers ask a suspect once more before it is buried */
    GW_GOSSIP_META_PEERS = 64,  /* the flock size up to which timing.meta_bytes_per_s holds */
    GW_GOSSIP_SYNC_META_MOST = 256, /* entries carry blobs up to this flock size */
};

/* Who has been alive for so long, for each member, without a suspicion is no longer taken for slow. Everybody
 * hears of every suspicion: what they cost each stays the same however many are slow in a larger flock. In a
 * small one they cost little, and a death that is known late costs more. */
#define GW_GOSSIP_STEADY_MEMBER_NS UINT64_C(500000000)

#define GW_GOSSIP_LEFT_KEPT_NS (600 * UINT64_C(1000000000))

/* The dead are remembered for two reasons: to be found again when a partition ends, however long that lasts,
 * and so that nobody takes old news of them for life. Whose address another member has will not be found
 * there, and after a day such news are as old as those of who was cut off for as long: whoever brings one
 * hears in a second or two that it is wrong. */
#define GW_GOSSIP_REPLACED_KEPT_NS (24 * 3600 * UINT64_C(1000000000))

enum { GW_NEWS = 0, GW_METAS = 1 }; /* the two queues: states first, blobs as bandwidth allows */

/* A member as this peer knows it, in memory of its own; or one of a roster, which others read, too. */
typedef struct gw_gossip_entry {
    gw_gossip_member public; /* first: begins with the id that the index finds it by */

    uint64_t since_ns;  /* in this state, or the last refutation */
    uint32_t number;    /* if owned */
    uint32_t rumour[2]; /* slots in the queues */
    uint32_t suspicion; /* number in suspicions, plus 1; 0 = none */
    bool proven;        /* dead by proof */
    bool owned;         /* not the roster's */
    bool clone_told;    /* CLONED was reported for this life */
    uint8_t refuted;    /* by how much it raised its refutation number, up to GW_GOSSIP_PATIENCE */
} gw_gossip_entry;

typedef struct gw_suspicion {
    uint32_t member;
    uint32_t count; /* of confirmers, the first accuser included */
    bool mine;      /* this peer's own probe failed: it goes on asking the suspect */
    gw_peer_id confirmer[GW_GOSSIP_CONFIRMERS];
    uint64_t started_ns, deadline_ns;
    uint64_t nag_ns; /* when to tell the suspect again; UINT64_MAX = not */
} gw_suspicion;

typedef struct gw_probe {
    gw_peer_id target;
    uint64_t boot;
    uint32_t seq;
    uint32_t nacks_expected, nacks;
    bool indirect; /* others were asked */
    uint64_t indirect_ns, verdict_ns;
} gw_probe;

/* A ping made for another peer. */
typedef struct gw_relay {
    uint32_t seq, origin_seq;
    bool nacked;
    gw_addr origin;
    uint64_t nack_ns, end_ns;
} gw_relay;

struct gw_gossip {
    gw_gossip_config config; /* seeds points to `seeds` */
    gw_addr seeds[GW_GOSSIP_SEEDS];
    uint32_t next_seed; /* to be asked */
    gw_rng rng;
    gw_gossip_stats stats;

    gw_gossip_entry *self;
    const gw_gossip_entry **entries;      /* number 0 is this peer */
    uint64_t *heard_ns;                   /* of each: last packet from this life itself; 0 = never */
    uint32_t count, capacity, live, dead; /* dead: without those that left */
    gw_id_index index;
    uint32_t *order; /* the probing round: a permutation of the members, visited up to `cursor` */
    uint32_t order_count, cursor;
    gw_peer_id watched[GW_GOSSIP_WATCHED]; /* the next live members on the ring, the next first */
    uint32_t watched_count;
    bool ring_known;              /* or they have to be looked for */
    uint32_t periods;             /* so far */
    uint32_t revivals, next_dead; /* pings to the dead so far; where the last of those in turn was */

    gw_rumours rumours[2];
    double meta_tokens; /* bytes that blobs may still use */
    uint64_t meta_tokens_ns;
    uint8_t meta[GW_GOSSIP_META_BYTES]; /* the newest blob of this peer, perhaps not published yet */
    uint8_t meta_bytes;
    bool meta_waits;

    gw_suspicion *suspicions;
    uint32_t suspicion_count, suspicion_capacity;
    gw_probe probes[GW_GOSSIP_PROBES];
    uint32_t probe_count;
    gw_relay relays[GW_GOSSIP_RELAYS];
    uint32_t relay_count;
    uint32_t seq;

    /* When things are due; UINT64_MAX = not. */
    uint64_t period_due, rumour_due, suspicion_due, probe_due, relay_due, sync_due, revive_due, seed_due,
        meta_due;
    uint64_t late_ns;       /* when this peer last noticed that it had stood still; 0 = never */
    uint64_t introduced_ns; /* last digest to a stranger */
    gw_addr sync_with;      /* whom the next round goes to; family 0 = anybody */
    uint64_t clone_nonce;   /* of the last clone of this peer itself that was reported */
    bool joining;           /* still learning the flock: what is learnt is no news to others */
    bool started, leaving;
};

/* --- gossip.c --- */
/* Before anything is done at `now_ns`: whether this peer is late. */
void gw_gossip_notice_gap(gw_gossip *g, uint64_t now_ns);

/* --- gossip_table.c --- */
uint32_t gw_gossip_number(const gw_gossip *g, const gw_peer_id *id); /* UINT32_MAX: unknown */
const gw_gossip_entry *gw_gossip_entry_find(const gw_gossip *g, const gw_peer_id *id); /* NULL: unknown */
/* The same member, to change it: copied when it is a roster's. NULL: out of memory. */
gw_gossip_entry *gw_gossip_entry_own(gw_gossip *g, const gw_gossip_entry *entry);
/* One that is owned already: with a rumour or a suspicion. */
gw_gossip_entry *gw_gossip_entry_at(const gw_gossip *g, uint32_t number);
/* A new member, alive and without addresses. NULL: out of memory. */
gw_gossip_entry *gw_gossip_entry_add(gw_gossip *g, const gw_peer_id *id, const gw_incarnation *incarnation);
/* Knows all of these from now on, but for those that it knows already. False: out of memory, perhaps in the
 * middle. */
bool gw_gossip_entries_lend(gw_gossip *g, const gw_gossip_entry *entries, uint32_t count);
void gw_gossip_entry_free(const gw_gossip_entry *entry); /* unless it is a roster's */
/* Sets the state, and keeps the counts and the suspicion right. */
void gw_gossip_entry_set(gw_gossip *g, gw_gossip_entry *entry, gw_gossip_state state, uint64_t now_ns);
/* Replaces the blob that public.meta owns; false: out of memory, nothing changed. */
bool gw_gossip_entry_set_meta(gw_gossip_entry *entry, const void *meta, uint8_t bytes);
/* Forgets one that left long ago, or died long ago and was replaced, or the oldest of the dead when they
 * outnumber the living by far. */
void gw_gossip_reap(gw_gossip *g, uint64_t now_ns);
/* The next member of the round that is alive or suspect; NULL when there is none. */
const gw_gossip_entry *gw_gossip_next_in_round(gw_gossip *g);
/* Up to `most` different random members, alive or suspect, without self and `except` (may be NULL). */
uint32_t gw_gossip_choose(gw_gossip *g, const gw_peer_id *except, uint32_t *numbers, uint32_t most);
bool gw_gossip_is_live(const gw_gossip_entry *entry);
bool gw_gossip_lives_at(const gw_gossip *g, const gw_addr *addr); /* one that is alive or suspect */
unsigned gw_gossip_log2(uint32_t n);                              /* rounded up; 0 for n <= 1 */

/* --- gossip_ring.c --- */
/* A member has become live, or has ceased to be. */
void gw_gossip_ring_changed(gw_gossip *g, const gw_gossip_entry *entry);
/* Of the members that this peer watches, the one whose turn is in a period of this number; NULL when there is
 * none, or its address is not known. */
const gw_gossip_entry *gw_gossip_watched(gw_gossip *g, uint32_t period);

/* --- gossip_send.c --- */
gw_gossip_packet gw_gossip_packet_of(const gw_gossip *g, gw_gossip_type type);
gw_gossip_record gw_gossip_record_of(const gw_gossip *g, const gw_gossip_entry *entry, bool with_meta);
/* Sends a packet with rumours in what room is left: `first` (may be NULL) before all, then what the receiver
 * is accused of, then the queue. `to` may be NULL when the address is not a known member's. */
void gw_gossip_send(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *to,
                    const gw_gossip_packet *packet, const gw_gossip_record *first);
/* The address to reach a member at; NULL when none is known. */
const gw_addr *gw_gossip_addr_of(const gw_gossip_entry *entry);
void gw_gossip_transmit(gw_gossip *g, const gw_addr *addr, const gw_writer *w);
void gw_gossip_spread(gw_gossip *g, gw_gossip_entry *entry, int queue, uint64_t now_ns);
void gw_gossip_rumour_round(gw_gossip *g, uint64_t now_ns);
/* Plans a round when there are rumours and somebody to tell, and none is planned. */
void gw_gossip_wake_rumours(gw_gossip *g, uint64_t now_ns);
void gw_gossip_publish_meta(gw_gossip *g, uint64_t now_ns);
/* Tells a peer what it is accused of, so that it can refute; or a clone whose name it bears. */
void gw_gossip_accuse(gw_gossip *g, const gw_addr *addr, const gw_gossip_entry *entry);

/* --- gossip_merge.c --- */
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

/* --- gossip_suspicion.c --- */
/* `entry` is alive or suspect and `accuser` says that it did not answer. */
void gw_gossip_suspect(gw_gossip *g, gw_gossip_entry *entry, const gw_peer_id *accuser, uint64_t now_ns);
void gw_gossip_suspicion_end(gw_gossip *g, gw_gossip_entry *entry);
void gw_gossip_suspicions_run(gw_gossip *g, uint64_t now_ns);
/* This peer stood still: every suspicion begins again. */
void gw_gossip_suspicions_restart(gw_gossip *g, uint64_t now_ns);
void gw_gossip_suspicions_shift(gw_gossip *g, uint64_t by_ns);
/* An answer of this member is waited for so many times longer: it lives, but has been slow to say so. */
uint32_t gw_gossip_patience(const gw_gossip *g, const gw_gossip_entry *entry, uint64_t now_ns);
/* Its refutation number rose `by` so much. */
void gw_gossip_refuted(const gw_gossip *g, gw_gossip_entry *entry, uint32_t by, uint64_t now_ns);

/* --- gossip_probe.c --- */
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

/* --- gossip_sync.c --- */
void gw_gossip_send_digest(gw_gossip *g, const gw_addr *addr, bool answer);
void gw_gossip_on_digest(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from);
void gw_gossip_on_entries(gw_gossip *g, const gw_gossip_packet *packet, const gw_addr *from, uint64_t now_ns);
void gw_gossip_sync(gw_gossip *g, uint64_t now_ns);

/* --- gossip_receive.c has only gw_gossip_datagram --- */

#endif
