/* Targets for the encryption around the bytes of other machines: packets, handshakes, records. */
#include "core/base/wire.h"
#include "net/secure/packet.h"
#include "net/secure/secure.h"
#include "tests/fuzz/target.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* The peers of the handshakes, with their identities. */

typedef struct person {
    gw_identity identity;
    gw_keyring keyring;
    gw_local local;
} person;

static void make_person(person *p, uint8_t number, bool key) {
    uint8_t seed[32];
    GW_ASSERT(sodium_init() >= 0);
    memset(p, 0, sizeof *p);
    memset(seed, number, sizeof seed);
    gw_identity_from_seed(seed, 1, number, &p->identity);
    p->keyring.count = key ? 1 : 0;
    p->local.identity = &p->identity;
    p->local.listen = (gw_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = 7117};
    p->local.keyring = &p->keyring;
    gw_cluster_id("fuzz", &p->local.cluster);
}

static gw_packets *open_packets(person *p, uint8_t number, bool key) {
    gw_err err;
    make_person(p, number, key);
    gw_packets *packets = gw_packets_open(&p->identity, &p->keyring, &p->local.cluster, &err);
    GW_ASSERT(packets != NULL);
    return packets;
}

/* Packets, each behind its length; the first byte says whether this peer has a key, and whether the tags
 * are set right, which anybody can do where there is no key. */

enum { DATAGRAM_HEAD = 2 };
enum { KEYED = 'k', PLAIN = 'p', TAGGED = 't', TAG = 16, MODES = 3, PACKETS = 64 };
enum { LIFE_AT = 10, LIFE = 16 + 8 + 8, NUMBERED = LIFE + 8 }; /* sender, boot and nonce; then the counter */

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

/* Adds new packets of one sender, a repeated one, one of an earlier life, and one of the receiver's own. */
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
            GW_ASSERT(senders[i] != NULL);
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
    GW_ASSERT(crypto_generichash(packet + length - TAG, TAG, packet, length - TAG, self->local.cluster.bytes,
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

/* Checks that a packet that was accepted is never accepted again, and that a packet of this very life
 * never is. */
static void check_new(inbox *in, const uint8_t *packet) {
    const uint8_t *numbered = packet + LIFE_AT;
    GW_ASSERT(memcmp(numbered, in->own, LIFE) != 0);
    for (uint32_t i = 0; i < in->good_count; i++) GW_ASSERT(memcmp(in->good[i], numbered, NUMBERED) != 0);
    if (in->good_count < PACKETS) memcpy(in->good[in->good_count++], numbered, NUMBERED);
}

/* Checks that with a key no changed packet is accepted: what opens has the body that was sealed. Returns
 * whether the packet is authentic. */
static bool open_one(inbox *in, const uint8_t *bytes, size_t length) {
    uint8_t *packet = malloc(length + 1);
    GW_ASSERT_MEMORY(packet != NULL);
    memcpy(packet, bytes, length);
    if (in->mode == TAGGED) set_tag(&in->self, packet, length);
    gw_addr from = {.family = 4, .ip = {10, 0, 0, 2}, .port = 7};
    gw_peer_id sender;
    const uint8_t *body;
    size_t body_bytes;
    gw_packet_verdict verdict =
        gw_packet_open(in->packets, &from, packet, length, 1, &sender, &body, &body_bytes);
    if (verdict == GW_PACKET_GOOD) {
        check_new(in, packet);
        GW_ASSERT(in->mode != KEYED ||
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

/* Targets of handshakes. The first byte chooses the kind, the second one the peers. */

enum { NOISE = 'n', CLAIMS = 'c', MADE_HELLO = 'h', HANDSHAKE_HEAD = 2, TRANSCRIPT = 1200 };
enum { CLUSTER_HINT = 8, POINT = 32, PROOF = 16, HELLO = GW_HANDSHAKE_HEADER + CLUSTER_HINT + POINT + 1 };
enum { ANSWER_CLEAR = GW_HANDSHAKE_HEADER + POINT + 1, TYPE_HELLO = 1, TYPE_ANSWER, TYPE_FINISH };

static const uint8_t chance[2][32] = {{1}, {2}};

static bool is_done(gw_handshake *handshake) {
    size_t used;
    gw_err err;
    return gw_handshake_fault(handshake) == GW_FAULT_NONE &&
           gw_handshake_feed(handshake, NULL, 0, &used, &err) == GW_HANDSHAKE_DONE;
}

static gw_handshake *dial_as(const person *p, gw_stream_kind kind) {
    gw_err err;
    gw_handshake *handshake = gw_handshake_dial(&p->local, kind, 7, chance[0], &err);
    GW_ASSERT(handshake != NULL);
    return handshake;
}

static gw_handshake *answer_as(const person *p) {
    gw_err err;
    gw_handshake *handshake = gw_handshake_answer(&p->local, chance[1], &err);
    GW_ASSERT(handshake != NULL);
    return handshake;
}

/* Copies the message of a side. */
static size_t say(gw_handshake *from, uint8_t said[GW_HANDSHAKE_MESSAGE]) {
    size_t count;
    const uint8_t *bytes = gw_handshake_output(from, &count);
    GW_ASSERT(count <= GW_HANDSHAKE_MESSAGE);
    if (count > 0) memcpy(said, bytes, count);
    gw_handshake_sent(from, count);
    return count;
}

/* Noise: the second byte says who dials; the others somebody on the way adds (exclusive or) to what both
 * sides say. */

enum { DATA = 1, SECOND_KEY = 2, WELCOME = DATA | SECOND_KEY }; /* bits of a peer that is admitted */
enum { CLONE = 4, SELF = 8, ELSEWHERE = 16, KEYLESS = 32, STRANGE_KEY = 64, OPEN = 128 };
enum { STRANGE_KIND = CLONE | SELF }; /* a peer of the same identity is refused for that reason */

static bool is_strange(uint8_t who) {
    return (who & STRANGE_KIND) == STRANGE_KIND;
}

static void make_dialler(person *p, uint8_t who) {
    make_person(p, (who & (CLONE | SELF)) != 0 && !is_strange(who) ? 1 : 0, (who & KEYLESS) == 0);
    p->identity.incarnation.nonce = who & SELF ? 1 : 9;
    p->keyring.keys[0].bytes[0] = who & STRANGE_KEY ? 99 : who & SECOND_KEY ? 1 : 0;
    if (who & ELSEWHERE) gw_cluster_id("another", &p->local.cluster);
}

/* Without keys on both sides, it does not matter which key the dialler would have had. */
static bool is_welcome(uint8_t who) {
    return who & OPEN ? (who & ~(WELCOME | STRANGE_KEY)) == (OPEN | KEYLESS) : (who & ~WELCOME) == 0;
}

static gw_stream_kind kind_of(uint8_t who) {
    return is_strange(who) ? (gw_stream_kind)9 : who & DATA ? GW_STREAM_DATA : GW_STREAM_CONTROL;
}

/* Moves the message of `from` to `to`, changed by the next bytes of *noise. Returns whether a byte was
 * changed. */
static bool pass_on(gw_handshake *from, gw_handshake *to, const uint8_t **noise, size_t *left) {
    uint8_t said[GW_HANDSHAKE_MESSAGE];
    size_t count = say(from, said), used;
    bool changed = false;
    gw_err err;
    for (size_t i = 0; i<count && * left> 0; i++, *noise += 1, *left -= 1) {
        said[i] ^= **noise;
        changed |= **noise != 0;
    }
    if (gw_handshake_fault(to) == GW_FAULT_NONE) gw_handshake_feed(to, said, count, &used, &err);
    return changed;
}

/* Feeds the input to one side of a handshake. */
static void feed_raw(gw_handshake *handshake, const uint8_t *bytes, size_t count) {
    size_t used;
    gw_err err;
    GW_ASSERT(gw_handshake_feed(handshake, bytes, count, &used, &err) != GW_HANDSHAKE_DONE);
    GW_ASSERT(used <= count);
    gw_handshake_close(handshake);
}

/* Checks that only a peer that is admitted, and none of whose bytes were changed, completes the handshake. */
static bool take_noise(uint8_t who, const uint8_t *bytes, size_t count) {
    const uint8_t *noise = bytes;
    size_t left = count;
    person dialler, answerer;
    make_dialler(&dialler, who);
    make_person(&answerer, 1, (who & OPEN) == 0);
    if ((who & OPEN) == 0) answerer.keyring.count = 2;
    answerer.keyring.keys[1].bytes[0] = 1;
    gw_handshake *dial = dial_as(&dialler, kind_of(who)), *answer = answer_as(&answerer);
    bool changed = false;
    for (int turn = 0; turn < 3; turn++) {
        changed |= pass_on(dial, answer, &noise, &left);
        changed |= pass_on(answer, dial, &noise, &left);
    }
    bool agreed = is_done(dial) && is_done(answer);
    GW_ASSERT(agreed == (!changed && is_welcome(who)));
    gw_handshake_close(dial);
    gw_handshake_close(answer);
    feed_raw(answer_as(&answerer), bytes, count);
    feed_raw(dial_as(&dialler, kind_of(who)), bytes, count);
    return agreed;
}

/* Claims: a member that says of itself what it likes, and signs and seals it as it should. The second byte
 * says who answers it, and as whom it signs. */

enum { ROGUE_ANSWERS = 1, OWN_IDENTITY = 2, NO_KEYS = 4, UNSIGNED = 8, ALGORITHM_SHIFT = 4 };

/* The attacker's own computation of a handshake (net/secure/secure.h). */
typedef struct rogue {
    person as;
    bool dials;
    uint8_t transcript[32];
    gw_key master;
} rogue;

static void hash_of(uint8_t out[32], const gw_key *key, const void *a, size_t a_bytes, const void *b,
                    size_t b_bytes) {
    crypto_generichash_state state;
    GW_ASSERT(crypto_generichash_init(&state, key != NULL ? key->bytes : NULL, key != NULL ? 32 : 0, 32) ==
              0);
    GW_ASSERT(crypto_generichash_update(&state, a, a_bytes) == 0);
    GW_ASSERT(crypto_generichash_update(&state, b, b_bytes) == 0);
    GW_ASSERT(crypto_generichash_final(&state, out, 32) == 0);
}

static void key_of(const person *p, gw_key_purpose purpose, gw_key *key) {
    memset(key, 0, sizeof *key);
    if (p->keyring.count > 0) gw_keyring_derive(&p->keyring, 0, purpose, key);
}

/* Derives the keys after both sides have sent their points: all later messages are sealed. */
static void reckon(rogue *r, const uint8_t secret[32], const uint8_t their_point[POINT], const uint8_t *hello,
                   const uint8_t *answer) {
    uint8_t agreed[32], first[32];
    gw_key shared;
    GW_ASSERT(crypto_scalarmult(agreed, secret, their_point) == 0);
    hash_of(first, NULL, r->as.local.cluster.bytes, 32, hello, HELLO + PROOF);
    hash_of(r->transcript, NULL, first, 32, answer, ANSWER_CLEAR);
    key_of(&r->as, GW_KEY_STREAM, &shared);
    hash_of(r->master.bytes, &shared, agreed, 32, r->transcript, 32);
}

static void put_head(gw_writer *w, const rogue *r, uint8_t type, size_t body_bytes) {
    gw_put_bytes(w, "gdwt", 4);
    gw_put_u16(w, GW_PROTOCOL_VERSION);
    gw_put_u8(w, type);
    gw_put_u8(w, r->as.keyring.count > 0);
    gw_put_u16(w, (uint16_t)body_bytes);
}

/* Writes the claims, with the identity before and the signature behind them, as far as a message has room. */
static size_t sign_claims(const rogue *r, const uint8_t *claims, size_t count, size_t room, uint8_t *plain) {
    static const char by[2][33] = {"godwit handshake, the responder ", "godwit handshake, the initiator "};
    uint8_t text[64];
    if (count > room - 32 - crypto_sign_BYTES) count = room - 32 - crypto_sign_BYTES;
    memcpy(plain, r->as.identity.public_key, 32);
    memcpy(plain + 32, claims, count);
    memcpy(text, by[r->dials], 32);
    hash_of(text + 32, NULL, r->transcript, 32, plain, 32 + count);
    GW_ASSERT(crypto_sign_detached(plain + 32 + count, NULL, text, sizeof text, r->as.identity.secret_key) ==
              0);
    return 32 + count + crypto_sign_BYTES;
}

/* Appends the sealed part of a message, whose header gets its length. */
static void put_claims(const rogue *r, uint8_t flags, const uint8_t *claims, size_t count, gw_writer *w) {
    static const uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    uint8_t plain[GW_HANDSHAKE_MESSAGE], key[32];
    size_t room = w->capacity - w->length - GW_RECORD_TAG;
    if (flags & UNSIGNED) {
        if (count > room) count = room;
        memcpy(plain, claims, count);
    } else
        count = sign_claims(r, claims, count, room, plain);
    GW_ASSERT(crypto_kdf_derive_from_key(key, 32, r->dials ? TYPE_FINISH : TYPE_ANSWER, "gwstream",
                                         r->master.bytes) == 0);
    GW_ASSERT(crypto_aead_chacha20poly1305_ietf_encrypt(w->bytes + w->length, NULL, plain, count,
                                                        r->transcript, 32, NULL, nonce, key) == 0);
    w->length += count + GW_RECORD_TAG;
}

/* The attacker dials, and goes on from the answer. The hello of an honest peer will do, because the
 * attacker knows its secret. */
static void rogue_dials(rogue *r, gw_handshake *victim, uint8_t flags, const uint8_t *claims, size_t count) {
    uint8_t hello[GW_HANDSHAKE_MESSAGE], answer[GW_HANDSHAKE_MESSAGE], finish[GW_HANDSHAKE_MESSAGE];
    gw_handshake *dial = dial_as(&r->as, GW_STREAM_CONTROL);
    size_t used, hello_bytes = say(dial, hello);
    gw_err err;
    gw_handshake_close(dial);
    GW_ASSERT(gw_handshake_feed(victim, hello, hello_bytes, &used, &err) == GW_HANDSHAKE_GOING);
    size_t answer_bytes = say(victim, answer);
    GW_ASSERT(gw_handshake_proved(victim) && answer_bytes > ANSWER_CLEAR);
    reckon(r, chance[0], answer + GW_HANDSHAKE_HEADER, hello, answer);
    hash_of(r->transcript, NULL, r->transcript, 32, answer + ANSWER_CLEAR, answer_bytes - ANSWER_CLEAR);
    gw_writer w = gw_writer_on(finish, sizeof finish), head = gw_writer_on(finish, GW_HANDSHAKE_HEADER);
    put_head(&w, r, TYPE_FINISH, 0);
    put_claims(r, flags, claims, count, &w);
    put_head(&head, r, TYPE_FINISH, w.length - GW_HANDSHAKE_HEADER);
    gw_handshake_feed(victim, finish, w.length, &used, &err);
    GW_ASSERT(used == w.length);
}

/* Makes the header, which the signature of the claims covers, and which contains their length before they
 * exist. */
static void rogue_answers(rogue *r, gw_handshake *victim, uint8_t flags, const uint8_t *claims,
                          size_t count) {
    uint8_t hello[GW_HANDSHAKE_MESSAGE], answer[GW_HANDSHAKE_MESSAGE], point[POINT];
    const size_t around = flags & UNSIGNED ? 0 : 32 + crypto_sign_BYTES;
    const size_t most = sizeof answer - ANSWER_CLEAR - GW_RECORD_TAG - around;
    if (count > most) count = most;
    GW_ASSERT(say(victim, hello) == HELLO + PROOF && crypto_scalarmult_base(point, chance[1]) == 0);
    gw_writer w = gw_writer_on(answer, sizeof answer);
    put_head(&w, r, TYPE_ANSWER, POINT + 1 + around + count + GW_RECORD_TAG);
    gw_put_bytes(&w, point, POINT);
    gw_put_u8(&w, flags >> ALGORITHM_SHIFT);
    reckon(r, chance[1], hello + GW_HANDSHAKE_HEADER + CLUSTER_HINT, hello, answer);
    put_claims(r, flags, claims, count, &w);
    size_t used;
    gw_err err;
    gw_handshake_feed(victim, answer, w.length, &used, &err);
    GW_ASSERT(used == w.length);
}

/* Checks that what was understood is what was sent, and that no other identity was believed. */
static void check_remote(const rogue *r, gw_handshake *victim, const uint8_t *claims, size_t count) {
    static gw_cipher seal, open; /* static, for their alignment */
    gw_remote remote;
    uint8_t again[64];
    gw_handshake_finish(victim, &remote, &seal, &open);
    GW_ASSERT(gw_peer_id_equal(&remote.id, &r->as.identity.id) && remote.dialled == !r->dials);
    GW_ASSERT(remote.kind == GW_STREAM_CONTROL || remote.kind == GW_STREAM_DATA);
    GW_ASSERT(remote.listen.family != 0 && remote.listen.port != 0);
    GW_ASSERT(memchr(remote.build, 0, sizeof remote.build) != NULL);
    for (const char *c = remote.build; *c != '\0'; c++) GW_ASSERT(*c >= ' ' && *c <= '~');
    gw_writer w = gw_writer_on(again, sizeof again);
    gw_put_incarnation(&w, &remote.incarnation);
    gw_put_addr(&w, &remote.listen);
    gw_put_u8(&w, r->dials ? (uint8_t)remote.kind : 0);
    if (r->dials) gw_put_u64(&w, remote.label);
    GW_ASSERT(!w.failed && w.length <= count && memcmp(again, claims, w.length) == 0);
    gw_cipher_wipe(&seal);
    gw_cipher_wipe(&open);
}

/* Checks that an attacker with this peer's own identity, or without a signature, is not admitted. */
static bool take_claims(uint8_t flags, const uint8_t *claims, size_t count) {
    rogue r = {.dials = (flags & ROGUE_ANSWERS) == 0};
    person self;
    make_person(&self, 1, (flags & NO_KEYS) == 0);
    make_person(&r.as, flags & OWN_IDENTITY ? 1 : 2, (flags & NO_KEYS) == 0);
    gw_handshake *victim = r.dials ? answer_as(&self) : dial_as(&self, GW_STREAM_DATA);
    if (r.dials)
        rogue_dials(&r, victim, flags, claims, count);
    else
        rogue_answers(&r, victim, flags, claims, count);
    bool done = is_done(victim);
    GW_ASSERT(!done || (flags & (OWN_IDENTITY | UNSIGNED)) == 0);
    if (done) check_remote(&r, victim, claims, count);
    gw_handshake_close(victim);
    return done;
}

/* Makes a hello, from its point on, of an attacker with the key: the proof is valid. */
static bool take_made_hello(uint8_t flags, const uint8_t *bytes, size_t count) {
    rogue r = {.dials = true};
    make_person(&r.as, 1, (flags & NO_KEYS) == 0);
    uint8_t hello[HELLO + PROOF], rest[POINT + 1] = {0}, proof[32];
    gw_key key;
    memcpy(rest, bytes, count < sizeof rest ? count : sizeof rest);
    gw_writer w = gw_writer_on(hello, sizeof hello);
    put_head(&w, &r, TYPE_HELLO, HELLO + PROOF - GW_HANDSHAKE_HEADER);
    gw_put_bytes(&w, r.as.local.cluster.bytes, CLUSTER_HINT);
    gw_put_bytes(&w, rest, sizeof rest);
    key_of(&r.as, GW_KEY_STREAM_PROOF, &key);
    hash_of(proof, &key, r.as.local.cluster.bytes, 32, hello, HELLO);
    gw_put_bytes(&w, proof, PROOF);
    gw_handshake *victim = answer_as(&r.as);
    size_t used;
    gw_err err;
    gw_handshake_state state = gw_handshake_feed(victim, hello, w.length, &used, &err);
    GW_ASSERT(used == sizeof hello && state != GW_HANDSHAKE_DONE);
    GW_ASSERT(gw_handshake_proved(victim) == (state == GW_HANDSHAKE_GOING));
    gw_handshake_close(victim);
    return state == GW_HANDSHAKE_GOING;
}

/* All kinds of handshakes. */

static size_t put_example_claims(uint8_t *at, size_t room, uint8_t flags, const gw_addr *listen,
                                 const char *build) {
    gw_writer w = gw_writer_on(at, room);
    gw_put_u8(&w, CLAIMS);
    gw_put_u8(&w, flags);
    gw_put_incarnation(&w, &(gw_incarnation){.boot = 3, .refutation = 1, .nonce = 5});
    gw_put_addr(&w, listen);
    gw_put_u8(&w, flags & ROGUE_ANSWERS ? 0 : GW_STREAM_DATA);
    gw_put_u64(&w, flags & ROGUE_ANSWERS ? 0 : 6);
    gw_put_string(&w, build);
    GW_ASSERT(!w.failed);
    return w.length;
}

static void handshake_examples(fuzz_add *add, void *context) {
    static const gw_addr listen[3] = {
        {.family = 4, .port = 1}, {.family = 4, .ip = {10, 1}, .port = 7}, {.family = 6, .port = 65535}};
    static const char *const builds[3] = {"", "0.1 of a build", "not \r\n printable \x7f\xff"};
    uint8_t bytes[TRANSCRIPT] = {NOISE};
    for (uint8_t who = 0; who <= WELCOME; who++) {
        bytes[1] = who;
        add(context, bytes, sizeof bytes); /* no byte is changed */
    }
    for (uint8_t who = OPEN | KEYLESS; who <= (OPEN | KEYLESS | DATA); who++) {
        bytes[1] = who;
        add(context, bytes, sizeof bytes);
    }
    for (uint8_t flags = 0; flags < 8; flags++) {
        if (flags & OWN_IDENTITY) continue;
        uint8_t algorithm = flags & NO_KEYS ? GW_ALGORITHM_PLAIN : GW_ALGORITHM_CHACHA20;
        uint8_t with = (uint8_t)(flags | algorithm << ALGORITHM_SHIFT);
        for (int i = 0; i < 3; i++)
            add(context, bytes, put_example_claims(bytes, sizeof bytes, with, &listen[i], builds[i]));
    }
    memset(bytes, 9, HANDSHAKE_HEAD + POINT + 1);
    bytes[0] = MADE_HELLO;
    for (uint8_t flags = 0; flags <= NO_KEYS; flags += NO_KEYS) {
        bytes[1] = flags;
        add(context, bytes, HANDSHAKE_HEAD + POINT + 1);
    }
}

static bool take_handshake(const uint8_t *bytes, size_t count) {
    if (count < HANDSHAKE_HEAD) return false;
    const uint8_t *rest = bytes + HANDSHAKE_HEAD;
    count -= HANDSHAKE_HEAD;
    switch (bytes[0]) {
    case NOISE:
        return take_noise(bytes[1], rest, count);
    case CLAIMS:
        return take_claims(bytes[1], rest, count);
    case MADE_HELLO:
        return take_made_hello(bytes[1], rest, count);
    default:
        return false;
    }
}

const fuzz_target fuzz_handshake = {"handshake", 3000, 1400, handshake_examples, NULL, take_handshake};

/* Target of records: the first byte chooses the algorithm, and a stream of records follows. */

static const gw_algorithm algorithms[] = {GW_ALGORITHM_PLAIN, GW_ALGORITHM_CHACHA20, GW_ALGORITHM_AES256GCM};
static const uint8_t record_key[32] = {3};
static const char record_text[] = "what is in the record";

static gw_algorithm algorithm_of(uint8_t byte) {
    gw_algorithm algorithm = algorithms[byte % 3];
    return algorithm == GW_ALGORITHM_AES256GCM && !gw_record_has_aes() ? GW_ALGORITHM_CHACHA20 : algorithm;
}

static void record_examples(fuzz_add *add, void *context) {
    GW_ASSERT(sodium_init() >= 0);
    for (uint8_t a = 0; a < 3; a++) {
        gw_cipher cipher;
        gw_err err;
        uint8_t bytes[500] = {a}, *end = bytes + 1;
        gw_cipher_start(&cipher, algorithm_of(a), record_key, GW_RECORD_CONTROL);
        for (int i = 0; i < 4; i++) {
            GW_ASSERT(gw_record_seal(&cipher, record_text, sizeof record_text, i % 2 == 0, end, &err));
            end += gw_record_bytes(&cipher, sizeof record_text);
        }
        add(context, bytes, (size_t)(end - bytes));
        gw_cipher_wipe(&cipher);
    }
}

static bool take_record(const uint8_t *bytes, size_t count) {
    static gw_cipher cipher; /* static, for its alignment */
    if (count == 0) return false;
    GW_ASSERT(sodium_init() >= 0);
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
        GW_ASSERT(length <= GW_RECORD_CONTROL);
        if (!gw_record_open(&cipher, at, record, payload, &err)) break;
        GW_ASSERT(algorithm == GW_ALGORITHM_PLAIN ||
                  (length == sizeof record_text && memcmp(payload, record_text, length) == 0));
        at += record;
    }
    gw_cipher_wipe(&cipher);
    return at == end;
}

const fuzz_target fuzz_record = {"record", 60000, 1024, record_examples, NULL, take_record};
