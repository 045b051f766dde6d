/* A transport whose links go through the simulator's network (tools/sim/engine/network.h): messages take as
 * long as its seed says, in virtual time, and stay in order on each stream of a link. Serving and asking,
 * regions, words and fences are those of the real transport, and so are collectives; what is simulated is
 * channels and threads. For the conformance suite.
 *
 * Nothing happens by itself: whoever waits for something calls sim_net_step. Any thread; one runs at a time.
 */
#ifndef GODWIT_TESTS_NET_CONFORMANCE_SIM_FABRIC_H
#define GODWIT_TESTS_NET_CONFORMANCE_SIM_FABRIC_H

#include "net/data/transport.h"

enum { SIM_NET_PEERS = 8, SIM_NET_RAILS = 4 };

typedef struct sim_net sim_net;

sim_net *sim_net_open(uint32_t rails, uint64_t seed);
/* All its transports have been closed. */
void sim_net_close(sim_net *net);

/* Peer `number` of the net, not linked. */
gw_transport *sim_net_join(sim_net *net, uint32_t number, const gw_peer_id *id,
                           const gw_transport_events *events, const gw_fetch_provider *provider);
/* A new link, in place of one that there is. */
void sim_net_link(sim_net *net, uint32_t a, uint32_t b);

/* Runs the next event; where there is none, waits for what other threads do. Not if *news, which handlers
 * count up, is not `seen` any more. False: nothing comes. */
bool sim_net_step(sim_net *net, const _Atomic uint64_t *news, uint64_t seen);

#endif
