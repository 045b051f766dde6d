/* Figures of gossip alone: `godwit sim --gossip PEERS`. */
#ifndef GODWIT_TOOLS_SIM_GOSSIP_MEASURE_H
#define GODWIT_TOOLS_SIM_GOSSIP_MEASURE_H

#include "tools/sim/gossip/cuts.h"

typedef struct gw_gossip_trial {
    uint32_t peers, slow, crashes; /* at least 3 peers; how many of them are slow; crashes of the others */
    uint64_t seed;
    gw_sim_weather weather; /* the weather at all times; delay_most_ns 0 = the usual delays */
    gw_flock_cuts cuts;     /* the cuts to make */
    uint32_t cuts_ms;       /* how long cuts are made; 0 = none */
} gw_gossip_trial;

/* Bounds for a flock on a usual network in which at most one peer in a hundred is slow. Time is virtual,
 * so a slow machine is no excuse. 0 = no bound, for any other flock. */
typedef struct gw_gossip_asked {
    double known_s;     /* time until all peers except the slow ones know of a crash */
    double bytes_per_s; /* bytes that each peer sends at rest */
} gw_gossip_asked;

typedef struct gw_gossip_figures {
    uint32_t peers, slow, crashes;
    gw_gossip_asked asked;
    double bytes_per_s, datagrams_per_s; /* sent by each peer at rest, with seals and IPv4 headers */
    /* time from a crash until the first peer, and until all peers, know of it */
    double first_s, all_mean_s, all_worst_s;
    /* the same for all peers except the slow ones, which notice nothing while they stand still */
    double quick_mean_s, quick_worst_s;
    uint32_t unnoticed;                      /* crashes that were not known to all after 10 s */
    uint64_t false_suspicions, false_deaths; /* without those that cuts cause */
    uint64_t dropped, duplicated, garbled;   /* counts of the sent datagrams */
    uint64_t sent, forged;                   /* forged: garbled datagrams that were accepted */
    gw_flock_cuts cuts;                      /* the cuts that were made */
    uint32_t cuts_ms;                        /* how long cuts were made */
    uint64_t cut_deaths;                     /* live peers that were declared dead during the cuts */
    /* time from the last cut until all peers know that all are alive; negative = not within a minute */
    double whole_s;
} gw_gossip_figures;

/* Measures a flock of peers that know each other, of which `slow` stand still for 0.1 to 1 s again and
 * again: 10 s at rest, then silent crashes of others, one after the other, then cuts of the network, until
 * all faults are healed. It uses about 30 bytes of memory for every pair of peers. */
void gw_gossip_measure(const gw_gossip_trial *trial, gw_gossip_figures *figures);
void gw_gossip_figures_print(const gw_gossip_figures *figures);
/* Whether the figures are good: no crash was missed, no live peer was declared dead, no datagram was
 * forged, all know all after the cuts, and the bounds are kept. The bounds concern the time before the
 * cuts. */
bool gw_gossip_figures_good(const gw_gossip_figures *figures);

#endif
