/* What the files of the worker pool share: workers.c (control) and run.c (the threads). */
#ifndef GODWIT_TOOLS_GODWIT_WORK_WORKERS_POOL_H
#define GODWIT_TOOLS_GODWIT_WORK_WORKERS_POOL_H

#include "tools/godwit/watch/watchdog.h"
#include "tools/godwit/work/workers/workers.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum gw_worker_doing {
    GW_WORKER_IDLE = 0,
    GW_WORKER_CLAIMING, /* waits for gw_workers_grant */
    GW_WORKER_LOADING,  /* waits for the payload of its shard */
    GW_WORKER_RUNNING,  /* inside contribute */
} gw_worker_doing;

typedef struct gw_worker {
    gw_workers *pool;
    pthread_t thread;
    uint32_t index;
    gw_lane *lane;
    uint32_t part; /* of the device: the lane's */
    gw_worker_doing doing;
    bool granted, revoked;
    bool claimed; /* what it said last is a claim, which it withdraws when it has done that */
    bool again;   /* the shard is computed for its fingerprint, by whom it was not dealt to */
    bool dropped; /* RUNNING: the accumulator moved on meanwhile; the result will not be added */
    uint64_t ticket;
    uint64_t started_ns; /* the shard, with the wait for its payload */
    uint64_t began_ns;   /* RUNNING */
    uint32_t shard;
    uint32_t *upcoming;  /* room for as many shards as there are workers */
    const void *payload; /* of the shard; NULL = it has none */
} gw_worker;

/* Work that is not a shard, shared out to all workers in numbered units. A probe has as many as the device
 * has parts: each of them computes the shard once. */
typedef struct gw_pool_task {
    bool active, probe, failed;
    bool look; /* each unit is hashed first */
    gw_unit_work work;
    uint64_t step; /* probe */
    uint32_t shard;
    const void *payload;
    uint32_t probed;                   /* probe: a bit for each part that has begun */
    uint64_t next, ended, count, busy; /* ended: well */
    uint64_t probe_fingerprint;
    gw_state_print print, before; /* after the units; look: of what they found */
    gw_err err;
} gw_pool_task;

struct gw_workers {
    gw_device *device;
    gw_payloads *payloads; /* NULL: shards have none */
    gw_workers_events events;
    uint32_t count, opened;
    gw_worker *list;
    gw_err open_err;

    /* Where the own word is: what thieves and workers share. All else is under the lock. */
    gw_transport *transport;
    uint32_t region;
    pthread_mutex_t lock;
    pthread_cond_t wake;  /* for workers */
    pthread_cond_t quiet; /* for who waits on them */
    bool closing, begun, dealt, careful, sealing, dry_said;
    uint32_t tag, running;
    uint32_t private_first, private_end;
    uint32_t *positions; /* NULL: a position is a shard number */
    uint32_t position_count;
    gw_token seal_token;
    uint64_t step, last_ticket;
    uint64_t step_done, step_busy_ns; /* since the step began */
    uint64_t done, lost;
    gw_durations took;                             /* shards and probes, to their end */
    uint64_t moved;                                /* shards and units that have ended */
    uint32_t given, claimed;                       /* positions of this deal: dealt or taken; begun here */
    uint32_t chosen[GW_VERIFY_MOST], chosen_count; /* of this step, computed twice */
    gw_verify_part part;                           /* of these, this peer's */
    uint32_t next_first, next_again;
    gw_recheck checks[2 * GW_VERIFY_MOST]; /* results since the step began */
    uint32_t check_count;
    gw_pool_task task;
};

static inline uint64_t gw_pool_word(gw_workers *pool) {
    return gw_transport_word_load(pool->transport, pool->region, 0);
}

static inline void gw_pool_set_word(gw_workers *pool, uint64_t word) {
    gw_transport_word_store(pool->transport, pool->region, 0, word);
}

/* A worker's thread. */
void *gw_worker_main(void *worker);
/* With the lock held: says `sealed` if it is time to. */
void gw_pool_check_sealed(gw_workers *pool);

#endif
