/* The journal of a peer: what happened to it and around it, in its directory, where it outlives the process
 * and says afterwards what went wrong. `godwit why` and `godwit report` read it, and the page of --http shows
 * its last lines.
 *
 * A line is one JSON object with "event" and "time", in the words of `godwit run --json` (show/events.h), but
 * for single steps and steals, which are too many; every minute a line "progress" stands for them. The newest
 * lines are in DIR/journal.jsonl. When that file has GW_JOURNAL_FILE_BYTES, it becomes DIR/journal.1.jsonl, in
 * place of the one before it: the journal takes no more than twice that on the disk. Whole lines are appended;
 * after a crash the last line may be torn, and the next life begins a new line.
 *
 * A thread of the journal's own writes, so that no disk holds up the peer. While the disk does not answer,
 * lines wait in memory, GW_JOURNAL_WAITING_BYTES at most; later ones are left out and counted. A line that
 * cannot be written is lost, the run goes on, and the log says so once.
 *
 * Thread: any, except where a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_JOURNAL_JOURNAL_H
#define GODWIT_TOOLS_GODWIT_JOURNAL_JOURNAL_H

#include "core/os/directory.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GW_JOURNAL_FILE_BYTES = 8 << 20,
    GW_JOURNAL_LINE_BYTES = 64 << 10, /* longer lines are left out */
    GW_JOURNAL_WAITING_BYTES = 1 << 20,
    GW_JOURNAL_TAIL = 512,           /* lines that are kept in memory */
    GW_JOURNAL_TAIL_BYTES = 8 << 10, /* longer lines are not among them */
};

#define GW_JOURNAL_NAME    "journal.jsonl"
#define GW_JOURNAL_EARLIER "journal.1.jsonl"

typedef struct gw_journal gw_journal;

/* Opens the journal in an open directory, which must outlive it, reads the last lines of earlier lives into
 * the tail, and starts the thread. Returns NULL on failure. One process has a directory, by its lock. */
gw_journal *gw_journal_open(gw_directory *directory, gw_err *err);
/* Writes the lines that wait, for `patience_ns` at the most, flushes them to the disk, and ends the thread.
 * Returns false where the disk did not answer in time: then the thread still runs, and the process must end
 * as it is. NULL is allowed. */
bool gw_journal_close(gw_journal *journal, uint64_t patience_ns);

/* Appends a line (copied; one JSON object, without a line break). Never waits for the disk. */
void gw_journal_add(gw_journal *journal, const char *line);
/* Has the lines so far flushed to the disk. Never waits for it. */
void gw_journal_sync(gw_journal *journal);

/* Writes to the file at once, past the lines that wait, that the process dies of signal `number`. For the
 * handler of a fault: async-signal-safe. NULL is allowed. */
void gw_journal_note_crash(gw_journal *journal, int number);

/* The bytes that are free for this user on the disk of the directory, as the thread has found them when it
 * last wrote; UINT64_MAX: not known yet. */
uint64_t gw_journal_room(const gw_journal *journal);
/* The size of that disk; 0: not known yet. */
uint64_t gw_journal_disk(const gw_journal *journal);

/* A line of the tail. Numbers rise by one from line to line, from 1 on, and begin anew with each process. */
typedef void gw_journal_line(void *context, uint64_t number, const char *line);
/* Calls `each` for the lines of the tail with numbers above `after`, in order, with the tail locked: `each`
 * must not call the journal. Returns the number of the newest line, 0 where there is none. */
uint64_t gw_journal_tail(gw_journal *journal, uint64_t after, gw_journal_line *each, void *context);

#endif
