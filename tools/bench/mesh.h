/* Processes for measurements of the data plane: they are forked, each with a transport, and all linked
 * over 127.0.0.1, or by a wire of a given rate. */
#ifndef GODWIT_TOOLS_BENCH_MESH_H
#define GODWIT_TOOLS_BENCH_MESH_H

#include "net/fabric/fabric.h"
#include "tools/bench/slow_wire.h"

#include <pthread.h>

enum { GW_MESH_PEERS = 16 };

typedef struct gw_mesh {
    uint32_t kinds, count, rails; /* kinds: the kinds of path (net/fabric/fabric.h) */
    gw_algorithm algorithm;
    size_t
        libcrypto_from; /* as in gw_cipher_prefer_libcrypto; 0, as peers do it, unless the caller sets it */
    gw_transport_events events; /* the events of this process's member */
    uint32_t ups;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int finished[2], released[2];                               /* pipes of gw_mesh_finish */
    int fds[GW_MESH_PEERS][GW_MESH_PEERS][2 + GW_FABRIC_RAILS]; /* [from][to][stream] */
} gw_mesh;

/* Returns the id of member `rank`. */
gw_peer_id gw_mesh_id(uint32_t rank);
/* Returns the algorithm that peers with a key would use on this machine. */
gw_algorithm gw_mesh_sealed(void);
/* Connects all streams of `count` members. */
bool gw_mesh_make(gw_mesh *mesh, uint32_t kinds, uint32_t count, uint32_t rails, gw_algorithm algorithm,
                  gw_err *err);
/* The same for two members over TCP, of which each has its sockets on its side of a wire. */
bool gw_mesh_make_over(gw_mesh *mesh, const gw_slow_wire *wire, uint32_t rails, gw_algorithm algorithm,
                       gw_err *err);
/* Opens the transport in the process of member `rank`, and waits until it is linked to all others. */
bool gw_mesh_join(gw_mesh *mesh, uint32_t rank, const gw_transport_events *events, gw_transport **transport,
                  gw_err *err);

/* Waits until all members have called it (or died): closing a transport earlier would lose what the others
 * still have to read. */
void gw_mesh_finish(gw_mesh *mesh, uint32_t rank);

/* Runs `member` in a child process for each rank except 0, and in this process for rank 0. Returns true
 * when all returned true; a peer that fails prints its error to stderr. */
bool gw_mesh_run(gw_mesh *mesh, bool (*member)(gw_mesh *mesh, uint32_t rank, void *argument), void *argument);

/* Returns the `percent`-th percentile of the values, which it sorts. */
double gw_mesh_percentile(double *values, uint32_t count, uint32_t percent);

#endif
