#include "net/secure/secure.h"

#include "core/base/assert.h"
#include "core/base/wire.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum {
    HELLO = 1,
    ANSWER = 2,
    FINISH = 3,
    ALERT = 255,
    MODE_PLAIN = 0,
    MODE_SEALED = 1,
    CLUSTER_HINT = 8,
    PROOF_BYTES = 16,
    HELLO_BODY = CLUSTER_HINT + 32 + 1 + PROOF_BYTES,
    ANSWER_CLEAR = 32 + 1, /* the part of an answer's body that is not sealed */
    SIGNATURE_BYTES = crypto_sign_BYTES,
    /* A bit of the hello's `algorithms`. Bits that a version does not know are ignored: by the next one a
     * dialler tells that it speaks the version after that of its header as well (net/README.md,
     * "Versions"). */
    CAN_AES = 1,
};
static const char magic[] = GW_HANDSHAKE_MAGIC;
enum { MAGIC_BYTES = sizeof magic - 1 };
static const uint8_t
    zero_nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES]; /* each handshake key seals a single message */

struct gw_handshake {
    const gw_local *local;
    bool dialler;
    uint8_t expected; /* the type of the next message; 0 when done */
    gw_fault fault;
    uint8_t ephemeral_secret[32], ephemeral_public[32];
    gw_key shared_key, master;
    uint8_t transcript[32];
    gw_algorithm algorithm;
    gw_stream_kind kind;
    uint64_t label;
    gw_remote remote;
    uint8_t hello[GW_HANDSHAKE_HEADER + HELLO_BODY]; /* kept until the transcript begins */
    size_t in_count, out_count, out_sent;
    uint8_t in[GW_HANDSHAKE_MESSAGE], out[GW_HANDSHAKE_MESSAGE];
};

typedef struct header {
    uint16_t version, length;
    uint8_t type, mode;
} header;

static uint8_t our_mode(const gw_handshake *h) {
    return h->local->keyring->count > 0 ? MODE_SEALED : MODE_PLAIN;
}

/* Writing. */

static void put_header(gw_writer *w, const gw_handshake *h, uint8_t type, size_t body_bytes) {
    gw_put_bytes(w, magic, MAGIC_BYTES);
    gw_put_u16(w, GW_PROTOCOL_VERSION);
    gw_put_u8(w, type);
    gw_put_u8(w, our_mode(h));
    gw_put_u16(w, (uint16_t)body_bytes);
}

static gw_handshake_state fail(gw_handshake *h, gw_fault fault) {
    h->fault = fault;
    h->expected = 0;
    return GW_HANDSHAKE_FAILED;
}

/* Fails, and queues the alert that tells the other side why. */
static gw_handshake_state fail_aloud(gw_handshake *h, gw_fault fault) {
    h->out_count = h->out_sent = 0;
    gw_writer w = gw_writer_on(h->out, sizeof h->out);
    put_header(&w, h, ALERT, 1);
    gw_put_u8(&w, (uint8_t)fault);
    GW_ASSERT(!w.failed);
    h->out_count = w.length;
    return fail(h, fault);
}

/* Keys and transcript. */

static void hash_parts(uint8_t out[32], const uint8_t *key, const void *a, size_t a_bytes, const void *b,
                       size_t b_bytes) {
    crypto_generichash_state state;
    int failed = crypto_generichash_init(&state, key, key == NULL ? 0 : GW_KEY_BYTES, 32);
    failed |= crypto_generichash_update(&state, a, a_bytes);
    failed |= crypto_generichash_update(&state, b, b_bytes);
    failed |= crypto_generichash_final(&state, out, 32);
    GW_ASSERT(failed == 0);
}

static void mix(gw_handshake *h, const void *bytes, size_t count) {
    uint8_t next[32];
    hash_parts(next, NULL, h->transcript, 32, bytes, count);
    memcpy(h->transcript, next, 32);
}

static void make_ephemeral(gw_handshake *h) {
    int failed = crypto_scalarmult_base(h->ephemeral_public, h->ephemeral_secret);
    GW_ASSERT(failed == 0);
}

static void derive(const gw_key *master, uint64_t number, uint8_t key[32]) {
    static const char context[crypto_kdf_CONTEXTBYTES] = {'g', 'w', 's', 't', 'r', 'e', 'a', 'm'};
    int failed = crypto_kdf_derive_from_key(key, 32, number, context, master->bytes);
    GW_ASSERT(failed == 0);
}

/* Computes the tag on a hello, which proves that its sender holds the key; so a stranger costs the responder
 * only one hash for each key. */
static void hello_proof(const gw_local *local, const gw_key *key, const uint8_t *hello,
                        uint8_t proof[PROOF_BYTES]) {
    uint8_t full[32];
    hash_parts(full, key->bytes, local->cluster.bytes, 32, hello,
               GW_HANDSHAKE_HEADER + HELLO_BODY - PROOF_BYTES);
    memcpy(proof, full, PROOF_BYTES);
}

static void key_for(const gw_local *local, uint32_t index, gw_key_purpose purpose, gw_key *key) {
    if (local->keyring->count == 0)
        memset(key, 0, sizeof *key);
    else
        gw_keyring_derive(local->keyring, index, purpose, key);
}

/* Computes the transcript and the master key from the clear part of the answer:
 * transcript = H(H(cluster | hello) | clear part of the answer), master = H(key; X25519 | transcript). */
static bool agree(gw_handshake *h, const uint8_t their_ephemeral[32], const uint8_t *answer) {
    uint8_t secret[32];
    if (crypto_scalarmult(secret, h->ephemeral_secret, their_ephemeral) != 0)
        return false; /* the other side sent a weak point */
    hash_parts(h->transcript, NULL, h->local->cluster.bytes, 32, h->hello, sizeof h->hello);
    mix(h, answer, GW_HANDSHAKE_HEADER + ANSWER_CLEAR);
    hash_parts(h->master.bytes, h->shared_key.bytes, secret, 32, h->transcript, 32);
    sodium_memzero(secret, sizeof secret);
    return true;
}

/* The claims of one side, signed over the transcript so far, the claims and the role. */

static size_t signed_text(const gw_handshake *h, bool by_dialler, const uint8_t *claims, size_t claims_bytes,
                          uint8_t text[64]) {
    static const char by[2][33] = {"godwit handshake, the responder ", "godwit handshake, the initiator "};
    memcpy(text, by[by_dialler], 32);
    hash_parts(text + 32, NULL, h->transcript, 32, claims, claims_bytes);
    return 64;
}

static size_t claims_bytes(const gw_local *local) {
    return 32 + 20 + 19 + 1 + 8 + 2 + strlen(local->build);
}

/* Appends the sealed claims to a message whose header and clear part are written, and mixes the seal. */
static void put_sealed(gw_handshake *h, gw_writer *w) {
    const gw_local *local = h->local;
    uint8_t text[64], key[32], *claims = w->bytes + w->length;
    gw_put_bytes(w, local->identity->public_key, 32);
    gw_put_incarnation(w, &local->identity->incarnation);
    gw_put_addr(w, &local->listen);
    gw_put_u8(w, h->dialler ? (uint8_t)h->kind : 0);
    gw_put_u64(w, h->dialler ? h->label : 0);
    gw_put_string(w, local->build);
    size_t bytes = claims_bytes(local), text_bytes = signed_text(h, h->dialler, claims, bytes, text);
    GW_ASSERT(!w->failed && w->bytes + w->length == claims + bytes);
    uint8_t signature[SIGNATURE_BYTES];
    int failed = crypto_sign_detached(signature, NULL, text, text_bytes, local->identity->secret_key);
    gw_put_bytes(w, signature, sizeof signature);
    size_t plain_bytes = bytes + SIGNATURE_BYTES;
    uint8_t tag[GW_RECORD_TAG] = {0};
    gw_put_bytes(w, tag, sizeof tag); /* makes room for the seal, which is written over it */
    GW_ASSERT(!w->failed && failed == 0);
    derive(&h->master, h->dialler ? FINISH : ANSWER, key);
    failed = crypto_aead_chacha20poly1305_ietf_encrypt(claims, NULL, claims, plain_bytes, h->transcript, 32,
                                                       NULL, zero_nonce, key);
    GW_ASSERT(failed == 0);
    sodium_memzero(key, sizeof key);
    mix(h, claims, plain_bytes + GW_RECORD_TAG);
}

static size_t sealed_bytes(const gw_handshake *h) {
    return claims_bytes(h->local) + SIGNATURE_BYTES + GW_RECORD_TAG;
}

static void make_printable(char *text) {
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~') *text = '?';
}

static gw_fault read_claims(gw_handshake *h, const uint8_t *plain, size_t plain_bytes) {
    if (plain_bytes < 32 + SIGNATURE_BYTES) return GW_FAULT_GARBAGE;
    const uint8_t *public_key = plain, *signature = plain + plain_bytes - SIGNATURE_BYTES;
    uint8_t text[64];
    size_t text_bytes = signed_text(h, !h->dialler, plain, plain_bytes - SIGNATURE_BYTES, text);
    if (crypto_sign_verify_detached(signature, text, text_bytes, public_key) != 0) return GW_FAULT_IDENTITY;
    gw_remote *remote = &h->remote;
    gw_reader r = gw_reader_on(plain + 32, plain_bytes - 32 - SIGNATURE_BYTES);
    gw_get_incarnation(&r, &remote->incarnation);
    gw_get_addr(&r, &remote->listen);
    uint8_t kind = gw_get_u8(&r);
    uint64_t label = gw_get_u64(&r);
    gw_get_string(&r, remote->build, sizeof remote->build);
    make_printable(remote->build);
    bool known = h->dialler ? kind == 0 : kind >= GW_STREAM_CONTROL && kind <= GW_STREAM_CLIENT;
    /* A linked peer must be reachable for dials; a client is never dialled. */
    bool reachable = kind == GW_STREAM_CLIENT || (remote->listen.family != 0 && remote->listen.port != 0);
    if (!gw_reader_done(&r) || !known || !reachable) return GW_FAULT_GARBAGE;
    gw_identity_peer_id(public_key, &remote->id);
    remote->dialled = h->dialler;
    remote->kind = h->dialler ? h->kind : (gw_stream_kind)kind;
    remote->label = h->dialler ? h->label : label;
    const gw_identity *own = h->local->identity;
    if (!gw_peer_id_equal(&remote->id, &own->id)) return GW_FAULT_NONE;
    return remote->incarnation.nonce == own->incarnation.nonce ? GW_FAULT_SELF : GW_FAULT_CLONE;
}

/* Opens and checks the other side's sealed claims, and mixes the seal. */
static gw_fault open_sealed(gw_handshake *h, const uint8_t *sealed, size_t bytes) {
    if (bytes < GW_RECORD_TAG) return GW_FAULT_GARBAGE;
    uint8_t key[32], plain[GW_HANDSHAKE_MESSAGE];
    derive(&h->master, h->dialler ? ANSWER : FINISH, key);
    int failed = crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed, bytes, h->transcript,
                                                           32, zero_nonce, key);
    sodium_memzero(key, sizeof key);
    if (failed != 0) return GW_FAULT_IDENTITY;
    gw_fault fault = read_claims(h, plain, bytes - GW_RECORD_TAG);
    mix(h, sealed, bytes);
    return fault;
}

/* The three messages. */

static void put_hello(gw_handshake *h) {
    gw_key key;
    uint8_t proof[PROOF_BYTES];
    gw_writer w = gw_writer_on(h->hello, sizeof h->hello);
    put_header(&w, h, HELLO, HELLO_BODY);
    gw_put_bytes(&w, h->local->cluster.bytes, CLUSTER_HINT);
    gw_put_bytes(&w, h->ephemeral_public, 32);
    gw_put_u8(&w, gw_record_has_aes() ? CAN_AES : 0);
    key_for(h->local, 0, GW_KEY_STREAM_PROOF, &key);
    hello_proof(h->local, &key, h->hello, proof);
    gw_put_bytes(&w, proof, sizeof proof);
    GW_ASSERT(!w.failed && w.length == sizeof h->hello);
    sodium_memzero(&key, sizeof key);
    key_for(h->local, 0, GW_KEY_STREAM, &h->shared_key);
    memcpy(h->out, h->hello, sizeof h->hello);
    h->out_count = sizeof h->hello;
}

/* Finds the key that the hello was made with. */
static bool find_key(gw_handshake *h, const uint8_t *proof) {
    uint32_t count = h->local->keyring->count > 0 ? h->local->keyring->count : 1;
    bool found = false;
    for (uint32_t i = 0; i < count && !found; i++) {
        gw_key key;
        uint8_t expected[PROOF_BYTES];
        key_for(h->local, i, GW_KEY_STREAM_PROOF, &key);
        hello_proof(h->local, &key, h->hello, expected);
        found = sodium_memcmp(expected, proof, PROOF_BYTES) == 0;
        if (found) key_for(h->local, i, GW_KEY_STREAM, &h->shared_key);
        sodium_memzero(&key, sizeof key);
    }
    return found;
}

static gw_handshake_state take_hello(gw_handshake *h, const uint8_t *message, size_t body_bytes) {
    if (body_bytes != HELLO_BODY) return fail_aloud(h, GW_FAULT_GARBAGE);
    memcpy(h->hello, message, sizeof h->hello);
    const uint8_t *cluster = message + GW_HANDSHAKE_HEADER, *ephemeral = cluster + CLUSTER_HINT;
    uint8_t algorithms = ephemeral[32];
    if (memcmp(cluster, h->local->cluster.bytes, CLUSTER_HINT) != 0) return fail_aloud(h, GW_FAULT_CLUSTER);
    if (!find_key(h, ephemeral + 33)) return fail_aloud(h, GW_FAULT_KEY);
    make_ephemeral(h);
    bool aes = (algorithms & CAN_AES) != 0 && gw_record_has_aes();
    h->algorithm = our_mode(h) == MODE_PLAIN ? GW_ALGORITHM_PLAIN
                   : aes                     ? GW_ALGORITHM_AES256GCM
                                             : GW_ALGORITHM_CHACHA20;
    gw_writer w = gw_writer_on(h->out, sizeof h->out);
    put_header(&w, h, ANSWER, ANSWER_CLEAR + sealed_bytes(h));
    gw_put_bytes(&w, h->ephemeral_public, 32);
    gw_put_u8(&w, (uint8_t)h->algorithm);
    if (!agree(h, ephemeral, h->out)) return fail_aloud(h, GW_FAULT_GARBAGE);
    put_sealed(h, &w);
    h->out_count = w.length;
    h->expected = FINISH;
    return GW_HANDSHAKE_GOING;
}

static bool may_choose(const gw_handshake *h, uint8_t algorithm) {
    if (our_mode(h) == MODE_PLAIN) return algorithm == GW_ALGORITHM_PLAIN;
    return algorithm == GW_ALGORITHM_CHACHA20 || (algorithm == GW_ALGORITHM_AES256GCM && gw_record_has_aes());
}

static gw_handshake_state take_answer(gw_handshake *h, const uint8_t *message, size_t body_bytes) {
    const uint8_t *ephemeral = message + GW_HANDSHAKE_HEADER;
    if (body_bytes < ANSWER_CLEAR || !may_choose(h, ephemeral[32])) return fail_aloud(h, GW_FAULT_GARBAGE);
    h->algorithm = (gw_algorithm)ephemeral[32];
    if (!agree(h, ephemeral, message)) return fail_aloud(h, GW_FAULT_GARBAGE);
    gw_fault fault = open_sealed(h, ephemeral + ANSWER_CLEAR, body_bytes - ANSWER_CLEAR);
    bool ourselves = fault == GW_FAULT_SELF || fault == GW_FAULT_CLONE;
    if (fault != GW_FAULT_NONE && !ourselves) return fail_aloud(h, fault);
    gw_writer w = gw_writer_on(h->out, sizeof h->out);
    put_header(&w, h, FINISH, sealed_bytes(h));
    put_sealed(h, &w);
    h->out_count = w.length; /* ourselves: sent all the same, so that the other side has proof of it too */
    h->out_sent = 0;
    h->expected = 0;
    return ourselves ? fail(h, fault) : GW_HANDSHAKE_DONE;
}

static gw_handshake_state take_finish(gw_handshake *h, const uint8_t *message, size_t body_bytes) {
    gw_fault fault = open_sealed(h, message + GW_HANDSHAKE_HEADER, body_bytes);
    if (fault == GW_FAULT_SELF || fault == GW_FAULT_CLONE) return fail(h, fault);
    if (fault != GW_FAULT_NONE) return fail_aloud(h, fault);
    h->expected = 0;
    return GW_HANDSHAKE_DONE;
}

/* Takes an alert. It is not authenticated, so it only explains a failure, and never reports a clone. */
static gw_handshake_state take_alert(gw_handshake *h, const uint8_t *message, size_t body_bytes) {
    uint8_t code = body_bytes == 1 ? message[GW_HANDSHAKE_HEADER] : 0;
    bool told = code == GW_FAULT_CLUSTER || code == GW_FAULT_KEY || code == GW_FAULT_IDENTITY;
    return fail(h, told ? (gw_fault)code : GW_FAULT_GARBAGE);
}

/* Texts for people. */

static void explain(const gw_handshake *h, const header *head, gw_err *err) {
    switch (h->fault) {
    case GW_FAULT_VERSION:
        gw_fail(
            err, GW_E_UNSUPPORTED,
            "the other side speaks protocol version %u, this build speaks %u: builds that are more than one "
            "version apart do not work together; run a newer build of Godwit %s",
            head->version, GW_PROTOCOL_VERSION, head->version < GW_PROTOCOL_VERSION ? "there" : "here");
        break;
    case GW_FAULT_CLUSTER:
        gw_fail(err, GW_E_DENIED, "the other side belongs to another cluster (--cluster NAME differs)");
        break;
    case GW_FAULT_KEY:
        gw_fail(err, GW_E_DENIED, "wrong key: the two sides have no cluster key in common (--key FILE)");
        break;
    case GW_FAULT_NO_KEY:
        gw_fail(err, GW_E_DENIED, "%s; start every node with the same --key FILE",
                head->mode == MODE_PLAIN ? "this side has a cluster key, the other has none"
                                         : "the other side has a cluster key, this one has none");
        break;
    case GW_FAULT_IDENTITY:
        gw_fail(err, GW_E_DENIED, "a handshake message does not verify: it was changed on the way");
        break;
    case GW_FAULT_SELF:
        gw_fail(err, GW_E_PEER, "self: the address is this very process");
        break;
    case GW_FAULT_CLONE:
        gw_fail(err, GW_E_DENIED,
                "cloned directory: another running process has this peer's identity; its --dir is a copy of "
                "this one. Stop one of them and give it an empty --dir");
        break;
    default:
        gw_fail(err, GW_E_PEER, "the other side does not speak Godwit's protocol, or broke off");
        break;
    }
}

/* Feeding. */

static header read_header(const uint8_t *bytes) {
    gw_reader r = gw_reader_on(bytes + MAGIC_BYTES, GW_HANDSHAKE_HEADER - MAGIC_BYTES);
    header head = {.version = gw_get_u16(&r)};
    head.type = gw_get_u8(&r);
    head.mode = gw_get_u8(&r);
    head.length = gw_get_u16(&r);
    GW_ASSERT(gw_reader_done(&r));
    return head;
}

/* Judges a header before its body has arrived. GW_FAULT_NONE: go on. */
static gw_fault judge_header(const gw_handshake *h, const header *head) {
    if (head->version != GW_PROTOCOL_VERSION) return GW_FAULT_VERSION;
    if (head->mode != MODE_PLAIN && head->mode != MODE_SEALED) return GW_FAULT_GARBAGE;
    if (head->mode != our_mode(h)) return GW_FAULT_NO_KEY;
    if (head->type != h->expected && head->type != ALERT) return GW_FAULT_GARBAGE;
    return head->length <= GW_HANDSHAKE_MESSAGE - GW_HANDSHAKE_HEADER ? GW_FAULT_NONE : GW_FAULT_GARBAGE;
}

static gw_handshake_state take_message(gw_handshake *h, const header *head) {
    switch (head->type) {
    case HELLO:
        return take_hello(h, h->in, head->length);
    case ANSWER:
        return take_answer(h, h->in, head->length);
    case FINISH:
        return take_finish(h, h->in, head->length);
    default:
        return take_alert(h, h->in, head->length);
    }
}

gw_handshake_state gw_handshake_feed(gw_handshake *h, const uint8_t *bytes, size_t count, size_t *used,
                                     gw_err *err) {
    GW_ASSERT(h->fault == GW_FAULT_NONE);
    header head = {0};
    gw_handshake_state state = h->expected == 0 ? GW_HANDSHAKE_DONE : GW_HANDSHAKE_GOING;
    for (*used = 0; state == GW_HANDSHAKE_GOING && *used < count;) {
        h->in[h->in_count++] = bytes[(*used)++];
        if (h->in_count <= MAGIC_BYTES) {
            if (h->in[h->in_count - 1] != (uint8_t)magic[h->in_count - 1]) state = fail(h, GW_FAULT_GARBAGE);
            continue;
        }
        if (h->in_count < GW_HANDSHAKE_HEADER) continue;
        head = read_header(h->in);
        if (h->in_count == GW_HANDSHAKE_HEADER) {
            gw_fault fault = judge_header(h, &head);
            if (fault != GW_FAULT_NONE) {
                state = head.type == ALERT ? fail(h, fault) : fail_aloud(h, fault);
                continue;
            }
        }
        if (h->in_count < GW_HANDSHAKE_HEADER + (size_t)head.length) continue;
        state = take_message(h, &head);
        h->in_count = 0;
    }
    if (state == GW_HANDSHAKE_FAILED) explain(h, &head, err);
    return state;
}

/* Opening and finishing. */

static gw_handshake *start(const gw_local *local, const uint8_t randomness[32], gw_err *err) {
    gw_handshake *h = calloc(1, sizeof *h);
    if (h == NULL) {
        gw_fail(err, GW_E_NOMEM, "no memory for a handshake");
        return NULL;
    }
    GW_ASSERT(memchr(local->build, 0, sizeof local->build) != NULL);
    h->local = local;
    memcpy(h->ephemeral_secret, randomness, 32);
    return h;
}

gw_handshake *gw_handshake_dial(const gw_local *local, gw_stream_kind kind, uint64_t label,
                                const uint8_t randomness[32], gw_err *err) {
    gw_handshake *h = start(local, randomness, err);
    if (h == NULL) return NULL;
    h->dialler = true;
    h->kind = kind;
    h->label = label;
    h->expected = ANSWER;
    make_ephemeral(h);
    put_hello(h);
    return h;
}

gw_handshake *gw_handshake_answer(const gw_local *local, const uint8_t randomness[32], gw_err *err) {
    gw_handshake *h = start(local, randomness, err);
    if (h != NULL) h->expected = HELLO;
    return h;
}

void gw_handshake_close(gw_handshake *h) {
    if (h == NULL) return;
    sodium_memzero(h, sizeof *h);
    free(h);
}

const uint8_t *gw_handshake_output(const gw_handshake *h, size_t *count) {
    *count = h->out_count - h->out_sent;
    return h->out + h->out_sent;
}

void gw_handshake_sent(gw_handshake *h, size_t count) {
    GW_ASSERT(count <= h->out_count - h->out_sent);
    h->out_sent += count;
    if (h->out_sent == h->out_count) h->out_sent = h->out_count = 0;
}

gw_fault gw_handshake_fault(const gw_handshake *h) {
    return h->fault;
}

bool gw_handshake_proved(const gw_handshake *h) {
    return !h->dialler && h->expected == FINISH;
}

void gw_handshake_finish(gw_handshake *h, gw_remote *remote, gw_cipher *seal, gw_cipher *open) {
    GW_ASSERT(h->expected == 0 && h->fault == GW_FAULT_NONE);
    gw_key traffic;
    uint8_t by_dialler[32], by_responder[32];
    hash_parts(traffic.bytes, h->master.bytes, "traffic", 7, h->transcript, 32);
    derive(&traffic, 4, by_dialler);
    derive(&traffic, 5, by_responder);
    uint32_t most = h->remote.kind == GW_STREAM_DATA ? GW_RECORD_DATA : GW_RECORD_CONTROL;
    gw_cipher_start(seal, h->algorithm, h->dialler ? by_dialler : by_responder, most);
    gw_cipher_start(open, h->algorithm, h->dialler ? by_responder : by_dialler, most);
    *remote = h->remote;
    sodium_memzero(&traffic, sizeof traffic);
    sodium_memzero(by_dialler, sizeof by_dialler);
    sodium_memzero(by_responder, sizeof by_responder);
}
