/* Packed vectors. */
#include "core/vector/pack.h"

#include "core/rng.h"
#include "core/vector/inside.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The path of the widest vectors, as the compiler makes it for every processor: the lines are those of "avx512". */
#define IN_REGISTER(vector) __asm__("" : "+m"(vector))
#define STREAM(to, vector)  memcpy(to, &(vector), sizeof(vector))
#define ROWS(function)      function##_wide
#define ROWS_NAME           "wide"
#define ROWS_TARGET
#define ROWS_WIDTH 64
#include "core/vector/rows.inc"

enum { MOST = 3 * GW_PACK_BLOCK + 30, PATHS = 4 };

static const gw_vector_path *const *all_paths(uint32_t *count) {
    static const gw_vector_path *paths[PATHS];
    const gw_vector_path *const *here = gw_vector_paths(count);
    cr_assert_lt(*count, PATHS);
    memcpy(paths, here, *count * sizeof *here);
    paths[(*count)++] = &path_wide;
    return paths;
}

static uint64_t checksum_of(const int64_t *elements, uint64_t count) {
    gw_checksum checksum = {0};
    gw_checksum_add(&checksum, elements, count * sizeof *elements);
    return gw_checksum_end(&checksum);
}

static uint32_t bits_of(int64_t element) {
    uint32_t bits = 0;
    for (uint64_t rest = (uint64_t)(element < 0 ? ~element : element); rest != 0; rest >>= 1) bits++;
    return element == 0 ? 0 : bits + 1;
}

/* Elements of up to `width` bits, one of which has as many. */
static void fill(gw_rng *rng, int64_t *elements, uint64_t count, uint32_t width) {
    for (uint64_t i = 0; i < count; i++) {
        int64_t any = (int64_t)gw_rng_next(rng);
        elements[i] = width == 0 ? 0 : any >> (64 - width);
    }
    if (width == 0) return;
    uint64_t top = UINT64_C(1) << (width - 1);
    int64_t extremes[2] = {(int64_t)(0 - top), (int64_t)(top - 1)};
    elements[gw_rng_below(rng, count)] = extremes[width > 1 ? gw_rng_below(rng, 2) : 0];
}

/* The format's definition, bit by bit. Returns the bytes. */
static uint64_t define(const int64_t *elements, uint64_t count, uint8_t *packed) {
    memset(packed, 0, gw_pack_most(count));
    uint64_t blocks = (count + 511) / 512, bytes = (blocks + 63) / 64 * 64;
    for (uint64_t b = 0; b < blocks; b++) {
        uint64_t in_block = count - 512 * b < 512 ? count - 512 * b : 512, rows = (in_block + 7) / 8;
        const int64_t *block = elements + 512 * b;
        uint64_t width = 0;
        for (uint64_t i = 0; i < in_block; i++)
            if (bits_of(block[i]) > width) width = bits_of(block[i]);
        packed[b] = (uint8_t)width;
        for (uint64_t i = 0; i < in_block; i++)
            for (uint64_t bit = 0; bit < width; bit++) {
                uint64_t at = i / 8 * width + bit;
                uint64_t byte = bytes + at / 64 * 64 + i % 8 * 8 + at % 64 / 8;
                packed[byte] |= (uint8_t)(((uint64_t)block[i] >> bit & 1) << at % 8);
            }
        bytes += (rows * width + 63) / 64 * 64;
    }
    return bytes;
}

/* Memory of exactly so many bytes, so that the address sanitizer sees accesses behind it. */
static void *exactly(uint64_t bytes) {
    void *memory = malloc(bytes + (bytes == 0));
    cr_assert_not_null(memory);
    return memory;
}

/* Packs, checks, unpacks and adds by every path. */
static void go_round(const int64_t *elements, uint64_t count) {
    static uint8_t right[GW_PACK_LINE + 8 * (MOST + 8)];
    static int64_t back[MOST], ours[MOST], sum[MOST];
    static _Alignas(GW_PACK_LINE) uint8_t lines[8 * (MOST + 3)];
    gw_rng rng = gw_rng_seeded(count);
    uint64_t bytes = define(elements, count, right), checksum = checksum_of(elements, count);
    for (uint64_t i = 0; i < count; i++) {
        ours[i] = (int64_t)gw_rng_next(&rng);
        sum[i] = (int64_t)((uint64_t)ours[i] + (uint64_t)elements[i]);
    }
    cr_assert_leq(bytes, gw_pack_most(count));
    uint32_t paths;
    const gw_vector_path *const *path = all_paths(&paths);
    for (uint32_t p = 0; p < paths; p++) {
        for (int fused = 0; fused < 2; fused++) {
            const char *name = gw_vector_path_name(path[p]);
            gw_checksum packing = {0}, before = {0}, after = {0}, unpacking = {0};
            gw_err err;
            uint8_t *packed = exactly(gw_pack_most(count));
            cr_assert_eq(gw_pack(path[p], elements, count, packed, fused ? &packing : NULL), bytes,
                         "%s: %lu elements", name, count);
            cr_assert(memcmp(packed, right, bytes) == 0, "%s: %lu elements", name, count);
            free(packed);
            packed = exactly(bytes);
            memcpy(packed, right, bytes);
            cr_assert(gw_packed_check(packed, bytes, count, &err), "%s", err.text);
            cr_assert(gw_packed_is_least(path[p], packed, count));
            uint64_t head = gw_pack_head(count);
            cr_assert_eq(
                gw_unpack_blocks(path[p], packed, packed + head, count, back, fused ? &unpacking : NULL),
                bytes - head);
            cr_assert(memcmp(back, elements, count * sizeof *back) == 0, "%s: %lu elements", name, count);
            for (uint64_t apart = 0; fused && apart < 3;
                 apart++) { /* aligned to a line, to half a one, to none */
                gw_checksum past = {0};
                int64_t *out = (int64_t *)(void *)(lines + apart * sizeof *out);
                memset(lines, 1, sizeof lines);
                cr_assert_eq(gw_unpack_past_caches(path[p], packed, packed + head, count, out, &past),
                             bytes - head);
                cr_assert(memcmp(out, elements, count * sizeof *out) == 0, "%s: %lu elements", name, count);
                cr_assert_eq(gw_checksum_end(&past), checksum);
                memset(lines, 1, sizeof lines);
                gw_copy_past_caches(path[p], elements, count, out);
                cr_assert(memcmp(out, elements, count * sizeof *out) == 0, "%s: %lu elements", name, count);
                uint8_t *behind = (uint8_t *)(out + count);
                cr_assert_eq(*behind, 1);
            }
            memset(back, 1, sizeof back);
            cr_assert_eq(gw_unpack_add(path[p], packed, packed + head, count, ours, back,
                                       fused ? &before : NULL, fused ? &after : NULL),
                         bytes - head);
            cr_assert(memcmp(back, sum, count * sizeof *back) == 0, "%s: %lu elements", name, count);
            memcpy(back, ours, count * sizeof *back);
            gw_unpack_add(path[p], packed, packed + head, count, back, back, NULL, NULL);
            cr_assert(memcmp(back, sum, count * sizeof *back) == 0, "%s: %lu elements in place", name, count);
            free(packed);
            if (!fused) continue;
            cr_assert_eq(gw_checksum_end(&packing), checksum, "%s: %lu elements", name, count);
            cr_assert_eq(gw_checksum_end(&unpacking), checksum, "%s: %lu elements", name, count);
            cr_assert_eq(gw_checksum_end(&before), checksum, "%s: %lu elements", name, count);
            cr_assert_eq(gw_checksum_end(&after), checksum_of(sum, count), "%s: %lu elements", name, count);
        }
    }
}

Test(pack, every_width_goes_round) {
    static int64_t elements[MOST];
    gw_rng rng = gw_rng_seeded(1);
    for (uint32_t width = 0; width <= 64; width++) {
        fill(&rng, elements, GW_PACK_BLOCK, width);
        go_round(elements, GW_PACK_BLOCK);
        uint64_t count = 1 + gw_rng_below(&rng, GW_PACK_BLOCK);
        fill(&rng, elements, count, width);
        go_round(elements, count);
    }
}

Test(pack, every_length_goes_round) {
    static int64_t elements[MOST];
    static const uint64_t around[] = {0,    1,    7,    8,    9,    15,   16,   17,  63,  64,
                                      65,   503,  504,  505,  511,  512,  513,  519, 520, 521,
                                      1023, 1024, 1025, 1032, 1535, 1536, 1537, MOST};
    gw_rng rng = gw_rng_seeded(2);
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
        uint64_t count = around[i];
        for (uint64_t at = 0; at < count; at += GW_PACK_BLOCK)
            fill(&rng, elements + at, count - at < GW_PACK_BLOCK ? count - at : GW_PACK_BLOCK,
                 (uint32_t)gw_rng_below(&rng, 65));
        go_round(elements, count);
    }
}

Test(pack, extremes_go_round) {
    int64_t elements[40] = {INT64_MIN, -1, 0, INT64_MAX, 1, -2, INT64_MIN + 1, INT64_MIN / 2, INT64_MAX / 2};
    go_round(elements, 9);
    go_round(elements, 40);
    for (int i = 0; i < 9; i++) {
        uint8_t packed[2 * GW_PACK_LINE];
        uint64_t bytes = gw_pack(gw_vector_path_best(), &elements[i], 1, packed, NULL);
        cr_assert_eq(packed[0], bits_of(elements[i]), "element %d", i);
        cr_assert_eq(bytes, elements[i] == 0 ? GW_PACK_LINE : 2 * GW_PACK_LINE);
        go_round(&elements[i], 1);
    }
}

/* What peers tell each other, and so a part of the protocol. */
Test(pack, bytes_are_these) {
    int64_t elements[9] = {1, -1, 2, -2, 3, -3, 4, -4, -4};
    static const uint8_t lanes[8] = {0x01, 0x0f, 0x02, 0x0e, 0x03, 0x0d, 0x04, 0x0c};
    uint8_t packed[2 * GW_PACK_LINE], right[2 * GW_PACK_LINE] = {4};
    for (int lane = 0; lane < 8; lane++) right[GW_PACK_LINE + 8 * lane] = lanes[lane];
    right[GW_PACK_LINE] |= 0xc0; /* the ninth element */
    cr_assert_eq(gw_pack_most(9), 3 * GW_PACK_LINE);
    cr_assert_eq(gw_pack(gw_vector_path_best(), elements, 9, packed, NULL), sizeof right);
    cr_assert_arr_eq(packed, right, sizeof right);
}

Test(pack, ranges_of_blocks_make_the_bytes_of_the_whole) {
    static int64_t elements[MOST], back[MOST];
    static uint8_t whole[GW_PACK_LINE + 8 * (MOST + 8)], parts[sizeof whole];
    gw_rng rng = gw_rng_seeded(3);
    for (uint64_t at = 0; at < MOST; at += GW_PACK_BLOCK)
        fill(&rng, elements + at, MOST - at < GW_PACK_BLOCK ? MOST - at : GW_PACK_BLOCK,
             20 + (uint32_t)(at / 100));
    gw_checksum of_whole = {0}, of_parts = {0}, unpacked = {0};
    const gw_vector_path *path = gw_vector_path_best();
    uint64_t bytes = gw_pack(path, elements, MOST, whole, &of_whole), head = gw_pack_head(MOST), at = head,
             from = head;
    for (uint64_t i = 0; i < MOST; i += 2 * GW_PACK_BLOCK) {
        uint64_t count = MOST - i < 2 * GW_PACK_BLOCK ? MOST - i : 2 * GW_PACK_BLOCK;
        at += gw_pack_blocks(path, elements + i, count, parts + i / GW_PACK_BLOCK, parts + at, &of_parts);
        from += gw_unpack_blocks(path, parts + i / GW_PACK_BLOCK, parts + from, count, back + i, &unpacked);
        cr_assert_eq(from, at);
    }
    cr_assert_eq(at, bytes);
    cr_assert_arr_eq(parts, whole, bytes);
    cr_assert_arr_eq(back, elements, sizeof elements);
    cr_assert_eq(gw_checksum_end(&of_parts), gw_checksum_end(&of_whole));
    cr_assert_eq(gw_checksum_end(&unpacked), gw_checksum_end(&of_whole));
}

Test(pack, sums_wrap) {
    const int64_t elements[3] = {INT64_MAX, INT64_MIN, -1}, ours[3] = {2, -1, INT64_MIN};
    const int64_t right[3] = {INT64_MIN + 1, INT64_MAX, INT64_MAX};
    int64_t most[16], sum[16];
    uint8_t packed[GW_PACK_LINE + 2 * GW_PACK_LINE];
    uint32_t paths;
    const gw_vector_path *const *path = all_paths(&paths);
    for (uint32_t p = 0; p < paths; p++) {
        gw_pack(path[p], elements, 3, packed, NULL);
        gw_unpack_add(path[p], packed, packed + GW_PACK_LINE, 3, ours, sum, NULL, NULL);
        cr_assert_arr_eq(sum, right, sizeof right);
        for (int i = 0; i < 16; i++) most[i] = INT64_MAX; /* whole lines, of a width below 64 */
        const int64_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        gw_pack(path[p], ones, 16, packed, NULL);
        gw_unpack_add(path[p], packed, packed + GW_PACK_LINE, 16, most, sum, NULL, NULL);
        for (int i = 0; i < 16; i++) cr_assert_eq(sum[i], INT64_MIN, "%s", gw_vector_path_name(path[p]));
    }
}

static void refuse(const uint8_t *packed, uint64_t bytes, uint64_t count, const char *text) {
    gw_err err;
    cr_assert_not(gw_packed_check(packed, bytes, count, &err), "expected: %s", text);
    cr_assert_eq(err.code, GW_E_INVALID);
    cr_assert_not_null(strstr(err.text, text), "%s", err.text);
}

Test(pack, malformed_vectors_are_refused) {
    static int64_t elements[MOST];
    static uint8_t packed[GW_PACK_LINE + 8 * (MOST + 8) + 1];
    gw_rng rng = gw_rng_seeded(4);
    fill(&rng, elements, MOST, 30);
    uint64_t bytes = gw_pack(gw_vector_path_best(), elements, MOST, packed, NULL);
    gw_err err;
    cr_assert(gw_packed_check(packed, bytes, MOST, &err));
    for (uint64_t length = 0; length < GW_PACK_LINE; length++)
        refuse(packed, length, MOST, "end in the 4 widths");
    for (uint64_t length = GW_PACK_LINE; length <= bytes + 1; length++)
        if (length != bytes) refuse(packed, length, MOST, "bytes, not");
    for (int block = 0; block < 4; block++) {
        uint8_t width = packed[block];
        for (uint32_t other = 0; other < 256; other++) {
            packed[block] = (uint8_t)other;
            if (other > 64)
                refuse(packed, bytes, MOST, "bits an element");
            else if (gw_pack_block_bytes(block < 3 ? 512 : 30, other) !=
                     gw_pack_block_bytes(block < 3 ? 512 : 30, width))
                refuse(packed, bytes, MOST, "bytes, not");
        }
        packed[block] = width;
    }
    for (int byte = 4; byte < GW_PACK_LINE; byte++) {
        packed[byte] = 1;
        refuse(packed, bytes, MOST, "the width of another one");
        packed[byte] = 0;
    }
    for (uint64_t count = 1; count < 2 * MOST; count++)
        if ((count + 511) / 512 != 4) cr_assert_not(gw_packed_check(packed, bytes, count, &err));
    cr_assert(gw_packed_check(packed, 0, 0, &err));
    refuse(packed, 1, 0, "a packed vector of 0 elements has 1 bytes, not 0");
}

/* A wider field, a bit of the filling of the last line, and one behind the fields of a lane: none is ever written. */
Test(pack, other_bytes_of_the_same_elements_are_not_least) {
    int64_t elements[20], back[20];
    uint8_t packed[GW_PACK_LINE + 4 * GW_PACK_LINE];
    gw_err err;
    for (int i = 0; i < 20; i++) elements[i] = i - 4;
    uint32_t paths;
    const gw_vector_path *const *path = all_paths(&paths);
    for (uint32_t p = 0; p < paths; p++) {
        uint64_t bytes = gw_pack(path[p], elements, 20, packed, NULL);
        cr_assert(bytes == 2 * GW_PACK_LINE && packed[0] == 5 && gw_packed_is_least(path[p], packed, 20));
        for (uint64_t bit = 0; bit < 8 * GW_PACK_LINE; bit++) {
            uint64_t lane = bit / 64, field = bit % 64 / 5;
            packed[GW_PACK_LINE + bit / 8] ^= (uint8_t)(1 << bit % 8);
            cr_assert(gw_packed_check(packed, bytes, 20, &err));
            if (8 * field + lane >= 20) {
                cr_assert_not(gw_packed_is_least(path[p], packed, 20), "bit %lu", bit);
                gw_unpack_blocks(path[p], packed, packed + GW_PACK_LINE, 20, back, NULL);
                cr_assert_arr_eq(back, elements, sizeof elements);
            }
            packed[GW_PACK_LINE + bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        memset(packed + GW_PACK_LINE, 0, GW_PACK_LINE); /* all are 0, of one bit */
        packed[0] = 1;
        cr_assert(gw_packed_check(packed, bytes, 20, &err) && !gw_packed_is_least(path[p], packed, 20));
    }
}

/* The checksums and sums of core/vector/sum.h by every path, not by the best one alone. */
Test(pack, paths_agree_on_checksums_and_sums) {
    enum { LINES = 9 };
    static int64_t in[8 * LINES], theirs[8 * LINES], out[8 * LINES], right[8 * LINES];
    gw_rng rng = gw_rng_seeded(5);
    uint32_t paths;
    const gw_vector_path *const *path = all_paths(&paths);
    for (gw_sum_type type = GW_SUM_I64; type <= GW_SUM_F32; type++) {
        fill(&rng, in, 8 * LINES, 64);
        fill(&rng, theirs, 8 * LINES, 64);
        for (int i = 0; i < 16 * LINES && type == GW_SUM_F32; i++) {
            ((float *)in)[i] = (float)(i % 37) * 0.1f;
            ((float *)theirs)[i] = (float)(i % 41) * 0.3f;
        }
        gw_checksum before = {0}, after = {0};
        path[0]->add(type, right, in, theirs, LINES, &before, &after);
        for (uint32_t p = 1; p < paths; p++) {
            gw_checksum found[2] = {{0}, {0}}, taken = {0};
            path[p]->take(&taken, theirs, 2);
            path[p]->take(&taken, theirs + 16, LINES - 2);
            path[p]->add(type, out, in, theirs, 3, &found[0], &found[1]);
            path[p]->add(type, out + 24, in + 24, theirs + 24, LINES - 3, &found[0], &found[1]);
            cr_assert_arr_eq(out, right, sizeof right);
            cr_assert_arr_eq(&found[0], &before, sizeof before);
            cr_assert_arr_eq(&found[1], &after, sizeof after);
            cr_assert_arr_eq(&taken, &before, sizeof before);
        }
    }
}
