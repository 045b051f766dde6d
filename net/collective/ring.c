/* Ring reduce-scatter and all-gather of one part, pipelined in chunks.
 *
 * The slice is cut into as many blocks as there are members, and each block into K chunks. Every member sends
 * 2 (N - 1) K chunk messages to its right neighbour and receives as many from its left one: message i is chunk
 * i mod K of block (rank - i / K) mod N. The first K come from the member's own input. Message i of the others
 * passes on what arrived as message i - K, with the member's own input added while the chunk still gathers
 * contributions (i < N K). A partial sum that is packed and passed on at once is kept nowhere else; all others
 * are in `out`.
 *
 * In a large sum, what has arrived is passed on before more of the own input is sent, while it is in the core's
 * cache. A member sends more of its input only when nothing waits, so as much of it is under way as fills the
 * ring, however long that takes. In a smaller sum, the whole own input goes first: members then wait less for
 * each other. The chunks of one block are sent in their order. A build of the version before takes only messages
 * in the order of their numbers: if there is one, everybody sends all sums like small ones.
 *
 * Every block is added up once, in ring order, and then copied around, so float sums have the same bytes
 * everywhere. ENTER messages go round ahead of the chunks: when ENTER h arrives, the member h places before
 * this one has entered. Chunks follow once all members have entered, and on how many rails is then known. The right neighbour, whose ENTER arrives
 * last, reads nothing before it has entered, and TCP would give up a connection whose receiver does not read
 * (net/link/stream.c).
 *
 * A chunk is packed as it is sent, and unpacked as it is added or put into its place, so whatever is smaller
 * on its way is the same everywhere else. Chunks that packing makes hardly smaller go as they are. */
#include "core/base/assert.h"
#include "core/os/trace.h"
#include "core/vector/pack.h"
#include "net/collective/part.h"

#include <stdlib.h>

/* A chunk goes packed if that saves this share of its bytes, an eighth, or more: copying costs, too. */
enum { WORTHWHILE = 8 };

/* A chunk that has arrived and is passed on. */
typedef struct relay {
    uint32_t index; /* of the message that passes it on */
    uint64_t checksum;
} relay;

typedef struct ring {
    gw_rail_peer *left, *right;
    uint32_t chunks;   /* K, the chunks of a block */
    uint32_t messages; /* 2 (N - 1) K; before ring_begin UINT32_MAX */
    uint32_t own_sent; /* how many chunks of the own input have been sent */
    uint32_t landed;
    uint32_t *landed_of; /* by hop, message / K: how many of its chunks have landed */
    uint32_t landing;    /* the number of the chunk message that is arriving */
    relay *relays;       /* in the order of their arrival */
    uint32_t relays_landed, relays_sent;
    uint32_t enters_sent, enters_landed; /* N - 1 are sent and N - 1 received */
    bool landing_enter;                  /* the message that is arriving is an ENTER */
    bool folded;                         /* the arriving chunk was added as it arrived */
    gw_checksum theirs, added;           /* checksums of the arriving chunk and of its sum */
    uint64_t expected;                   /* the checksum in its header */
    struct iovec *tx_parts, *rx_parts;   /* one entry for each piece */
    /* Packed chunks on their way out and in, one at a time; NULL where that neighbour's channel has none. */
    uint8_t *tx_packed, *rx_packed;
    struct iovec tx_packed_part, rx_packed_part;
    uint64_t relay_bytes; /* the bytes of the first relay, if it is in tx_packed already; else 0 */
    bool landing_packed;  /* the message that is arriving is a packed chunk */
    bool others_read;     /* all members that have entered, as far as is known, are GW_PART_READS_ANY */
} ring;

/* The place of message `index` of member `rank` in the vector. */
static void locate(const gw_part *part, const ring *r, uint32_t rank, uint32_t index, uint64_t *first,
                   uint64_t *count) {
    uint64_t n = part->call->is.member_count;
    uint64_t block = (rank + 2 * n - index / r->chunks) % n, chunk = index % r->chunks;
    uint64_t from = block * part->count / n, to = (block + 1) * part->count / n, length = to - from;
    *first = part->first + from + chunk * length / r->chunks;
    *count = part->first + from + (chunk + 1) * length / r->chunks - *first;
}

/* Makes room for packed chunks, where channels pack. */
static bool open_packing(gw_part *part, ring *r, gw_err *err) {
    uint64_t n = part->call->is.member_count, block = (part->count + n - 1) / n;
    uint64_t most = gw_pack_most((block + r->chunks - 1) / r->chunks);
    if (part->call->is.type != GW_SUM_I64) return true;
    if (r->right->packs) r->tx_packed = malloc(most);
    if (r->left->unpacks) r->rx_packed = malloc(most);
    bool done = (r->tx_packed != NULL || !r->right->packs) && (r->rx_packed != NULL || !r->left->unpacks);
    return done || gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
}

static bool ring_open(gw_part *part, gw_err *err) {
    const gw_collective_call *is = &part->call->is;
    uint32_t n = is->member_count;
    ring *r = part->state = calloc(1, sizeof *r);
    if (r == NULL) return gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
    r->others_read = true;
    r->messages = UINT32_MAX; /* not known yet */
    return gw_part_peer(part, (is->rank + n - 1) % n, &r->left, err) &&
           gw_part_peer(part, (is->rank + 1) % n, &r->right, err);
}

static bool ring_begin(gw_part *part, gw_err *err) {
    const gw_collective_call *is = &part->call->is;
    uint32_t n = is->member_count;
    ring *r = part->state;
    r->tx_parts = calloc(is->piece_count, sizeof *r->tx_parts);
    r->rx_parts = calloc(is->piece_count, sizeof *r->rx_parts);
    if (r->tx_parts == NULL || r->rx_parts == NULL)
        return gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
    uint64_t block_bytes = (part->count + n - 1) / n * gw_sum_bytes(is->type);
    uint64_t chunks = (block_bytes + GW_RING_CHUNK_BYTES - 1) / GW_RING_CHUNK_BYTES;
    if (chunks == 0) chunks = 1;
    if (2 * (n - 1) * chunks > UINT32_MAX)
        return gw_fail(err, GW_E_LIMIT, "net/collective: a sum of %llu elements is too large",
                       (unsigned long long)part->call->elements);
    r->chunks = (uint32_t)chunks;
    r->messages = 2 * (n - 1) * r->chunks;
    r->landed_of = calloc(2 * (n - 1), sizeof *r->landed_of);
    r->relays = calloc(r->messages - r->chunks, sizeof *r->relays);
    if (r->landed_of == NULL || r->relays == NULL)
        return gw_fail(err, GW_E_NOMEM, "net/collective: no memory");
    return open_packing(part, r, err);
}

static void ring_close(gw_part *part) {
    ring *r = part->state;
    if (r == NULL) return;
    free(r->landed_of);
    free(r->relays);
    free(r->tx_parts);
    free(r->rx_parts);
    free(r->tx_packed);
    free(r->rx_packed);
    free(r);
}

static void update(gw_part *part) {
    const ring *r = part->state;
    uint32_t enters = part->call->is.member_count - 1;
    part->tx_done = r->own_sent + r->relays_sent == r->messages && r->enters_sent == enters;
    part->all_entered = r->enters_landed == enters;
    part->done = part->tx_done && part->in_flight == 0 && r->landed == r->messages && part->all_entered;
}

/* Whether chunks go packed: the right neighbour's channel packs, and everybody reads them. */
static bool packs(const ring *r) {
    return r->tx_packed != NULL && r->others_read;
}

/* Whether `bytes` instead of those of `count` elements are worth a packed message. */
static bool is_worthwhile(uint64_t bytes, uint64_t count) {
    uint64_t plain = count * gw_sum_bytes(GW_SUM_I64);
    return count > 0 && bytes <= plain - plain / WORTHWHILE;
}

/* Makes a chunk a packed message. False if it is to go as it is. The checksum may be NULL. */
static bool pack_chunk(gw_part *part, ring *r, bool own, uint32_t index, uint64_t first, uint64_t count,
                       gw_rail_message *message, gw_checksum *checksum) {
    uint64_t bytes = own ? 0 : r->relay_bytes;
    if (bytes == 0) {
        uint64_t began_ns = gw_trace_begin();
        bytes = gw_call_pack(part->call, !own, first, count, r->tx_packed, checksum);
        gw_trace_end(GW_TRACE_PACK, began_ns, index, bytes, 0);
    }
    if (!is_worthwhile(bytes, count)) return false;
    part->saved_bytes += message->bytes - bytes;
    r->tx_packed_part = (struct iovec){r->tx_packed, bytes};
    message->bytes = (uint32_t)bytes;
    message->parts = &r->tx_packed_part;
    message->part_count = 1;
    return true;
}

static bool relay_waits(const ring *r) {
    return r->relays_sent < r->relays_landed;
}

/* Whether a chunk that is to be passed on goes before those of the own input. */
static bool relays_first(const gw_part *part, const ring *r) {
    return r->own_sent == r->chunks || (r->others_read && part->call->elements > GW_PART_CACHED);
}

/* Makes the next chunk a message. */
static void send_chunk(gw_part *part, ring *r, gw_rail_message *message) {
    bool own = !relay_waits(r) || !relays_first(part, r), packed = false;
    relay next = {.index = r->own_sent};
    gw_checksum packing = {.values = 0};
    uint64_t first, count;
    if (!own) next = r->relays[r->relays_sent];
    locate(part, r, part->call->is.rank, next.index, &first, &count);
    message->bytes = (uint32_t)(count * gw_sum_bytes(part->call->is.type));
    if (packs(r)) packed = pack_chunk(part, r, own, next.index, first, count, message, own ? &packing : NULL);
    if (!packed) message->part_count = gw_call_gather(part->call, !own, first, count, r->tx_parts);
    if (own)
        next.checksum =
            packs(r) ? gw_checksum_end(&packing) : gw_call_checksum(part->call, false, first, count);
    if (!own) r->relay_bytes = 0;
    r->own_sent += own;
    r->relays_sent += !own;
    gw_part_encode(part, packed ? GW_PART_PACKED : GW_PART_CHUNK, next.index, next.checksum, message->header);
}

static bool ring_next(gw_part *part, gw_rail_peer *peer, gw_rail_message *message) {
    ring *r = part->state;
    if (peer != r->right) return false;
    message->bytes = 0;
    message->part_count = 0;
    message->parts = r->tx_parts;
    if (r->enters_sent < part->call->is.member_count - 1 && r->enters_sent <= r->enters_landed) {
        uint64_t told = r->others_read ? GW_PART_READS_ANY : 0;
        told |= (uint64_t)part->lanes << GW_PART_LANES_SHIFT;
        gw_part_encode(part, GW_PART_ENTER, ++r->enters_sent, told, message->header);
    } else if (part->all_entered && (!packs(r) || part->in_flight == 0) &&
               (r->own_sent < r->chunks || relay_waits(r))) {
        send_chunk(part, r, message);
    } else {
        return false;
    }
    part->sending_to = peer;
    part->in_flight++;
    update(part);
    return true;
}

static void ring_sent(gw_part *part, gw_rail_peer *peer) {
    const ring *r = part->state;
    GW_ASSERT(peer == r->right);
    update(part);
    if (packs(r)) part->transport->ops->rail_push(part->transport, r->right); /* there is room again */
}

/* Whether the arriving chunk still gathers contributions, so that this member's is added. */
static bool gathers(const gw_part *part, const ring *r) {
    return r->landing < (part->call->is.member_count - 1) * r->chunks;
}

/* Whether message `index` may arrive now: its block's chunks before it have, and if it brings the result of a
 * chunk of which a part has been passed on before, so has that. */
static bool may_arrive(const gw_part *part, const ring *r, uint32_t index) {
    uint32_t n = part->call->is.member_count, hop = index / r->chunks, chunk = index % r->chunks;
    return index < r->messages && chunk == r->landed_of[hop] && (hop < n || chunk < r->landed_of[hop - n]);
}

static gw_arrival ring_arrive(gw_part *part, gw_rail_peer *peer, const gw_part_header *header,
                              gw_rail_message *message) {
    ring *r = part->state;
    if (peer != r->left) return GW_ARRIVAL_REFUSE;
    r->expected = header->checksum;
    r->landing_enter = header->type == GW_PART_ENTER;
    if (r->landing_enter) {
        bool fits = header->index == r->enters_landed + 1 && header->index < header->members;
        return fits && message->bytes == 0 ? GW_ARRIVAL_LAND : GW_ARRIVAL_REFUSE;
    }
    r->landing_packed = header->type == GW_PART_PACKED;
    if (header->type != GW_PART_CHUNK && !(r->landing_packed && r->rx_packed != NULL))
        return GW_ARRIVAL_REFUSE;
    if (!may_arrive(part, r, header->index)) return GW_ARRIVAL_REFUSE;
    r->landing = header->index;
    uint64_t first, count;
    uint32_t n = header->members;
    locate(part, r, (part->call->is.rank + n - 1) % n, header->index, &first, &count);
    r->folded = false;
    r->theirs = r->added = (gw_checksum){0};
    if (r->landing_packed) {
        if (message->bytes == 0 || message->bytes > gw_pack_most(count)) return GW_ARRIVAL_REFUSE;
        r->rx_packed_part = (struct iovec){r->rx_packed, message->bytes};
        message->part_count = 1;
        message->parts = &r->rx_packed_part;
        return GW_ARRIVAL_LAND;
    }
    if (message->bytes != count * gw_sum_bytes(part->call->is.type)) return GW_ARRIVAL_REFUSE;
    message->part_count = gw_call_gather(part->call, true, first, count, r->rx_parts);
    message->parts = r->rx_parts;
    message->fold = gathers(part, r);
    return GW_ARRIVAL_LAND;
}

static void ring_fold(gw_part *part, uint32_t offset, const void *payload, uint32_t bytes) {
    ring *r = part->state;
    uint64_t first, count, size = gw_sum_bytes(part->call->is.type);
    uint32_t n = part->call->is.member_count;
    locate(part, r, (part->call->is.rank + n - 1) % n, r->landing, &first, &count);
    GW_ASSERT(offset % size == 0 && bytes % size == 0 && offset + bytes <= count * size);
    gw_call_fold(part->call, first + offset / size, bytes / size, payload, &r->theirs, &r->added);
    r->folded = true;
}

/* Whether the arriving chunk is passed on. */
static bool is_relayed(const ring *r) {
    return r->landing < r->messages - r->chunks;
}

/* Adds a packed chunk that has arrived, and makes the sums the next packed message while they are in the core's
 * cache. A partial sum needs no other place. False if packing them is not worthwhile. */
static bool relay_sums(gw_part *part, ring *r, uint64_t first, uint64_t count) {
    bool result = r->landing >= (part->call->is.member_count - 2) * r->chunks;
    r->relay_bytes =
        gw_call_relay(part->call, first, count, r->rx_packed, result, r->tx_packed, &r->theirs, &r->added);
    if (is_worthwhile(r->relay_bytes, count)) return true;
    r->relay_bytes = 0;
    r->theirs = r->added = (gw_checksum){0};
    return false;
}

/* Unpacks a packed chunk that has arrived, and passes it on as it is. */
static void relay_result(gw_part *part, ring *r, uint64_t first, uint64_t count) {
    uint8_t *arrived = r->rx_packed;
    gw_call_unpack(part->call, first, count, arrived, &r->theirs, NULL);
    r->rx_packed = r->tx_packed;
    r->tx_packed = arrived;
    r->relay_bytes = r->rx_packed_part.iov_len;
}

/* Unpacks a chunk that has arrived, and adds it if it gathers. False if it is malformed. */
static bool unpack_chunk(gw_part *part, ring *r, uint64_t first, uint64_t count) {
    gw_err err;
    if (!gw_packed_check(r->rx_packed, r->rx_packed_part.iov_len, count, &err)) return false;
    bool adds = gathers(part, r);
    bool at_once =
        is_relayed(r) && packs(r) && relays_first(part, r) && !relay_waits(r) && part->in_flight == 0;
    if (at_once && adds && relay_sums(part, r, first, count)) return true;
    if (at_once && !adds)
        relay_result(part, r, first, count);
    else
        gw_call_unpack(part->call, first, count, r->rx_packed, &r->theirs, adds ? &r->added : NULL);
    return true;
}

/* Adds a chunk that has arrived, if it was not added on arrival, and notes it if it is passed on. A chunk
 * that is only copied around keeps the checksum of the member that added it up. */
static void take_chunk(gw_part *part, ring *r) {
    uint64_t first, count;
    uint32_t n = part->call->is.member_count;
    locate(part, r, (part->call->is.rank + n - 1) % n, r->landing, &first, &count);
    bool adds = gathers(part, r), good = true;
    if (r->landing_packed)
        good = unpack_chunk(part, r, first, count);
    else if (adds && !r->folded)
        gw_call_fold(part->call, first, count, NULL, &r->theirs, &r->added);
    uint64_t found = adds || r->landing_packed ? gw_checksum_end(&r->theirs)
                                               : gw_call_checksum(part->call, true, first, count);
    part->changed = !good || found != r->expected;
    r->landed++;
    r->landed_of[r->landing / r->chunks]++;
    if (is_relayed(r))
        r->relays[r->relays_landed++] = (relay){.index = r->landing + r->chunks,
                                                .checksum = adds ? gw_checksum_end(&r->added) : r->expected};
}

static void ring_landed(gw_part *part, gw_rail_peer *peer) {
    ring *r = part->state;
    GW_ASSERT(peer == r->left);
    if (r->landing_enter) {
        uint32_t lanes = r->expected >> GW_PART_LANES_SHIFT & GW_PART_LANES_MASK;
        r->enters_landed++;
        r->others_read = r->others_read && (r->expected & GW_PART_READS_ANY) != 0;
        if (lanes < part->lanes) part->lanes = lanes > 0 ? lanes : 1;
    } else {
        take_chunk(part, r);
    }
    if (part->changed) return;
    update(part);
    part->transport->ops->rail_push(part->transport, r->right);
}

const gw_part_ops gw_ring_ops = {.open = ring_open,
                                 .begin = ring_begin,
                                 .next = ring_next,
                                 .sent = ring_sent,
                                 .arrive = ring_arrive,
                                 .fold = ring_fold,
                                 .landed = ring_landed,
                                 .close = ring_close};
