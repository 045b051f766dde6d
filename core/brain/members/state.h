/* What this peer knows of the other peers: gossip's members, links to them, and the shards on which peers died.
 * The state belongs to this room; the other rooms of the brain read it. */
#ifndef GODWIT_CORE_BRAIN_MEMBERS_STATE_H
#define GODWIT_CORE_BRAIN_MEMBERS_STATE_H

#include "core/base/id_index.h"
#include "core/brain/message.h"
#include "core/gossip/gossip.h"
#include "core/record/deaths.h"

enum { GW_MAX_CLAIMS = 64 }; /* workers whose claims are remembered */

/* The shards that the workers of one life compute in one careful step, as far as that life has told. */
typedef struct gw_claims {
    bool heard, more; /* anything at all; more than is remembered, or than has come */
    uint64_t step;
    gw_incarnation life;
    uint32_t shard[GW_MAX_CLAIMS]; /* by worker; GW_SHARD_ANY = none */
} gw_claims;

/* A peer as the brain knows it beyond gossip. */
typedef struct gw_contact {
    gw_peer_id id;                        /* first: the index finds it by that */
    gw_incarnation incarnation;           /* as gossip has it */
    bool alive, linked, greeted, differs; /* greeted: its identity equals ours; differs: it does not */
    bool apart;                           /* differs, but only in the ways that it allows */
    uint32_t ways;                        /* of its hello */
    uint64_t kind;        /* of its hello, when it differs: equal for those who would run the same */
    char difference[300]; /* for people */
    bool wanted;          /* a link has been asked for */
    gw_incarnation linked_life;
    /* what that life has said by its link, as its blob may tell it, or be lost: it runs this job; that has
     * ended; how it fell */
    bool said_job, said_end, said_fell;
    gw_hash end_root; /* with said_end: of the last state */
    struct {
        bool blameless;
        uint32_t at;
        uint64_t epoch, step;
    } fell;
    gw_view_ref told_state; /* the view of that life's state, as it said when it refused a proposal */
    uint64_t came_ns; /* since when it comes again and again, each time for a short life, or this life */
    uint64_t life_since_ns; /* when this life was first heard of */
    uint64_t gone_ns;       /* when it was last heard to be dead */
    uint64_t alive_since_ns, unlinked_since_ns, blocked_until_ns;
    bool ended;           /* not alive, and not just silent: it left, or its address refuses connections */
    uint32_t blocks;      /* how often in a row it was blocked: each time for twice as long */
    bool data_missing;    /* no data link to it stands, */
    bool data_fails_here; /* for a reason of this peer's own, */
    bool data_said;       /* which the log has said */
    bool data_flaps;      /* the last one that did was gone at once */
    uint64_t data_missing_since_ns, data_up_ns;
    char data_why[96];      /* for people */
    uint32_t path_failures; /* reductions in a row that failed between it and this peer */
    uint64_t path_failed_ns;
    /* from its blob */
    bool has_view, at_end, leaving, blameless;
    bool unsaved; /* with at_end or said_end: its last state is on no disks */
    uint8_t job[8];
    uint64_t epoch, step, fingerprint, checkpoint_step, speed;
    gw_view_name view_name;
    gw_peer_id leader;
    uint32_t view_count;
    /* from JOIN, at a leader */
    uint64_t joining_until_ns;
    gw_view_name offered; /* the view it offers itself from, or none */
    gw_message *early;    /* at a leader: its STORED for a checkpoint not opened here yet; owned */
    uint32_t fell_at;     /* its last words: the shard that made it give up, plus 1; 0 = none did */
    gw_claims claims;
    uint64_t claims_lost; /* up to this step some may have been, with a link to that life; UINT64_MAX: none */
} gw_contact;

typedef struct gw_members_state {
    gw_contact *contacts; /* owned */
    uint32_t contact_count, contact_capacity;
    gw_id_index contact_index;
    uint64_t gossiped_epoch; /* the highest epoch that any contact's blob has named */
    uint64_t links_due_ns;   /* no member of the view misses its link before this time; 0 = check now */
    uint64_t data_due_ns;    /* no missing data link needs a warning before this time */
    uint8_t meta[GW_GOSSIP_META_BYTES]; /* the blob that this peer gossips of itself */
    size_t meta_length;
    uint64_t stranger_ns;   /* when a peer of another job last said hello; 0 = none has */
    gw_shard_deaths deaths; /* of this job, from the present step on; part of the durable record */
    gw_shard_deaths
        agreed;          /* deaths known when the view began: all its members are careful in the same steps */
    bool deaths_changed; /* since the record was read at the start */
    uint32_t lost_claims; /* shards of this step that were claimed here and given back */
    bool claims_old;      /* this process stood still in this step: the claims of others may be out of date */
    uint32_t fell_at;     /* the shard that made this peer give up, plus 1; 0 = none */
    bool blameless; /* this peer has ended for a reason that is no shard: its device, its disk, others */
} gw_members_state;

#endif
