#include "core/base/id.h"

#include "core/base/assert.h"
#include "core/base/mix.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

static const uint8_t zeros[32];

int gw_peer_id_compare(const gw_peer_id *a, const gw_peer_id *b) {
    return memcmp(a->bytes, b->bytes, 16);
}
bool gw_peer_id_is_none(const gw_peer_id *id) {
    return memcmp(id->bytes, zeros, 16) == 0;
}
int gw_view_name_compare(const gw_view_name *a, const gw_view_name *b) {
    return memcmp(a->bytes, b->bytes, 16);
}
uint64_t gw_id_mix(const uint8_t bytes[16]) {
    gw_reader r = gw_reader_on(bytes, 16);
    uint64_t low = gw_get_u64(&r);
    return gw_mix64(low ^ gw_mix64(gw_get_u64(&r)));
}
bool gw_view_name_is_none(const gw_view_name *name) {
    return memcmp(name->bytes, zeros, 16) == 0;
}
bool gw_hash_equal(const gw_hash *a, const gw_hash *b) {
    return memcmp(a->bytes, b->bytes, 32) == 0;
}

bool gw_same_life(const gw_incarnation *a, const gw_incarnation *b) {
    return a->boot == b->boot && a->nonce == b->nonce;
}

bool gw_addr_equal(const gw_addr *a, const gw_addr *b) {
    if (a->family != b->family || a->port != b->port) return false;
    return memcmp(a->ip, b->ip, a->family == 4 ? 4 : 16) == 0;
}

void gw_hex(const void *bytes, size_t count, char *text) {
    sodium_bin2hex(text, 2 * count + 1, bytes, count);
}

const char *gw_peer_id_short(const gw_peer_id *id, char text[GW_SHORT_TEXT]) {
    gw_hex(id->bytes, 4, text);
    return text;
}

enum { GROUPS = 8 }; /* of 16 bits in an IPv6 address */

static unsigned group_of(const uint8_t *ip, int i) {
    return (unsigned)(ip[2 * i] << 8 | ip[2 * i + 1]);
}

/* Returns the first group of the longest run of two or more zero groups, which the text of an IPv6 address
 * leaves out (RFC 5952), and sets *count to its length; -GROUPS if there is none. */
static int longest_zeros(const uint8_t *ip, int *count) {
    int first = -GROUPS;
    *count = 0;
    for (int i = 0; i < GROUPS; i++) {
        int length = 0;
        while (i + length < GROUPS && group_of(ip, i + length) == 0) length++;
        if (length < 2 || length <= *count) continue;
        first = i;
        *count = length;
    }
    return first;
}

const char *gw_addr_text(const gw_addr *addr, char text[GW_ADDR_TEXT]) {
    const uint8_t *ip = addr->ip;
    if (addr->family == 4) {
        snprintf(text, GW_ADDR_TEXT, "%u.%u.%u.%u:%u", ip[0], ip[1], ip[2], ip[3], addr->port);
        return text;
    }
    if (addr->family == 0) {
        snprintf(text, GW_ADDR_TEXT, "none");
        return text;
    }
    int left_out = 0, first = longest_zeros(ip, &left_out);
    int used = snprintf(text, GW_ADDR_TEXT, "[");
    for (int i = 0; i < GROUPS; i++) {
        if (i == first) used += snprintf(text + used, (size_t)(GW_ADDR_TEXT - used), "::");
        if (i >= first && i < first + left_out) continue;
        const char *colon = i > 0 && i != first + left_out ? ":" : "";
        used += snprintf(text + used, (size_t)(GW_ADDR_TEXT - used), "%s%x", colon, group_of(ip, i));
    }
    snprintf(text + used, (size_t)(GW_ADDR_TEXT - used), "]:%u", addr->port);
    return text;
}

void gw_put_peer_id(gw_writer *w, const gw_peer_id *id) {
    gw_put_bytes(w, id->bytes, 16);
}
void gw_get_peer_id(gw_reader *r, gw_peer_id *id) {
    gw_get_bytes(r, id->bytes, 16);
}
void gw_put_view_name(gw_writer *w, const gw_view_name *name) {
    gw_put_bytes(w, name->bytes, 16);
}
void gw_get_view_name(gw_reader *r, gw_view_name *name) {
    gw_get_bytes(r, name->bytes, 16);
}
void gw_put_hash(gw_writer *w, const gw_hash *hash) {
    gw_put_bytes(w, hash->bytes, 32);
}
void gw_get_hash(gw_reader *r, gw_hash *hash) {
    gw_get_bytes(r, hash->bytes, 32);
}

void gw_put_incarnation(gw_writer *w, const gw_incarnation *incarnation) {
    gw_put_u64(w, incarnation->boot);
    gw_put_u64(w, incarnation->nonce);
    gw_put_u32(w, incarnation->refutation);
}

void gw_get_incarnation(gw_reader *r, gw_incarnation *incarnation) {
    incarnation->boot = gw_get_u64(r);
    incarnation->nonce = gw_get_u64(r);
    incarnation->refutation = gw_get_u32(r);
}

void gw_put_addr(gw_writer *w, const gw_addr *addr) {
    gw_put_u8(w, addr->family);
    gw_put_bytes(w, addr->ip, 16);
    gw_put_u16(w, addr->port);
}

void gw_get_addr(gw_reader *r, gw_addr *addr) {
    addr->family = gw_get_u8(r);
    gw_get_bytes(r, addr->ip, 16);
    addr->port = gw_get_u16(r);
    if (addr->family != 0 && addr->family != 4 && addr->family != 6) r->failed = true;
}

void gw_blake2b(const void *bytes, size_t length, void *hash, size_t size) {
    GW_ASSERT(size == 16 || size == 32);
    int failed = crypto_generichash(hash, size, bytes, length, NULL, 0);
    GW_ASSERT(failed == 0);
}
