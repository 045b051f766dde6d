/* All-reduce over rails: invalid calls, members that disagree, stale and foreign messages.
 * tests/net/conformance/sums.c tests what every kind of path must do. */
#include "tests/net/vectors.h"

#include "net/collective/part.h"
#include "tests/net/sealed_frame.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Test(collective, without_a_link_it_fails) {
    rig *r = rig_open(1, 1, false);
    vector v = vector_make(0, GW_SUM_I64, 10);
    vector_start(r, 0, 2, &v, GW_SUM_I64, 1, 0);
    vector_expect(r, 0, GW_COLLECTIVE_FAILED, 1000);
    vector_free(&v);
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
    cr_assert(gw_collective_start(c, &good, &err)); /* a single member: a copy */
    gw_code code;
    cr_assert_eq(rig_result(&r->peers[0], &code).status, GW_COLLECTIVE_OK);
    cr_assert_arr_eq(out, in, sizeof in);
    cr_assert(!gw_collective_start(c, &good, &err)); /* repeated: the tag does not rise */
    bad = good;
    bad.tag.step = 4;
    bad.tag.attempt = 9;
    cr_assert(!gw_collective_start(c, &bad, &err));
    rig_close(r);
}

Test(collective, members_that_disagree_on_the_size_fail) {
    rig *r = rig_open(2, 1, false);
    vector a = vector_make(0, GW_SUM_I64, 1000), b = vector_make(1, GW_SUM_I64, 1001);
    vector_start(r, 0, 2, &a, GW_SUM_I64, 1, 0);
    vector_start(r, 1, 2, &b, GW_SUM_I64, 1, 0);
    vector_expect(r, 0, GW_COLLECTIVE_FAILED, 1000);
    vector_expect(r, 1, GW_COLLECTIVE_FAILED, 1000);
    vector_free(&a);
    vector_free(&b);
    rig_close(r);
}

/* The bytes that entered members give to the network, however long the others take: a member that has not
 * entered reads nothing. */
static void check_unasked(uint32_t members, const uint64_t *counts, uint32_t calls) {
    rig *r = rig_open_over(RIG_SIMULATED | 1, members, 1, false);
    gw_op op = {.kind = GW_OP_FETCH_ADD, .fence = rig_fence(1), .region = 1};
    vector v[2][4];
    gw_err err;
    for (uint32_t m = 0; m < members; m++)
        cr_assert(gw_transport_share_words(r->peers[m].transport, 1, 1, &err), "%s", err.text);
    rig_fence_all(r, 1);
    for (uint32_t m = 0; m < members - 1; m++)
        for (uint32_t b = 0; b < calls; b++) {
            v[m][b] = vector_make(m, GW_SUM_I64, counts[b]);
            vector_start(r, m, members, &v[m][b], GW_SUM_I64, 1, b);
        }
    for (uint32_t i = 0; i < 100; i++) { /* everything that follows from it has happened */
        op.token = i;
        op.peer = rig_id(1 + i % (members - 1));
        cr_assert_eq(rig_do(&r->peers[0], &op).status, GW_OP_OK);
    }
    for (uint32_t m = 0; m < members - 1; m++) {
        uint64_t sent = 0;
        gw_collective_abort(r->peers[m].collective);
        for (uint32_t b = 0; b < calls; b++) {
            sent += vector_expect(r, m, GW_COLLECTIVE_ABORTED, 1000 + b).sent_bytes;
            vector_free(&v[m][b]);
        }
        cr_assert_leq(sent, 32 << 10, "%u members, %lu elements: %lu bytes", members, counts[0], sent);
    }
    rig_close(r);
}

Test(collective, what_is_sent_to_who_has_not_entered_fits_in_any_receive_window) {
    for (uint32_t members = 2; members <= 3; members++) {
        check_unasked(members, (uint64_t[]){300000}, 1);
        check_unasked(members, (uint64_t[]){8192}, 1);
        check_unasked(members, (uint64_t[]){4096}, 1);
        check_unasked(members, (uint64_t[]){4096, 300000, 4096, 300000}, 4);
    }
}

/* One member, played by the test. */

enum { SMALL = 4, FRAME = GW_FRAME_BYTES };

/* Writes a message between two members; only those fields of its header are filled in that a test chooses. */
static size_t put_message(uint8_t *frame, size_t capacity, const gw_part_header *of, const int64_t *values,
                          uint64_t count) {
    gw_checksum checksum = {0};
    gw_checksum_add(&checksum, values, count * 8);
    gw_writer w = gw_writer_on(frame, capacity);
    gw_put_u32(&w, (uint32_t)count * 8);
    gw_put_u32(&w, 0);
    gw_put_u8(&w, (uint8_t)of->type);
    gw_put_u8(&w, GW_SUM_I64);
    gw_put_u16(&w, 2);
    gw_put_u32(&w, of->index);
    gw_put_u64(&w, of->tag.fence.epoch);
    gw_put_view_name(&w, &of->tag.fence.view);
    gw_put_u64(&w, of->tag.step);
    gw_put_u32(&w, 0);
    gw_put_u32(&w, of->tag.bucket);
    gw_put_u64(&w, of->elements);
    gw_put_u64(&w, of->type == GW_PART_ENTER ? 0 : gw_checksum_end(&checksum));
    for (uint64_t i = 0; i < count; i++) gw_put_u64(&w, (uint64_t)values[i]);
    cr_assert(!w.failed);
    seal_frame(frame);
    return w.length;
}

static size_t put_round(uint8_t *frame, uint64_t epoch, uint8_t view, uint64_t step, uint32_t bucket,
                        int64_t value) {
    gw_part_header of = {.type = GW_PART_ROUND, .index = 1, .elements = SMALL};
    int64_t values[SMALL];
    of.tag = (gw_collective_tag){.fence = rig_fence(epoch), .step = step, .bucket = bucket};
    of.tag.fence.view.bytes[0] = (uint8_t)(of.tag.fence.view.bytes[0] + view);
    for (int i = 0; i < SMALL; i++) values[i] = value;
    return put_message(frame, FRAME + SMALL * 8, &of, values, SMALL);
}

/* Reads a whole message and forgets it. */
static void read_message(int fd, size_t payload) {
    static uint8_t bytes[1 << 16];
    cr_assert_leq(FRAME + payload, sizeof bytes);
    cr_assert_eq(recv(fd, bytes, FRAME + payload, MSG_WAITALL), (ssize_t)(FRAME + payload));
}

Test(collective, the_bytes_of_a_message) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, SMALL);
    vector_start(r, 0, 2, &v, GW_SUM_I64, 3, 9);
    uint8_t got[FRAME + SMALL * 8], expected[FRAME + SMALL * 8];
    cr_assert_eq(recv(fds[2], got, sizeof got, MSG_WAITALL), sizeof got);
    gw_part_header of = {.type = GW_PART_ROUND, .index = 1, .elements = SMALL};
    of.tag = (gw_collective_tag){.fence = rig_fence(3), .step = 1, .bucket = 9};
    put_message(expected, sizeof expected, &of, v.in, SMALL);
    cr_assert_arr_eq(got, expected, sizeof expected);
    close(fds[2]);
    vector_expect(r, 0, GW_COLLECTIVE_FAILED, 3009);
    close(fds[0]);
    close(fds[1]);
    vector_free(&v);
    rig_close(r);
}

Test(collective, stale_and_foreign_messages_are_dropped_and_early_ones_wait) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, SMALL), w = vector_make(0, GW_SUM_I64, SMALL);
    uint8_t bytes[8 * (FRAME + SMALL * 8)], *at = bytes;
    at += put_round(at, 2, 0, 9, 0, 666); /* of an earlier epoch */
    at += put_round(at, 3, 1, 1, 0, 666); /* of this epoch and another view */
    at += put_round(at, 3, 0, 0, 5, 666); /* of an earlier step */
    at += put_round(at, 3, 0, 1, 0, 1000);
    at += put_round(at, 3, 1, 2, 1, 666);
    at += put_round(at, 3, 0, 1, 7, 2000); /* the next call: early */
    cr_assert_eq(send(fds[2], bytes, (size_t)(at - bytes), MSG_NOSIGNAL), at - bytes);
    vector_start(r, 0, 2, &v, GW_SUM_I64, 3, 0);
    vector_expect(r, 0, GW_COLLECTIVE_OK, 3000);
    vector_start(r, 0, 2, &w, GW_SUM_I64, 3, 7);
    vector_expect(r, 0, GW_COLLECTIVE_OK, 3007);
    for (uint32_t i = 0; i < SMALL; i++) {
        cr_assert_eq(((int64_t *)v.out)[i], (int64_t)((uint64_t)vector_integer(0, i) + 1000));
        cr_assert_eq(((int64_t *)w.out)[i], (int64_t)((uint64_t)vector_integer(0, i) + 2000));
    }
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    vector_free(&v);
    vector_free(&w);
    rig_close(r);
}

Test(collective, a_message_of_the_right_call_but_the_wrong_shape_ends_the_link) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    vector v = vector_make(0, GW_SUM_I64, SMALL);
    const size_t offsets[] = {8, 9, 10, 12}; /* type, sum type, members, stage */
    for (uint32_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        int fds[3];
        uint8_t frame[FRAME + SMALL * 8];
        rig_link_raw(r, 0, &other, fds);
        size_t length = put_round(frame, i + 1, 0, 1, 0, 5);
        frame[offsets[i]] ^= 2;
        seal_frame(frame);
        vector_start(r, 0, 2, &v, GW_SUM_I64, i + 1, 0);
        cr_assert_eq(send(fds[2], frame, length, MSG_NOSIGNAL), (ssize_t)length);
        vector_expect(r, 0, GW_COLLECTIVE_FAILED, (i + 1) * 1000);
        rig_wait_downs(&r->peers[0], i + 1);
        for (uint32_t j = 0; j < 3; j++) close(fds[j]);
    }
    vector_free(&v);
    rig_close(r);
}

/* Checks that the call has failed because of a message of peer 1, and that the link stands. */
static void expect_changed(rig *r, uint64_t token) {
    gw_peer_id other = rig_id(1);
    gw_collective_result result = vector_expect(r, 0, GW_COLLECTIVE_FAILED, token);
    cr_assert(result.changed);
    cr_assert(gw_peer_id_equal(&result.suspect, &other));
    cr_assert_eq(rig_downs(&r->peers[0]), 0);
}

Test(collective, a_small_message_with_a_bit_that_changed_fails_the_call_and_names_its_sender) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, SMALL);
    for (uint32_t bit = 0; bit < SMALL * 8 * 8; bit += 3) {
        uint8_t frame[FRAME + SMALL * 8];
        size_t length = put_round(frame, bit + 1, 0, 1, 0, 5);
        frame[FRAME + bit / 8] ^= (uint8_t)(1 << bit % 8);
        vector_start(r, 0, 2, &v, GW_SUM_I64, bit + 1, 0);
        cr_assert_eq(send(fds[2], frame, length, MSG_NOSIGNAL), (ssize_t)length);
        expect_changed(r, (bit + 1) * 1000);
    }
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    vector_free(&v);
    rig_close(r);
}

/* Peer 1 enters a sum of two members; returns whether the call then fails because of what peer 0 had added
 * up. */
static void expect_own(rig *r, int fd, uint64_t epoch, bool changed) {
    uint8_t frame[FRAME + SMALL * 8];
    gw_peer_id nobody = {0};
    size_t length = put_round(frame, epoch, 0, 1, 0, 5);
    cr_assert_eq(send(fd, frame, length, MSG_NOSIGNAL), (ssize_t)length);
    gw_collective_result result =
        vector_expect(r, 0, changed ? GW_COLLECTIVE_FAILED : GW_COLLECTIVE_OK, epoch * 1000);
    cr_assert_eq(result.changed, changed);
    cr_assert(gw_peer_id_equal(&result.suspect, &nobody));
}

static atomic_bool copies_wrong;

uint32_t __wrap_gw_call_gather(const gw_call *call, bool out, uint64_t first, uint64_t count,
                               struct iovec *list);
uint32_t __real_gw_call_gather(const gw_call *call, bool out, uint64_t first, uint64_t count,
                               struct iovec *list);

/* Changes bits as if they changed while they are copied from there. */
uint32_t __wrap_gw_call_gather(const gw_call *call, bool out, uint64_t first, uint64_t count,
                               struct iovec *list) {
    static int64_t changed[SMALL];
    uint32_t parts = __real_gw_call_gather(call, out, first, count, list);
    if (out || !atomic_load(&copies_wrong)) return parts;
    memcpy(changed, list[0].iov_base, list[0].iov_len);
    changed[0] ^= 1 << 5;
    list[0].iov_base = changed;
    return parts;
}

/* The other side could not distinguish that from a sum that this member had added up. */
Test(collective, a_bit_that_changes_as_a_small_sum_is_copied_is_this_members_own) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, SMALL);
    for (uint32_t wrong = 0; wrong < 2; wrong++) {
        atomic_store(&copies_wrong, wrong == 1);
        vector_start(r, 0, 2, &v, GW_SUM_I64, wrong + 1, 0);
        expect_own(r, fds[2], wrong + 1, wrong == 1);
    }
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    vector_free(&v);
    rig_close(r);
}

#ifndef __SANITIZE_THREAD__ /* the sanitizer is right: this is a race */

/* The bytes of a member's sum of SMALL integers (net/collective/doubling.c). */
enum { SUM_BYTES = SMALL * 8 + 1 };
static _Atomic(void *) first_sum;

void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes) {
    void *memory = __real_malloc(bytes), *none = NULL;
    if (bytes == SUM_BYTES) atomic_compare_exchange_strong(&first_sum, &none, memory);
    return memory;
}

/* The vector was sent intact, and waits to be added to what the other side sends when it has entered. */
Test(collective, a_bit_that_changes_where_a_small_sum_waits_is_this_members_own) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, SMALL);
    for (uint32_t flips = 0; flips < 2; flips++) {
        atomic_store(&first_sum, NULL);
        vector_start(r, 0, 2, &v, GW_SUM_I64, flips + 1, 0);
        read_message(fds[2], SMALL * 8);
        int64_t *sum = atomic_load(&first_sum);
        cr_assert(sum != NULL && memcmp(sum, v.in, SMALL * 8) == 0);
        if (flips) sum[SMALL - 1] ^= 1 << 5;
        expect_own(r, fds[2], flips + 1, flips == 1);
    }
    cr_assert_eq(rig_downs(&r->peers[0]), 0);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    vector_free(&v);
    rig_close(r);
}

#else
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    return __real_malloc(bytes);
}
#endif

/* Otherwise the message would belong to another call, and this one would wait for ever; with another length
 * the reader of the payload would wait, too. */
Test(collective, a_bit_of_a_frame_that_changed_ends_the_link) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    vector v = vector_make(0, GW_SUM_I64, SMALL);
    uint32_t ended = 0;
    for (uint32_t bit = 0; bit < FRAME * 8; bit += 3) {
        int fds[3];
        uint8_t frame[FRAME + SMALL * 8];
        rig_link_raw(r, 0, &other, fds);
        size_t length = put_round(frame, bit + 1, 0, 1, 0, 5);
        frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        vector_start(r, 0, 2, &v, GW_SUM_I64, bit + 1, 0);
        cr_assert_eq(send(fds[2], frame, length, MSG_NOSIGNAL), (ssize_t)length);
        vector_expect(r, 0, GW_COLLECTIVE_FAILED, (bit + 1) * 1000);
        rig_wait_downs(&r->peers[0], ++ended);
        for (uint32_t j = 0; j < 3; j++) close(fds[j]);
    }
    vector_free(&v);
    rig_close(r);
}

enum {
    LARGE = 8192,
    BLOCK = LARGE / 2
}; /* goes by the ring: two messages, one to add and one that is the sum */

/* Peer 1 enters and sends message 0 and, if that was intact, message 1. In message `wrong` a bit has
 * changed. */
static void play_ring(int fd, uint64_t epoch, uint32_t wrong) {
    static uint8_t bytes[FRAME + BLOCK * 8];
    static const int64_t values[BLOCK] = {1, 2, 3};
    gw_part_header of = {.type = GW_PART_ENTER, .index = 1, .elements = LARGE};
    of.tag = (gw_collective_tag){.fence = rig_fence(epoch), .step = 1};
    size_t length = put_message(bytes, sizeof bytes, &of, NULL, 0);
    cr_assert_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
    read_message(fd, 0);
    read_message(fd, BLOCK * 8);
    of.type = GW_PART_CHUNK;
    for (of.index = 0; of.index <= wrong && of.index < 2; of.index++) {
        length = put_message(bytes, sizeof bytes, &of, values, BLOCK);
        if (of.index == wrong) bytes[FRAME + BLOCK * 4] ^= 1;
        cr_assert_eq(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
        if (of.index == 0 && wrong > 0) read_message(fd, BLOCK * 8);
    }
}

Test(collective, a_large_message_with_a_bit_that_changed_goes_no_further) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1);
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, LARGE);
    for (uint32_t wrong = 0; wrong < 3; wrong++) { /* in the last round none is wrong */
        vector_start(r, 0, 2, &v, GW_SUM_I64, wrong + 1, 0);
        play_ring(fds[2], wrong + 1, wrong);
        if (wrong < 2)
            expect_changed(r, (wrong + 1) * 1000);
        else
            vector_expect(r, 0, GW_COLLECTIVE_OK, (wrong + 1) * 1000);
    }
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    vector_free(&v);
    rig_close(r);
}

Test(collective, no_progress_after_all_have_entered_fails) {
    rig *r = rig_open(1, 1, false);
    gw_peer_id other = rig_id(1), ids[2] = {rig_id(0), rig_id(1)};
    int fds[3];
    rig_link_raw(r, 0, &other, fds);
    vector v = vector_make(0, GW_SUM_I64, 100000);
    gw_collective_call call = {.tag = {.fence = rig_fence(1)},
                               .type = GW_SUM_I64,
                               .members = ids,
                               .member_count = 2,
                               .pieces = v.pieces,
                               .piece_count = v.piece_count,
                               .progress_ms = 50};
    gw_err err;
    cr_assert(gw_collective_start(r->peers[0].collective, &call, &err));
    uint8_t enter[FRAME]; /* copied from the header that comes; after that the test is silent */
    cr_assert_eq(recv(fds[2], enter, sizeof enter, MSG_WAITALL), sizeof enter);
    cr_assert_eq(enter[8], GW_PART_ENTER);
    cr_assert_eq(send(fds[2], enter, sizeof enter, MSG_NOSIGNAL), sizeof enter);
    gw_code code;
    cr_assert_eq(rig_result(&r->peers[0], &code).status, GW_COLLECTIVE_FAILED);
    cr_assert_eq(code, GW_E_TIMEOUT);
    for (uint32_t i = 0; i < 3; i++) close(fds[i]);
    vector_free(&v);
    rig_close(r);
}
