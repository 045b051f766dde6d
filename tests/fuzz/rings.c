/* The target `rings`: bytes that a process of the same user writes into the shared memory of a channel,
 * which are frames, payload, and its position.
 *
 * An input is a series of turns: the number (i8) of 64-byte lines by which the sender's position moves
 * (127 = by one byte), the length (u16) of the bytes that are written at the old position, and the bytes.
 * Where a frame fits and the length is even, it begins with a frame whose checksum is made right, which no
 * search would hit. After each turn the other side receives. */
#include "core/base/wire.h"
#include "net/rail/channel.h"
#include "net/shm/channel.h"
#include "tests/fuzz/target.h"
#include "tests/net/sealed_frame.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, LINE = 64, FRAME = 128, HEAD = 3, ODD = 127, PAYLOAD = 4096, MOST_LOOKS = 64 };
enum { LAND, FOLD, DROP, PARK, REFUSE, WHATS }; /* chosen by the first byte of a header */

typedef struct receiver {
    struct iovec part;
    uint8_t payload[PAYLOAD];
    uint32_t folded, bytes, parked;
    uint32_t messages;
} receiver;

static gw_arrival arrive(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    receiver *r = context;
    (void)peer;
    GW_ASSERT(message->bytes <= PAYLOAD);
    int what = message->header[0] % WHATS;
    if (what == REFUSE) return GW_ARRIVAL_REFUSE;
    if (what == PARK && r->parked++ == 0) return GW_ARRIVAL_PARK;
    r->messages++;
    if (what == DROP) return GW_ARRIVAL_DROP;
    r->part = (struct iovec){r->payload, message->bytes};
    r->bytes = message->bytes;
    r->folded = 0;
    message->parts = &r->part;
    message->part_count = 1;
    message->fold = what == FOLD;
    return GW_ARRIVAL_LAND;
}

static void fold(void *context, gw_rail_peer *peer, uint32_t offset, const void *payload, uint32_t bytes) {
    receiver *r = context;
    (void)peer;
    GW_ASSERT(offset == r->folded && bytes <= r->bytes - offset);
    GW_ASSERT((uintptr_t)payload % LINE == 0 && (bytes % LINE == 0 || offset + bytes == r->bytes));
    memcpy(r->payload + offset, payload, bytes);
    r->folded += bytes;
}

static void landed(void *context, gw_rail_peer *peer) {
    const receiver *r = context;
    (void)peer;
    GW_ASSERT(r->folded == 0 || r->folded == r->bytes);
}

static gw_channel *open_channel(int rings) {
    const gw_peer_id id = {{1}};
    gw_err err;
    gw_channel *channel = gw_shm_channel_open(rings, 0, false, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                              eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), PAYLOAD, &id, 0, &err);
    GW_ASSERT(channel != NULL);
    return channel;
}

/* Receives once; returns false if the channel is broken. */
static bool receive_all(gw_channel *channel, const gw_rail_user *user) {
    gw_err err;
    for (int k = 0; k < MOST_LOOKS; k++) {
        gw_flow flow = channel->ops->receive(channel, user, &err);
        if (flow == GW_FLOW_BROKEN) return false;
        if (flow == GW_FLOW_IDLE) channel->in.parked = false; /* the user is ready for it */
        if (flow == GW_FLOW_BLOCKED) return true;
    }
    return true;
}

static bool take_rings(const uint8_t *bytes, size_t count) {
    static receiver r;
    r = (receiver){.messages = 0};
    const gw_rail_user user = {.context = &r, .arrive = arrive, .fold = fold, .landed = landed};
    const size_t ring = gw_shm_rings_bytes(1) / 2 - PAGE;
    int rings = memfd_create("rings", MFD_CLOEXEC);
    GW_ASSERT(rings >= 0 && ftruncate(rings, (off_t)gw_shm_rings_bytes(1)) == 0);
    gw_channel *channel = open_channel(rings);
    uint8_t *page = mmap(NULL, PAGE + ring, PROT_READ | PROT_WRITE, MAP_SHARED, rings, 0);
    GW_ASSERT(page != MAP_FAILED);
    _Atomic uint64_t *head = (_Atomic uint64_t *)(void *)page;
    bool good = true;
    uint8_t *written = malloc(count + 1);
    GW_ASSERT_MEMORY(written != NULL);
    for (size_t at = 0; good && at + HEAD <= count;) {
        size_t length = (size_t)bytes[at + 1] | (size_t)bytes[at + 2] << 8;
        int lines = (int8_t)bytes[at];
        at += HEAD;
        if (length > count - at) length = count - at;
        uint64_t position = atomic_load(head);
        memcpy(written, bytes + at, length);
        if (length >= GW_FRAME_BYTES && length % 2 == 0) seal_frame(written);
        for (size_t i = 0; i < length; i++) page[PAGE + (position + i) % ring] = written[i];
        atomic_store(head, position + (uint64_t)(lines == ODD ? 1 : lines * LINE));
        at += length;
        good = receive_all(channel, &user);
    }
    good &= r.messages > 0 && channel->in.state == GW_INCOMING_HEAD;
    channel->ops->close(channel);
    munmap(page, PAGE + ring);
    free(written);
    close(rings);
    return good;
}

/* Adds a message for each outcome that a message may have, in one piece and in two. */
static void rings_examples(fuzz_add *add, void *context) {
    enum { BYTES = 200, LINES = (FRAME + 256) / LINE };
    for (uint8_t what = LAND; what < REFUSE; what++)
        for (uint8_t first = 1; first <= LINES; first += LINES - 1) {
            uint8_t input[2 * HEAD + LINES * LINE] = {first, LINES * LINE & 255, LINES * LINE >> 8};
            gw_writer w = gw_writer_on(input + HEAD, FRAME);
            gw_put_u32(&w, BYTES);
            gw_put_u32(&w, 0);
            gw_put_u8(&w, what);
            seal_frame(input + HEAD);
            input[HEAD + LINES * LINE] = (uint8_t)(LINES - first);
            add(context, input, sizeof input);
        }
}

const fuzz_target fuzz_rings = {"rings", 3000, 2048, rings_examples, NULL, take_rings};
