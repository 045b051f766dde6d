/* Names as text and bytes. */
#include "core/base/id.h"

#include <criterion/criterion.h>
#include <string.h>

static const gw_addr four = {.family = 4, .ip = {10, 0, 0, 1}, .port = 7117},
                     six = {.family = 6, .ip = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, .port = 7117};

Test(addr, text_names_family_and_port) {
    char text[GW_ADDR_TEXT];
    cr_assert_str_eq(gw_addr_text(&four, text), "10.0.0.1:7117");
    cr_assert_str_eq(gw_addr_text(&six, text), "[2001:db8::1]:7117");
    gw_addr any = {.family = 6, .port = 7117}, ends = {.family = 6, .ip = {0x20, [13] = 1}, .port = 1};
    cr_assert_str_eq(gw_addr_text(&any, text), "[::]:7117");
    cr_assert_str_eq(gw_addr_text(&ends, text), "[2000::1:0]:1");
    gw_addr twice = {.family = 6, .ip = {1, 1, [5] = 2, [7] = 3, [13] = 4}, .port = 1};
    cr_assert_str_eq(gw_addr_text(&twice, text), "[101:0:2:3::4:0]:1");
    gw_addr last = {.family = 6, .ip = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, .port = 1};
    cr_assert_str_eq(gw_addr_text(&last, text), "[101:101:101:101:101::]:1");
    gw_addr single = {.family = 6, .ip = {1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, .port = 1};
    cr_assert_str_eq(gw_addr_text(&single, text), "[101:0:101:101:101:101:101:101]:1");
    cr_assert_str_eq(gw_addr_text(&(gw_addr){0}, text), "none");
    gw_addr longest = {.family = 6, .port = UINT16_MAX};
    memset(longest.ip, 0xFF, sizeof longest.ip);
    cr_assert_str_eq(gw_addr_text(&longest, text), "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
}

Test(addr, equal_only_if_family_port_and_the_bytes_that_count_are) {
    gw_addr other = four;
    other.ip[15] = 9; /* no part of an address of four bytes */
    cr_assert(gw_addr_equal(&four, &other));
    other.ip[3] = 2;
    cr_assert(!gw_addr_equal(&four, &other));
    other = four;
    other.port++;
    cr_assert(!gw_addr_equal(&four, &other));
    other = four;
    other.family = 6;
    cr_assert(!gw_addr_equal(&four, &other));
    other = six;
    other.ip[15] = 9;
    cr_assert(!gw_addr_equal(&six, &other));
}

Test(addr, an_unknown_family_is_malformed) {
    for (unsigned family = 0; family < 256; family++) {
        uint8_t bytes[32];
        gw_addr addr = six, back;
        addr.family = (uint8_t)family;
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_put_addr(&w, &addr);
        gw_reader r = gw_reader_on(bytes, w.length);
        gw_get_addr(&r, &back);
        cr_assert_eq(gw_reader_done(&r), family == 0 || family == 4 || family == 6, "%u", family);
    }
}
