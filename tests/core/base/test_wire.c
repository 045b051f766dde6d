/* The codec's promises: exact bytes, no read or write past the end, failure that stays. */
#include "core/base/wire.h"

#include <criterion/criterion.h>
#include <string.h>

Test(wire, bytes_are_little_endian_and_unpadded) {
    uint8_t bytes[32];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u8(&w, 0x01);
    gw_put_u16(&w, 0x0302);
    gw_put_u32(&w, 0x07060504);
    gw_put_u64(&w, 0x0f0e0d0c0b0a0908);
    gw_put_string(&w, "hi");
    cr_assert(!w.failed);
    const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 2, 0, 'h', 'i'};
    cr_assert_eq(w.length, sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
}

Test(wire, reads_back_what_was_written) {
    uint8_t bytes[32];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u64(&w, UINT64_MAX - 3);
    gw_put_string(&w, "godwit");
    gw_reader r = gw_reader_on(bytes, w.length);
    char text[8];
    cr_assert_eq(gw_get_u64(&r), UINT64_MAX - 3);
    gw_get_string(&r, text, sizeof text);
    cr_assert_str_eq(text, "godwit");
    cr_assert(gw_reader_done(&r));
}

Test(wire, a_short_buffer_fails_the_writer_for_good) {
    uint8_t bytes[3];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_u32(&w, 1);
    cr_assert(w.failed);
    gw_put_u8(&w, 1);
    cr_assert_eq(w.length, 0);
}

Test(wire, a_short_message_fails_the_reader_for_good) {
    const uint8_t bytes[] = {1, 2, 3};
    gw_reader r = gw_reader_on(bytes, sizeof bytes);
    cr_assert_eq(gw_get_u32(&r), 0);
    cr_assert(r.failed);
    cr_assert_eq(gw_get_u8(&r), 0);
    cr_assert(!gw_reader_done(&r));
    cr_assert_eq(gw_reader_left(&r), 0);
}

Test(wire, strings_too_long_or_with_a_nul_inside_are_refused) {
    const uint8_t longer[] = {3, 0, 'a', 'b', 'c'}, nul[] = {2, 0, 'a', 0};
    char text[3];
    gw_reader r = gw_reader_on(longer, sizeof longer);
    gw_get_string(&r, text, sizeof text);
    cr_assert(r.failed);
    r = gw_reader_on(nul, sizeof nul);
    gw_get_string(&r, text, sizeof text);
    cr_assert(r.failed);
}

Test(wire, leftover_bytes_are_not_done) {
    const uint8_t bytes[] = {1, 2};
    gw_reader r = gw_reader_on(bytes, sizeof bytes);
    gw_get_u8(&r);
    cr_assert(!gw_reader_done(&r));
}

Test(wire, a_string_too_long_for_its_length_fails_the_writer) {
    static uint8_t bytes[UINT16_MAX + 100];
    static char text[UINT16_MAX + 2];
    memset(text, 'x', UINT16_MAX + 1);
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    gw_put_string(&w, text);
    cr_assert(w.failed);
    text[UINT16_MAX] = '\0';
    w = gw_writer_on(bytes, sizeof bytes);
    gw_put_string(&w, text);
    cr_assert(!w.failed);
    cr_assert_eq(w.length, 2 + UINT16_MAX);
}

Test(wire, no_bytes_are_read_as_none_and_bytes_that_are_not_there_as_zeros) {
    uint8_t bytes[2] = {7, 7};
    gw_reader r = gw_reader_on(bytes, sizeof bytes);
    uint8_t out[3] = {9, 9, 9};
    gw_get_bytes(&r, out, 0);
    cr_assert(!r.failed);
    cr_assert_eq(out[0], 9);
    gw_get_bytes(&r, out, 3);
    cr_assert(r.failed);
    cr_assert_eq(out[0] | out[1] | out[2], 0);
}
