/* What this peer knows of the other peers: gossip's members, links to them, and the shards on which peers
 * died. The state belongs to this room; the other rooms of the brain read it. */
#ifndef GODWIT_CORE_BRAIN_MEMBERS_STATE_H
#define GODWIT_CORE_BRAIN_MEMBERS_STATE_H

#include "core/base/id_index.h"
#include "core/brain/message.h"
#include "core/gossip/gossip.h"
#include "core/record/deaths.h"

enum { GW_MAX_CLAIMS = 64 }; /* workers of a peer whose claims are remembered */

/* The shards that the workers of one life of a peer compute in one step, as far as its CLAIM messages
 * tell. */
typedef struct gw_reported_claims {
    bool any; /* a claim has come in this step; without one the rest means nothing */
    /* There may be other claims: of more workers than are remembered, or in messages that were lost. */
    bool more;
    uint64_t step;
    gw_incarnation life;
    uint32_t shard[GW_MAX_CLAIMS]; /* by worker; GW_SHARD_ANY = none */
} gw_reported_claims;

/* A peer as the brain knows it beyond gossip. */
typedef struct gw_contact {
    gw_peer_id id;              /* the first member, because the index finds a contact by it */
    gw_incarnation incarnation; /* the life that gossip knows */
    bool alive, linked;         /* by gossip; a control link stands */
    bool greeted, differs; /* the HELLO over that link says that the peer runs the same job; another one */
    bool apart;            /* with `differs`: the job is the same, but no way that data may travel is */
    uint32_t ways;         /* the ways that data may travel, from the peer's HELLO; GW_WAY_* */
    uint64_t kind;         /* with `differs`: a hash of the HELLO, equal for peers that can work together */
    char difference[400];  /* with `differs`: what differs, for people */
    bool wanted;           /* a link has been asked for (GW_ACT_LINK) */
    gw_incarnation linked_life; /* the life to which the last link was; boot 0 = there was none */
    /* What that life has sent over its link: HELLO as a peer of this job, END, FELL. Its metadata may say the
     * same, or be lost. */
    bool ran_this_job, sent_end, sent_fell;
    gw_hash end_root; /* with sent_end: root of the last state */
    struct {          /* with sent_fell: the peer's last words, as in gw_message.fell */
        bool blameless;
        uint32_t shard_plus_1;
        uint64_t epoch, step;
    } fell;
    gw_view_ref refusal_state; /* the view of that life's state, from the last REFUSE */
    uint64_t came_ns;       /* start of the present life, or of a row of short lives that follow each other */
    uint64_t life_since_ns; /* when the present life was first heard of */
    uint64_t gone_ns;       /* when the peer was last heard to be dead */
    uint64_t alive_since_ns, unlinked_since_ns;
    uint64_t blocked_until_ns; /* until then the peer is kept out of proposals */
    bool ended;           /* the peer is not merely silent: it left, or its address refuses connections */
    uint32_t blocks;      /* how often in a row it was blocked; each time is twice as long */
    bool data_missing;    /* no data link to the peer stands */
    bool data_fails_here; /* the data link is missing because of a fault of this peer */
    bool data_warned;     /* a warning about the missing data link is in the log */
    bool data_flaps;      /* the last data link broke soon after it was made */
    uint64_t data_missing_since_ns, data_up_ns;
    char data_why[96];      /* why the data link broke, for people */
    uint32_t path_failures; /* reductions in a row that failed between the peer and this one */
    uint64_t path_failed_ns;
    /* From the peer's metadata in gossip. */
    bool has_view, at_end, leaving, blameless;
    bool unsaved; /* with at_end or sent_end: the last state of the job is on no disks */
    uint8_t job[8];
    uint64_t epoch, step, fingerprint, checkpoint_step, speed;
    gw_view_name view_name;
    gw_peer_id leader;
    uint32_t view_count;
    uint32_t fatal_shard_plus_1; /* the shard that made the peer give up, plus 1; 0 = none did */
    /* At a leader, from JOIN. */
    uint64_t joining_until_ns;
    gw_view_name offered; /* the view that the peer is offered from; none for a newcomer by itself */
    gw_message *early;    /* at a leader: a STORED that came before this peer opened that checkpoint; owned */
    gw_reported_claims claims;
    /* Claims in steps up to this one may have been lost with a link; UINT64_MAX: none. */
    uint64_t claims_lost;
} gw_contact;

typedef struct gw_members_state {
    gw_contact *contacts; /* owned */
    uint32_t contact_count, contact_capacity;
    gw_id_index contact_index;
    uint64_t gossiped_epoch; /* the highest epoch that the metadata of any contact has named */
    uint64_t links_due_ns;   /* no link to a member of the view counts as missing before; 0 = check now */
    uint64_t data_due_ns;    /* no missing data link needs a warning before; 0 = check now */
    uint8_t meta[GW_GOSSIP_META_BYTES]; /* the metadata that this peer gossips of itself */
    size_t meta_length;
    uint64_t stranger_ns;   /* when a peer of another job last sent HELLO; 0 = none has */
    gw_shard_deaths deaths; /* of this job, from the present step on; part of the durable record */
    /* Deaths known when the view began, by which all members report their claims alike. */
    gw_shard_deaths agreed;
    bool deaths_changed;  /* `deaths` differs from the record that was read at the start */
    uint32_t lost_claims; /* shards of this step that were claimed here and given back */
    /* What is known of the last worker process of this peer that was lost, and its shard; "" = nothing. */
    char last_loss[200];
    uint64_t last_loss_step;
    uint32_t last_loss_shard;
    bool claims_old; /* this process stood still in this step: claims of others may be out of date */
    uint32_t fatal_shard_plus_1; /* the shard that made this peer give up, plus 1; 0 = none did */
    /* This peer has ended for a reason other than a shard: its device, its disk, other peers. */
    bool blameless;
} gw_members_state;

#endif
