/* Peers that hold shard payload, without a network: their reads are carried out at once on each other's
 * memory, or when a test says so, or go wrong as it says. The functions that wait do so for events. */
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
    /* under the rig's lock */
    gw_fence fence;    /* zeros: closed */
    const void *slots; /* NULL: not shared */
    uint64_t bytes;
    uint64_t index[GW_MAX_PAYLOADS];
    uint32_t written[GW_MAX_PAYLOADS]; /* by its job */
    bool dead;                         /* reads from it find no link */
    bool silent;                       /* reads from it do not end until they are abandoned */
    bool corrupt;                      /* a bit of what is read from it flips on the way */
    bool cannot_write;                 /* its job fails */
    bool write_hangs;                  /* its job does not come back */
    uint32_t hanging;                  /* calls of its job that do not */
    uint32_t served, abandoned;        /* reads from its slots; how often it was abandoned */
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

/* A new view of the peers whose bits are set: freezes and installs. */
void payload_rig_view(payload_rig *rig, uint32_t members);
void payload_rig_freeze(payload_rig *rig, uint32_t peer); /* and abandons its reads */
void payload_rig_break(payload_rig *rig, uint32_t peer);  /* what is being read from it ends */
/* Until the peer has published all blocks that the view of `members` places on it. */
void payload_rig_wait_held(payload_rig *rig, uint32_t peer, uint32_t members);
/* Until one block is published by the peer, or (!there) is no more. */
void payload_rig_wait_index(payload_rig *rig, uint32_t peer, uint32_t shard, bool there);
void payload_rig_wait_waiting(payload_rig *rig, uint32_t reads); /* so many from silent peers */
void payload_rig_answer(payload_rig *rig);                       /* carries out those that wait */
void payload_rig_wait_hanging(payload_rig *rig, uint32_t peer);  /* a call of its job */
void payload_rig_wait_served(payload_rig *rig, uint32_t peer, uint32_t reads);

/* Changes `dead`, `silent` and so on of a peer. */
void payload_rig_set(payload_rig *rig, bool *fault, bool value);

/* A shard whose first holder in the view of `members` is this peer. */
uint32_t payload_rig_shard_of(const payload_rig *rig, uint32_t peer, uint32_t members);
/* Takes a block, checks every byte and where it is, and releases it. */
void payload_rig_expect(payload_rig *rig, uint32_t peer, uint32_t shard);
bool payload_rig_in_place(const payload_rig *rig, uint32_t peer, const void *block);
uint32_t payload_rig_written(payload_rig *rig, uint32_t peer); /* blocks, by its job */

#endif
