/* The two threads that look up the names of FETCHes, so that no data thread waits for a disk: gw-data-memory
 * for names that are found in memory, gw-data-files for all others. A disk that hangs holds up the latter
 * alone. */
#ifndef GODWIT_NET_DATA_PROVIDER_H
#define GODWIT_NET_DATA_PROVIDER_H

#include "net/data/transport.h"

typedef struct gw_provider gw_provider;

/* One lookup: the name and, later, the answer. The asking side allocates and frees it. */
typedef struct gw_lookup {
    struct gw_lookup *next;
    gw_peer_id requester;
    gw_hash name;
    uint64_t channel, id; /* the requester's channel and request */
    /* The lookup is for a path's endpoint rather than a channel, identified by `link` and `serial`. */
    bool of_path;
    uint64_t link;
    uint32_t serial;
    uint64_t capacity;        /* the longest answer that the requester has room for */
    gw_fetch_provider source; /* the provider that has answered */
    gw_op_status status;      /* the result of its `find` */
    const void *bytes;        /* GW_OP_OK: valid until gw_lookup_free */
    uint64_t length;
} gw_lookup;

/* Starts the threads. `answered` is called once for each lookup, on the provider's threads, perhaps on both
 * at once. NULL on failure. */
gw_provider *gw_provider_open(const gw_fetch_provider *source,
                              void (*answered)(void *context, gw_lookup *lookup), void *context, gw_err *err);
/* Answers what was requested, then ends the threads and frees the provider. */
void gw_provider_close(gw_provider *provider);
/* The time (gw_now_ns) at which the present lookup in files began; 0 if there is none. Any thread. */
uint64_t gw_provider_files_since(const gw_provider *provider);

/* Takes a lookup, which `answered` returns. Any thread. */
void gw_provider_ask(gw_provider *provider, gw_lookup *lookup);
/* Gives the bytes of an answer back, if it has any, and frees the lookup. Any thread, also after the provider
 * has ended. */
void gw_lookup_free(gw_lookup *lookup);

#endif
