/* Entries of a file to which others are appended. */
#include "core/base/entry.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST = 100 };

static gw_entry_found read(const uint8_t *bytes, size_t count, const uint8_t **body, uint32_t *length) {
    gw_reader r = gw_reader_on(bytes, count);
    return gw_entry_read(&r, MOST, body, length);
}

Test(entry, what_was_sealed_is_read_and_what_is_torn_or_damaged_is_told) {
    static const char *const texts[] = {"", "a", "an entry"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint8_t bytes[GW_ENTRY_HEAD_BYTES + MOST];
        const uint8_t *body;
        uint32_t length = (uint32_t)strlen(texts[i]), found;
        size_t whole = GW_ENTRY_HEAD_BYTES + length;
        memcpy(bytes + GW_ENTRY_HEAD_BYTES, texts[i], length);
        gw_entry_seal(bytes, length);
        cr_assert_eq(read(bytes, whole, &body, &found), GW_ENTRY_WHOLE);
        cr_expect(found == length && body == bytes + GW_ENTRY_HEAD_BYTES);
        for (size_t cut = 0; cut < whole; cut++) cr_expect_eq(read(bytes, cut, &body, &found), GW_ENTRY_TORN);
        for (size_t bit = 0; bit < 8 * whole; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            cr_expect_neq(read(bytes, whole, &body, &found), GW_ENTRY_WHOLE, "bit %zu", bit);
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

Test(entry, one_that_is_longer_than_any_may_be_is_damaged) {
    static uint8_t bytes[GW_ENTRY_HEAD_BYTES + MOST + 1];
    const uint8_t *body;
    uint32_t length;
    gw_entry_seal(bytes, MOST);
    cr_expect_eq(read(bytes, sizeof bytes, &body, &length), GW_ENTRY_WHOLE);
    gw_entry_seal(bytes, MOST + 1);
    cr_expect_eq(read(bytes, sizeof bytes, &body, &length), GW_ENTRY_DAMAGED);
}
