/* What the files of the worker pool share: workers.c (control) and run.c (the threads). */
#ifndef GODWIT_TOOLS_GODWIT_WORK_WORKERS_POOL_H
#define GODWIT_TOOLS_GODWIT_WORK_WORKERS_POOL_H

#include "tools/godwit/watch/watchdog.h"
#include "tools/godwit/work/workers/workers.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum gw_worker_state {
    GW_WORKER_IDLE = 0,
    GW_WORKER_CLAIMING, /* has reported a claim, and waits for gw_workers_grant */
    GW_WORKER_LOADING,  /* waits for the payload of its shard */
    GW_WORKER_RUNNING,  /* inside contribute */
} gw_worker_state;

typedef struct gw_worker {
    gw_workers *pool;
    pthread_t thread;
    uint32_t index;
    gw_lane *lane;
    uint32_t part; /* the part of the device that the lane is on */
    gw_worker_state state;
    bool granted, revoked;
    bool claimed;        /* its last report is a claim, which it withdraws when the shard is done */
    bool again;          /* the shard was dealt to another member; this worker computes its fingerprint */
    bool dropped;        /* RUNNING: a new step has begun meanwhile; the result will not be added */
    uint64_t ticket;     /* of its claim */
    uint64_t started_ns; /* begin of the shard, with the wait for its payload */
    uint64_t began_ns;   /* RUNNING: begin of `contribute` */
    uint32_t shard;
    uint64_t units_ns;   /* begin of its first unit of the present task */
    uint32_t units;      /* that it has begun of that task; 0 again when it finds no more */
    uint32_t *upcoming;  /* room for as many shards as there are workers */
    const void *payload; /* of the shard; NULL = it has none */
} gw_worker;

/* Work that is not a shard, divided among all workers in numbered units. A probe has as many units as the
 * device has parts: each part computes the shard once. */
typedef struct gw_pool_task {
    bool active, probe, failed;
    bool check;        /* each unit is hashed before it is applied */
    gw_unit_work work; /* of each unit, if it is no probe */
    uint64_t step;     /* This and the next four are of a probe. */
    uint32_t shard;
    const void *payload;
    uint32_t probed; /* a bit for each part that has begun */
    uint64_t probe_fingerprint;
    uint64_t count, next, busy,
        ended;             /* units: all; the first that is not begun; running; done without failure */
    gw_state_print print;  /* fingerprint after the units */
    gw_state_print before; /* with `check`: fingerprint of the state that the units found */
    gw_err err;
} gw_pool_task;

struct gw_workers {
    gw_device *device;
    gw_payloads *payloads; /* NULL: shards have none */
    gw_workers_events events;
    uint32_t count, opened;
    gw_worker *list;
    gw_err open_err;

    /* Where the own range word is, which workers share with thieves. */
    gw_transport *transport;
    uint32_t region;

    /* The lock guards the members that follow. */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* for workers: there may be something to do */
    pthread_cond_t idle; /* for threads that wait for workers */
    bool closing;
    bool begun;                          /* there has been a step */
    bool dealt;                          /* there is a deal, which is not sealed */
    bool grants_claims;                  /* the deal is careful: a claim waits for gw_workers_grant */
    bool sealing;                        /* `sealed` has not been reported yet */
    bool dry_reported;                   /* since the last deal or take */
    uint32_t tag;                        /* of the deal */
    uint32_t running;                    /* workers that are RUNNING */
    uint32_t private_first, private_end; /* the private range, in positions */
    uint32_t *positions;                 /* NULL: a position is a shard number */
    uint32_t position_count;
    gw_token seal_token;
    uint64_t step, last_ticket;
    uint64_t step_done, step_busy_ns; /* shards done since the step began, and the time that they took */
    uint64_t done, lost;    /* shards added, and shards that thieves took, since the pool was opened */
    gw_durations durations; /* of shards and probes */
    uint64_t moved;         /* shards and units that have ended: a counter of progress */
    uint32_t dealt_count;   /* positions of this deal that were dealt to this peer or taken by it */
    uint32_t claimed_count; /* positions of this deal that were begun here */
    uint32_t chosen[GW_VERIFY_MOST], chosen_count; /* shards of this deal that are computed twice */
    gw_verify_part part;                           /* this peer's part in these */
    uint32_t next_first, next_again;               /* indices of the next shards of that part */
    gw_recheck checks[2 * GW_VERIFY_MOST];         /* their results since the step began */
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
/* Reports `sealed` if the pool seals and no shard runs any more. Called with the lock held. */
void gw_pool_check_sealed(gw_workers *pool);

#endif
