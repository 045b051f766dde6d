/* A seeded network of numbered endpoints. Datagrams are dropped, doubled, damaged, delayed and so
 * reordered; groups and pairs of endpoints are cut, in one direction or both; and on a clogged way nothing
 * moves for a while. */
#ifndef GODWIT_TOOLS_SIM_ENGINE_NETWORK_H
#define GODWIT_TOOLS_SIM_ENGINE_NETWORK_H

#include "core/base/id.h"
#include "core/rng.h"
#include "tools/sim/engine/engine.h"

enum { GW_SIM_GROUPS = 8 };

typedef struct gw_sim_weather {
    double drop, duplicate, garble;         /* probabilities for a datagram */
    uint64_t delay_least_ns, delay_most_ns; /* delays are uniform between these two */
    double tail;                            /* share of datagrams that take up to GW_SIM_TAIL times as long */
} gw_sim_weather;

enum { GW_SIM_TAIL = 50 };

typedef struct gw_sim_way { /* the way from one endpoint to another */
    bool cut;
    uint64_t clogged_until_ns;
} gw_sim_way;

typedef struct gw_sim_network {
    gw_sim_engine *engine;
    gw_rng rng;
    gw_sim_weather weather;
    uint8_t *group; /* the group of each endpoint */
    uint32_t endpoints;
    bool cut[GW_SIM_GROUPS][GW_SIM_GROUPS]; /* [from][to] */
    gw_sim_way *ways;                       /* [from * endpoints + to]; NULL = all open */
    uint64_t sent, dropped, duplicated, garbled, late;
    /* Called when a datagram arrives; the bytes are valid during the call. */
    void (*deliver)(void *context, uint32_t from, uint32_t to, const uint8_t *bytes, size_t length);
    /* Called when a datagram is damaged on its way and dropped. The callback may check that its receiver
     * would notice. NULL = not checked. */
    void (*garble)(void *context, const uint8_t *bytes, size_t length);
    void *context;
} gw_sim_network;

void gw_sim_network_open(gw_sim_network *network, gw_sim_engine *engine, uint32_t endpoints, uint64_t seed);
void gw_sim_network_close(gw_sim_network *network);

void gw_sim_network_send(gw_sim_network *network, uint32_t from, uint32_t to, const void *bytes,
                         size_t length);
/* Whether a datagram can go from one endpoint to the other now; on a clogged way it goes later. */
bool gw_sim_network_reaches(const gw_sim_network *network, uint32_t from, uint32_t to);
/* Returns the delay of the next datagram or message; draws random numbers. */
uint64_t gw_sim_network_delay_ns(gw_sim_network *network);
/* Heals every cut between groups, and puts all endpoints into group 0. */
void gw_sim_network_heal(gw_sim_network *network);

/* Cut or mend the way between two endpoints, or clog it until a time at which everything that was sent
 * arrives. */
void gw_sim_network_cut_way(gw_sim_network *network, uint32_t from, uint32_t to, bool cut);
void gw_sim_network_clog_way(gw_sim_network *network, uint32_t from, uint32_t to, uint64_t until_ns);
/* Mends and opens every way. */
void gw_sim_network_open_ways(gw_sim_network *network);

/* Convert endpoint numbers to addresses and back; gw_sim_endpoint returns false for an address that is not
 * of the network. */
gw_addr gw_sim_addr(uint32_t endpoint);
bool gw_sim_endpoint(const gw_sim_network *network, const gw_addr *addr, uint32_t *endpoint);

#endif
