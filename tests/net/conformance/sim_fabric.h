/* A transport whose links go through the simulator's network (tools/sim/engine/network.h), for the
 * conformance suite: messages take as long as its seed decides, in virtual time, and stay in order on each
 * stream of a link. Requester, server, regions, words, fences and collectives are those of the real
 * transport; channels and threads are simulated.
 *
 * Nothing happens by itself: a thread that waits for something calls sim_net_step. Any thread; one runs at a
 * time. */
#ifndef GODWIT_TESTS_NET_CONFORMANCE_SIM_FABRIC_H
#define GODWIT_TESTS_NET_CONFORMANCE_SIM_FABRIC_H

#include "net/data/transport.h"

enum { SIM_NET_PEERS = 8, SIM_NET_RAILS = 4 };

typedef struct sim_net sim_net;

sim_net *sim_net_open(uint32_t rails, uint64_t seed);
/* Closes the network. All its transports must have been closed. */
void sim_net_close(sim_net *net);

/* Opens peer `number` of the network, without links. */
gw_transport *sim_net_join(sim_net *net, uint32_t number, const gw_peer_id *id,
                           const gw_transport_events *events, const gw_fetch_provider *provider);
/* Makes a new link between two peers, in place of an earlier one. */
void sim_net_link(sim_net *net, uint32_t a, uint32_t b);

/* Runs the next event, or waits for other threads if there is none. Does nothing if *news, which handlers
 * count up, no longer equals `seen`. False if nothing comes. */
bool sim_net_step(sim_net *net, const _Atomic uint64_t *news, uint64_t seen);

#endif
