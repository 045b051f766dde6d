/* Reading bytes that were written in hexadecimal. */
#include "core/base/hex.h"

#include "core/base/id.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(hex, what_was_written_is_read) {
    uint8_t bytes[256], read[256];
    char text[2 * sizeof bytes + 1];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    gw_hex(bytes, sizeof bytes, text);
    cr_expect(gw_unhex(text, read, sizeof read));
    cr_expect_arr_eq(read, bytes, sizeof bytes);
    cr_expect(gw_unhex("", read, 0));
}

Test(hex, anything_else_is_not_and_changes_nothing) {
    static const char *const bad[] = {"",     "12",   "12345", "1234 ", " 234",
                                      "12G4", "12A4", "0x12",  "12\n4", "-123"};
    uint8_t bytes[2] = {7, 8};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(gw_unhex(bad[i], bytes, sizeof bytes), "%s", bad[i]);
    cr_expect_not(gw_unhex(NULL, bytes, sizeof bytes));
    cr_expect(bytes[0] == 7 && bytes[1] == 8);
}
