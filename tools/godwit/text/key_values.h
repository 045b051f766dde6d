/* Texts of the form "loss=0.31 lr=0.0006", in which a job reports a step or its end (core/godwit.h, report
 * and summary). */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_KEY_VALUES_H
#define GODWIT_TOOLS_GODWIT_TEXT_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_KEY_VALUES_KEY = 32,    /* bytes of a key with its end; longer ones are passed over */
    GW_KEY_VALUES_BYTES = 400, /* of all that is kept, with its end */
};

/* The next key=value: copies the key, and points at the value's `length` bytes. *rest, at first the whole
 * text, moves on; false at its end. Words that are no key=value are passed over. */
bool gw_key_values_next(const char **rest, char key[GW_KEY_VALUES_KEY], const char **value, size_t *length);

/* The whole number that a report has under a key; false where it has none. */
bool gw_key_values_count(const char *report, const char *key, uint64_t *count);

/* Puts the keys of a report in front of those that were kept of reports before it, each with the value that
 * it had last. What does not fit is left out, of the oldest first. */
void gw_key_values_keep(char kept[GW_KEY_VALUES_BYTES], const char *report);

/* The same text as people look at it: of numbers that are not whole, five digits. Cut off where it does not
 * fit. */
void gw_key_values_brief(const char *report, char *text, size_t size);

#endif
