/* The state that a running peer shows to people and programs: the node's thread publishes it as one value,
 * and the display, the HTTP server and the control socket copy it. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_SNAPSHOT_H
#define GODWIT_TOOLS_GODWIT_SHOW_SNAPSHOT_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/brain/peer.h"
#include "core/record/view.h"
#include "net/secure/packet.h"
#include "net/secure/record.h"
#include "tools/godwit/energy/energy.h"
#include "tools/godwit/energy/factors.h"
#include "tools/godwit/show/exposition.h"
#include "tools/godwit/show/names.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/watch/gpu_watch.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { GW_SNAPSHOT_PEERS = GW_MAX_MEMBERS, GW_SNAPSHOT_CHECKPOINTS = 16 };

/* Counters since this process started. gw_counter_of has their names, units and explanations. */
typedef enum gw_counter {
    GW_COUNT_STEPS,         /* steps applied here */
    GW_COUNT_SHARDS,        /* shards computed here */
    GW_COUNT_SHARDS_STOLEN, /* shards this peer took from others */
    GW_COUNT_SHARDS_LOST,   /* shards others took from this peer */
    GW_COUNT_STEALS,        /* successful steals */
    /* attempts at a steal that failed: the word had changed, was fenced, or the link was broken */
    GW_COUNT_STEALS_FAILED,
    GW_COUNT_STEPS_REPAIRED,   /* steps in which shards were dealt again */
    GW_COUNT_SHARDS_REPAIRED,  /* shards dealt again */
    GW_COUNT_VIEWS,            /* views installed */
    GW_COUNT_CHECKPOINTS,      /* checkpoints that became complete */
    GW_COUNT_CHECKPOINT_BYTES, /* bytes of chunks written to this peer's disk */
    GW_COUNT_BAD_ELEMENTS,     /* elements that were not finite or out of range */
    GW_COUNT_SHARDS_VERIFIED,  /* shards of others that this peer computed again and found right */
    GW_COUNT_CORRUPTIONS,      /* times that a peer, known or not, had wrong bits */
    GW_COUNT_LINKS_CORRUPT,    /* links that ended because the received bytes were not those that were sent */
    GW_COUNT_REDUCE_NS,        /* time in reductions, including the wait for other members */
    GW_COUNT_REDUCE_SENT,      /* bytes of sums to other members, and from them */
    GW_COUNT_REDUCE_RECEIVED,
    GW_COUNT_REDUCE_SAVED, /* how many more bytes of sums would have been sent if none had been packed */
    GW_COUNT_CONTROL_SENT, /* bytes of gossip packets and control messages */
    GW_COUNT_CONTROL_RECEIVED,
    GW_COUNT_FETCHED, /* bytes of states and checkpoints from other peers, and to them */
    GW_COUNT_SERVED,
    /* bytes that an RDMA device read from other peers' memory: states, checkpoints and payload */
    GW_COUNT_PULLED,
    /* one-sided operations on other peers' words that ran none of their code; those on this peer's words
     * that its threads served */
    GW_COUNT_OPERATIONS_DIRECT,
    GW_COUNT_OPERATIONS_SERVED,
    /* gossip: probes; probes not answered in time; suspicions; suspicions of this peer that it refuted */
    GW_COUNT_PROBES,
    GW_COUNT_PROBES_FAILED,
    GW_COUNT_SUSPICIONS,
    GW_COUNT_REFUTATIONS,
    GW_COUNT_PAUSES,               /* times that this process was stopped or starved for long */
    GW_COUNT_WARNINGS,             /* log lines of level warn and error */
    GW_COUNT_PAYLOAD_LOCAL_BYTES,  /* shard payload that its shards found in this peer's memory */
    GW_COUNT_PAYLOAD_READ_BYTES,   /* shard payload read from other peers */
    GW_COUNT_PAYLOAD_READS_FAILED, /* blocks that a peer should have had and did not give */
    GW_COUNT_PAYLOAD_WRITTEN,      /* blocks of shard payload that the job wrote here */
    GW_COUNT_PAYLOAD_WAITED_NS,    /* time that workers waited for payload */
    GW_COUNT_NCCL_SUMS_CUT,        /* sums by NCCL, and communicators being formed, that a failure ended */
    GW_COUNT_NCCL_FORMING_CUT,
    GW_COUNTERS
} gw_counter;

typedef struct gw_counter_info {
    const char *name; /* "shards_stolen": JSON key; the metric is godwit_<name>_total */
    const char *help; /* one sentence */
    double unit;      /* factor from the count to the shown value; 0 = the count itself is shown */
} gw_counter_info;

const gw_counter_info *gw_counter_of(gw_counter counter);
/* Returns why a packet was dropped, in a word such as "wrong_key"; NULL when it was not. */
const char *gw_packet_drop_name(gw_packet_verdict verdict);

typedef struct gw_snapshot_peer {
    gw_peer_id id;
    gw_addr addr;
    char name[GW_NAME_TEXT]; /* what people call it; "" = not known */
    char state[12];          /* "alive", "suspect", "dead", "unreachable", "left" */
    double gone;             /* dead and unreachable: since when, in seconds since 1970; 0 = not known */
    bool self, member, leader, linked;
    bool in_vain; /* dead; it was started again, and that life was refused or ended before it took part */
    char path[8]; /* the path of data to the peer: "tcp", "shm", "rdma"; empty = no data link */
    uint64_t boot, step;
    double speed;             /* shards a second while busy; 0 = not known */
    uint64_t checkpoint_step; /* the newest checkpoint that it holds chunks of; UINT64_MAX = none */
} gw_snapshot_peer;

/* A checkpoint that this peer knows: one of this process's life, or one found on the disk at its start. */
typedef struct gw_snapshot_checkpoint {
    uint64_t step;
    gw_hash root;
    /* it is known to be complete, or all of it is on this disk; for others found on the disk it is not
     * known */
    bool complete;
    /* It was complete, and peers that are gone have chunks of it that nobody here has; not complete then. */
    bool away;
    uint32_t chunks, held; /* chunks of the whole state; those on this peer's disk */
} gw_snapshot_checkpoint;

typedef struct gw_node_snapshot {
    double time; /* when it was published, in seconds since 1970 */
    double uptime_s;
    char job[64];
    gw_hash job_id;
    bool continues; /* --continue; the job went on from this step of its parent */
    gw_hash parent;
    uint64_t parent_step;
    char version[16];
    char dir[256];
    char cluster[64];
    int64_t pid;

    gw_peer_id self;
    char name[GW_NAME_TEXT], leader_name[GW_NAME_TEXT];
    uint64_t boot;
    gw_addr listen;
    gw_addr http; /* where the page is served; family 0: nowhere */
    char phase
        [GW_TEXT_BYTES]; /* what the peer does or waits for: "computing", "waiting for 4 peers: 2 here" */
    /* the answer of /healthz: the peer computes or is about to. False when it has no view, waits or has
     * ended */
    bool healthy;
    bool ending; /* the peer leaves, or its job ends; the rates below are those of the last steps before */
    bool ended;  /* the peer has ended; this is its last snapshot */
    /* How it has ended, as the event "done" says, and why: "done", or "failed" and a message. "": it has not, or it
     * begins again in this process. */
    char outcome[16], reason[GW_TEXT_BYTES];

    uint64_t epoch; /* of the view, shown to people as its number; 0 = no view */
    gw_view_name view;
    gw_peer_id leader;
    uint32_t members;

    uint64_t step, steps;  /* steps done; steps of the whole job (0 = not known yet) */
    bool no_state;         /* this peer has no state yet, so that no step counts as done */
    uint64_t loading_step; /* of the state that it fetches; UINT64_MAX = it fetches none */
    /* recent mean wall time of a step; 0 = none yet. It grows while no step commits: then it is the time
     * since the last one */
    double step_ms;
    double shards_per_s; /* speed of the whole flock over the same steps as step_ms */
    /* tokens of the whole flock per second; 0 = the job does not report them ("tokens=N") */
    double tokens_per_s;
    uint32_t workers;
    uint32_t in_flight;               /* shards that its workers compute now */
    char device[200];                 /* what computes, in words */
    uint64_t fingerprint;             /* fingerprint of the state after `step` steps */
    char report[160];                 /* the job's report of its last step ("loss=0.31") */
    char latest[GW_KEY_VALUES_BYTES]; /* the latest value of each key that the job has reported in this run */
    char evaluation[160];             /* the job's report of its last evaluation; empty = none in this run */
    uint64_t evaluation_step;         /* steps done at the last evaluation */
    /* the last corruption seen, with step, peer and evidence; empty = none */
    char corruption[400];
    uint64_t rss_bytes;

    bool disk_fails;          /* checkpoints cannot be written or read on this peer's disk */
    uint64_t disk_free_bytes; /* on that disk, for this process; UINT64_MAX = not known */
    /* the newest complete checkpoint that the peers which live have as a whole; UINT64_MAX = none */
    uint64_t checkpoint_step;
    /* --keep-best: the value and direction; "" = not given. --patience; 0 = not given. */
    char best_by[GW_BEST_BY_BYTES];
    uint32_t patience;
    gw_best best;
    /* time since checkpoint_step became complete; without one, or where that is not known, since this
     * process started */
    double checkpoint_age_s;

    uint64_t counter[GW_COUNTERS];
    uint64_t packets[GW_PACKET_VERDICTS]; /* gossip packets received, by verdict */
    uint32_t health;                      /* health of the gossip: 0 = good, 8 = this peer is very slow */
    uint32_t half_open;                   /* connections that have not identified themselves yet */
    gw_snapshot_peer
        /* this peer and the others that it knows (gw_snapshot_add), in the order of their ids */
        peers[GW_SNAPSHOT_PEERS];
    uint32_t peer_count;
    gw_snapshot_checkpoint checkpoints[GW_SNAPSHOT_CHECKPOINTS]; /* the newest checkpoints, newest first */
    uint32_t checkpoint_count;
    gw_watched_gpu gpus[GW_WATCHED_GPUS]; /* the GPUs of this peer's device */
    uint32_t gpu_count;
    gw_energy energy; /* of this peer, for its job */
    gw_energy_factors energy_factors;
    double shards_a_step; /* recent mean, of the whole flock; 0 = none yet */
    /* the path of the GPU's latest sums: "nccl", "host memory"; empty = no GPU, or no sum yet */
    char sums[16];
    char encryption
        [GW_RECORD_MEANS]; /* how records to other peers are encrypted; empty = not at all: no key */
} gw_node_snapshot;

/* Lists one more peer. If there is no room, it replaces one of less interest: this peer comes before
 * members, members before other live peers, and these before the dead, of which there may be many. */
void gw_snapshot_add(gw_node_snapshot *snapshot, const gw_snapshot_peer *peer);

/* The place of the newest snapshot. All functions may be called from any thread; publish and copy hold a
 * lock for one memcpy. */
typedef struct gw_board gw_board;
gw_board *gw_board_open(gw_err *err); /* NULL on failure */
void gw_board_close(gw_board *board); /* NULL is allowed */
void gw_board_publish(gw_board *board, const gw_node_snapshot *snapshot);
/* Copies the newest snapshot. Before the first one it returns false and a snapshot of zeros. If the newest
 * snapshot is some seconds old, and not the last one, the loop seems stuck: the copy is not healthy, and
 * its phase tells so. (A process that was stopped may look the same until its loop has turned.) */
bool gw_board_copy(gw_board *board, gw_node_snapshot *snapshot);

/* Returns this process's resident memory in bytes; 0 when /proc does not tell. */
uint64_t gw_rss_bytes(void);

/* The joules of this peer for one token; 0 = not known. */
double gw_snapshot_token_joules(const gw_node_snapshot *snapshot);
/* The joules that this peer will take until the job's end, as its last steps show. False: that is not
 * known. */
bool gw_snapshot_energy_left(const gw_node_snapshot *snapshot, double *joules);

/* Returns the snapshot as a JSON text, as `godwit status --json` and /api/state give it. The caller frees;
 * NULL = out of memory. Thread: any. */
char *gw_snapshot_json(const gw_node_snapshot *snapshot);
/* The same as an object, which the caller releases. */
json_t *gw_snapshot_object(const gw_node_snapshot *snapshot);
/* Sets joules in an object, and what they cost, where that is given. */
void gw_snapshot_set_costs(json_t *object, const gw_energy_factors *factors, double joules);
/* A peer of it as an object. */
json_t *gw_snapshot_peer_object(const gw_snapshot_peer *peer);
/* Returns the snapshot as metrics for Prometheus, as gw_snapshot_json does. */
char *gw_snapshot_metrics(const gw_node_snapshot *snapshot, gw_exposition_format format);

#endif
