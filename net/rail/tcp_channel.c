#include "net/rail/tcp_channel.h"

#include "core/base/assert.h"
#include "net/loop/silence.h"
#include "net/rail/frame.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FRAME = GW_FRAME_BYTES,
    SMALL = 4096,        /* payloads up to this share a record with their header */
    RECORD = 128 * 1024, /* payload of a sealed record, which stays in a core's cache between copies */
    AHEAD = 4096,      /* plain: bytes read beyond the payload, so that one call reads the next header too */
    SCRAP = 64 * 1024, /* bytes of the buffer that dropped payload is read into */
    PARTS = 64,        /* most parts in one system call */
};

typedef struct tcp_channel {
    gw_channel base;
    bool sealed;        /* frames travel in records */
    size_t record_most; /* bytes of the longest record, all included; buffers hold two */

    struct {
        uint8_t frame[FRAME]; /* a message's first bytes */
        size_t frame_sent;
        uint8_t *records; /* sealed: records on their way, records[start, end) */
        size_t start, end;
        bool heartbeat; /* one is due */
    } tx;

    struct {
        uint8_t *bytes; /* read and not used yet: bytes[start, end) */
        size_t start, end, capacity;
        uint8_t *scrap; /* plain: allocated when it is first needed */
        gw_silence silence;
    } rx;

    gw_cipher seal, open;
} tcp_channel;

static const gw_channel_ops tcp_ops;

static tcp_channel *tcp_of(gw_channel *channel) {
    return (tcp_channel *)(void *)channel;
}

/* Life. */

/* Sends small messages at once, and avoids BBR where that is the default: its pacing waits between segments,
 * which halves the throughput on fast, short paths (measured on loopback). The channel works without these
 * settings too. */
static void tune_socket(int fd) {
    static const char *const others[] = {"cubic",
                                         "reno"}; /* an unprivileged process may always choose reno */
    char current[16] = "";
    socklen_t length = sizeof current - 1;
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bool bbr =
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, current, &length) == 0 && strncmp(current, "bbr", 3) == 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0] && bbr; i++)
        bbr = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, others[i], (socklen_t)strlen(others[i])) != 0;
}

static size_t longest_record(uint32_t payload_most) {
    size_t frame = FRAME + (payload_most < SMALL ? payload_most : SMALL);
    size_t payload = payload_most < RECORD ? payload_most : RECORD;
    return (frame > payload ? frame : payload) + GW_RECORD_HEADER + GW_RECORD_TAG;
}

gw_channel *gw_tcp_channel_open(gw_detached *stream, uint32_t rail, uint32_t payload_most, gw_err *err) {
    tcp_channel *channel = calloc(1, sizeof *channel);
    bool sealed = stream->seal.algorithm != GW_ALGORITHM_PLAIN;
    size_t record_most = longest_record(payload_most), capacity = sealed ? 2 * record_most : AHEAD;
    if (capacity < stream->ahead_bytes) capacity = stream->ahead_bytes;
    uint8_t *bytes = malloc(capacity), *records = sealed ? malloc(2 * record_most) : NULL;
    if (channel == NULL || bytes == NULL || (sealed && records == NULL)) {
        gw_fail(err, GW_E_NOMEM, "net/rail: no memory for a channel");
        free(channel);
        free(bytes);
        free(records);
        gw_detached_close(stream);
        return NULL;
    }
    if (stream->ahead_bytes > 0) memcpy(bytes, stream->ahead, stream->ahead_bytes);
    channel->base =
        (gw_channel){.peer = {.id = stream->remote.id, .rail = rail, .packs = true, .unpacks = true},
                     .ops = &tcp_ops,
                     .fd = stream->fd};
    channel->sealed = sealed;
    channel->base.payload_most = payload_most;
    channel->record_most = record_most;
    gw_cipher_move(&channel->seal, &stream->seal);
    gw_cipher_move(&channel->open, &stream->open);
    channel->tx.records = records;
    channel->rx.bytes = bytes;
    channel->rx.end = stream->ahead_bytes;
    channel->rx.capacity = capacity;
    tune_socket(stream->fd);
    stream->fd = -1;
    gw_detached_close(stream);
    return &channel->base;
}

static void tcp_close(gw_channel *base) {
    tcp_channel *channel = tcp_of(base);
    close(channel->base.fd);
    gw_cipher_wipe(&channel->seal);
    gw_cipher_wipe(&channel->open);
    free(channel->base.out.own);
    free(channel->tx.records);
    free(channel->rx.bytes);
    free(channel->rx.scrap);
    free(channel);
}

/* Sending. */

static bool take_next(tcp_channel *channel, const gw_rail_user *user) {
    gw_rail_message message;
    if (!gw_channel_take(&channel->base, user, &message)) return false;
    gw_frame_encode(&message, channel->tx.frame);
    channel->tx.frame_sent = 0;
    return true;
}

static gw_flow socket_trouble(const char *verb, gw_err *err) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return GW_FLOW_BLOCKED;
    if (errno == EINTR) return GW_FLOW_MORE;
    gw_fail(err, errno == ETIMEDOUT ? GW_E_UNHEARD : GW_E_PEER, "net/rail: %s: %s", verb, strerror(errno));
    return GW_FLOW_BROKEN;
}

static gw_flow send_plain(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    if (!channel->base.out.active && !take_next(channel, user)) return GW_FLOW_IDLE;
    struct iovec parts[PARTS];
    uint32_t count = 0;
    size_t frame_left = FRAME - channel->tx.frame_sent, payload;
    if (frame_left > 0)
        parts[count++] = (struct iovec){channel->tx.frame + channel->tx.frame_sent, frame_left};
    count += gw_cursor_parts(&channel->base.out.payload, parts + count, PARTS - count, &payload);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = sendmsg(channel->base.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return socket_trouble("send", err);
    size_t of_frame = (size_t)sent < frame_left ? (size_t)sent : frame_left;
    channel->tx.frame_sent += of_frame;
    gw_cursor_advance(&channel->base.out.payload, (size_t)sent - of_frame);
    if (channel->tx.frame_sent == FRAME && channel->base.out.payload.left == 0)
        gw_channel_sent(&channel->base, user);
    return GW_FLOW_MORE;
}

/* Seals the next record of the current message behind the records in tx.records. */
static bool seal_record(tcp_channel *channel, gw_err *err) {
    uint8_t *record = channel->tx.records + channel->tx.end, *plain = record + GW_RECORD_HEADER;
    gw_cursor *payload = &channel->base.out.payload;
    const uint8_t *from = plain;
    size_t length = 0;
    if (channel->tx.frame_sent == 0) {
        memcpy(plain, channel->tx.frame, FRAME);
        length = FRAME;
        channel->tx.frame_sent = FRAME;
        if (payload->left <= SMALL) {
            length += payload->left;
            gw_cursor_copy(payload, plain + FRAME, payload->left, true);
        }
    } else {
        length = payload->left < RECORD ? payload->left : RECORD;
        from = gw_cursor_contiguous(payload, length);
        if (from == NULL) {
            gw_cursor_copy(payload, plain, length, true);
            from = plain;
        } else
            gw_cursor_advance(payload, length);
    }
    if (!gw_record_seal(&channel->seal, from, length, false, record, err)) return false;
    channel->tx.end += gw_record_bytes(&channel->seal, length);
    return true;
}

/* An empty record between messages. */
static bool seal_heartbeat(tcp_channel *channel, gw_err *err) {
    channel->tx.heartbeat = false;
    if (!gw_record_seal(&channel->seal, NULL, 0, false, channel->tx.records, err)) return false;
    channel->tx.end = gw_record_bytes(&channel->seal, 0);
    return true;
}

/* Counts silence. A parked channel is not read, so nothing can be missed there. */
static uint32_t tcp_heartbeat(gw_channel *base) {
    tcp_channel *channel = tcp_of(base);
    channel->tx.heartbeat = channel->sealed;
    if (channel->sealed && !base->in.parked) return gw_silence_beat(&channel->rx.silence);
    channel->rx.silence = (gw_silence){0};
    return 0;
}

static gw_flow send_sealed(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    if (channel->tx.start == channel->tx.end) channel->tx.start = channel->tx.end = 0;
    while (channel->tx.start == 0 && 2 * channel->record_most - channel->tx.end >= channel->record_most) {
        if (!channel->base.out.active && !take_next(channel, user)) break;
        if (!seal_record(channel, err)) return GW_FLOW_BROKEN;
        if (channel->base.out.payload.left == 0) gw_channel_sent(&channel->base, user);
    }
    if (channel->tx.end == 0 && channel->tx.heartbeat && !seal_heartbeat(channel, err)) return GW_FLOW_BROKEN;
    if (channel->tx.end == 0) return GW_FLOW_IDLE;
    ssize_t sent = send(channel->base.fd, channel->tx.records + channel->tx.start,
                        channel->tx.end - channel->tx.start, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return socket_trouble("send", err);
    channel->tx.start += (size_t)sent;
    return GW_FLOW_MORE;
}

static gw_flow tcp_send(gw_channel *base, const gw_rail_user *user, gw_err *err) {
    tcp_channel *channel = tcp_of(base);
    return channel->sealed ? send_sealed(channel, user, err) : send_plain(channel, user, err);
}

/* Receiving. */

static gw_flow broken(gw_err *err, const char *what) {
    gw_fail(err, GW_E_PEER, "net/rail: %s", what);
    return GW_FLOW_BROKEN;
}

/* Asks the user about the message whose header has arrived. */
static gw_flow ask(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    gw_flow flow = gw_channel_ask(&channel->base, user, err);
    channel->base.in.message.fold = false; /* most of a payload is read straight into its place */
    if (flow == GW_FLOW_MORE && channel->base.in.message.bytes == 0)
        gw_channel_received(&channel->base, user);
    return flow;
}

static bool parse_frame(tcp_channel *channel, const uint8_t *frame) {
    channel->base.in.state = GW_INCOMING_ASK;
    return gw_frame_decode(frame, channel->base.payload_most, &channel->base.in.message);
}

/* Moves payload that lies at `bytes` to its place. */
static void take_payload(tcp_channel *channel, const gw_rail_user *user, uint8_t *bytes, size_t count) {
    gw_channel_deliver(&channel->base, user, bytes, count);
    if (channel->base.in.payload.left == 0) gw_channel_received(&channel->base, user);
}

/* Uses the bytes that have been read. GW_FLOW_MORE: everything that can be used is used. */
static gw_flow use_plain(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    for (;;) {
        size_t have = channel->rx.end - channel->rx.start;
        uint8_t *bytes = channel->rx.bytes + channel->rx.start;
        if (channel->base.in.state == GW_INCOMING_ASK) {
            gw_flow flow = ask(channel, user, err);
            if (flow != GW_FLOW_MORE) return flow;
        } else if (channel->base.in.state == GW_INCOMING_HEAD) {
            if (have < FRAME) return GW_FLOW_MORE;
            if (!parse_frame(channel, bytes)) return broken(err, "the peer sent garbage instead of a frame");
            channel->rx.start += FRAME;
        } else {
            if (have == 0) return GW_FLOW_MORE;
            size_t take = have < channel->base.in.payload.left ? have : channel->base.in.payload.left;
            channel->rx.start += take;
            take_payload(channel, user, bytes, take);
        }
    }
}

static void close_up(tcp_channel *channel) {
    size_t have = channel->rx.end - channel->rx.start;
    if (channel->rx.start == 0) return;
    memmove(channel->rx.bytes, channel->rx.bytes + channel->rx.start, have);
    channel->rx.start = 0;
    channel->rx.end = have;
}

static gw_flow receive_plain(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    gw_flow flow = use_plain(channel, user, err);
    if (flow != GW_FLOW_MORE) return flow;
    close_up(channel);
    struct iovec parts[PARTS];
    uint32_t count = 0;
    size_t direct = 0, left = channel->base.in.payload.left;
    if (channel->base.in.state == GW_INCOMING_LAND) {
        count = gw_cursor_parts(&channel->base.in.payload, parts, PARTS - 1, &direct);
    } else if (channel->base.in.state == GW_INCOMING_DROP) {
        if (channel->rx.scrap == NULL) channel->rx.scrap = malloc(SCRAP);
        if (channel->rx.scrap == NULL) return broken(err, "no memory");
        direct = left < SCRAP ? left : SCRAP;
        parts[count++] = (struct iovec){channel->rx.scrap, direct};
    }
    /* Reads ahead only behind the whole payload. */
    if (channel->base.in.state == GW_INCOMING_HEAD || direct == left)
        parts[count++] =
            (struct iovec){channel->rx.bytes + channel->rx.end, channel->rx.capacity - channel->rx.end};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t got = recvmsg(channel->base.fd, &message, MSG_DONTWAIT);
    if (got < 0) return socket_trouble("receive", err);
    if (got == 0) return broken(err, "the peer closed the connection");
    size_t of_payload = (size_t)got < direct ? (size_t)got : direct;
    channel->rx.end += (size_t)got - of_payload;
    if (of_payload > 0) {
        if (channel->base.in.state == GW_INCOMING_LAND)
            gw_cursor_advance(&channel->base.in.payload, of_payload);
        else
            channel->base.in.payload.left -= of_payload;
        if (channel->base.in.payload.left == 0) gw_channel_received(&channel->base, user);
    }
    return use_plain(channel, user, err);
}

static bool open_record(tcp_channel *channel, const uint8_t *record, size_t record_bytes, uint8_t *payload,
                        gw_err *err) {
    if (!gw_record_open(&channel->open, record, record_bytes, payload, err)) return false;
    gw_silence_record(&channel->rx.silence);
    return true;
}

/* Opens one whole record and uses its content. */
static gw_flow use_record(tcp_channel *channel, const gw_rail_user *user, uint8_t *record,
                          size_t record_bytes, gw_err *err) {
    uint8_t *plain = record + GW_RECORD_HEADER;
    size_t length = record_bytes - gw_record_bytes(&channel->open, 0);
    bool payload = channel->base.in.state == GW_INCOMING_LAND || channel->base.in.state == GW_INCOMING_DROP;
    if (payload && (length == 0 || length > channel->base.in.payload.left))
        return broken(err, "the peer sent a record that overruns its message");
    if (channel->base.in.state == GW_INCOMING_LAND) {
        uint8_t *place = gw_cursor_contiguous(&channel->base.in.payload, length);
        if (!open_record(channel, record, record_bytes, place != NULL ? place : plain, err))
            return GW_FLOW_BROKEN;
        if (place != NULL) {
            gw_cursor_advance(&channel->base.in.payload, length);
            if (channel->base.in.payload.left == 0) gw_channel_received(&channel->base, user);
            return GW_FLOW_MORE;
        }
    } else if (!open_record(channel, record, record_bytes, plain, err))
        return GW_FLOW_BROKEN;
    if (payload) {
        take_payload(channel, user, plain, length);
        return GW_FLOW_MORE;
    }
    if (length == 0) return GW_FLOW_MORE; /* a heartbeat */
    if (length < FRAME || !parse_frame(channel, plain))
        return broken(err, "the peer sent garbage for a frame");
    size_t inlined = length - FRAME;
    if (inlined != (channel->base.in.message.bytes <= SMALL ? channel->base.in.message.bytes : 0))
        return broken(err, "the peer sent a frame of the wrong length");
    return GW_FLOW_MORE;
}

/* Uses the records that have been read. A record with a header is used in two steps: the user may park the
 * message, and the payload then waits with it. */
static gw_flow use_sealed(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    for (;;) {
        size_t have = channel->rx.end - channel->rx.start, record_bytes;
        uint8_t *record = channel->rx.bytes + channel->rx.start;
        bool more;
        if (have < GW_RECORD_HEADER) return GW_FLOW_MORE;
        if (!gw_record_measure(&channel->open, record, &record_bytes, &more, err)) return GW_FLOW_BROKEN;
        if (more || record_bytes > channel->record_most)
            return broken(err, "the peer sent a record of another kind of stream");
        if (have < record_bytes) return GW_FLOW_MORE;
        if (channel->base.in.state ==
            GW_INCOMING_ASK) { /* the present record belongs to this message and is open */
            gw_flow flow = ask(channel, user, err);
            if (flow != GW_FLOW_MORE) return flow;
            channel->rx.start += record_bytes;
            uint32_t bytes = channel->base.in.message.bytes;
            if (bytes > 0 && bytes <= SMALL)
                take_payload(channel, user, record + GW_RECORD_HEADER + FRAME, bytes);
        } else {
            gw_flow flow = use_record(channel, user, record, record_bytes, err);
            if (flow != GW_FLOW_MORE) return flow;
            if (channel->base.in.state != GW_INCOMING_ASK) channel->rx.start += record_bytes;
        }
    }
}

static gw_flow receive_sealed(tcp_channel *channel, const gw_rail_user *user, gw_err *err) {
    gw_flow flow = use_sealed(channel, user, err);
    if (flow != GW_FLOW_MORE) return flow;
    close_up(channel);
    ssize_t got = recv(channel->base.fd, channel->rx.bytes + channel->rx.end,
                       channel->rx.capacity - channel->rx.end, MSG_DONTWAIT);
    if (got < 0) return socket_trouble("receive", err);
    if (got == 0) return broken(err, "the peer closed the connection");
    channel->rx.end += (size_t)got;
    gw_silence_bytes(&channel->rx.silence, (size_t)got);
    return use_sealed(channel, user, err);
}

static gw_flow tcp_receive(gw_channel *base, const gw_rail_user *user, gw_err *err) {
    tcp_channel *channel = tcp_of(base);
    if (channel->base.in.parked) return GW_FLOW_IDLE;
    return channel->sealed ? receive_sealed(channel, user, err) : receive_plain(channel, user, err);
}

static const gw_channel_ops tcp_ops = {
    .send = tcp_send,
    .receive = tcp_receive,
    .heartbeat = tcp_heartbeat,
    .close = tcp_close,
};
