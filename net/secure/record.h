/* Records are the units in which bytes flow on a stream after its handshake. Each direction of a stream has
 * one cipher.
 *
 *   header u32: bits 0-23 payload length, bit 31 "the message goes on in the next record" | payload | tag 16
 *
 * The cipher is AES-256-GCM where both CPUs support it, else ChaCha20-Poly1305 (RFC 8439). The nonce is the
 * number of the record, and the header is associated data, so a record that was changed, truncated, repeated
 * or moved does not open, nor does the one after a dropped record. In plain mode records have the same
 * header, no encryption and no tag. A cipher fails for good after 2^48 records, which is never reached.
 * libsodium does the work, and for long payloads with AES OpenSSL's libcrypto, where it is faster
 * (net/secure/libcrypto.h); the bytes are the same.
 * Thread: a cipher belongs to one thread at a time and may move between threads. */
#ifndef GODWIT_NET_SECURE_RECORD_H
#define GODWIT_NET_SECURE_RECORD_H

#include "core/base/err.h"
#include "net/secure/libcrypto.h"

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_RECORD_HEADER = 4,
    GW_RECORD_TAG = 16,
    GW_RECORD_MEANS = 64,
    GW_RECORD_CONTROL = 64 * 1024, /* most payload of a record on a control stream */
    GW_RECORD_DATA = 256 * 1024,   /* most payload of a record on a data stream */
};

typedef enum gw_algorithm {
    GW_ALGORITHM_PLAIN = 0,
    GW_ALGORITHM_AES256GCM = 1,
    GW_ALGORITHM_CHACHA20 = 2,
} gw_algorithm;

typedef struct gw_cipher {
    /* The first field, because it needs an alignment of 16 bytes, which malloc gives. */
    crypto_aead_aes256gcm_state aes;
    gw_libcrypto_key *libcrypto; /* the same key; NULL until the first long payload */
    size_t libcrypto_from;       /* payloads of this length and longer are given to libcrypto */
    uint8_t key[32];
    uint64_t records;      /* records sealed or opened so far */
    uint32_t tag_bytes;    /* GW_RECORD_TAG, or 0 in plain mode */
    uint32_t payload_most; /* longest payload that is sealed or opened */
    gw_algorithm algorithm;
} gw_cipher;

/* Starts a cipher. `key` is ignored in plain mode. GW_ALGORITHM_AES256GCM requires gw_record_has_aes(). */
void gw_cipher_start(gw_cipher *cipher, gw_algorithm algorithm, const uint8_t key[32], uint32_t payload_most);
/* Gives payloads of `from` bytes and more to libcrypto, whatever it measured, if it can be used at all;
 * SIZE_MAX: none. For benchmarks and tests. */
void gw_cipher_prefer_libcrypto(gw_cipher *cipher, size_t from);
/* Ends a cipher, and wipes its key from memory. */
void gw_cipher_wipe(gw_cipher *cipher);
/* Moves a cipher to another place. `from` is wiped, and owns nothing any more. */
void gw_cipher_move(gw_cipher *to, gw_cipher *from);
/* Whether this CPU does AES in hardware. */
bool gw_record_has_aes(void);
/* Says how this machine encrypts records between peers that have a key: "AES-256-GCM by OpenSSL 3.0.19 and
 * libsodium". A peer without AES makes it ChaCha20-Poly1305 on the streams to it. May measure libcrypto, as
 * net/secure/libcrypto.h says. Any thread. */
void gw_record_means(char text[GW_RECORD_MEANS]);

/* The bytes of a whole record with this payload. */
static inline size_t gw_record_bytes(const gw_cipher *cipher, size_t payload_bytes) {
    return GW_RECORD_HEADER + payload_bytes + cipher->tag_bytes;
}

/* Writes the next record, gw_record_bytes(cipher, payload_bytes) bytes, to `out`. `payload` may already lie
 * at out + GW_RECORD_HEADER (sealing in place) and must not overlap otherwise; it has at most payload_most
 * bytes. Fails with GW_E_LIMIT after 2^48 records, and with GW_E_IO if libcrypto fails, which is not known to
 * happen; the stream must then be closed. */
bool gw_record_seal(gw_cipher *cipher, const void *payload, size_t payload_bytes, bool more, uint8_t *out,
                    gw_err *err);

/* Reads a header: the length of the whole record and its `more` bit. Fails with GW_E_CORRUPT for a length
 * over payload_most or for reserved bits. Changes nothing. */
bool gw_record_measure(const gw_cipher *cipher, const uint8_t header[GW_RECORD_HEADER], size_t *record_bytes,
                       bool *more, gw_err *err);
/* Opens the next record, which lies whole at `record`, into `payload`, which has room for the payload and may
 * be record + GW_RECORD_HEADER (opening in place). Fails with GW_E_CORRUPT if it is not the record that was
 * sealed next; the stream must then be closed. */
bool gw_record_open(gw_cipher *cipher, const uint8_t *record, size_t record_bytes, uint8_t *payload,
                    gw_err *err);

#endif
