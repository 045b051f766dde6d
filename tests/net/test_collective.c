/* All-reduce over lanes: right sums for any size and number of members, early and late entry, abort, death,
 * stale and foreign messages. */
#include "data_rig.h"

#include "core/rng.h"
#include "net/collective_part.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One member's vector, in pieces of odd sizes. */
typedef struct vector {
    uint64_t count;
    void *in, *out;
    gw_collective_piece pieces[8];
    uint32_t piece_count;
} vector;

static int64_t integer_at(uint32_t member, uint64_t i) {
    return (int64_t)((i * 2654435761u + member * 40503u) ^ (uint64_t)member << 61); /* sums wrap */
}

static float float_at(uint32_t member, uint64_t i) {
    return 1.0f / (float)(1 + i % 1000 + 7 * member);
}

static vector make_vector(uint32_t member, gw_sum_type type, uint64_t count) {
    vector v = {.count = count, .in = malloc(count * 8 + 8), .out = malloc(count * 8 + 8)};
    uint64_t size = type == GW_SUM_I64 ? 8 : 4;
    for (uint64_t i = 0; i < count; i++)
        if (type == GW_SUM_I64)
            ((int64_t *)v.in)[i] = integer_at(member, i);
        else
            ((float *)v.in)[i] = float_at(member, i);
    memset(v.out, 0xa5, count * size);
    const uint64_t cuts[] = {0, 1, 1, count / 3, count / 2, count / 2 + 1, count};
    uint64_t from = 0;
    for (uint32_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        uint64_t to = cuts[i] > count ? count : cuts[i] < from ? from : cuts[i];
        v.pieces[v.piece_count++] =
            (gw_collective_piece){(uint8_t *)v.in + from * size, (uint8_t *)v.out + from * size, to - from};
        from = to;
    }
    return v;
}

static void free_vector(vector *v) {
    free(v->in);
    free(v->out);
}

/* The members' ids in rank order: peer rank is peers[rank]. */
static void start(rig *r, uint32_t rank, uint32_t members, const vector *v, gw_sum_type type, uint64_t epoch,
                  uint32_t bucket) {
    gw_peer_id ids[RIG_PEERS];
    for (uint32_t i = 0; i < members; i++) ids[i] = rig_id(i);
    gw_collective_call call = {.tag = {.fence = rig_fence(epoch), .step = 1, .bucket = bucket},
                               .type = type,
                               .members = ids,
                               .member_count = members,
                               .rank = rank,
                               .pieces = v->pieces,
                               .piece_count = v->piece_count,
                               .progress_ms = 60000,
                               .token = epoch * 1000 + bucket};
    gw_err err;
    cr_assert(gw_collective_start(r->peers[rank].collective, &call, &err), "%s", err.text);
}

static gw_collective_result expect(rig *r, uint32_t rank, gw_collective_status status, uint64_t token) {
    gw_code code;
    gw_collective_result result = rig_result(&r->peers[rank], &code);
    cr_assert_eq(result.status, status, "rank %u: status %d, code %d", rank, (int)result.status, (int)code);
    cr_assert_eq(result.token, token);
    cr_assert_eq(code == GW_OK, status != GW_COLLECTIVE_FAILED);
    return result;
}

static void check_sum(const vector *v, uint32_t members, gw_sum_type type) {
    for (uint64_t i = 0; i < v->count; i++) {
        if (type == GW_SUM_I64) {
            uint64_t sum = 0;
            for (uint32_t m = 0; m < members; m++) sum += (uint64_t)integer_at(m, i);
            cr_assert_eq(((uint64_t *)v->out)[i], sum, "element %lu of %lu", i, v->count);
        } else {
            double sum = 0;
            for (uint32_t m = 0; m < members; m++) sum += (double)float_at(m, i);
            double error = (double)((float *)v->out)[i] - sum;
            cr_assert(error < 1e-6 && error > -1e-6, "element %lu of %lu", i, v->count);
        }
    }
}

static void check_all(rig *r, uint32_t members, uint64_t epoch, uint64_t count, gw_sum_type type) {
    vector v[RIG_PEERS];
    for (uint32_t m = 0; m < members; m++) {
        v[m] = make_vector(m, type, count);
        start(r, m, members, &v[m], type, epoch, 0);
    }
    uint64_t sent = 0, received = 0;
    for (uint32_t m = 0; m < members; m++) {
        gw_collective_result result = expect(r, m, GW_COLLECTIVE_OK, epoch * 1000);
        sent += result.sent_bytes;
        received += result.received_bytes;
    }
    cr_assert_eq(sent, received);
    cr_assert_geq(sent, 2 * (members - 1) * count * (type == GW_SUM_I64 ? 8 : 4), "the least there is");
    for (uint32_t m = 0; m < members; m++) {
        check_sum(&v[m], members, type);
        cr_assert_eq(memcmp(v[m].out, v[0].out, count * (type == GW_SUM_I64 ? 8 : 4)), 0);
    }
    for (uint32_t m = 0; m < members; m++) free_vector(&v[m]);
}

static const uint64_t sizes[] = {1, 2, 7, 100, 8191, 8192, 8193, 16384, 16385, 20001, 100003, 500009};

static void check_sizes(uint32_t lanes, bool sealed, gw_sum_type type) {
    uint64_t epoch = 0;
    rig *r = rig_open(7, lanes, sealed);
    for (uint32_t members = 1; members <= 7; members++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            check_all(r, members, ++epoch, sizes[i], type);
    rig_close(r);
}

Test(collective, integers_among_1_to_7) {
    check_sizes(1, false, GW_SUM_I64);
}
Test(collective, floats_among_1_to_7) {
    check_sizes(1, false, GW_SUM_F32);
}
Test(collective, integers_on_three_lanes) {
    check_sizes(3, false, GW_SUM_I64);
}
Test(collective, integers_sealed) {
    check_sizes(2, true, GW_SUM_I64);
}

Test(collective, nothing_to_sum_is_a_barrier) {
    rig *r = rig_open(3, 1, false);
    vector v[3];
    for (uint32_t m = 0; m < 3; m++) v[m] = make_vector(m, GW_SUM_I64, 0);
    start(r, 0, 3, &v[0], GW_SUM_I64, 1, 0);
    start(r, 1, 3, &v[1], GW_SUM_I64, 1, 0);
    cr_assert_eq(rig_results(&r->peers[0]) + rig_results(&r->peers[1]), 0);
    start(r, 2, 3, &v[2], GW_SUM_I64, 1, 0);
    for (uint32_t m = 0; m < 3; m++) expect(r, m, GW_COLLECTIVE_OK, 1000);
    for (uint32_t m = 0; m < 3; m++) free_vector(&v[m]);
    rig_close(r);
}

Test(collective, buckets_are_queued_and_end_in_order) {
    enum { MEMBERS = 3, BUCKETS = 12 };
    rig *r = rig_open(MEMBERS, 2, false);
    static vector v[MEMBERS][BUCKETS];
    /* Member 0 enters all buckets before the others enter any; the last one goes one by one. Sizes mix both
     * algorithms. */
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t b = 0; b < BUCKETS; b++)
            v[m][b] = make_vector(m, GW_SUM_I64, b % 3 == 0 ? 50 : 200000 + b);
    for (uint32_t m = 0; m < MEMBERS - 1; m++)
        for (uint32_t b = 0; b < BUCKETS; b++) start(r, m, MEMBERS, &v[m][b], GW_SUM_I64, 1, b);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        start(r, MEMBERS - 1, MEMBERS, &v[MEMBERS - 1][b], GW_SUM_I64, 1, b);
        expect(r, MEMBERS - 1, GW_COLLECTIVE_OK, 1000 + b);
    }
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t b = 0; b < BUCKETS; b++) {
            if (m < MEMBERS - 1) expect(r, m, GW_COLLECTIVE_OK, 1000 + b);
            check_sum(&v[m][b], MEMBERS, GW_SUM_I64);
            free_vector(&v[m][b]);
        }
    rig_close(r);
}

/* A large sum among `members`, of which the last never enters; then all abort and try again. */
static void check_abort(uint32_t members, uint64_t count, bool sealed, bool enters) {
    rig *r = rig_open(members, 2, sealed);
    vector v[RIG_PEERS];
    uint64_t epoch = 0;
    for (uint32_t m = 0; m < members; m++) v[m] = make_vector(m, GW_SUM_I64, count);
    for (uint32_t round = 0; round < 10; round++) {
        epoch++;
        bool aborted[RIG_PEERS] = {false};
        for (uint32_t m = 0; m < members - (enters ? 0 : 1); m++)
            start(r, m, members, &v[m], GW_SUM_I64, epoch, 0);
        for (uint32_t m = 0; m < members - (enters ? 0 : 1); m++) {
            gw_code code;
            gw_collective_abort(r->peers[m].collective);
            gw_collective_result result = rig_result(&r->peers[m], &code);
            aborted[m] = result.status == GW_COLLECTIVE_ABORTED;
            cr_assert(aborted[m] || (enters && result.status == GW_COLLECTIVE_OK));
            memset(v[m].out, 0, count * 8); /* ours again */
        }
        cr_assert(enters || aborted[0]);
        epoch++; /* the streams are as good as before, whatever still flows in them */
        for (uint32_t m = members; m > 0; m--) start(r, m - 1, members, &v[m - 1], GW_SUM_I64, epoch, 0);
        for (uint32_t m = 0; m < members; m++) {
            expect(r, m, GW_COLLECTIVE_OK, epoch * 1000);
            check_sum(&v[m], members, GW_SUM_I64);
        }
    }
    for (uint32_t m = 0; m < members; m++) {
        cr_assert_eq(rig_downs(&r->peers[m]), 0);
        free_vector(&v[m]);
    }
    rig_close(r);
}

Test(collective, aborting_what_others_have_not_entered) {
    check_abort(3, 300001, false, false);
}
Test(collective, aborting_in_the_middle) {
    check_abort(4, 300001, false, true);
}
Test(collective, aborting_in_the_middle_sealed) {
    check_abort(3, 300001, true, true);
}
Test(collective, aborting_small_sums) {
    check_abort(5, 100, false, false);
}

Test(collective, a_member_that_dies_fails_the_sum_and_the_rest_go_on) {
    enum { MEMBERS = 4 };
    const uint64_t count = 1 << 20;
    rig *r = rig_open(MEMBERS, 1, false);
    vector v[MEMBERS];
    for (uint32_t m = 0; m < MEMBERS; m++) v[m] = make_vector(m, GW_SUM_I64, count);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if (m == MEMBERS - 1) continue; /* the others wait for it in the middle of the ring */
        start(r, m, MEMBERS, &v[m], GW_SUM_I64, 1, 0);
        start(r, m, MEMBERS, &v[m], GW_SUM_I64, 1, 1);
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
    for (uint32_t m = 0; m < MEMBERS - 1; m++) start(r, m, MEMBERS - 1, &v[m], GW_SUM_I64, 2, 0);
    for (uint32_t m = 0; m < MEMBERS - 1; m++) {
        expect(r, m, GW_COLLECTIVE_OK, 2000);
        check_sum(&v[m], MEMBERS - 1, GW_SUM_I64);
    }
    for (uint32_t m = 0; m < MEMBERS; m++) free_vector(&v[m]);
    rig_close(r);
}

/* Links that break and come back, and aborts, at any moment: every call ends once, and the next undisturbed
 * one is right. */
static void check_chaos(bool sealed, uint64_t seed) {
    enum { MEMBERS = 4, ROUNDS = 60 };
    rig *r = rig_open(MEMBERS, 2, sealed);
    gw_rng rng = gw_rng_seeded(seed);
    uint32_t good = 0;
    for (uint64_t epoch = 1; epoch <= ROUNDS; epoch++) {
        uint64_t disturb = epoch % 3 == 0 ? 0 : 1 + gw_rng_below(&rng, 3),
                 victim = gw_rng_below(&rng, MEMBERS);
        vector v[2][MEMBERS];
        for (uint32_t m = 0; m < MEMBERS; m++) {
            v[0][m] = make_vector(m, GW_SUM_I64, 100003);
            v[1][m] = make_vector(m, GW_SUM_I64, 60);
        }
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (uint32_t b = 0; b < 2; b++) start(r, m, MEMBERS, &v[b][m], GW_SUM_I64, epoch, b);
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
                if (result.status == GW_COLLECTIVE_OK) check_sum(&v[b][m], MEMBERS, GW_SUM_I64);
                good += result.status == GW_COLLECTIVE_OK;
            }
        for (uint32_t m = 0; m < MEMBERS; m++)
            for (uint32_t b = 0; b < 2; b++) free_vector(&v[b][m]);
    }
    cr_assert_geq(good, ROUNDS / 3 * MEMBERS * 2);
    rig_close(r);
}

Test(collective, chaos_of_links_and_aborts) {
    check_chaos(false, 1);
}
Test(collective, chaos_of_links_and_aborts_sealed) {
    check_chaos(true, 2);
}

Test(collective, without_a_link_it_fails) {
    rig *r = rig_open(1, 1, false);
    vector v = make_vector(0, GW_SUM_I64, 10);
    start(r, 0, 2, &v, GW_SUM_I64, 1, 0);
    expect(r, 0, GW_COLLECTIVE_FAILED, 1000);
    free_vector(&v);
    rig_close(r);
}

Test(collective, calls_that_make_no_sense_are_refused) {
    rig *r = rig_open(1, 1, false);
    int64_t in[4] = {1, 2, 3, 4}, out[4];
    gw_peer_id ids[2] = {rig_id(0), rig_id(1)};
    gw_collective_piece piece = {in, out, 4};
    const gw_collective_call good = {.tag = {.fence = rig_fence(5), .step = 5, .attempt = 5, .bucket = 5},
                                     .type = GW_SUM_I64,
                                     .members = ids,
                                     .member_count = 1,
                                     .pieces = &piece,
                                     .piece_count = 1,
                                     .progress_ms = 1000};
    gw_err err;
    gw_collective *c = r->peers[0].collective;
    gw_collective_call bad = good;
    bad.rank = 1;
    cr_assert(!gw_collective_start(c, &bad, &err) && err.code == GW_E_INVALID);
    bad = good;
    bad.member_count = 0;
    cr_assert(!gw_collective_start(c, &bad, &err));
    bad = good;
    bad.type = 0;
    cr_assert(!gw_collective_start(c, &bad, &err));
    bad = good;
    bad.piece_count = 0;
    cr_assert(!gw_collective_start(c, &bad, &err));
    bad = good;
    bad.progress_ms = 0;
    cr_assert(!gw_collective_start(c, &bad, &err));
    gw_collective_piece crooked = {(uint8_t *)in + 4, out, 1};
    bad = good;
    bad.pieces = &crooked;
    cr_assert(!gw_collective_start(c, &bad, &err));
    gw_collective_piece huge = {in, out, UINT64_MAX / 2};
    bad.pieces = &huge;
    cr_assert(!gw_collective_start(c, &bad, &err) && err.code == GW_E_LIMIT);
    gw_collective_piece same = {in, in, 4};
    bad = good;
    bad.pieces = &same;
    bad.member_count = 2;
    cr_assert(!gw_collective_start(c, &bad, &err));
    cr_assert(gw_collective_start(c, &good, &err)); /* alone: a copy */
    gw_code code;
    cr_assert_eq(rig_result(&r->peers[0], &code).status, GW_COLLECTIVE_OK);
    cr_assert_arr_eq(out, in, sizeof in);
    cr_assert(!gw_collective_start(c, &good, &err)); /* again: the tag does not rise */
    bad = good;
    bad.tag.step = 4;
    bad.tag.attempt = 9;
    cr_assert(!gw_collective_start(c, &bad, &err));
    rig_close(r);
}

Test(collective, members_that_disagree_on_the_size_fail) {
    rig *r = rig_open(2, 1, false);
    vector a = make_vector(0, GW_SUM_I64, 1000), b = make_vector(1, GW_SUM_I64, 1001);
    start(r, 0, 2, &a, GW_SUM_I64, 1, 0);
    start(r, 1, 2, &b, GW_SUM_I64, 1, 0);
    expect(r, 0, GW_COLLECTIVE_FAILED, 1000);
    expect(r, 1, GW_COLLECTIVE_FAILED, 1000);
    free_vector(&a);
    free_vector(&b);
    rig_close(r);
}

/* ---- one member played by hand ---- */

enum { SMALL = 4, FRAME = 8 + GW_LANE_HEADER };

static size_t put_round(uint8_t *frame, uint64_t epoch, uint8_t view, uint64_t step, uint32_t bucket,
                        int64_t value) {
    gw_fence fence = rig_fence(epoch);
    fence.view.bytes[0] = (uint8_t)(fence.view.bytes[0] + view);
    gw_writer w = gw_writer_on(frame, FRAME + SMALL * 8);
    gw_put_u32(&w, 1);
    gw_put_u32(&w, SMALL * 8);
    gw_put_u8(&w, GW_PART_ROUND);
    gw_put_u8(&w, GW_SUM_I64);
    gw_put_u16(&w, 0);
    gw_put_u32(&w, 1); /* stage */
    gw_put_u64(&w, fence.epoch);
    gw_put_view_name(&w, &fence.view);
    gw_put_u64(&w, step);
    gw_put_u32(&w, 0);
    gw_put_u32(&w, bucket);
    gw_put_u64(&w, SMALL);
    gw_put_u32(&w, 2);
    gw_put_u32(&w, 0);
    for (int i = 0; i < SMALL; i++) gw_put_u64(&w, (uint64_t)value);
    cr_assert(!w.failed);
    return w.length;
}

Test(collective, the_bytes_of_a_message) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = make_vector(0, GW_SUM_I64, SMALL);
    start(r, 0, 2, &v, GW_SUM_I64, 3, 9);
    uint8_t got[FRAME + SMALL * 8], expected[FRAME + SMALL * 8];
    cr_assert_eq(recv(fds[2], got, sizeof got, MSG_WAITALL), sizeof got);
    put_round(expected, 3, 0, 1, 9, 0);
    cr_assert_arr_eq(got, expected, FRAME);
    cr_assert_arr_eq(got + FRAME, v.in, SMALL * 8);
    close(fds[2]);
    expect(r, 0, GW_COLLECTIVE_FAILED, 3009);
    close(fds[0]);
    close(fds[1]);
    free_vector(&v);
    rig_close(r);
}

Test(collective, stale_and_foreign_messages_are_dropped_and_early_ones_wait) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = make_vector(0, GW_SUM_I64, SMALL), w = make_vector(0, GW_SUM_I64, SMALL);
    uint8_t bytes[8 * (FRAME + SMALL * 8)], *at = bytes;
    at += put_round(at, 2, 0, 9, 0, 666); /* an epoch ago */
    at += put_round(at, 3, 1, 1, 0, 666); /* this epoch, another view */
    at += put_round(at, 3, 0, 0, 5, 666); /* a step ago */
    at += put_round(at, 3, 0, 1, 0, 1000);
    at += put_round(at, 3, 1, 2, 1, 666);
    at += put_round(at, 3, 0, 1, 7, 2000); /* the next call: early */
    cr_assert_eq(send(fds[2], bytes, (size_t)(at - bytes), MSG_NOSIGNAL), at - bytes);
    start(r, 0, 2, &v, GW_SUM_I64, 3, 0);
    expect(r, 0, GW_COLLECTIVE_OK, 3000);
    start(r, 0, 2, &w, GW_SUM_I64, 3, 7);
    expect(r, 0, GW_COLLECTIVE_OK, 3007);
    for (uint32_t i = 0; i < SMALL; i++) {
        cr_assert_eq(((int64_t *)v.out)[i], (int64_t)((uint64_t)integer_at(0, i) + 1000));
        cr_assert_eq(((int64_t *)w.out)[i], (int64_t)((uint64_t)integer_at(0, i) + 2000));
    }
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    free_vector(&v);
    free_vector(&w);
    rig_close(r);
}

Test(collective, a_message_of_the_right_call_but_the_wrong_shape_ends_the_link) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    vector v = make_vector(0, GW_SUM_I64, SMALL);
    const size_t offsets[] = {8, 9, 12, 64}; /* type, sum type, stage, chunks */
    for (uint32_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        int fds[3];
        uint8_t frame[FRAME + SMALL * 8];
        rig_link_raw(r, 0, &other, fds);
        size_t length = put_round(frame, i + 1, 0, 1, 0, 5);
        frame[offsets[i] + (offsets[i] == 64 ? 4 : 0)] ^= 2;
        start(r, 0, 2, &v, GW_SUM_I64, i + 1, 0);
        cr_assert_eq(send(fds[2], frame, length, MSG_NOSIGNAL), (ssize_t)length);
        expect(r, 0, GW_COLLECTIVE_FAILED, (i + 1) * 1000);
        rig_wait_downs(&r->peers[0], i + 1);
        for (uint32_t j = 0; j < 3; j++) close(fds[j]);
    }
    free_vector(&v);
    rig_close(r);
}

Test(collective, no_progress_after_all_have_entered_fails) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1), ids[2] = {rig_id(0), rig_id(1)};
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = make_vector(0, GW_SUM_I64, 100000);
    gw_collective_call call = {.tag = {.fence = rig_fence(1)},
                               .type = GW_SUM_I64,
                               .members = ids,
                               .member_count = 2,
                               .pieces = v.pieces,
                               .piece_count = v.piece_count,
                               .progress_ms = 50};
    gw_err err;
    cr_assert(gw_collective_start(r->peers[0].collective, &call, &err));
    uint8_t enter[FRAME]; /* what we get says how to enter; then we fall silent */
    cr_assert_eq(recv(fds[2], enter, sizeof enter, MSG_WAITALL), sizeof enter);
    cr_assert_eq(enter[8], GW_PART_ENTER);
    cr_assert_eq(send(fds[2], enter, sizeof enter, MSG_NOSIGNAL), sizeof enter);
    gw_code code;
    cr_assert_eq(rig_result(&r->peers[0], &code).status, GW_COLLECTIVE_FAILED);
    cr_assert_eq(code, GW_E_TIMEOUT);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    free_vector(&v);
    rig_close(r);
}
