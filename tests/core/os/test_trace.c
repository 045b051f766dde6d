/* The recorder: what arrives, what is lost and told of as lost, and that a reader beside a writer reads whole
 * records. */
#include "core/os/trace.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(trace, .timeout = 60);

static gw_trace_record records[2 * GW_TRACE_RING];
static gw_trace_thread threads[GW_TRACE_THREADS];

static uint32_t number_of(const char *name) {
    uint32_t count = gw_trace_list(threads);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(threads[i].name, name) == 0) return threads[i].number;
    cr_assert_fail("there is no thread %s", name);
    return 0;
}

/* Reads what this thread has recorded. */
static uint32_t read_own(gw_trace_cursor *cursor) {
    char name[GW_TRACE_THREAD_TEXT];
    pthread_getname_np(pthread_self(), name, sizeof name);
    return gw_trace_read(cursor, number_of(name), records, 2 * GW_TRACE_RING);
}

static void add(uint32_t a) {
    gw_trace_add(GW_TRACE_SHARD, 1000 + a, 2000 + a, a, UINT64_C(7) * a, a % 5);
}

Test(trace, nothing_is_recorded_while_nobody_reads) {
    gw_trace_cursor cursor;
    cr_assert_not(gw_trace_is_on());
    cr_assert_eq(gw_trace_begin(), 0);
    gw_trace_mark(GW_TRACE_STEP, 1, 2);
    gw_trace_open(&cursor);
    cr_assert(gw_trace_is_on());
    gw_trace_end(GW_TRACE_SHARD, 0, 1, 2, 3); /* it began before */
    cr_assert_eq(gw_trace_list(threads), 0);
    gw_trace_close(&cursor);
    cr_assert_not(gw_trace_is_on());
}

Test(trace, records_arrive_whole_in_their_order_and_once) {
    gw_trace_cursor cursor;
    gw_trace_open(&cursor);
    for (uint32_t i = 0; i < 100; i++) add(i);
    cr_assert_eq(read_own(&cursor), 100);
    for (uint32_t i = 0; i < 100; i++) {
        const gw_trace_record *r = &records[i];
        cr_assert(r->begin_ns == 1000 + i && r->end_ns == 2000 + i && r->a == i && r->b == 7 * i);
        cr_assert(r->c == i % 5 && r->kind == GW_TRACE_SHARD);
    }
    cr_assert_eq(read_own(&cursor), 0);
    uint64_t began_ns = gw_trace_begin();
    gw_trace_end(GW_TRACE_APPLY, began_ns, 0, 9, 0);
    cr_assert_eq(read_own(&cursor), 1);
    cr_assert(records[0].begin_ns == began_ns && records[0].end_ns >= began_ns && records[0].b == 9);
    cr_assert_eq(cursor.lost, 0);
    gw_trace_waited(GW_TRACE_STAGED, gw_now_ns() - GW_TRACE_WAIT_NS, 1, 2);
    cr_assert_eq(read_own(&cursor), 1);
    do began_ns = gw_trace_begin(); /* until no other thread comes between the two calls */
    while (gw_trace_waited(GW_TRACE_STAGED, began_ns, 1, 2), read_own(&cursor) > 0);
    gw_trace_close(&cursor);
}

Test(trace, a_reader_that_comes_too_late_has_the_newest_and_is_told_how_many_are_lost) {
    gw_trace_cursor cursor;
    gw_trace_open(&cursor);
    for (uint32_t i = 0; i < GW_TRACE_RING + 100; i++) add(i);
    cr_assert_eq(read_own(&cursor), GW_TRACE_RING);
    cr_assert_eq(records[0].a, 100);
    cr_assert_eq(records[GW_TRACE_RING - 1].a, GW_TRACE_RING + 99);
    cr_assert_eq(cursor.lost, 100);
    gw_trace_close(&cursor);
}

Test(trace, each_reader_gets_everything_since_it_has_come) {
    gw_trace_cursor first, second;
    gw_trace_open(&first);
    add(1);
    gw_trace_open(&second);
    add(2);
    cr_assert_eq(read_own(&first), 2);
    cr_assert_eq(read_own(&second), 1);
    cr_assert_eq(records[0].a, 2);
    gw_trace_close(&first);
    add(3);
    cr_assert_eq(read_own(&second), 1, "the other reader has gone");
    gw_trace_close(&second);
    add(4);
    gw_trace_mark(GW_TRACE_STEP, 5, 5);
    gw_trace_open(&first);
    cr_assert_eq(read_own(&first), 0, "what came before is not this reader's");
    gw_trace_close(&first);
}

enum { WRITES = 400000 };

static void *write_many(void *done) {
    pthread_setname_np(pthread_self(), "writer");
    for (uint32_t i = 0; i < WRITES; i++) add(i);
    atomic_store((atomic_bool *)done, true);
    return NULL;
}

/* A record of which a half was overwritten would have numbers that do not fit each other. */
Test(trace, a_reader_beside_a_writer_reads_whole_records_and_counts_the_others) {
    gw_trace_cursor cursor;
    atomic_bool done = false;
    pthread_t writer;
    uint64_t got = 0;
    uint32_t next = 0;
    gw_trace_open(&cursor);
    cr_assert_eq(pthread_create(&writer, NULL, write_many, &done), 0);
    for (bool over = false; !over;) {
        over = atomic_load(&done);
        if (gw_trace_list(threads) == 0) continue;
        uint32_t count = gw_trace_read(&cursor, number_of("writer"), records, GW_TRACE_RING);
        for (uint32_t i = 0; i < count; i++) {
            const gw_trace_record *r = &records[i];
            cr_assert(r->begin_ns == 1000 + r->a && r->end_ns == 2000 + r->a && r->b == UINT64_C(7) * r->a &&
                          r->c == r->a % 5,
                      "record %u is torn", r->a);
            cr_assert_geq(r->a, next);
            next = r->a + 1;
        }
        got += count;
    }
    pthread_join(writer, NULL);
    cr_assert_eq(got + cursor.lost, WRITES);
    cr_assert_eq(next, WRITES);
    gw_trace_close(&cursor);
}

static void *write_one(void *name) {
    pthread_setname_np(pthread_self(), name);
    add(1);
    return NULL;
}

static void run_thread(char *name) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, write_one, name), 0);
    pthread_join(thread, NULL);
}

Test(trace, the_ring_of_a_thread_that_has_ended_is_used_again_once_nobody_reads) {
    gw_trace_cursor cursor;
    char name[GW_TRACE_THREAD_TEXT];
    for (int round = 0; round < 3 * GW_TRACE_THREADS; round++) {
        gw_trace_open(&cursor);
        snprintf(name, sizeof name, "one-%d", round);
        run_thread(name);
        cr_assert_eq(gw_trace_list(threads), 1);
        cr_assert_str_eq(threads[0].name, name);
        cr_assert_eq(gw_trace_read(&cursor, threads[0].number, records, 10), 1);
        gw_trace_close(&cursor);
    }
    cr_assert_eq(gw_trace_homeless(), 0);
}

Test(trace, threads_beyond_the_rings_are_counted) {
    gw_trace_cursor cursor;
    gw_trace_open(&cursor);
    for (int i = 0; i < GW_TRACE_THREADS + 3; i++) run_thread((char[]){"many"});
    cr_assert_eq(gw_trace_list(threads), GW_TRACE_THREADS);
    cr_assert_eq(gw_trace_homeless(), 3);
    add(1);
    cr_assert_eq(gw_trace_homeless(), 4);
    gw_trace_close(&cursor);
    gw_trace_open(&cursor);
    add(2);
    cr_assert_eq(gw_trace_list(threads), 1, "rings are free again, and this thread gets one");
    cr_assert_eq(gw_trace_homeless(), 4);
    gw_trace_close(&cursor);
}
