/* What a running peer shows to people and machines: one value that the node's thread publishes and that the
 * display, the HTTP server and the control socket copy. */
#ifndef GODWIT_TOOLS_GODWIT_SHOW_SNAPSHOT_H
#define GODWIT_TOOLS_GODWIT_SHOW_SNAPSHOT_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/record/view.h"
#include "net/secure/packet.h"
#include "tools/godwit/text/key_values.h"
#include "tools/godwit/watch/gpu_watch.h"

#include <stdbool.h>
#include <stdint.h>

enum { GW_SNAPSHOT_PEERS = GW_MAX_MEMBERS, GW_SNAPSHOT_CHECKPOINTS = 16 };

/* Things counted since this process started. Names, units and explanations: gw_counter_of. */
typedef enum gw_counter {
    GW_COUNT_STEPS,            /* steps applied here */
    GW_COUNT_SHARDS,           /* shards computed here */
    GW_COUNT_SHARDS_STOLEN,    /* shards this peer took from others */
    GW_COUNT_SHARDS_LOST,      /* shards others took from this peer */
    GW_COUNT_STEALS,           /* successful steals */
    GW_COUNT_STEALS_FAILED,    /* attempts that found the word changed, fenced or the link broken */
    GW_COUNT_STEPS_REPAIRED,   /* steps in which shards were dealt again */
    GW_COUNT_SHARDS_REPAIRED,  /* shards dealt again */
    GW_COUNT_VIEWS,            /* views installed */
    GW_COUNT_CHECKPOINTS,      /* checkpoints that became complete */
    GW_COUNT_CHECKPOINT_BYTES, /* bytes of chunks written to this peer's disk */
    GW_COUNT_BAD_ELEMENTS,     /* elements that were not finite or out of range */
    GW_COUNT_SHARDS_VERIFIED,  /* shards of others that this peer computed again and found right */
    GW_COUNT_CORRUPTIONS,      /* times that a peer, known or not, had other bits than it should have */
    GW_COUNT_LINKS_CORRUPT,    /* links that ended because what came by them is not what was sent */
    GW_COUNT_REDUCE_NS,        /* time in reductions, waiting for other members included */
    GW_COUNT_REDUCE_SENT,      /* bytes of sums, to and from other members */
    GW_COUNT_REDUCE_RECEIVED,
    GW_COUNT_CONTROL_SENT, /* bytes of gossip packets and control messages */
    GW_COUNT_CONTROL_RECEIVED,
    GW_COUNT_FETCHED, /* bytes of states and checkpoints, from and to other peers */
    GW_COUNT_SERVED,
    GW_COUNT_PULLED, /* bytes that a device took from others' memory for states, checkpoints and payload */
    GW_COUNT_OPERATIONS_DIRECT, /* one-sided operations on others' words with none of their code; on this
                                   peer's, by its threads */
    GW_COUNT_OPERATIONS_SERVED,
    GW_COUNT_PROBES, /* gossip: peers probed; not answered in time; suspected; suspicions of this peer refuted
                      */
    GW_COUNT_PROBES_FAILED,
    GW_COUNT_SUSPICIONS,
    GW_COUNT_REFUTATIONS,
    GW_COUNT_PAUSES,               /* times that this process did not run for long */
    GW_COUNT_WARNINGS,             /* log lines of level warn and error */
    GW_COUNT_PAYLOAD_LOCAL_BYTES,  /* shard payload found in this peer's memory by its shards */
    GW_COUNT_PAYLOAD_READ_BYTES,   /* shard payload read from other peers */
    GW_COUNT_PAYLOAD_READS_FAILED, /* blocks that a peer should have had and did not give */
    GW_COUNT_PAYLOAD_WRITTEN,      /* blocks of shard payload that the job wrote here */
    GW_COUNT_PAYLOAD_WAITED_MS,    /* that workers waited for payload */
    GW_COUNT_NCCL_SUMS_CUT,        /* sums by NCCL under way, and communicators forming, that did not come to
                                      their end */
    GW_COUNT_NCCL_FORMING_CUT,
    GW_COUNTERS
} gw_counter;

typedef struct gw_counter_info {
    const char *name; /* "shards_stolen": JSON key; the metric is godwit_<name>_total */
    const char *help; /* one sentence */
    double unit;      /* what is shown = the count x this; 0 = the count itself */
} gw_counter_info;

const gw_counter_info *gw_counter_of(gw_counter counter);
/* Why a packet was dropped, in a word: "wrong_key"; NULL when it was not. */
const char *gw_packet_drop_name(gw_packet_verdict verdict);

typedef struct gw_snapshot_peer {
    gw_peer_id id;
    gw_addr addr;
    char state[12]; /* "alive", "suspect", "dead", "left" */
    bool self, member, leader, linked;
    char path[8]; /* how data go there: "tcp", "shm", "rdma"; empty: no data link */
    uint64_t boot, step;
    double speed;             /* shards a second while busy; 0 = not known */
    uint64_t checkpoint_step; /* newest it holds chunks of; UINT64_MAX = none */
} gw_snapshot_peer;

/* A checkpoint this peer knows, of this process's life or found on its disk when it began. */
typedef struct gw_snapshot_checkpoint {
    uint64_t step;
    gw_hash root;
    bool complete; /* it was told, or all is on this disk; of others that were found it is not known */
    uint32_t chunks, held; /* of the whole state; on this peer's disk */
} gw_snapshot_checkpoint;

typedef struct gw_node_snapshot {
    double time; /* seconds since 1970 when it was published */
    double uptime_s;
    char job[64];
    gw_hash job_id;
    char version[16];
    char dir[256];
    char cluster[64];
    int64_t pid;

    gw_peer_id self;
    uint64_t boot;
    gw_addr listen;
    char phase[96]; /* what it is doing or waiting for, for people: "computing", "waiting for 2 of 4 peers" */
    bool healthy; /* computing or about to: what /healthz says. False when it has no view, waits or has ended
                   */
    bool ended;   /* through; its last snapshot may stand for long */

    uint64_t epoch; /* 0 = no view */
    gw_view_name view;
    gw_peer_id leader;
    uint32_t members;

    uint64_t step, steps; /* steps done; of the whole job (0 = not known yet) */
    double step_ms;      /* recent mean wall time of a step; 0 = none yet. While none commits for much longer:
                            the time since the last */
    double shards_per_s; /* of the whole flock: recent steps' shards by their time, of step_ms's kind */
    double tokens_per_s; /* the same of tokens; 0: the job counts none ("tokens=N" in its reports) */
    uint32_t workers;
    uint64_t fingerprint;             /* of the state after `step` steps */
    char report[160];                 /* the job's words about its last step ("loss=0.31") */
    char latest[GW_KEY_VALUES_BYTES]; /* each key that it has reported in this run, as it was last */
    char evaluation[160];             /* its words about its last evaluation; empty = none in this run */
    uint64_t evaluation_step;         /* steps done with that one */
    char corruption[400];             /* the last one seen, with step, peer and evidence; empty = none */
    uint64_t rss_bytes;

    bool disk_fails;          /* checkpoints cannot be written here, or others not read them */
    uint64_t checkpoint_step; /* newest complete one; UINT64_MAX = none */
    double checkpoint_age_s;  /* since it became complete; while none is known since this process started */

    uint64_t counter[GW_COUNTERS];
    uint64_t packets[GW_PACKET_VERDICTS]; /* gossip packets that came, by what was made of them */
    uint32_t health;                      /* of the gossip: 0 = good, 8 = this peer is very slow */
    uint32_t half_open;                   /* connections that have not said yet who they are */
    gw_snapshot_peer
        peers[GW_SNAPSHOT_PEERS]; /* this peer and the others that it knows (gw_snapshot_add), by id */
    uint32_t peer_count;
    gw_snapshot_checkpoint checkpoints[GW_SNAPSHOT_CHECKPOINTS]; /* newest first */
    uint32_t checkpoint_count;
    gw_watched_gpu gpus[GW_WATCHED_GPUS]; /* of this peer's device */
    uint32_t gpu_count;
    char sums[16]; /* how the GPU's latest sums went: "nccl", "host memory"; empty: no GPU, or none yet */
} gw_node_snapshot;

/* Lists one more peer. Where there is no room: in the place of one of less interest. This peer comes before
 * members, they before others that live, and all of them before the dead, of whom many may be known. */
void gw_snapshot_add(gw_node_snapshot *snapshot, const gw_snapshot_peer *peer);

/* Where the newest snapshot lies. Thread: all functions may be called from any thread; publish and copy hold
 * a lock for one memcpy. */
typedef struct gw_board gw_board;
gw_board *gw_board_open(gw_err *err); /* NULL on failure */
void gw_board_close(gw_board *board); /* NULL is allowed */
void gw_board_publish(gw_board *board, const gw_node_snapshot *snapshot);
/* False, and an all-zero snapshot, before the first publish. One that is some seconds old, and not the last,
 * is of a loop that is stuck, as far as anybody can tell: it is not healthy, and its phase says so. (So may a
 * process that was stopped, when it is asked before its loop has turned again.) */
bool gw_board_copy(gw_board *board, gw_node_snapshot *snapshot);

/* This process's resident memory now, in bytes; 0 when /proc does not say. */
uint64_t gw_rss_bytes(void);

/* The snapshot as a JSON text: what `godwit status --json` and /api/state give. The caller frees; NULL out of
 * memory. Any thread. */
char *gw_snapshot_json(const gw_node_snapshot *snapshot);
/* The same in the Prometheus text format 0.0.4. */
char *gw_snapshot_metrics(const gw_node_snapshot *snapshot);

#endif
