#include "net/secure/packet.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/base/wire.h"
#include "net/loop/warning_rate.h"
#include "net/secure/replay.h"

#include <assert.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum {
    MODE_PLAIN = 0,
    MODE_SEALED = 1,
    CLUSTER_HINT = 8,
    HEADER_BYTES = 2 + CLUSTER_HINT + 16 + 8 + 8 + 8,
    NONCE_BYTES = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES,
    TAG_BYTES = 16,
    ASSOCIATED_BYTES = HEADER_BYTES + 32, /* associated data: the header and the whole cluster id */
};
static_assert(HEADER_BYTES + NONCE_BYTES + TAG_BYTES == GW_PACKET_OVERHEAD, "the header says another length");

struct gw_packets {
    gw_peer_id self;
    gw_incarnation incarnation;
    gw_hash cluster;
    uint32_t key_count;
    gw_key keys[GW_MAX_KEYS];
    uint64_t counter;
    gw_replay *replay;
    uint64_t counts[GW_PACKET_VERDICTS];
    gw_rate_limit warnings[GW_PACKET_VERDICTS];
};

const char *gw_packet_verdict_text(gw_packet_verdict verdict) {
    static const char *const texts[GW_PACKET_VERDICTS] = {
        [GW_PACKET_GOOD] = "good",
        [GW_PACKET_GARBAGE] = "not a Godwit packet, or damaged",
        [GW_PACKET_VERSIONED] = "of another packet format: another version of Godwit",
        [GW_PACKET_FOREIGN] = "of another cluster (--cluster NAME differs)",
        [GW_PACKET_UNSEALED] = "not encrypted, but this peer has a key (--key FILE is missing there)",
        [GW_PACKET_SEALED] = "encrypted, but this peer has no key (--key FILE)",
        [GW_PACKET_WRONG_KEY] = "sealed with a key that this peer does not have, or tampered with",
        [GW_PACKET_REPLAYED] = "seen before: a replay or a duplicate",
        [GW_PACKET_OUTDATED] =
            "of an earlier life of its sender: a replay, or a directory restored from a copy",
        [GW_PACKET_OWN] = "from this very process",
    };
    GW_ASSERT((unsigned)verdict < GW_PACKET_VERDICTS);
    return texts[verdict];
}

gw_packets *gw_packets_open(const gw_identity *identity, const gw_keyring *keyring, const gw_hash *cluster,
                            gw_err *err) {
    gw_packets *packets = calloc(1, sizeof *packets);
    gw_replay *replay = packets == NULL ? NULL : gw_replay_open(GW_PACKET_SENDERS, err);
    if (replay == NULL) {
        free(packets);
        gw_fail(err, GW_E_NOMEM, "no memory for gossip packets");
        return NULL;
    }
    packets->self = identity->id;
    packets->incarnation = identity->incarnation;
    packets->cluster = *cluster;
    packets->replay = replay;
    packets->key_count = keyring->count;
    for (uint32_t i = 0; i < keyring->count; i++)
        gw_keyring_derive(keyring, i, GW_KEY_PACKET, &packets->keys[i]);
    return packets;
}

void gw_packets_close(gw_packets *packets) {
    if (packets == NULL) return;
    gw_replay_close(packets->replay);
    sodium_memzero(packets, sizeof *packets);
    free(packets);
}

static void plain_tag(const gw_packets *packets, const uint8_t *bytes, size_t count, uint8_t tag[TAG_BYTES]) {
    int failed = crypto_generichash(tag, TAG_BYTES, bytes, count, packets->cluster.bytes, 32);
    GW_ASSERT(failed == 0);
}

static void associated(const gw_packets *packets, const uint8_t *datagram, uint8_t data[ASSOCIATED_BYTES]) {
    memcpy(data, datagram, HEADER_BYTES);
    memcpy(data + HEADER_BYTES, packets->cluster.bytes, 32);
}

size_t gw_packet_seal(gw_packets *packets, const void *body, size_t body_bytes,
                      uint8_t datagram[GW_DATAGRAM_BYTES]) {
    GW_ASSERT(body_bytes <= GW_PACKET_BODY);
    bool sealed = packets->key_count > 0;
    gw_writer w = gw_writer_on(datagram, GW_DATAGRAM_BYTES);
    gw_put_u8(&w, GW_PACKET_VERSION);
    gw_put_u8(&w, sealed ? MODE_SEALED : MODE_PLAIN);
    gw_put_bytes(&w, packets->cluster.bytes, CLUSTER_HINT);
    gw_put_peer_id(&w, &packets->self);
    gw_put_u64(&w, packets->incarnation.boot);
    gw_put_u64(&w, packets->incarnation.nonce);
    gw_put_u64(&w, ++packets->counter);
    if (!sealed) {
        uint8_t tag[TAG_BYTES];
        gw_put_bytes(&w, body, body_bytes);
        plain_tag(packets, datagram, w.length, tag);
        gw_put_bytes(&w, tag, sizeof tag);
        GW_ASSERT(!w.failed);
        return w.length;
    }
    uint8_t nonce[NONCE_BYTES], data[ASSOCIATED_BYTES];
    unsigned long long sealed_bytes = 0;
    randombytes_buf(nonce, sizeof nonce);
    gw_put_bytes(&w, nonce, sizeof nonce);
    GW_ASSERT(!w.failed);
    associated(packets, datagram, data);
    int failed =
        crypto_aead_xchacha20poly1305_ietf_encrypt(datagram + w.length, &sealed_bytes, body, body_bytes, data,
                                                   sizeof data, NULL, nonce, packets->keys[0].bytes);
    GW_ASSERT(failed == 0);
    return w.length + (size_t)sealed_bytes;
}

/* Verifies and decrypts what follows the header. */
static bool open_body(const gw_packets *packets, uint8_t *datagram, size_t bytes, const uint8_t **body,
                      size_t *body_bytes) {
    if (packets->key_count == 0) {
        uint8_t tag[TAG_BYTES];
        plain_tag(packets, datagram, bytes - TAG_BYTES, tag);
        *body = datagram + HEADER_BYTES;
        *body_bytes = bytes - HEADER_BYTES - TAG_BYTES;
        return memcmp(tag, datagram + bytes - TAG_BYTES, TAG_BYTES) == 0;
    }
    uint8_t data[ASSOCIATED_BYTES], *nonce = datagram + HEADER_BYTES, *sealed = nonce + NONCE_BYTES;
    size_t sealed_bytes = bytes - HEADER_BYTES - NONCE_BYTES;
    associated(packets, datagram, data);
    for (uint32_t i = 0; i < packets->key_count; i++) {
        uint8_t plain
            [GW_DATAGRAM_BYTES]; /* not in place, since a key that fails would wipe it for the next one */
        unsigned long long opened = 0;
        if (crypto_aead_xchacha20poly1305_ietf_decrypt(plain, &opened, NULL, sealed, sealed_bytes, data,
                                                       sizeof data, nonce, packets->keys[i].bytes) == 0) {
            memcpy(sealed, plain, (size_t)opened);
            *body = sealed;
            *body_bytes = (size_t)opened;
            return true;
        }
    }
    return false;
}

static gw_packet_verdict judge(gw_packets *packets, uint8_t *datagram, size_t bytes, gw_peer_id *sender,
                               const uint8_t **body, size_t *body_bytes) {
    if (bytes < 2 || bytes > GW_DATAGRAM_BYTES) return GW_PACKET_GARBAGE;
    gw_reader r = gw_reader_on(datagram, bytes);
    if (gw_get_u8(&r) != GW_PACKET_VERSION) return GW_PACKET_VERSIONED;
    uint8_t mode = gw_get_u8(&r);
    if (mode != MODE_PLAIN && mode != MODE_SEALED) return GW_PACKET_GARBAGE;
    const uint8_t *cluster = gw_get_view(&r, CLUSTER_HINT);
    gw_incarnation life = {0};
    gw_get_peer_id(&r, sender);
    life.boot = gw_get_u64(&r);
    life.nonce = gw_get_u64(&r);
    uint64_t counter = gw_get_u64(&r);
    if (gw_reader_left(&r) < TAG_BYTES + (mode == MODE_SEALED ? NONCE_BYTES : 0u)) return GW_PACKET_GARBAGE;
    if (memcmp(cluster, packets->cluster.bytes, CLUSTER_HINT) != 0) return GW_PACKET_FOREIGN;
    if (mode == MODE_PLAIN && packets->key_count > 0) return GW_PACKET_UNSEALED;
    if (mode == MODE_SEALED && packets->key_count == 0) return GW_PACKET_SEALED;
    if (!open_body(packets, datagram, bytes, body, body_bytes))
        return mode == MODE_SEALED ? GW_PACKET_WRONG_KEY : GW_PACKET_GARBAGE;
    if (gw_peer_id_equal(sender, &packets->self)) {
        if (gw_same_life(&life, &packets->incarnation)) return GW_PACKET_OWN;
        if (life.boot < packets->incarnation.boot) return GW_PACKET_OUTDATED;
    }
    switch (gw_replay_accept(packets->replay, sender, life.boot, life.nonce, counter)) {
    case GW_REPLAY_FRESH:
        return GW_PACKET_GOOD;
    case GW_REPLAY_SEEN:
        return GW_PACKET_REPLAYED;
    default:
        return GW_PACKET_OUTDATED;
    }
}

static void warn(gw_packets *packets, gw_packet_verdict verdict, const gw_addr *from, uint64_t now_ns) {
    uint64_t dropped;
    char text[GW_ADDR_TEXT];
    if (!gw_rate_limit_admits(&packets->warnings[verdict], now_ns, &dropped)) return;
    gw_log(GW_WARN, "net/secure", "dropped %" PRIu64 " gossip packet%s, last from %s: %s", dropped,
           dropped == 1 ? "" : "s", gw_addr_text(from, text), gw_packet_verdict_text(verdict));
}

gw_packet_verdict gw_packet_open(gw_packets *packets, const gw_addr *from, uint8_t *datagram, size_t bytes,
                                 uint64_t now_ns, gw_peer_id *sender, const uint8_t **body,
                                 size_t *body_bytes) {
    gw_packet_verdict verdict = judge(packets, datagram, bytes, sender, body, body_bytes);
    packets->counts[verdict]++;
    if (verdict != GW_PACKET_GOOD && verdict != GW_PACKET_OWN) warn(packets, verdict, from, now_ns);
    return verdict;
}

const uint64_t *gw_packet_counts(const gw_packets *packets) {
    return packets->counts;
}
