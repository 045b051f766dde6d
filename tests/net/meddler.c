#include "tests/net/meddler.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PAIRS = 48,
    SENDERS = 16,
    HEARD = 64, /* datagrams that are remembered */
    DATAGRAM = 1500,
    UNIT = 1 << 19, /* longer than any handshake message or record */
    HEADER = 10,    /* the header of a handshake message, whose last two bytes are the length of the rest */
    TAG = 16,
    STORM = 128, /* most connections of the flood at once */
    STORM_DATAGRAMS = 20,
    TAPE = 1 << 16, /* most datagrams that are recorded */
    TURN_MS = 1,
    SIP = 4096,      /* bytes read at once from a slow connection */
    STORM_TURNS = 3, /* turns for which each connection of the flood lasts */
};

/* One direction of a connection. `out` waits to be sent to `to`. */
typedef struct way {
    int from, to;
    uint8_t *in, *out, *held;
    size_t in_bytes, out_bytes, out_room, held_bytes;
    uint64_t next_ns; /* when it may be read again, if it is slow */
    int handshakes;   /* messages of the handshake still to come */
    bool ended;
} way;

typedef struct pair {
    bool open, cut; /* cut: it is closed when everything is sent */
    uint64_t serial;
    way ways[2];
} pair;

/* The last unit at a place, for splicing. */
typedef struct memory {
    uint8_t *bytes;
    size_t count;
    uint64_t serial; /* the serial number of the connection */
} memory;

typedef struct kept {
    uint8_t *bytes;
    size_t count;
} kept;

struct meddler {
    bool sealed;
    uint16_t port;
    int listener, udp;
    pthread_t thread;
    atomic_bool closing, flooding, recording;
    atomic_uint replay_port;
    atomic_uint target, slow; /* slow: bytes a second; 0: no limit */
    atomic_int deaf;          /* meddle_deaf */
    atomic_int strikes[MEDDLE_PLACES];
    atomic_ullong struck[MEDDLE_PLACES], flood_datagrams, flood_connections;
    /* The fields below are used by the thread. */
    uint64_t serial, turns;
    pair pairs[PAIRS];
    memory said[2][2], earlier[2][2]; /* by direction, and by handshake or record */
    uint8_t hello[128];               /* the last whole hello */
    size_t hello_bytes;
    struct sockaddr_in senders[SENDERS]; /* senders of datagrams, each of which has a socket to the target */
    int upstream[SENDERS];
    uint32_t sender_count;
    unsigned upstream_port; /* the number of their sockets */
    uint8_t heard[HEARD][DATAGRAM], held[DATAGRAM];
    size_t heard_bytes[HEARD], held_bytes;
    uint64_t heard_count;
    kept tape[TAPE];
    size_t tape_count, tape_next;
    int storm[STORM];
    uint64_t storm_next;
};

static struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int take_strike(meddler *m, meddle_place place) {
    return atomic_exchange(&m->strikes[place], 0);
}

static void count_strike(meddler *m, meddle_place place) {
    atomic_fetch_add(&m->struck[place], 1);
}

/* Connections. */

static void say(way *w, const uint8_t *bytes, size_t count) {
    if (w->out_bytes + count > w->out_room) {
        w->out_room = 2 * (w->out_bytes + count);
        w->out = realloc(w->out, w->out_room);
        if (w->out == NULL) abort();
    }
    memcpy(w->out + w->out_bytes, bytes, count);
    w->out_bytes += count;
}

static void remember(memory *said, memory *earlier, const uint8_t *bytes, size_t count, uint64_t serial) {
    if (said->serial != serial) {
        free(earlier->bytes);
        *earlier = *said;
        *said = (memory){0};
    }
    said->bytes = realloc(said->bytes, count);
    if (said->bytes == NULL) abort();
    memcpy(said->bytes, bytes, count);
    said->count = count;
    said->serial = serial;
}

/* Tampers with a unit. False if it cannot be done to this unit, and must be tried with another one. */
static bool meddle(meddler *m, pair *p, int direction, meddle_place place, meddling kind, uint8_t *unit,
                   size_t bytes) {
    way *w = &p->ways[direction];
    const memory *said = &m->said[direction][place], *earlier = &m->earlier[direction][place];
    if (said->serial != p->serial) earlier = said;
    switch (kind) {
    case MEDDLE_FLIP:
        unit[bytes / 2] ^= 4; /* not in the header: a receiver of a cut unit would wait for the rest */
        say(w, unit, bytes);
        return true;
    case MEDDLE_REPLAY:
        say(w, unit, bytes);
        say(w, unit, bytes);
        return true;
    case MEDDLE_REORDER:
        w->held = malloc(bytes);
        if (w->held == NULL) abort();
        memcpy(w->held, unit, bytes);
        w->held_bytes = bytes;
        return true;
    case MEDDLE_DROP:
        return true;
    case MEDDLE_TRUNCATE:
        say(w, unit, bytes / 2);
        p->cut = true;
        return true;
    case MEDDLE_REFLECT:
        say(&p->ways[1 - direction], unit, bytes);
        say(w, unit, bytes);
        return true;
    default:
        if (earlier->bytes == NULL) return false;
        say(w, earlier->bytes, earlier->count);
        return true;
    }
}

static bool is_deaf(meddler *m, int direction) {
    return atomic_load(&m->deaf) == (direction == 0 ? MEDDLE_DEAF_TO_DIALLER : MEDDLE_DEAF_TO_TARGET);
}

static void pass(meddler *m, pair *p, int direction, uint8_t *unit, size_t bytes) {
    way *w = &p->ways[direction];
    meddle_place place = w->handshakes > 0 ? MEDDLE_HANDSHAKE : MEDDLE_RECORD;
    if (place == MEDDLE_RECORD && is_deaf(m, direction)) return;
    if (place == MEDDLE_HANDSHAKE && direction == 0 && w->handshakes == 2 && bytes <= sizeof m->hello) {
        memcpy(m->hello, unit, bytes);
        m->hello_bytes = bytes;
    }
    uint8_t *clean = malloc(bytes);
    if (clean == NULL) abort();
    memcpy(clean, unit, bytes);
    int kind = w->held == NULL ? take_strike(m, place) : 0;
    if (kind != 0 && meddle(m, p, direction, place, (meddling)kind, unit, bytes)) {
        count_strike(m, place);
    } else {
        int none = 0;
        if (kind != 0) atomic_compare_exchange_strong(&m->strikes[place], &none, kind);
        say(w, unit, bytes);
        if (w->held != NULL) say(w, w->held, w->held_bytes);
        free(w->held);
        w->held = NULL;
    }
    remember(&m->said[direction][place], &m->earlier[direction][place], clean, bytes, p->serial);
    free(clean);
    if (w->handshakes > 0) w->handshakes--;
}

/* The length of the unit at the beginning of what was read; 0 if it is not known yet. */
static size_t measure(const meddler *m, const way *w) {
    if (w->handshakes > 0) return w->in_bytes < HEADER ? 0 : HEADER + (size_t)(w->in[8] | w->in[9] << 8);
    if (w->in_bytes < 4) return 0;
    size_t payload = (size_t)(w->in[0] | w->in[1] << 8 | w->in[2] << 16);
    return 4 + payload + (m->sealed ? TAG : 0);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Sets when the next bytes may be read, after so many bytes. A direction that was idle gains nothing by
 * that. */
static void slow_down(meddler *m, way *w, size_t bytes) {
    uint64_t rate = atomic_load(&m->slow), now = now_ns();
    if (rate == 0) return;
    if (w->next_ns + 100000000u < now) w->next_ns = now;
    w->next_ns += bytes * 1000000000u / rate;
}

static void read_way(meddler *m, pair *p, int direction) {
    way *w = &p->ways[direction];
    if (w->next_ns > now_ns()) return;
    size_t room = UNIT - w->in_bytes, most = atomic_load(&m->slow) > 0 && room > SIP ? SIP : room;
    ssize_t got = recv(w->from, w->in + w->in_bytes, most, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        w->ended = true;
        return;
    }
    w->in_bytes += (size_t)got;
    slow_down(m, w, (size_t)got);
    for (size_t bytes; !p->cut && (bytes = measure(m, w)) != 0 && bytes <= w->in_bytes;) {
        pass(m, p, direction, w->in, bytes);
        w->in_bytes -= bytes;
        memmove(w->in, w->in + bytes, w->in_bytes);
    }
}

static void write_way(way *w) {
    ssize_t sent = send(w->to, w->out, w->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) return;
    if (sent < 0) {
        w->ended = true;
        w->out_bytes = 0;
        return;
    }
    w->out_bytes -= (size_t)sent;
    memmove(w->out, w->out + sent, w->out_bytes);
}

static void close_pair(pair *p) {
    for (int i = 0; i < 2; i++) {
        close(p->ways[i].from);
        free(p->ways[i].in);
        free(p->ways[i].out);
        free(p->ways[i].held);
    }
    *p = (pair){0};
}

static int dial(uint16_t port) {
    struct sockaddr_in to = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static void accept_one(meddler *m) {
    int on = 1, from = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), to = -1;
    if (from < 0) return;
    pair *p = m->pairs;
    while (p < m->pairs + PAIRS && p->open) p++;
    if (p < m->pairs + PAIRS) to = dial((uint16_t)atomic_load(&m->target));
    if (to < 0) {
        close(from);
        return;
    }
    setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *p = (pair){.open = true, .serial = ++m->serial};
    p->ways[0] = (way){.from = from, .to = to, .handshakes = 2, .in = malloc(UNIT)};
    p->ways[1] = (way){.from = to, .to = from, .handshakes = 1, .in = malloc(UNIT)};
    if (p->ways[0].in == NULL || p->ways[1].in == NULL) abort();
}

/* Closes the other side after everything has been passed on to it. */
static void settle_pair(meddler *m, pair *p) {
    for (int i = 0; i < 2; i++)
        if (p->ways[i].out_bytes > 0) write_way(&p->ways[i]);
    bool said = p->ways[0].out_bytes == 0 && p->ways[1].out_bytes == 0, told = p->cut;
    for (int i = 0; i < 2; i++) told = told || (p->ways[i].ended && !is_deaf(m, i));
    if ((told || (p->ways[0].ended && p->ways[1].ended)) && said) close_pair(p);
}

/* Datagrams. */

static void forget_senders(meddler *m) {
    for (uint32_t i = 0; i < m->sender_count; i++) close(m->upstream[i]);
    m->sender_count = 0;
}

static int upstream_of(meddler *m, const struct sockaddr_in *sender) {
    unsigned target = atomic_load(&m->target);
    if (target != m->upstream_port) forget_senders(m);
    m->upstream_port = target;
    for (uint32_t i = 0; i < m->sender_count; i++)
        if (m->senders[i].sin_port == sender->sin_port) return m->upstream[i];
    if (m->sender_count == SENDERS) return -1;
    struct sockaddr_in to = loopback((uint16_t)target);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) return -1;
    m->senders[m->sender_count] = *sender;
    m->upstream[m->sender_count++] = fd;
    return fd;
}

static void pass_datagram(meddler *m, int upstream, const struct sockaddr_in *sender, uint8_t *bytes,
                          size_t count) {
    const uint8_t *old = m->heard[(m->heard_count + 1) % HEARD]; /* the oldest but one, once all are used */
    size_t old_bytes = m->heard_bytes[(m->heard_count + 1) % HEARD];
    int kind = count == 0 || m->held_bytes > 0 ? 0 : take_strike(m, MEDDLE_DATAGRAM);
    memcpy(m->heard[m->heard_count % HEARD], bytes, count);
    m->heard_bytes[m->heard_count++ % HEARD] = count;
    if (kind != 0) count_strike(m, MEDDLE_DATAGRAM);
    if (kind == MEDDLE_DROP) return;
    if (kind == MEDDLE_REORDER) {
        memcpy(m->held, bytes, count);
        m->held_bytes = count;
        return;
    }
    if (kind == MEDDLE_FLIP) bytes[count / 2] ^= 4;
    if (kind == MEDDLE_SPLICE && old_bytes > 0) send(upstream, old, old_bytes, MSG_DONTWAIT);
    if (kind == MEDDLE_REFLECT)
        sendto(m->udp, bytes, count, MSG_DONTWAIT, (const struct sockaddr *)sender, sizeof *sender);
    send(upstream, bytes, kind == MEDDLE_TRUNCATE ? count / 2 : count, MSG_DONTWAIT);
    if (kind == MEDDLE_REPLAY) send(upstream, bytes, count, MSG_DONTWAIT);
    if (m->held_bytes > 0) send(upstream, m->held, m->held_bytes, MSG_DONTWAIT);
    m->held_bytes = 0;
}

static void keep(meddler *m, const uint8_t *bytes, ssize_t count) {
    if (!atomic_load(&m->recording) || count <= 0 || m->tape_count == TAPE) return;
    kept *at = &m->tape[m->tape_count++];
    *at = (kept){.bytes = malloc((size_t)count), .count = (size_t)count};
    if (at->bytes == NULL) abort();
    memcpy(at->bytes, bytes, at->count);
}

static void read_datagrams(meddler *m) {
    for (int i = 0; i < 64; i++) {
        uint8_t bytes[DATAGRAM];
        struct sockaddr_in sender;
        socklen_t length = sizeof sender;
        ssize_t got =
            recvfrom(m->udp, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&sender, &length);
        if (got < 0) return;
        keep(m, bytes, got);
        int upstream = atomic_load(&m->target) == 0 ? -1 : upstream_of(m, &sender);
        if (upstream >= 0) pass_datagram(m, upstream, &sender, bytes, (size_t)got);
    }
}

/* Passes the target's answers back unchanged. */
static void read_answers(meddler *m) {
    for (uint32_t i = 0; i < m->sender_count; i++) {
        uint8_t bytes[DATAGRAM];
        ssize_t got;
        while ((got = recv(m->upstream[i], bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
            sendto(m->udp, bytes, (size_t)got, MSG_DONTWAIT, (struct sockaddr *)&m->senders[i],
                   sizeof m->senders[i]);
    }
}

/* The flood. */

static void flood(meddler *m) {
    uint16_t port = (uint16_t)atomic_load(&m->target);
    struct sockaddr_in to = loopback(port);
    uint8_t garbage[1000];
    for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (uint8_t)(m->turns * 31 + i * i);
    for (int i = 0; i < STORM_DATAGRAMS; i++) {
        uint64_t n = m->turns * STORM_DATAGRAMS + (uint64_t)i;
        bool replay = n % 2 == 0 && m->heard_count > 0;
        uint64_t of = m->heard_count < HEARD ? m->heard_count : HEARD;
        const uint8_t *bytes = replay ? m->heard[n / 2 % of] : garbage;
        size_t count = replay ? m->heard_bytes[n / 2 % of] : n % sizeof garbage;
        sendto(m->udp, bytes, count, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
        atomic_fetch_add(&m->flood_datagrams, 1);
    }
    int *last = &m->storm[(m->storm_next + STORM - 1) % STORM], *next = &m->storm[m->storm_next % STORM];
    if (m->turns % STORM_TURNS != 0) return;
    /* Connections that were begun a turn ago are established by now. */
    if (*last > 0 && m->storm_next % 3 == 1) send(*last, garbage, 300, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (*last > 0 && m->storm_next % 3 == 2)
        send(*last, m->hello, m->hello_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (*next > 0) close(*next);
    *next = dial(port);
    m->storm_next++;
    atomic_fetch_add(&m->flood_connections, 1);
}

static void replay(meddler *m) {
    struct sockaddr_in to = loopback((uint16_t)atomic_load(&m->replay_port));
    for (int i = 0; i < STORM_DATAGRAMS && m->tape_count > 0; i++) {
        const kept *at = &m->tape[m->tape_next++ % m->tape_count];
        sendto(m->udp, at->bytes, at->count, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
    }
}

/* The thread. */

static void *run(void *context) {
    meddler *m = context;
    while (!atomic_load(&m->closing)) {
        struct pollfd fds[2 + SENDERS + 2 * PAIRS];
        nfds_t count = 2;
        uint64_t now = now_ns();
        bool replaying = atomic_load(&m->replay_port) != 0;
        bool hurried = atomic_load(&m->flooding) || replaying || atomic_load(&m->slow) > 0;
        fds[0] = (struct pollfd){.fd = atomic_load(&m->target) == 0 ? -1 : m->listener, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = m->udp, .events = POLLIN};
        for (uint32_t i = 0; i < m->sender_count; i++)
            fds[count++] = (struct pollfd){.fd = m->upstream[i], .events = POLLIN};
        for (pair *p = m->pairs; p < m->pairs + PAIRS; p++)
            for (int i = 0; i < 2 && p->open; i++)
                fds[count++] =
                    (struct pollfd){.fd = p->ways[i].ended ? -1 : p->ways[i].from,
                                    .events = (short)((p->ways[i].next_ns > now ? 0 : POLLIN) |
                                                      (p->ways[1 - i].out_bytes > 0 ? POLLOUT : 0))};
        bool flooding = atomic_load(&m->flooding);
        poll(fds, count, hurried ? TURN_MS : 10);
        m->turns++;
        if (fds[0].fd >= 0) accept_one(m);
        read_datagrams(m);
        read_answers(m);
        for (pair *p = m->pairs; p < m->pairs + PAIRS; p++) {
            for (int i = 0; i < 2 && p->open && !p->cut; i++)
                if (!p->ways[i].ended) read_way(m, p, i);
            if (p->open) settle_pair(m, p);
        }
        if (flooding && atomic_load(&m->target) != 0) flood(m);
        if (replaying) replay(m);
    }
    return NULL;
}

/* TCP and UDP on one port that is free for both. */
static bool bind_both(meddler *m) {
    for (int tries = 0; tries < 64; tries++) {
        struct sockaddr_in at = loopback(0);
        socklen_t length = sizeof at;
        m->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        m->udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        bool good = bind(m->listener, (struct sockaddr *)&at, sizeof at) == 0 &&
                    getsockname(m->listener, (struct sockaddr *)&at, &length) == 0 &&
                    bind(m->udp, (struct sockaddr *)&at, sizeof at) == 0 && listen(m->listener, 64) == 0;
        m->port = ntohs(at.sin_port);
        if (good) return true;
        close(m->listener);
        close(m->udp);
    }
    return false;
}

meddler *meddler_open(bool sealed) {
    meddler *m = calloc(1, sizeof *m);
    if (m == NULL || !bind_both(m)) abort();
    m->sealed = sealed;
    if (pthread_create(&m->thread, NULL, run, m) != 0) abort();
    return m;
}

uint16_t meddler_port(const meddler *m) {
    return m->port;
}

void meddler_target(meddler *m, uint16_t port) {
    atomic_store(&m->target, port);
}

void meddler_close(meddler *m) {
    atomic_store(&m->closing, true);
    pthread_join(m->thread, NULL);
    for (pair *p = m->pairs; p < m->pairs + PAIRS; p++)
        if (p->open) close_pair(p);
    forget_senders(m);
    for (size_t i = 0; i < m->tape_count; i++) free(m->tape[i].bytes);
    for (int i = 0; i < STORM; i++)
        if (m->storm[i] > 0) close(m->storm[i]);
    for (int i = 0; i < 4; i++) {
        free(m->said[i / 2][i % 2].bytes);
        free(m->earlier[i / 2][i % 2].bytes);
    }
    close(m->listener);
    close(m->udp);
    free(m);
}

void meddler_slow(meddler *m, uint32_t bytes_per_s) {
    atomic_store(&m->slow, bytes_per_s);
}

void meddler_swallow(meddler *m, meddle_deaf to) {
    atomic_store(&m->deaf, (int)to);
}

void meddler_strike(meddler *m, meddle_place place, meddling kind) {
    atomic_store(&m->strikes[place], (int)kind);
}

uint64_t meddler_struck(meddler *m, meddle_place place) {
    return atomic_load(&m->struck[place]);
}

void meddler_record(meddler *m) {
    atomic_store(&m->recording, true);
}

void meddler_replay(meddler *m, uint16_t port) {
    atomic_store(&m->replay_port, port);
}

void meddler_flood(meddler *m, bool on) {
    atomic_store(&m->flooding, on);
}

void meddler_flooded(meddler *m, uint64_t *datagrams, uint64_t *connections) {
    *datagrams = atomic_load(&m->flood_datagrams);
    *connections = atomic_load(&m->flood_connections);
}
