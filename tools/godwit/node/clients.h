/* What the service for clients (tools/godwit/service) needs of a node: its other peers, and fetches from
 * them. The functions are called on the service's thread, and touch nothing that the loop owns. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_CLIENTS_H
#define GODWIT_TOOLS_GODWIT_NODE_CLIENTS_H

#include "tools/godwit/service/service.h"
#include "tools/godwit/show/snapshot.h"
#include "tools/godwit/work/fetch.h"
#include "tools/godwit/work/reduce.h"

typedef struct gw_node_clients {
    gw_fetcher *fetcher; /* borrowed, as is the board */
    gw_board *board;
    const char *name;    /* of this peer; borrowed */
    gw_workers *workers; /* borrowed, as is the reduction */
    const gw_reduction *reduction;
    uint32_t worker_count;
    gw_hash job_id; /* peers tell of this job's checkpoints alone */
} gw_node_clients;

/* The functions, with `clients` as their context, which the service borrows. */
gw_service_world gw_node_clients_world(gw_node_clients *clients);

#endif
