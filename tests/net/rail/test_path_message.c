/* The bytes of the messages by which the two sides of a link agree on a path, and what is not accepted. */
#include "net/rail/path_message.h"

#include <criterion/criterion.h>
#include <string.h>

Test(path_message, the_bytes_of_a_header) {
    uint8_t header[GW_RAIL_HEADER], expected[GW_RAIL_HEADER] = {3, 3, 2, 0, 0x44, 0x33, 0x22, 0x11};
    gw_path_note note = {.what = GW_PATH_TELL, .kind = GW_PATH_SHM, .serial = 0x11223344}, got;
    gw_path_note_encode(&note, header);
    cr_assert_arr_eq(header, expected, sizeof header);
    cr_assert(gw_path_note_decode(header, &got));
    cr_assert(got.what == GW_PATH_TELL && got.kind == GW_PATH_SHM && got.serial == 0x11223344);
}

Test(path_message, headers_that_make_no_sense_are_refused) {
    uint8_t header[GW_RAIL_HEADER];
    gw_path_note note = {.what = GW_PATH_USE}, got;
    gw_path_note_encode(&note, header);
    header[0] = 1; /* a request */
    cr_assert(!gw_path_note_decode(header, &got));
    gw_path_note_encode(&note, header);
    header[1] = 0;
    cr_assert(!gw_path_note_decode(header, &got));
    header[1] = GW_PATH_USE + 1;
    cr_assert(!gw_path_note_decode(header, &got));
    gw_path_note_encode(&note, header);
    header[2] = GW_PATH_KINDS;
    cr_assert(!gw_path_note_decode(header, &got));
}

static uint32_t sample(uint8_t bytes[GW_PATH_HELLO_BYTES]) {
    gw_path_hello hello = {.kinds = GW_PATH_BIT(GW_PATH_TCP) | GW_PATH_BIT(GW_PATH_SHM)};
    hello.cards[GW_PATH_SHM].count = 3;
    memcpy(hello.cards[GW_PATH_SHM].bytes, "abc", 3);
    return gw_path_hello_encode(&hello, bytes);
}

Test(path_message, the_bytes_of_a_hello) {
    uint8_t bytes[GW_PATH_HELLO_BYTES], expected[] = {6, 1, 2, 3, 0, 'a', 'b', 'c'};
    gw_path_hello got;
    cr_assert_eq(sample(bytes), sizeof expected);
    cr_assert_arr_eq(bytes, expected, sizeof expected);
    cr_assert(gw_path_hello_decode(bytes, sizeof expected, &got));
    cr_assert(got.kinds == 6 && got.cards[GW_PATH_SHM].count == 3 && got.cards[GW_PATH_RDMA].count == 0);
    cr_assert_arr_eq(got.cards[GW_PATH_SHM].bytes, "abc", 3);
}

Test(path_message, a_hello_in_every_shorter_length_and_with_more_is_refused) {
    uint8_t bytes[GW_PATH_HELLO_BYTES];
    gw_path_hello got;
    uint32_t count = sample(bytes);
    for (uint32_t i = 0; i < count; i++) cr_assert(!gw_path_hello_decode(bytes, i, &got), "%u bytes", i);
    cr_assert(!gw_path_hello_decode(bytes, count + 1, &got));
    bytes[4] = 0xff; /* a card of 65 KiB */
    cr_assert(!gw_path_hello_decode(bytes, count, &got));
    bytes[3] = bytes[4] = 0; /* one of no length */
    cr_assert(!gw_path_hello_decode(bytes, 5, &got));
}

Test(path_message, kinds_of_later_versions_are_skipped) {
    uint8_t bytes[] = {2 | 64, 2, 6, 1, 0, 'x', 2, 1, 0, 'y'};
    gw_path_hello got;
    cr_assert(gw_path_hello_decode(bytes, sizeof bytes, &got));
    cr_assert(got.kinds == (2 | 64) && got.cards[GW_PATH_SHM].bytes[0] == 'y');
}
