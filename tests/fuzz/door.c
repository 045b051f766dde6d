/* The target `door`: bytes from a process of the same user at the door of shared memory, which are its
 * card, and packets with descriptors.
 *
 * The first byte chooses between the two. The rest is a card, or packets, each after its length (u16) and
 * a byte for its descriptors: how many (low bits), and the kind of the first. Cards and tokens differ
 * between processes, so the input is added (exclusive or) to the right ones: zeros are valid. */
#include "net/rail/path.h"
#include "net/shm/channel.h"
#include "net/shm/shm.h"
#include "net/shm/words.h"
#include "tests/fuzz/target.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CARD = 'c', VISITS = 'v', IS_VISITED = 'i' /* whether the other side leads, or this one */ };
enum { STREAMS = 2, TOKEN = 16, TOKEN_AT = 6, JOIN = 1, JOINED, WORDS, REGION = 3, WORD_COUNT = 5 };
enum { OF_RINGS, OF_WORDS, A_BELL, OF_NOTHING, KIND_SHIFT = 4, COUNT_BITS = 15, PACKETS = 16, TURNS = 4 };

static const gw_fence fence = {.epoch = 1, .view = {{1}}};
static const gw_peer_id visitor = {{2}};

/* Opened once; each input gets an end of its own. */
static struct {
    gw_path_host host;
    gw_path *path; /* NULL = not opened yet */
    uint8_t card[GW_PATH_CARD_BYTES], token[TOKEN];
    uint32_t card_bytes;
    char name[GW_DOOR_NAME]; /* of the other side's door */
    int door, of[4];
    uint8_t *words; /* the other side's */
    uint32_t failed, readied;
} house;

static void told(gw_path_endpoint *end, const void *bytes, uint32_t count) {
    GW_ASSERT(!end->leads && count == TOKEN);
    memcpy(house.token, bytes, TOKEN);
}

static void ready(gw_path_endpoint *end) {
    GW_ASSERT(end->leads && house.readied++ == 0);
}

static void failed(gw_path_endpoint *end, const gw_err *why) {
    (void)end;
    GW_ASSERT(why->code != GW_OK && house.failed++ == 0);
}

static int make_memory(uint64_t bytes) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    GW_ASSERT(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

static void open_house(void) {
    gw_err err;
    if (house.path != NULL) return;
    house.host = (gw_path_host){.loop = gw_loop_open(&err),
                                .words = gw_words_open(&err),
                                .streams = STREAMS,
                                .payload_most = {64, 64},
                                .tell = told,
                                .ready = ready,
                                .failed = failed};
    GW_ASSERT(house.host.loop != NULL && house.host.words != NULL);
    GW_ASSERT(gw_words_add(house.host.words, REGION, WORD_COUNT, &err));
    house.path = gw_shm_open(&house.host, &err);
    house.door = gw_door_open(house.name, &err);
    GW_ASSERT(house.path != NULL && house.door >= 0);
    house.card_bytes = house.path->ops->card(house.path, house.card, &err);
    GW_ASSERT(house.card_bytes > GW_DOOR_NAME);
    house.path->ops->fence_begin(house.path, &fence, &visitor, 1);
    house.path->ops->fence_end(house.path, &fence, &visitor, 1);
    house.of[OF_RINGS] = make_memory(gw_shm_rings_bytes(STREAMS - 1));
    house.of[OF_WORDS] = make_memory(GW_WORDS_BYTES);
    house.of[A_BELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    house.of[OF_NOTHING] = open("/dev/null", O_RDWR | O_CLOEXEC);
    house.words = mmap(NULL, GW_WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, house.of[OF_WORDS], 0);
    GW_ASSERT(house.words != MAP_FAILED && house.of[A_BELL] >= 0 && house.of[OF_NOTHING] >= 0);
}

static void turn(void) {
    for (int i = 0; i < TURNS; i++) gw_loop_turn(house.host.loop, 0);
}

/* Cards. */

static bool take_card(const uint8_t *bytes, size_t count) {
    uint8_t card[GW_PATH_CARD_BYTES];
    gw_err err;
    if (count > sizeof card) count = sizeof card;
    for (size_t i = 0; i < count; i++) card[i] = bytes[i] ^ (i < house.card_bytes ? house.card[i] : 0);
    bool suits = house.path->ops->suits(house.path, card, (uint32_t)count, &err);
    GW_ASSERT(!suits || count == house.card_bytes);
    return suits;
}

/* Packets. */

/* Makes the end of this side, and the other side's socket to it. */
static gw_path_endpoint *open_end(bool leads, int *socket) {
    gw_err err;
    uint8_t card[GW_PATH_CARD_BYTES];
    char *name = (char *)card + house.card_bytes - GW_DOOR_NAME;
    memcpy(card, house.card, house.card_bytes);
    if (leads) memcpy(name, house.name, GW_DOOR_NAME);
    const gw_path_endpoint as = {.path = house.path, .peer = visitor, .link = 1, .serial = 1, .leads = leads};
    gw_path_endpoint *end = house.path->ops->open(house.path, &as, card, house.card_bytes, &err);
    GW_ASSERT(end != NULL);
    if (leads) {
        const uint8_t token[TOKEN] = {1};
        house.path->ops->message(end, token, TOKEN);
        *socket = gw_door_accept(house.door, &err);
    } else
        *socket = gw_door_connect(name, &err);
    GW_ASSERT(*socket >= 0);
    turn();
    return end;
}

static void send_packet(int socket, uint8_t fds, const uint8_t *bytes, size_t count) {
    gw_door_packet packet = {.fd_count = fds & COUNT_BITS};
    gw_err err;
    packet.count = (uint32_t)(count < GW_DOOR_BYTES ? count : GW_DOOR_BYTES);
    memcpy(packet.bytes, bytes, packet.count);
    for (size_t i = 0; packet.count > 1 && packet.bytes[1] == JOIN && i < TOKEN; i++)
        if (TOKEN_AT + i < packet.count) packet.bytes[TOKEN_AT + i] ^= house.token[i];
    for (uint32_t i = 0; i < packet.fd_count; i++)
        packet.fds[i] = house.of[i == 0 ? (fds >> KIND_SHIFT) % 4 : A_BELL];
    (void)gw_door_send(socket, &packet, &err); /* the descriptor may have been closed */
}

/* Checks that, whatever the packets say about words, operations stay behind the header of their file. */
static void do_words(gw_path_endpoint *end) {
    static uint64_t buffer[GW_WORDS_BYTES / sizeof(uint64_t)];
    gw_completion done;
    for (uint32_t region = 0; region <= GW_MAX_REGIONS; region++) {
        gw_op op = {
            .kind = GW_OP_FETCH_ADD, .fence = fence, .region = region, .buffer = buffer, .operand = 1};
        for (op.offset = 0; op.offset < GW_WORDS_BYTES; op.offset += op.offset < 64 ? 8 : op.offset / 2)
            house.path->ops->post(end, &op, &done);
        op.kind = GW_OP_READ;
        op.offset = 0;
        for (op.bytes = 8; op.bytes <= sizeof buffer; op.bytes *= 2) house.path->ops->post(end, &op, &done);
    }
    for (size_t i = 0; i < sizeof(gw_words_header); i++) GW_ASSERT(house.words[i] == 0);
}

static bool take_packets(bool leads, const uint8_t *bytes, size_t count) {
    int socket;
    house.failed = house.readied = 0;
    gw_path_endpoint *end = open_end(leads, &socket);
    gw_reader r = gw_reader_on(bytes, count);
    for (int k = 0; k < PACKETS && gw_reader_left(&r) > 0; k++) {
        size_t length = gw_get_u16(&r);
        uint8_t fds = gw_get_u8(&r);
        if (r.failed) break;
        if (length > gw_reader_left(&r)) length = gw_reader_left(&r);
        send_packet(socket, fds, gw_get_view(&r, length), length);
        turn();
    }
    gw_err err;
    gw_channel *channel = house.path->ops->channel(end, 1, 1, &err);
    GW_ASSERT(channel == NULL || !leads || house.readied == 1);
    do_words(end);
    bool good = channel != NULL && house.failed == 0 && gw_reader_done(&r);
    if (channel != NULL) channel->ops->close(channel);
    close(socket);
    turn();
    house.path->ops->close_endpoint(end);
    return good;
}

static void put_packet(gw_writer *w, uint8_t kind, uint8_t fds, const uint8_t *bytes, size_t count) {
    gw_put_u16(w, (uint16_t)count);
    gw_put_u8(w, (uint8_t)(kind << KIND_SHIFT | fds));
    gw_put_bytes(w, bytes, count);
}

static void door_examples(fuzz_add *add, void *context) {
    uint8_t bytes[1 + GW_PATH_CARD_BYTES] = {CARD}, packet[GW_DOOR_BYTES];
    open_house();
    const uint8_t version = house.card[0];
    add(context, bytes, 1 + house.card_bytes);
    for (int leads = 0; leads < 2; leads++) {
        gw_writer w = gw_writer_on(bytes, sizeof bytes), p = gw_writer_on(packet, sizeof packet);
        gw_put_u8(&w, leads ? IS_VISITED : VISITS);
        gw_put_u8(&p, version);
        gw_put_u8(&p, leads ? JOINED : JOIN);
        if (!leads) {
            gw_put_u32(&p, STREAMS);
            for (int i = 0; i < TOKEN; i++) gw_put_u8(&p, 0);
        }
        put_packet(&w, leads ? A_BELL : OF_RINGS, leads ? 1 : 2, packet, p.length);
        p = gw_writer_on(packet, sizeof packet);
        gw_put_u8(&p, version);
        gw_put_u8(&p, WORDS);
        gw_shm_words_describe(house.host.words, &fence, &p);
        for (int k = 0; k < 2; k++) put_packet(&w, OF_WORDS, 1, packet, p.length);
        GW_ASSERT(!w.failed && !p.failed);
        add(context, bytes, w.length);
    }
}

static bool take_door(const uint8_t *bytes, size_t count) {
    open_house();
    if (count == 0) return false;
    switch (bytes[0]) {
    case CARD:
        return take_card(bytes + 1, count - 1);
    case VISITS:
    case IS_VISITED:
        return take_packets(bytes[0] == IS_VISITED, bytes + 1, count - 1);
    default:
        return false;
    }
}

const fuzz_target fuzz_door = {"door", 15000, 1024, door_examples, NULL, take_door};
