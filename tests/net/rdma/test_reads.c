/* Large READs and FETCHes between peers linked by RDMA: the device transfers the bytes, and both sides
 * survive whatever ends the loan in the middle (for fences: conformance.h). Runs on this machine's device,
 * and is skipped if there is none. CTest runs it in the lab. */
#include "tests/net/data_rig.h"
#include "tests/net/rdma/here.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { DATA = 2, MIB = 1 << 20, ANSWER = MIB - 1 /* the answer of data_rig's provider */ };

static rig *open_rig(uint32_t count) {
    rdma_here();
    rig *r = rig_open_over(GW_FABRIC_RDMA, count, 1, true);
    rig_fence_all(r, 1);
    return r;
}

static uint8_t *sample(uint64_t bytes) {
    uint8_t *data = malloc(bytes);
    for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 31 + (i >> 12));
    return data;
}

static void offer(rig *r, uint32_t peer, const void *data, uint64_t bytes) {
    gw_err err;
    cr_assert(gw_transport_register(r->peers[peer].transport, DATA, data, bytes, &err), "%s", err.text);
}

static gw_op read_of(uint32_t from, uint64_t offset, uint64_t bytes, void *into) {
    static uint64_t token;
    return (gw_op){.kind = GW_OP_READ,
                   .token = ++token,
                   .peer = rig_id(from),
                   .fence = rig_fence(1),
                   .region = DATA,
                   .offset = offset,
                   .bytes = bytes,
                   .buffer = into};
}

static gw_op fetch_from(uint32_t from, uint64_t most, void *into) {
    gw_op op = {.kind = GW_OP_FETCH, .token = 1, .peer = rig_id(from), .bytes = most, .buffer = into};
    op.name.bytes[0] = 7;
    return op;
}

static uint64_t pulled(const rig *r, uint32_t peer) {
    return gw_transport_count(r->peers[peer].transport).pulled_bytes;
}

Test(rdma_reads, large_ones_are_taken_by_the_device_and_small_ones_are_sent) {
    const uint64_t bytes = 18 * MIB + 11; /* of two slices */
    uint8_t *data = sample(bytes), *copy = calloc(bytes, 1);
    rig *r = open_rig(2);
    offer(r, 1, data, bytes);
    uint64_t served = gw_transport_count(r->peers[1].transport).served;
    gw_op read = read_of(1, 3, bytes - 3, copy);
    cr_assert_eq(rig_do(&r->peers[0], &read).status, GW_OP_OK);
    cr_assert_eq(memcmp(copy, data + 3, bytes - 3), 0);
    cr_assert_eq(pulled(r, 0), bytes - 3);
    gw_op fetch = fetch_from(1, bytes, copy);
    gw_completion c = rig_do(&r->peers[0], &fetch);
    cr_assert(c.status == GW_OP_OK && c.value == ANSWER);
    for (uint64_t i = 0; i < c.value; i++) cr_assert_eq(copy[i], 7);
    cr_assert_eq(pulled(r, 0), bytes - 3 + ANSWER);
    rig_wait_answers_back(&r->peers[1]);
    cr_assert_eq(gw_transport_count(r->peers[1].transport).served, served, "the owner sent none of it");
    read = read_of(1, 5, 6000, copy);
    cr_assert_eq(rig_do(&r->peers[0], &read).status, GW_OP_OK);
    cr_assert_eq(memcmp(copy, data + 5, 6000), 0);
    cr_assert_eq(pulled(r, 0), bytes - 3 + ANSWER);
    cr_assert_eq(gw_transport_count(r->peers[1].transport).served, served + 1);
    rig_close(r);
    free(data);
    free(copy);
}

Test(rdma_reads, everybody_reads_from_everybody_at_once) {
    enum { PEERS = 3, EACH = 2 };
    const uint64_t bytes = 5 * MIB;
    uint8_t *data = sample(bytes), *copies = calloc(PEERS * EACH, bytes);
    rig *r = open_rig(PEERS);
    for (uint32_t i = 0; i < PEERS; i++) offer(r, i, data, bytes);
    for (uint32_t i = 0; i < EACH * PEERS; i++) {
        gw_op read = read_of((i % PEERS + 1 + i / PEERS % (PEERS - 1)) % PEERS, 0, bytes, copies + i * bytes);
        gw_transport_post(r->peers[i % PEERS].transport, &read);
    }
    for (uint32_t i = 0; i < EACH * PEERS; i++)
        cr_assert_eq(rig_completion(&r->peers[i % PEERS]).status, GW_OP_OK);
    for (uint32_t i = 0; i < EACH * PEERS; i++) cr_assert_eq(memcmp(copies + i * bytes, data, bytes), 0);
    for (uint32_t i = 0; i < PEERS; i++) cr_assert_eq(pulled(r, i), EACH * bytes);
    rig_close(r);
    free(data);
    free(copies);
}

/* Waits until so many more bytes have been transferred, or the peer has received a completion. */
static void await_pulled(rig *r, uint32_t peer, uint64_t bytes) {
    uint64_t until = pulled(r, peer) + bytes, news = atomic_load(&r->peers[peer].news);
    while (pulled(r, peer) < until && atomic_load(&r->peers[peer].news) == news) sched_yield();
}

/* A peer that still reads is refused, and nothing for which the memory is used next is taken for the region's
 * bytes. Keys are revoked before, between and in the middle of the device's READs. */
Test(rdma_reads, a_region_withdrawn_while_it_is_read_is_denied) {
    enum { ROUNDS = 6 };
    const uint64_t bytes = 12 * MIB;
    uint8_t *data = malloc(bytes), *copy = malloc(bytes);
    rig *r = open_rig(2);
    uint32_t denied = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(data, 5, bytes);
        offer(r, 1, data, bytes);
        gw_op read = read_of(1, 0, bytes, copy);
        gw_transport_post(r->peers[0].transport, &read);
        await_pulled(r, 0, round * MIB);
        gw_transport_withdraw(r->peers[1].transport, DATA);
        memset(data, 6, bytes);
        gw_op_status status = rig_completion(&r->peers[0]).status;
        cr_assert(status == GW_OP_DENIED || status == GW_OP_OK, "%s", gw_op_status_name(status));
        denied += status == GW_OP_DENIED;
        cr_assert(status != GW_OP_OK || (copy[0] == 5 && memcmp(copy, copy + 1, bytes - 1) == 0));
    }
    cr_assert_geq(denied, 3);
    cr_assert_eq(rig_downs(&r->peers[0]) + rig_downs(&r->peers[1]), 0, "the link does not mind");
    rig_close(r);
    free(data);
    free(copy);
}

Test(rdma_reads, abandoned_fetches_give_back_what_was_lent) {
    enum { AT_ONCE = 6 };
    uint8_t *copy = malloc(AT_ONCE * MIB);
    rig *r = open_rig(2);
    for (uint32_t round = 0; round < 10; round++) {
        gw_op fetch;
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            fetch = fetch_from(1, MIB, copy + i * MIB);
            gw_transport_post(r->peers[0].transport, &fetch);
        }
        uint32_t waited = round % 5;
        for (uint32_t i = 0; i < waited; i++) cr_assert_eq(rig_completion(&r->peers[0]).status, GW_OP_OK);
        gw_transport_abandon(r->peers[0].transport, NULL);
        memset(copy, 1, AT_ONCE * MIB);
        for (uint32_t i = waited; i < AT_ONCE; i++) {
            gw_op_status status = rig_completion(&r->peers[0]).status;
            cr_assert(status == GW_OP_OK || status == GW_OP_UNKNOWN || status == GW_OP_UNREACHABLE);
        }
        rig_wait_answers_back(&r->peers[1]);
        cr_assert(copy[0] == 1 && memcmp(copy, copy + 1, AT_ONCE * MIB - 1) == 0,
                  "a byte was written after the operation was abandoned");
    }
    gw_op fetch = fetch_from(1, MIB, copy);
    cr_assert_eq(rig_do(&r->peers[0], &fetch).status, GW_OP_OK);
    cr_assert_eq(rig_downs(&r->peers[0]) + rig_downs(&r->peers[1]), 0);
    rig_close(r);
    free(copy);
}

static void expect_ended(rig_peer *p, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        gw_op_status status = rig_completion(p).status;
        cr_assert(status == GW_OP_OK || status == GW_OP_UNKNOWN || status == GW_OP_UNREACHABLE, "%s",
                  gw_op_status_name(status));
    }
}

/* The link is cut by either side, or the owner is gone. */
Test(rdma_reads, a_link_cut_in_the_middle_ends_them_and_gives_back) {
    enum { AT_ONCE = 4 };
    const uint64_t bytes = 5 * MIB;
    uint8_t *data = sample(bytes), *copy = malloc(bytes * AT_ONCE);
    rig *r = open_rig(2);
    offer(r, 1, data, bytes);
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t cutter = round % 2;
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            gw_op op =
                i % 2 == 0 ? read_of(1, 0, bytes, copy + i * bytes) : fetch_from(1, bytes, copy + i * bytes);
            gw_transport_post(r->peers[0].transport, &op);
        }
        if (round > 1) cr_assert_eq(rig_completion(&r->peers[0]).status, GW_OP_OK);
        gw_transport_unlink(r->peers[cutter].transport, &r->peers[1 - cutter].id);
        expect_ended(&r->peers[0], AT_ONCE - (round > 1));
        rig_wait_answers_back(&r->peers[1]);
        rig_link(r, 0, 1);
        rig_fence_all(r, 1);
    }
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        gw_op read = read_of(1, 0, bytes, copy + i * bytes);
        gw_transport_post(r->peers[0].transport, &read);
    }
    gw_collective_close(r->peers[1].collective);
    gw_transport_close(r->peers[1].transport);
    r->peers[1].transport = NULL;
    expect_ended(&r->peers[0], AT_ONCE);
    cr_assert_eq(r->peers[1].answers, 0);
    rig_close(r);
    free(data);
    free(copy);
}

/* READs that are refused, abandoned or cut leave nothing behind at the device. */
Test(rdma_reads, leave_nothing) {
    static const char *const kinds[] = {"qp", "cq", "mr", "cm_id"};
    enum { KINDS = sizeof kinds / sizeof kinds[0], ROUNDS = 30 };
    const uint64_t bytes = 5 * MIB;
    uint8_t *data = sample(bytes), *copy = malloc(bytes);
    uint32_t before[KINDS];
    rig *r = open_rig(2);
    offer(r, 1, data, bytes);
    gw_op fetch = fetch_from(1, MIB, copy), read = read_of(1, 0, bytes, copy);
    for (uint32_t i = 0; i <= ROUNDS; i++) {
        read.fence = rig_fence(i + 1);
        gw_transport_post(r->peers[0].transport, &read);
        gw_transport_post(r->peers[0].transport, &fetch);
        rig_fence_all(r, i + 2);
        if (i % 3 == 1) gw_transport_abandon(r->peers[0].transport, NULL);
        (void)rig_completion(&r->peers[0]);
        (void)rig_completion(&r->peers[0]);
        if (i % 10 == 5) rig_link(r, 1, 0);
        gw_op again = fetch;
        cr_assert_eq(rig_do(&r->peers[0], &again).status, GW_OP_OK);
        rig_wait_answers_back(&r->peers[1]);
        for (int k = 0; k < KINDS && i == 0; k++) before[k] = rdma_count(kinds[k]);
    }
    /* The queue pairs for words and READs come and go on their own, and slices are kept. */
    for (int k = 0; k < KINDS; k++) {
        uint32_t after = rdma_count_down_to(kinds[k], before[k] + 8);
        cr_assert(after <= before[k] + 8, "%s: %u, was %u", kinds[k], after, before[k]);
    }
    rig_close(r);
    for (int k = 0; k < KINDS; k++) cr_assert_eq(rdma_count(kinds[k]), 0, "%s", kinds[k]);
    free(data);
    free(copy);
}
