/* Hashing several messages at once gives the digests of libsodium. */
#include "checkpoint/multi_hash.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 9 };

/* Hashes `count` messages of the given lengths both ways. */
static void compare(const size_t *lengths, size_t count) {
    gw_hash_input inputs[MOST];
    gw_hash hashes[MOST], expected;
    gw_rng rng = gw_rng_seeded(count);
    for (size_t i = 0; i < count; i++) {
        uint8_t *bytes = malloc(lengths[i] + 1);
        for (size_t b = 0; b < lengths[i]; b++) bytes[b + 1] = (uint8_t)gw_rng_next(&rng);
        inputs[i] = (gw_hash_input){bytes + 1, lengths[i], &hashes[i]}; /* not aligned */
    }
    memset(hashes, 0, sizeof hashes);
    gw_multi_hash(inputs, count);
    for (size_t i = 0; i < count; i++) {
        gw_blake2b(inputs[i].bytes, lengths[i], expected.bytes, sizeof expected.bytes);
        cr_assert(gw_hash_equal(&hashes[i], &expected), "message %zu of %zu, %zu bytes", i, count,
                  lengths[i]);
        free((uint8_t *)(uintptr_t)inputs[i].bytes - 1);
    }
}

Test(multi_hash, agree_with_libsodium) {
    for (size_t count = 0; count <= MOST; count++)
        for (size_t blocks = 0; blocks <= 5; blocks++) {
            size_t lengths[MOST];
            for (size_t i = 0; i < MOST; i++) lengths[i] = 128 * blocks;
            compare(lengths, count);
        }
}

Test(multi_hash, agree_for_unequal_and_odd_lengths) {
    static const size_t lengths[MOST] = {4096, 4096, 4096, 4095, 4096, 128, 128, 128, 128};
    for (size_t count = 0; count <= MOST; count++) compare(lengths, count);
    static const size_t odd[4] = {1000, 1000, 1000, 1000};
    compare(odd, 4);
}

/* RFC 7693 has no vector with a digest of 32 bytes. This one is the reference b2sum -l 256 of 128 times "a".
 * */
Test(multi_hash, agrees_with_b2sum) {
    char text[129];
    memset(text, 'a', 128);
    gw_hash hashes[4];
    gw_hash_input inputs[4];
    for (int i = 0; i < 4; i++) inputs[i] = (gw_hash_input){text, 128, &hashes[i]};
    gw_multi_hash(inputs, 4);
    char digits[GW_HASH_TEXT];
    gw_hex(hashes[3].bytes, 32, digits);
    cr_assert_str_eq(digits, "ae2aa48507885c4c950fb809b2076f959cde9f8ea6da260d9a3587df33dac450");
}
