/* Large transfers by a slow device. Functions that the linker calls __wrap_ replace the device. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "core/base/log.h"
#include "net/rdma/reader.h"
#include "tests/net/rdma/wraps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

enum { BYTES = 1 << 20, PIECE = 128 * 1024, POSTS = 128 };

static const gw_rdma_region region = {.lkey = 1};
static int ready_fd; /* readable when the queue pair has completions */
static gw_rdma_work *posted[POSTS];
static uint32_t post_count, done_count, may_do; /* pieces that the device was given, has done, and may do */
static uint32_t completions, passed;
static uint64_t pulled;
static gw_rdma_reader *reader;
static gw_rdma_readers *readers;
static gw_loop *loop;
static uint64_t now_ns = 1000 * SECOND;
static bool breaks, cannot_connect; /* what happens to the queue pair */
static bool no_memory;              /* no memory to read into can be registered */
static const gw_err broken = {.code = GW_E_PEER, .text = "it broke"};

uint64_t __wrap_gw_now_ns(void);

uint64_t __wrap_gw_now_ns(void) {
    return now_ns;
}

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *memory) {
    return memory;
}

void __wrap_gw_rdma_memory_close(gw_rdma_memory *memory) {
    (void)memory;
}

const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err) {
    (void)memory, (void)start, (void)bytes, (void)access;
    if (!no_memory) return &region;
    gw_fail(err, GW_E_NOMEM, "it cannot be taken");
    return NULL;
}

void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region_of) {
    (void)memory, (void)region_of;
}

gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err) {
    (void)memory, (void)options, (void)err;
    post_count = done_count = 0;
    ready_fd = eventfd(0, EFD_NONBLOCK);
    return (gw_rdma_queue *)(void *)&posted; /* no one looks into it */
}

void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue) {
    if (queue != NULL) close(ready_fd);
}

int __wrap_gw_rdma_queue_fd(const gw_rdma_queue *queue) {
    (void)queue;
    return ready_fd;
}

bool __wrap_gw_rdma_queue_arm(gw_rdma_queue *queue) {
    (void)queue;
    return true;
}

void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work) {
    (void)queue;
    cr_assert_lt(post_count, POSTS);
    posted[post_count++] = work;
}

uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    (void)queue;
    if (done_count == post_count || done_count == may_do) return 0;
    handlers->done(handlers->context, posted[done_count++], breaks ? GW_RDMA_BROKEN : GW_RDMA_DONE);
    return 1;
}

const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused) {
    (void)queue;
    if (refused != NULL) *refused = false;
    return breaks && done_count > 0 ? &broken : NULL;
}

bool __wrap_gw_rdma_queue_is_busy(const gw_rdma_queue *queue) {
    (void)queue;
    return done_count < post_count;
}

/* The fabric, and the other side. */

static void tell(gw_path_endpoint *end, const void *bytes, uint32_t count) {
    (void)end, (void)bytes, (void)count;
}

static void completed(gw_path_endpoint *end, const gw_completion *completion) {
    (void)end;
    cr_assert_eq(completion->status, GW_OP_OK);
    completions++;
}

static void on_pulled(gw_path_endpoint *end, uint64_t bytes) {
    (void)end;
    pulled += bytes;
}

static void pass(gw_path_endpoint *end, const gw_op *op) {
    (void)end, (void)op;
    passed++;
}

static void needed(gw_path_endpoint *end) {
    gw_err err;
    (void)end;
    cr_assert_not_null(gw_rdma_reader_renew(reader, &err), "%s", err.text);
    if (cannot_connect)
        gw_rdma_reader_lost(reader, &broken);
    else
        gw_rdma_reader_use(reader);
}

static void let_do(uint32_t more) {
    may_do += more;
    cr_assert_eq(eventfd_write(ready_fd, 1), 0);
    gw_loop_turn(loop, 0);
}

static const gw_path_host host = {.tell = tell, .completed = completed, .pass = pass, .pulled = on_pulled};
static gw_path path = {.host = &host};
static gw_path_endpoint end = {.path = &path};

static void setup(void) {
    gw_err err;
    loop = gw_loop_open(&err);
    cr_assert_not_null(loop, "%s", err.text);
    readers = gw_rdma_readers_open(loop, needed, &err);
    cr_assert_not_null(readers, "%s", err.text);
    reader = gw_rdma_reader_open(readers, &end, NULL, &err);
    cr_assert_not_null(reader, "%s", err.text);
}

static void teardown(void) {
    gw_rdma_reader_close(reader);
    gw_rdma_readers_close(readers);
    gw_loop_close(loop);
}

TestSuite(rdma_reader, .init = setup, .fini = teardown);

/* A large FETCH over a slow line shows progress long before it is complete. */
Test(rdma_reader, what_a_device_has_read_counts_as_it_comes) {
    static uint8_t buffer[BYTES];
    _Atomic uint64_t landed = 0;
    const gw_op op = {.kind = GW_OP_FETCH, .buffer = buffer, .bytes = BYTES, .landed = &landed};
    cr_assert_eq(gw_rdma_reader_post(reader, &op), GW_PATH_STARTED);
    const gw_rdma_lent_message lent = {.answer = GW_RDMA_LENT, .id = 1, .bytes = BYTES};
    cr_assert(gw_rdma_reader_lent(reader, &lent));
    cr_assert_eq(landed, 0);
    let_do(1);
    cr_assert_eq(landed, PIECE);
    let_do(4);
    cr_assert_eq(landed, 5 * PIECE);
    cr_assert_eq(completions, 0);
    let_do(POSTS);
    cr_assert_eq(landed, BYTES);
    cr_assert_eq(pulled, BYTES);
    cr_assert_eq(completions, 1);
}

/* Failing READs. */

static char last_line[200];
static unsigned warnings;

static void keep_line(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    snprintf(last_line, sizeof last_line, "%s", text);
    warnings += level == GW_WARN;
}

/* Fetches something that the other side lends. False if it goes by the rails from the beginning. */
static bool fetch(void) {
    static uint8_t buffer[BYTES];
    static uint64_t id;
    const gw_op op = {.kind = GW_OP_FETCH, .buffer = buffer, .bytes = BYTES};
    uint32_t ended = completions + passed;
    if (gw_rdma_reader_post(reader, &op) == GW_PATH_PASS) return false;
    const gw_rdma_lent_message lent = {.answer = GW_RDMA_LENT, .id = ++id, .bytes = BYTES};
    cr_assert(gw_rdma_reader_lent(reader, &lent));
    may_do = 0;
    while (completions + passed == ended) let_do(POSTS);
    return true;
}

/* READs work again without any help of the other side or the link. */
Test(rdma_reader, a_connection_that_failed_is_tried_again_later) {
    gw_log_set_sink(keep_line, NULL);
    cannot_connect = true;
    for (uint64_t pause = 30; pause < 1000; pause *= 2) {
        uint32_t before = passed;
        cr_assert(fetch());
        cr_assert_eq(passed, before + 1);
        cr_assert_not(fetch());
        now_ns += (pause < 600 ? pause : 600) * SECOND - 1;
        cr_assert_not(fetch(), "%lu s", pause);
        now_ns++;
    }
    cr_assert_not_null(strstr(last_line, "it broke"), "%s", last_line);
    cr_assert_eq(warnings, 1, "%u lines", warnings);
    cannot_connect = false;
    cr_assert(fetch());
    cr_assert_eq(completions, 1);
    cr_assert_not_null(strstr(last_line, "are READ again"), "%s", last_line);
}

/* As if the process may lock little memory: the condition lasts, some memory can be registered now and then,
 * and the input of each shard may be read this way. */
Test(rdma_reader, memory_that_cannot_be_taken_is_told_of_once) {
    gw_log_set_sink(keep_line, NULL);
    for (uint32_t time = 1; time <= 2; time++) {
        for (uint32_t i = 0; i < 10; i++) {
            no_memory = i % 2 == 0;
            cr_assert(fetch());
            now_ns += 60 * SECOND;
        }
        cr_assert_eq(passed, 5 * time);
        cr_assert_eq(completions, 5 * time);
        cr_assert_eq(warnings, time);
        now_ns += 600 * SECOND;
    }
    cr_assert_not_null(strstr(last_line, "it cannot be taken: the transfer comes in messages"), "%s",
                       last_line);
}

Test(rdma_reader, what_broke_again_and_again_is_tried_again_later) {
    gw_log_set_sink(keep_line, NULL);
    breaks = true;
    for (uint32_t i = 1; i <= 3; i++) {
        cr_assert(fetch());
        cr_assert_eq(passed, i);
    }
    cr_assert_not(fetch());
    now_ns += 30 * SECOND;
    cr_assert(fetch());
    cr_assert_not(fetch(), "one more is enough");
    now_ns += 59 * SECOND;
    cr_assert_not(fetch());
    now_ns += SECOND;
    breaks = false;
    cr_assert(fetch());
    cr_assert_eq(completions, 1);
    cr_assert_eq(pulled, BYTES);
    breaks = true;
    for (uint32_t i = 0; i < 3; i++) cr_assert(fetch(), "all is as in the beginning");
    cr_assert_not(fetch());
    cr_assert_eq(warnings, 2);
}
#endif
