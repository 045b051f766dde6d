/* What other machines send: gossip, handshakes, records, control messages, headers of the data plane. */
#include "core/gossip.h"
#include "core/message.h"
#include "net/address.h"
#include "net/asker.h"
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

static bool take_gossip(const uint8_t *bytes, size_t count) {
    static village v;
    v = (village){.now_ns = 1};
    open_peer(&v, 0);
    hear(&v, v.gossip[0], bytes, count);
    gw_gossip_stats stats;
    gw_gossip_stats_read(v.gossip[0], &stats);
    for (int i = 0; i < 20; i++) { /* suspicions run out, the dead are probed */
        uint64_t deadline = gw_gossip_next_deadline(v.gossip[0]);
        v.now_ns = deadline > v.now_ns ? deadline : v.now_ns + 1;
        v.said_bytes = 0;
        gw_gossip_tick(v.gossip[0], v.now_ns);
    }
    gw_gossip_destroy(v.gossip[0]);
    return stats.datagrams_received > 0 && stats.foreign + stats.malformed == 0;
}

const fuzz_target fuzz_gossip = {"gossip", 10000, 4096, gossip_examples, NULL, take_gossip};

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

/* ---- packets, each behind its length; the first byte says whether this peer has a key, and whether the tags
 * are set right, which anybody can do where there is no key ---- */

enum { KEYED = 'k', PLAIN = 'p', TAGGED = 't', TAG = 16, MODES = 3, PACKETS = 64 };
enum { LIFE_AT = 10, LIFE = 16 + 8 + 8, NUMBERED = LIFE + 8 }; /* sender, boot and nonce; with the counter */

static const uint8_t packet_modes[MODES] = {KEYED, PLAIN, TAGGED};
static const char packet_body[] = "some gossip";

typedef struct post {
    uint8_t bytes[4096];
    size_t count;
} post;

static void put_packet(post *to, gw_packets *from) {
    uint8_t *at = to->bytes + to->count;
    size_t length = gw_packet_seal(from, packet_body, sizeof packet_body, at + DATAGRAM_HEAD);
    at[0] = (uint8_t)length;
    at[1] = (uint8_t)(length >> 8);
    to->count += DATAGRAM_HEAD + length;
}

/* New ones of one sender, one again, one of an earlier life, and one of the receiver's own. */
static void packet_examples(fuzz_add *add, void *context) {
    for (int k = 0; k < MODES; k++) {
        person people[3];
        gw_packets *senders[3];
        post sent = {.bytes = {packet_modes[k]}, .count = 1};
        for (uint8_t i = 0; i < 3; i++) {
            make_person(&people[i], i < 2 ? 1 : 2, packet_modes[k] == KEYED);
            people[i].identity.incarnation.boot = i == 0 ? 7 : 1;
            gw_err err;
            senders[i] =
                gw_packets_open(&people[i].identity, &people[i].keyring, &people[i].local.cluster, &err);
            GW_CHECK(senders[i] != NULL);
        }
        put_packet(&sent, senders[0]);
        size_t one = sent.count - 1;
        put_packet(&sent, senders[0]);
        memcpy(sent.bytes + sent.count, sent.bytes + 1, one);
        sent.count += one;
        put_packet(&sent, senders[1]);
        put_packet(&sent, senders[2]);
        add(context, sent.bytes, sent.count);
        for (int i = 0; i < 3; i++) gw_packets_close(senders[i]);
    }
}

static void set_tag(const person *self, uint8_t *packet, size_t length) {
    if (length < TAG) return;
    GW_CHECK(crypto_generichash(packet + length - TAG, TAG, packet, length - TAG, self->local.cluster.bytes,
                                sizeof self->local.cluster.bytes) == 0);
}

typedef struct inbox {
    person self;
    gw_packets *packets;
    uint8_t mode, own[LIFE], good[PACKETS][NUMBERED];
    uint32_t good_count;
} inbox;

static void open_inbox(inbox *in, uint8_t mode) {
    *in = (inbox){.mode = mode};
    in->packets = open_packets(&in->self, 2, mode == KEYED);
    gw_writer w = gw_writer_on(in->own, sizeof in->own);
    gw_put_peer_id(&w, &in->self.identity.id);
    gw_put_u64(&w, in->self.identity.incarnation.boot);
    gw_put_u64(&w, in->self.identity.incarnation.nonce);
}

/* What came through once never does again, and what is of this very life never does. */
static void check_new(inbox *in, const uint8_t *packet) {
    const uint8_t *numbered = packet + LIFE_AT;
    GW_CHECK(memcmp(numbered, in->own, LIFE) != 0);
    for (uint32_t i = 0; i < in->good_count; i++) GW_CHECK(memcmp(in->good[i], numbered, NUMBERED) != 0);
    if (in->good_count < PACKETS) memcpy(in->good[in->good_count++], numbered, NUMBERED);
}

/* With a key no change to a packet gets through: whatever opens has the body that was sealed. Returns whether
 * it is authentic. */
static bool open_one(inbox *in, const uint8_t *bytes, size_t length) {
    uint8_t *packet = malloc(length + 1);
    GW_CHECK_MEMORY(packet != NULL);
    memcpy(packet, bytes, length);
    if (in->mode == TAGGED) set_tag(&in->self, packet, length);
    gw_addr from = address_of(1);
    gw_peer_id sender;
    const uint8_t *body;
    size_t body_bytes;
    gw_packet_verdict verdict =
        gw_packet_open(in->packets, &from, packet, length, 1, &sender, &body, &body_bytes);
    if (verdict == GW_PACKET_GOOD) {
        check_new(in, packet);
        GW_CHECK(in->mode != KEYED ||
                 (body_bytes == sizeof packet_body && memcmp(body, packet_body, body_bytes) == 0));
    }
    free(packet);
    return verdict == GW_PACKET_GOOD || verdict >= GW_PACKET_REPLAYED;
}

static bool take_packet(const uint8_t *bytes, size_t count) {
    if (count == 0) return false;
    inbox in;
    open_inbox(&in, bytes[0]);
    bool authentic = true;
    for (size_t at = 1; at + DATAGRAM_HEAD <= count;) {
        size_t length = (size_t)bytes[at] | (size_t)bytes[at + 1] << 8;
        at += DATAGRAM_HEAD;
        if (length > count - at) length = count - at;
        authentic &= open_one(&in, bytes + at, length);
        at += length;
    }
    gw_packets_close(in.packets);
    return authentic && in.good_count > 0;
}

const fuzz_target fuzz_packet = {"packet", 20000, 1600, packet_examples, NULL, take_packet};

/* ---- handshakes: the first byte says who dials; the others somebody on the way adds (exclusive or) to what
 * both sides say ---- */

enum { TRANSCRIPT = 1200 };
enum { DATA = 1, SECOND_KEY = 2, WELCOME = DATA | SECOND_KEY }; /* the bits of one who is let in */
enum { CLONE = 4, SELF = 8, ELSEWHERE = 16, KEYLESS = 32, STRANGE_KEY = 64, STRANGE_KIND = 128 };

static void make_dialler(person *p, uint8_t who) {
    make_person(p, who & (CLONE | SELF) ? 1 : 0, (who & KEYLESS) == 0);
    p->identity.incarnation.nonce = who & SELF ? 1 : 9;
    p->keyring.keys[0].bytes[0] = who & STRANGE_KEY ? 99 : who & SECOND_KEY ? 1 : 0;
    if (who & ELSEWHERE) gw_cluster_id("another", &p->local.cluster);
}

static gw_stream_kind kind_of(uint8_t who) {
    return who & STRANGE_KIND ? (gw_stream_kind)9 : who & DATA ? GW_STREAM_DATA : GW_STREAM_CONTROL;
}

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
    uint8_t quiet[TRANSCRIPT] = {0};
    for (uint8_t who = 0; who <= WELCOME; who++) {
        quiet[0] = who;
        add(context, quiet, sizeof quiet); /* nothing is changed */
    }
}

/* Only one who is welcome, of whose words nothing was changed, comes to an agreement; and one side takes any
 * bytes. */
static bool take_handshake(const uint8_t *bytes, size_t count) {
    static const uint8_t chance[2][32] = {{1}, {2}};
    if (count == 0) return false;
    const uint8_t who = bytes[0], *noise = bytes + 1;
    size_t left = count - 1, used;
    person dialler, answerer;
    make_dialler(&dialler, who);
    make_person(&answerer, 1, true);
    answerer.keyring.count = 2;
    answerer.keyring.keys[1].bytes[0] = 1;
    gw_err err;
    gw_handshake *dial = gw_handshake_dial(&dialler.local, kind_of(who), 7, chance[0], &err),
                 *answer = gw_handshake_answer(&answerer.local, chance[1], &err);
    GW_CHECK(dial != NULL && answer != NULL);
    bool changed = false;
    for (int turn = 0; turn < 3; turn++) {
        changed |= pass_on(dial, answer, &noise, &left);
        changed |= pass_on(answer, dial, &noise, &left);
    }
    bool agreed = is_done(dial) && is_done(answer);
    GW_CHECK(agreed == (!changed && (who & ~WELCOME) == 0));
    gw_handshake_close(dial);
    gw_handshake_close(answer);
    answer = gw_handshake_answer(&answerer.local, chance[1], &err);
    GW_CHECK(answer != NULL && gw_handshake_feed(answer, bytes, count, &used, &err) != GW_HANDSHAKE_DONE);
    GW_CHECK(used <= count);
    gw_handshake_close(answer);
    return agreed;
}

const fuzz_target fuzz_handshake = {"handshake", 1500, 1400, handshake_examples, NULL, take_handshake};

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

static bool take_record(const uint8_t *bytes, size_t count) {
    static gw_cipher cipher; /* aligned as it wants to be */
    if (count == 0) return false;
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
    return at == end;
}

const fuzz_target fuzz_record = {"record", 60000, 1024, record_examples, NULL, take_record};

/* ---- control messages ---- */

static void add_message(fuzz_add *add, void *context, const gw_message *m) {
    uint8_t *bytes;
    size_t count = gw_message_encode(m, &bytes);
    add(context, bytes, count);
    free(bytes);
}

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
        add_message(add, context, &m);
    }
    gw_report_free(report);
    gw_install_free(install);
}

/* Losses that say of a life two things, which was read as one of them; and the last epoch there is, behind
 * which there is no other. */
static void message_found(fuzz_add *add, void *context) {
    gw_report *report = calloc(1, sizeof *report);
    GW_CHECK_MEMORY(report != NULL);
    const gw_loss loss = {.id = {{4}}, .boot = 1, .step = 17, .shard = 2};
    report->losses = (gw_losses){.count = 2, .list = {loss, loss}};
    gw_message m = {.kind = GW_MSG_VOTE, .epoch = 9, .report = report};
    add_message(add, context, &m);
    report->losses.list[1].shard = GW_LOSS_ANY;
    add_message(add, context, &m);
    report->losses.count = 0;
    report->installed_epoch = UINT64_MAX;
    add_message(add, context, &m);
    m = (gw_message){.kind = GW_MSG_READY, .epoch = UINT64_MAX};
    add_message(add, context, &m);
    m = (gw_message){.kind = GW_MSG_REFUSE, .epoch = 9, .refusal = GW_REFUSE_OLD, .value = UINT64_MAX};
    add_message(add, context, &m);
    gw_report_free(report);
}

/* What is understood is said again in the same bytes. */
static bool take_message(const uint8_t *bytes, size_t count) {
    gw_message message;
    gw_err err;
    if (!gw_message_decode(bytes, count, &message, &err)) return false;
    uint8_t *again;
    size_t length = gw_message_encode(&message, &again);
    GW_CHECK(length == count && memcmp(again, bytes, count) == 0);
    free(again);
    gw_message_free(&message);
    return true;
}

const fuzz_target fuzz_message = {"message", 60000, 2048, message_examples, message_found, take_message};

/* ---- headers and notes of the data plane, addresses; the first byte says which ---- */

enum { HEADER, HELLO, ADDRESS, TOLD, CARD, DIAL };

#ifdef GODWIT_RDMA
static const gw_peer_id dialled = {{6}};
static const uint8_t dial_secret[GW_RDMA_SECRET] = {5};
#endif

static void headers_examples(fuzz_add *add, void *context) {
    uint8_t bytes[1 + GW_PATH_HELLO_BYTES] = {HEADER};
    gw_request request = {.kind = GW_OP_READ, .region = 1, .bytes = 8, .id = 3, .offset = 16};
    gw_request_encode(&request, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_reply reply = {.kind = GW_OP_READ, .status = GW_OP_OK, .last = true, .id = 3};
    gw_reply_encode(&reply, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_call call = {.is = {.member_count = 2, .tag = {.step = 3}}, .elements = 100};
    const gw_part part = {.call = &call};
    gw_part_encode(&part, GW_PART_CHUNK, 1, 4, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_path_note note = {.what = GW_PATH_TRY, .kind = GW_PATH_SHM, .serial = 5};
    gw_path_note_encode(&note, bytes + 1);
    add(context, bytes, 1 + GW_LANE_HEADER);
    gw_path_hello hello = {.kinds = GW_PATH_BIT(GW_PATH_TCP) | GW_PATH_BIT(GW_PATH_SHM)};
    hello.cards[GW_PATH_SHM] = (gw_path_card){.count = 3, .bytes = {1, 2, 3}};
    bytes[0] = HELLO;
    add(context, bytes, 1 + gw_path_hello_encode(&hello, bytes + 1));
    add(context, "\2[fe80::1]:7117", 15);
    add(context, "\2host.name:80", 13);
#ifdef GODWIT_RDMA
    gw_rdma_told_slots slots = {.count = 2, .slots = {{.address = 4096, .rkey = 7}}};
    bytes[0] = TOLD;
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
    bytes[0] = CARD;
    add(context, bytes, 1 + gw_rdma_card_encode(&card, bytes + 1));
    gw_rdma_hello dial = {.queue = 1, .serial = 7, .dialler = {{4}}, .acceptor = dialled};
    gw_rdma_hello_encode(&dial, dial_secret, bytes + 1);
    bytes[0] = DIAL;
    add(context, bytes, 1 + GW_RDMA_HELLO);
#endif
}

static bool take_header(const uint8_t *bytes, size_t count) {
    uint8_t header[GW_LANE_HEADER] = {0};
    memcpy(header, bytes, count < sizeof header ? count : sizeof header);
    gw_request request;
    gw_reply reply;
    bool operation = gw_header_decode(header, &request, &reply) != GW_HEADER_BAD;
    gw_part_header part;
    bool collective = gw_part_decode(header, &part);
    gw_path_note note;
    bool path = gw_path_note_decode(header, &note);
    if (path) GW_CHECK(note.what >= GW_PATH_HELLO && note.what <= GW_PATH_USE);
    return operation || collective || path;
}

static bool take_hello(const uint8_t *bytes, size_t count) {
    gw_path_hello hello;
    if (!gw_path_hello_decode(bytes, (uint32_t)count, &hello)) return false;
    for (int k = 0; k < GW_PATH_KINDS; k++) GW_CHECK(hello.cards[k].count <= GW_PATH_CARD_BYTES);
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
    GW_CHECK(host[0] != '\0' && strlen(host) < sizeof host);
    return true;
}

#ifdef GODWIT_RDMA
static bool take_told(const uint8_t *bytes, size_t count) {
    gw_rdma_told told;
    gw_rdma_message what = gw_rdma_message_decode(bytes, (uint32_t)count, &told);
    if (what == GW_RDMA_MESSAGE_SLOTS) GW_CHECK(told.slots.count <= GW_PATH_STREAMS);
    if (what == GW_RDMA_MESSAGE_WORDS) GW_CHECK(told.words.count <= GW_MAX_REGIONS);
    return what != GW_RDMA_MESSAGE_BAD;
}

/* Who dials has to know the secret that it was told. */
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

/* ---- replies to one-sided operations, each REPLY bytes; their payload is made up. The first ones say which
 * of the operations by its number ---- */

enum { ASKED = 3, REPLY = 24 };

typedef struct asked {
    gw_asker *asker;
    gw_op ops[ASKED];
    uint64_t ids[ASKED];
    uint32_t completed, good;
} asked;

static void count_completion(void *context, const gw_completion *completion) {
    asked *a = context;
    GW_CHECK(completion->token < ASKED && ++a->completed <= ASKED);
    if (completion->status == GW_OP_OK) a->good++;
}

/* Each has a buffer of just its size. */
static void ask(asked *a) {
    static const gw_op ops[ASKED] = {{.kind = GW_OP_READ, .token = 0, .bytes = 1000},
                                     {.kind = GW_OP_FETCH, .token = 1, .bytes = 1000},
                                     {.kind = GW_OP_FETCH_ADD, .token = 2}};
    gw_transport_events events = {.context = a, .completed = count_completion};
    a->asker = gw_asker_open(GW_ASKER_WINDOW, &events);
    GW_CHECK_MEMORY(a->asker != NULL);
    for (uint32_t i = 0; i < ASKED; i++) {
        gw_posted *posted = calloc(1, sizeof *posted);
        GW_CHECK_MEMORY(posted != NULL);
        a->ops[i] = posted->op = ops[i];
        a->ops[i].buffer = posted->op.buffer = malloc(ops[i].bytes + 1);
        GW_CHECK_MEMORY(posted->op.buffer != NULL);
        gw_asker_add(a->asker, posted);
        gw_request request;
        struct iovec payload;
        GW_CHECK(gw_asker_next(a->asker, &request, &payload));
        a->ids[i] = request.id;
    }
}

/* What is placed lies in the buffer of an operation. */
static void land(asked *a, const struct iovec *place, uint32_t bytes) {
    GW_CHECK(place->iov_len == bytes);
    if (bytes > 0) {
        uint32_t i = 0;
        const uint8_t *at = place->iov_base;
        while (i < ASKED && (at < (uint8_t *)a->ops[i].buffer ||
                             at + bytes > (uint8_t *)a->ops[i].buffer + a->ops[i].bytes))
            i++;
        GW_CHECK(i < ASKED);
        memset(place->iov_base, 7, bytes);
    }
    gw_asker_landed(a->asker);
}

static size_t put_reply(uint8_t *at, uint32_t op, gw_reply reply, uint32_t bytes) {
    gw_writer w = gw_writer_on(at, REPLY);
    gw_put_u8(&w, (uint8_t)reply.kind);
    gw_put_u8(&w, GW_OP_OK);
    gw_put_u8(&w, reply.last);
    gw_put_u8(&w, (uint8_t)op);
    gw_put_u32(&w, bytes);
    gw_put_u64(&w, reply.value);
    gw_put_u64(&w, reply.offset);
    GW_CHECK(!w.failed);
    return w.length;
}

static void reply_examples(fuzz_add *add, void *context) {
    uint8_t bytes[5 * REPLY], *at = bytes;
    at += put_reply(at, 2, (gw_reply){.kind = GW_OP_FETCH_ADD, .last = true, .value = 4}, 0);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .value = 900}, 300);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .value = 900, .offset = 300}, 500);
    at += put_reply(at, 0, (gw_reply){.kind = GW_OP_READ, .last = true}, 1000);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .last = true, .value = 900, .offset = 800}, 100);
    add(context, bytes, (size_t)(at - bytes));
}

/* A later piece of a fetch says that the whole is nothing: it was written behind the buffer. */
static void reply_found(fuzz_add *add, void *context) {
    uint8_t bytes[2 * REPLY], *at = bytes;
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .value = 900}, 300);
    at += put_reply(at, 1, (gw_reply){.kind = GW_OP_FETCH, .value = 0, .offset = 300}, 900);
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
    uint8_t header[GW_LANE_HEADER];
    gw_request request;
    gw_reply_encode(&reply, header);
    if (gw_header_decode(header, &request, &reply) != GW_HEADER_REPLY || bytes > GW_PIECE_BYTES) return false;
    struct iovec place;
    gw_arrival arrival = gw_asker_place(a->asker, &reply, bytes, &place);
    if (arrival == GW_ARRIVAL_LAND) land(a, &place, bytes);
    return arrival != GW_ARRIVAL_REFUSE;
}

static bool take_replies(const uint8_t *bytes, size_t count) {
    asked a = {.completed = 0};
    ask(&a);
    gw_reader r = gw_reader_on(bytes, count);
    while (count - r.position >= REPLY && take_reply(&a, &r)) continue;
    bool good = a.good == ASKED;
    gw_asker_close(a.asker);
    GW_CHECK(a.completed == ASKED);
    for (uint32_t i = 0; i < ASKED; i++) free(a.ops[i].buffer);
    return good;
}

const fuzz_target fuzz_replies = {"replies", 1000000, 512, reply_examples, reply_found, take_replies};
