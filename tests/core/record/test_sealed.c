/* The file of a peer's votes: what is damaged in whatever way is not taken for what was written. */
#include "core/record/sealed.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LENGTH = 100, SIZE = LENGTH + GW_RECORD_FILE_CHECKSUM };

static void seal(uint8_t bytes[SIZE]) {
    for (uint8_t i = 0; i < LENGTH; i++) bytes[i] = i;
    gw_record_file_seal(bytes, LENGTH);
}

Test(sealed_record, what_was_written_is_read) {
    uint8_t bytes[SIZE];
    size_t length = 0;
    seal(bytes);
    cr_assert(gw_record_file_open(bytes, SIZE, &length));
    cr_assert_eq(length, LENGTH);
    for (uint8_t i = 0; i < LENGTH; i++) cr_assert_eq(bytes[i], i);
}

Test(sealed_record, any_bit_that_flips_is_noticed) {
    uint8_t bytes[SIZE];
    size_t length;
    seal(bytes);
    for (size_t bit = 0; bit < 8 * (size_t)SIZE; bit++) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1U << bit % 8);
        cr_assert_not(gw_record_file_open(bytes, SIZE, &length), "bit %zu", bit);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1U << bit % 8);
    }
}

Test(sealed_record, one_that_ends_too_early_is_noticed) {
    uint8_t bytes[SIZE];
    size_t length;
    seal(bytes);
    for (size_t size = 0; size < SIZE; size++)
        cr_assert_not(gw_record_file_open(bytes, size, &length), "%zu bytes", size);
}
