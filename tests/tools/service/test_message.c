/* The messages between a peer and its clients: whole, cut, and with lengths that are too large. */
#include "tools/godwit/service/message.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static gw_err err;

static gw_service_request chunk_request(void) {
    return (gw_service_request){
        .kind = GW_SERVICE_CHUNK, .id = 7, .name = {{1, 2}}, .length = 1000, .peer = {{9}}};
}

Test(service_message, a_request_arrives_as_it_was_sent_and_no_part_of_it_does) {
    const gw_service_request requests[] = {
        {.kind = GW_SERVICE_LIST, .id = 1},
        {.kind = GW_SERVICE_MANIFEST, .checkpoint = {{{3}}, 40, {{5}}}, .offset = 4096},
        {.kind = GW_SERVICE_HOLDERS, .checkpoint = {{{3}}, 40, {{5}}}, .others = true},
        chunk_request(),
        {.kind = GW_SERVICE_MEMBERS, .id = 2},
        {.kind = GW_SERVICE_TIME, .id = 3},
        {.kind = GW_SERVICE_TRACE, .id = 4},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        uint8_t bytes[GW_SERVICE_REQUEST_BYTES + 1] = {0}, again[GW_SERVICE_REQUEST_BYTES];
        gw_service_request got;
        size_t length = gw_service_request_encode(&requests[i], bytes);
        cr_assert(gw_service_request_decode(bytes, length, &got, &err), "%s", err.text);
        cr_assert_eq(gw_service_request_encode(&got, again), length);
        cr_assert_arr_eq(again, bytes, length);
        for (size_t cut = 0; cut < length; cut++)
            cr_assert_not(gw_service_request_decode(bytes, cut, &got, &err));
        cr_assert_not(gw_service_request_decode(bytes, length + 1, &got, &err));
        cr_assert_eq(err.code, GW_E_INVALID);
    }
}

/* The bytes of version 1. */
Test(service_message, the_bytes_are_those_that_other_builds_know) {
    uint8_t bytes[GW_SERVICE_REQUEST_BYTES], *answer;
    char text[2 * GW_SERVICE_REQUEST_BYTES + 1];
    size_t length;
    const gw_service_request request = chunk_request();
    const uint8_t piece[] = {0xaa, 0xbb};
    const gw_service_answer chunk = {.kind = GW_SERVICE_CHUNK, .id = 7, .bytes = piece, .length = 2};
    gw_hex(bytes, gw_service_request_encode(&request, bytes), text);
    cr_assert_str_eq(text, "010407000000"
                           "0102000000000000000000000000000000000000000000000000000000000000"
                           "e8030000"
                           "09000000000000000000000000000000");
    cr_assert(gw_service_answer_encode(&chunk, &answer, &length, &err));
    gw_hex(answer, length, text);
    cr_assert_str_eq(text, "01040700000000"
                           "02000000aabb");
    free(answer);
}

Test(service_message, no_chunk_of_no_bytes_or_of_too_many_is_asked_for) {
    const uint32_t lengths[] = {0, GW_SERVICE_PIECE_BYTES + 1, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        uint8_t bytes[GW_SERVICE_REQUEST_BYTES];
        gw_service_request request = chunk_request(), got;
        request.length = lengths[i];
        size_t length = gw_service_request_encode(&request, bytes);
        cr_assert_not(gw_service_request_decode(bytes, length, &got, &err));
    }
}

Test(service_message, another_version_is_told_as_such) {
    uint8_t bytes[GW_SERVICE_REQUEST_BYTES];
    gw_service_request request = chunk_request();
    size_t length = gw_service_request_encode(&request, bytes);
    bytes[0] = GW_SERVICE_VERSION + 1;
    cr_assert_not(gw_service_request_decode(bytes, length, &request, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert_not_null(strstr(err.text, "version 2"), "%s", err.text);
}

/* Every cut of an encoded answer is refused, and its memory freed (the sanitizers see to that). */
static void check_answer(const gw_service_answer *answer) {
    uint8_t *bytes, *again;
    size_t length, length_again;
    gw_service_answer got;
    cr_assert(gw_service_answer_encode(answer, &bytes, &length, &err));
    cr_assert(gw_service_answer_decode(bytes, length, &got, &err), "%s", err.text);
    cr_assert(gw_service_answer_encode(&got, &again, &length_again, &err));
    cr_assert_eq(length_again, length);
    cr_assert_arr_eq(again, bytes, length);
    gw_service_answer_free(&got);
    for (size_t cut = 0; cut < length; cut++) cr_assert_not(gw_service_answer_decode(bytes, cut, &got, &err));
    free(again);
    free(bytes);
}

Test(service_message, an_answer_arrives_as_it_was_sent_and_no_part_of_it_does) {
    gw_checkpoint_key keys[2] = {{{{1}}, 2, {{3}}}, {{{4}}, 5, {{6}}}};
    gw_service_holder holders[3] = {
        {.id = {{1}}, .addr = {.family = 4, .port = 7}, .name = "Knoten-ä", .chunks = gw_set_of(70)},
        {.id = {{2}}, .knowledge = GW_HOLDER_SILENT},
        {.id = {{3}}, .knowledge = GW_HOLDER_UNKNOWN},
    };
    gw_set_add(&holders[0].chunks, 69);
    const uint8_t piece[] = {1, 2, 3};
    check_answer(&(gw_service_answer){.kind = GW_SERVICE_WELCOME, .self = {{8}}});
    check_answer(&(gw_service_answer){.kind = GW_SERVICE_LIST, .id = 2, .listed = keys, .count = 2});
    check_answer(&(gw_service_answer){.kind = GW_SERVICE_HOLDERS, .id = 3, .holders = holders, .count = 3});
    check_answer(&(gw_service_answer){.kind = GW_SERVICE_CHUNK, .bytes = piece, .length = 3});
    check_answer(&(gw_service_answer){
        .kind = GW_SERVICE_MANIFEST, .file_bytes = 10, .offset = 7, .bytes = piece, .length = 3});
    check_answer(&(gw_service_answer){
        .kind = GW_SERVICE_CHUNK, .outcome = GW_SERVICE_UNREACHABLE, .why = "it is gone"});
    gw_set_free(&holders[0].chunks);
}

Test(service_message, a_piece_beyond_the_end_of_its_file_is_refused) {
    uint8_t *bytes;
    size_t length;
    gw_service_answer got;
    const uint8_t piece[] = {1, 2, 3};
    const gw_service_answer answer = {
        .kind = GW_SERVICE_MANIFEST, .file_bytes = 9, .offset = 7, .bytes = piece, .length = 3};
    cr_assert(gw_service_answer_encode(&answer, &bytes, &length, &err));
    cr_assert_not(gw_service_answer_decode(bytes, length, &got, &err));
    free(bytes);
}

Test(service_message, a_text_that_could_steer_a_terminal_is_refused) {
    uint8_t *bytes;
    size_t length;
    gw_service_answer got;
    const gw_service_answer answer = {.kind = GW_SERVICE_CHUNK, .outcome = GW_SERVICE_BUSY, .why = "\033[2J"};
    cr_assert(gw_service_answer_encode(&answer, &bytes, &length, &err));
    cr_assert_not(gw_service_answer_decode(bytes, length, &got, &err));
    free(bytes);
}
