/* Setting keys of a JSON object (jansson). A key whose value cannot be had (out of memory) is left out: a
 * line that people read is not worth a run's life. What is not UTF-8 in a text becomes U+FFFD. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_JSON_H
#define GODWIT_TOOLS_GODWIT_TEXT_JSON_H

#include "core/base/id.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

void gw_json_count(json_t *object, const char *key, uint64_t value);
/* Null when it is UINT64_MAX: no such step. */
void gw_json_step(json_t *object, const char *key, uint64_t step);
/* Null when it is not finite. */
void gw_json_real(json_t *object, const char *key, double value);
void gw_json_flag(json_t *object, const char *key, bool value);
/* NULL texts are left out. */
void gw_json_text(json_t *object, const char *key, const char *text);
/* A number where the `length` bytes of text are one, else text: so are 16 or more hexadecimal digits. */
void gw_json_value(json_t *object, const char *key, const char *text, size_t length);
/* At most 32 bytes. */
void gw_json_hex(json_t *object, const char *key, const void *bytes, size_t count);
void gw_json_peer(json_t *object, const char *key, const gw_peer_id *peer);
void gw_json_hash(json_t *object, const char *key, const gw_hash *hash);
void gw_json_addr(json_t *object, const char *key, const gw_addr *addr);
/* As 16 hexadecimal digits: JSON numbers have 53 bits. */
void gw_json_u64(json_t *object, const char *key, uint64_t value);

#endif
