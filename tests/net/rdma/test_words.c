/* Words at a device that hangs. Functions that the linker calls __wrap_ replace the device and the clock. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "core/base/log.h"
#include "net/rdma/owner.h"
#include "tests/net/rdma/wraps.h"

#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static const gw_rdma_device device = {.name = "mlx5_0", .port = 1, .atomics = IBV_ATOMIC_HCA};
static gw_rdma_region region;
static uint64_t now = SECOND;
static bool hangs;
static unsigned looks, keys;
static char memory, a_loop; /* no one looks into them */

uint64_t __wrap_gw_now_ns(void);
bool __wrap_gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call,
                         void *context, gw_err *err);
bool __real_gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call,
                         void *context, gw_err *err);
gw_rdma_loopback *__wrap_gw_rdma_loopback_open(gw_rdma_memory *of, gw_err *err);
void __wrap_gw_rdma_loopback_close(gw_rdma_loopback *loop);
bool __wrap_gw_rdma_loopback_add(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t operand,
                                 uint64_t *found, gw_err *err);
bool __wrap_gw_rdma_loopback_prove(gw_rdma_loopback *loop, const void *word, uint32_t rkey, gw_err *err);

uint64_t __wrap_gw_now_ns(void) {
    return now;
}

/* Makes every timer due in the next turn of the loop. */
bool __wrap_gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call,
                         void *context, gw_err *err) {
    (void)deadline_ns;
    return __real_gw_timer_set(loop, timer, 0, call, context, err);
}

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *of) {
    return of;
}

void __wrap_gw_rdma_memory_close(gw_rdma_memory *of) {
    (void)of;
}

const gw_rdma_device *__wrap_gw_rdma_memory_device(const gw_rdma_memory *of) {
    (void)of;
    return &device;
}

const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *of, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err) {
    (void)of, (void)bytes, (void)access, (void)err;
    region.start = (void *)(uintptr_t)start;
    region.rkey = ++keys;
    return &region;
}

void __wrap_gw_rdma_memory_drop(gw_rdma_memory *of, const gw_rdma_region *region_of) {
    (void)of, (void)region_of;
}

gw_rdma_loopback *__wrap_gw_rdma_loopback_open(gw_rdma_memory *of, gw_err *err) {
    (void)of, (void)err;
    return (gw_rdma_loopback *)(void *)&a_loop;
}

void __wrap_gw_rdma_loopback_close(gw_rdma_loopback *loop) {
    (void)loop;
}

static bool act(gw_err *err) {
    return !hangs || gw_fail(err, GW_E_TIMEOUT, "it hangs");
}

bool __wrap_gw_rdma_loopback_add(gw_rdma_loopback *loop, const void *word, uint32_t rkey, uint64_t operand,
                                 uint64_t *found, gw_err *err) {
    (void)loop, (void)word, (void)rkey, (void)operand;
    *found = 0;
    return act(err);
}

bool __wrap_gw_rdma_loopback_prove(gw_rdma_loopback *loop, const void *word, uint32_t rkey, gw_err *err) {
    (void)loop, (void)word, (void)rkey;
    looks++;
    now += hangs ? SECOND : 0;
    return act(err);
}

static gw_words *all;
static gw_rdma_words *words;

static void setup(void) {
    gw_err err;
    all = gw_words_open(&err);
    cr_assert_not_null(all, "%s", err.text);
    words = gw_rdma_words_open((gw_rdma_memory *)(void *)&memory, all, &err);
    cr_assert_not_null(words, "%s", err.text);
    cr_assert(gw_rdma_words_publish(words, &err), "%s", err.text);
}

static void teardown(void) {
    gw_rdma_words_close(words);
    gw_words_close(all);
}

TestSuite(rdma_words, .init = setup, .fini = teardown);

static void lose_device(void) {
    uint64_t word = 0;
    const gw_word_domain *domain = gw_rdma_words_domain(words);
    hangs = true;
    (void)domain->act(domain->context, GW_WORD_ADD, &word, 0, 1);
    cr_assert_eq(word, 1, "the processor has done it");
}

/* Does what a fence does. */
static bool publish(void) {
    gw_err err;
    gw_rdma_words_withdraw(words);
    return gw_rdma_words_publish(words, &err);
}

/* For this long views change ten times a second. */
static unsigned looks_within(uint64_t ns) {
    unsigned before = looks;
    for (uint64_t end = now + ns; now < end; now += SECOND / 10) cr_assert_not(publish());
    return looks - before;
}

Test(rdma_words, a_device_that_hangs_is_looked_at_ever_more_seldom) {
    lose_device();
    cr_assert_eq(looks_within(10 * SECOND), 1);
    cr_assert_leq(looks_within(600 * SECOND), 5);
    cr_assert_leq(looks_within(24 * 3600 * SECOND), 145);
    hangs = false;
    now += 600 * SECOND;
    cr_assert(publish());
    lose_device();
    cr_assert_eq(looks_within(40 * SECOND), 2, "the pauses begin again");
}

Test(rdma_words, a_device_that_says_it_is_back_is_looked_at) {
    lose_device();
    cr_assert_eq(looks_within(SECOND), 1);
    hangs = false;
    cr_assert_not(publish());
    gw_rdma_words_retry_now(words);
    cr_assert(publish());
}

/* Tests with guests. */

static uint32_t told; /* the key that the guest was told */
static unsigned tellings;

static void tell(gw_path_endpoint *end, const void *bytes, uint32_t count) {
    gw_rdma_message_body message;
    (void)end;
    cr_assert_eq(gw_rdma_message_decode(bytes, count, &message), GW_RDMA_MESSAGE_WORDS);
    told = message.words.rkey;
    tellings++;
}

static char last_line[200];

static void keep_line(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)level, (void)room;
    snprintf(last_line, sizeof last_line, "%s", text);
}

/* Views may not change for weeks. Each turn of the loop is one of the owner's retries. */
Test(rdma_words, what_a_passing_failure_took_is_told_again_without_a_fence) {
    gw_err err;
    gw_log_set_sink(keep_line, NULL);
    gw_loop *loop = gw_loop_open(&err);
    gw_path_host host = {.loop = loop, .words = all, .tell = tell};
    gw_path path = {.host = &host};
    gw_path_endpoint end = {.path = &path, .peer = {{1}}};
    gw_rdma_owner *owner = gw_rdma_owner_open(&host, (gw_rdma_memory *)(void *)&memory, &err);
    cr_assert_not_null(owner, "%s", err.text);
    gw_rdma_guest guest;
    gw_rdma_guest_enter(&guest, owner, &end);
    gw_rdma_guest_stand(&guest);
    gw_rdma_owner_fence_begin(owner, &end.peer, 1);
    gw_rdma_owner_fence_end(owner, &(gw_fence){.epoch = 1});
    gw_loop_turn(loop, 0);
    cr_assert_eq(tellings, 1, "nothing was lost");

    uint32_t had = told;
    uint64_t word = 0;
    const gw_word_domain *domain = gw_rdma_owner_domain(owner);
    hangs = true;
    (void)domain->act(domain->context, GW_WORD_ADD, &word, 0, 1);
    cr_assert_eq(word, 1, "the processor has done it");
    gw_loop_turn(loop, 0);
    hangs = false;
    gw_loop_turn(loop, 0);
    cr_assert_eq(looks, 1, "it is left alone");
    cr_assert_eq(tellings, 1);
    now += 30 * SECOND;
    gw_loop_turn(loop, 0);
    cr_assert_eq(tellings, 2);
    cr_assert_neq(told, had);
    cr_assert_not_null(strstr(last_line, "go directly again"), "%s", last_line);
    (void)domain->act(domain->context, GW_WORD_ADD, &word, 0, 1);
    cr_assert_eq(word, 1, "the device's again");
    gw_loop_turn(loop, 0);
    cr_assert_eq(tellings, 2);

    gw_rdma_guest_leave(&guest);
    gw_rdma_owner_close(owner);
    gw_loop_close(loop);
}
#endif
