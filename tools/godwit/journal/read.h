/* Reads the journal of a peer (journal.h), whether the peer runs or not. The files may be torn, damaged, or made
 * by somebody else: what is no whole line with an object of JSON that has "event" and "time" is skipped and
 * counted, and nothing outside the directory is read. Any thread; waits for the disk. */
#ifndef GODWIT_TOOLS_GODWIT_JOURNAL_READ_H
#define GODWIT_TOOLS_GODWIT_JOURNAL_READ_H

#include "core/base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* A line: its text, which is not terminated, and the object that it is, which lives during the call only.
 * Returns false to read no further. */
typedef bool gw_journal_event(void *context, const char *line, size_t length, json_t *event);

typedef struct gw_journal_found {
    uint64_t lines, damaged; /* lines that are events; lines that are none */
    uint64_t bytes;          /* of both files */
} gw_journal_found;

/* Calls `each` for every event in the journal of directory `dir`, the oldest first. Only the last
 * GW_JOURNAL_FILE_BYTES of each file are read, and one line more. `found` may be NULL. Fails with GW_E_NOTFOUND
 * where there is no journal, GW_E_INVALID where one of its files is a link or no regular file, GW_E_IO and
 * GW_E_NOMEM. */
bool gw_journal_read(const char *dir, gw_journal_event *each, void *context, gw_journal_found *found,
                     gw_err *err);
/* The same for the last `bytes` bytes of the newer file alone. */
bool gw_journal_read_last(const char *dir, size_t bytes, gw_journal_event *each, void *context, gw_err *err);

/* Members of an event: a text (NULL: it has none of that name), and a number (`other` where it has none). */
const char *gw_journal_text(const json_t *event, const char *key);
double gw_journal_number(const json_t *event, const char *key, double other);
/* Whether the event is of this kind ("view"). */
bool gw_journal_is(const json_t *event, const char *kind);

#endif
