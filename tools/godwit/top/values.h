/* Members of a peer's answers, and numbers as people read them, for the pictures of `godwit top`. Pure; any thread. */
#ifndef GODWIT_TOOLS_GODWIT_TOP_VALUES_H
#define GODWIT_TOOLS_GODWIT_TOP_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { GW_TOP_VALUE = 24 /* bytes of a number in words, with its final zero */ };

/* A member of an object: a text, "" where there is none; a number, NAN where there is none; a flag. */
const char *gw_top_text(const json_t *object, const char *key);
double gw_top_number(const json_t *object, const char *key);
bool gw_top_flag(const json_t *object, const char *key);

/* Numbers in words, "-" where one is not known. They return `text`. */
const char *gw_top_count(double value, char text[GW_TOP_VALUE]);      /* "7", "412", "18.3k", "2.04M" */
const char *gw_top_bytes(double value, char text[GW_TOP_VALUE]);      /* "15M", "2.5G" */
const char *gw_top_duration(double seconds, char text[GW_TOP_VALUE]); /* "12 min", "2 h 05 min" */
const char *gw_top_clock(double time_s, char text[GW_TOP_VALUE]);     /* "14:03:59", the local time */

/* Writes a value for a line. Returns false for objects, arrays and where there is none. */
bool gw_top_value(const json_t *value, char *text, size_t size);

/* Whether a peer of this row takes no part any more: it is dead, unreachable, or has left. What it computed before
 * tells nothing of now. */
bool gw_top_is_gone(const json_t *peer);

#endif
