/* Names: the ids of peers, their incarnations, addresses, and the hashes that name things. All are plain
 * values. */
#ifndef GODWIT_CORE_BASE_ID_H
#define GODWIT_CORE_BASE_ID_H

#include "core/base/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A peer's id: the BLAKE2b-128 of its Ed25519 public key. All zeros: no peer. */
typedef struct gw_peer_id {
    uint8_t bytes[16];
} gw_peer_id;

/* A BLAKE2b-256: a root hash, the name of a chunk, the id of a job or of a cluster. */
typedef struct gw_hash {
    uint8_t bytes[32];
} gw_hash;

/* A view's name: the BLAKE2b-128 of its contents (core/record/view.h). All zeros: no view. */
typedef struct gw_view_name {
    uint8_t bytes[16];
} gw_view_name;

/* One life of a peer. `boot` counts starts and is made durable before it is used; `refutation` rises when a
 * living peer contradicts a rumour of its death; `nonce` is random in each start and exposes copies of a
 * peer's directory. A life with a later boot is the death certificate of the earlier one. */
typedef struct gw_incarnation {
    uint64_t boot;
    uint64_t nonce;
    uint32_t refutation;
} gw_incarnation;

/* An IP address and port. `family` is 4 (the first 4 bytes of `ip`), 6 (all 16) or 0 (no address); `port` is
 * in host order. */
typedef struct gw_addr {
    uint8_t family;
    uint8_t ip[16];
    uint16_t port;
} gw_addr;

enum { GW_ID_TEXT = 33, GW_HASH_TEXT = 65, GW_SHORT_TEXT = 9, GW_ADDR_TEXT = 64 };

int gw_peer_id_compare(const gw_peer_id *a, const gw_peer_id *b); /* bytewise, like memcmp */
/* Inline, because the brain compares many ids for each event. */
static inline bool gw_peer_id_equal(const gw_peer_id *a, const gw_peer_id *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
bool gw_peer_id_is_none(const gw_peer_id *id);
static inline bool gw_view_name_equal(const gw_view_name *a, const gw_view_name *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
int gw_view_name_compare(const gw_view_name *a, const gw_view_name *b);
bool gw_view_name_is_none(const gw_view_name *name);
bool gw_hash_equal(const gw_hash *a, const gw_hash *b);

/* Whether two incarnations are the same process: boot and nonce agree, the refutation may differ. */
bool gw_same_life(const gw_incarnation *a, const gw_incarnation *b);
bool gw_addr_equal(const gw_addr *a, const gw_addr *b);

/* 64 bits from an id of 16 bytes, the same on all machines: for draws that all of them make alike. */
uint64_t gw_id_mix(const uint8_t bytes[16]);

/* Writes bytes in lower-case hexadecimal, 2 * count digits and a NUL. */
void gw_hex(const void *bytes, size_t count, char *text);
/* Writes the first 8 hexadecimal digits of an id, by which logs name a peer. Returns `text`. */
const char *gw_peer_id_short(const gw_peer_id *id, char text[GW_SHORT_TEXT]);
/* Writes an address as "127.0.0.1:7117" or "[::1]:7117". Returns `text`. */
const char *gw_addr_text(const gw_addr *addr, char text[GW_ADDR_TEXT]);

void gw_put_peer_id(gw_writer *w, const gw_peer_id *id);
void gw_get_peer_id(gw_reader *r, gw_peer_id *id);
void gw_put_view_name(gw_writer *w, const gw_view_name *name);
void gw_get_view_name(gw_reader *r, gw_view_name *name);
void gw_put_hash(gw_writer *w, const gw_hash *hash);
void gw_get_hash(gw_reader *r, gw_hash *hash);
void gw_put_incarnation(gw_writer *w, const gw_incarnation *incarnation); /* 20 bytes */
void gw_get_incarnation(gw_reader *r, gw_incarnation *incarnation);
void gw_put_addr(gw_writer *w, const gw_addr *addr); /* 19 bytes */
void gw_get_addr(gw_reader *r, gw_addr *addr);       /* fails the reader on an unknown family */

/* Computes the BLAKE2b of `length` bytes (libsodium, without a key); `size` is 16 or 32 bytes. Any thread. */
void gw_blake2b(const void *bytes, size_t length, void *hash, size_t size);

#endif
