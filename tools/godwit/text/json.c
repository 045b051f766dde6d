#include "tools/godwit/text/json.h"

#include "core/base/assert.h"
#include "tools/godwit/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST_DIGITS = 16 };

void gw_json_count(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

void gw_json_step(json_t *object, const char *key, uint64_t step) {
    json_object_set_new(object, key, step == UINT64_MAX ? json_null() : json_integer((json_int_t)step));
}

void gw_json_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

void gw_json_flag(json_t *object, const char *key, bool value) {
    json_object_set_new(object, key, json_boolean(value));
}

static json_t *string_of(const char *text, size_t length) {
    char *clean = gw_utf8(text, length);
    json_t *string = json_string(clean);
    free(clean);
    return string;
}

void gw_json_text(json_t *object, const char *key, const char *text) {
    if (text != NULL) json_object_set_new(object, key, string_of(text, strlen(text)));
}

/* Whether a text is a digest. Some digests would parse as numbers: they have decimal digits only, or those
 * and an 'e'. */
static bool is_digest(const char *text) {
    size_t digits = strspn(text, "0123456789abcdef");
    return digits >= DIGEST_DIGITS && text[digits] == '\0';
}

void gw_json_value(json_t *object, const char *key, const char *text, size_t length) {
    char copy[64], *end, *name = gw_utf8(key, strlen(key));
    if (name == NULL) return;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    double value = strtod(copy, &end);
    bool number = length > 0 && length < sizeof copy && *end == '\0' && isfinite(value) && !is_digest(copy);
    json_object_set_new(object, name, number ? json_real(value) : string_of(text, length));
    free(name);
}

void gw_json_hex(json_t *object, const char *key, const void *bytes, size_t count) {
    char text[GW_HASH_TEXT];
    GW_ASSERT(2 * count < sizeof text);
    gw_hex(bytes, count, text);
    gw_json_text(object, key, text);
}

void gw_json_peer(json_t *object, const char *key, const gw_peer_id *peer) {
    gw_json_hex(object, key, peer->bytes, sizeof peer->bytes);
}

void gw_json_hash(json_t *object, const char *key, const gw_hash *hash) {
    gw_json_hex(object, key, hash->bytes, sizeof hash->bytes);
}

void gw_json_addr(json_t *object, const char *key, const gw_addr *addr) {
    char text[GW_ADDR_TEXT];
    gw_json_text(object, key, gw_addr_text(addr, text));
}

void gw_json_u64(json_t *object, const char *key, uint64_t value) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    gw_json_text(object, key, text);
}
