/* The asking side of one-sided operations on one channel: which operations wait, which pieces of them are
 * asked for, where their answers go. Large READs are cut in pieces, a window of requests in flight, besides
 * FETCHes that were abandoned and are not answered yet. Belongs to the rail's thread. */
#ifndef GODWIT_NET_ONESIDED_REQUESTER_H
#define GODWIT_NET_ONESIDED_REQUESTER_H

#include "net/data/request.h"

enum {
    GW_REQUESTER_WINDOW = 64 /* most requests in flight on a channel; a server may end a link that has more */
};

typedef struct gw_requester gw_requester;

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

/* `window` <= GW_REQUESTER_WINDOW. NULL: out of memory. */
gw_requester *gw_requester_open(uint32_t window, const gw_transport_events *events);
/* The channel is gone: completes everything (asked: UNKNOWN, else UNREACHABLE) and frees. */
void gw_requester_close(gw_requester *requester);

/* Takes the operation (malloc'd). */
void gw_requester_add(gw_requester *requester, gw_posted *posted);
/* The next request and its payload, which stands until the request is answered or abandoned. */
bool gw_requester_next(gw_requester *requester, gw_request *request, struct iovec *payload);
/* A reply with `bytes` of payload came: where to? */
gw_arrival gw_requester_place(gw_requester *requester, const gw_reply *reply, uint32_t bytes,
                              struct iovec *place);
/* The payload of the reply placed last is there. */
void gw_requester_landed(gw_requester *requester);
/* Completes everything with UNKNOWN. The channel must have been released: no `sent` or `landed` is due.
 * False: nothing can be asked here any more until one of GW_REQUESTER_WINDOW abandoned FETCHes is answered, which
 * may never be: the link is to end. */
bool gw_requester_abandon(gw_requester *requester);

#endif
