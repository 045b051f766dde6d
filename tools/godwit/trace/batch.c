#include "tools/godwit/trace/batch.h"

#include "core/base/assert.h"
#include "core/base/utf8.h"
#include "core/base/wire.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPAN_BYTES = 8 + 8 + 8 + 4 + 2 + 2,
    LEAST_OPEN_BYTES = 2 + 8 + 8 + 4 + 2 + 2,
    LEAST_THREAD_BYTES = 2 + 2 + 4
};

_Static_assert(64 + GW_TRACE_THREADS * (LEAST_THREAD_BYTES + GW_TRACE_THREAD_TEXT) +
                       GW_TRACE_BATCH_SPANS * SPAN_BYTES +
                       GW_TRACE_BATCH_OPEN * (LEAST_OPEN_BYTES + GW_TRACE_THREAD_TEXT) <
                   GW_TRACE_BATCH_BYTES,
               "a batch has room");
_Static_assert(sizeof(gw_trace_record) == SPAN_BYTES && offsetof(gw_trace_record, end_ns) == 8 &&
                   offsetof(gw_trace_record, b) == 16 && offsetof(gw_trace_record, a) == 24 &&
                   offsetof(gw_trace_record, c) == 28 && offsetof(gw_trace_record, kind) == 30 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a record lies in memory as in a batch");

/* Encoding. */

static void put_numbers(gw_writer *w, const gw_trace_record *record) {
    gw_put_u64(w, record->b);
    gw_put_u32(w, record->a);
    gw_put_u16(w, record->c);
    gw_put_u16(w, record->kind);
}

/* Writes the threads with what their rings hold, each its share first. *more: there is more. */
static void put_threads(gw_writer *w, gw_trace_cursor *cursor, gw_trace_record *records, bool *more) {
    gw_trace_thread threads[GW_TRACE_THREADS];
    uint32_t count = gw_trace_list(threads), total = 0;
    gw_put_u16(w, (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        gw_put_u16(w, (uint16_t)threads[i].number);
        gw_put_string(w, threads[i].name);
        uint32_t share = (GW_TRACE_BATCH_SPANS - total) / (count - i);
        uint32_t got = gw_trace_read(cursor, threads[i].number, records, share);
        gw_put_u32(w, got);
        gw_put_bytes(w, records, got * sizeof *records);
        total += got;
        *more |= got > 0 && got == share;
    }
}

bool gw_trace_batch_encode(gw_trace_cursor *cursor, uint32_t workers, const gw_trace_unended *open,
                           uint32_t open_count, uint8_t **bytes, size_t *length, gw_err *err) {
    GW_ASSERT(open_count <= GW_TRACE_BATCH_OPEN);
    uint8_t *memory = malloc(GW_TRACE_BATCH_BYTES);
    gw_trace_record *records = malloc(GW_TRACE_BATCH_SPANS * sizeof *records);
    if (memory == NULL || records == NULL) {
        free(memory);
        free(records);
        return gw_fail(err, GW_E_NOMEM, "out of memory for a trace");
    }
    gw_writer w = gw_writer_on(memory, GW_TRACE_BATCH_BYTES);
    bool more = false;
    gw_put_u8(&w, GW_TRACE_VERSION);
    gw_put_u64(&w, gw_now_ns());
    size_t later = w.length; /* the place of what is known when the rings have been read */
    gw_put_u64(&w, 0);
    gw_put_u8(&w, 0);
    gw_put_u16(&w, (uint16_t)workers);
    put_threads(&w, cursor, records, &more);
    gw_put_u16(&w, (uint16_t)open_count);
    for (uint32_t i = 0; i < open_count; i++) {
        gw_put_string(&w, open[i].thread);
        gw_put_u64(&w, open[i].record.begin_ns);
        put_numbers(&w, &open[i].record);
    }
    GW_ASSERT(!w.failed);
    gw_writer fix = gw_writer_on(memory + later, sizeof(uint64_t) + 1);
    gw_put_u64(&fix, cursor->lost);
    gw_put_u8(&fix, more);
    free(records);
    *bytes = memory;
    *length = w.length;
    return true;
}

/* Decoding. */

static void get_numbers(gw_reader *r, gw_trace_record *record) {
    record->b = gw_get_u64(r);
    record->a = gw_get_u32(r);
    record->c = gw_get_u16(r);
    record->kind = gw_get_u16(r);
}

static void get_name(gw_reader *r, char name[GW_TRACE_THREAD_TEXT]) {
    size_t wrong;
    bool control;
    gw_get_string(r, name, GW_TRACE_THREAD_TEXT);
    r->failed |= !gw_utf8_is_printable(name, &wrong, &control);
}

/* Reads how many elements follow, of at least so many bytes, and makes room for them. NULL: out of memory,
 * or the reader has failed. */
static void *get_list(gw_reader *r, uint32_t count, uint32_t most, size_t least, size_t size) {
    r->failed |= count > most || (uint64_t)count * least > gw_reader_left(r);
    return r->failed ? NULL : calloc(count + 1u, size);
}

/* The functions below return false when memory runs out. */

static void get_spans(gw_reader *r, gw_trace_batch *batch, uint32_t thread) {
    uint32_t count = gw_get_u32(r);
    r->failed |=
        count > GW_TRACE_BATCH_SPANS - batch->span_count || (uint64_t)count * SPAN_BYTES > gw_reader_left(r);
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_trace_span *span = &batch->spans[batch->span_count++];
        span->thread = thread;
        span->record.begin_ns = gw_get_u64(r);
        span->record.end_ns = gw_get_u64(r);
        get_numbers(r, &span->record);
        r->failed |= span->record.begin_ns > span->record.end_ns;
    }
}

static bool get_threads(gw_reader *r, gw_trace_batch *batch) {
    bool known[GW_TRACE_THREADS] = {false};
    uint32_t count = gw_get_u16(r);
    batch->threads = get_list(r, count, GW_TRACE_THREADS, LEAST_THREAD_BYTES, sizeof *batch->threads);
    if (batch->threads == NULL) return r->failed;
    batch->spans = calloc(gw_reader_left(r) / SPAN_BYTES + 1, sizeof *batch->spans);
    if (batch->spans == NULL) return false;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_trace_thread *thread = &batch->threads[batch->thread_count++];
        thread->number = gw_get_u16(r);
        get_name(r, thread->name);
        r->failed |= thread->number >= GW_TRACE_THREADS || known[thread->number];
        if (r->failed) return true;
        known[thread->number] = true;
        get_spans(r, batch, thread->number);
    }
    return true;
}

static bool get_open(gw_reader *r, gw_trace_batch *batch) {
    uint32_t count = gw_get_u16(r);
    batch->open = get_list(r, count, GW_TRACE_BATCH_OPEN, LEAST_OPEN_BYTES, sizeof *batch->open);
    if (batch->open == NULL) return r->failed;
    for (uint32_t i = 0; i < count && !r->failed; i++) {
        gw_trace_unended *open = &batch->open[batch->open_count++];
        get_name(r, open->thread);
        open->record.begin_ns = gw_get_u64(r);
        open->record.end_ns = batch->now_ns;
        get_numbers(r, &open->record);
        r->failed |= open->record.begin_ns > batch->now_ns;
    }
    return true;
}

bool gw_trace_batch_decode(const void *bytes, size_t length, gw_trace_batch *batch, gw_err *err) {
    *batch = (gw_trace_batch){.lost = 0};
    gw_reader r = gw_reader_on(bytes, length);
    uint8_t version = gw_get_u8(&r);
    if (!r.failed && version != GW_TRACE_VERSION)
        return gw_fail(
            err, GW_E_UNSUPPORTED,
            "it records traces of version %u, this program reads version %d: use the same version of "
            "godwit",
            version, GW_TRACE_VERSION);
    batch->now_ns = gw_get_u64(&r);
    batch->lost = gw_get_u64(&r);
    uint8_t more = gw_get_u8(&r);
    r.failed |= more > 1;
    batch->more = more == 1;
    batch->workers = gw_get_u16(&r);
    bool enough = get_threads(&r, batch) && get_open(&r, batch);
    if (enough && gw_reader_done(&r)) return true;
    gw_trace_batch_free(batch);
    return enough ? gw_fail(err, GW_E_INVALID, "a malformed part of a trace")
                  : gw_fail(err, GW_E_NOMEM, "out of memory for a trace");
}

void gw_trace_batch_free(gw_trace_batch *batch) {
    free(batch->threads);
    free(batch->spans);
    free(batch->open);
    *batch = (gw_trace_batch){.lost = 0};
}
