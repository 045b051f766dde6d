/* The service of a peer for clients (tools/godwit/service/message.h): programs that hold the cluster's key,
 * or that run in the peer's directory, and read checkpoints from this peer and, through it, from the others,
 * or trace what it does.
 *
 * A client cannot hurt the job. Everything is done by two threads of low priority, for one request at a
 * time: gw-service, which talks to the clients, and gw-service-read, which reads the disk and fetches from
 * other peers. At most GW_SERVICE_CLIENTS clients are served, each with one request under way; one more
 * ends the connection that has been idle for longest. Chunks are handed out at GW_SERVICE_BYTES_PER_S at
 * most, to all clients together. A trace is what the rings of the threads hold (core/os/trace.h), which do not
 * grow: a client that is too slow loses records. Nothing is changed on any disk, except that a damaged chunk is
 * quarantined, as by every read. */
#ifndef GODWIT_TOOLS_GODWIT_SERVICE_SERVICE_H
#define GODWIT_TOOLS_GODWIT_SERVICE_SERVICE_H

#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "net/link/stream.h"
#include "tools/godwit/service/message.h"
#include "tools/godwit/trace/batch.h"

enum { GW_SERVICE_CLIENTS = 8, GW_SERVICE_BYTES_PER_S = 64 << 20 };

typedef struct gw_service gw_service;

/* What the service asks of the node. The functions are called on the service's threads. */
typedef struct gw_service_world {
    void *context;
    const char *name; /* of this peer, as people call it; borrowed */
    /* Lists the other peers that are known: `id`, `addr`, `name`, and as `knowledge` GW_HOLDER_SILENT for
     * those that are gone, of which nothing can be fetched. Returns how many, at most `most`. */
    uint32_t (*peers)(void *context, gw_service_holder *peers, uint32_t most);
    /* Fetches a chunk from a peer, which may take seconds. GW_E_NOTFOUND: the peer does not have it;
     * GW_E_PEER: it does not answer. */
    bool (*fetch)(void *context, const gw_peer_id *peer, const gw_hash *name, void *bytes, uint32_t length,
                  gw_err *err);
    /* Asks a peer which chunks of a checkpoint it has; the caller frees the set. Fails as `fetch` does, with
     * GW_E_NOTFOUND where the peer does not tell. */
    bool (*held)(void *context, const gw_peer_id *peer, const gw_checkpoint_key *checkpoint, gw_set *chunks,
                 gw_err *err);
    uint32_t workers; /* threads of this peer that compute shards */
    /* Lists what runs now and began before it could be recorded: shards, a reduction. Returns how many, at most
     * `most`. NULL: nothing of it is known. */
    uint32_t (*open_spans)(void *context, gw_trace_unended *list, uint32_t most);
} gw_service_world;

/* Starts the service. `local` is the peer as it presents itself to others; it, the store and the world's
 * context are borrowed. NULL on failure. */
gw_service *gw_service_open(const gw_local *local, gw_store *store, const gw_service_world *world,
                            gw_err *err);
/* Ends all connections and the threads. The functions of the world must come to an end soon. Returns false if
 * a disk does not return: then nothing is freed, and the process must end as it is. NULL is allowed. */
bool gw_service_close(gw_service *service);

/* Takes an authenticated stream of kind GW_STREAM_CLIENT off the calling thread's loop. */
void gw_service_take(gw_service *service, gw_stream *stream);
/* Takes a connection of the directory's control socket, which proves by itself that the client may read the
 * directory: the handshake that follows on it has no key. Any thread. */
void gw_service_take_local(gw_service *service, int fd);
/* The cluster that both sides of such a connection name in the handshake. */
void gw_service_local_cluster(gw_hash *cluster);

/* The chunks of a checkpoint that are in a store, by their names and lengths alone. The caller frees the set.
 * Any thread. */
gw_set gw_service_held(gw_store *store, const gw_manifest *manifest);

#endif
