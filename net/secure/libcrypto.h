/* AES-256-GCM by OpenSSL's libcrypto, version 3, for long records. Its bytes are those of libsodium, each opens
 * what the other has sealed, and on many processors it is two to three times as fast from 1 KiB on; what is
 * shorter libsodium does sooner. Keys are made, kept and wiped by libsodium's user (net/secure/secure.h).
 *
 * libcrypto is opened while the program runs, once, when it is first asked for; where it is missing, gives other
 * bytes, or is slower, libsodium does all. It is measured then: both seal and open some buffers in turns, and
 * the least time of each counts, so that other load does not decide. A wrong choice would cost speed, and
 * nothing else. All of that takes some four milliseconds of a processor.
 *
 * GODWIT_LIBCRYPTO names another file; if that does not exist, libsodium does all. */
#ifndef GODWIT_NET_SECURE_LIBCRYPTO_H
#define GODWIT_NET_SECURE_LIBCRYPTO_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_LIBCRYPTO_LEAST = 1024, /* shorter payloads are never given to it */
    GW_LIBCRYPTO_SIZES = 3,    /* payloads that are measured: 1, 4 and 16 KiB */
    GW_LIBCRYPTO_WORDS = 400,
    GW_LIBCRYPTO_VERSION = 24,
};

/* Nanoseconds for sealing and opening a payload of each measured size. */
typedef struct gw_libcrypto_times {
    double sodium[GW_LIBCRYPTO_SIZES], libcrypto[GW_LIBCRYPTO_SIZES];
} gw_libcrypto_times;

/* Payloads from this length on are sealed and opened by libcrypto; SIZE_MAX: none. The first call opens and
 * measures, as the header says. Any thread. */
size_t gw_libcrypto_from(void);
/* Whether libcrypto can be used, be it slower or not. Opens as gw_libcrypto_from does. Any thread. */
bool gw_libcrypto_usable(void);
/* Says in words which library does what, and why: "OpenSSL 3.0.19 (FILE) encrypts records of 1 KiB and more
 * at 3.8 GB/s, libsodium the shorter ones (it does 1.6)". Opens as gw_libcrypto_from does. Any thread. */
void gw_libcrypto_words(char text[GW_LIBCRYPTO_WORDS]);
/* The version, "3.0.19"; "" where libcrypto cannot be used. */
void gw_libcrypto_version(char text[GW_LIBCRYPTO_VERSION]);

/* The choice that follows from times: the least measured size from which on libcrypto needs less than 7/8 of
 * libsodium's time at every size; SIZE_MAX if there is none. */
size_t gw_libcrypto_choose(const gw_libcrypto_times *times);

/* A key, made ready: libcrypto's EVP_CIPHER_CTX. It belongs to one thread at a time. */
typedef struct gw_libcrypto_key gw_libcrypto_key;

/* NULL: libcrypto cannot be used, or has no memory. */
gw_libcrypto_key *gw_libcrypto_key_make(const uint8_t key[32]);
/* Wipes and frees it. NULL is allowed. */
void gw_libcrypto_key_free(gw_libcrypto_key *key);
/* Seals `bytes` bytes at `plain` into `sealed`, which has room for 16 bytes more, the tag; the two are the same
 * place, or do not overlap. Returns false only if libcrypto fails; what is at `sealed` is undefined then. */
bool gw_libcrypto_seal(gw_libcrypto_key *key, const uint8_t nonce[12], const void *header,
                       size_t header_bytes, const uint8_t *plain, size_t bytes, uint8_t *sealed);
/* Opens `bytes` bytes and the tag behind them at `sealed` into `plain`, likewise. Returns false if the tag does
 * not fit; `plain` is zeros then. */
bool gw_libcrypto_open(gw_libcrypto_key *key, const uint8_t nonce[12], const void *header,
                       size_t header_bytes, const uint8_t *sealed, size_t bytes, uint8_t *plain);

#endif
