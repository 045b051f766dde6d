/* Targets for bytes from other machines: gossip, control messages, and headers of the data plane. The
 * targets for the encryption around them are in sealed.c. */
#include "core/brain/message.h"
#include "core/gossip/gossip.h"
#include "net/collective/part.h"
#include "net/data/request.h"
#include "net/loop/address.h"
#include "net/onesided/requester.h"
#include "net/rail/path_message.h"
#include "tests/fuzz/target.h"
#ifdef GODWIT_RDMA
#include "net/rdma/message.h"
#endif

#include <stdlib.h>
#include <string.h>

/* Target of gossip: decrypted datagrams, each after two bytes with its length. */

enum { PERIOD_NS = 200000000, PEERS = 3, DATAGRAM_HEAD = 2 };

typedef struct village {
    gw_gossip *gossip[PEERS];
    uint64_t now_ns;
    uint32_t speaking;
    uint8_t said[1 << 14]; /* all datagrams of one round, with their lengths */
    size_t said_bytes;
} village;

static gw_addr address_of(uint32_t peer) {
    return (gw_addr){.family = 4, .ip = {10, 0, 0, (uint8_t)(peer + 1)}, .port = 7};
}

static void keep_datagram(void *context, const gw_addr *to, const void *bytes, size_t length) {
    village *v = context;
    (void)to;
    GW_ASSERT(length <= GW_GOSSIP_DATAGRAM);
    if (v->said_bytes + DATAGRAM_HEAD + length > sizeof v->said) return;
    uint8_t *at = v->said + v->said_bytes;
    at[0] = (uint8_t)length;
    at[1] = (uint8_t)(length >> 8);
    memcpy(at + DATAGRAM_HEAD, bytes, length);
    v->said_bytes += DATAGRAM_HEAD + length;
}

static void ignore_event(void *context, const gw_gossip_event *event) {
    (void)context;
    GW_ASSERT(event->member != NULL);
}

static void open_peer(village *v, uint32_t peer) {
    gw_addr seed = address_of(0);
    gw_gossip_config config = {.id = {{(uint8_t)(peer + 1)}},
                               .incarnation = {.boot = 1, .nonce = peer + 1},
                               .addr = {address_of(peer)},
                               .addr_count = 1,
                               .seeds = &seed,
                               .seed_count = 1,
                               .name = peer == 0 ? "a host" : NULL,
                               .before = peer == 1,
                               .timing = gw_gossip_timing_default(),
                               .rng_seed = peer,
                               .sink = {v, keep_datagram, ignore_event}};
    gw_err err;
    GW_ASSERT(gw_gossip_create(&config, &v->gossip[peer], &err));
    gw_gossip_start(v->gossip[peer], v->now_ns);
}

static void hear(village *v, gw_gossip *gossip, const uint8_t *bytes, size_t count) {
    for (size_t at = 0; at + DATAGRAM_HEAD <= count;) {
        size_t length = (size_t)bytes[at] | (size_t)bytes[at + 1] << 8;
        at += DATAGRAM_HEAD;
        if (length > count - at) length = count - at;
        gw_addr from = address_of(1);
        gw_gossip_datagram(gossip, &from, bytes + at, length, v->now_ns);
        at += length;
        v->now_ns += PERIOD_NS / 4;
        gw_gossip_tick(gossip, v->now_ns);
    }
}

/* Adds the datagrams of three peers in some rounds, one of which falls silent. */
static void gossip_examples(fuzz_add *add, void *context) {
    village v = {.now_ns = 1};
    static uint8_t heard[sizeof v.said];
    for (uint32_t p = 0; p < PEERS; p++) open_peer(&v, p);
    for (uint32_t round = 0; round < 40; round++) {
        size_t count = v.said_bytes;
        memcpy(heard, v.said, count);
        v.said_bytes = 0;
        if (count > 0) add(context, heard, count);
        for (uint32_t p = 0; p < (round < 20 ? PEERS : PEERS - 1); p++) hear(&v, v.gossip[p], heard, count);
        v.now_ns += PERIOD_NS;
        for (uint32_t p = 0; p < PEERS; p++) gw_gossip_tick(v.gossip[p], v.now_ns);
    }
    for (uint32_t p = 0; p < PEERS; p++) gw_gossip_destroy(v.gossip[p]);
}

static bool take_gossip(const uint8_t *bytes, size_t count) {
    static village v;
    v = (village){.now_ns = 1};
    open_peer(&v, 0);
    hear(&v, v.gossip[0], bytes, count);
    gw_gossip_stats stats;
    gw_gossip_stats_read(v.gossip[0], &stats);
    for (int i = 0; i < 20; i++) { /* suspicions run out, and the dead are probed */
        uint64_t deadline = gw_gossip_next_deadline(v.gossip[0]);
        v.now_ns = deadline > v.now_ns ? deadline : v.now_ns + 1;
        v.said_bytes = 0;
        gw_gossip_tick(v.gossip[0], v.now_ns);
    }
    gw_gossip_destroy(v.gossip[0]);
    /* A peer of the version before may also receive datagrams of the present one, which it does not read. */
    return stats.datagrams_received > 0 && stats.foreign + stats.malformed == 0;
}

const fuzz_target fuzz_gossip = {"gossip", 10000, 4096, gossip_examples, NULL, take_gossip};

/* Target of control messages. */

static void add_message(fuzz_add *add, void *context, const gw_message *m) {
    uint8_t *bytes;
    size_t count = gw_message_encode(m, &bytes);
    add(context, bytes, count);
    free(bytes);
}

static gw_message message_example(gw_message_kind kind, gw_view *view, gw_install *install,
                                  gw_report *report) {
    static uint32_t chunks[] = {1, 5};
    static gw_hash hashes[2] = {{{7}}, {{8}}};
    static char text[] = "job=digits\nlr=0.1\n";
    gw_message m = {.kind = kind, .epoch = 9};
    enum { STEP = 17, VALUE = 42, SHARD = 3 };
    switch (kind) {
    case GW_MSG_HELLO:
        m.hello.identity = text;
        m.hello.probe = VALUE;
        m.hello.has_view = true;
        break;
    case GW_MSG_PROPOSE:
        m.propose.view = view;
        m.propose.base.epoch = 8;
        m.propose.listed = view;
        m.propose.listed_count = 1;
        m.propose.absorbed_count = 1;
        m.propose.check_state = true;
        break;
    case GW_MSG_VOTE:
        m.vote.report = report;
        break;
    case GW_MSG_REFUSE:
        m.refuse.why = GW_REFUSE_STALE;
        m.refuse.highest_epoch = VALUE;
        m.refuse.listed = view;
        m.refuse.listed_count = 1;
        m.refuse.lived = true;
        m.refuse.state.epoch = 8;
        break;
    case GW_MSG_INSTALL:
        m.install.install = install;
        break;
    case GW_MSG_READY:
        m.ready.whole.step = STEP;
        break;
    case GW_MSG_REPAIR:
        m.repair.reason = text;
        m.repair.check_state = true;
        break;
    case GW_MSG_JOIN:
        m.join.newcomers = view;
        m.join.step = VALUE;
        m.join.whole_view = true;
        break;
    case GW_MSG_VIEW:
        m.view.view = view;
        break;
    case GW_MSG_STORED:
        m.stored.step = STEP;
        m.stored.fingerprint = VALUE;
        m.stored.unwritable = true;
        m.stored.chunks = chunks;
        m.stored.hashes = hashes;
        m.stored.count = 2;
        break;
    case GW_MSG_MANIFEST:
        m.manifest.step = STEP;
        m.manifest.fingerprint = VALUE;
        m.manifest.incomplete = true;
        m.manifest.hashes = hashes;
        m.manifest.count = 2;
        break;
    case GW_MSG_RECORDED:
        m.recorded.step = STEP;
        m.recorded.reserved = VALUE;
        m.recorded.unwritten = true;
        break;
    case GW_MSG_COMPLETE:
        m.complete.step = STEP;
        m.complete.reserved = VALUE;
        m.complete.reserved_flag = true;
        break;
    case GW_MSG_END:
        m.end.step = STEP;
        m.end.fingerprint = VALUE;
        m.end.stopped = true;
        break;
    case GW_MSG_CLAIM:
        m.claim.step = STEP;
        m.claim.worker = 1;
        m.claim.shard = SHARD;
        break;
    case GW_MSG_WITNESS:
        m.witness.step = STEP;
        m.witness.shard = SHARD;
        m.witness.fingerprint = VALUE;
        break;
    case GW_MSG_FELL:
        m.fell.step = STEP;
        m.fell.shard_plus_1 = SHARD;
        m.fell.blameless = true;
        break;
    case GW_MSG_HALT:
        m.halt.step = STEP;
        m.halt.reason = text;
        break;
    case GW_MSG_ASK_VIEW:
    case GW_MSG_ASK_STOP:
    case GW_MSG_ASK_SAVE:
        break;
    }
    return m;
}

static void message_examples(fuzz_add *add, void *context) {
    gw_view view = {.epoch = 9, .leader = {{1}}, .count = 2};
    view.members[0] = (gw_member){.id = {{1}}, .boot = 3, .nonce = 4};
    view.members[1] = (gw_member){.id = {{2}}, .boot = 5, .nonce = 6};
    gw_view_seal(&view);
    gw_install *install = calloc(1, sizeof *install);
    gw_report *report = calloc(1, sizeof *report);
    GW_ASSERT_MEMORY(install != NULL && report != NULL);
    *install = (gw_install){.view = view,
                            .step = 17,
                            .fingerprint = 99,
                            .load = GW_LOAD_MANIFEST,
                            .root_epoch = 4,
                            .cuts = {0, 1, 1}};
    install->fetchers = gw_set_of(2);
    install->drops = gw_set_of(2);
    install->unwritable = gw_set_of(2);
    install->missing = gw_set_of(5);
    gw_set_add(&install->missing, 4);
    for (int k = 0; k < 2; k++) install->inventories[k] = gw_set_of(3);
    *report = (gw_report){.has_state = true, .step = 17, .inventory_count = 1};
    report->held = gw_set_of(5);
    report->claimed = gw_set_of(5);
    gw_set_add(&report->held, 2);
    report->inventory[0].epoch = 4;
    report->inventory[0].chunks = gw_set_of(3);
    gw_shard_death loss = {.id = {{4}}, .boot = 1, .step = 17, .shard = 2};
    gw_shard_deaths_add(&report->losses, &loss);
    gw_shard_deaths_add(&install->losses, &loss);
    for (int kind = GW_MSG_HELLO; kind <= GW_MSG_HALT; kind++) {
        gw_message m = message_example((gw_message_kind)kind, &view, install, report);
        add_message(add, context, &m);
    }
    gw_report_free(report);
    gw_install_free(install);
}

/* Adds losses that name a life twice, which was once read as one of them; and the last epoch, which has no
 * successor. */
static void message_found(fuzz_add *add, void *context) {
    gw_report *report = calloc(1, sizeof *report);
    GW_ASSERT_MEMORY(report != NULL);
    const gw_shard_death loss = {.id = {{4}}, .boot = 1, .step = 17, .shard = 2};
    report->losses = (gw_shard_deaths){.count = 2, .list = {loss, loss}};
    gw_message m = {.kind = GW_MSG_VOTE, .epoch = 9, .vote.report = report};
    add_message(add, context, &m);
    report->losses.list[1].shard = GW_SHARD_ANY;
    add_message(add, context, &m);
    report->losses.count = 0;
    report->installed_epoch = UINT64_MAX;
    add_message(add, context, &m);
    m = (gw_message){.kind = GW_MSG_READY, .epoch = UINT64_MAX};
    add_message(add, context, &m);
    m = (gw_message){
        .kind = GW_MSG_REFUSE, .epoch = 9, .refuse.why = GW_REFUSE_OLD, .refuse.highest_epoch = UINT64_MAX};
    add_message(add, context, &m);
    gw_report_free(report);
}

/* Checks that a message that is understood encodes to the same bytes. */
static bool take_message(const uint8_t *bytes, size_t count) {
    gw_message message;
    gw_err err;
    if (!gw_message_decode(bytes, count, &message, &err)) return false;
    uint8_t *again;
    size_t length = gw_message_encode(&message, &again);
    GW_ASSERT(length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_message_free(&message);
    return true;
}

const fuzz_target fuzz_message = {"message", 60000, 2048, message_examples, message_found, take_message};

/* Target of headers and notes of the data plane and of addresses. The first byte chooses one of them. */

enum { HEADER, HELLO, ADDRESS, TOLD, CARD, DIAL };

#ifdef GODWIT_RDMA
static const gw_peer_id dialled = {{6}};
static const uint8_t dial_secret[GW_RDMA_SECRET] = {5};
#endif

static void headers_examples(fuzz_add *add, void *context) {
    uint8_t bytes[1 + GW_PATH_HELLO_BYTES] = {HEADER};
    gw_request request = {.kind = GW_OP_READ, .region = 1, .bytes = 8, .id = 3, .offset = 16};
    gw_request_encode(&request, bytes + 1);
    add(context, bytes, 1 + GW_RAIL_HEADER);
    gw_reply reply = {.kind = GW_OP_READ, .status = GW_OP_OK, .last = true, .id = 3};
    gw_reply_encode(&reply, bytes + 1);
    add(context, bytes, 1 + GW_RAIL_HEADER);
    gw_call call = {.is = {.member_count = 2, .tag = {.step = 3}}, .elements = 100};
    const gw_part part = {.call = &call};
    gw_part_encode(&part, GW_PART_CHUNK, 1, 4, bytes + 1);
    add(context, bytes, 1 + GW_RAIL_HEADER);
    gw_path_note note = {.what = GW_PATH_TRY, .kind = GW_PATH_SHM, .serial = 5};
    gw_path_note_encode(&note, bytes + 1);
    add(context, bytes, 1 + GW_RAIL_HEADER);
    gw_path_hello hello = {.kinds = GW_PATH_BIT(GW_PATH_TCP) | GW_PATH_BIT(GW_PATH_SHM)};
    hello.cards[GW_PATH_SHM] = (gw_path_card){.count = 3, .bytes = {1, 2, 3}};
    bytes[0] = HELLO;
    add(context, bytes, 1 + gw_path_hello_encode(&hello, bytes + 1));
    add(context, "\2[fe80::1]:7117", 15);
    add(context, "\2host.name:80", 13);
#ifdef GODWIT_RDMA
    gw_rdma_slots_message slots = {.count = 2, .slots = {{.address = 4096, .rkey = 7}}};
    bytes[0] = TOLD;
    add(context, bytes, 1 + gw_rdma_slots_encode(&slots, bytes + 1));
    gw_rdma_words_message words = {
        .address = 4096, .rkey = 3, .count = 1, .regions = {{.region = 1, .bytes = 64}}};
    add(context, bytes, 1 + gw_rdma_words_encode(&words, bytes + 1));
    gw_rdma_want_message want = {.what = GW_RDMA_OF_REGION, .id = 4, .bytes = 64, .region = 1};
    add(context, bytes, 1 + gw_rdma_want_encode(&want, bytes + 1));
    gw_rdma_lent_message lent = {.answer = GW_RDMA_LENT, .id = 4, .address = 4096, .bytes = 64};
    add(context, bytes, 1 + gw_rdma_lent_encode(&lent, bytes + 1));
    gw_rdma_back_message back = {.id = 4};
    add(context, bytes, 1 + gw_rdma_back_encode(&back, bytes + 1));
    gw_rdma_card card = {.ethernet = true, .address = address_of(1)};
    bytes[0] = CARD;
    add(context, bytes, 1 + gw_rdma_card_encode(&card, bytes + 1));
    gw_rdma_hello dial = {.queue = 1, .serial = 7, .dialler = {{4}}, .acceptor = dialled};
    gw_rdma_hello_encode(&dial, dial_secret, bytes + 1);
    bytes[0] = DIAL;
    add(context, bytes, 1 + GW_RDMA_HELLO);
#endif
}

static bool take_header(const uint8_t *bytes, size_t count) {
    uint8_t header[GW_RAIL_HEADER] = {0};
    memcpy(header, bytes, count < sizeof header ? count : sizeof header);
    gw_request request;
    gw_reply reply;
    bool operation = gw_header_decode(header, &request, &reply) != GW_HEADER_BAD;
    gw_part_header part;
    bool collective = gw_part_decode(header, &part);
    gw_path_note note;
    bool path = gw_path_note_decode(header, &note);
    if (path) GW_ASSERT(note.what >= GW_PATH_HELLO && note.what <= GW_PATH_USE);
    return operation || collective || path;
}

static bool take_hello(const uint8_t *bytes, size_t count) {
    gw_path_hello hello;
    if (!gw_path_hello_decode(bytes, (uint32_t)count, &hello)) return false;
    for (int k = 0; k < GW_PATH_KINDS; k++) GW_ASSERT(hello.cards[k].count <= GW_PATH_CARD_BYTES);
    return true;
}

static bool take_address(const uint8_t *bytes, size_t count) {
    char text[300], host[GW_HOST_TEXT];
    uint16_t port;
    gw_err err;
    size_t length = count < sizeof text - 1 ? count : sizeof text - 1;
    memcpy(text, bytes, length);
    text[length] = '\0';
    if (!gw_address_parse(text, host, &port, &err)) return false;
    GW_ASSERT(host[0] != '\0' && strlen(host) < sizeof host);
    return true;
}

#ifdef GODWIT_RDMA
static bool take_told(const uint8_t *bytes, size_t count) {
    gw_rdma_message_body told;
    gw_rdma_message what = gw_rdma_message_decode(bytes, (uint32_t)count, &told);
    if (what == GW_RDMA_MESSAGE_SLOTS) GW_ASSERT(told.slots.count <= GW_PATH_STREAMS);
    if (what == GW_RDMA_MESSAGE_WORDS) GW_ASSERT(told.words.count <= GW_MAX_REGIONS);
    return what != GW_RDMA_MESSAGE_BAD;
}

/* Checks that the dialler knows the secret. */
static bool take_dial(const uint8_t *bytes, size_t count) {
    gw_rdma_hello hello;
    if (!gw_rdma_hello_decode(bytes, count, &hello)) return false;
    hello.acceptor = dialled;
    return gw_rdma_hello_verify(&hello, dial_secret, bytes);
}
#endif

static bool take_headers(const uint8_t *bytes, size_t count) {
    if (count == 0) return false;
    const uint8_t *rest = bytes + 1;
    count--;
    switch (bytes[0]) {
    case HEADER:
        return take_header(rest, count);
    case HELLO:
        return take_hello(rest, count);
    case ADDRESS:
        return take_address(rest, count);
#ifdef GODWIT_RDMA
    case TOLD:
        return take_told(rest, count);
    case CARD:
        return gw_rdma_card_decode(rest, (uint32_t)count, &(gw_rdma_card){.ethernet = false});
    case DIAL:
        return take_dial(rest, count);
#endif
    default:
        return false;
    }
}

const fuzz_target fuzz_headers = {"headers", 300000, 512, headers_examples, NULL, take_headers};

/* Replies to one-sided operations, each REPLY bytes; their payload is made up. The first ones say which of
 * the operations by its number. */

enum { ASKED = 3, REPLY = 24 };

typedef struct asked {
    gw_requester *requester;
    gw_op ops[ASKED];
    uint64_t ids[ASKED];
    uint32_t completed, good;
} asked;

static void count_completion(void *context, const gw_completion *completion) {
    asked *a = context;
    GW_ASSERT(completion->token < ASKED && ++a->completed <= ASKED);
    if (completion->status == GW_OP_OK) a->good++;
}

/* Each operation has a buffer of exactly its size. */
static void ask(asked *a) {
    static const gw_op ops[ASKED] = {{.kind = GW_OP_READ, .token = 0, .bytes = 1000},
                                     {.kind = GW_OP_FETCH, .token = 1, .bytes = 1000},
                                     {.kind = GW_OP_FETCH_ADD, .token = 2}};
    gw_transport_events events = {.context = a, .completed = count_completion};
    a->requester = gw_requester_open(GW_REQUESTER_WINDOW, &events);
    GW_ASSERT_MEMORY(a->requester != NULL);
    for (uint32_t i = 0; i < ASKED; i++) {
        gw_posted *posted = calloc(1, sizeof *posted);
        GW_ASSERT_MEMORY(posted != NULL);
        a->ops[i] = posted->op = ops[i];
        a->ops[i].buffer = posted->op.buffer = malloc(ops[i].bytes + 1);
        GW_ASSERT_MEMORY(posted->op.buffer != NULL);
        gw_requester_add(a->requester, posted);
        gw_request request;
        struct iovec payload;
        GW_ASSERT(gw_requester_next(a->requester, &request, &payload));
        a->ids[i] = request.id;
    }
}

/* Checks that the place of a payload lies in the buffer of an operation. */
static void land(asked *a, const struct iovec *place, uint32_t bytes) {
    GW_ASSERT(place->iov_len == bytes);
    if (bytes > 0) {
        uint32_t i = 0;
        const uint8_t *at = place->iov_base;
        while (i < ASKED && (at < (uint8_t *)a->ops[i].buffer ||
                             at + bytes > (uint8_t *)a->ops[i].buffer + a->ops[i].bytes))
            i++;
        GW_ASSERT(i < ASKED);
        memset(place->iov_base, 7, bytes);
    }
    gw_requester_landed(a->requester);
}

static size_t put_reply(uint8_t *at, uint32_t op, gw_reply reply, uint32_t bytes) {
    gw_writer w = gw_writer_on(at, REPLY);
    gw_put_u8(&w, (uint8_t)reply.kind);
    gw_put_u8(&w, (uint8_t)reply.status);
    gw_put_u8(&w, reply.last);
    gw_put_u8(&w, (uint8_t)op);
    gw_put_u32(&w, bytes);
    gw_put_u64(&w, reply.value);
    gw_put_u64(&w, reply.offset);
    GW_ASSERT(!w.failed);
    return w.length;
}

static void reply_examples(fuzz_add *add, void *context) {
    uint8_t bytes[5 * REPLY], *at = bytes;
    at += put_reply(at, 2, (gw_reply){.kind = GW_OP_FETCH_ADD, .status = GW_OP_OK, .last = true, .value = 4},
                    0);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .status = GW_OP_OK, .value = 900}, 300);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .status = GW_OP_OK, .value = 900, .offset = 300},
                    500);
    at += put_reply(at, 0, (gw_reply){.kind = GW_OP_READ, .status = GW_OP_OK, .last = true}, 1000);
    at += put_reply(
        at, 1, (gw_reply){.kind = GW_OP_FETCH, .status = GW_OP_OK, .last = true, .value = 900, .offset = 800},
        100);
    add(context, bytes, (size_t)(at - bytes));
}

/* Adds a later piece of a fetch that claims a total of nothing, and a failure between two pieces: both
 * were once written behind the buffer. */
static void reply_found(fuzz_add *add, void *context) {
    const gw_reply first = {.kind = GW_OP_FETCH, .status = GW_OP_OK, .value = 900};
    uint8_t bytes[3 * REPLY], *at = bytes;
    at += put_reply(at, 1, first, 300);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .status = GW_OP_OK, .offset = 300}, 900);
    add(context, bytes, (size_t)(at - bytes));
    at = bytes;
    at += put_reply(at, 1, first, 300);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .status = GW_OP_UNAVAILABLE, .value = 10}, 0);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .status = GW_OP_OK, .value = 10, .offset = 300},
                    900);
    add(context, bytes, (size_t)(at - bytes));
}

static bool take_reply(asked *a, gw_reader *r) {
    gw_reply reply = {.kind = (gw_op_kind)gw_get_u8(r)};
    reply.status = (gw_op_status)gw_get_u8(r);
    reply.last = gw_get_u8(r) != 0;
    uint8_t op = gw_get_u8(r);
    reply.id = op < ASKED ? a->ids[op] : op;
    uint32_t bytes = gw_get_u32(r);
    reply.value = gw_get_u64(r);
    reply.offset = gw_get_u64(r);
    uint8_t header[GW_RAIL_HEADER];
    gw_request request;
    gw_reply_encode(&reply, header);
    if (gw_header_decode(header, &request, &reply) != GW_HEADER_REPLY || bytes > GW_PIECE_BYTES) return false;
    struct iovec place;
    gw_arrival arrival = gw_requester_place(a->requester, &reply, bytes, &place);
    if (arrival == GW_ARRIVAL_LAND) land(a, &place, bytes);
    return arrival != GW_ARRIVAL_REFUSE;
}

static bool take_replies(const uint8_t *bytes, size_t count) {
    asked a = {.completed = 0};
    ask(&a);
    gw_reader r = gw_reader_on(bytes, count);
    while (count - r.position >= REPLY && take_reply(&a, &r)) continue;
    bool good = a.good == ASKED;
    gw_requester_close(a.requester);
    GW_ASSERT(a.completed == ASKED);
    for (uint32_t i = 0; i < ASKED; i++) free(a.ops[i].buffer);
    return good;
}

const fuzz_target fuzz_replies = {"replies", 1000000, 512, reply_examples, reply_found, take_replies};
