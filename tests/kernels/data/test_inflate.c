/* Compressed files, whole, in parts, damaged and cut off. */
#include "kernels/data/inflate.h"

#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { PLAIN = 200000, PACKED = 400000 };

static char plain[PLAIN], packed[PACKED], out[2 * PLAIN + 1];

/* Two members, or two frames, one after the other: one of text that compresses well, one of text that does
 * not. */
static size_t pack(gw_compression compression, size_t *first) {
    gw_rng rng = gw_rng_seeded(1);
    size_t total = 0;
    for (size_t i = 0; i < PLAIN; i++)
        plain[i] = i < PLAIN / 2 ? "hello world "[i % 12] : (char)gw_rng_below(&rng, 256);
    for (int half = 0; half < 2; half++) {
        const char *from = plain + half * (PLAIN / 2);
        if (compression == GW_ZSTD) {
            size_t made = ZSTD_compress(packed + total, PACKED - total, from, PLAIN / 2, 3);
            cr_assert_not(ZSTD_isError(made));
            total += made;
        } else {
            z_stream z = {.next_in = (Bytef *)(uintptr_t)from,
                          .avail_in = PLAIN / 2,
                          .next_out = (Bytef *)packed + total,
                          .avail_out = (uInt)(PACKED - total)};
            cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
            cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
            total += z.total_out;
            deflateEnd(&z);
        }
        if (half == 0 && first != NULL) *first = total;
    }
    return total;
}

/* Decompresses input in parts of up to `in` bytes and output of up to `room` bytes; returns the number of
 * bytes, or -1 with *err. */
static long unpack(size_t length, uint32_t in, uint32_t room, gw_err *err) {
    gw_compression compression;
    gw_inflater *inflater;
    gw_rng rng = gw_rng_seeded(in + room);
    size_t total = 0, made;
    cr_assert(gw_compression_of(packed, length, &compression, err), "%s", err->text);
    cr_assert_neq(compression, GW_PLAIN);
    cr_assert(gw_inflater_open(compression, &inflater, err), "%s", err->text);
    bool good = true;
    for (size_t at = 0, part; good && at < length; at += part) {
        part = 1 + gw_rng_below(&rng, in);
        if (part > length - at) part = length - at;
        const char *from = packed + at;
        size_t left = part, some;
        do {
            some = 1 + gw_rng_below(&rng, room);
            if (some > sizeof out - total) some = sizeof out - total;
            cr_assert_gt(some, 0);
            good = gw_inflater_run(inflater, &from, &left, out + total, some, &made, err);
            if (good) total += made;
        } while (good && (left > 0 || made == some));
    }
    good = good && gw_inflater_end(inflater, err);
    gw_inflater_close(inflater);
    return good ? (long)total : -1;
}

Test(inflate, files_are_the_same_however_they_come) {
    gw_err err;
    for (int c = GW_GZIP; c <= GW_ZSTD; c++) {
        size_t length = pack((gw_compression)c, NULL);
        static const uint32_t parts[][2] = {
            {PACKED, 2 * PLAIN}, {1, 100}, {100, 1}, {70000, 65536}, {7, 65536}};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            cr_assert_eq(unpack(length, parts[i][0], parts[i][1], &err), PLAIN, "%d, %zu", c, i);
            cr_assert_eq(memcmp(out, plain, PLAIN), 0);
        }
    }
}

/* A file may end only behind a whole member. */
Test(inflate, what_was_cut_off_is_told_of) {
    gw_err err;
    for (int c = GW_GZIP; c <= GW_ZSTD; c++) {
        size_t first, length = pack((gw_compression)c, &first);
        cr_expect_eq(unpack(first, 1000, 1000, &err), PLAIN / 2);
        for (size_t cut = 6; cut < length; cut += cut < 40 ? 1 : 9001) {
            if (cut == first) continue;
            cr_assert_eq(unpack(cut, 1000, 1000, &err), -1, "%zu of %zu", cut, length);
            cr_assert_eq(err.code, GW_E_CORRUPT);
            cr_assert_not_null(strstr(err.text, "was cut off"), "%zu: %s", cut, err.text);
        }
    }
}

Test(inflate, random_damage_does_no_harm) {
    gw_err err;
    gw_rng rng = gw_rng_seeded(3);
    for (int c = GW_GZIP; c <= GW_ZSTD; c++) {
        int refused = 0;
        for (int round = 0; round < 60; round++) {
            size_t length = pack((gw_compression)c, NULL);
            packed[6 + gw_rng_below(&rng, length - 6)] ^= (char)(1 << gw_rng_below(&rng, 8));
            refused += unpack(length, PACKED, PLAIN, &err) < 0;
        }
        if (c == GW_GZIP) cr_expect_gt(refused, 50); /* zstd need not have a checksum */
    }
}

Test(inflate, padding_is_no_member_and_other_things_are_not_either) {
    gw_err err;
    size_t length = pack(GW_GZIP, NULL);
    memset(packed + length, 0, 600);
    cr_expect_eq(unpack(length + 600, 1000, 1000, &err), PLAIN);
    packed[length + 599] = 1;
    cr_expect_eq(unpack(length + 600, 1000, 1000, &err), -1);
    cr_expect_not_null(strstr(err.text, "something behind its compressed data"), "%s", err.text);
    memset(packed + length, 'x', 9);
    cr_expect_eq(unpack(length + 9, 1000, 1000, &err), -1);
    cr_expect_eq(err.code, GW_E_CORRUPT);
}

Test(inflate, formats_are_told_by_their_first_bytes) {
    gw_compression compression;
    gw_err err;
    static const char *const texts[] = {"", "a", "BZhang", "\x1f", "\x1f\x8b", "text"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cr_expect(gw_compression_of(texts[i], strlen(texts[i]), &compression, &err));
        cr_expect_eq(compression, GW_PLAIN, "%zu", i);
    }
    cr_expect_not(gw_compression_of("\xfd"
                                    "7zXZ\0",
                                    6, &compression, &err));
    cr_expect(err.code == GW_E_UNSUPPORTED && strstr(err.text, "Put in 'xz -dc FILE |'") != NULL, "%s",
              err.text);
    cr_expect_not(gw_compression_of("BZh91AY&SY", 10, &compression, &err));
    cr_expect_not_null(strstr(err.text, "is compressed by bzip2"), "%s", err.text);
}
