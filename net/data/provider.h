/* The threads that look up what FETCH asks for, so that no data thread waits for a disk: one for what is in
 * memory (gw-data-memory), one for the rest, which may be in files (gw-data-files). A disk that does not
 * answer holds only the latter, and what is asked of it later. */
#ifndef GODWIT_NET_DATA_PROVIDER_H
#define GODWIT_NET_DATA_PROVIDER_H

#include "net/data/transport.h"

typedef struct gw_provider gw_provider;

/* One question and its answer. Made and freed by who asks. */
typedef struct gw_lookup {
    struct gw_lookup *next;
    gw_peer_id asker;
    gw_hash name;
    uint64_t channel, id; /* the asker's: which channel and request it is for */
    bool of_path;         /* not a channel's: for the end of a path, of this link and try */
    uint64_t link;
    uint32_t serial;
    uint64_t capacity;        /* longer answers are of no use */
    gw_fetch_provider source; /* filled in with the answer */
    gw_op_status status;      /* as its `find` says */
    const void *bytes;        /* GW_OP_OK: until gw_lookup_free */
    uint64_t length;
} gw_lookup;

/* `answered` is called once a lookup, on the provider's threads: on both at once, too. */
gw_provider *gw_provider_open(const gw_fetch_provider *source,
                              void (*answered)(void *context, gw_lookup *lookup), void *context, gw_err *err);
/* Answers what was asked, then ends the threads and frees. */
void gw_provider_close(gw_provider *provider);
/* Any thread: since when (gw_now_ns) the lookup in files that is under way is; 0 = there is none. */
uint64_t gw_provider_files_since(const gw_provider *provider);

/* Any thread. */
void gw_provider_ask(gw_provider *provider, gw_lookup *lookup);
/* Gives the bytes of an answer back, if it has any, and frees it. Any thread, also after the provider has
 * ended. */
void gw_lookup_free(gw_lookup *lookup);

#endif
