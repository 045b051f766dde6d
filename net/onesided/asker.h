/* The asking side of one-sided operations on one channel: which operations wait, which pieces of them are
 * asked for, where their answers go. Large READs are cut in pieces, a window of requests in flight, besides
 * FETCHes that were abandoned and are not answered yet. Belongs to the rail's thread. */
#ifndef GODWIT_NET_ONESIDED_ASKER_H
#define GODWIT_NET_ONESIDED_ASKER_H

#include "net/data/request.h"

enum {
    GW_ASKER_WINDOW = 64 /* most requests in flight on a channel; a server may end a link that has more */
};

typedef struct gw_asker gw_asker;

/* A posted operation and how far it is; what a WRITE writes is behind it. Posted with all but `op` zero. */
typedef struct gw_posted {
    struct gw_posted *next;
    gw_op op;
    uint64_t asked_bytes; /* of a READ */
    uint32_t in_flight;   /* pieces asked for and not answered */
    bool asked, waiting;  /* some of it was asked for; not all of it was */
    gw_op_status status;  /* of the first piece that went wrong; 0: none yet */
    uint64_t value;
    uint8_t payload[];
} gw_posted;

/* `window` <= GW_ASKER_WINDOW. NULL: out of memory. */
gw_asker *gw_asker_open(uint32_t window, const gw_transport_events *events);
/* The channel is gone: completes everything (asked: UNKNOWN, else UNREACHABLE) and frees. */
void gw_asker_close(gw_asker *asker);

/* Takes the operation (malloc'd). */
void gw_asker_add(gw_asker *asker, gw_posted *posted);
/* The next request and its payload, which stands until the request is answered or abandoned. */
bool gw_asker_next(gw_asker *asker, gw_request *request, struct iovec *payload);
/* A reply with `bytes` of payload came: where to? */
gw_arrival gw_asker_place(gw_asker *asker, const gw_reply *reply, uint32_t bytes, struct iovec *place);
/* The payload of the reply placed last is there. */
void gw_asker_landed(gw_asker *asker);
/* Completes everything with UNKNOWN. The channel must have been released: no `sent` or `landed` is due.
 * False: nothing can be asked here any more until one of GW_ASKER_WINDOW abandoned FETCHes is answered, which
 * may never be: the link is to end. */
bool gw_asker_abandon(gw_asker *asker);

#endif
