/* What other machines send: gossip, handshakes, records, control messages, headers of the data plane. */
#include "core/gossip.h"
#include "core/message.h"
#include "net/address.h"
#include "net/collective_part.h"
#include "net/packet.h"
#include "net/path_message.h"
#include "net/request.h"
#include "net/secure.h"
#include "target.h"
#ifdef GODWIT_RDMA
#include "net/rdma_message.h"
#endif

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* ---- gossip: datagrams as decrypted, each behind two bytes that say how long it is ---- */

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
    GW_CHECK(length <= GW_GOSSIP_DATAGRAM);
    if (v->said_bytes + DATAGRAM_HEAD + length > sizeof v->said) return;
    uint8_t *at = v->said + v->said_bytes;
    at[0] = (uint8_t)length;
    at[1] = (uint8_t)(length >> 8);
    memcpy(at + DATAGRAM_HEAD, bytes, length);
    v->said_bytes += DATAGRAM_HEAD + length;
}

static void ignore_event(void *context, const gw_gossip_event *event) {
    (void)context;
    GW_CHECK(event->member != NULL);
}

static void open_peer(village *v, uint32_t peer) {
    gw_addr seed = address_of(0);
    gw_gossip_config config = {.id = {{(uint8_t)(peer + 1)}},
                               .incarnation = {.boot = 1, .nonce = peer + 1},
                               .addr = {address_of(peer)},
                               .addr_count = 1,
                               .seeds = &seed,
                               .seed_count = 1,
                               .timing = gw_gossip_timing_default(),
                               .rng_seed = peer,
                               .sink = {v, keep_datagram, ignore_event}};
    gw_err err;
    GW_CHECK(gw_gossip_create(&config, &v->gossip[peer], &err));
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

/* What three peers tell each other in some rounds, one of whom falls silent. */
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

static void take_gossip(const uint8_t *bytes, size_t count) {
    static village v;
    v = (village){.now_ns = 1};
    open_peer(&v, 0);
    hear(&v, v.gossip[0], bytes, count);
    for (int i = 0; i < 20; i++) { /* suspicions run out, the dead are probed */
        uint64_t deadline = gw_gossip_next_deadline(v.gossip[0]);
        v.now_ns = deadline > v.now_ns ? deadline : v.now_ns + 1;
        v.said_bytes = 0;
        gw_gossip_tick(v.gossip[0], v.now_ns);
    }
    gw_gossip_destroy(v.gossip[0]);
}

const fuzz_target fuzz_gossip = {"gossip", 10000, 4096, gossip_examples, take_gossip};

/* ---- peers with identities ---- */

typedef struct person {
    gw_identity identity;
    gw_keyring keyring;
    gw_local local;
} person;

static void make_person(person *p, uint8_t number, bool key) {
    uint8_t seed[32];
    GW_CHECK(sodium_init() >= 0);
    memset(p, 0, sizeof *p);
    memset(seed, number, sizeof seed);
    gw_identity_from_seed(seed, 1, number, &p->identity);
    p->keyring.count = key ? 1 : 0;
    p->local.identity = &p->identity;
    p->local.keyring = &p->keyring;
    gw_cluster_id("fuzz", &p->local.cluster);
}

static gw_packets *open_packets(person *p, uint8_t number, bool key) {
    gw_err err;
    make_person(p, number, key);
    gw_packets *packets = gw_packets_open(&p->identity, &p->keyring, &p->local.cluster, &err);
    GW_CHECK(packets != NULL);
    return packets;
}

/* ---- packets: the first byte says whether there is a key ---- */

static const char packet_body[] = "some gossip";
static const uint8_t packet_key[] = {'k', 'p'};

static void packet_examples(fuzz_add *add, void *context) {
    for (int k = 0; k < 2; k++) {
        person p;
        gw_packets *packets = open_packets(&p, 1, packet_key[k] == 'k');
        uint8_t bytes[1 + GW_DATAGRAM_BYTES] = {packet_key[k]};
        size_t count = gw_packet_seal(packets, packet_body, sizeof packet_body, bytes + 1);
        add(context, bytes, 1 + count);
        gw_packets_close(packets);
    }
}

/* With a key no change to a packet gets through: whatever opens has the body that was sealed. Without one a
 * packet has a checksum, which anybody can make. */
static void take_packet(const uint8_t *bytes, size_t count) {
    static gw_packets *packets[2];
    static person people[2];
    if (count == 0) return;
    int k = bytes[0] == 'k' ? 0 : 1;
    if (packets[k] == NULL) packets[k] = open_packets(&people[k], 2, k == 0);
    uint8_t copy[4096];
    size_t length = count - 1 < sizeof copy ? count - 1 : sizeof copy, body_bytes;
    memcpy(copy, bytes + 1, length);
    gw_addr from = address_of(1);
    gw_peer_id sender;
    const uint8_t *body;
    gw_packet_verdict verdict =
        gw_packet_open(packets[k], &from, copy, length, 1, &sender, &body, &body_bytes);
    GW_CHECK(verdict != GW_PACKET_GOOD || k == 1 ||
             (body_bytes == sizeof packet_body && memcmp(body, packet_body, body_bytes) == 0));
}

const fuzz_target fuzz_packet = {"packet", 60000, 1600, packet_examples, take_packet};

/* ---- handshakes: bytes that somebody on the way adds (exclusive or) to what both sides say ---- */

enum { TRANSCRIPT = 1200 };

/* Moves what `from` has to say to `to`, changed by the next bytes of *noise. True: a byte was changed. */
static bool pass_on(gw_handshake *from, gw_handshake *to, const uint8_t **noise, size_t *left) {
    uint8_t said[4096];
    size_t count, used;
    bool changed = false;
    gw_err err;
    const uint8_t *bytes = gw_handshake_output(from, &count);
    GW_CHECK(count <= sizeof said);
    for (size_t i = 0; i < count; i++) {
        uint8_t with = *left > 0 ? **noise : 0;
        said[i] = bytes[i] ^ with;
        changed |= with != 0;
        if (*left > 0) *noise += 1, *left -= 1;
    }
    gw_handshake_sent(from, count);
    if (gw_handshake_fault(to) == GW_FAULT_NONE) gw_handshake_feed(to, said, count, &used, &err);
    return changed;
}

static bool is_done(gw_handshake *handshake) {
    size_t used;
    gw_err err;
    return gw_handshake_fault(handshake) == GW_FAULT_NONE &&
           gw_handshake_feed(handshake, NULL, 0, &used, &err) == GW_HANDSHAKE_DONE;
}

static void handshake_examples(fuzz_add *add, void *context) {
    static const uint8_t quiet[TRANSCRIPT];
    add(context, quiet, sizeof quiet); /* nothing is changed */
    add(context, "gdwt\1\0\1\1\20\0 and more of it", 26);
}

/* Only when nothing was changed do both come to an agreement; and one side takes any bytes. */
static void take_handshake(const uint8_t *bytes, size_t count) {
    static person people[2];
    static const uint8_t chance[2][32] = {{1}, {2}};
    if (people[0].local.identity == NULL)
        for (uint8_t i = 0; i < 2; i++) make_person(&people[i], i, true);
    gw_err err;
    gw_handshake *dial = gw_handshake_dial(&people[0].local, GW_STREAM_CONTROL, 7, chance[0], &err),
                 *answer = gw_handshake_answer(&people[1].local, chance[1], &err);
    GW_CHECK(dial != NULL && answer != NULL);
    const uint8_t *noise = bytes;
    size_t left = count, used;
    bool changed = false;
    for (int turn = 0; turn < 3; turn++) {
        changed |= pass_on(dial, answer, &noise, &left);
        changed |= pass_on(answer, dial, &noise, &left);
    }
    bool agreed = is_done(dial) && is_done(answer);
    GW_CHECK(agreed == !changed);
    gw_handshake_close(dial);
    gw_handshake_close(answer);
    answer = gw_handshake_answer(&people[1].local, chance[1], &err);
    GW_CHECK(answer != NULL && gw_handshake_feed(answer, bytes, count, &used, &err) != GW_HANDSHAKE_DONE);
    GW_CHECK(used <= count);
    gw_handshake_close(answer);
}

const fuzz_target fuzz_handshake = {"handshake", 1500, 1400, handshake_examples, take_handshake};

/* ---- records: the first byte is the algorithm, then a stream of them ---- */

static const gw_algorithm algorithms[] = {GW_ALGORITHM_PLAIN, GW_ALGORITHM_CHACHA20, GW_ALGORITHM_AES256GCM};
static const uint8_t record_key[32] = {3};
static const char record_text[] = "what is in the record";

static gw_algorithm algorithm_of(uint8_t byte) {
    gw_algorithm algorithm = algorithms[byte % 3];
    return algorithm == GW_ALGORITHM_AES256GCM && !gw_record_has_aes() ? GW_ALGORITHM_CHACHA20 : algorithm;
}

static void record_examples(fuzz_add *add, void *context) {
    GW_CHECK(sodium_init() >= 0);
    for (uint8_t a = 0; a < 3; a++) {
        gw_cipher cipher;
        gw_err err;
        uint8_t bytes[500] = {a}, *end = bytes + 1;
        gw_cipher_start(&cipher, algorithm_of(a), record_key, GW_RECORD_CONTROL);
        for (int i = 0; i < 4; i++) {
            GW_CHECK(gw_record_seal(&cipher, record_text, sizeof record_text, i % 2 == 0, end, &err));
            end += gw_record_bytes(&cipher, sizeof record_text);
        }
        add(context, bytes, (size_t)(end - bytes));
        gw_cipher_wipe(&cipher);
    }
}

static void take_record(const uint8_t *bytes, size_t count) {
    static gw_cipher cipher; /* aligned as it wants to be */
    if (count == 0) return;
    GW_CHECK(sodium_init() >= 0);
    gw_algorithm algorithm = algorithm_of(bytes[0]);
    gw_cipher_start(&cipher, algorithm, record_key, GW_RECORD_CONTROL);
    static uint8_t payload[GW_RECORD_CONTROL];
    const uint8_t *at = bytes + 1, *end = bytes + count;
    gw_err err;
    while (end - at >= GW_RECORD_HEADER) {
        size_t record;
        bool more;
        if (!gw_record_measure(&cipher, at, &record, &more, &err) || (size_t)(end - at) < record) break;
        size_t length = record - GW_RECORD_HEADER - cipher.tag_bytes;
        GW_CHECK(length <= GW_RECORD_CONTROL);
        if (!gw_record_open(&cipher, at, record, payload, &err)) break;
        GW_CHECK(algorithm == GW_ALGORITHM_PLAIN ||
                 (length == sizeof record_text && memcmp(payload, record_text, length) == 0));
        at += record;
    }
    gw_cipher_wipe(&cipher);
}

const fuzz_target fuzz_record = {"record", 60000, 1024, record_examples, take_record};

/* ---- control messages ---- */

static void message_examples(fuzz_add *add, void *context) {
    static uint32_t chunks[] = {1, 5};
    static gw_hash hashes[2] = {{{7}}, {{8}}};
    static char text[] = "job=digits\nlr=0.1\n";
    gw_view view = {.epoch = 9, .leader = {{1}}, .count = 2};
    view.members[0] = (gw_member){.id = {{1}}, .boot = 3, .nonce = 4};
    view.members[1] = (gw_member){.id = {{2}}, .boot = 5, .nonce = 6};
    gw_view_seal(&view);
    gw_install *install = calloc(1, sizeof *install);
    gw_report *report = calloc(1, sizeof *report);
    GW_CHECK_MEMORY(install != NULL && report != NULL);
    *install = (gw_install){
        .view = view, .step = 17, .fingerprint = 99, .load = GW_LOAD_MANIFEST, .cuts = {0, 1, 1}};
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
    report->inventory[0].chunks = gw_set_of(3);
    gw_loss loss = {.id = {{4}}, .boot = 1, .step = 17, .shard = 2};
    gw_losses_add(&report->losses, &loss);
    gw_losses_add(&install->losses, &loss);
    for (int kind = GW_MSG_HELLO; kind <= GW_MSG_FELL; kind++) {
        gw_message m = {.kind = (gw_message_kind)kind,
                        .epoch = 9,
                        .view = &view,
                        .base_epoch = 8,
                        .listed = &view,
                        .listed_count = 1,
                        .absorbed_count = 1,
                        .report = report,
                        .install = install,
                        .refusal = GW_REFUSE_STALE,
                        .flag = true,
                        .step = 17,
                        .value = 42,
                        .shard = 3,
                        .worker = 1,
                        .text = text,
                        .chunks = chunks,
                        .hashes = hashes,
                        .count = 2};
        uint8_t *bytes;
        size_t count = gw_message_encode(&m, &bytes);
        add(context, bytes, count);
        free(bytes);
    }
    gw_report_free(report);
    gw_install_free(install);
}

/* What is understood is said again in the same bytes. */
static void take_message(const uint8_t *bytes, size_t count) {
    gw_message message;
    gw_err err;
    if (!gw_message_decode(bytes, count, &message, &err)) return;
    uint8_t *again;
    size_t length = gw_message_encode(&message, &again);
    GW_CHECK(length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_message_free(&message);
}

const fuzz_target fuzz_message = {"message", 60000, 2048, message_examples, take_message};

/* ---- headers and notes of the data plane, addresses; the first byte says which ---- */

static void headers_examples(fuzz_add *add, void *context) {
    uint8_t bytes[1 + GW_PATH_HELLO_BYTES] = {0};
    gw_request request = {.kind = GW_OP_READ, .region = 1, .bytes = 8, .id = 3, .offset = 16};
    gw_request_encode(&request, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_reply reply = {.kind = GW_OP_READ, .status = GW_OP_OK, .last = true, .id = 3};
    gw_reply_encode(&reply, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    memset(bytes, 4, 1 + GW_LANE_HEADER); /* a collective's */
    bytes[0] = 0;
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_path_note note = {.what = GW_PATH_TRY, .kind = GW_PATH_SHM, .serial = 5};
    gw_path_note_encode(&note, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_path_hello hello = {.kinds = GW_PATH_BIT(GW_PATH_TCP) | GW_PATH_BIT(GW_PATH_SHM)};
    hello.cards[GW_PATH_SHM] = (gw_path_card){.count = 3, .bytes = {1, 2, 3}};
    bytes[0] = 1;
    add(context, bytes, 1 + gw_path_hello_encode(&hello, bytes + 1));
    add(context, "\2[fe80::1]:7117", 15);
    add(context, "\2host.name:80", 13);
#ifdef GODWIT_RDMA
    gw_rdma_told_slots slots = {.count = 2, .slots = {{.address = 4096, .rkey = 7}}};
    bytes[0] = 3;
    add(context, bytes, 1 + gw_rdma_slots_encode(&slots, bytes + 1));
    gw_rdma_told_words words = {
        .address = 4096, .rkey = 3, .count = 1, .regions = {{.region = 1, .bytes = 64}}};
    add(context, bytes, 1 + gw_rdma_words_encode(&words, bytes + 1));
    gw_rdma_told_want want = {.what = GW_RDMA_OF_REGION, .id = 4, .bytes = 64, .region = 1};
    add(context, bytes, 1 + gw_rdma_want_encode(&want, bytes + 1));
    gw_rdma_told_lent lent = {.answer = GW_RDMA_LENT, .id = 4, .address = 4096, .bytes = 64};
    add(context, bytes, 1 + gw_rdma_lent_encode(&lent, bytes + 1));
    gw_rdma_told_back back = {.id = 4};
    add(context, bytes, 1 + gw_rdma_back_encode(&back, bytes + 1));
    gw_rdma_card card = {.ethernet = true, .address = address_of(1)};
    bytes[0] = 4;
    add(context, bytes, 1 + gw_rdma_card_encode(&card, bytes + 1));
#endif
}

static void take_header(const uint8_t *bytes, size_t count) {
    uint8_t header[GW_LANE_HEADER] = {0};
    memcpy(header, bytes, count < sizeof header ? count : sizeof header);
    gw_request request;
    gw_reply reply;
    gw_header_decode(header, &request, &reply);
    gw_part_header part;
    gw_part_decode(header, &part);
    gw_path_note note;
    if (gw_path_note_decode(header, &note)) GW_CHECK(note.what >= GW_PATH_HELLO && note.what <= GW_PATH_USE);
}

static void take_hello(const uint8_t *bytes, size_t count) {
    gw_path_hello hello;
    if (!gw_path_hello_decode(bytes, (uint32_t)count, &hello)) return;
    for (int k = 0; k < GW_PATH_KINDS; k++) GW_CHECK(hello.cards[k].count <= GW_PATH_CARD_BYTES);
}

static void take_address(const uint8_t *bytes, size_t count) {
    char text[300], host[GW_HOST_TEXT];
    uint16_t port;
    gw_err err;
    size_t length = count < sizeof text - 1 ? count : sizeof text - 1;
    memcpy(text, bytes, length);
    text[length] = '\0';
    if (gw_address_parse(text, host, &port, &err)) GW_CHECK(host[0] != '\0' && strlen(host) < sizeof host);
}

static void take_headers(const uint8_t *bytes, size_t count) {
    if (count == 0) return;
    const uint8_t *rest = bytes + 1;
    count--;
    if (bytes[0] == 0) take_header(rest, count);
    if (bytes[0] == 1) take_hello(rest, count);
    if (bytes[0] == 2) take_address(rest, count);
#ifdef GODWIT_RDMA
    gw_rdma_told told;
    gw_rdma_card card;
    if (bytes[0] == 3 && gw_rdma_message_decode(rest, (uint32_t)count, &told) == GW_RDMA_MESSAGE_SLOTS)
        GW_CHECK(told.slots.count <= GW_PATH_STREAMS);
    if (bytes[0] == 4) gw_rdma_card_decode(rest, (uint32_t)count, &card);
#endif
}

const fuzz_target fuzz_headers = {"headers", 300000, 512, headers_examples, take_headers};
