/* Figures of gossip alone: `godwit sim --gossip PEERS`. */
#ifndef GODWIT_TOOLS_SIM_MEASURE_H
#define GODWIT_TOOLS_SIM_MEASURE_H

#include <stdint.h>

typedef struct gw_gossip_figures {
    uint32_t peers, slow, crashes;
    double bytes_per_s,
        datagrams_per_s; /* sent by each peer when nothing happens; with seal and IPv4 headers */
    double first_s, all_mean_s, all_worst_s; /* from a crash until the first, and until everybody, knows */
    double quick_mean_s, quick_worst_s;      /* all but the slow, who know nothing while they stand still */
    uint32_t unnoticed;                      /* crashes that somebody did not know of after 10 s */
    uint64_t false_suspicions, false_deaths;
} gw_gossip_figures;

/* A flock of `peers` (at least 3) that know each other, of which `slow` stand still for 0.1 to 1 s, over and
 * over: 10 s of peace measured, then `crashes` silent crashes of others, one after the other.
 * About 30 bytes of memory for every pair of peers. */
void gw_gossip_measure(uint32_t peers, uint32_t slow, uint32_t crashes, uint64_t seed,
                       gw_gossip_figures *figures);
void gw_gossip_figures_print(const gw_gossip_figures *figures);

#endif
