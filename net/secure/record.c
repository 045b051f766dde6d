#include "net/secure/record.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <string.h>

enum { NONCE_BYTES = 12 };
static const uint64_t records_most = UINT64_C(1) << 48;
static const uint32_t length_mask = 0x00ffffff, more_bit = 0x80000000;

void gw_cipher_start(gw_cipher *cipher, gw_algorithm algorithm, const uint8_t key[32],
                     uint32_t payload_most) {
    GW_ASSERT(payload_most <= length_mask);
    memset(cipher, 0, sizeof *cipher);
    cipher->algorithm = algorithm;
    cipher->payload_most = payload_most;
    if (algorithm == GW_ALGORITHM_PLAIN) return;
    cipher->tag_bytes = GW_RECORD_TAG;
    memcpy(cipher->key, key, sizeof cipher->key);
    if (algorithm != GW_ALGORITHM_AES256GCM) return;
    GW_ASSERT(gw_record_has_aes());
    int failed = crypto_aead_aes256gcm_beforenm(&cipher->aes, key);
    GW_ASSERT(failed == 0);
}

void gw_cipher_prefer_libcrypto(gw_cipher *cipher, size_t from) {
    cipher->libcrypto_from = from;
}

void gw_cipher_move(gw_cipher *to, gw_cipher *from) {
    *to = *from;
    from->libcrypto = NULL;
    gw_cipher_wipe(from);
}

void gw_cipher_wipe(gw_cipher *cipher) {
    gw_libcrypto_key_free(cipher->libcrypto);
    sodium_memzero(cipher, sizeof *cipher);
}

bool gw_record_has_aes(void) {
    return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() != 0; /* false before sodium_init */
}

void gw_record_means(char text[GW_RECORD_MEANS]) {
    char version[GW_LIBCRYPTO_VERSION];
    gw_libcrypto_version(version);
    if (!gw_record_has_aes())
        snprintf(text, GW_RECORD_MEANS, "ChaCha20-Poly1305 by libsodium");
    else if (gw_libcrypto_from() == SIZE_MAX)
        snprintf(text, GW_RECORD_MEANS, "AES-256-GCM by libsodium");
    else
        snprintf(text, GW_RECORD_MEANS, "AES-256-GCM by OpenSSL %s and libsodium", version);
}

static void put_u32(uint8_t *out, uint32_t value) {
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static bool next_nonce(gw_cipher *cipher, uint8_t nonce[NONCE_BYTES], gw_err *err) {
    if (cipher->records >= records_most) return gw_fail(err, GW_E_LIMIT, "2^48 records on one stream");
    memset(nonce, 0, NONCE_BYTES);
    for (int i = 0; i < 8; i++) nonce[4 + i] = (uint8_t)(cipher->records >> (8 * i));
    cipher->records++;
    return true;
}

/* The key for libcrypto, if it is to do a payload of this length; else NULL. */
static gw_libcrypto_key *libcrypto_of(gw_cipher *cipher, size_t payload_bytes) {
    if (payload_bytes < GW_LIBCRYPTO_LEAST || cipher->algorithm != GW_ALGORITHM_AES256GCM) return NULL;
    if (cipher->libcrypto_from == 0) cipher->libcrypto_from = gw_libcrypto_from();
    if (payload_bytes < cipher->libcrypto_from) return NULL;
    if (cipher->libcrypto == NULL) cipher->libcrypto = gw_libcrypto_key_make(cipher->key);
    if (cipher->libcrypto == NULL) cipher->libcrypto_from = SIZE_MAX;
    return cipher->libcrypto;
}

bool gw_record_seal(gw_cipher *cipher, const void *payload, size_t payload_bytes, bool more, uint8_t *out,
                    gw_err *err) {
    GW_ASSERT(payload_bytes <= cipher->payload_most);
    uint8_t nonce[NONCE_BYTES], *body = out + GW_RECORD_HEADER;
    if (!next_nonce(cipher, nonce, err)) return false;
    put_u32(out, (uint32_t)payload_bytes | (more ? more_bit : 0));
    if (cipher->algorithm == GW_ALGORITHM_PLAIN) {
        if (payload != body && payload_bytes > 0) memcpy(body, payload, payload_bytes);
        return true;
    }
    gw_libcrypto_key *libcrypto = libcrypto_of(cipher, payload_bytes);
    if (libcrypto != NULL)
        return gw_libcrypto_seal(libcrypto, nonce, out, GW_RECORD_HEADER, payload, payload_bytes, body) ||
               gw_fail(err, GW_E_IO, "libcrypto does not seal a record of %zu bytes", payload_bytes);
    int failed = cipher->algorithm == GW_ALGORITHM_AES256GCM
                     ? crypto_aead_aes256gcm_encrypt_afternm(body, NULL, payload, payload_bytes, out,
                                                             GW_RECORD_HEADER, NULL, nonce, &cipher->aes)
                     : crypto_aead_chacha20poly1305_ietf_encrypt(body, NULL, payload, payload_bytes, out,
                                                                 GW_RECORD_HEADER, NULL, nonce, cipher->key);
    GW_ASSERT(failed == 0);
    return true;
}

bool gw_record_measure(const gw_cipher *cipher, const uint8_t header[GW_RECORD_HEADER], size_t *record_bytes,
                       bool *more, gw_err *err) {
    uint32_t bits = get_u32(header), length = bits & length_mask;
    if ((bits & ~(length_mask | more_bit)) != 0 || length > cipher->payload_most)
        return gw_fail(err, GW_E_CORRUPT, "a malformed record header %08x", bits);
    *record_bytes = gw_record_bytes(cipher, length);
    *more = (bits & more_bit) != 0;
    return true;
}

bool gw_record_open(gw_cipher *cipher, const uint8_t *record, size_t record_bytes, uint8_t *payload,
                    gw_err *err) {
    GW_ASSERT(record_bytes >= gw_record_bytes(cipher, 0));
    uint8_t nonce[NONCE_BYTES];
    const uint8_t *body = record + GW_RECORD_HEADER;
    size_t body_bytes = record_bytes - GW_RECORD_HEADER;
    if (!next_nonce(cipher, nonce, err)) return false;
    if (cipher->algorithm == GW_ALGORITHM_PLAIN) {
        if (payload != body && body_bytes > 0) memcpy(payload, body, body_bytes);
        return true;
    }
    size_t payload_bytes = body_bytes - GW_RECORD_TAG;
    gw_libcrypto_key *libcrypto = libcrypto_of(cipher, payload_bytes);
    bool opened =
        libcrypto != NULL
            ? gw_libcrypto_open(libcrypto, nonce, record, GW_RECORD_HEADER, body, payload_bytes, payload)
        : cipher->algorithm == GW_ALGORITHM_AES256GCM
            ? crypto_aead_aes256gcm_decrypt_afternm(payload, NULL, NULL, body, body_bytes, record,
                                                    GW_RECORD_HEADER, nonce, &cipher->aes) == 0
            : crypto_aead_chacha20poly1305_ietf_decrypt(payload, NULL, NULL, body, body_bytes, record,
                                                        GW_RECORD_HEADER, nonce, cipher->key) == 0;
    if (!opened)
        return gw_fail(err, GW_E_CORRUPT,
                       "record %llu does not verify: it was changed, cut or moved on the way",
                       (unsigned long long)cipher->records - 1);
    return true;
}
