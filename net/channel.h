/* One message channel of a TCP lane: frames on a socket, bare or in sealed records, read straight into the
 * places that the lane's user names. Does no waiting and has no thread: the lane's thread (net/tcp_lane.h)
 * calls it when the socket may be ready. Everything here belongs to that thread. */
#ifndef GODWIT_NET_CHANNEL_H
#define GODWIT_NET_CHANNEL_H

#include "net/lane.h"
#include "net/stream.h"

typedef struct gw_channel gw_channel;

typedef enum gw_flow {
    GW_FLOW_MORE = 1, /* something moved; call again */
    GW_FLOW_BLOCKED,  /* the socket has nothing, or no room: wait for it */
    GW_FLOW_IDLE,     /* nothing to send, or parked: wait for the user */
    GW_FLOW_BROKEN,   /* err says why; the channel is of no more use */
} gw_flow;

/* Takes the socket, ciphers and bytes of `stream` (also on failure: then all is closed and freed). Messages
 * have at most `payload_most` bytes of payload, in both directions: buffers are made for that, and a peer
 * that sends longer ones is refused. `owner` is what gw_channel_owner gives back. */
gw_channel *gw_channel_open(gw_detached *stream, uint32_t lane, uint32_t payload_most, void *owner,
                            gw_err *err);
/* Closes the socket; no handler is called. */
void gw_channel_close(gw_channel *channel);

/* About one system call's worth of sending or receiving; calls the user's handlers. */
gw_flow gw_channel_send(gw_channel *channel, const gw_lane_user *user, gw_err *err);
gw_flow gw_channel_receive(gw_channel *channel, const gw_lane_user *user, gw_err *err);

/* Lets go of the user's memory, as lane_release says. False: out of memory, the channel must be closed. */
bool gw_channel_release(gw_channel *channel);
/* The parked message, if there is one, is asked about again by the next receive. */
void gw_channel_resume(gw_channel *channel);
bool gw_channel_is_parked(const gw_channel *channel);

int gw_channel_fd(const gw_channel *channel);
void *gw_channel_owner(const gw_channel *channel);
gw_lane_peer *gw_channel_peer(gw_channel *channel);
/* The channel that a lane peer is the face of. */
gw_channel *gw_channel_of(gw_lane_peer *peer);

#endif
