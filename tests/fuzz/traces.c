/* Targets for traces: a batch of records as a peer sends it, of which the client makes a file whatever is in it;
 * and the file, which people bring to `godwit trace --summary`. */
#include "tests/fuzz/target.h"
#include "tools/godwit/trace/summary.h"
#include "tools/godwit/trace/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define S UINT64_C(1000000000)

/* A few records of each kind, as a thread has them, and a shard that runs. */
static uint8_t *record(size_t *length) {
    static gw_trace_cursor cursor;
    const gw_trace_unended open = {.thread = "gw-worker-0",
                                   .record = {.begin_ns = 5, .a = 8, .b = 3, .kind = GW_TRACE_SHARD}};
    uint8_t *bytes;
    gw_err err;
    gw_trace_open(&cursor);
    for (uint32_t kind = 1; kind < GW_TRACE_KINDS; kind++)
        gw_trace_add((gw_trace_kind)kind, 9 * S + kind, 9 * S + 2 * kind, 2, kind % 3, kind % 5);
    GW_ASSERT_MEMORY(gw_trace_batch_encode(&cursor, 2, &open, 1, &bytes, length, &err));
    gw_trace_close(&cursor);
    return bytes;
}

static void batch_examples(fuzz_add *add, void *context) {
    size_t length;
    uint8_t *bytes = record(&length);
    add(context, bytes, length);
    free(bytes);
}

/* What a file has grown to. */
typedef struct file {
    uint8_t *bytes;
    size_t count;
} file;

static bool keep(void *context, const void *bytes, size_t count, gw_err *err) {
    (void)err;
    file *f = context;
    uint8_t *longer = realloc(f->bytes, f->count + count);
    GW_ASSERT_MEMORY(longer != NULL);
    memcpy(longer + f->count, bytes, count);
    f->bytes = longer;
    f->count += count;
    return true;
}

static void check(const gw_summary *summary) {
    for (uint32_t i = 0; i < summary->count; i++) {
        double sum = 0;
        for (int s = 0; s < GW_SHARES; s++) {
            GW_ASSERT(summary->peers[i].shares[s] >= 0);
            sum += summary->peers[i].shares[s];
        }
        GW_ASSERT(sum == 0 || fabs(sum - 1) < 1e-6);
    }
}

/* Makes a file of two peers that have sent the same. */
static file write_file(const uint8_t *bytes, size_t count) {
    file f = {.count = 0};
    gw_traced_peer peers[2] = {{.id = {{1}}, .name = "one"}, {.id = {{2}}, .name = "two", .why = "it ended"}};
    gw_err err;
    for (uint32_t i = 0; i < 2; i++) {
        const gw_trace_round round = {S, S + i * 1000, S + i * 1000 + 10, S + 500};
        gw_trace_batch batch;
        GW_ASSERT(gw_trace_batch_decode(bytes, count, &batch, &err));
        gw_trace_offset_note(&peers[i].offset, &round, false);
        peers[i].from_ns = 8 * S;
        peers[i].to_ns = 10 * S;
        GW_ASSERT_MEMORY(gw_traced_peer_add(&peers[i], &batch, &err));
    }
    GW_ASSERT_MEMORY(gw_timeline_write(peers, 2, keep, &f, &err));
    for (uint32_t i = 0; i < 2; i++) gw_traced_peer_free(&peers[i]);
    return f;
}

static bool take_batch(const uint8_t *bytes, size_t count) {
    gw_trace_batch batch;
    gw_summary summary;
    gw_err err;
    if (!gw_trace_batch_decode(bytes, count, &batch, &err)) return false;
    gw_trace_batch_free(&batch);
    file f = write_file(bytes, count);
    GW_ASSERT(gw_summary_read(f.bytes, f.count, &summary, &err));
    GW_ASSERT(summary.count == 2);
    check(&summary);
    gw_summary_free(&summary);
    free(f.bytes);
    return true;
}

const fuzz_target fuzz_trace_batch = {"trace_batch", 60000, 3000, batch_examples, NULL, take_batch};

static void file_examples(fuzz_add *add, void *context) {
    size_t length;
    uint8_t *bytes = record(&length);
    file f = write_file(bytes, length);
    add(context, f.bytes, f.count);
    free(f.bytes);
    free(bytes);
}

static bool take_file(const uint8_t *bytes, size_t count) {
    static FILE *nowhere;
    gw_summary summary;
    gw_err err;
    if (nowhere == NULL) nowhere = fopen("/dev/null", "w");
    GW_ASSERT(nowhere != NULL);
    if (!gw_summary_read(bytes, count, &summary, &err)) return false;
    check(&summary);
    gw_summary_print(&summary, nowhere);
    gw_summary_free(&summary);
    return true;
}

const fuzz_target fuzz_trace_file = {"trace_file", 80000, 20000, file_examples, NULL, take_file};
