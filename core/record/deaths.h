/* Lives that ended while they computed a shard: the evidence by which a poison shard is named
 * (core/README.md, section 5), kept beyond the life of the peers. Where other processes compute a peer's
 * shards, each of these *worker processes* is a life as well. The evidence is a set, so that the sets of
 * several peers can be united in any order, and peers that have united the same sets judge alike. The
 * functions are pure. */
#ifndef GODWIT_CORE_RECORD_DEATHS_H
#define GODWIT_CORE_RECORD_DEATHS_H

#include "core/base/id.h"
#include "core/base/wire.h"

#include <stdbool.h>

enum {
    GW_MAX_SHARD_DEATHS = 256, /* further deaths are not remembered */
    GW_POISON_DEATHS = 3,      /* this many lives that ended at one shard make it poison */
};
#define GW_SHARD_ANY UINT32_MAX /* a shard that is not known */

typedef struct gw_shard_death {
    gw_peer_id id;   /* the peer whose life it was */
    uint64_t boot;   /* its boot count, below 2^32 */
    uint32_t serial; /* of its worker process, from 1 on; 0: the life was the peer's own */
    uint64_t step;
    uint32_t shard; /* one of the shards that it was computing, or GW_SHARD_ANY */
} gw_shard_death;

typedef struct gw_shard_deaths {
    uint32_t count;
    gw_shard_death list[GW_MAX_SHARD_DEATHS];
} gw_shard_deaths;

/* Adds a death; returns whether the set has changed. If the deaths of one life name several steps, only those
 * of the latest step are kept, as the peer that noted them knows that the steps before were done. In that
 * step a known shard replaces an unknown one. */
bool gw_shard_deaths_add(gw_shard_deaths *deaths, const gw_shard_death *death);
bool gw_shard_deaths_unite(gw_shard_deaths *into, const gw_shard_deaths *more);
/* Forgets deaths in steps before `step`, which have been done. Returns whether the set has changed. */
bool gw_shard_deaths_forget_before(gw_shard_deaths *deaths, uint64_t step);
/* Whether a peer died in this step. Worker processes do not count: their peer knows what they computed. */
bool gw_shard_deaths_in_step(const gw_shard_deaths *deaths, uint64_t step);
/* How many lives of this peer ended in this step, not counting worker processes. */
uint32_t gw_shard_deaths_lives(const gw_shard_deaths *deaths, const gw_peer_id *id, uint64_t step);
/* Whether the death of this life of a peer in this step is known, but not its shard. */
bool gw_shard_deaths_lacks_shard(const gw_shard_deaths *deaths, const gw_peer_id *id, uint64_t boot,
                                 uint64_t step);

enum { GW_POISON_NAMED = 4 };
typedef struct gw_poison {
    uint64_t step;
    uint32_t shard; /* the lowest of the shards at which most lives ended */
    uint32_t lives; /* that ended at it */
    uint32_t ties;  /* other shards at which as many lives ended, each time computed together with it */
    uint32_t tied[GW_POISON_NAMED - 1]; /* the lowest of those shards, rising */
} gw_poison;
/* The poison shard of the first step, from `step` on, that has one. A death at an unknown shard of a step
 * counts for every shard of that step, as the first death of a step comes before peers report what they
 * compute; but not for a shard at which worker processes ended, as such a shard ends them and not their
 * peers.
 *
 * A peer tries a shard again that has cost it a worker process, so that one bad machine may lose several
 * of them at any shard. Worker processes therefore make a shard poison only together with a life of
 * another peer, except where `alone` says that there is none: of all lives of one peer that ended at a
 * shard, only GW_POISON_DEATHS - 1 count, or those of the peer itself, if these are more. */
bool gw_shard_deaths_poison(const gw_shard_deaths *deaths, uint64_t step, bool alone, gw_poison *poison);

/* A death takes the same bytes whether or not it is that of a worker process: the serial is in the upper half
 * of the boot count. Builds that know no worker processes take one for another life of its peer. */
void gw_shard_deaths_put(gw_writer *w, const gw_shard_deaths *deaths);
/* Fails the reader on more than GW_MAX_SHARD_DEATHS, and on what no set contains: a death twice, a death at
 * an unknown shard beside one of the same life at a known shard, or deaths of one life in two steps. */
void gw_shard_deaths_get(gw_reader *r, gw_shard_deaths *deaths);
enum { GW_SHARD_DEATH_BYTES = 36 }; /* of one death as put; 4 bytes precede the list */

#endif
