/* What is lent of this machine's memory: what a reader can do while a loan lasts, and no more; bounds. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma/loans.h"
#include "tests/lab/rdma_rig.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE = GW_RDMA_SLICE_BYTES, PART = GW_RDMA_PART_BYTES, REGION = 3 };

typedef struct loans_rig {
    rdma_rig rdma;
    gw_rdma_loans *loans;
    uint8_t *memory, *copy;
    const gw_rdma_region *local;
} loans_rig;

static void open_loans(loans_rig *rig, uint64_t bytes, uint64_t kept) {
    static const gw_rdma_queue_options options = {.send_depth = 4};
    const gw_rdma_loans_limits limits = {.kept = kept, .answers = 3 * PART};
    gw_err err;
    rdma_rig_open(&rig->rdma);
    rdma_rig_connect(&rig->rdma, &options);
    rig->memory = malloc(bytes);
    rig->copy = malloc(PART);
    for (uint64_t i = 0; i < bytes; i++) rig->memory[i] = (uint8_t)(i * 7 + (i >> 16));
    rig->loans = gw_rdma_loans_open(rig->rdma.memory, &limits);
    gw_rdma_loans_add(rig->loans, REGION, rig->memory, bytes);
    rig->local = gw_rdma_memory_take(rig->rdma.memory, rig->copy, PART, GW_RDMA_LOCAL, &err);
    cr_assert(rig->local, "%s", err.text);
}

static void close_loans(loans_rig *rig) {
    gw_rdma_loans_close(rig->loans);
    gw_rdma_memory_drop(rig->rdma.memory, rig->local);
    rdma_rig_disconnect(&rig->rdma);
    rdma_rig_close(&rig->rdma);
    free(rig->memory);
    free(rig->copy);
}

static gw_rdma_outcome read_loan(loans_rig *rig, const gw_rdma_loan *loan) {
    gw_rdma_work work = {.verb = GW_RDMA_READ,
                         .local = rig->copy,
                         .lkey = rig->local->lkey,
                         .rkey = loan->rkey,
                         .bytes = loan->bytes,
                         .remote = loan->address};
    memset(rig->copy, 0, PART);
    return rdma_rig_do(rig->rdma.queues[0], &work);
}

static uint64_t kept(const loans_rig *rig) {
    uint64_t answers, regions;
    gw_rdma_loans_count(rig->loans, &answers, &regions);
    return regions;
}

Test(rdma_loans, parts_of_a_region_are_read_and_their_slices_kept) {
    loans_rig rig;
    open_loans(&rig, 2 * SLICE + 1000, 4 * (uint64_t)SLICE);
    const struct {
        uint64_t offset, bytes;
    } parts[] = {{0, PART},   {5, PART - 5},     {SLICE - 1, 1},
                 {SLICE, 77}, {2 * SLICE, 1000}, {2 * SLICE + 999, 1}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const gw_rdma_loan *loan =
            gw_rdma_loans_lend_part(rig.loans, REGION, parts[i].offset, parts[i].bytes);
        cr_assert(loan, "part %zu", i);
        cr_assert_eq(read_loan(&rig, loan), GW_RDMA_DONE);
        cr_assert_arr_eq(rig.copy, rig.memory + parts[i].offset, parts[i].bytes);
        gw_rdma_loans_end(rig.loans, loan);
    }
    cr_assert_eq(kept(&rig), 2 * SLICE + 1000);
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, REGION, 1, PART), "over a multiple");
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, REGION, 2 * SLICE, 1001), "beyond the end");
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, REGION, UINT64_MAX, 2));
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, REGION, 0, 0));
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, REGION + 1, 0, 8), "no such region");
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, GW_MAX_REGIONS, 0, 8));
    close_loans(&rig);
}

Test(rdma_loans, what_is_lent_is_refused_once_it_is_revoked) {
    loans_rig rig;
    open_loans(&rig, 2 * SLICE, 4 * (uint64_t)SLICE);
    const gw_rdma_loan *lent = gw_rdma_loans_lend_part(rig.loans, REGION, 0, PART);
    gw_rdma_loans_end(rig.loans, gw_rdma_loans_lend_part(rig.loans, REGION, SLICE, PART));
    gw_rdma_loans_revoke(rig.loans);
    cr_assert_eq(kept(&rig), SLICE, "a slice that nobody reads keeps its key");
    const gw_rdma_loan *again = gw_rdma_loans_lend_part(rig.loans, REGION, 0, PART);
    cr_assert_eq(read_loan(&rig, again), GW_RDMA_DONE);
    cr_assert_eq(read_loan(&rig, lent), GW_RDMA_REFUSED);
    gw_rdma_loans_end(rig.loans, lent); /* of an older registration: the newer stays lent */
    gw_rdma_loans_revoke(rig.loans);
    cr_assert_eq(kept(&rig), SLICE);
    gw_rdma_loans_end(rig.loans, again);
    close_loans(&rig);
}

Test(rdma_loans, a_region_that_is_removed_is_refused) {
    loans_rig rig;
    open_loans(&rig, SLICE, 4 * (uint64_t)SLICE);
    const gw_rdma_loan *loan = gw_rdma_loans_lend_part(rig.loans, REGION, 0, PART);
    gw_rdma_loans_remove(rig.loans, REGION);
    cr_assert_eq(kept(&rig), 0);
    cr_assert_eq(read_loan(&rig, loan), GW_RDMA_REFUSED);
    gw_rdma_loans_add(rig.loans, REGION, rig.memory, SLICE);
    gw_rdma_loans_end(rig.loans, loan);
    close_loans(&rig);
}

Test(rdma_loans, the_slices_lent_least_recently_are_let_go) {
    loans_rig rig;
    open_loans(&rig, 4 * SLICE, 2 * (uint64_t)SLICE);
    const gw_rdma_loan *loans[4];
    loans[0] = gw_rdma_loans_lend_part(rig.loans, REGION, 0, PART);
    gw_rdma_loans_end(rig.loans, gw_rdma_loans_lend_part(rig.loans, REGION, SLICE, PART));
    loans[2] = gw_rdma_loans_lend_part(rig.loans, REGION, 2 * SLICE, PART);
    cr_assert(loans[2], "slice 1 is let go: nobody reads it");
    cr_assert_eq(kept(&rig), 2 * SLICE);
    cr_assert_null(gw_rdma_loans_lend_part(rig.loans, REGION, 3 * SLICE, PART), "the others are being read");
    cr_assert_eq(read_loan(&rig, loans[0]), GW_RDMA_DONE);
    gw_rdma_loans_end(rig.loans, loans[0]);
    loans[3] = gw_rdma_loans_lend_part(rig.loans, REGION, 3 * SLICE, PART);
    cr_assert_eq(read_loan(&rig, loans[3]), GW_RDMA_DONE);
    cr_assert_eq(read_loan(&rig, loans[2]), GW_RDMA_DONE);
    gw_rdma_loans_end(rig.loans, loans[2]);
    gw_rdma_loans_end(rig.loans, loans[3]);
    close_loans(&rig);
}

static void release(void *context, const void *bytes, uint64_t length) {
    uint32_t *released = context;
    cr_assert_eq(((const uint8_t *)bytes)[length - 1], 9);
    ++*released;
}

static gw_lookup *found(void *bytes, uint64_t length, uint32_t *released) {
    gw_lookup *lookup = calloc(1, sizeof *lookup);
    lookup->status = GW_OP_OK;
    lookup->bytes = bytes;
    lookup->length = length;
    lookup->source = (gw_fetch_provider){.context = released, .release = release};
    return lookup;
}

Test(rdma_loans, answers_are_held_until_they_are_given_back_and_bounded) {
    loans_rig rig;
    uint32_t released = 0;
    open_loans(&rig, SLICE, SLICE);
    uint8_t *bytes = malloc(4 * PART);
    memset(bytes, 9, 4 * PART);
    const gw_rdma_loan *one = gw_rdma_loans_lend_answer(rig.loans, found(bytes, PART, &released));
    const gw_rdma_loan *two = gw_rdma_loans_lend_answer(rig.loans, found(bytes + PART, 2 * PART, &released));
    cr_assert(one && two);
    cr_assert_null(gw_rdma_loans_lend_answer(rig.loans, found(bytes, 1, &released)), "beyond the limit");
    cr_assert_eq(released, 1);
    cr_assert_eq(read_loan(&rig, one), GW_RDMA_DONE);
    cr_assert_arr_eq(rig.copy, bytes, PART);
    gw_rdma_loans_revoke(rig.loans); /* answers are of no view */
    cr_assert_eq(read_loan(&rig, one), GW_RDMA_DONE);
    gw_rdma_loans_end(rig.loans, two);
    cr_assert_eq(released, 2);
    gw_rdma_loan copy = *one;
    gw_rdma_loans_end(rig.loans, one);
    cr_assert_eq(released, 3);
    const gw_rdma_loan *large = gw_rdma_loans_lend_answer(rig.loans, found(bytes, 4 * PART, &released));
    cr_assert(large, "one alone may be larger");
    gw_rdma_loans_end(rig.loans, large);
    cr_assert_eq(read_loan(&rig, &copy), GW_RDMA_REFUSED);
    free(bytes);
    close_loans(&rig);
}
#endif
