/* Texts of the form "loss=0.31 lr=0.0006", in which a job reports a step or its end (report and summary in
 * core/godwit.h). */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_KEY_VALUES_H
#define GODWIT_TOOLS_GODWIT_TEXT_KEY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_KEY_VALUES_KEY = 32,    /* bytes of a key with its final zero; longer keys are skipped */
    GW_KEY_VALUES_BYTES = 400, /* bytes of a kept text with its final zero */
};

/* Finds the next key=value: copies the key, and points at the value's `length` bytes. *rest is the whole
 * text at first and moves on. Words that are not key=value are skipped. Returns false at the end. */
bool gw_key_values_next(const char **rest, char key[GW_KEY_VALUES_KEY], const char **value, size_t *length);

/* Reads a value of a report as a number, "nan" and "inf" too. Returns false where it is none: so are 16 or
 * more hexadecimal digits, which are a hash even if all of them are decimal ones. */
bool gw_key_values_number(const char *value, size_t length, double *number);

/* The number that a report has under a key; NAN where it has none. */
double gw_key_values_real(const char *report, const char *key);
/* Reads the whole number that a report has under a key; false where it has none. */
bool gw_key_values_count(const char *report, const char *key, uint64_t *count);

/* Puts the keys of a report in front of those kept from earlier reports, each with its latest value. If
 * there is no room for all, the oldest are dropped. */
void gw_key_values_keep(char kept[GW_KEY_VALUES_BYTES], const char *report);

/* Writes the text for people: numbers that are not whole get five digits. It is cut off where it does not
 * fit. */
void gw_key_values_brief(const char *report, char *text, size_t size);

#endif
