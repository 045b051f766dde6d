/* The requesting side of one-sided operations on one channel: it keeps the operations that wait, the
 * pieces that are requested, and the places where replies go. Large READs are cut into pieces. A window
 * bounds the requests in flight, not counting FETCHes that were abandoned and are not answered yet.
 * Thread: the rail's. */
#ifndef GODWIT_NET_ONESIDED_REQUESTER_H
#define GODWIT_NET_ONESIDED_REQUESTER_H

#include "net/data/request.h"

enum {
    GW_REQUESTER_WINDOW = 64 /* most requests in flight on a channel; a server may end a link that has more */
};

typedef struct gw_requester gw_requester;

/* A posted operation and its progress, followed by the payload of a WRITE. When it is posted, all fields but
 * `op` are zero. */
typedef struct gw_posted {
    struct gw_posted *next;
    gw_op op;
    uint64_t asked_bytes; /* bytes of a READ that were requested */
    uint32_t in_flight;   /* pieces that were requested and are not answered */
    bool asked, waiting;  /* asked: some of it was requested; waiting: not all of it was */
    gw_op_status status;  /* the status of the first piece that failed; 0: none has */
    uint64_t value;
    uint8_t payload[];
} gw_posted;

/* Opens a requester without operations. `window` is at most GW_REQUESTER_WINDOW. NULL if out of memory. */
gw_requester *gw_requester_open(uint32_t window, const gw_transport_events *events);
/* Completes everything when the channel is gone (requested operations with GW_OP_UNKNOWN, the others with
 * GW_OP_UNREACHABLE), and frees the requester. */
void gw_requester_close(gw_requester *requester);

/* Takes an operation, which was allocated with malloc. */
void gw_requester_add(gw_requester *requester, gw_posted *posted);
/* Gives the next request and its payload, which stays until the request is answered or abandoned. False if
 * there is none. */
bool gw_requester_next(gw_requester *requester, gw_request *request, struct iovec *payload);
/* Decides where the payload of an arriving reply goes, of `bytes` bytes. */
gw_arrival gw_requester_place(gw_requester *requester, const gw_reply *reply, uint32_t bytes,
                              struct iovec *place);
/* Notes that the payload of the reply placed last has arrived. */
void gw_requester_landed(gw_requester *requester);
/* Completes everything with GW_OP_UNKNOWN. The channel must have been released: no `sent` or `landed` may
 * follow. False if nothing can be requested here until one of GW_REQUESTER_WINDOW abandoned FETCHes is
 * answered, which may never be: the link must end. */
bool gw_requester_abandon(gw_requester *requester);

#endif
