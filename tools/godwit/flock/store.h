/* The records of jobs on a member's disk: a file to which changes are appended, and which is written anew when most of
 * it is out of date. A thread of its own writes, so that no disk holds up the member; changes that come meanwhile are
 * written together.
 *
 * File DIR/records: "GWJR" and version u8 | entries (core/base/entry.h), each a record
 * with its specification (core/flock/record.h). Records of one id are joined when they are read. A torn entry at
 * the end is what a crash leaves; a damaged one before it is left out and counted, since other members have it.
 *
 * Thread: the loop's. */
#ifndef GODWIT_TOOLS_GODWIT_FLOCK_STORE_H
#define GODWIT_TOOLS_GODWIT_FLOCK_STORE_H

#include "core/flock/records.h"
#include "core/os/io.h"
#include "net/loop/loop.h"

#define GW_RECORD_STORE_NAME "records"

typedef struct gw_record_store gw_record_store;

typedef struct gw_record_store_events {
    void *context;
    /* A record with this digest is durable. */
    void (*durable)(void *context, const gw_job_record_id *id, uint64_t digest);
    /* The disk takes no writes, and why; or, with NULL, takes them again. */
    void (*failing)(void *context, const char *why);
} gw_record_store_events;

/* What was read. */
typedef struct gw_record_store_found {
    uint64_t entries;
    uint64_t damaged; /* places between entries where bytes are none */
} gw_record_store_found;

/* Reads what is in `directory` into `records`, which it follows from then on, and starts the thread. `io`, `records` and
 * the loop must outlive it. NULL on failure. */
gw_record_store *gw_record_store_open(gw_loop *loop, gw_io *io, const char *directory,
                                      gw_job_records *records, const gw_record_store_events *events,
                                      gw_record_store_found *found, gw_err *err);
/* Writes what waits, for `patience_ns` at most. Returns false where the disk does not answer: then the process must end
 * as it is. NULL is allowed. */
bool gw_record_store_close(gw_record_store *store, uint64_t patience_ns);

/* Has the record of this id written as it is now. `durable` follows, at once where this digest is durable. */
void gw_record_store_put(gw_record_store *store, const gw_job_record_id *id);
/* Has everything written anew, without the records that were forgotten. */
void gw_record_store_rewrite(gw_record_store *store);

#endif
