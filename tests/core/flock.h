/* A whole flock in one process, step by step: real brains, perfect links, work that takes no time. For tests
 * of what the brain decides; faults of every kind are the simulator's (tools/sim). */
#ifndef GODWIT_TESTS_CORE_FLOCK_H
#define GODWIT_TESTS_CORE_FLOCK_H

#include "core/peer.h"

#include <stdbool.h>

enum { FLOCK_MOST = 8, FLOCK_SHARDS = 12, FLOCK_CHUNKS = 3 };

typedef struct flock_peer {
    gw_peer *brain; /* NULL = not running */
    gw_peer_config config;
    gw_view fence; /* epoch 0 = closed */
    uint64_t word, step, state, accumulator_step;
    gw_set list, added;
    uint32_t tag;
    gw_token sealing, freezing;
    bool dry_told, careful;
    int adds[FLOCK_SHARDS]; /* how often each shard is in the accumulator */
    gw_token reducing;
    int64_t slots[GW_SLOTS];
    uint64_t save_step;
    gw_hash saved_root; /* of the newest manifest written; zeros = none */
    uint64_t saved_step;
    bool linked[FLOCK_MOST];
    bool finished;
    gw_finish finish;
    char finish_text[600];
    gw_hash final_root;
    uint32_t computed;     /* shards, all steps */
    int64_t hang_at_shard; /* dies when it takes this shard; -1 = never */
    bool bad_shard;        /* its sums have a bad element */
    bool disk_full;        /* it can store neither chunks nor manifests */
    uint32_t checkpoints;  /* that it was told are complete */
    bool loses_shard;      /* the next shard it takes is lost, and nobody notices */
} flock_peer;

typedef struct flock {
    uint32_t count;
    uint64_t now;
    flock_peer peers[FLOCK_MOST];
    struct flock_event *queue;
    uint32_t queued, capacity;
    uint64_t serial;
    gw_quorum quorum;
    uint64_t steps, checkpoint_steps;
} flock;

void flock_open(flock *f, uint32_t count, uint32_t founding, uint64_t steps, gw_quorum quorum);
void flock_close(flock *f);
void flock_start(flock *f, uint32_t i); /* a new life of peer i */
void flock_kill(flock *f, uint32_t i);
void flock_tell(flock *f, uint32_t i, gw_event event);
/* Runs until every running peer has finished, or `condition` holds, or `most` events have been handled: then
 * false. */
bool flock_run(flock *f, bool (*condition)(const flock *f), uint64_t most);
/* What an undisturbed run ends with. */
uint64_t flock_state_after(uint64_t steps);

#endif
