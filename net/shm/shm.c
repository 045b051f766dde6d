#include "net/shm/shm.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/os/clock.h"
#include "net/loop/reserve.h"
#include "net/shm/channel.h"
#include "net/shm/words.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 2, BOOT_ID = 36, TOKEN = 16, VISITORS = 64, BELLS = GW_PATH_STREAMS - 1 };
_Static_assert(1 + BELLS <= GW_DOOR_FDS, "a packet has room for all descriptors");

#define PAUSE_NS UINT64_C(100000000)

/* The packets on the socket: version u8, type u8, and
 *
 *    JOIN    streams u32, token; descriptors: the rings' file, the leading side's bells
 *    JOINED  descriptors: the other side's bells
 *    WORDS   as in net/shm/words.h; descriptor: the words' file */
typedef enum packet_type { JOIN = 1, JOINED, WORDS } packet_type;

typedef struct shm_endpoint {
    gw_path_endpoint base; /* first */
    struct shm_endpoint *next;
    char name[GW_DOOR_NAME]; /* the name of the other side's socket */
    uint8_t token[TOKEN];
    int fd; /* the connected socket; -1: not connected yet */
    gw_watch watch;
    int rings, bells[BELLS], other_bells[BELLS]; /* -1: not there yet, or a channel has taken it */
    bool joined; /* both sides have all descriptors; changed with the lock held */
    gw_shm_words theirs;
} shm_endpoint;

/* A process that has connected and not presented a token yet. */
typedef struct visitor {
    struct visitor *next;
    struct shm *shm;
    int fd;
    gw_watch watch;
} visitor;

typedef struct shm {
    gw_path base; /* first */
    char boot_id[BOOT_ID];
    /* The network namespace within that boot; names of sockets are known in one namespace only. */
    uint64_t network;
    char name[GW_DOOR_NAME];
    int door;
    gw_watch watch;
    gw_timer pause;
    visitor *visitors;
    uint32_t visitor_count;
    /* The endpoints, and the members that may have the words. Held from fence_begin to fence_end, so that no
     * peer is given a file that is being replaced. */
    pthread_mutex_t lock;
    shm_endpoint *endpoints;
    gw_fence fence;
    gw_peer_id *members;
    uint32_t member_count;
} shm;

static shm *shm_of(gw_path *path) {
    return (shm *)path;
}

static shm_endpoint *endpoint_of(gw_path_endpoint *endpoint) {
    return (shm_endpoint *)endpoint;
}

static uint32_t bell_count(const shm *s) {
    return s->base.host->streams - 1;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void fail(shm_endpoint *endpoint, const gw_err *why) {
    gw_watch_remove(&endpoint->watch);
    endpoint->base.path->host->failed(&endpoint->base, why);
}

/* Cards. */

static uint32_t shm_card(gw_path *path, uint8_t bytes[GW_PATH_CARD_BYTES], gw_err *why) {
    (void)why;
    const shm *s = shm_of(path);
    gw_writer w = gw_writer_on(bytes, GW_PATH_CARD_BYTES);
    gw_put_u8(&w, VERSION);
    gw_put_bytes(&w, s->boot_id, BOOT_ID);
    gw_put_u64(&w, s->network);
    gw_put_u32(&w, (uint32_t)geteuid());
    gw_put_bytes(&w, s->name, GW_DOOR_NAME);
    GW_ASSERT(!w.failed);
    return (uint32_t)w.length;
}

static bool read_card(const shm *s, const uint8_t *card, uint32_t count, char name[GW_DOOR_NAME],
                      gw_err *why) {
    gw_reader r = gw_reader_on(card, count);
    char boot_id[BOOT_ID];
    uint8_t version = gw_get_u8(&r);
    gw_get_bytes(&r, boot_id, BOOT_ID);
    uint64_t network = gw_get_u64(&r);
    uint32_t uid = gw_get_u32(&r);
    gw_get_bytes(&r, name, GW_DOOR_NAME);
    if (!gw_reader_done(&r) || version != VERSION)
        return gw_fail(why, GW_E_PEER, "net/shm: the peer's shared memory is of another version");
    if (memcmp(boot_id, s->boot_id, BOOT_ID) != 0)
        return gw_fail(why, GW_E_UNSUPPORTED, "net/shm: the peer is on another host");
    if (network != s->network)
        return gw_fail(why, GW_E_UNSUPPORTED,
                       "net/shm: the peer is in another network namespace of this host");
    return uid == (uint32_t)geteuid() ||
           gw_fail(why, GW_E_DENIED, "net/shm: the peer is of user %u, not %u", uid, (unsigned)geteuid());
}

static bool shm_suits(gw_path *path, const uint8_t *card, uint32_t count, gw_err *why) {
    char name[GW_DOOR_NAME];
    return read_card(shm_of(path), card, count, name, why);
}

/* Words. */

static void begin_packet(gw_door_packet *packet, gw_writer *w, packet_type type) {
    *packet = (gw_door_packet){0};
    *w = gw_writer_on(packet->bytes, GW_DOOR_BYTES);
    gw_put_u8(w, VERSION);
    gw_put_u8(w, (uint8_t)type);
}

/* Gives a member the present words. Called with the lock held. */
static bool hand_words(shm *s, shm_endpoint *endpoint, gw_err *err) {
    gw_words *words = s->base.host->words;
    if (!endpoint->joined || !gw_words_are_cpus(words) ||
        !gw_is_member(s->members, s->member_count, &endpoint->base.peer))
        return true;
    gw_door_packet packet;
    gw_writer w;
    begin_packet(&packet, &w, WORDS);
    gw_shm_words_describe(words, &s->fence, &w);
    GW_ASSERT(!w.failed);
    packet.count = (uint32_t)w.length;
    packet.fds[packet.fd_count++] = gw_words_fd(words);
    return gw_door_send(endpoint->fd, &packet, err);
}

/* Notes that the other side has all descriptors or will find them in its socket; whatever is sent from now on
 * comes after them. */
static void note_joined(shm *s, shm_endpoint *endpoint) {
    gw_err err;
    pthread_mutex_lock(&s->lock);
    endpoint->joined = true;
    bool done = hand_words(s, endpoint, &err);
    pthread_mutex_unlock(&s->lock);
    if (!done) fail(endpoint, &err);
}

static void shm_fence_begin(gw_path *path, const gw_fence *fence, const gw_peer_id *members, uint32_t count) {
    (void)fence, (void)members, (void)count;
    pthread_mutex_lock(&shm_of(path)->lock);
}

static void shm_fence_end(gw_path *path, const gw_fence *fence, const gw_peer_id *members, uint32_t count) {
    shm *s = shm_of(path);
    gw_err err;
    bool none = gw_view_name_is_none(&fence->view);
    free(s->members);
    s->members = none || count == 0 ? NULL : malloc(count * sizeof *members);
    s->member_count = s->members != NULL ? count : 0; /* if out of memory, the members operate over TCP */
    if (s->members != NULL) memcpy(s->members, members, count * sizeof *members);
    s->fence = *fence;
    for (shm_endpoint *endpoint = s->endpoints; endpoint != NULL; endpoint = endpoint->next)
        if (!hand_words(s, endpoint, &err)) path->host->failed(&endpoint->base, &err);
    pthread_mutex_unlock(&s->lock);
}

static gw_path_posted shm_post(gw_path_endpoint *base, const gw_op *op, gw_completion *completion) {
    if (op->kind == GW_OP_FETCH) return GW_PATH_PASS;
    return gw_shm_words_do(&endpoint_of(base)->theirs, op, completion);
}

/* Joining. The functions are called on the control thread. */

static bool make_bells(shm_endpoint *endpoint, uint32_t count, gw_err *err) {
    for (uint32_t i = 0; i < count; i++) {
        endpoint->bells[i] = gw_reserve_spare(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (endpoint->bells[i] < 0) return gw_fail_errno(err, errno, "net/shm: eventfd");
    }
    return true;
}

static bool make_rings(shm_endpoint *endpoint, uint32_t count, gw_err *err) {
    endpoint->rings = gw_reserve_spare(memfd_create("godwit-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (endpoint->rings < 0) return gw_fail_errno(err, errno, "net/shm: memfd_create");
    if (ftruncate(endpoint->rings, (off_t)gw_shm_rings_bytes(count)) != 0 ||
        fcntl(endpoint->rings, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return gw_fail_errno(err, errno, "net/shm: %llu bytes of shared memory",
                             (unsigned long long)gw_shm_rings_bytes(count));
    return true;
}

static void read_socket(void *context, uint32_t events);

static bool watch_socket(shm_endpoint *endpoint, gw_err *err) {
    return gw_watch_add(endpoint->base.path->host->loop, &endpoint->watch, endpoint->fd, EPOLLIN, read_socket,
                        endpoint, err);
}

/* Connects to the other side. Called on the side that leads, which has been told the token. */
static bool join(shm *s, shm_endpoint *endpoint, gw_err *err) {
    uint32_t bells = bell_count(s);
    endpoint->fd = gw_door_connect(endpoint->name, err);
    if (endpoint->fd < 0 || !gw_door_is_ours(endpoint->fd, err) || !watch_socket(endpoint, err)) return false;
    if (!make_bells(endpoint, bells, err) || !make_rings(endpoint, bells, err)) return false;
    gw_door_packet packet;
    gw_writer w;
    begin_packet(&packet, &w, JOIN);
    gw_put_u32(&w, s->base.host->streams);
    gw_put_bytes(&w, endpoint->token, TOKEN);
    GW_ASSERT(!w.failed);
    packet.count = (uint32_t)w.length;
    packet.fds[packet.fd_count++] = endpoint->rings;
    for (uint32_t i = 0; i < bells; i++) packet.fds[packet.fd_count++] = endpoint->bells[i];
    return gw_door_send(endpoint->fd, &packet, err);
}

static void shm_message(gw_path_endpoint *base, const uint8_t *bytes, uint32_t count) {
    shm_endpoint *endpoint = endpoint_of(base);
    gw_err err;
    bool good = base->leads && count == TOKEN && endpoint->fd < 0;
    if (good) memcpy(endpoint->token, bytes, TOKEN);
    if (!good) gw_fail(&err, GW_E_PEER, "net/shm: the peer sent a malformed message");
    if (!good || !join(shm_of(base->path), endpoint, &err)) fail(endpoint, &err);
}

static bool take_bells(shm_endpoint *endpoint, gw_door_packet *packet, uint32_t from, uint32_t count,
                       gw_err *err) {
    if (packet->fd_count != from + count)
        return gw_fail(err, GW_E_PEER, "net/shm: %u descriptors came, not %u", packet->fd_count,
                       from + count);
    memcpy(endpoint->other_bells, packet->fds + from, count * sizeof(int));
    packet->fd_count = from;
    return true;
}

static bool take_rings(shm_endpoint *endpoint, gw_door_packet *packet, uint64_t bytes, gw_err *err) {
    if (!gw_door_holds(packet->fds[0], bytes))
        return gw_fail(err, GW_E_PEER, "net/shm: the rings' memory is not what it should be");
    endpoint->rings = packet->fds[0];
    packet->fd_count = 0;
    return true;
}

/* Answers the other side's JOIN with this side's bells. */
static bool answer_join(shm *s, shm_endpoint *endpoint, gw_door_packet *packet, gw_err *err) {
    uint32_t bells = bell_count(s);
    if (!take_bells(endpoint, packet, 1, bells, err) ||
        !take_rings(endpoint, packet, gw_shm_rings_bytes(bells), err) || !make_bells(endpoint, bells, err))
        return false;
    gw_door_packet answer;
    gw_writer w;
    begin_packet(&answer, &w, JOINED);
    answer.count = (uint32_t)w.length;
    for (uint32_t i = 0; i < bells; i++) answer.fds[answer.fd_count++] = endpoint->bells[i];
    return gw_door_send(endpoint->fd, &answer, err) && watch_socket(endpoint, err);
}

/* Handles a packet on the socket of an endpoint. */
static bool take_packet(shm_endpoint *endpoint, gw_door_packet *packet, gw_err *err) {
    gw_reader r = gw_reader_on(packet->bytes, packet->count);
    uint8_t version = gw_get_u8(&r);
    packet_type type = (packet_type)gw_get_u8(&r);
    shm *s = shm_of(endpoint->base.path);
    if (version == VERSION && type == WORDS && endpoint->joined && packet->fd_count == 1)
        return gw_shm_words_take(&endpoint->theirs, &r, packet->fds[0], err);
    if (version != VERSION || type != JOINED || !endpoint->base.leads || endpoint->joined ||
        !gw_reader_done(&r))
        return gw_fail(err, GW_E_PEER, "net/shm: the other process sent a malformed packet");
    if (!take_bells(endpoint, packet, 0, bell_count(s), err)) return false;
    endpoint->base.path->host->ready(&endpoint->base);
    note_joined(s, endpoint);
    return true;
}

static void read_socket(void *context, uint32_t events) {
    (void)events;
    shm_endpoint *endpoint = context;
    gw_door_packet packet;
    gw_err err;
    int got = gw_door_receive(endpoint->fd, &packet, &err);
    if (got == 0) return;
    if (got < 0 && err.code == GW_E_PEER) { /* the link will tell what became of the other process */
        gw_watch_remove(&endpoint->watch);
        return;
    }
    bool good = got > 0 && take_packet(endpoint, &packet, &err);
    if (got > 0) gw_door_drop(&packet); /* closes the descriptors that were not taken */
    if (!good) fail(endpoint, &err);
}

/* Visitors. */

static void drop_visitor(visitor *v) {
    for (visitor **at = &v->shm->visitors; *at != NULL; at = &(*at)->next) {
        if (*at != v) continue;
        *at = v->next;
        break;
    }
    v->shm->visitor_count--;
    gw_watch_remove(&v->watch);
    close_fd(&v->fd);
    free(v);
}

/* The endpoint whose token is in this packet; NULL if there is none. */
static shm_endpoint *find_endpoint(const shm *s, const gw_door_packet *packet) {
    gw_reader r = gw_reader_on(packet->bytes, packet->count);
    uint8_t version = gw_get_u8(&r), type = gw_get_u8(&r);
    uint32_t streams = gw_get_u32(&r);
    uint8_t token[TOKEN];
    gw_get_bytes(&r, token, TOKEN);
    if (!gw_reader_done(&r) || version != VERSION || type != JOIN || streams != s->base.host->streams)
        return NULL;
    for (shm_endpoint *endpoint = s->endpoints; endpoint != NULL; endpoint = endpoint->next)
        if (!endpoint->base.leads && endpoint->fd < 0 && sodium_memcmp(endpoint->token, token, TOKEN) == 0)
            return endpoint;
    return NULL;
}

static void read_visitor(void *context, uint32_t events) {
    (void)events;
    visitor *v = context;
    shm *s = v->shm;
    gw_door_packet packet;
    gw_err err;
    int got = gw_door_receive(v->fd, &packet, &err);
    if (got == 0) return;
    shm_endpoint *endpoint = got > 0 ? find_endpoint(s, &packet) : NULL;
    if (endpoint != NULL) {
        gw_watch_remove(&v->watch);
        endpoint->fd = v->fd;
        v->fd = -1;
        if (answer_join(s, endpoint, &packet, &err))
            note_joined(s, endpoint);
        else
            fail(endpoint, &err);
    }
    gw_door_drop(&packet);
    drop_visitor(v);
}

static void after_pause(void *context) {
    shm *s = context;
    gw_watch_change(&s->watch, EPOLLIN);
}

/* Pauses accepting when descriptors or memory have run out. The connection stays in the queue, so an
 * immediate retry would only spin. */
static void pause_accepting(shm *s) {
    gw_err err;
    if (gw_timer_set(s->base.host->loop, &s->pause, gw_now_ns() + PAUSE_NS, after_pause, s, &err))
        gw_watch_change(&s->watch, 0);
}

static void accept_visitor(void *context, uint32_t events) {
    (void)events;
    shm *s = context;
    gw_err err;
    int fd = gw_door_accept(s->door, &err);
    if (fd < 0 && err.code != GW_OK) pause_accepting(s);
    visitor *v =
        fd >= 0 && s->visitor_count < VISITORS && gw_door_is_ours(fd, &err) ? calloc(1, sizeof *v) : NULL;
    if (v == NULL) {
        close_fd(&fd); /* the other process will take another path */
        return;
    }
    *v = (visitor){.next = s->visitors, .shm = s, .fd = fd};
    s->visitors = v;
    s->visitor_count++;
    if (!gw_watch_add(s->base.host->loop, &v->watch, fd, EPOLLIN, read_visitor, v, &err)) drop_visitor(v);
}

/* Endpoints. */

static gw_path_endpoint *shm_endpoint_open(gw_path *path, const gw_path_endpoint *as, const uint8_t *card,
                                           uint32_t count, gw_err *err) {
    shm *s = shm_of(path);
    shm_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/shm: no memory");
        return NULL;
    }
    endpoint->base = *as;
    endpoint->fd = endpoint->rings = -1;
    for (uint32_t i = 0; i < BELLS; i++) endpoint->bells[i] = endpoint->other_bells[i] = -1;
    if (!read_card(s, card, count, endpoint->name, err)) {
        free(endpoint);
        return NULL;
    }
    gw_shm_words_init(&endpoint->theirs);
    pthread_mutex_lock(&s->lock);
    endpoint->next = s->endpoints;
    s->endpoints = endpoint;
    pthread_mutex_unlock(&s->lock);
    if (!as->leads) {
        randombytes_buf(endpoint->token, TOKEN);
        path->host->tell(&endpoint->base, endpoint->token, TOKEN);
    }
    return &endpoint->base;
}

static gw_channel *shm_channel(gw_path_endpoint *base, uint32_t stream, uint32_t rail, gw_err *err) {
    shm_endpoint *endpoint = endpoint_of(base);
    uint32_t index = stream - 1;
    int bell = endpoint->bells[index], other = endpoint->other_bells[index];
    if (!endpoint->joined || bell < 0 || other < 0) {
        gw_fail(err, GW_E_PEER, "net/shm: the peer uses a path that is not established");
        return NULL;
    }
    endpoint->bells[index] = endpoint->other_bells[index] = -1;
    return gw_shm_channel_open(endpoint->rings, index, base->leads, bell, other,
                               base->path->host->payload_most[stream], &base->peer, rail, err);
}

static void shm_endpoint_close(gw_path_endpoint *base) {
    shm_endpoint *endpoint = endpoint_of(base);
    shm *s = shm_of(base->path);
    pthread_mutex_lock(&s->lock);
    for (shm_endpoint **at = &s->endpoints; *at != NULL; at = &(*at)->next) {
        if (*at != endpoint) continue;
        *at = endpoint->next;
        break;
    }
    pthread_mutex_unlock(&s->lock);
    gw_watch_remove(&endpoint->watch);
    close_fd(&endpoint->fd);
    close_fd(&endpoint->rings);
    for (uint32_t i = 0; i < BELLS; i++) {
        close_fd(&endpoint->bells[i]);
        close_fd(&endpoint->other_bells[i]);
    }
    gw_shm_words_drop(&endpoint->theirs);
    free(endpoint);
}

/* Life. */

static void shm_close(gw_path *path) {
    shm *s = shm_of(path);
    GW_ASSERT(s->endpoints == NULL);
    while (s->visitors != NULL) drop_visitor(s->visitors);
    gw_watch_remove(&s->watch);
    gw_timer_cancel(&s->pause);
    close_fd(&s->door);
    pthread_mutex_destroy(&s->lock);
    free(s->members);
    free(s);
}

static const gw_path_ops shm_ops = {
    .kind = GW_PATH_SHM,
    .card = shm_card,
    .suits = shm_suits,
    .open = shm_endpoint_open,
    .message = shm_message,
    .channel = shm_channel,
    .post = shm_post,
    .close_endpoint = shm_endpoint_close,
    .fence_begin = shm_fence_begin,
    .fence_end = shm_fence_end,
    .close = shm_close,
};

/* Reads the identifier of this boot of this machine. */
static bool read_boot_id(char id[BOOT_ID], gw_err *err) {
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, id, BOOT_ID) : -1;
    int failed = errno;
    if (fd >= 0) close(fd);
    return got == BOOT_ID || gw_fail_errno(err, got < 0 ? failed : EIO, "net/shm: %s", path);
}

static bool read_network(uint64_t *network, gw_err *err) {
    static const char path[] = "/proc/self/ns/net";
    struct stat what;
    if (stat(path, &what) != 0) return gw_fail_errno(err, errno, "net/shm: %s", path);
    *network = what.st_ino;
    return true;
}

gw_path *gw_shm_open(const gw_path_host *host, gw_err *err) {
    shm *s = calloc(1, sizeof *s);
    if (s == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/shm: no memory");
        return NULL;
    }
    s->base = (gw_path){.ops = &shm_ops, .host = host};
    s->door = -1;
    pthread_mutex_init(&s->lock, NULL);
    bool good = read_boot_id(s->boot_id, err) && read_network(&s->network, err) &&
                (s->door = gw_door_open(s->name, err)) >= 0 &&
                gw_watch_add(host->loop, &s->watch, s->door, EPOLLIN, accept_visitor, s, err);
    if (good) return &s->base;
    shm_close(&s->base);
    return NULL;
}
