/* The last steps that a peer has made, kept in memory with what the job reported of them. A peer that takes the
 * state of other members, as it was away or its own sum of the step was cut off by a new view, has not applied
 * the steps that led to that state: it asks a donor for them, so that its metrics and events have no hole.
 *
 * Thread: any; a lock guards the steps. */
#ifndef GODWIT_TOOLS_GODWIT_WORK_HISTORY_H
#define GODWIT_TOOLS_GODWIT_WORK_HISTORY_H

#include "core/base/err.h"
#include "core/base/id.h"
#include "core/base/wire.h"
#include "tools/godwit/receipt/receipt.h"

enum { GW_HISTORY_STEPS = 4096 };       /* that are kept, the latest */
enum { GW_HISTORY_BYTES = 1 << 20 };    /* the most that gw_history_write writes */
enum { GW_HISTORY_REPORT_BYTES = 200 }; /* of a step's report, with its NUL */

typedef struct gw_past_step {
    uint64_t step;    /* steps done, including this one; at least 1 */
    bool evaluates;   /* its phase; otherwise it trains */
    bool evaluated;   /* it is the last of several evaluations in a row */
    double time;      /* seconds since 1970 */
    double ms;        /* duration */
    uint32_t members; /* that made it */
    uint32_t shards;
    uint64_t fingerprint; /* of the state after it */
    gw_receipt receipt;   /* all zeros: none is known */
    char report[GW_HISTORY_REPORT_BYTES];
} gw_past_step;

typedef struct gw_history gw_history;

/* Returns NULL when memory runs out. */
gw_history *gw_history_open(gw_err *err);
void gw_history_close(gw_history *history); /* NULL is allowed */

/* Adds a step, which replaces this one and all later ones that were made before the state went back. */
void gw_history_add(gw_history *history, const gw_past_step *step);

/* The step after which this peer lacks steps when it takes a state; UINT64_MAX, as at first: nobody here needs
 * any. */
void gw_history_set_known(gw_history *history, uint64_t step);
uint64_t gw_history_known(gw_history *history);

/* The name under which a peer serves the steps after `after` and up to `last`. Its last bytes tell the version
 * that the asking peer reads; a build of the version before ignores that, and answers in its own. */
gw_hash gw_history_name(uint64_t after, uint64_t last);
bool gw_history_is_name(const gw_hash *name);
/* Writes what a name asks for: those of the steps that are kept and of which none is missing up to the last of
 * them, as many of the latest as `size` bytes have room for. Returns the number of bytes; 0: there are none. */
size_t gw_history_write(gw_history *history, const gw_hash *name, void *bytes, size_t size);

/* Begins to read what another peer has written. False: it is of an unknown version. */
bool gw_history_read_begin(gw_reader *reader, const void *bytes, size_t length, uint8_t *version);
/* Reads the next step. False: there is none, or the bytes make no sense. */
bool gw_history_read(gw_reader *reader, uint8_t version, gw_past_step *step);

#endif
