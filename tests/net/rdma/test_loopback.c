/* Operations on a device that answers late or never. Functions that the linker calls __wrap_ replace the
 * device and the clock. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma/loopback.h"
#include "tests/net/rdma/wraps.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

static const gw_rdma_device device = {.name = "mlx5_0", .port = 1, .atomics = IBV_ATOMIC_HCA};
static const gw_rdma_region region = {.lkey = 1};
static uint64_t now, answers_at, stops_at; /* 0: never */
static unsigned posts, polls, closes;
static gw_rdma_work *outstanding;

uint64_t __wrap_gw_now_ns(void);
bool __wrap_gw_rdma_queue_connect_self(gw_rdma_queue *queue, gw_err *err);

/* A tenth of a second passes between two readings. */
uint64_t __wrap_gw_now_ns(void) {
    now += SECOND / 10;
    if (stops_at != 0 && now >= stops_at) now += 3600 * SECOND;
    return now;
}

const gw_rdma_device *__wrap_gw_rdma_memory_device(const gw_rdma_memory *memory) {
    (void)memory;
    return &device;
}

const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err) {
    (void)memory, (void)start, (void)bytes, (void)access, (void)err;
    return &region;
}

void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region_of) {
    (void)memory, (void)region_of;
}

gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err) {
    (void)memory, (void)options, (void)err;
    return (gw_rdma_queue *)(void *)&outstanding; /* no one looks into it */
}

void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue) {
    closes += queue != NULL;
    outstanding = NULL;
}

bool __wrap_gw_rdma_queue_connect_self(gw_rdma_queue *queue, gw_err *err) {
    (void)queue, (void)err;
    return true;
}

void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work) {
    (void)queue;
    posts++;
    outstanding = work;
}

uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    (void)queue;
    if (++polls > 100000) cr_assert(false, "it waits for ever");
    if (now < answers_at) return 0;
    uint64_t word = 41;
    memcpy(outstanding->local, &word, sizeof word);
    handlers->done(handlers->context, outstanding, GW_RDMA_DONE);
    outstanding = NULL;
    return 1;
}

const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused) {
    (void)queue, (void)refused;
    return NULL;
}

static gw_rdma_loopback *open_loop(void) {
    gw_err err;
    gw_rdma_loopback *loop = gw_rdma_loopback_open(NULL, &err);
    cr_assert(loop != NULL);
    return loop;
}

static bool add(gw_rdma_loopback *loop, gw_err *err) {
    uint64_t found = 0, word = 0;
    bool done = gw_rdma_loopback_add(loop, &word, 1, 1, &found, err);
    if (done) cr_assert_eq(found, 41);
    return done;
}

Test(rdma_loopback, a_device_that_never_answers_is_given_up) {
    gw_err err;
    gw_rdma_loopback *loop = open_loop();
    answers_at = UINT64_MAX;
    cr_assert_not(add(loop, &err));
    cr_assert_eq(err.code, GW_E_TIMEOUT);
    cr_assert_not_null(strstr(err.text, "mlx5_0 port 1"), "%s", err.text);
    cr_assert_geq(now, 10 * SECOND);
    cr_assert_lt(now, 20 * SECOND);
    cr_assert_eq(closes, 1, "what was asked may still happen");
    uint64_t before = now;
    cr_assert_not(add(loop, &err), "others wait no more");
    cr_assert_eq(err.code, GW_E_TIMEOUT);
    cr_assert_eq(now, before);
    cr_assert_eq(posts, 1);
    gw_rdma_loopback_close(loop);
    cr_assert_eq(closes, 1);
}

Test(rdma_loopback, whether_a_device_acts_shows_within_a_second) {
    gw_err err;
    uint64_t word = 0;
    gw_rdma_loopback *loop = open_loop();
    cr_assert(gw_rdma_loopback_prove(loop, &word, 1, &err));
    answers_at = UINT64_MAX;
    uint64_t before = now;
    cr_assert_not(gw_rdma_loopback_prove(loop, &word, 1, &err));
    cr_assert_lt(now, before + 2 * SECOND);
    cr_assert_not_null(strstr(err.text, "within 1 s"), "%s", err.text);
    gw_rdma_loopback_close(loop);
}

Test(rdma_loopback, a_late_answer_counts) {
    gw_err err;
    gw_rdma_loopback *loop = open_loop();
    answers_at = 9 * SECOND;
    cr_assert(add(loop, &err));
    gw_rdma_loopback_close(loop);
}

/* The process is stopped for an hour between two polls, and the answer comes meanwhile. */
Test(rdma_loopback, a_process_that_was_stopped_looks_once_more) {
    gw_err err;
    gw_rdma_loopback *loop = open_loop();
    answers_at = 3600 * SECOND;
    stops_at = 5 * SECOND;
    cr_assert(add(loop, &err));
    gw_rdma_loopback_close(loop);
}
#endif
