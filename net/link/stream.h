/* A TCP stream on a loop: authenticated (net/secure/secure.h), framed in messages, not blocking.
 *
 * Life: dialled or accepted -> ready (the other side is known) -> closed. Sockets have TCP_NODELAY, keepalive
 * (a silent host is noticed in about 5 s) and TCP_USER_TIMEOUT; a handshake has GW_HANDSHAKE_NS to finish.
 * Thread: the loop's; a stream that was detached belongs to whoever detached it. */
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
/* Who controls the network can swallow a record and keep the connection. The next one shows it, by its
 * number: so there is one at least so often on all streams that are in use, as somebody may wait for the
 * answer. Who swallows that one as well, and all that come after it, is shown by their absence.
 *
 * Who says one: of a control stream both sides, on their loops, while it is the link (net/link/link.h); of a
 * sealed data stream both sides, on the threads of their rails, while the rail has a user, also while what
 * came is parked (net/rail/thread.h). Between the records of a message there is none, but then these come. A
 * plain data stream has no records, and no heartbeats. */
#define GW_HEARTBEAT_NS 2000000000u
/* And so long, at least, and at most GW_HEARTBEAT_NS longer, the other side may say nothing where this one
 * reads what it says, counted in this side's own heartbeats (net/loop/silence.h): then the connection ends.
 * It is more than TCP may take to get one through (TCP_USER_TIMEOUT, 5 s), and than gossip gives who does not
 * run; where gossip is more patient, so must this be. */
#define GW_SILENCE_NS (4 * (uint64_t)GW_HEARTBEAT_NS)

enum {
    GW_MESSAGE_BYTES = 16 << 20,      /* the longest message */
    GW_STREAM_QUEUE_BYTES = 64 << 20, /* most that waits unsent on one stream */
};

typedef enum gw_closed {
    GW_CLOSED_NOT,         /* it is not */
    GW_CLOSED_END,         /* the other side closed it in order (its process may have ended) */
    GW_CLOSED_RESET,       /* the connection broke */
    GW_CLOSED_REFUSED,     /* nobody listens there: proof that the process is gone */
    GW_CLOSED_UNREACHABLE, /* no route, network down */
    GW_CLOSED_TIMEOUT,     /* no connection, no handshake or no acknowledgement in time */
    GW_CLOSED_PROTOCOL,    /* a handshake or message that is wrong: the fault and the text say how */
    GW_CLOSED_CORRUPT,     /* a record is not what was sent: it was changed on the way */
    GW_CLOSED_LOCAL,       /* this side could not go on: out of memory or descriptors */
} gw_closed;

typedef struct gw_stream gw_stream;

/* Callbacks may send on, close or detach the stream; after that they must not touch it. */
typedef struct gw_stream_events {
    void *context;
    /* The handshake is done; `remote` lives as long as the stream. */
    void (*ready)(void *context, gw_stream *stream, const gw_remote *remote);
    /* One whole message; `bytes` is valid during the call. */
    void (*message)(void *context, gw_stream *stream, const uint8_t *bytes, size_t count);
    /* The stream is over, and is freed after this call. Never called after gw_stream_close or detach.
     * `fault` is not NONE only with GW_CLOSED_PROTOCOL in a handshake. `text` is for a person. */
    void (*closed)(void *context, gw_stream *stream, gw_closed why, gw_fault fault, const char *text);
} gw_stream_events;

/* Sets what every TCP socket has here: before it connects, or listens, for what it accepts then has it too.
 * How soon a lost packet is repeated would otherwise go by the connection's first round trip for long. Any
 * thread. */
void gw_stream_tune(int fd);

/* Connects to `to`. Failing to connect is reported by `closed`, never from inside this call; this fails only
 * for want of memory or descriptors. `local` must outlive the stream. */
gw_stream *gw_stream_dial(gw_loop *loop, const gw_local *local, const gw_addr *to, gw_stream_kind kind,
                          uint64_t label, const gw_stream_events *events, gw_err *err);
/* Answers on an accepted, non-blocking socket, which it takes (closed on failure). net/link/listener.h does
 * this.
 */
gw_stream *gw_stream_answer(gw_loop *loop, const gw_local *local, int fd, const gw_addr *from,
                            const gw_stream_events *events, gw_err *err);
/* Takes what has come already, as the loop would do in its next turn: events may come from inside. */
void gw_stream_look(gw_stream *stream);
/* Of an accepted stream that is not ready yet: its hello was made by a holder of the key. */
bool gw_stream_proved(const gw_stream *stream);
/* Hands a stream to another owner. */
void gw_stream_set_events(gw_stream *stream, const gw_stream_events *events);

/* Queues one message, 0 to GW_MESSAGE_BYTES bytes, which are copied. The stream must be ready. Fails with
 * GW_E_LIMIT when more than GW_STREAM_QUEUE_BYTES would wait (nothing is queued then), or GW_E_NOMEM. A break
 * of the connection is reported by `closed`, not from inside this call. */
bool gw_stream_send(gw_stream *stream, const void *bytes, size_t count, gw_err *err);
/* For who has the other side say something at least every GW_HEARTBEAT_NS, and calls this as often: how many
 * calls in a row have found that nothing had come (net/loop/silence.h). */
uint32_t gw_stream_silence(gw_stream *stream);
/* Sealed bytes that the kernel has not taken yet. */
size_t gw_stream_queued(const gw_stream *stream);
/* NULL until ready. */
const gw_remote *gw_stream_remote(const gw_stream *stream);
/* Closes and frees; what is still queued is lost. No callback. NULL is allowed. */
void gw_stream_close(gw_stream *stream);

/* A stream without its loop: the socket (non-blocking, the receiver's to close), the ciphers of both
 * directions, and bytes already read that the next record begins with. */
typedef struct gw_detached {
    gw_cipher seal, open;
    gw_remote remote;
    int fd;
    uint8_t *ahead; /* malloc'd, the receiver's to free; NULL when ahead_bytes is 0 */
    size_t ahead_bytes;
} gw_detached;

/* Takes a ready stream with nothing queued apart; the stream is freed. Fails (and leaves the stream as it is)
 * only out of memory. From inside `message` only at a message's end, which is always so there. */
bool gw_stream_detach(gw_stream *stream, gw_detached *out, gw_err *err);

#endif
