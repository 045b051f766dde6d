/* A node's sockets: gossip datagrams, the listening socket, control links (net/link), and the data links
 * that follow them (tools/godwit/work/data). Everything that arrives becomes an event of the brain.
 *
 * Threads: the main thread opens and closes; the loop's thread does the rest, unless a function says
 * otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_NETWORK_H
#define GODWIT_TOOLS_GODWIT_NODE_NETWORK_H

#include "net/link/link.h"
#include "net/link/listener.h"
#include "net/link/udp.h"
#include "net/secure/packet.h"
#include "tools/godwit/node/feed.h"
#include "tools/godwit/options/options.h"
#include "tools/godwit/service/service.h"
#include "tools/godwit/work/data/links.h"
#include "tools/godwit/work/fetch.h"
#include "tools/godwit/work/gpus.h"
#include "tools/godwit/work/payload/payload.h"
#include "tools/godwit/work/reduce.h"

typedef struct gw_network {
    gw_node *node;                 /* gets the events */
    const gw_run_options *options; /* borrowed, as are the loop and the sums of GPUs */
    gw_loop *loop;
    gw_service *service; /* takes the streams of clients */
    gw_gpus *gpus;       /* learns of links and gets their messages; NULL = none */
    gw_local local;      /* what this peer tells others of itself; the caller fills in all but `listen` */
    gw_addr listen;      /* the address that the sockets are bound to */
    int tcp_fd, udp_fd;  /* the bound sockets, until they are served; -1 = none */
    gw_udp *udp;
    gw_packets *packets;
    gw_listener *listener;
    gw_links *links;
    gw_data_links *data_links;
    uint64_t sent_bytes, received_bytes; /* of the control plane: datagrams and messages */
} gw_network;

/* Binds the sockets to --listen, and finds out the address of --advertise. Nobody is answered yet.
 * `free_port`: the one to take where --listen asks for any free one; 0: the system chooses. */
bool gw_network_bind(gw_network *network, uint16_t free_port, gw_err *err);

/* Opens datagrams, control links and data links. `server` answers the fetches of other peers; `reduction`
 * gets the ends of its collective calls. */
bool gw_network_open(gw_network *network, gw_server *server, gw_reduction *reduction, gw_err *err);

/* Begins to accept connections: everything that they need is open and shared. */
bool gw_network_listen(gw_network *network, gw_err *err);

/* Ends all of the control plane, and stops the data links, which gw_data_links_close closes. */
void gw_network_close(gw_network *network);

/* The actions DATAGRAM, LINK and MESSAGE of core/brain/world.h. */
void gw_network_send_datagram(gw_network *network, const gw_action *action);
void gw_network_want_link(gw_network *network, const gw_action *action);
void gw_network_send_message(gw_network *network, const gw_peer_id *to, const uint8_t *bytes, size_t length);

/* What the payload of shards needs of the data links. Its functions may be called once the network is
 * open, by any thread. */
gw_payload_world gw_network_payload_world(gw_network *network);

#endif
