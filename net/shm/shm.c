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

/* Packets: version u8, type u8, and
 *   JOIN    streams u32, token; the rings' file, the leading side's bells
 *   JOINED  the other side's bells
 *   WORDS   see net/shm/words.h; the words' file */
typedef enum packet_type { JOIN = 1, JOINED, WORDS } packet_type;

typedef struct shm_end {
    gw_path_end base; /* first */
    struct shm_end *next;
    char name[GW_DOOR_NAME]; /* the other side's door */
    uint8_t token[TOKEN];
    int fd; /* the socket; -1: not connected yet */
    gw_watch watch;
    int rings, bells[BELLS], other_bells[BELLS]; /* -1: not there, or a channel's now */
    bool joined;                                 /* both sides have all descriptors; changed under the lock */
    gw_shm_words theirs;
} shm_end;

/* Somebody who has connected and not said who it is. */
typedef struct visitor {
    struct visitor *next;
    struct shm *shm;
    int fd;
    gw_watch watch;
} visitor;

typedef struct shm {
    gw_path base; /* first */
    char boot_id[BOOT_ID];
    uint64_t network; /* which network namespace of that boot: names of doors are known inside only */
    char name[GW_DOOR_NAME];
    int door;
    gw_watch watch;
    gw_timer pause;
    visitor *visitors;
    uint32_t visitor_count;
    /* Ends, and who is to have the words: held from fence_begin to fence_end, so that nobody is given a file
     * that is being replaced. */
    pthread_mutex_t lock;
    shm_end *ends;
    gw_fence fence;
    gw_peer_id *members;
    uint32_t member_count;
} shm;

static shm *shm_of(gw_path *path) {
    return (shm *)path;
}

static shm_end *end_of(gw_path_end *end) {
    return (shm_end *)end;
}

static uint32_t bell_count(const shm *s) {
    return s->base.host->streams - 1;
}

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void fail(shm_end *end, const gw_err *why) {
    gw_watch_remove(&end->watch);
    end->base.path->host->failed(&end->base, why);
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

static bool is_member(const shm *s, const gw_peer_id *peer) {
    for (uint32_t i = 0; i < s->member_count; i++)
        if (gw_peer_id_equal(&s->members[i], peer)) return true;
    return false;
}

static void begin_packet(gw_door_packet *packet, gw_writer *w, packet_type type) {
    *packet = (gw_door_packet){0};
    *w = gw_writer_on(packet->bytes, GW_DOOR_BYTES);
    gw_put_u8(w, VERSION);
    gw_put_u8(w, (uint8_t)type);
}

/* With the lock held: gives a member the present words. */
static bool hand_words(shm *s, shm_end *end, gw_err *err) {
    gw_words *words = s->base.host->words;
    if (!end->joined || !gw_words_are_cpus(words) || !is_member(s, &end->base.peer)) return true;
    gw_door_packet packet;
    gw_writer w;
    begin_packet(&packet, &w, WORDS);
    gw_shm_words_describe(words, &s->fence, &w);
    GW_ASSERT(!w.failed);
    packet.count = (uint32_t)w.length;
    packet.fds[packet.fd_count++] = gw_words_fd(words);
    return gw_door_send(end->fd, &packet, err);
}

/* The other side has, or will find in its socket, all descriptors: what is sent from now on comes after them.
 */
static void stand(shm *s, shm_end *end) {
    gw_err err;
    pthread_mutex_lock(&s->lock);
    end->joined = true;
    bool done = hand_words(s, end, &err);
    pthread_mutex_unlock(&s->lock);
    if (!done) fail(end, &err);
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
    s->member_count = s->members != NULL ? count : 0; /* no memory: they ask over TCP */
    if (s->members != NULL) memcpy(s->members, members, count * sizeof *members);
    s->fence = *fence;
    for (shm_end *end = s->ends; end != NULL; end = end->next)
        if (!hand_words(s, end, &err)) path->host->failed(&end->base, &err);
    pthread_mutex_unlock(&s->lock);
}

static gw_path_posted shm_post(gw_path_end *base, const gw_op *op, gw_completion *completion) {
    if (op->kind == GW_OP_FETCH) return GW_PATH_PASS;
    return gw_shm_words_do(&end_of(base)->theirs, op, completion);
}

/* Joining: on the control thread. */

static bool make_bells(shm_end *end, uint32_t count, gw_err *err) {
    for (uint32_t i = 0; i < count; i++) {
        end->bells[i] = gw_reserve_spare(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (end->bells[i] < 0) return gw_fail_errno(err, errno, "net/shm: eventfd");
    }
    return true;
}

static bool make_rings(shm_end *end, uint32_t count, gw_err *err) {
    end->rings = gw_reserve_spare(memfd_create("godwit-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (end->rings < 0) return gw_fail_errno(err, errno, "net/shm: memfd_create");
    if (ftruncate(end->rings, (off_t)gw_shm_rings_bytes(count)) != 0 ||
        fcntl(end->rings, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return gw_fail_errno(err, errno, "net/shm: %llu bytes of shared memory",
                             (unsigned long long)gw_shm_rings_bytes(count));
    return true;
}

static void read_socket(void *context, uint32_t events);

static bool watch_socket(shm_end *end, gw_err *err) {
    return gw_watch_add(end->base.path->host->loop, &end->watch, end->fd, EPOLLIN, read_socket, end, err);
}

/* The side that leads, which has been told the token. */
static bool join(shm *s, shm_end *end, gw_err *err) {
    uint32_t bells = bell_count(s);
    end->fd = gw_door_connect(end->name, err);
    if (end->fd < 0 || !gw_door_is_ours(end->fd, err) || !watch_socket(end, err)) return false;
    if (!make_bells(end, bells, err) || !make_rings(end, bells, err)) return false;
    gw_door_packet packet;
    gw_writer w;
    begin_packet(&packet, &w, JOIN);
    gw_put_u32(&w, s->base.host->streams);
    gw_put_bytes(&w, end->token, TOKEN);
    GW_ASSERT(!w.failed);
    packet.count = (uint32_t)w.length;
    packet.fds[packet.fd_count++] = end->rings;
    for (uint32_t i = 0; i < bells; i++) packet.fds[packet.fd_count++] = end->bells[i];
    return gw_door_send(end->fd, &packet, err);
}

static void shm_message(gw_path_end *base, const uint8_t *bytes, uint32_t count) {
    shm_end *end = end_of(base);
    gw_err err;
    bool good = base->leads && count == TOKEN && end->fd < 0;
    if (good) memcpy(end->token, bytes, TOKEN);
    if (!good) gw_fail(&err, GW_E_PEER, "net/shm: the peer sent a message that makes no sense");
    if (!good || !join(shm_of(base->path), end, &err)) fail(end, &err);
}

static bool take_bells(shm_end *end, gw_door_packet *packet, uint32_t from, uint32_t count, gw_err *err) {
    if (packet->fd_count != from + count)
        return gw_fail(err, GW_E_PEER, "net/shm: %u descriptors came, not %u", packet->fd_count,
                       from + count);
    memcpy(end->other_bells, packet->fds + from, count * sizeof(int));
    packet->fd_count = from;
    return true;
}

static bool take_rings(shm_end *end, gw_door_packet *packet, uint64_t bytes, gw_err *err) {
    if (!gw_door_holds(packet->fds[0], bytes))
        return gw_fail(err, GW_E_PEER, "net/shm: the rings' memory is not what it should be");
    end->rings = packet->fds[0];
    packet->fd_count = 0;
    return true;
}

/* The other side has joined; the answer gives it this side's bells. */
static bool answer_join(shm *s, shm_end *end, gw_door_packet *packet, gw_err *err) {
    uint32_t bells = bell_count(s);
    if (!take_bells(end, packet, 1, bells, err) || !take_rings(end, packet, gw_shm_rings_bytes(bells), err) ||
        !make_bells(end, bells, err))
        return false;
    gw_door_packet answer;
    gw_writer w;
    begin_packet(&answer, &w, JOINED);
    answer.count = (uint32_t)w.length;
    for (uint32_t i = 0; i < bells; i++) answer.fds[answer.fd_count++] = end->bells[i];
    return gw_door_send(end->fd, &answer, err) && watch_socket(end, err);
}

/* A packet on the socket of an end. */
static bool take_packet(shm_end *end, gw_door_packet *packet, gw_err *err) {
    gw_reader r = gw_reader_on(packet->bytes, packet->count);
    uint8_t version = gw_get_u8(&r);
    packet_type type = (packet_type)gw_get_u8(&r);
    shm *s = shm_of(end->base.path);
    if (version == VERSION && type == WORDS && end->joined && packet->fd_count == 1)
        return gw_shm_words_take(&end->theirs, &r, packet->fds[0], err);
    if (version != VERSION || type != JOINED || !end->base.leads || end->joined || !gw_reader_done(&r))
        return gw_fail(err, GW_E_PEER, "net/shm: the other process sent a packet that makes no sense");
    if (!take_bells(end, packet, 0, bell_count(s), err)) return false;
    end->base.path->host->ready(&end->base);
    stand(s, end);
    return true;
}

static void read_socket(void *context, uint32_t events) {
    (void)events;
    shm_end *end = context;
    gw_door_packet packet;
    gw_err err;
    int got = gw_door_receive(end->fd, &packet, &err);
    if (got == 0) return;
    if (got < 0 && err.code == GW_E_PEER) { /* its link will tell what became of the other process */
        gw_watch_remove(&end->watch);
        return;
    }
    bool good = got > 0 && take_packet(end, &packet, &err);
    if (got > 0) gw_door_drop(&packet); /* what was not taken */
    if (!good) fail(end, &err);
}

/* Visitors. */

static void see_off(visitor *v) {
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

/* The end that waits for whoever shows this packet. */
static shm_end *find_host(const shm *s, const gw_door_packet *packet) {
    gw_reader r = gw_reader_on(packet->bytes, packet->count);
    uint8_t version = gw_get_u8(&r), type = gw_get_u8(&r);
    uint32_t streams = gw_get_u32(&r);
    uint8_t token[TOKEN];
    gw_get_bytes(&r, token, TOKEN);
    if (!gw_reader_done(&r) || version != VERSION || type != JOIN || streams != s->base.host->streams)
        return NULL;
    for (shm_end *end = s->ends; end != NULL; end = end->next)
        if (!end->base.leads && end->fd < 0 && sodium_memcmp(end->token, token, TOKEN) == 0) return end;
    return NULL;
}

static void hear_visitor(void *context, uint32_t events) {
    (void)events;
    visitor *v = context;
    shm *s = v->shm;
    gw_door_packet packet;
    gw_err err;
    int got = gw_door_receive(v->fd, &packet, &err);
    if (got == 0) return;
    shm_end *end = got > 0 ? find_host(s, &packet) : NULL;
    if (end != NULL) {
        gw_watch_remove(&v->watch);
        end->fd = v->fd;
        v->fd = -1;
        if (answer_join(s, end, &packet, &err))
            stand(s, end);
        else
            fail(end, &err);
    }
    gw_door_drop(&packet);
    see_off(v);
}

static void after_pause(void *context) {
    shm *s = context;
    gw_watch_change(&s->watch, EPOLLIN);
}

/* Out of descriptors or memory: who knocks goes on waiting, so that looking again at once would only spin. */
static void take_a_break(shm *s) {
    gw_err err;
    if (gw_timer_set(s->base.host->loop, &s->pause, gw_now_ns() + PAUSE_NS, after_pause, s, &err))
        gw_watch_change(&s->watch, 0);
}

static void open_door(void *context, uint32_t events) {
    (void)events;
    shm *s = context;
    gw_err err;
    int fd = gw_door_accept(s->door, &err);
    if (fd < 0 && err.code != GW_OK) take_a_break(s);
    visitor *v =
        fd >= 0 && s->visitor_count < VISITORS && gw_door_is_ours(fd, &err) ? calloc(1, sizeof *v) : NULL;
    if (v == NULL) {
        close_fd(&fd); /* whoever it is will take another way */
        return;
    }
    *v = (visitor){.next = s->visitors, .shm = s, .fd = fd};
    s->visitors = v;
    s->visitor_count++;
    if (!gw_watch_add(s->base.host->loop, &v->watch, fd, EPOLLIN, hear_visitor, v, &err)) see_off(v);
}

/* Ends. */

static gw_path_end *shm_end_open(gw_path *path, const gw_path_end *as, const uint8_t *card, uint32_t count,
                                 gw_err *err) {
    shm *s = shm_of(path);
    shm_end *end = calloc(1, sizeof *end);
    if (end == NULL) {
        gw_fail(err, GW_E_NOMEM, "net/shm: no memory");
        return NULL;
    }
    end->base = *as;
    end->fd = end->rings = -1;
    for (uint32_t i = 0; i < BELLS; i++) end->bells[i] = end->other_bells[i] = -1;
    if (!read_card(s, card, count, end->name, err)) {
        free(end);
        return NULL;
    }
    gw_shm_words_init(&end->theirs);
    pthread_mutex_lock(&s->lock);
    end->next = s->ends;
    s->ends = end;
    pthread_mutex_unlock(&s->lock);
    if (!as->leads) {
        randombytes_buf(end->token, TOKEN);
        path->host->tell(&end->base, end->token, TOKEN);
    }
    return &end->base;
}

static gw_channel *shm_channel(gw_path_end *base, uint32_t stream, uint32_t rail, gw_err *err) {
    shm_end *end = end_of(base);
    uint32_t index = stream - 1;
    int bell = end->bells[index], other = end->other_bells[index];
    if (!end->joined || bell < 0 || other < 0) {
        gw_fail(err, GW_E_PEER, "net/shm: the peer uses a path that is not established");
        return NULL;
    }
    end->bells[index] = end->other_bells[index] = -1;
    return gw_shm_channel_open(end->rings, index, base->leads, bell, other,
                               base->path->host->payload_most[stream], &base->peer, rail, err);
}

static void shm_end_close(gw_path_end *base) {
    shm_end *end = end_of(base);
    shm *s = shm_of(base->path);
    pthread_mutex_lock(&s->lock);
    for (shm_end **at = &s->ends; *at != NULL; at = &(*at)->next) {
        if (*at != end) continue;
        *at = end->next;
        break;
    }
    pthread_mutex_unlock(&s->lock);
    gw_watch_remove(&end->watch);
    close_fd(&end->fd);
    close_fd(&end->rings);
    for (uint32_t i = 0; i < BELLS; i++) {
        close_fd(&end->bells[i]);
        close_fd(&end->other_bells[i]);
    }
    gw_shm_words_drop(&end->theirs);
    free(end);
}

/* Life. */

static void shm_close(gw_path *path) {
    shm *s = shm_of(path);
    GW_ASSERT(s->ends == NULL);
    while (s->visitors != NULL) see_off(s->visitors);
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
    .open = shm_end_open,
    .message = shm_message,
    .channel = shm_channel,
    .post = shm_post,
    .close_end = shm_end_close,
    .fence_begin = shm_fence_begin,
    .fence_end = shm_fence_end,
    .close = shm_close,
};

/* Names this boot of this machine. */
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
                gw_watch_add(host->loop, &s->watch, s->door, EPOLLIN, open_door, s, err);
    if (good) return &s->base;
    shm_close(&s->base);
    return NULL;
}
