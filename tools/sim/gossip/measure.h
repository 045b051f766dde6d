/* Figures of gossip alone: `godwit sim --gossip PEERS`. */
#ifndef GODWIT_TOOLS_SIM_GOSSIP_MEASURE_H
#define GODWIT_TOOLS_SIM_GOSSIP_MEASURE_H

#include "tools/sim/gossip/cuts.h"

typedef struct gw_gossip_trial {
    uint32_t peers, slow, crashes; /* at least 3 peers; slow ones of these; crashes of the others */
    uint64_t seed;
    gw_sim_weather weather; /* all the time; delay_most_ns 0: as long as datagrams usually take */
    gw_flock_cuts cuts;     /* the cuts that are to be made */
    uint32_t cuts_ms;       /* how long cuts are made; 0 = none are */
} gw_gossip_trial;

/* Bounds for a flock on a usual network, in which at most one peer in a hundred is slow. Time is virtual, so
 * no slow machine excuses more. 0 = no bound, for any other flock. */
typedef struct gw_gossip_asked {
    double known_s;     /* until all but the slow know of a crash */
    double bytes_per_s; /* sent by each peer at rest */
} gw_gossip_asked;

typedef struct gw_gossip_figures {
    uint32_t peers, slow, crashes;
    gw_gossip_asked asked;
    double bytes_per_s,
        datagrams_per_s; /* sent by each peer when nothing happens; with seal and IPv4 headers */
    double first_s, all_mean_s, all_worst_s; /* from a crash until the first, and until everybody, knows */
    double quick_mean_s, quick_worst_s;      /* all but the slow, who know nothing while they stand still */
    uint32_t unnoticed;                      /* crashes that somebody did not know of after 10 s */
    uint64_t false_suspicions, false_deaths; /* without those that cuts cause */
    uint64_t dropped, duplicated, garbled;   /* datagrams of those sent */
    uint64_t sent, forged;                   /* garbled and taken for sound */
    gw_flock_cuts cuts;                      /* the cuts that were made */
    uint32_t cuts_ms;                        /* how long cuts were made */
    uint64_t cut_deaths; /* peers that live and were taken for dead while there were cuts */
    double whole_s;      /* from the last cut until all know that all live; negative = not within a minute */
} gw_gossip_figures;

/* A flock of peers that know each other, of which `slow` stand still for 0.1 to 1 s, over and over: 10 s of
 * peace measured, then silent crashes of others, one after the other; then cuts of the network, until all is
 * healed. About 30 bytes of memory for every pair of peers. */
void gw_gossip_measure(const gw_gossip_trial *trial, gw_gossip_figures *figures);
void gw_gossip_figures_print(const gw_gossip_figures *figures);
/* Nobody missed a crash or was buried alive, nothing was forged, after the cuts all know all, and what is
 * asked is kept to: these figures are of the time before the cuts. */
bool gw_gossip_figures_good(const gw_gossip_figures *figures);

#endif
