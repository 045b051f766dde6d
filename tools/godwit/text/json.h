/* Functions that set a key of a JSON object (jansson). A key whose value cannot be allocated is left out:
 * output for people is no reason to end a run. Bytes of a text that are not UTF-8 become U+FFFD. */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_JSON_H
#define GODWIT_TOOLS_GODWIT_TEXT_JSON_H

#include "core/base/id.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

void gw_json_count(json_t *object, const char *key, uint64_t value);
/* A step; null when it is UINT64_MAX (there is no such step). */
void gw_json_step(json_t *object, const char *key, uint64_t step);
/* A number; null when it is not finite. */
void gw_json_real(json_t *object, const char *key, double value);
void gw_json_flag(json_t *object, const char *key, bool value);
/* A text; the key is left out when it is NULL. */
void gw_json_text(json_t *object, const char *key, const char *text);
/* A number where the `length` bytes of text are one, otherwise a text. Whole numbers without a point or an
 * exponent stay integers. 16 or more hexadecimal digits are a text. */
void gw_json_value(json_t *object, const char *key, const char *text, size_t length);
/* A job's report as an object in which numbers are numbers: "loss=0.31 note=x" becomes
 * {"loss": 0.31, "note": "x"}. The key is left out when the report is NULL or empty. */
void gw_json_report(json_t *object, const char *key, const char *report);
/* Writes a report that gw_json_report has made as a text again, for people. It is cut off where it does not
 * fit; NULL becomes an empty text. */
void gw_json_report_text(const json_t *report, char *text, size_t size);
/* The hexadecimal digits of at most 32 bytes. */
void gw_json_hex(json_t *object, const char *key, const void *bytes, size_t count);
void gw_json_peer(json_t *object, const char *key, const gw_peer_id *peer);
void gw_json_hash(json_t *object, const char *key, const gw_hash *hash);
void gw_json_addr(json_t *object, const char *key, const gw_addr *addr);
/* A text of 16 hexadecimal digits, because JSON numbers have 53 bits. */
void gw_json_u64(json_t *object, const char *key, uint64_t value);

/* Returns a value as one line of compact JSON. Real numbers have the fewest digits that are read back as the
 * same double, and always a point or an exponent. The caller frees the line; NULL = out of memory. */
char *gw_json_line(const json_t *value);

/* Prints a value with indentation and a line break, real numbers as gw_json_line writes them, and releases
 * it. */
void gw_json_print(json_t *value);

#endif
