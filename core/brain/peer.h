/* The brain of a peer: a pure state machine. One call moves it: gw_peer_step. It implements
 * core/README.md, sections 3 to 5 and 11: membership, views, steps, repair, admission, checkpoints.
 *
 * Thread: one peer belongs to one thread at a time. Time is in nanoseconds of any monotonic clock, never 0.
 */
#ifndef GODWIT_CORE_BRAIN_PEER_H
#define GODWIT_CORE_BRAIN_PEER_H

#include "core/brain/world.h"
#include "core/godwit.h"
#include "core/gossip/gossip.h"
#include "core/record/best.h"
#include "core/record/deaths.h"

typedef struct gw_peer gw_peer;

typedef enum gw_quorum { GW_QUORUM_ANY = 1, GW_QUORUM_MAJORITY = 2 } gw_quorum;

enum { GW_MAX_ADDRS = 2, GW_MAX_SEEDS = 64, GW_MAX_KNOWN = 32 };

/* Ways that data may travel, as bits. Only the world knows what each is. */
enum { GW_WAY_TCP = 1 << 1, GW_WAY_SHM = 1 << 2, GW_WAY_RDMA = 1 << 3 };

#define GW_STEP_UNKNOWN UINT64_MAX

/* What a peer is created with. `tensors` and `shards_context` must outlive the peer; everything else is
 * copied, or read during gw_peer_create only. */
typedef struct gw_peer_config {
    gw_peer_id id;
    gw_incarnation incarnation;
    gw_hash cluster;
    /* What people call the peer: at most GW_GOSSIP_NAME_BYTES of UTF-8, or NULL. Others are told it by
     * gossip; nothing follows from it. */
    const char *name;
    bool gossips_before;         /* as `before` in gw_gossip_config */
    gw_addr addrs[GW_MAX_ADDRS]; /* where others reach this peer (TCP and UDP) */
    uint32_t addr_count;
    /* The addresses of seeds that are known now; GW_EV_SEEDS brings later ones. */
    gw_addr seeds[GW_MAX_SEEDS];
    uint32_t seed_count;
    bool joins; /* there are seeds, though no address of one may be known yet; a seed implies it */
    /* Addresses at which an earlier life met peers of this job. They are tried like seeds, but this peer does
     * not wait for them, and a peer of another job that is found there is left alone. */
    gw_addr known[GW_MAX_KNOWN];
    uint32_t known_count;

    /* Everything that affects S_t, as lines "name=value" (job, parameters, data digest, build, compute
     * class). The job id is its hash; two peers that differ name the lines that do. */
    const char *identity;
    const gw_tensor *tensors; /* of the job, for their names in messages; NULL: messages have their numbers */
    uint32_t tensor_count;
    uint64_t probe; /* fingerprint of one full shard of step 0 from S_0; all peers of a flock have the same */
    uint32_t ways;  /* GW_WAY_* that are allowed; 0: all. Peers with no way in common turn each other away */
    uint64_t steps; /* of the whole job */
    /* The first step of a job that goes on from the state of another job, its parent. That state is a
     * checkpoint of this job, on the disks of some peers. There is no earlier state: peers wait until it
     * can be loaded. 0: the job begins with S_0, which every peer computes. GW_STEP_UNKNOWN: this peer
     * does not know where the job begins; it founds no flock and waits for peers that know. The identity
     * names the parent's state in the lines that begin with "parent": "parent=" (a job's id, or
     * "unknown"), "parent-step=", "parent-root=". */
    uint64_t first_step;
    /* This peer takes the first state that others name, where they have a view or begin at a later step
     * (GW_FINISH_REBASE). Otherwise they are strangers. */
    bool rebases;
    uint32_t (*shards)(const void *context, uint64_t step); /* the number of shards of a step; pure */
    const void *shards_context;
    uint32_t state_chunks; /* chunks of 4 MiB in the state image */

    uint32_t peers; /* how many begin the job at step 0, at least; 1 = at once. Majority: the founding size */
    gw_quorum quorum;
    bool fast; /* float sums: states may differ between lineages, so only the latest view's state counts */
    bool skip_bad; /* --on-bad skip: a step with bad elements is skipped */
    /* --verify, in millionths of the shards that are computed twice; all peers have the same. */
    uint32_t verify;
    /* --deal energy: shards are dealt to those whom they cost least, and steps may take so many thousandths
     * longer for it; all peers have the same. */
    bool deal_energy;
    uint32_t deal_slack;
    uint32_t lanes; /* --lanes, streams of a data link for sums; all peers have the same. 0: --lanes auto */
    /* --keep-best and --patience, and the report and direction as people see them; NULL: off. */
    gw_best_rule best;
    const char *best_by;
    bool effects; /* the job's steps have effects, for which the brain asks by GW_ACT_COMMIT */
    uint64_t checkpoint_steps,
        checkpoint_ns;          /* checkpoints come after so many steps, so much time; 0 = not */
    uint32_t keep;              /* checkpoints that are kept, at least 1 */
    uint32_t replicas;          /* copies of each chunk, 1 to GW_MAX_REPLICAS */
    bool fresh;                 /* --fresh: checkpoints of this job are ignored */
    bool forget_losses;         /* --forget-losses: known deaths at shards are ignored */
    const gw_shard_death *fell; /* the shards that this peer's last life computed when it died */
    uint32_t fell_count;        /* 0 = none, or they are not known */
    uint64_t join_timeout_ns;   /* with `joins`: how long a seed is waited for before a flock is founded */
    /* How long the holders of a newer checkpoint are waited for (with exact sums, if no older one is whole).
     * If nothing can go on without peers whose processes have ended, they are waited for ten times as
     * long. */
    uint64_t resume_timeout_ns;
    /* How long the final state is tried to be stored while no disk has room, and how long a leaving peer
     * waits for a checkpoint if no others stay. */
    uint64_t save_timeout_ns;
    /* A peer without others that is asked to leave finishes its step if that takes no longer than this;
     * otherwise it leaves with the state before the step. 0: it finishes the step in any case. */
    uint64_t grace_ns;

    uint64_t seed;              /* of this peer's jitter */
    uint64_t probe_interval_ns; /* period of gossip's probes; 0 = default */
    /* By which the protocol's timeouts are multiplied; more than 100 for slow machines. */
    uint64_t time_scale_percent;
    const uint8_t *record; /* what was persisted last for this very job, or NULL */
    size_t record_length;
    const gw_inventory *inventory; /* checkpoints on this peer's disk, newest first */
    uint32_t inventory_count;
    bool orphans; /* the disk has chunks that no manifest there names (core/record/inventory.h) */
} gw_peer_config;

/* Creates a peer, which the caller destroys. Returns NULL, with *err, if the configuration makes no sense
 * (GW_E_USAGE) or memory runs out. */
gw_peer *gw_peer_create(const gw_peer_config *config, gw_err *err);
void gw_peer_destroy(gw_peer *peer);

/* Gives the peer one event, and appends to `actions` what the peer asks for. */
void gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t now_ns, gw_actions *actions);
/* The time at which the peer needs GW_EV_TIMER; UINT64_MAX = never. It changes with every step. */
uint64_t gw_peer_deadline(const gw_peer *peer);

enum { GW_TEXT_BYTES = 600 }; /* room for a text for people, which is cut if it is longer */

/* What a peer shows to people. */
typedef struct gw_peer_status {
    const char *phase; /* a constant: "computing", "waiting for peers" ... */
    bool ends;         /* it leaves, ends its job, or has ended */
    bool waits;        /* it waits for other peers, or for room on a disk */
    /* The newest reason for which it waits, below GW_TEXT_BYTES, valid until the next step; "" = none since a
     * view was installed. */
    const char *waits_for;
    const gw_view *view;  /* NULL = none */
    uint64_t step;        /* the step in progress */
    uint64_t fingerprint; /* of the state with which it began */
    /* The same for the newest state that others may see (GW_NOTICE_STEP), which is at most one step behind,
     * unless the peer is about to fetch the state. */
    uint64_t committed_step, committed_fingerprint;
    bool has_state;
    bool disk_writable;       /* no checkpoint has failed here since one was last written */
    uint64_t checkpoint_step; /* of the newest checkpoint that is known to be complete; UINT64_MAX = none */
    /* The newest complete checkpoint of which the peers that live have all chunks, as far as this peer
     * knows; a peer that has just joined may know of it by the others alone, and not its root (zeros).
     * UINT64_MAX = none. */
    uint64_t whole_step;
    gw_hash whole_root;
    uint64_t loading_step; /* of the state that is being fetched; UINT64_MAX = none is */
    gw_best best;          /* of the state with which the step began */
    gw_hash checkpoint_root;
    uint64_t views_installed, steps_repaired, shards_repaired, steals, shards_stolen;
    gw_gossip_stats gossip;
} gw_peer_status;
void gw_peer_status_get(const gw_peer *peer, gw_peer_status *status);
/* Whether a checkpoint that was complete lacks chunks now, as peers that are gone have them. */
bool gw_peer_checkpoint_is_away(const gw_peer *peer, const gw_hash *root);

/* Another peer, or this one, as gossip and the links show it. */
typedef struct gw_peer_contact_info {
    gw_peer_id id;
    const char *name; /* as in gw_gossip_member: NULL = not heard of. Valid until the next step */
    gw_incarnation incarnation;
    gw_addr addr;
    /* "alive", "suspect", "left", "dead" (its process has ended), "unreachable" (it does not answer, and
     * nothing else is known) */
    const char *state;
    uint64_t gone_ns; /* dead and unreachable: since when, by the times of gw_peer_step; 0 = not known */
    bool linked, member, leader;
    uint64_t step, speed, checkpoint_step; /* speed in thousandths of a shard a second */
} gw_peer_contact_info;
/* Describes the peer with this index, from 0 on; returns false if there is none. */
bool gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info);
/* Describes the peer with this id, by an index; returns false if gossip does not know it. */
bool gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info);

#endif
