/* Targets for bytes from a linked peer beside control messages: frames on its sockets, and messages about
 * GPUs. */
#include "core/base/wire.h"
#include "net/nccl/gpu_team.h"
#include "net/rail/tcp_channel.h"
#include "tests/fuzz/target.h"
#include "tests/net/sealed_frame.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LENGTH_BYTES = 2 };

/* Frames. The first byte chooses the kind of channel, and whether frames get their right checksum, which
 * no search would hit; the second one chooses how much of the stream came before the channel was opened.
 * On a sealed channel the frames lie in records, each after two bytes with its length. */

enum { SEALED = 1, LONG = 2, UNCHECKED = 4, FRAME = GW_FRAME_BYTES, MORE = 0x8000 };
/* it does not fit into the record of its header */
enum { SHORT_MOST = 200, LONG_MOST = 5000, STREAM = 1 << 16 };
/* Operations that the first byte of a header chooses. */
enum { LAND, LAND_IN_PARTS, DROP, PARK, WISHES };

static const uint8_t record_key[32] = {3};

/* The bytes as they should be understood, and the outcome. */
typedef struct listener {
    uint8_t *said;
    size_t said_bytes, at; /* end of the messages that have been judged */
    uint8_t *place;        /* length of the message that is landing */
    struct iovec parts[2];
    uint32_t bytes, most; /* messages with payload, and all messages */
    bool parked;
} listener;

static gw_arrival arrive(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)peer;
    listener *l = context;
    GW_ASSERT(l->place == NULL && message->bytes <= l->most && l->said_bytes - l->at >= FRAME);
    GW_ASSERT(memcmp(message->header, l->said + l->at + 8, GW_RAIL_HEADER) == 0);
    uint8_t wish = message->header[0];
    if (wish >= WISHES) return GW_ARRIVAL_REFUSE;
    bool again = l->parked;
    l->parked = wish == PARK && !again;
    if (l->parked) return GW_ARRIVAL_PARK;
    l->at += FRAME + message->bytes; /* it may be beyond the end of the input */
    if (wish == DROP) return GW_ARRIVAL_DROP;
    l->bytes = message->bytes;
    l->place = malloc(l->bytes + 1);
    GW_ASSERT_MEMORY(l->place != NULL);
    uint32_t first = wish == LAND_IN_PARTS ? l->bytes / 3 : l->bytes;
    l->parts[0] = (struct iovec){l->place, first};
    l->parts[1] = (struct iovec){l->place + first, l->bytes - first};
    message->parts = l->parts;
    message->part_count = 2;
    return GW_ARRIVAL_LAND;
}

static void landed(void *context, gw_rail_peer *peer) {
    (void)peer;
    listener *l = context;
    GW_ASSERT(l->place != NULL && l->at <= l->said_bytes);
    GW_ASSERT(memcmp(l->place, l->said + l->at - l->bytes, l->bytes) == 0);
    free(l->place);
    l->place = NULL;
}

/* Returns the next record of a sealed stream. */
static size_t take_record(const uint8_t *bytes, size_t count, size_t *at, bool *more) {
    size_t word = (size_t)bytes[*at] | (size_t)bytes[*at + 1] << 8, payload = word & ~(size_t)MORE;
    *more = (word & MORE) != 0;
    *at += LENGTH_BYTES;
    if (payload > count - *at) payload = count - *at;
    return payload;
}

/* Checks that the records hold the stream's bytes in order. */
static void open_records(const uint8_t *bytes, size_t count, listener *l) {
    bool more;
    for (size_t at = 0; at + LENGTH_BYTES <= count;) {
        size_t payload = take_record(bytes, count, &at, &more);
        memcpy(l->said + l->said_bytes, bytes + at, payload);
        l->said_bytes += payload;
        at += payload;
    }
}

static void check_frames(listener *l) {
    gw_rail_message message;
    for (size_t at = 0; l->said_bytes - at >= FRAME; at += message.bytes) {
        seal_frame(l->said + at);
        if (!gw_frame_decode(l->said + at, l->most, &message)) return;
        at += FRAME;
        if (message.bytes > l->said_bytes - at) return;
    }
}

/* The bytes of the stream, in these records. */
static size_t seal_all(const uint8_t *bytes, size_t count, const listener *l, uint8_t *sealed) {
    static gw_cipher cipher; /* aligned as it wants to be */
    size_t length = 0, said = 0;
    gw_err err;
    bool more;
    gw_cipher_start(&cipher, GW_ALGORITHM_CHACHA20, record_key, GW_RECORD_DATA);
    for (size_t at = 0; at + LENGTH_BYTES <= count;) {
        size_t payload = take_record(bytes, count, &at, &more);
        if (length + gw_record_bytes(&cipher, payload) > STREAM) break;
        GW_ASSERT(gw_record_seal(&cipher, l->said + said, payload, more, sealed + length, &err));
        length += gw_record_bytes(&cipher, payload);
        said += payload;
        at += payload;
    }
    gw_cipher_wipe(&cipher);
    return length;
}

/* A part of the stream has arrived already; the rest comes through the socket. */
static gw_channel *open_channel(bool sealed, uint32_t most, const uint8_t *bytes, size_t count, size_t ahead,
                                int *other) {
    static gw_detached stream; /* aligned as it wants to be */
    int ends[2];
    gw_err err;
    GW_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    stream = (gw_detached){.fd = ends[0], .ahead_bytes = ahead};
    gw_algorithm algorithm = sealed ? GW_ALGORITHM_CHACHA20 : GW_ALGORITHM_PLAIN;
    gw_cipher_start(&stream.seal, algorithm, record_key, GW_RECORD_DATA);
    gw_cipher_start(&stream.open, algorithm, record_key, GW_RECORD_DATA);
    if (ahead > 0) {
        stream.ahead = malloc(ahead);
        GW_ASSERT_MEMORY(stream.ahead != NULL);
        memcpy(stream.ahead, bytes, ahead);
    }
    GW_ASSERT(send(ends[1], bytes + ahead, count - ahead, MSG_DONTWAIT) == (ssize_t)(count - ahead));
    *other = ends[1];
    gw_channel *channel = gw_tcp_channel_open(&stream, 0, most, &err);
    GW_ASSERT_MEMORY(channel != NULL);
    return channel;
}

/* Whether everything was understood, to the end of a message. */
static bool listen_to(gw_channel *channel, listener *l) {
    const gw_rail_user user = {.context = l, .arrive = arrive, .landed = landed};
    gw_flow flow = GW_FLOW_MORE;
    gw_err err;
    for (uint32_t turns = 0; flow == GW_FLOW_MORE || flow == GW_FLOW_IDLE; turns++) {
        GW_ASSERT(turns < STREAM);
        flow = channel->ops->receive(channel, &user, &err);
        GW_ASSERT(flow != GW_FLOW_IDLE || channel->in.parked);
        channel->in.parked = false;
    }
    return flow == GW_FLOW_BLOCKED && channel->in.state == GW_INCOMING_HEAD && l->at == l->said_bytes;
}

static bool take_frames(const uint8_t *bytes, size_t count) {
    static uint8_t sealed[STREAM];
    if (count < 2) return false;
    GW_ASSERT(sodium_init() >= 0);
    uint8_t flags = bytes[0];
    const uint8_t *stream = bytes + 2;
    size_t length = count - 2, share = bytes[1];
    listener l = {.said = malloc(count), .most = flags & LONG ? LONG_MOST : SHORT_MOST};
    GW_ASSERT_MEMORY(l.said != NULL);
    if (flags & SEALED) {
        open_records(stream, length, &l);
    } else {
        memcpy(l.said, stream, length);
        l.said_bytes = length;
    }
    if (!(flags & UNCHECKED)) check_frames(&l);
    if (flags & SEALED) length = seal_all(stream, length, &l, sealed);
    stream = flags & SEALED ? sealed : l.said;
    int other;
    gw_channel *channel =
        open_channel((flags & SEALED) != 0, l.most, stream, length, length * share / UINT8_MAX, &other);
    bool good = listen_to(channel, &l);
    channel->ops->close(channel);
    close(other);
    free(l.place);
    free(l.said);
    return good && l.at > 0;
}

/* Adds a message; where the stream is sealed, in records as this build sends them. */
static void put_message(gw_writer *w, uint8_t flags, uint8_t wish, uint32_t bytes) {
    static uint8_t payload[LONG_MOST];
    const bool sealed = (flags & SEALED) != 0, apart = bytes > 4096;
    for (uint32_t i = 0; i < bytes; i++) payload[i] = (uint8_t)(i ^ i >> 8);
    if (sealed) gw_put_u16(w, (uint16_t)(FRAME + (apart ? 0 : bytes)));
    uint8_t frame[FRAME] = {0};
    frame[FRAME - GW_RAIL_HEADER] = wish;
    seal_frame_of(bytes, frame);
    gw_put_bytes(w, frame, sizeof frame);
    uint32_t first = apart ? 3000 : bytes;
    if (sealed && apart) gw_put_u16(w, (uint16_t)first);
    gw_put_bytes(w, payload, first);
    if (sealed && apart) gw_put_u16(w, (uint16_t)(bytes - first));
    gw_put_bytes(w, payload + first, bytes - first);
}

static void frames_examples(fuzz_add *add, void *context) {
    static uint8_t bytes[4 * LONG_MOST];
    static const uint8_t ahead[3] = {0, 100, UINT8_MAX};
    for (uint8_t flags = 0; flags < 8; flags++) {
        for (int i = 0; i < 3; i++) {
            gw_writer w = gw_writer_on(bytes, sizeof bytes);
            gw_put_u8(&w, flags);
            gw_put_u8(&w, ahead[i]);
            for (uint8_t wish = 0; wish < WISHES; wish++) put_message(&w, flags, wish, 10u * wish);
            if (flags & SEALED) gw_put_u16(&w, 0); /* a heartbeat */
            put_message(&w, flags, LAND, SHORT_MOST);
            GW_ASSERT(!w.failed);
            add(context, bytes, w.length);
        }
        for (uint8_t wish = 0; (flags & LONG) != 0 && wish < WISHES; wish++) {
            gw_writer w = gw_writer_on(bytes, sizeof bytes);
            gw_put_u8(&w, flags);
            gw_put_u8(&w, ahead[wish % 3]);
            put_message(&w, flags, wish, LONG_MOST);
            put_message(&w, flags, wish, 0);
            GW_ASSERT(!w.failed);
            add(context, bytes, w.length);
        }
    }
}

const fuzz_target fuzz_frames = {"frames", 40000, 8192, frames_examples, NULL, take_frames};

/* Messages about GPUs, each after its sender and its length, to one peer of a flock. The first byte
 * chooses the peer, and when it comes to the view. */

/* bits that choose the receiver */
enum { PEERS = 3, LETTERS = 64, LETTER = 400, LATE = 4, GPUS = 2, TO = 3 };

typedef struct letter {
    uint8_t from, to;
    uint16_t length;
    uint8_t bytes[LETTER];
} letter;

typedef struct team_peer {
    gw_gpu_team *team;
    gw_view view;
    struct post *post; /* NULL = its messages go nowhere */
    uint32_t formed;
    uint8_t number, ids;
} team_peer;

typedef struct post {
    letter letters[LETTERS];
    uint32_t count;
} post;

static gw_peer_id team_id(uint8_t number) {
    return (gw_peer_id){{(uint8_t)(number + 1)}};
}

static void send_letter(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    team_peer *p = context;
    GW_ASSERT(length <= LETTER && to->bytes[0] >= 1 && to->bytes[0] <= PEERS);
    if (p->post == NULL) return;
    GW_ASSERT(p->post->count < LETTERS);
    letter *l = &p->post->letters[p->post->count++];
    *l = (letter){.from = p->number, .to = (uint8_t)(to->bytes[0] - 1), .length = (uint16_t)length};
    memcpy(l->bytes, bytes, length);
}

static void make_id(void *context, const gw_fence *fence) {
    team_peer *p = context;
    GW_ASSERT(fence->epoch == p->view.epoch && gw_view_name_equal(&fence->view, &p->view.name));
    gw_nccl_id id = {{(char)++p->ids}};
    gw_gpu_team_id(p->team, &id);
}

static void form(void *context, const gw_fence *fence, const gw_nccl_team *team) {
    team_peer *p = context;
    GW_ASSERT(fence->epoch == p->view.epoch && gw_view_name_equal(&fence->view, &p->view.name));
    GW_ASSERT(team->ranks >= PEERS - 1 + GPUS && team->ranks <= PEERS * GW_NCCL_GPUS);
    GW_ASSERT(team->first < team->ranks && GPUS <= team->ranks - team->first);
    p->formed++;
}

static void open_team(team_peer *p, uint8_t number, post *to) {
    gw_err err;
    *p = (team_peer){.number = number, .post = to};
    p->view = (gw_view){.epoch = 9, .leader = team_id(0), .count = PEERS};
    for (uint8_t i = 0; i < PEERS; i++) p->view.members[i].id = team_id(i);
    gw_view_seal(&p->view);
    const gw_gpu_team_world world = {p, send_letter, make_id, form};
    const gw_peer_id self = team_id(number);
    const gw_gpu_team_share share = {.gpus = GPUS, .narrow = number % 2 == 0};
    p->team = gw_gpu_team_open(&self, &share, &world, &err);
    GW_ASSERT_MEMORY(p->team != NULL);
}

static bool hear_letter(team_peer *p, uint8_t from, const uint8_t *bytes, size_t length) {
    gw_err err;
    const gw_peer_id sender = team_id(from);
    uint8_t *exact = malloc(length + 1);
    GW_ASSERT_MEMORY(exact != NULL);
    memcpy(exact, bytes, length);
    bool good = gw_gpu_team_hear(p->team, &sender, exact, length, &err);
    free(exact);
    return good;
}

/* Adds the messages that each peer gets while a group forms twice. */
static void team_examples(fuzz_add *add, void *context) {
    static team_peer peers[PEERS];
    static post said;
    said.count = 0;
    for (uint8_t i = 0; i < PEERS; i++) open_team(&peers[i], i, &said);
    for (uint8_t i = 0; i < PEERS; i++) gw_gpu_team_install(peers[i].team, &peers[i].view);
    bool again = false;
    for (uint32_t k = 0; k < said.count; k++) {
        letter l = said.letters[k];
        GW_ASSERT(hear_letter(&peers[l.to], l.from, l.bytes, l.length));
        if (k + 1 < said.count || again) continue;
        again = true;
        gw_gpu_team_install(peers[0].team, &peers[0].view);
    }
    for (uint8_t i = 0; i < PEERS; i++) {
        static uint8_t bytes[LETTERS * LETTER];
        GW_ASSERT(peers[i].formed == 2);
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_put_u8(&w, i);
        for (uint32_t k = 0; k < said.count; k++) {
            if (said.letters[k].to != i) continue;
            gw_put_u8(&w, said.letters[k].from);
            gw_put_u16(&w, said.letters[k].length);
            gw_put_bytes(&w, said.letters[k].bytes, said.letters[k].length);
        }
        GW_ASSERT(!w.failed);
        add(context, bytes, w.length);
        if (i == 0) { /* peers that came before the leader had the view are remembered */
            bytes[0] |= LATE;
            add(context, bytes, w.length);
        }
        gw_gpu_team_close(peers[i].team);
    }
}

static bool take_team(const uint8_t *bytes, size_t count) {
    static team_peer p;
    if (count == 0) return false;
    const bool late = (bytes[0] & LATE) != 0;
    open_team(&p, (bytes[0] & TO) % PEERS, NULL);
    if (!late) gw_gpu_team_install(p.team, &p.view);
    gw_reader r = gw_reader_on(bytes + 1, count - 1);
    bool good = true;
    while (gw_reader_left(&r) > 0) {
        uint8_t from = gw_get_u8(&r);
        size_t length = gw_get_u16(&r);
        if (r.failed) break;
        if (length > gw_reader_left(&r)) length = gw_reader_left(&r);
        good &= hear_letter(&p, from, gw_get_view(&r, length), length);
    }
    if (late) gw_gpu_team_install(p.team, &p.view);
    for (uint8_t i = 0; i < PEERS; i++) {
        const gw_peer_id peer = team_id(i);
        gw_gpu_team_linked(p.team, &peer);
    }
    good &= gw_reader_done(&r) && p.formed > 0;
    gw_gpu_team_close(p.team);
    return good;
}

const fuzz_target fuzz_team = {"team", 200000, 2048, team_examples, NULL, take_team};
