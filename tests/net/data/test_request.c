/* The bytes of one-sided operations' headers, and what is not accepted. */
#include "net/data/request.h"

#include <criterion/criterion.h>
#include <string.h>

static gw_request sample(void) {
    gw_request request = {.kind = GW_OP_CAS,
                          .region = 3,
                          .bytes = 0x11223344,
                          .id = 0x0102030405060708,
                          .fence = {.epoch = 9},
                          .offset = 0x10,
                          .expected = 0x20,
                          .operand = 0x30};
    for (int i = 0; i < 16; i++) request.fence.view.bytes[i] = (uint8_t)(0xa0 + i);
    return request;
}

Test(request, the_bytes_of_a_request) {
    uint8_t header[GW_RAIL_HEADER];
    const uint8_t expected[GW_RAIL_HEADER] = {
        1,    3,    3,    0,    0x44, 0x33, 0x22, 0x11, 8,    7,    6,    5,    4,    3,    2,    1,
        9,    0,    0,    0,    0,    0,    0,    0,    0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
        0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0x10, 0,    0,    0,    0,    0,    0,    0,
        0x20, 0,    0,    0,    0,    0,    0,    0,    0x30, 0,    0,    0,    0,    0,    0,    0};
    gw_request request = sample();
    gw_request_encode(&request, header);
    cr_assert_arr_eq(header, expected, sizeof header);
}

Test(request, a_request_comes_back) {
    uint8_t header[GW_RAIL_HEADER];
    gw_request request = sample(), got;
    gw_reply reply;
    request.bytes = GW_PIECE_BYTES;
    gw_request_encode(&request, header);
    cr_assert_eq(gw_header_decode(header, &got, &reply), GW_HEADER_REQUEST);
    cr_assert(got.kind == GW_OP_CAS && got.region == 3 && got.bytes == GW_PIECE_BYTES &&
              got.id == request.id);
    cr_assert(got.fence.epoch == 9 && gw_view_name_equal(&got.fence.view, &request.fence.view));
    cr_assert(got.offset == 0x10 && got.expected == 0x20 && got.operand == 0x30);
}

Test(request, a_fetch_carries_a_name) {
    uint8_t header[GW_RAIL_HEADER];
    gw_request request = {.kind = GW_OP_FETCH, .id = 5, .capacity = 77}, got;
    gw_reply reply;
    memset(request.name.bytes, 0xcd, sizeof request.name.bytes);
    gw_request_encode(&request, header);
    cr_assert_eq(header[16], 0xcd);
    cr_assert_eq(header[47], 0xcd);
    cr_assert_eq(header[48], 77);
    cr_assert_eq(gw_header_decode(header, &got, &reply), GW_HEADER_REQUEST);
    cr_assert(gw_hash_equal(&got.name, &request.name) && got.capacity == 77 && got.id == 5);
}

Test(request, the_bytes_of_a_reply) {
    uint8_t header[GW_RAIL_HEADER];
    uint8_t expected[GW_RAIL_HEADER] = {2, 5, 1, 1,    0, 0, 0, 0, 8, 7, 6, 5,   4,
                                        3, 2, 1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x50};
    gw_reply reply = {GW_OP_FETCH, GW_OP_OK, true, 0x0102030405060708, 0x40, 0x50}, got;
    gw_request request;
    gw_reply_encode(&reply, header);
    cr_assert_arr_eq(header, expected, sizeof header);
    cr_assert_eq(gw_header_decode(header, &request, &got), GW_HEADER_REPLY);
    cr_assert(got.kind == GW_OP_FETCH && got.status == GW_OP_OK && got.last && got.id == reply.id);
    cr_assert(got.value == 0x40 && got.offset == 0x50);
}

Test(request, what_makes_no_sense_is_not_accepted) {
    uint8_t good[GW_RAIL_HEADER], bad[GW_RAIL_HEADER];
    gw_request request = sample(), got;
    gw_reply reply = {GW_OP_READ, GW_OP_OK, true, 1, 0, 0}, got_reply;
    request.bytes = 8;
    gw_request_encode(&request, good);
    const struct {
        int at;
        uint8_t value;
    } changes[] = {{0, 0}, {0, 3}, {1, 0}, {1, 6}, {7, 1}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(bad, good, sizeof bad);
        bad[changes[i].at] = changes[i].value;
        cr_assert_eq(gw_header_decode(bad, &got, &got_reply), GW_HEADER_BAD, "change %zu", i);
    }
    gw_reply_encode(&reply, good);
    const uint8_t statuses[] = {0, GW_OP_UNREACHABLE, GW_OP_UNKNOWN,
                                200}; /* a status that no answer may have */
    for (size_t i = 0; i < sizeof statuses; i++) {
        memcpy(bad, good, sizeof bad);
        bad[2] = statuses[i];
        cr_assert_eq(gw_header_decode(bad, &got, &got_reply), GW_HEADER_BAD);
    }
    bad[2] = GW_OP_OK;
    bad[3] = 2;
    cr_assert_eq(gw_header_decode(bad, &got, &got_reply), GW_HEADER_BAD);
}
