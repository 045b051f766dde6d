/* A batch of trace records (core/os/trace.h), as a peer sends it to the client that traces it. Little-endian
 * (core/base/wire.h):
 *
 *   version u8 = GW_TRACE_VERSION | now u64 | lost u64 | more u8 | workers u16
 *   threads u16, each: number u16 | name string | spans u32, each: begin u64 | end u64 | b u64 | a u32 | c u16 | kind u16
 *   open u16, each: name of the thread string | begin u64 | b u64 | a u32 | c u16 | kind u16
 *
 * Spans lie there as gw_trace_record does in memory, so that a peer has nothing to do but to copy them. The
 * client trusts nothing of it: counts are bounded, spans do not end before they begin, and each thread is there
 * once. Kinds may be unknown. */
#ifndef GODWIT_TOOLS_GODWIT_TRACE_BATCH_H
#define GODWIT_TOOLS_GODWIT_TRACE_BATCH_H

#include "core/base/err.h"
#include "core/os/trace.h"

enum {
    GW_TRACE_BATCH_SPANS = 30000, /* most in one batch: a megabyte */
    GW_TRACE_BATCH_OPEN = 512,
    GW_TRACE_BATCH_BYTES = 2 << 20, /* no batch is longer */
};

typedef struct gw_trace_span {
    uint32_t thread; /* number of its ring */
    gw_trace_record record;
} gw_trace_span;

/* A span that has not ended, of the thread of this name. end_ns is the time at which this was known. */
typedef struct gw_trace_unended {
    char thread[GW_TRACE_THREAD_TEXT];
    gw_trace_record record;
} gw_trace_unended;

typedef struct gw_trace_batch {
    uint64_t now_ns; /* by the peer's clock */
    uint64_t lost;   /* records of this reader that were overwritten since it began */
    bool more;       /* the next batch can be had at once */
    uint32_t workers;
    gw_trace_thread *threads;
    uint32_t thread_count;
    gw_trace_span *spans;
    uint32_t span_count;
    gw_trace_unended *open;
    uint32_t open_count;
} gw_trace_batch;

/* Encodes what the cursor finds, to memory that the caller frees. `open` is what runs now, at most
 * GW_TRACE_BATCH_OPEN. Fails with GW_E_NOMEM. */
bool gw_trace_batch_encode(gw_trace_cursor *cursor, uint32_t workers, const gw_trace_unended *open,
                           uint32_t open_count, uint8_t **bytes, size_t *length, gw_err *err);

/* Decodes a batch; the caller frees it by gw_trace_batch_free. Fails with GW_E_UNSUPPORTED if it is of another
 * version, GW_E_INVALID if it is none, or GW_E_NOMEM. */
bool gw_trace_batch_decode(const void *bytes, size_t length, gw_trace_batch *batch, gw_err *err);
void gw_trace_batch_free(gw_trace_batch *batch);

#endif
