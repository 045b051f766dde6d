/* Gossip alone, thousands of peers under virtual time: crashes, restarts, frozen and slow peers, partitions;
 * and what is wanted to be known of it: how soon a death is known, and who was buried alive. */
#ifndef GODWIT_TOOLS_SIM_GOSSIP_FLOCK_H
#define GODWIT_TOOLS_SIM_GOSSIP_FLOCK_H

#include "core/gossip/gossip.h"
#include "tools/sim/engine/garble.h"
#include "tools/sim/engine/network.h"

typedef struct gw_flock_peer {
    struct gw_flock *flock;
    gw_gossip *gossip; /* NULL: not running */
    gw_peer_id id;
    uint64_t boot;
    uint64_t timer_ns;         /* the earliest tick scheduled; UINT64_MAX = none */
    uint64_t stopped_until_ns; /* runs nothing before; UINT64_MAX = frozen */
    bool slow;                 /* its loop stands still for random times, over and over */
    bool polite;               /* has left */
    uint64_t crashed_ns;
    uint32_t known_dead_by; /* how many of the living have noticed the crash */
    uint64_t first_known_ns, last_known_ns;
    uint64_t last_quick_ns; /* the last one who is not slow */
} gw_flock_peer;

typedef struct gw_flock {
    gw_sim_engine *engine;
    gw_sim_network network;
    gw_rng rng;
    gw_flock_peer *peers;
    uint32_t count;
    gw_gossip_roster *roster; /* of those that started together; NULL = none did */
    gw_gossip_timing timing;
    uint64_t slow_least_ns, slow_most_ns; /* how long slow peers stand still, and run in between */
    uint64_t false_deaths;                /* DEAD events about a life that runs, from peers that run */
    uint64_t false_suspicions;            /* SUSPECT events of that kind */
    uint64_t clones;
    gw_sim_garbler *garbler; /* NULL before it is needed */
    uint64_t forged;         /* garbled datagrams that were taken for sound */
    uint64_t bytes_sent;     /* with what seals a datagram, and IPv4's and UDP's headers */
} gw_flock;

void gw_flock_open(gw_flock *flock, uint32_t peers, uint64_t seed);
void gw_flock_close(gw_flock *flock);

/* Starts a peer's next life. With `seeds` > 0 it knows endpoints 0 to seeds-1. */
void gw_flock_start(gw_flock *flock, uint32_t peer, uint32_t seeds);
void gw_flock_crash(gw_flock *flock, uint32_t peer);
/* Stands still for a while: SIGSTOP, SIGCONT. Datagrams wait. UINT64_MAX: for good. */
void gw_flock_freeze(gw_flock *flock, uint32_t peer, uint64_t for_ns);
/* Stands still for random times within slow_least_ns and slow_most_ns, with pauses as long, from now on. */
void gw_flock_slow(gw_flock *flock, uint32_t peer);
void gw_flock_run(gw_flock *flock, uint64_t for_ns);

/* Call after any call into a peer's gossip from outside. */
void gw_flock_replan(gw_flock *flock, uint32_t peer);

/* How many ordered pairs of running peers (a, b) there are where a holds b in `state` in its current life. */
uint64_t gw_flock_pairs(const gw_flock *flock, gw_gossip_state state);
/* Whether each of those that run holds each other one to be alive, in its current life. */
bool gw_flock_is_whole(const gw_flock *flock);
uint32_t gw_flock_running(const gw_flock *flock);
/* Starts all (none has started yet; at least two), knowing each other as after a long time together. */
void gw_flock_start_together(gw_flock *flock);

#endif
