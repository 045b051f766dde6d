/* Chunks of a ring that travel packed, to and from neighbours that the test plays. */
#include "tests/net/vectors.h"

#include "core/rng.h"
#include "core/vector/pack.h"
#include "net/collective/part.h"
#include "net/rail/frame.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ELEMENTS = 8192, /* goes by the ring, in one chunk for each block */
    CHUNK = GW_RING_CHUNK_BYTES / 8,
    MOST = GW_FRAME_BYTES + GW_PACK_LINE + 8 * CHUNK,
    READS = GW_PART_READS_ANY,
};

/* A member of a sum, and its neighbours' sockets: the same one if there are two members. */
typedef struct table {
    rig *rig;
    vector v;
    uint32_t members;
    uint64_t elements;
    int left, right; /* on rail 0 */
    int fds[2][4];
    uint64_t epoch;
} table;

static table *sit_down_on(uint32_t rails, uint32_t members, uint64_t elements) {
    static table t;
    t = (table){.rig = rig_open(1, rails, false), .members = members, .elements = elements};
    t.v = vector_make(0, GW_SUM_I64, elements);
    for (uint32_t m = 1; m < members; m++) {
        gw_peer_id id = rig_id(m);
        rig_link_raw(t.rig, 0, &id, t.fds[m - 1]);
    }
    t.right = t.fds[0][2];
    t.left = t.fds[members - 2][2];
    return &t;
}

static table *sit_down_for(uint32_t members, uint64_t elements) {
    return sit_down_on(1, members, elements);
}

static table *sit_down(uint32_t members) {
    return sit_down_for(members, ELEMENTS);
}

static void get_up(table *t) {
    for (uint32_t m = 1; m < t->members; m++)
        for (uint32_t i = 0; i < 2 + t->rig->rails; i++) close(t->fds[m - 1][i]);
    vector_free(&t->v);
    rig_close(t->rig);
}

/* Elements as they are in a gradient: small ones of both signs. */
static void narrow_of(int64_t *elements, uint64_t count, uint64_t seed) {
    gw_rng rng = gw_rng_seeded(seed);
    for (uint64_t i = 0; i < count; i++) elements[i] = (int64_t)gw_rng_below(&rng, 20000) - 10000;
}

static void narrow(int64_t *elements, uint64_t seed) {
    narrow_of(elements, ELEMENTS, seed);
}

static void wide(int64_t *elements) {
    gw_rng rng = gw_rng_seeded(9);
    for (uint64_t i = 0; i < ELEMENTS; i++) elements[i] = (int64_t)gw_rng_next(&rng);
}

static void start(table *t) {
    vector_start(t->rig, 0, t->members, &t->v, GW_SUM_I64, ++t->epoch, 0);
}

static uint64_t checksum_of(const int64_t *elements, uint64_t count) {
    gw_checksum checksum = {.values = 0};
    gw_checksum_add(&checksum, elements, count * sizeof *elements);
    return gw_checksum_end(&checksum);
}

static void put(const table *t, int fd, gw_part_message type, uint32_t index, uint64_t checksum,
                const void *payload, uint64_t bytes) {
    static uint8_t frame[MOST];
    gw_call call = {.is = {.member_count = t->members, .type = GW_SUM_I64}, .elements = t->elements};
    call.is.tag = (gw_collective_tag){.fence = rig_fence(t->epoch), .step = 1};
    const gw_part part = {.call = &call};
    gw_rail_message message = {.bytes = (uint32_t)bytes};
    gw_part_encode(&part, type, index, checksum, message.header);
    gw_frame_encode(&message, frame);
    memcpy(frame + GW_FRAME_BYTES, payload, bytes);
    cr_assert_eq(send(fd, frame, GW_FRAME_BYTES + bytes, MSG_NOSIGNAL), (ssize_t)(GW_FRAME_BYTES + bytes));
}

static void put_enter(const table *t, uint32_t index, uint64_t reads) {
    put(t, t->left, GW_PART_ENTER, index, reads, "", 0);
}

static void put_packed(const table *t, uint32_t index, const int64_t *elements, uint64_t count) {
    static uint8_t packed[MOST];
    uint64_t bytes = gw_pack(gw_vector_path_best(), elements, count, packed, NULL);
    put(t, t->left, GW_PART_PACKED, index, checksum_of(elements, count), packed, bytes);
}

static uint8_t got[MOST];

/* Receives a message at the right; its payload is in `got`. Returns the payload's bytes. */
static uint32_t take(const table *t, gw_part_header *header) {
    uint8_t frame[GW_FRAME_BYTES];
    gw_rail_message message;
    cr_assert_eq(recv(t->right, frame, sizeof frame, MSG_WAITALL), sizeof frame);
    cr_assert(gw_frame_decode(frame, MOST, &message) && gw_part_decode(message.header, header));
    if (message.bytes > 0) cr_assert_eq(recv(t->right, got, message.bytes, MSG_WAITALL), message.bytes);
    return message.bytes;
}

static void expect_enter_of(const table *t, uint32_t index, uint64_t reads, uint64_t rails) {
    gw_part_header header;
    cr_assert_eq(take(t, &header), 0);
    cr_assert_eq(header.type, GW_PART_ENTER);
    cr_assert_eq(header.index, index);
    cr_assert_eq(header.checksum, reads | rails << GW_PART_LANES_SHIFT);
}

static void expect_enter(const table *t, uint32_t index, uint64_t reads) {
    expect_enter_of(t, index, reads, 1);
}

static void expect_chunk(const table *t, uint32_t index, const int64_t *elements, uint64_t count,
                         bool packed) {
    static uint8_t right[MOST];
    gw_part_header header;
    uint32_t bytes = take(t, &header);
    cr_assert_eq(header.type, packed ? GW_PART_PACKED : GW_PART_CHUNK);
    cr_assert_eq(header.index, index);
    cr_assert_eq(header.checksum, checksum_of(elements, count));
    memcpy(right, elements, count * sizeof *elements);
    uint64_t right_bytes =
        packed ? gw_pack(gw_vector_path_best(), elements, count, right, NULL) : count * sizeof *elements;
    cr_assert_eq(bytes, right_bytes);
    cr_assert_arr_eq(got, right, bytes);
}

Test(packed, chunks_are_packed_for_members_that_read_them) {
    enum { HALF = ELEMENTS / 2 };
    table *t = sit_down(2);
    static int64_t theirs[ELEMENTS], sum[ELEMENTS];
    int64_t *in = t->v.in;
    narrow(in, 1);
    narrow(theirs, 2);
    for (int i = 0; i < ELEMENTS; i++) sum[i] = in[i] + theirs[i];
    start(t);
    expect_enter(t, 1, READS);
    put_enter(t, 1, READS);
    expect_chunk(t, 0, in, HALF, true);
    put_packed(t, 0, theirs + HALF, HALF);
    expect_chunk(t, 1, sum + HALF, HALF, true);
    put_packed(t, 1, sum, HALF);
    gw_collective_result result = vector_expect(t->rig, 0, GW_COLLECTIVE_OK, 1000);
    cr_assert_arr_eq(t->v.out, sum, sizeof sum);
    cr_assert_eq(result.sent_bytes + result.saved_bytes, sizeof sum);
    cr_assert(result.sent_bytes > sizeof sum / 8 && result.sent_bytes < sizeof sum / 3);
    get_up(t);
}

static void expect_first_chunk(uint64_t enter, uint64_t count) {
    table *t = sit_down_on(2, 2, ELEMENTS);
    narrow(t->v.in, 1);
    start(t);
    expect_enter_of(t, 1, READS, 2);
    put_enter(t, 1, enter);
    expect_chunk(t, 0, t->v.in, count, true);
    gw_collective_abort(t->rig->peers[0].collective);
    vector_expect(t->rig, 0, GW_COLLECTIVE_ABORTED, 1000);
    get_up(t);
}

Test(packed, a_call_is_cut_among_the_fewest_rails_that_a_member_offers) {
    expect_first_chunk(READS | 2 << GW_PART_LANES_SHIFT, ELEMENTS / 4);
    expect_first_chunk(READS | 8 << GW_PART_LANES_SHIFT, ELEMENTS / 4);
    expect_first_chunk(READS | 1 << GW_PART_LANES_SHIFT, ELEMENTS / 2);
    expect_first_chunk(READS, ELEMENTS / 2); /* a build that knows of no others */
}

Test(packed, members_that_do_not_read_them_are_sent_none) {
    table *t = sit_down(2);
    narrow(t->v.in, 1);
    start(t);
    expect_enter(t, 1, READS);
    put_enter(t, 1, 0);
    expect_chunk(t, 0, t->v.in, ELEMENTS / 2, false);
    gw_collective_abort(t->rig->peers[0].collective);
    gw_collective_result result = vector_expect(t->rig, 0, GW_COLLECTIVE_ABORTED, 1000);
    cr_assert_eq(result.saved_bytes, 0);
    get_up(t);
}

/* Each tells the next one of all that it has heard of: who is sent chunks need not be who does not read them. */
Test(packed, one_of_three_that_does_not_read_them_is_enough) {
    static const uint64_t told[][2] = {{0, 0}, {0, READS}, {READS, 0}, {1, 1}, {READS, READS}};
    table *t = sit_down(3);
    narrow(t->v.in, 1);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        start(t);
        expect_enter(t, 1, READS);
        put_enter(t, 1, told[i][0]);
        expect_enter(t, 2, told[i][0] & READS);
        put_enter(t, 2, told[i][1]);
        expect_chunk(t, 0, t->v.in, ELEMENTS / 3, told[i][0] == READS && told[i][1] == READS);
        gw_collective_abort(t->rig->peers[0].collective);
        vector_expect(t->rig, 0, GW_COLLECTIVE_ABORTED, t->epoch * 1000);
    }
    get_up(t);
}

Test(packed, chunks_that_hardly_become_smaller_go_as_they_are) {
    table *t = sit_down(2);
    wide(t->v.in);
    start(t);
    expect_enter(t, 1, READS);
    put_enter(t, 1, READS);
    expect_chunk(t, 0, t->v.in, ELEMENTS / 2, false);
    gw_collective_abort(t->rig->peers[0].collective);
    vector_expect(t->rig, 0, GW_COLLECTIVE_ABORTED, 1000);
    get_up(t);
}

/* It changed in a width, behind the widths, or among the elements. */
Test(packed, a_bit_that_changed_fails_the_sum_and_names_the_sender) {
    enum { HALF = ELEMENTS / 2 };
    static const uint32_t bits[] = {0, 3, 7, 8 * 5 + 1, 8 * 63, 8 * 64, 8 * 64 + 13, 8 * 777 + 7, 8 * 5000};
    table *t = sit_down(2);
    static int64_t theirs[ELEMENTS];
    static uint8_t packed[MOST];
    gw_peer_id other = rig_id(1);
    narrow(t->v.in, 1);
    narrow(theirs, 2);
    uint64_t bytes = gw_pack(gw_vector_path_best(), theirs, HALF, packed, NULL);
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        start(t);
        expect_enter(t, 1, READS);
        put_enter(t, 1, READS);
        expect_chunk(t, 0, t->v.in, HALF, true);
        packed[bits[i] / 8] ^= (uint8_t)(1 << bits[i] % 8);
        put(t, t->left, GW_PART_PACKED, 0, checksum_of(theirs, HALF), packed, bytes);
        packed[bits[i] / 8] ^= (uint8_t)(1 << bits[i] % 8);
        gw_collective_result result = vector_expect(t->rig, 0, GW_COLLECTIVE_FAILED, t->epoch * 1000);
        cr_assert(result.changed && gw_peer_id_equal(&result.suspect, &other), "bit %u", bits[i]);
        cr_assert_eq(rig_downs(&t->rig->peers[0]), 0);
    }
    get_up(t);
}

static void expect_refused(uint64_t bytes) {
    static const uint8_t zeros[MOST];
    table *t = sit_down(2);
    narrow(t->v.in, 1);
    start(t);
    expect_enter(t, 1, READS);
    put_enter(t, 1, READS);
    put(t, t->left, GW_PART_PACKED, 0, 0, zeros, bytes);
    vector_expect(t->rig, 0, GW_COLLECTIVE_FAILED, 1000);
    rig_wait_downs(&t->rig->peers[0], 1);
    get_up(t);
}

Test(packed, a_length_that_no_packed_chunk_has_ends_the_link) {
    expect_refused(0);
    expect_refused(gw_pack_most(ELEMENTS / 2) + 1);
}

/* Chunks of different blocks may come in any order; a member that does not know that is sent them in the order of
 * their numbers, and whole. */

enum {
    CHUNKS = 3, /* of a block */
    LONG = 2 * CHUNKS * CHUNK,
};

static int64_t theirs[LONG], sums[LONG];

static table *sit_down_with_long_vectors(void) {
    table *t = sit_down_for(2, LONG);
    int64_t *in = t->v.in;
    narrow_of(in, LONG, 1);
    narrow_of(theirs, LONG, 2);
    for (int i = 0; i < LONG; i++) sums[i] = in[i] + theirs[i];
    start(t);
    expect_enter(t, 1, READS);
    return t;
}

Test(packed, results_may_come_before_the_other_members_own_chunks) {
    table *t = sit_down_with_long_vectors();
    put_enter(t, 1, READS);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        put_packed(t, c, theirs + (CHUNKS + c) * CHUNK, CHUNK);
        put_packed(t, CHUNKS + c, sums + c * CHUNK, CHUNK);
    }
    bool sent[2 * CHUNKS] = {false};
    for (int i = 0; i < 2 * CHUNKS; i++) {
        gw_part_header header;
        uint32_t bytes = take(t, &header);
        uint32_t index = header.index, block = index / CHUNKS, chunk = index % CHUNKS;
        cr_assert(index < 2 * CHUNKS && !sent[index] && (chunk == 0 || sent[index - 1]));
        cr_assert_eq(header.type, GW_PART_PACKED);
        sent[index] = true;
        static uint8_t right[MOST];
        const int64_t *elements = block == 0 ? (int64_t *)t->v.in : sums + CHUNKS * CHUNK;
        cr_assert_eq(gw_pack(gw_vector_path_best(), elements + chunk * CHUNK, CHUNK, right, NULL), bytes);
        cr_assert_arr_eq(got, right, bytes);
    }
    vector_expect(t->rig, 0, GW_COLLECTIVE_OK, 1000);
    cr_assert_arr_eq(t->v.out, sums, sizeof sums);
    get_up(t);
}

Test(packed, a_member_that_knows_one_order_is_sent_that) {
    table *t = sit_down_with_long_vectors();
    const int64_t *in = t->v.in;
    put_enter(t, 1, 0);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        const int64_t *chunk = theirs + (CHUNKS + c) * CHUNK;
        put(t, t->left, GW_PART_CHUNK, c, checksum_of(chunk, CHUNK), chunk, CHUNK * sizeof *chunk);
    }
    for (uint32_t c = 0; c < CHUNKS; c++) expect_chunk(t, c, in + c * CHUNK, CHUNK, false);
    for (uint32_t c = 0; c < CHUNKS; c++)
        expect_chunk(t, CHUNKS + c, sums + (CHUNKS + c) * CHUNK, CHUNK, false);
    gw_collective_abort(t->rig->peers[0].collective);
    vector_expect(t->rig, 0, GW_COLLECTIVE_ABORTED, 1000);
    get_up(t);
}

static void expect_refused_index(uint32_t members, uint32_t index) {
    table *t = sit_down_for(members, LONG);
    narrow_of(theirs, LONG, 2);
    narrow_of(t->v.in, LONG, 1);
    start(t);
    for (uint32_t m = 1; m < members; m++) {
        expect_enter(t, m, READS);
        put_enter(t, m, READS);
    }
    put_packed(t, index, theirs, LONG / members / CHUNKS);
    vector_expect(t->rig, 0, GW_COLLECTIVE_FAILED, 1000);
    rig_wait_downs(&t->rig->peers[0], 1);
    get_up(t);
}

Test(packed, a_chunk_that_cannot_be_the_next_of_its_block_ends_the_link) {
    expect_refused_index(2, 1);
    expect_refused_index(2, CHUNKS + 1);
    expect_refused_index(2, 2 * CHUNKS);
}

/* Three members have four blocks under way, of which the last is the first one again, as a result. */
Test(packed, a_result_before_the_part_of_it_that_was_passed_on_ends_the_link) {
    expect_refused_index(3, 3 * 2);
}

/* The middle one of three: it adds to a sum of one, to a sum of two, which is the result then, and passes a
 * result on as it came. */
Test(packed, partial_sums_and_results_are_passed_on_packed) {
    table *t = sit_down(3);
    static int64_t partial[ELEMENTS], result[ELEMENTS], one[ELEMENTS], two[ELEMENTS];
    int64_t *in = t->v.in;
    narrow(in, 1);
    narrow(one, 2);
    narrow(two, 3);
    for (int i = 0; i < ELEMENTS; i++) {
        partial[i] = one[i] + two[i];
        result[i] = partial[i] + in[i];
    }
    const uint64_t begin[] = {0, ELEMENTS / 3, ELEMENTS * 2 / 3, ELEMENTS}; /* of the blocks */
    const uint64_t first = begin[1], second = begin[2] - begin[1], third = begin[3] - begin[2];
    start(t);
    for (uint32_t m = 1; m < 3; m++) {
        expect_enter(t, m, READS);
        put_enter(t, m, READS);
    }
    expect_chunk(t, 0, in, first, true);
    put_packed(t, 0, two + begin[2], third);
    for (uint64_t i = 0; i < third; i++) two[begin[2] + i] += in[begin[2] + i];
    expect_chunk(t, 1, two + begin[2], third, true);
    put_packed(t, 1, partial + begin[1], second);
    expect_chunk(t, 2, result + begin[1], second, true);
    put_packed(t, 2, result, first);
    expect_chunk(t, 3, result, first, true);
    put_packed(t, 3, result + begin[2], third);
    vector_expect(t->rig, 0, GW_COLLECTIVE_OK, 1000);
    cr_assert_arr_eq(t->v.out, result, sizeof result);
    get_up(t);
}
