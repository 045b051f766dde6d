/* Peers linked by RDMA, on this machine's device; skipped where there is none. CTest runs it in the lab, too.
 */
#include "tests/net/data_rig.h"
#include "tests/net/rdma/here.h"
#include "tests/net/shm/stopped_victim.h"

#include <criterion/criterion.h>

enum { WORDS = 1 };

static rig *open_rig(uint32_t count) {
    rdma_here();
    return rig_open_over(GW_FABRIC_RDMA, count, 1, true);
}

static void share(rig *r) {
    gw_err err;
    for (uint32_t i = 0; i < r->count; i++)
        cr_assert(gw_transport_share_words(r->peers[i].transport, WORDS, 8, &err), "%s", err.text);
}

static gw_op word_op(rig *r, gw_op_kind kind, uint32_t to, uint64_t index) {
    return (gw_op){.kind = kind,
                   .token = 5,
                   .peer = r->peers[to].id,
                   .fence = rig_fence(1),
                   .region = WORDS,
                   .offset = 8 * index,
                   .bytes = 8};
}

Test(rdma_path, words) {
    rig *r = open_rig(2);
    share(r);
    rig_fence_all(r, 1);
    gw_transport *owner = r->peers[1].transport;
    gw_transport_word_store(owner, WORDS, 2, 41);
    gw_op op = word_op(r, GW_OP_CAS, 1, 2);
    op.expected = 41;
    op.operand = 42;
    gw_completion c = rig_do(&r->peers[0], &op);
    cr_assert_eq(c.status, GW_OP_OK, "%s", gw_op_status_name(c.status));
    cr_assert_eq(c.value, 41);
    cr_assert_eq(gw_transport_word_load(owner, WORDS, 2), 42);
    c = rig_do(&r->peers[0], &op);
    cr_assert(c.status == GW_OP_MISMATCH && c.value == 42);
    rig_close(r);
}

/* New links and moved fences leave nothing behind at the device. */
Test(rdma_path, links_and_fences_leave_nothing) {
    static const char *const kinds[] = {"qp", "cq", "mr", "cm_id"};
    enum { KINDS = sizeof kinds / sizeof kinds[0], LINKS = 20 };
    uint32_t before[KINDS];
    rig *r = open_rig(2);
    share(r);
    gw_op op = word_op(r, GW_OP_FETCH_ADD, 1, 0);
    op.operand = 1;
    for (uint32_t i = 0; i <= LINKS; i++) {
        if (i > 0) rig_link(r, 1, 0);
        rig_fence_all(r, i + 1);
        op.fence = rig_fence(i + 1);
        cr_assert_eq(rig_do(&r->peers[0], &op).value, i);
        if (i > 0) continue;
        for (int k = 0; k < KINDS; k++) before[k] = rdma_count(kinds[k]);
    }
    /* The queue pairs for words come and go on their own, so two counts may differ by this many. */
    for (int k = 0; k < KINDS; k++) {
        uint32_t after = rdma_count_down_to(kinds[k], before[k] + 4);
        cr_assert(after <= before[k] + 4, "%s: %u, was %u", kinds[k], after, before[k]);
    }
    rig_close(r);
    for (int k = 0; k < KINDS; k++) cr_assert_eq(rdma_count(kinds[k]), 0, "%s", kinds[k]);
}

/* Operations reach the words without the owner's threads once the keys have been told. */
Test(rdma_path, operations_go_directly) {
    rig *r = open_rig(2);
    share(r);
    rig_fence_all(r, 1);
    gw_op op = word_op(r, GW_OP_FETCH_ADD, 1, 0);
    op.operand = 1;
    uint64_t done = 0, served;
    do { /* until the queue pair for them is connected */
        served = gw_transport_count(r->peers[1].transport).served;
        cr_assert_eq(rig_do(&r->peers[0], &op).value, done++);
    } while (gw_transport_count(r->peers[1].transport).served != served);
    for (int i = 0; i < 100; i++) cr_assert_eq(rig_do(&r->peers[0], &op).value, done++);
    cr_assert_eq(gw_transport_count(r->peers[1].transport).served, served);
    cr_assert_eq(gw_transport_word_load(r->peers[1].transport, WORDS, 0), done);
    rig_close(r);
}

Test(rdma_path, a_thief_takes_half_of_a_stopped_victims_range) {
    rdma_here();
    stopped_victim_is_stolen_from(GW_FABRIC_RDMA);
}
