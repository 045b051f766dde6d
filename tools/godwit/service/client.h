/* A client of a running peer's service (tools/godwit/service/service.h): it reads checkpoints through that
 * peer, from its disk and from those of the other peers, or traces what the peer does.
 *
 * Nothing that arrives is trusted: a manifest must be the one that was asked for and match its root, a
 * chunk must have its name's hash. A connection that breaks is made again, to the same peer or, with a
 * key, to another one that the first has told of. Calls block; a client belongs to one thread at a time. */
#ifndef GODWIT_TOOLS_GODWIT_SERVICE_CLIENT_H
#define GODWIT_TOOLS_GODWIT_SERVICE_CLIENT_H

#include "checkpoint/catalog.h"
#include "tools/godwit/service/message.h"
#include "tools/godwit/service/place.h"
#include "tools/godwit/trace/batch.h"
#include "tools/godwit/trace/offset.h"

typedef struct gw_client gw_client;

/* Connects to a peer by its address. `program` begins the lines on stderr that tell of peers that do not
 * answer, and of the progress of long transfers; it is borrowed. Fails with GW_E_USAGE if the address or
 * the key file makes no sense, GW_E_DENIED if the peer does not let this client in, else with GW_E_PEER or
 * GW_E_NOTFOUND. */
gw_client *gw_client_dial(const gw_client_place *place, const char *program, gw_err *err);
/* Connects to the peer that runs in this state directory, without a key. Fails with GW_E_NOTFOUND if none
 * does. */
gw_client *gw_client_open(const char *dir, const char *program, gw_err *err);
/* NULL is allowed. */
void gw_client_close(gw_client *client);

/* The peer as people know it: "10.0.0.1:7117", or "the peer in DIR". Valid as long as the client. */
const char *gw_client_name(const gw_client *client);

/* Lists the manifests that the peer has, of all jobs, in the order of a catalog; those that do not arrive
 * sound are among the bad ones. The caller frees the catalog, also after a failure. */
bool gw_client_catalog(gw_client *client, gw_catalog *catalog, gw_err *err);

/* Who has which chunks of a checkpoint. */
typedef struct gw_chunk_holders {
    gw_service_holder *list; /* the asked peer first */
    uint32_t count;
} gw_chunk_holders;

/* Asks which chunks of a checkpoint the peer has and, with `others`, which ones the other peers have. The
 * caller frees the holders. */
bool gw_client_holders(gw_client *client, const gw_manifest *manifest, bool others, gw_chunk_holders *holders,
                       gw_err *err);
void gw_chunk_holders_free(gw_chunk_holders *holders);
/* Whether this holder has the chunk, as far as is known. */
bool gw_holder_has(const gw_service_holder *holder, uint32_t chunk);
/* Writes who this is for people: "node2 (1138b321, 10.0.0.2:7117)", or without a name "1138b321
 * (10.0.0.2:7117)". Returns `text`. */
enum { GW_HOLDER_TEXT = GW_SHORT_TEXT + GW_ADDR_TEXT + GW_SERVICE_NAME_TEXT + 8 };
const char *gw_holder_text(const gw_service_holder *holder, char text[GW_HOLDER_TEXT]);

/* Reads a chunk from one of its holders to `bytes`, which has room for it, and verifies it. A holder that
 * does not answer is noted in `holders` as silent, told of once, and not asked again. Fails with
 * GW_E_NOTFOUND if no holder that answers has it. */
bool gw_client_chunk(gw_client *client, const gw_manifest *manifest, uint32_t chunk,
                     gw_chunk_holders *holders, void *bytes, gw_err *err);

/* Tracing. These requests are not repeated: where the connection ends, the peer has ended, or is of a build
 * that does not know them. */

/* The peers that are known, the asked one first, and how they are reached. */
typedef struct gw_members {
    gw_service_holder *list; /* GW_HOLDER_SILENT: it is gone */
    uint32_t count;
    gw_hash cluster;
    bool keyed; /* they let in only who has the key of the flock */
} gw_members;

/* Asks for the members; the caller frees them. */
bool gw_client_members(gw_client *client, gw_members *members, gw_err *err);
void gw_members_free(gw_members *members);

/* Connects to a member of a cluster as gw_client_dial does, by what gw_client_members has told of both.
 * `key_file` NULL: the flock has no key. The name is copied. */
gw_client *gw_client_dial_member(const gw_service_holder *member, const gw_hash *cluster,
                                 const char *key_file, const char *program, gw_err *err);

/* Asks for the peer's clock. */
bool gw_client_time(gw_client *client, gw_trace_round *round, gw_err *err);
/* Begins to trace, or brings what was recorded since the last call. The caller frees the batch. */
bool gw_client_trace(gw_client *client, gw_trace_batch *batch, gw_err *err);

#endif
