/* The workers of a peer: threads that claim shards from the peer's own range, get their payload, if the job
 * has any, and run them on the device.
 *
 * The peer's share of a deal is one 64-bit word (core/shard/range.h) that thieves may change at any moment by
 * compare-and-swap. Workers move small batches from it to a *private range*, at most as many positions as
 * workers are idle, and run these: claim = launch, no shard waits behind a running one. The positions after
 * them are only looked at, so that their payload can be fetched meanwhile. A claim whose payload has not come
 * yet is not launched: a freeze takes it back.
 *
 * In a *careful* deal a claim is reported, and the worker waits until the brain has told the other members of
 * it. Then they know which shard a peer was computing when it died.
 *
 * Shards of a deal that are chosen to be computed twice (core/shard/double_check.h) have positions like all
 * others, but workers pass over these positions: such shards belong to the members that the deal names, which
 * begin with them.
 *
 * Threads: the pool's own, and *control* calls from one thread at a time (the loop's) unless a function says
 * otherwise. Callbacks come on a worker's thread or from inside a control call: they must only hand over. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_WORKERS_WORKERS_H
#define GODWIT_TOOLS_GODWIT_WORK_WORKERS_WORKERS_H

#include "core/base/set.h"
#include "core/brain/world.h"
#include "kernels/device/device.h"
#include "net/data/transport.h"
#include "tools/godwit/work/payload/payload.h"

typedef struct gw_workers gw_workers;

typedef struct gw_workers_events {
    void *context;
    /* The own word and the private range are empty and a worker is idle; once a deal or take. */
    void (*dry)(void *context, uint32_t tag);
    /* In careful deals: the worker waits until gw_workers_grant(ticket) before it starts `shard`. With
     * ticket 0 it has begun already. With shard UINT32_MAX it has done the shard that it claimed last, or
     * has given it back. */
    void (*claim)(void *context, uint32_t worker, uint32_t shard, uint64_t ticket);
    /* No shard runs any more. `speed`: thousandths of a shard a second since the step began, over all workers
     * while busy; 0 = no shard was done. `checks`: fingerprints of the deal's chosen shards; valid during the
     * call. */
    void (*sealed)(void *context, gw_token token, uint64_t speed, const gw_recheck *checks, uint32_t count);
    void (*shard_failed)(void *context, uint32_t shard, const char *text);
    /* A claimed shard was not begun, as its payload cannot be had: it must be dealt again. */
    void (*shard_lost)(void *context, uint32_t shard, const char *text);
    /* The worker begins `shard` (`runs`), or has done it. Called for every shard, on the worker's thread and
     * without the pool's lock: it must cost nothing. May be NULL. */
    void (*running)(void *context, uint32_t worker, uint64_t step, uint32_t shard, bool runs);
} gw_workers_events;

/* Starts `count` threads, each with a lane of its own, at a lower priority than the caller's. NULL when a
 * thread or a lane cannot be had. `device`, `payloads` (NULL: shards have none) and the callbacks must work
 * until the pool is closed. */
gw_workers *gw_workers_open(gw_device *device, uint32_t count, gw_payloads *payloads,
                            const gw_workers_events *events, gw_err *err);
/* Claims nothing more, begins no unit more, and waits at most `patience_ns` for shards and units that run and
 * shards whose payload is being brought. False when one did not end: then the pool cannot be closed, and the
 * process must end without touching the device. NULL is allowed. */
bool gw_workers_end(gw_workers *workers, uint64_t patience_ns);
/* Ends the threads, after the shards that run, and frees the pool. NULL is allowed. */
void gw_workers_close(gw_workers *workers);

/* To be called before the first deal: where the own word is in the data plane (net/data/transport.h); it
 * is closed (0) while there is no deal. The transport must stand until gw_workers_end. */
void gw_workers_share(gw_workers *workers, gw_transport *transport, uint32_t region);

/* Forgets the deal, cancels shards that run, and has the device's accumulator start at `step`. */
void gw_workers_begin_step(gw_workers *workers, uint64_t step);
/* Publishes the own word {tag, first, end} and starts (core/brain/world.h, DEAL). Positions index the shards
 * in rising order or, when they have payload, in that of gw_payloads_order. Ends a freeze. */
void gw_workers_deal(gw_workers *workers, const gw_action *deal);
/* Puts a stolen range into the own word, which is empty. */
void gw_workers_take(gw_workers *workers, uint32_t first, uint32_t end);
/* Claims nothing more; `sealed` follows when nothing runs. A freeze or a new step takes it back. */
void gw_workers_seal(gw_workers *workers, gw_token token);
/* Lets a claim of a careful deal start; harmless when it was revoked meanwhile. */
void gw_workers_grant(gw_workers *workers, uint64_t ticket);

/* The shards that the accumulator holds, and those that will still be added to it. */
typedef struct gw_frozen {
    uint64_t step;
    gw_set held, claimed; /* the caller frees; of size 0 before the first step */
    bool poisoned;
} gw_frozen;

/* Closes the own word, forgets the private range and claims that were not granted. Shards that run go on. */
void gw_workers_freeze(gw_workers *workers, gw_frozen *frozen);

/* Any thread that may wait: waits until no shard runs, dropped ones included. */
void gw_workers_wait_idle(gw_workers *workers);
/* Any one thread that may wait: runs every unit on the workers, and adds up the state's fingerprint. It
 * waits until no shard runs, dropped ones included, unless the work is to hash: while shards run, this
 * thread does that itself, as a peer that is asked to leave in the middle of a long shard has no time to
 * wait for its end. Other work is asked for while no deal is being worked on. With GW_UNIT_INIT the log
 * tells the progress if that takes more than a second. */
bool gw_workers_units(gw_workers *workers, gw_unit_work work, gw_state_print *print, gw_err *err);
/* Like gw_workers_units with GW_UNIT_APPLY; each unit is hashed just before it is applied. *before becomes
 * the fingerprint of the state that was found, *after that of the next state. */
bool gw_workers_check_and_apply(gw_workers *workers, gw_state_print *before, gw_state_print *after,
                                gw_err *err);
/* The same for one probe (kernels/device/device.h) of a shard with this payload (NULL: none), on every part
 * of the device. Fails with GW_E_CORRUPT if the parts do not agree. */
bool gw_workers_probe(gw_workers *workers, uint64_t step, uint32_t shard, const void *payload,
                      uint64_t *fingerprint, gw_err *err);

/* A shard that a worker computes or brings the payload of, dropped ones included. */
typedef struct gw_running {
    uint32_t worker, shard;
    uint64_t step; /* that the pool works on */
    uint32_t part; /* of the device: where the worker's shards are computed */
    bool loads;    /* the worker brings the payload, or waits for the thread that does */
    /* When the shard was begun (gw_now_ns); before that, when a piece of payload arrived last, but not before
     * the worker claimed it. */
    uint64_t started_ns;
    /* The usual duration of shards and probes of this pool (watchdog.h); 0 = none has ended. */
    uint64_t usual_ns;
} gw_running;

/* Any thread: the shard that has run for longest. False when none runs. */
bool gw_workers_oldest(gw_workers *workers, gw_running *oldest);
/* Any thread: lists all that run, at most `most`, and returns how many. */
uint32_t gw_workers_running(gw_workers *workers, gw_running *list, uint32_t most);
/* Any thread: the worker's shard is computed anew, so that it is timed from now on. */
void gw_workers_begun_again(gw_workers *workers, uint32_t worker);
/* Any thread: a counter that changes whenever a shard or unit has ended. *running: shards run now.
 * *usual_ns: as in gw_running. */
uint64_t gw_workers_moved(gw_workers *workers, bool *running, uint64_t *usual_ns);
/* Any thread: shards that thieves took, counted when a step is sealed. */
uint64_t gw_workers_lost(gw_workers *workers);
/* Any thread: shards added to the accumulator since the pool was opened. */
uint64_t gw_workers_done(gw_workers *workers);
/* Any thread: workers that compute a shard, or a unit, now. */
uint32_t gw_workers_in_flight(gw_workers *workers);

#endif
