/* Batches: what a peer records arrives as it was, and nothing that is cut or damaged is believed. */
#include "tools/godwit/trace/batch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(trace_batch, .timeout = 60);

static gw_err err;

static void add(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) gw_trace_add(GW_TRACE_SHARD, 1000 + i, 2000 + i, i, 7, 1);
}

static gw_trace_batch pull(gw_trace_cursor *cursor, uint8_t **bytes, size_t *length) {
    const gw_trace_unended open = {.thread = "gw-worker-0",
                                   .record = {.begin_ns = 5, .a = 8, .kind = GW_TRACE_SHARD}};
    gw_trace_batch batch;
    cr_assert(gw_trace_batch_encode(cursor, 3, &open, 1, bytes, length, &err), "%s", err.text);
    cr_assert(gw_trace_batch_decode(*bytes, *length, &batch, &err), "%s", err.text);
    return batch;
}

Test(trace_batch, what_a_peer_records_arrives_in_as_many_batches_as_it_takes) {
    gw_trace_cursor cursor;
    uint8_t *bytes;
    size_t length;
    gw_trace_open(&cursor);
    uint64_t before_ns = gw_now_ns();
    add(1000);
    gw_trace_batch batch = pull(&cursor, &bytes, &length);
    cr_assert_eq(batch.span_count, 1000);
    cr_assert(batch.now_ns >= before_ns && batch.now_ns <= gw_now_ns());
    cr_assert_not(batch.more);
    cr_assert_eq(batch.workers, 3);
    cr_assert_eq(batch.thread_count, 1);
    cr_assert_eq(batch.open_count, 1);
    cr_assert_str_eq(batch.open[0].thread, "gw-worker-0");
    cr_assert(batch.open[0].record.begin_ns == 5 && batch.open[0].record.end_ns == batch.now_ns);
    for (uint32_t i = 0; i < 1000; i++) {
        const gw_trace_record *r = &batch.spans[i].record;
        cr_assert(r->begin_ns == 1000 + i && r->end_ns == 2000 + i && r->a == i && r->b == 7 && r->c == 1);
        cr_assert_eq(batch.spans[i].thread, batch.threads[0].number);
    }
    gw_trace_batch_free(&batch);
    free(bytes);
    add(GW_TRACE_RING + 5);
    batch = pull(&cursor, &bytes, &length);
    cr_assert_eq(batch.span_count, GW_TRACE_RING);
    cr_assert_eq(batch.lost, 5);
    gw_trace_batch_free(&batch);
    free(bytes);
    gw_trace_close(&cursor);
}

Test(trace_batch, no_part_of_a_batch_is_one) {
    gw_trace_cursor cursor;
    uint8_t *bytes;
    size_t length;
    gw_trace_open(&cursor);
    add(3);
    gw_trace_batch batch = pull(&cursor, &bytes, &length), cut;
    gw_trace_batch_free(&batch);
    for (size_t i = 0; i < length; i++) cr_assert_not(gw_trace_batch_decode(bytes, i, &cut, &err));
    uint8_t *longer = calloc(1, length + 1);
    memcpy(longer, bytes, length);
    cr_assert_not(gw_trace_batch_decode(longer, length + 1, &cut, &err));
    longer[0]++;
    cr_assert_not(gw_trace_batch_decode(longer, length, &cut, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    free(longer);
    free(bytes);
    gw_trace_close(&cursor);
}

/* The bytes of version 1. */
Test(trace_batch, the_bytes_are_those_that_other_builds_know) {
    /* The version, the time, what is lost, whether there is more, the workers; one thread with one span,
     * which is begin, end, b, a, c and kind; and nothing that is open. */
    const char text[] = "01"
                        "0900000000000000"
                        "0400000000000000"
                        "01"
                        "0200"
                        "010003000100"
                        "77"
                        "01000000"
                        "0500000000000000"
                        "0600000000000000"
                        "0800000000000000"
                        "07000000"
                        "0100"
                        "0100"
                        "0000";
    uint8_t bytes[sizeof text / 2];
    for (size_t i = 0; i < sizeof bytes; i++) {
        unsigned byte;
        cr_assert_eq(sscanf(text + 2 * i, "%2x", &byte), 1);
        bytes[i] = (uint8_t)byte;
    } /* open */
    gw_trace_batch batch;
    cr_assert(gw_trace_batch_decode(bytes, sizeof bytes, &batch, &err), "%s", err.text);
    const gw_trace_record *r = &batch.spans[0].record;
    cr_assert(batch.now_ns == 9 && batch.lost == 4 && batch.more && batch.workers == 2);
    cr_assert(batch.threads[0].number == 3 && batch.spans[0].thread == 3);
    cr_assert(r->begin_ns == 5 && r->end_ns == 6 && r->b == 8 && r->a == 7 && r->c == 1 &&
              r->kind == GW_TRACE_SHARD);
    gw_trace_batch_free(&batch);
}
