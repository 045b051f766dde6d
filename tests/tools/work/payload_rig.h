/* Peers that hold shard payload, without a network. Their reads are carried out on each other's memory at
 * once or when a test says so, or fail as it says. The functions that wait do so for events. */
#ifndef GODWIT_TESTS_TOOLS_WORK_PAYLOAD_RIG_H
#define GODWIT_TESTS_TOOLS_WORK_PAYLOAD_RIG_H

#include "tools/godwit/work/payload/payload.h"

#include <pthread.h>

enum { PAYLOAD_PEERS = 4, PAYLOAD_OPS = 64 };

typedef struct payload_peer {
    struct payload_rig *rig;
    uint32_t number; /* in the order of ids */
    gw_peer_id id;
    gw_payloads *payloads;
    /* This and the members below are under the rig's lock. */
    gw_fence fence;    /* zeros: the fence is closed */
    const void *slots; /* NULL: the slots are not shared */
    uint64_t bytes;
    uint64_t index[GW_MAX_PAYLOADS];
    uint32_t written[GW_MAX_PAYLOADS]; /* blocks written by its job */
    bool dead;                         /* reads from it find no link */
    bool silent;                       /* reads from it do not end until they are abandoned */
    bool corrupt;                      /* a bit of what is read from it flips on the way */
    bool cannot_write;                 /* its job fails to write blocks */
    bool write_hangs;                  /* its job does not return from a call */
    uint32_t hanging;                  /* number of calls of its job that do not return */
    uint32_t served, abandoned;        /* number of reads from its slots; how often it was abandoned */
} payload_peer;

typedef struct payload_rig {
    gw_payload_plan plan;
    uint32_t count, workers;
    uint64_t patience_ns, spare_ns;
    bool ahead;
    uint64_t epoch;
    payload_peer peers[PAYLOAD_PEERS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        gw_op op;
        gw_data_op *pending;
    } waiting[PAYLOAD_OPS]; /* reads from silent peers */
    uint32_t waiting_count;
} payload_rig;

/* Peers with one worker each that fetch nothing ahead and keep surplus blocks for ever; fields may be changed
 * before payload_rig_start. */
void payload_rig_open(payload_rig *rig, uint32_t peers, uint32_t shards, uint64_t bytes, uint32_t copies);
void payload_rig_start(payload_rig *rig);
void payload_rig_close(payload_rig *rig);

/* Freezes the view, and installs a new one of the peers whose bits are set. */
void payload_rig_view(payload_rig *rig, uint32_t members);
void payload_rig_freeze(payload_rig *rig, uint32_t peer); /* The peer freezes and abandons its reads. */
void payload_rig_break(payload_rig *rig, uint32_t peer);  /* Reads from this peer end. */
/* Waits until the peer has published all blocks that the view of `members` places on it. */
void payload_rig_wait_held(payload_rig *rig, uint32_t peer, uint32_t members);
/* Waits until the peer has published one block or, if !there, has withdrawn it. */
void payload_rig_wait_index(payload_rig *rig, uint32_t peer, uint32_t shard, bool there);
void payload_rig_wait_waiting(payload_rig *rig,
                              uint32_t reads); /* Waits until so many reads from silent peers wait. */
void payload_rig_answer(payload_rig *rig);     /* Carries out the reads that wait. */
void payload_rig_wait_hanging(payload_rig *rig,
                              uint32_t peer); /* Waits for a call of its job that does not return. */
void payload_rig_wait_served(payload_rig *rig, uint32_t peer, uint32_t reads);

/* Changes one of the flags `dead`, `silent` and so on of a peer. */
void payload_rig_set(payload_rig *rig, bool *fault, bool value);

/* A shard whose first holder in the view of `members` is this peer. */
uint32_t payload_rig_shard_of(const payload_rig *rig, uint32_t peer, uint32_t members);
/* Takes a block, checks every byte and the memory that it lies in, and releases it. */
void payload_rig_expect(payload_rig *rig, uint32_t peer, uint32_t shard);
bool payload_rig_in_place(const payload_rig *rig, uint32_t peer, const void *block);
uint32_t payload_rig_written(payload_rig *rig, uint32_t peer); /* The number of blocks written by its job. */

#endif
