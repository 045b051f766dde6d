/* Traces of two peers whose clocks differ, as a file, and what a summary says of it. */
#include "tools/godwit/trace/summary.h"
#include "tools/godwit/trace/timeline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(trace_timeline, .timeout = 60);

#define S     UINT64_C(1000000000)
#define AHEAD (5000 * S) /* of the clock of peer 1 */

enum { LOOP, COMPUTE, WORKER, OTHER_WORKER, DATA, THREADS };

static gw_err err;
static gw_traced_peer peers[2];
static uint8_t *file;
static size_t file_bytes;

static bool keep(void *context, const void *bytes, size_t count, gw_err *e) {
    (void)context, (void)e;
    file = realloc(file, file_bytes + count);
    memcpy(file + file_bytes, bytes, count);
    file_bytes += count;
    return true;
}

/* A peer with two workers, traced from 100 s to 110 s of the client's clock. */
static void open_peer(uint32_t p) {
    static const char *const names[THREADS] = {"godwit", "gw-compute", "gw-worker-0", "gw-worker-1",
                                               "gw-data-sums"};
    uint64_t ahead = p == 1 ? AHEAD : 0;
    const gw_trace_round round = {.sent_ns = 99 * S,
                                  .peer_received_ns = 99 * S + ahead + 500,
                                  .peer_sent_ns = 99 * S + ahead + 500,
                                  .received_ns = 99 * S + 1000};
    peers[p] = (gw_traced_peer){.id = {{(uint8_t)(p + 1)}},
                                .from_ns = 100 * S,
                                .to_ns = 110 * S,
                                .workers = 2,
                                .thread_count = THREADS};
    snprintf(peers[p].name, sizeof peers[p].name, "peer %u", p);
    gw_trace_offset_note(&peers[p].offset, &round, false);
    for (uint32_t i = 0; i < THREADS; i++) {
        peers[p].threads[i].number = i;
        snprintf(peers[p].threads[i].name, GW_TRACE_THREAD_TEXT, "%s", names[i]);
    }
}

/* Adds a span, in tenths of seconds since the begin of the trace. */
static void add(uint32_t p, uint32_t thread, gw_trace_kind kind, int begin, int end, uint32_t a, uint64_t b,
                uint32_t c) {
    uint64_t zero = 100 * S + (p == 1 ? AHEAD : 0);
    gw_trace_batch batch = {.workers = 2,
                            .thread_count = THREADS,
                            .threads = malloc(sizeof peers[p].threads),
                            .spans = malloc(sizeof(gw_trace_span)),
                            .span_count = 1};
    memcpy(batch.threads, peers[p].threads, sizeof peers[p].threads);
    batch.spans[0] = (gw_trace_span){.thread = thread,
                                     .record = {.begin_ns = zero + (uint64_t)((int64_t)S / 10 * begin),
                                                .end_ns = zero + (uint64_t)((int64_t)S / 10 * end),
                                                .a = a,
                                                .b = b,
                                                .c = (uint16_t)c,
                                                .kind = (uint16_t)kind}};
    cr_assert(gw_traced_peer_add(&peers[p], &batch, &err));
}

static void mark(uint32_t p, gw_trace_kind kind, int at, uint32_t a, uint64_t b) {
    add(p, LOOP, kind, at, at, a, b, 0);
}

/* A step of ten seconds. The first peer computes for 4 s on both workers, and then waits in the sum for the
 * second one, which has one worker busy until 6 s. The sum takes until 8 s, the update until 9 s. */
static void add_step(void) {
    for (uint32_t p = 0; p < 2; p++) {
        open_peer(p);
        int done = p == 0 ? 40 : 60;
        mark(p, GW_TRACE_STEP, 0, 3, 7);
        mark(p, GW_TRACE_DEAL, 0, 0, 7);
        add(p, WORKER, GW_TRACE_SHARD, 0, done, p, 7, 0);
        if (p == 0) add(p, OTHER_WORKER, GW_TRACE_SHARD, 0, 40, 2, 7, 0);
        mark(p, GW_TRACE_SEALED, done, 0, 7);
        add(p, COMPUTE, GW_TRACE_BUCKET, done, 80, 2, 7, 2);
        add(p, COMPUTE, GW_TRACE_REDUCE, done, 80, 2, 7, 0);
        add(p, COMPUTE, GW_TRACE_APPLY, 80, 90, 0, 7, 0);
    }
}

static gw_summary summarize(void) {
    gw_summary summary;
    cr_assert(gw_timeline_write(peers, 2, keep, NULL, &err), "%s", err.text);
    cr_assert(gw_summary_read(file, file_bytes, &summary, &err), "%s", err.text);
    return summary;
}

static void check_shares(const gw_summary_peer *peer, const double expected[GW_SHARES]) {
    double sum = 0;
    for (int s = 0; s < GW_SHARES; s++) {
        cr_assert_float_eq(peer->shares[s], expected[s], 1e-5, "%s: share %d is %g", peer->name, s,
                           peer->shares[s]);
        sum += peer->shares[s];
    }
    cr_assert_float_eq(sum, 1, 1e-9);
}

static void close_all(gw_summary *summary) {
    gw_summary_free(summary);
    for (uint32_t p = 0; p < 2; p++) gw_traced_peer_free(&peers[p]);
    free(file);
    file = NULL;
    file_bytes = 0;
}

Test(trace_timeline, the_time_of_each_peer_divides_as_it_went) {
    add_step();
    gw_summary summary = summarize();
    cr_assert_eq(summary.count, 2);
    check_shares(&summary.peers[0], (const double[]){.4, .2, .2, .1, .1});
    check_shares(&summary.peers[1], (const double[]){.3, .3, .2, .1, .1});
    cr_assert_str_eq(summary.peers[1].name, "peer 1");
    cr_assert_eq(summary.peers[1].offset_ns, (int64_t)AHEAD);
    cr_assert_leq(summary.peers[1].error_ns, 501);
    cr_assert_eq(summary.peers[0].shards, 2);
    cr_assert_float_eq(summary.peers[0].seconds, 10, 1e-9);
    cr_assert_float_eq(summary.peers[0].reduce_s, 2, 1e-6);
    cr_assert_eq(summary.peers[0].hidden_s, 0);
    close_all(&summary);
}

Test(trace_timeline, what_of_a_reduction_is_hidden_behind_shards_is_the_overlap) {
    add_step();
    add(0, WORKER, GW_TRACE_SHARD, 70, 75, 9, 8, 0);
    gw_summary summary = summarize();
    cr_assert_float_eq(summary.peers[0].hidden_s, .5, 1e-6);
    check_shares(&summary.peers[0], (const double[]){.425, .2, .175, .1, .1});
    close_all(&summary);
}

Test(trace_timeline, packing_is_hidden_while_a_message_arrives) {
    add_step();
    add(0, DATA, GW_TRACE_PACK, 62, 64, 0, 7, 0); /* nothing arrives yet */
    add(0, DATA, GW_TRACE_HOP, 65, 75, 0, 7, 0);
    add(0, DATA, GW_TRACE_PACK, 66, 72, 1, 7, 0);
    add(1, DATA, GW_TRACE_PACK, 30, 40, 0, 7, 0); /* in no reduction */
    gw_summary summary = summarize();
    cr_assert_float_eq(summary.peers[0].pack_s, .8, 1e-6);
    cr_assert_float_eq(summary.peers[0].pack_hidden_s, .6, 1e-6);
    cr_assert_eq(summary.peers[1].pack_s, 0);
    check_shares(&summary.peers[0], (const double[]){.4, .2, .2, .1, .1});
    close_all(&summary);
}

Test(trace_timeline, without_the_other_members_a_wait_is_what_the_ring_has_recorded) {
    add_step();
    peers[1].to_ns = 0; /* it could not be traced */
    peers[1].span_count = 0;
    add(0, DATA, GW_TRACE_ENTER, 41, 59, 0, 7, 0);
    gw_summary summary = summarize();
    cr_assert_eq(summary.count, 1);
    check_shares(&summary.peers[0], (const double[]){.4, .18, .22, .1, .1});
    close_all(&summary);
}

Test(trace_timeline, an_all_reduce_that_was_begun_anew_is_another_one) {
    for (uint32_t p = 0; p < 2; p++) {
        open_peer(p);
        add(p, COMPUTE, GW_TRACE_BUCKET, p == 0 ? 0 : 10, 20, 2, 7, 2);
        add(p, COMPUTE, GW_TRACE_BUCKET, p == 0 ? 40 : 30, 50, 2, 7, 2);
        add(p, COMPUTE, GW_TRACE_REDUCE, p == 0 ? 0 : 10, 20, 2, 7, 0);
        add(p, COMPUTE, GW_TRACE_REDUCE, p == 0 ? 40 : 30, 50, 2, 7, 0);
    }
    gw_summary summary = summarize();
    check_shares(&summary.peers[0], (const double[]){0, .1, .2, 0, .7});
    check_shares(&summary.peers[1], (const double[]){0, .1, .2, 0, .7});
    close_all(&summary);
}

/* A step that is longer than the trace has neither begin nor end in it. */
Test(trace_timeline, a_shard_that_runs_all_the_time_is_in_the_trace) {
    open_peer(0);
    open_peer(1);
    peers[1].to_ns = 0;
    peers[0].open = calloc(2, sizeof *peers[0].open);
    peers[0].open_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        peers[0].open[i].record = (gw_trace_record){
            .begin_ns = 50 * S + 60 * S * i, .end_ns = 110 * S, .a = 4 + i, .b = 7, .kind = GW_TRACE_SHARD};
    snprintf(peers[0].open[0].thread, GW_TRACE_THREAD_TEXT, "gw-worker-0");
    snprintf(peers[0].open[1].thread, GW_TRACE_THREAD_TEXT, "gw-worker-9");
    gw_summary summary = summarize();
    check_shares(&summary.peers[0], (const double[]){.5, .5, 0, 0, 0});
    close_all(&summary);
}

Test(trace_timeline, what_is_out_of_the_trace_or_unknown_is_left_out) {
    add_step();
    add(0, WORKER, GW_TRACE_SHARD, 200, 300, 1, 9, 0);
    add(0, WORKER, GW_TRACE_SHARD, -300, -200, 1, 9, 0);
    add(0, WORKER, (gw_trace_kind)999, 10, 20, 1, 9, 0);
    add(0, LOOP, GW_TRACE_STEAL, 10, 10, 1, UINT64_MAX, 0); /* from a peer that is not in the trace */
    gw_summary summary = summarize();
    check_shares(&summary.peers[0], (const double[]){.4, .2, .2, .1, .1});
    close_all(&summary);
}

Test(trace_timeline, what_is_no_trace_is_refused) {
    gw_summary summary;
    add_step();
    summary = summarize();
    gw_summary_free(&summary);
    cr_assert_not(gw_summary_read(file, file_bytes - 1, &summary, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not(gw_summary_read("# a text\n", 9, &summary, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not(gw_summary_read("", 0, &summary, &err));
    cr_assert_eq(err.code, GW_E_INVALID);
    summary = (gw_summary){.count = 0};
    close_all(&summary);
}

static bool refuse(void *context, const void *bytes, size_t count, gw_err *e) {
    (void)context, (void)bytes, (void)count;
    return gw_fail(e, GW_E_IO, "the disk is full");
}

Test(trace_timeline, a_disk_that_is_full_is_told_of) {
    add_step();
    cr_assert_not(gw_timeline_write(peers, 2, refuse, NULL, &err));
    cr_assert_str_eq(err.text, "the disk is full");
    gw_summary none = {.count = 0};
    close_all(&none);
}
