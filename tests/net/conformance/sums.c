/* All-reduce over rails, as every kind of path must do it (conformance.h): right sums for any size and number
 * of members, early and late entry, abort, death. */
#include "tests/net/conformance/conformance.h"
#include "tests/net/vectors.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <string.h>

/* Returns the bytes that packing has saved. */
static uint64_t check_all(rig *r, uint32_t members, uint64_t epoch, uint64_t count, gw_sum_type type) {
    vector v[RIG_PEERS];
    for (uint32_t m = 0; m < members; m++) {
        v[m] = vector_make(m, type, count);
        vector_start(r, m, members, &v[m], type, epoch, 0);
    }
    uint64_t sent = 0, received = 0, saved = 0;
    for (uint32_t m = 0; m < members; m++) {
        gw_collective_result result = vector_expect(r, m, GW_COLLECTIVE_OK, epoch * 1000);
        sent += result.sent_bytes;
        saved += result.saved_bytes;
        received += result.received_bytes;
    }
    cr_assert_eq(sent, received);
    cr_assert_geq(sent + saved, 2 * (members - 1) * count * (type == GW_SUM_I64 ? 8 : 4),
                  "the least there is");
    for (uint32_t m = 0; m < members; m++) {
        vector_check(&v[m], members, type);
        cr_assert_eq(memcmp(v[m].out, v[0].out, count * (type == GW_SUM_I64 ? 8 : 4)), 0);
    }
    for (uint32_t m = 0; m < members; m++) vector_free(&v[m]);
    return saved;
}

static const uint64_t sizes[] = {1, 2, 7, 100, 4095, 4096, 4097, 8191, 8192, 8193, 20001, 100003};

static void check_sizes(uint32_t kinds, uint32_t rails, bool sealed, gw_sum_type type) {
    uint64_t epoch = 0;
    rig *r = rig_open_over(kinds, 7, rails, sealed);
    for (uint32_t members = 1; members <= 7; members++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            check_all(r, members, ++epoch, sizes[i], type);
        /* On an emulated device all of these would take longer than all other tests together. */
        if (kinds == GW_FABRIC_RDMA && members != 4 && members != 7) continue;
        bool packs = kinds == GW_FABRIC_TCP && type == GW_SUM_I64 && members > 1;
        uint64_t saved = check_all(r, members, ++epoch, 500009, type);
        cr_assert(!packs || saved > 0, "sums of integers travel packed over TCP");
    }
    rig_close(r);
}

void conform_integers_among_1_to_7(uint32_t kinds, bool sealed) {
    check_sizes(kinds, 1, sealed, GW_SUM_I64);
}

void conform_floats_among_1_to_7(uint32_t kinds, bool sealed) {
    check_sizes(kinds, 1, sealed, GW_SUM_F32);
}

void conform_integers_on_three_rails(uint32_t kinds, bool sealed) {
    check_sizes(kinds, 3, sealed, GW_SUM_I64);
}

void conform_nothing_to_sum_is_a_barrier(uint32_t kinds, bool sealed) {
    rig *r = rig_open_over(kinds, 3, 1, sealed);
    vector v[3];
    for (uint32_t m = 0; m < 3; m++) v[m] = vector_make(m, GW_SUM_I64, 0);
    vector_start(r, 0, 3, &v[0], GW_SUM_I64, 1, 0);
    vector_start(r, 1, 3, &v[1], GW_SUM_I64, 1, 0);
    cr_assert_eq(rig_results(&r->peers[0]) + rig_results(&r->peers[1]), 0);
    vector_start(r, 2, 3, &v[2], GW_SUM_I64, 1, 0);
    for (uint32_t m = 0; m < 3; m++) vector_expect(r, m, GW_COLLECTIVE_OK, 1000);
    for (uint32_t m = 0; m < 3; m++) vector_free(&v[m]);
    rig_close(r);
}

void conform_buckets_are_queued_and_end_in_order(uint32_t kinds, bool sealed) {
    enum { MEMBERS = 3, BUCKETS = 12 };
    rig *r = rig_open_over(kinds, MEMBERS, 2, sealed);
    static vector v[MEMBERS][BUCKETS];
    /* Member 0 enters all buckets before the others enter any; the last member enters them one by one. The
     * sizes use both algorithms. */
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t b = 0; b < BUCKETS; b++)
            v[m][b] = vector_make(m, GW_SUM_I64, b % 3 == 0 ? 50 : 200000 + b);
    for (uint32_t m = 0; m < MEMBERS - 1; m++)
        for (uint32_t b = 0; b < BUCKETS; b++) vector_start(r, m, MEMBERS, &v[m][b], GW_SUM_I64, 1, b);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        vector_start(r, MEMBERS - 1, MEMBERS, &v[MEMBERS - 1][b], GW_SUM_I64, 1, b);
        vector_expect(r, MEMBERS - 1, GW_COLLECTIVE_OK, 1000 + b);
    }
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t b = 0; b < BUCKETS; b++) {
            if (m < MEMBERS - 1) vector_expect(r, m, GW_COLLECTIVE_OK, 1000 + b);
            vector_check(&v[m][b], MEMBERS, GW_SUM_I64);
            vector_free(&v[m][b]);
        }
    rig_close(r);
}

/* A large sum among `members`, the last of which never enters; then all abort and try again. */
static void check_abort(uint32_t kinds, uint32_t members, uint64_t count, bool sealed, bool enters) {
    rig *r = rig_open_over(kinds, members, 2, sealed);
    vector v[RIG_PEERS];
    uint64_t epoch = 0;
    for (uint32_t m = 0; m < members; m++) v[m] = vector_make(m, GW_SUM_I64, count);
    for (uint32_t round = 0; round < 10; round++) {
        epoch++;
        bool aborted[RIG_PEERS] = {false};
        for (uint32_t m = 0; m < members - (enters ? 0 : 1); m++)
            vector_start(r, m, members, &v[m], GW_SUM_I64, epoch, 0);
        for (uint32_t m = 0; m < members - (enters ? 0 : 1); m++) {
            gw_code code;
            gw_collective_abort(r->peers[m].collective);
            gw_collective_result result = rig_result(&r->peers[m], &code);
            aborted[m] = result.status == GW_COLLECTIVE_ABORTED;
            cr_assert(aborted[m] || (enters && result.status == GW_COLLECTIVE_OK));
            memset(v[m].out, 0, count * 8); /* the memory is the caller's again */
        }
        cr_assert(enters || aborted[0]);
        epoch++; /* the streams work as before, whatever still flows in them */
        for (uint32_t m = members; m > 0; m--)
            vector_start(r, m - 1, members, &v[m - 1], GW_SUM_I64, epoch, 0);
        for (uint32_t m = 0; m < members; m++) {
            vector_expect(r, m, GW_COLLECTIVE_OK, epoch * 1000);
            vector_check(&v[m], members, GW_SUM_I64);
        }
    }
    for (uint32_t m = 0; m < members; m++) {
        cr_assert_eq(rig_downs(&r->peers[m]), 0);
        vector_free(&v[m]);
    }
    rig_close(r);
}

void conform_aborting_what_others_have_not_entered(uint32_t kinds, bool sealed) {
    check_abort(kinds, 3, 300001, sealed, false);
}

void conform_aborting_in_the_middle(uint32_t kinds, bool sealed) {
    check_abort(kinds, 4, 300001, sealed, true);
}

void conform_aborting_small_sums(uint32_t kinds, bool sealed) {
    check_abort(kinds, 5, 100, sealed, false);
}

void conform_a_member_that_dies_fails_the_sum_and_the_rest_go_on(uint32_t kinds, bool sealed) {
    enum { MEMBERS = 4 };
    const uint64_t count = 1 << 20;
    rig *r = rig_open_over(kinds, MEMBERS, 1, sealed);
    vector v[MEMBERS];
    for (uint32_t m = 0; m < MEMBERS; m++) v[m] = vector_make(m, GW_SUM_I64, count);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if (m == MEMBERS - 1) continue; /* the others wait for it in the middle of the ring */
        vector_start(r, m, MEMBERS, &v[m], GW_SUM_I64, 1, 0);
        vector_start(r, m, MEMBERS, &v[m], GW_SUM_I64, 1, 1);
    }
    gw_collective_close(r->peers[MEMBERS - 1].collective);
    gw_transport_close(r->peers[MEMBERS - 1].transport);
    r->peers[MEMBERS - 1].transport = NULL;
    for (uint32_t m = 0; m < MEMBERS - 1; m++) {
        gw_peer_id dead = rig_id(MEMBERS - 1);
        for (uint32_t bucket = 0; bucket < 2; bucket++) {
            gw_code code;
            gw_collective_result result = rig_result(&r->peers[m], &code);
            cr_assert_eq(result.status, GW_COLLECTIVE_FAILED);
            cr_assert_eq(code, GW_E_PEER);
            cr_assert_eq(result.token, 1000 + bucket);
            cr_assert(gw_peer_id_equal(&result.suspect, &dead));
        }
    }
    for (uint32_t m = 0; m < MEMBERS - 1; m++) vector_start(r, m, MEMBERS - 1, &v[m], GW_SUM_I64, 2, 0);
    for (uint32_t m = 0; m < MEMBERS - 1; m++) {
        vector_expect(r, m, GW_COLLECTIVE_OK, 2000);
        vector_check(&v[m], MEMBERS - 1, GW_SUM_I64);
    }
    for (uint32_t m = 0; m < MEMBERS; m++) vector_free(&v[m]);
    rig_close(r);
}

/* Links break and come back, and calls are aborted, at any moment: every call ends once, and the next
 * undisturbed one is right. */
void conform_chaos_of_links_and_aborts(uint32_t kinds, bool sealed) {
    enum { MEMBERS = 4, ROUNDS = 60 };
    rig *r = rig_open_over(kinds, MEMBERS, 2, sealed);
    gw_rng rng = gw_rng_seeded(1);
    uint32_t good = 0;
    for (uint64_t epoch = 1; epoch <= ROUNDS; epoch++) {
        uint64_t disturb = epoch % 3 == 0 ? 0 : 1 + gw_rng_below(&rng, 3),
                 victim = gw_rng_below(&rng, MEMBERS);
        vector v[2][MEMBERS];
        for (uint32_t m = 0; m < MEMBERS; m++) {
            v[0][m] = vector_make(m, GW_SUM_I64, 100003);
            v[1][m] = vector_make(m, GW_SUM_I64, 60);
        }
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (uint32_t b = 0; b < 2; b++) vector_start(r, m, MEMBERS, &v[b][m], GW_SUM_I64, epoch, b);
        if (disturb == 1) rig_link(r, (uint32_t)victim, (uint32_t)(victim + 1) % MEMBERS);
        if (disturb == 2) rig_link(r, (uint32_t)victim, (uint32_t)(victim + 2) % MEMBERS);
        if (disturb > 0) gw_collective_abort(r->peers[victim].collective);
        for (uint32_t m = 0; m < MEMBERS && disturb > 0; m++) gw_collective_abort(r->peers[m].collective);
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (uint32_t b = 0; b < 2; b++) {
                gw_code code;
                gw_collective_result result = rig_result(&r->peers[m], &code);
                cr_assert_eq(result.token, epoch * 1000 + b);
                cr_assert(disturb > 0 || result.status == GW_COLLECTIVE_OK, "epoch %d", (int)epoch);
                if (result.status == GW_COLLECTIVE_OK) vector_check(&v[b][m], MEMBERS, GW_SUM_I64);
                good += result.status == GW_COLLECTIVE_OK;
            }
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (uint32_t b = 0; b < 2; b++) vector_free(&v[b][m]);
    }
    cr_assert_geq(good, ROUNDS / 3 * MEMBERS * 2);
    rig_close(r);
}
