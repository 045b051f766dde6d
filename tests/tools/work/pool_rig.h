/* A worker pool on a device that a test controls: each shard waits at a gate until the test opens it, and the
 * reports of the pool are kept in order. The functions that wait do so for events, never for a time. */
#ifndef GODWIT_TESTS_TOOLS_WORK_POOL_RIG_H
#define GODWIT_TESTS_TOOLS_WORK_POOL_RIG_H

#include "core/shard/range.h"
#include "net/data/rail.h"
#include "tools/godwit/work/workers/workers.h"

#include <pthread.h>
#include <stdbool.h>

enum { RIG_SHARDS = 4096, RIG_REPORTS = 4096, RIG_CHECKS = 8, RIG_UNITS = 100 };

typedef enum rig_kind { RIG_DRY = 1, RIG_CLAIM, RIG_WITHDRAWN, RIG_SEALED, RIG_FAILED, RIG_LOST } rig_kind;

/* A report of the pool. DRY has a tag; CLAIM worker, shard and ticket; SEALED token and speed; FAILED and
 * LOST shard and text. */
typedef struct rig_report {
    rig_kind kind;
    uint32_t tag, worker, shard;
    uint64_t ticket, speed;
    gw_token token;
    char text[64];
    gw_recheck checks[RIG_CHECKS]; /* of SEALED */
    uint32_t check_count;
} rig_report;

typedef struct pool_rig {
    gw_device device; /* must come first */
    gw_layout layout;
    gw_transport transport; /* holds the own word and nothing else */
    uint64_t word;
    gw_payloads
        *payloads;  /* set before the rig is opened: shards have payload, which begins with their number */
    uint32_t parts; /* parts of the device, set before the rig is opened; 0: one */
    gw_workers *pool;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;

    uint64_t step, generation;
    bool gated;                          /* shards wait at their gates */
    bool open[RIG_SHARDS];               /* the gate of this shard is open */
    bool fails[RIG_SHARDS];              /* this shard cannot be computed */
    bool gives_back[RIG_SHARDS];         /* worker processes end at this shard */
    bool held[RIG_SHARDS];               /* shards in the accumulator */
    uint32_t began[RIG_SHARDS];          /* shards computed in this step */
    uint32_t prefetched[RIG_SHARDS];     /* shards computed ever */
    uint32_t inside, most_inside, ended; /* contribute calls: now, at most at once, returned */
    bool holds_notes[2];                 /* by `runs`: a call of `running` does not return */
    uint32_t noting[2];                  /* by `runs`: workers inside it */
    uint32_t lanes,
        lanes_refused_from; /* lanes that are open; a lane of this number or more is refused, 0 = none is */
    uint32_t units[RIG_UNITS], failing_unit;
    bool holds_units; /* no unit returns */
    uint32_t probes[GW_DEVICE_PARTS],
        inside_part[GW_DEVICE_PARTS]; /* by part of the device: shards that run */
    bool wrong;                       /* part 1 computes other fingerprints of probes */
    uint32_t inside_at_unit;          /* shards that ran at the same time as a unit: must be 0 */

    rig_report reports[RIG_REPORTS];
    uint32_t report_count;
} pool_rig;

/* Opens a pool of `workers`, for step 0. */
void rig_open(pool_rig *rig, uint32_t workers, bool gated);
/* The same when the pool cannot be opened: *err says why. */
bool rig_try_open(pool_rig *rig, uint32_t workers, uint32_t lanes, gw_err *err);
/* Opens all gates and closes the pool (unless a test has); checks that every lane was closed. */
void rig_close(pool_rig *rig);

void rig_open_gate(pool_rig *rig, uint32_t shard);
void rig_open_all(pool_rig *rig);
/* Wait until so many contribute calls are inside, or have returned. */
void rig_wait_inside(pool_rig *rig, uint32_t count);
void rig_wait_ended(pool_rig *rig, uint32_t count);
/* Makes `running` calls with `runs` not return, or return again; waits until so many are inside. */
void rig_hold_notes(pool_rig *rig, bool runs, bool hold);
void rig_wait_noting(pool_rig *rig, bool runs, uint32_t count);
/* Waits for report number `count` (from 0) of this kind, and returns it. */
rig_report rig_wait_report(pool_rig *rig, rig_kind kind, uint32_t count);
uint32_t rig_count(pool_rig *rig, rig_kind kind);
uint32_t rig_began(pool_rig *rig, uint32_t shard);
bool rig_held(pool_rig *rig, uint32_t shard);
/* The own word, as a thief reads it. */
gw_word rig_word(pool_rig *rig);
/* A compare-and-swap on the own word, as by a thief. */
bool rig_swap(pool_rig *rig, gw_word *expected, gw_word desired);

#endif
