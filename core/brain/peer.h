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
#include "core/record/deaths.h"

typedef struct gw_peer gw_peer;

typedef enum gw_quorum { GW_QUORUM_ANY = 1, GW_QUORUM_MAJORITY = 2 } gw_quorum;

enum { GW_MAX_ADDRS = 2, GW_MAX_SEEDS = 64, GW_MAX_KNOWN = 32 };

/* Ways that data may travel, bits; what each is, only the world knows. */
enum { GW_WAY_TCP = 1 << 1, GW_WAY_SHM = 1 << 2, GW_WAY_RDMA = 1 << 3 };

typedef struct gw_peer_config {
    gw_peer_id id;
    gw_incarnation incarnation;
    gw_hash cluster;
    gw_addr addrs[GW_MAX_ADDRS]; /* where others reach this peer (TCP and UDP) */
    uint32_t addr_count;
    gw_addr seeds[GW_MAX_SEEDS]; /* known now; later ones come by GW_EV_SEEDS */
    uint32_t seed_count;
    bool joins; /* there are seeds to join, though no address of one may be known yet; implied by a seed */
    /* Where peers of this job were met by an earlier life: tried like seeds, but nobody waits for them, and
     * who is found there running another job is left alone. */
    gw_addr known[GW_MAX_KNOWN];
    uint32_t known_count;

    /* Everything that affects S_t, one "name=value" a line (job, parameters, data digest, build, compute
     * class). The job id is its hash; two peers that differ name the lines that do. Copied. */
    const char *identity;
    const gw_tensor *tensors; /* of the job, for their names in messages; NULL: numbers do */
    uint32_t tensor_count;
    uint64_t
        probe; /* fingerprint of one full shard of step 0 from S_0, computed here: must equal the flock's */
    uint32_t
        ways; /* that are allowed here, GW_WAY_*; 0: any. Peers with none in common turn each other away */
    uint64_t steps; /* of the whole job */
    uint32_t (*shards)(const void *context, uint64_t step);
    const void *shards_context;
    uint32_t state_chunks; /* of 4 MiB in the state image */

    uint32_t peers; /* that begin a job at step 0, at least; 1 = at once. Majority: the founding size */
    gw_quorum quorum;
    bool fast; /* float sums: states may differ between lineages, so only the latest view's state counts */
    bool skip_bad;   /* --on-bad skip */
    uint32_t verify; /* --verify: millionths of the shards that are computed twice; of all peers alike */
    bool effects;    /* the job's steps have effects: the brain asks for them (GW_ACT_COMMIT) */
    uint64_t checkpoint_steps, checkpoint_ns; /* 0 = not by this measure */
    uint32_t keep, replicas;                  /* 1 at least; 1 to GW_MAX_REPLICAS (core/state/placement.h) */
    bool fresh;                               /* ignore checkpoints of this job */
    bool forget_losses;                       /* and what is known of peers that were lost at a shard */
    const gw_shard_death *fell; /* what its last life was computing when it ended unexpectedly; copied */
    uint32_t fell_count;        /* 0 = nothing, or not known */
    uint64_t join_timeout_ns;   /* who joins: found nothing before one is reached or this has passed */
    uint64_t resume_timeout_ns; /* how long to wait for the holders of a newer checkpoint (with exact sums,
                                   where no older one is whole); ten times as long for peers whose processes
                                   have ended, where nothing can go on without them */
    uint64_t save_timeout_ns; /* how long the last state is tried to be stored where no disk has room, and how
                                 long who leaves waits for a checkpoint where nobody stays */

    uint64_t seed;               /* of this peer's jitter */
    uint64_t probe_interval_ns;  /* gossip; 0 = default */
    uint64_t time_scale_percent; /* 100; more for emulated machines: widens every protocol timeout */
    const uint8_t *record;       /* what was persisted last for this very job, or NULL */
    size_t record_length;
    const gw_inventory *inventory; /* checkpoints on this peer's disk, newest first; copied */
    uint32_t inventory_count;
    bool
        orphans; /* it has chunks, too, that no manifest there names: perhaps of a checkpoint that others know
                  */
} gw_peer_config;

/* NULL and *err when the configuration makes no sense (GW_E_USAGE). */
gw_peer *gw_peer_create(const gw_peer_config *config, gw_err *err);
void gw_peer_destroy(gw_peer *peer);

/* Tells the peer one event; what it wants done is appended to `actions`. */
void gw_peer_step(gw_peer *peer, const gw_event *event, uint64_t now_ns, gw_actions *actions);
/* When the peer wants a GW_EV_TIMER; UINT64_MAX = never. */
uint64_t gw_peer_deadline(const gw_peer *peer);

/* What it knows, for people. */
typedef struct gw_peer_status {
    const char *phase; /* a constant: "computing", "waiting for peers" ... */
    bool waits;        /* for other peers, or for room on a disk */
    const char
        *waits_for; /* the newest reason, valid until the next step; "" = none since a view was installed */
    const gw_view *view;  /* NULL = none */
    uint64_t step;        /* next step to compute */
    uint64_t fingerprint; /* of the current state */
    /* The same of the newest state that others may see (GW_NOTICE_STEP): at most one step behind, but for a
     * peer that is about to fetch the state. */
    uint64_t committed_step, committed_fingerprint;
    bool has_state;
    bool disk_writable;       /* as far as is known: nothing that was to be written has failed since */
    uint64_t checkpoint_step; /* newest complete one known; UINT64_MAX = none */
    gw_hash checkpoint_root;
    uint64_t views_installed, steps_repaired, shards_repaired, steals, shards_stolen;
    gw_gossip_stats gossip;
} gw_peer_status;
void gw_peer_status_get(const gw_peer *peer, gw_peer_status *status);

/* A peer as gossip knows it. Index from 0 until false is returned. */
typedef struct gw_peer_contact_info {
    gw_peer_id id;
    gw_incarnation incarnation;
    gw_addr addr;
    const char *state; /* "alive", "suspect", "dead", "left" */
    bool linked, member, leader;
    uint64_t step, speed, checkpoint_step; /* speed in thousandths of a shard a second */
} gw_peer_contact_info;
bool gw_peer_contact_at(const gw_peer *peer, uint32_t index, gw_peer_contact_info *info);
/* The same of the peer with this id, without a search; false = gossip does not know it. */
bool gw_peer_contact_find(const gw_peer *peer, const gw_peer_id *id, gw_peer_contact_info *info);

#endif
