/* The rooms below the RDMA path, on a real device: in the lab, Soft-RoCE. Elsewhere they are skipped. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "core/os/clock.h"
#include "net/rdma/loopback.h"
#include "tests/lab/rdma_rig.h"
#include "tests/net/rdma/here.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const gw_rdma_queue_options plain = {.send_depth = 16, .receive_depth = 8, .inline_bytes = 64};

static const gw_rdma_region *take(rdma_rig *rig, void *memory, size_t bytes, gw_rdma_access access) {
    gw_err err;
    const gw_rdma_region *region = gw_rdma_memory_take(rig->memory, memory, bytes, access, &err);
    cr_assert(region, "%s", err.text);
    return region;
}

static uint8_t *pages(size_t bytes) {
    uint8_t *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    cr_assert(memory);
    memset(memory, 0, bytes);
    return memory;
}

Test(rdma_verbs, registrations_are_shared_while_held) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    uint8_t *memory = pages(65536);
    const gw_rdma_region *all = take(&rig, memory, 65536, GW_RDMA_LOCAL);
    cr_assert_eq(take(&rig, memory + 4096, 100, GW_RDMA_LOCAL), all);
    const gw_rdma_region *readable = take(&rig, memory, 4096, GW_RDMA_READABLE);
    cr_assert_neq(readable, all);
    cr_assert_eq(gw_rdma_memory_count(rig.memory), 2);
    cr_assert_eq(rdma_count("mr"), 2);
    gw_rdma_memory_drop(rig.memory, all);
    cr_assert_eq(gw_rdma_memory_count(rig.memory), 2);
    gw_rdma_memory_drop(rig.memory, all);
    gw_rdma_memory_drop(rig.memory, readable);
    cr_assert_eq(gw_rdma_memory_count(rig.memory), 0);
    cr_assert_eq(rdma_count("mr"), 0);
    free(memory);
    rdma_rig_close(&rig);
}

/* As a user without rights and with a small limit. */
Test(rdma_verbs, too_little_locked_memory_is_explained) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    struct rlimit limit = {1 << 16, 1 << 16};
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    cr_assert_eq(setresuid(65534, 65534, 65534), 0);
    uint8_t *memory = pages(1 << 20);
    gw_err err;
    cr_assert_null(gw_rdma_memory_take(rig.memory, memory, 1 << 20, GW_RDMA_LOCAL, &err));
    cr_assert_eq(err.code, GW_E_LIMIT);
    cr_assert(strstr(err.text, " 64 KiB") && strstr(err.text, " 1024 KiB") &&
                  strstr(err.text, "limits.conf") && strstr(err.text, gw_rdma_limits_line),
              "%s", err.text);
    free(memory);
    rdma_rig_close(&rig);
}

Test(rdma_verbs, every_verb) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    rdma_rig_connect(&rig, &plain);
    size_t bytes = (3 << 20) + 8; /* several messages */
    uint8_t *ours = pages(bytes), *theirs = pages(bytes);
    const gw_rdma_region *local = take(&rig, ours, bytes, GW_RDMA_LOCAL);
    const gw_rdma_region *remote = take(&rig, theirs, bytes, GW_RDMA_WRITABLE);
    for (size_t i = 0; i < bytes; i++) ours[i] = (uint8_t)(i * 7 + i / 4096);
    gw_rdma_work work = {.verb = GW_RDMA_WRITE,
                         .local = ours,
                         .lkey = local->lkey,
                         .bytes = bytes,
                         .remote = (uintptr_t)theirs,
                         .rkey = remote->rkey};
    cr_assert_eq(rdma_rig_do(rig.queues[0], &work), GW_RDMA_DONE);
    work.verb = GW_RDMA_READ; /* behind the WRITE on the same queue pair: sees it */
    memset(ours, 0, bytes);
    cr_assert_eq(rdma_rig_do(rig.queues[0], &work), GW_RDMA_DONE);
    for (size_t i = 0; i < bytes; i++) cr_assert_eq(ours[i], (uint8_t)(i * 7 + i / 4096));

    uint64_t *word = (uint64_t *)(void *)theirs, *found = (uint64_t *)(void *)ours;
    *word = 40;
    gw_rdma_work swap = {.verb = GW_RDMA_CAS,
                         .local = ours,
                         .lkey = local->lkey,
                         .remote = (uintptr_t)word,
                         .rkey = remote->rkey,
                         .expected = 40,
                         .operand = 50};
    cr_assert_eq(rdma_rig_do(rig.queues[0], &swap), GW_RDMA_DONE);
    cr_assert(*found == 40 && *word == 50);
    cr_assert_eq(rdma_rig_do(rig.queues[0], &swap), GW_RDMA_DONE);
    cr_assert(*found == 50 && *word == 50);
    swap.verb = GW_RDMA_FETCH_ADD;
    swap.operand = 7;
    cr_assert_eq(rdma_rig_do(rig.queues[0], &swap), GW_RDMA_DONE);
    cr_assert(*found == 50 && *word == 57);

    rdma_rig_disconnect(&rig);
    gw_rdma_memory_drop(rig.memory, local);
    gw_rdma_memory_drop(rig.memory, remote);
    free(ours);
    free(theirs);
    rdma_rig_close(&rig);
}

typedef struct counts {
    uint32_t done, said, bytes;
} counts;

static void count_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    counts *c = context;
    cr_assert_eq(outcome, GW_RDMA_DONE);
    cr_assert_eq(work->immediate, c->done, "in the order posted");
    c->done++;
}

static void count_said(void *context, uint32_t immediate, uint32_t bytes) {
    counts *c = context;
    cr_assert_eq(immediate, c->said);
    c->said++;
    c->bytes += bytes;
}

/* Far more work than the queue is deep, most of it unsignalled; the other side keeps up with its receives. */
Test(rdma_verbs, immediates_come_in_order) {
    enum { WORKS = 1000, SIZE = 40 };
    rdma_rig rig;
    rdma_rig_open(&rig);
    rdma_rig_connect(&rig, &plain);
    uint8_t *theirs = pages(4096), ours[SIZE] = {1, 2, 3};
    const gw_rdma_region *remote = take(&rig, theirs, 4096, GW_RDMA_WRITABLE);
    static gw_rdma_work works[WORKS];
    counts sender = {0}, receiver = {0};
    gw_rdma_handlers sends = {&sender, count_done, count_said},
                     receives = {&receiver, count_done, count_said};
    for (uint32_t i = 0; i < WORKS; i++) {
        works[i] = (gw_rdma_work){.verb = GW_RDMA_WRITE_IMMEDIATE,
                                  .unsignalled = i + 1 < WORKS,
                                  .immediate = i,
                                  .local = ours,
                                  .bytes = SIZE, /* small enough to need no key */
                                  .remote = (uintptr_t)theirs,
                                  .rkey = remote->rkey};
        gw_rdma_queue_post(rig.queues[0], &works[i]);
    }
    while (sender.done < WORKS || receiver.said < WORKS) {
        gw_rdma_queue_poll(rig.queues[0], &sends);
        gw_rdma_queue_poll(rig.queues[1], &receives);
    }
    cr_assert_eq(receiver.bytes, WORKS * SIZE);
    cr_assert_arr_eq(theirs, ours, SIZE);
    cr_assert(!gw_rdma_queue_is_busy(rig.queues[0]));
    rdma_rig_disconnect(&rig);
    gw_rdma_memory_drop(rig.memory, remote);
    free(theirs);
    rdma_rig_close(&rig);
}

/* The kernel takes everything from a device that is removed; nothing else may go wrong with that. */
Test(rdma_verbs, what_went_with_its_device_counts_as_freed) {
    gw_rdma_device_freed(0);
    gw_rdma_device_freed(EIO);
}

Test(rdma_verbs, what_cannot_be_freed_is_a_broken_invariant, .signal = SIGABRT) {
    gw_rdma_device_freed(EBUSY);
}

/* What fencing rests on: keys of a registration that was dropped reach nothing, and a refused operation has
 * done nothing. */
Test(rdma_verbs, old_keys_are_refused) {
    for (int verb = GW_RDMA_WRITE; verb <= GW_RDMA_FETCH_ADD; verb++) {
        rdma_rig rig;
        rdma_rig_open(&rig);
        rdma_rig_connect(&rig, &plain);
        uint64_t *word = (uint64_t *)(void *)pages(4096), *mine = (uint64_t *)(void *)pages(4096);
        const gw_rdma_region *local = take(&rig, mine, 4096, GW_RDMA_LOCAL);
        const gw_rdma_region *old = take(&rig, word, 4096, GW_RDMA_WRITABLE);
        uint32_t old_key = old->rkey;
        /* The new one first: a device may give the key of a region that is gone to the next. */
        const gw_rdma_region *remote = take(&rig, word, 4096, GW_RDMA_WRITABLE);
        gw_rdma_memory_drop(rig.memory, old);
        cr_assert_neq(remote->rkey, old_key);
        mine[0] = 99;
        gw_rdma_work work = {.verb = (gw_rdma_verb)verb,
                             .local = (uint8_t *)mine,
                             .lkey = local->lkey,
                             .bytes = 8,
                             .remote = (uintptr_t)word,
                             .rkey = old_key,
                             .operand = 99};
        cr_assert_eq(rdma_rig_do(rig.queues[0], &work), GW_RDMA_REFUSED);
        cr_assert_eq(*word, 0);
        const gw_err *trouble = gw_rdma_queue_trouble(rig.queues[0], NULL);
        cr_assert(trouble != NULL && strstr(trouble->text, rig.device->name) &&
                      strstr(trouble->text, "access"),
                  "%s", trouble->text);
        cr_assert_eq(trouble->code, GW_E_PEER);
        work.rkey = remote->rkey; /* behind the refusal nothing goes through, whatever its key */
        cr_assert_eq(rdma_rig_do(rig.queues[0], &work), GW_RDMA_REFUSED);
        cr_assert_eq(*word, 0);
        rdma_rig_disconnect(&rig);
        gw_rdma_memory_drop(rig.memory, local);
        gw_rdma_memory_drop(rig.memory, remote);
        free(word);
        free(mine);
        rdma_rig_close(&rig);
    }
}

/* The other side's queue pair is gone: retries run out, and what happened is unknown. */
Test(rdma_verbs, a_destroyed_queue_pair_is_an_error_soon) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    rdma_rig_connect(&rig, &plain);
    uint64_t *word = (uint64_t *)(void *)pages(4096), mine = 0;
    const gw_rdma_region *remote = take(&rig, word, 4096, GW_RDMA_WRITABLE);
    gw_rdma_queue_close(rig.queues[1]);
    rig.queues[1] = NULL;
    gw_rdma_work work = {.verb = GW_RDMA_WRITE,
                         .local = (uint8_t *)&mine,
                         .bytes = 8,
                         .remote = (uintptr_t)word,
                         .rkey = remote->rkey};
    uint64_t start = gw_now_ns();
    cr_assert_eq(rdma_rig_do(rig.queues[0], &work), GW_RDMA_BROKEN);
    cr_log_info("broken after %.3f s", (double)(gw_now_ns() - start) * 1e-9);
    const gw_err *trouble = gw_rdma_queue_trouble(rig.queues[0], NULL);
    cr_assert(strstr(trouble->text, "retry"), "%s", trouble->text);
    cr_assert_eq(trouble->code, GW_E_TIMEOUT);
    rdma_rig_disconnect(&rig);
    gw_rdma_memory_drop(rig.memory, remote);
    free(word);
    rdma_rig_close(&rig);
}

/* One atomicity domain. */

enum { ADDERS = 4, ADDS = 500 };

typedef struct adder {
    gw_rdma_loopback *loop;
    uint64_t *word;
    uint32_t rkey;
    bool by_swap;
    uint64_t sum;
} adder;

static void *add_many(void *argument) {
    adder *a = argument;
    gw_err err;
    uint64_t found;
    for (int i = 0; i < ADDS; i++) {
        if (!a->by_swap) {
            cr_assert(gw_rdma_loopback_add(a->loop, a->word, a->rkey, 1, &found, &err), "%s", err.text);
            continue;
        }
        uint64_t expected = __atomic_load_n(a->word, __ATOMIC_ACQUIRE);
        for (;; expected = found) {
            cr_assert(gw_rdma_loopback_swap(a->loop, a->word, a->rkey, expected, expected + 1, &found, &err),
                      "%s", err.text);
            if (found == expected) break;
        }
    }
    return NULL;
}

/* Owner's threads by the loop, and a thief on a queue pair of its own: every addition counts. */
Test(rdma_verbs, the_owner_and_thieves_share_a_domain) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    rdma_rig_connect(&rig, &plain);
    gw_err err;
    gw_rdma_loopback *loop = gw_rdma_loopback_open(rig.memory, &err);
    cr_assert(loop, "%s", err.text);
    uint64_t *word = (uint64_t *)(void *)pages(4096), *mine = (uint64_t *)(void *)pages(4096);
    const gw_rdma_region *remote = take(&rig, word, 4096, GW_RDMA_WRITABLE);
    const gw_rdma_region *local = take(&rig, mine, 4096, GW_RDMA_LOCAL);
    uint64_t before;
    pthread_t threads[ADDERS];
    adder adders[ADDERS];
    for (int i = 0; i < ADDERS; i++) {
        adders[i] = (adder){.loop = loop, .word = word, .rkey = remote->rkey, .by_swap = i % 2 == 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, add_many, &adders[i]), 0);
    }
    for (int i = 0; i < ADDS; i++) {
        gw_rdma_work work = {.verb = GW_RDMA_FETCH_ADD,
                             .local = (uint8_t *)mine,
                             .lkey = local->lkey,
                             .remote = (uintptr_t)word,
                             .rkey = remote->rkey,
                             .operand = 1};
        cr_assert_eq(rdma_rig_do(rig.queues[0], &work), GW_RDMA_DONE);
    }
    for (int i = 0; i < ADDERS; i++) pthread_join(threads[i], NULL);
    cr_assert_eq(*word, (ADDERS + 1) * ADDS);
    cr_assert(gw_rdma_loopback_store(loop, word, remote->rkey, 3, &before, &err));
    cr_assert_eq(*word, 3);
    gw_rdma_loopback_close(loop);
    rdma_rig_disconnect(&rig);
    gw_rdma_memory_drop(rig.memory, remote);
    gw_rdma_memory_drop(rig.memory, local);
    free(word);
    free(mine);
    rdma_rig_close(&rig);
}

/* Connecting. */

Test(rdma_verbs, a_hundred_connections_leave_nothing) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    uint32_t queue_pairs = rdma_count("qp"), completion_queues = rdma_count("cq"), ids = rdma_count("cm_id"),
             regions = rdma_count("mr");
    for (int i = 0; i < 100; i++) {
        rdma_rig_connect(&rig, &plain);
        if (i == 0) cr_assert_eq(rdma_count("qp"), queue_pairs + 2);
        rdma_rig_disconnect(&rig);
    }
    cr_assert_eq(rdma_count("qp"), queue_pairs);
    cr_assert_eq(rdma_count("cq"), completion_queues);
    cr_assert_eq(rdma_count("mr"), regions);
    uint64_t limit = gw_now_ns() + UINT64_C(60000000000);
    while (rdma_count("cm_id") != ids && gw_now_ns() < limit) gw_loop_turn(rig.loop, UINT64_C(100000000));
    cr_assert_eq(rdma_count("cm_id"), ids);
    rdma_rig_close(&rig);
}

/* The packet that tells it may not leave, and then nothing does any more; so the port must seem to stay up.
 */
Test(rdma_verbs, that_a_connection_was_dropped_is_told_a_while_later) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    rdma_rig_connect(&rig, &plain);
    uint64_t dropped_ns = gw_now_ns();
    gw_rdma_connection_drop(rig.connections[0]);
    rig.connections[0] = NULL;
    while (!rig.ended) gw_loop_turn(rig.loop, UINT64_MAX);
    cr_expect_gt(gw_now_ns() - dropped_ns, UINT64_C(1500000000));
    cr_expect(strstr(rig.why.text, "the peer disconnected"), "%s", rig.why.text);
    rdma_rig_close(&rig);
}

static void dial_in_vain(rdma_rig *rig, const gw_addr *address, const uint8_t secret[GW_RDMA_SECRET]) {
    gw_err err;
    uint8_t bytes[GW_RDMA_HELLO];
    gw_rdma_hello hello = {.dialler = {{1}}, .acceptor = {{2}}};
    gw_rdma_hello_encode(&hello, secret, bytes);
    rig->queues[0] = gw_rdma_queue_open(rig->memory, &plain, &err);
    rig->ended = rig->connected = false;
    rig->connections[0] = gw_rdma_cm_dial(rig->cm, address, rig->queues[0], bytes, rig, &err);
    cr_assert(rig->connections[0], "%s", err.text);
    while (!rig->ended && !rig->connected) gw_loop_turn(rig->loop, UINT64_MAX);
    cr_assert(rig->ended);
    cr_assert(strstr(rig->why.text, rig->device->name) && strstr(rig->why.text, "rejected"), "%s",
              rig->why.text);
    rdma_rig_disconnect(rig);
}

Test(rdma_verbs, dials_that_are_refused) {
    rdma_rig rig;
    rdma_rig_open(&rig);
    uint8_t wrong[GW_RDMA_SECRET] = {8};
    dial_in_vain(&rig, &rig.address, wrong);
    cr_assert(strstr(rig.why.text, "the peer refused it"), "%s", rig.why.text);
    gw_addr nobody = rig.address;
    nobody.port = 9;
    dial_in_vain(&rig, &nobody, rig.secret);
    cr_assert(strstr(rig.why.text, "nobody listens there"), "%s", rig.why.text);
    rdma_rig_close(&rig);
}
#endif
