/* A *stream* is one authenticated TCP connection on a loop (net/secure/secure.h) that carries messages and
 * never blocks. A control link (net/link/link.h) is one stream; a data link (net/fabric/fabric.h) is a set of
 * streams.
 *
 * Life: dialled or accepted -> ready (the other side is authenticated) -> closed. Sockets have TCP_NODELAY,
 * keepalive (a silent host is noticed in about 5 s) and TCP_USER_TIMEOUT. A handshake must finish within
 * GW_HANDSHAKE_NS.
 *
 * Thread: the loop's; a detached stream belongs to the thread that detached it. */
#ifndef GODWIT_NET_LINK_STREAM_H
#define GODWIT_NET_LINK_STREAM_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "net/loop/loop.h"
#include "net/secure/record.h"
#include "net/secure/secure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_HANDSHAKE_NS 5000000000u
/* The period of heartbeats. An attacker who controls the network can discard a record and keep the
 * connection. The next record reveals that by its number, so every stream in use carries a record at least
 * this often. An attacker who discards all later records as well is revealed by the silence (GW_SILENCE_NS).
 *
 * Both sides of a control stream send heartbeats from their loops while the stream is the control link
 * (net/link/link.h). Both sides of a sealed data stream send them from the threads of their rails while the
 * rail has a user, even while an arrived message is parked (net/rail/thread.h). No heartbeat stands between
 * the records of one message. A plain data stream has no records and no heartbeats. */
#define GW_HEARTBEAT_NS 2000000000u
/* The silence after which a reader ends a stream: at least this long, and at most GW_HEARTBEAT_NS longer,
 * counted in the reader's own heartbeats (net/loop/silence.h). It exceeds both the time that TCP may take to
 * deliver a heartbeat (TCP_USER_TIMEOUT, 5 s) and the time after which gossip expels a peer that does not
 * run. Where gossip is configured to be more patient, this limit must be raised with it
 * (gw_links_set_silence). */
#define GW_SILENCE_NS (4 * (uint64_t)GW_HEARTBEAT_NS)

enum {
    GW_MESSAGE_BYTES = 16 << 20,      /* the longest message */
    GW_STREAM_QUEUE_BYTES = 64 << 20, /* most that waits unsent on one stream */
};

typedef enum gw_closed {
    GW_CLOSED_NOT,         /* the stream is open */
    GW_CLOSED_END,         /* the other side closed it in order (its process may have ended) */
    GW_CLOSED_RESET,       /* the connection broke */
    GW_CLOSED_REFUSED,     /* nobody listens there: proof that the process is gone */
    GW_CLOSED_UNREACHABLE, /* no route, network down */
    GW_CLOSED_TIMEOUT,     /* there was no connection, no handshake or no acknowledgement in time */
    GW_CLOSED_PROTOCOL,    /* a wrong handshake or message: the fault and the text say how */
    GW_CLOSED_CORRUPT,     /* a record does not verify: it was changed on the way */
    GW_CLOSED_LOCAL,       /* this side is out of memory or descriptors */
} gw_closed;

typedef struct gw_stream gw_stream;

/* Callbacks may send on, close or detach the stream; after that they must not touch it. */
typedef struct gw_stream_events {
    void *context;
    /* The handshake is done. `remote` lives as long as the stream. */
    void (*ready)(void *context, gw_stream *stream, const gw_remote *remote);
    /* One whole message; `bytes` is valid during the call. */
    void (*message)(void *context, gw_stream *stream, const uint8_t *bytes, size_t count);
    /* The stream has ended, and is freed after this call. It is not called after gw_stream_close or
     * gw_stream_detach. `fault` is not GW_FAULT_NONE only with GW_CLOSED_PROTOCOL in a handshake. `text` is
     * for people. */
    void (*closed)(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text);
} gw_stream_events;

/* Sets the options that every TCP socket of a peer has. Called before the socket connects or listens:
 * accepted sockets inherit the options, and the retransmission timeout is otherwise determined by the
 * connection's first round trip. Any thread. */
void gw_stream_tune(int fd);

/* Dials `to`. `label` is given to the acceptor in the handshake (gw_remote.label). A failure to connect is
 * reported by `closed`, never from inside this call; the call itself fails only when out of memory or
 * descriptors. `local` must outlive the stream. */
gw_stream *gw_stream_dial(gw_loop *loop, const gw_local *local, const gw_addr *to, gw_stream_kind kind,
                          uint64_t label, const gw_stream_events *events, gw_err *err);
/* Dials `to` only to learn whether a peer of this cluster answers there. `ready` is called as after
 * gw_stream_dial, but the handshake's last message has not been sent: `ready` must close the stream, and the
 * other side has seen a dialler that broke off, of which it takes no notice. */
gw_stream *gw_stream_ask(gw_loop *loop, const gw_local *local, const gw_addr *to,
                         const gw_stream_events *events, gw_err *err);
/* Whether the connection was made, as `closed` may ask of a stream that was never ready. */
bool gw_stream_connected(const gw_stream *stream);
/* Dials on a non-blocking socket that is connected already, and takes ownership of it (it is closed on
 * failure). For sockets that are not TCP. */
gw_stream *gw_stream_dial_on(gw_loop *loop, const gw_local *local, int fd, gw_stream_kind kind,
                             const gw_stream_events *events, gw_err *err);
/* Answers on an accepted, non-blocking socket and takes ownership of it (it is closed on failure). For
 * net/link/listener.c. */
gw_stream *gw_stream_answer(gw_loop *loop, const gw_local *local, int fd, const gw_addr *from,
                            const gw_stream_events *events, gw_err *err);
/* Reads what has already arrived, as the loop would in its next turn. Callbacks may come from inside. */
void gw_stream_look(gw_stream *stream);
/* Whether an accepted stream that is not ready yet has received a hello that a holder of the key has made. */
bool gw_stream_proved(const gw_stream *stream);
/* Hands the stream to another owner, whose callbacks are called from now on. */
void gw_stream_set_events(gw_stream *stream, const gw_stream_events *events);

/* Queues one message of 0 to GW_MESSAGE_BYTES bytes, which are copied. The stream must be ready. Fails with
 * GW_E_LIMIT if more than GW_STREAM_QUEUE_BYTES would wait (nothing is queued then), and with GW_E_NOMEM. A
 * break of the connection is reported by `closed`, not from inside this call. */
bool gw_stream_send(gw_stream *stream, const void *bytes, size_t count, gw_err *err);
/* Called every GW_HEARTBEAT_NS by an owner whose other side sends heartbeats. Returns how many calls in a row
 * have found that nothing had arrived (net/loop/silence.h). */
uint32_t gw_stream_silence(gw_stream *stream);
/* The sealed bytes that the kernel has not taken yet. */
size_t gw_stream_queued(const gw_stream *stream);
/* The other side; NULL until the stream is ready. */
const gw_remote *gw_stream_remote(const gw_stream *stream);
/* Closes and frees the stream without a callback; what is still queued is lost. NULL is allowed. */
void gw_stream_close(gw_stream *stream);

/* A stream without its loop: the socket (non-blocking, closed by the receiver), the ciphers of both
 * directions, and bytes that were read already and begin the next record. */
typedef struct gw_detached {
    gw_cipher seal, open;
    gw_remote remote;
    int fd;
    uint8_t *ahead; /* allocated with malloc, freed by the receiver; NULL if ahead_bytes is 0 */
    size_t ahead_bytes;
} gw_detached;

/* Takes a ready stream, with nothing queued, off its loop and frees the gw_stream. Fails only when out of
 * memory and then leaves the stream unchanged. It may be called from inside `ready` and `message`. */
bool gw_stream_detach(gw_stream *stream, gw_detached *out, gw_err *err);
/* Puts a detached stream on the loop of the calling thread, and takes all that it consists of, also on
 * failure. `ready` is not called. Fails with GW_E_PEER if bytes were read ahead: the other side was to
 * wait for a message. */
gw_stream *gw_stream_attach(gw_loop *loop, gw_detached *detached, const gw_stream_events *events,
                            gw_err *err);
/* Closes and frees what a detached stream holds. Does nothing for one that was taken. */
void gw_detached_close(gw_detached *detached);

#endif
