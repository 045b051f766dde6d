/* Gossip alone, with thousands of peers under virtual time: crashes, restarts, frozen and slow peers, and
 * partitions. It measures how soon a death is known, and which live peers were declared dead. */
#ifndef GODWIT_TOOLS_SIM_GOSSIP_FLOCK_H
#define GODWIT_TOOLS_SIM_GOSSIP_FLOCK_H

#include "core/gossip/gossip.h"
#include "tools/sim/engine/garble.h"
#include "tools/sim/engine/network.h"

typedef struct gw_flock_peer {
    struct gw_flock *flock;
    gw_gossip *gossip; /* NULL = not running */
    gw_peer_id id;
    uint64_t boot;
    uint64_t timer_ns;         /* the earliest scheduled tick; UINT64_MAX = none */
    uint64_t stopped_until_ns; /* it stands still until then; UINT64_MAX = frozen */
    bool slow;                 /* its loop stands still for random times, again and again */
    bool polite;               /* it has left */
    uint64_t crashed_ns;
    uint32_t known_dead_by; /* the number of live peers that have noticed the crash */
    uint64_t first_known_ns, last_known_ns;
    uint64_t last_quick_ns; /* when the last peer that is not slow has noticed */
} gw_flock_peer;

typedef struct gw_flock {
    gw_sim_engine *engine;
    gw_sim_network network;
    gw_rng rng;
    gw_flock_peer *peers;
    uint32_t count;
    gw_gossip_roster *roster; /* the peers that started together; NULL = none */
    gw_gossip_timing timing;
    /* bounds of the times for which slow peers stand still, and run in between */
    uint64_t slow_least_ns, slow_most_ns;
    uint64_t false_deaths;     /* DEAD events about a life that runs, from running peers */
    uint64_t false_suspicions; /* likewise SUSPECT events */
    uint64_t clones;
    gw_sim_garbler *garbler; /* NULL until it is needed */
    uint64_t forged;         /* garbled datagrams that were accepted */
    uint64_t bytes_sent;     /* with the seal of each datagram, and the headers of IPv4 and UDP */
} gw_flock;

void gw_flock_open(gw_flock *flock, uint32_t peers, uint64_t seed);
void gw_flock_close(gw_flock *flock);

/* Starts a peer's next life. With `seeds` > 0 it knows the endpoints 0 to seeds-1. */
void gw_flock_start(gw_flock *flock, uint32_t peer, uint32_t seeds);
void gw_flock_crash(gw_flock *flock, uint32_t peer);
/* Freezes a peer for a while, as SIGSTOP and SIGCONT do; datagrams wait. UINT64_MAX = for good. */
void gw_flock_freeze(gw_flock *flock, uint32_t peer, uint64_t for_ns);
/* Makes a peer slow: from now on it stands still for random times between slow_least_ns and slow_most_ns,
 * with pauses as long. */
void gw_flock_slow(gw_flock *flock, uint32_t peer);
void gw_flock_run(gw_flock *flock, uint64_t for_ns);

/* Plans the peer's next tick; call it after any call into its gossip from outside. */
void gw_flock_replan(gw_flock *flock, uint32_t peer);

/* Returns the number of ordered pairs of running peers (a, b) in which a holds b in `state` in its current
 * life. */
uint64_t gw_flock_pairs(const gw_flock *flock, gw_gossip_state state);
/* Whether each running peer holds every other one to be alive in its current life. */
bool gw_flock_is_whole(const gw_flock *flock);
uint32_t gw_flock_running(const gw_flock *flock);
/* Starts all peers (at least two, none of which has started yet), knowing each other as after a long time
 * together. */
void gw_flock_start_together(gw_flock *flock);

#endif
