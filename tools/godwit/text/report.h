/* What a job reports of a step or of its end: "loss=0.31 lr=0.0006" (core/godwit.h, report and summary). */
#ifndef GODWIT_TOOLS_GODWIT_TEXT_REPORT_H
#define GODWIT_TOOLS_GODWIT_TEXT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GW_REPORT_KEY = 32,   /* bytes of a key with its end; longer ones are passed over */
    GW_REPORT_KEPT = 400, /* of all that is kept, with its end */
};

/* The next key=value: copies the key, and points at the value's `length` bytes. *rest, at first the whole
 * text, moves on; false at its end. Words that are no key=value are passed over. */
bool gw_report_next(const char **rest, char key[GW_REPORT_KEY], const char **value, size_t *length);

/* The whole number that a report has under a key; false where it has none. */
bool gw_report_count(const char *report, const char *key, uint64_t *count);

/* Puts the keys of a report in front of those that were kept of reports before it, each with the value that
 * it had last. What does not fit is left out, of the oldest first. */
void gw_report_keep(char kept[GW_REPORT_KEPT], const char *report);

/* The same text as people look at it: of numbers that are not whole, five digits. Cut off where it does not
 * fit. */
void gw_report_brief(const char *report, char *text, size_t size);

#endif
