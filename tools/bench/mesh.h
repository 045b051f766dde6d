/* Processes for measurements of the data plane: forked, each with a transport, all linked over 127.0.0.1. */
#ifndef GODWIT_TOOLS_BENCH_MESH_H
#define GODWIT_TOOLS_BENCH_MESH_H

#include "net/fabric/fabric.h"

#include <pthread.h>

enum { GW_MESH_PEERS = 16 };

typedef struct gw_mesh {
    uint32_t kinds, count, rails; /* kinds: of paths, net/fabric/fabric.h */
    gw_algorithm algorithm;
    gw_transport_events events; /* of the member that this process is */
    uint32_t ups;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int finished[2], released[2];                               /* pipes: gw_mesh_finish */
    int fds[GW_MESH_PEERS][GW_MESH_PEERS][2 + GW_FABRIC_RAILS]; /* [of][to][stream] */
} gw_mesh;

/* The id of member `rank`. */
gw_peer_id gw_mesh_id(uint32_t rank);
/* The algorithm that peers with a key would use on this machine. */
gw_algorithm gw_mesh_sealed(void);
/* Connects all streams of `count` members. */
bool gw_mesh_make(gw_mesh *mesh, uint32_t kinds, uint32_t count, uint32_t rails, gw_algorithm algorithm,
                  gw_err *err);
/* In the process of member `rank`: its transport, when it is linked to all others. */
bool gw_mesh_join(gw_mesh *mesh, uint32_t rank, const gw_transport_events *events, gw_transport **transport,
                  gw_err *err);

/* Waits until all members have come here (or died): a transport that is closed earlier takes what the others
 * still have to read with it. */
void gw_mesh_finish(gw_mesh *mesh, uint32_t rank);

/* Forks and runs `member` in a child for each rank but 0, and in this process for rank 0. Returns true when
 * all returned true; a failure is printed on stderr by the peer that has it. */
bool gw_mesh_run(gw_mesh *mesh, bool (*member)(gw_mesh *mesh, uint32_t rank, void *argument), void *argument);

/* The `percent`-th percentile of unsorted values (sorts them). */
double gw_mesh_percentile(double *values, uint32_t count, uint32_t percent);

#endif
