#include "core/state/exact.h"
#include "core/state/layout.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P, M, FLAGS, GRAD, LOSS, COUNT, TENSORS };

static void fill(gw_tensor *tensors) {
    tensors[P] = (gw_tensor){.name = "p", .dtype = GW_F32, .role = GW_STATE, .rank = 2, .dim = {300, 700}};
    tensors[M] = (gw_tensor){.name = "m", .dtype = GW_BF16, .role = GW_STATE, .rank = 2, .dim = {300, 700}};
    tensors[FLAGS] =
        (gw_tensor){.name = "flags", .dtype = GW_U8, .role = GW_STATE, .rank = 1, .dim = {13}, .group = 1};
    tensors[GRAD] = (gw_tensor){
        .name = "g", .role = GW_SUMMED, .rank = 2, .dim = {300, 700}, .bucket = 4, .frac_bits = 40};
    tensors[LOSS] = (gw_tensor){
        .name = "loss", .role = GW_METRIC, .rank = 1, .dim = {1}, .group = 2, .bucket = 4, .frac_bits = 20};
    tensors[COUNT] =
        (gw_tensor){.name = "count", .role = GW_SUMMED, .rank = 1, .dim = {3}, .group = 3, .bucket = 2};
}

static gw_layout make(const gw_tensor *tensors) {
    gw_plan plan = {.tensors = tensors, .tensor_count = TENSORS};
    gw_layout layout;
    gw_err err;
    cr_assert(gw_layout_make(&plan, 5, &layout, &err), "%s", err.text);
    return layout;
}

Test(layout, buckets_rise_and_are_aligned) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    gw_layout layout = make(tensors);
    cr_assert_eq(layout.bucket_count, 3);
    cr_assert_eq(layout.of[COUNT].bucket, 0);
    cr_assert_eq(layout.of[GRAD].bucket, 1);
    cr_assert_eq(layout.of[LOSS].bucket, 1);
    cr_assert_eq(layout.buckets[0].header, 0);
    cr_assert_eq(layout.buckets[0].data, 8);
    cr_assert_eq(layout.buckets[0].count, 8);
    cr_assert_eq(layout.buckets[1].header, 16);
    cr_assert_eq(layout.of[LOSS].first, 210000);
    cr_assert_eq(layout.buckets[1].count, 210008);
    cr_assert_eq(layout.buckets[2].header, 16 + 8 + 210008);
    cr_assert_eq(layout.buckets[2].count, 8); /* 5 boundary words, padded */
    cr_assert_eq(layout.words, layout.buckets[2].data + 8);
    gw_layout_free(&layout);
}

Test(layout, image_is_found_byte_by_byte) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    gw_layout layout = make(tensors);
    cr_assert_eq(layout.image_bytes, 840000 + 420000 + 13);
    cr_assert_eq(layout.of[M].first_word, 105000);
    cr_assert_eq(layout.of[FLAGS].first_word, 105000 + 52500);
    uint64_t within, length;
    cr_assert_eq(gw_layout_find(&layout, 839999, 10, &within, &length), P);
    cr_assert_eq(within, 839999);
    cr_assert_eq(length, 1);
    cr_assert_eq(gw_layout_find(&layout, 840000, 10, &within, &length), M);
    cr_assert_eq(within, 0);
    cr_assert_eq(length, 10);
    cr_assert_eq(gw_layout_find(&layout, layout.image_bytes - 1, 99, &within, &length), FLAGS);
    cr_assert_eq(length, 1);
    gw_layout_free(&layout);
}

Test(layout, units_cover_each_state_group_once) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    gw_layout layout = make(tensors);
    uint64_t next[2] = {0, 0};
    for (uint64_t u = 0; u < layout.unit_count; u++) {
        const gw_range *unit = &layout.units[u].range;
        cr_assert_lt(unit->group, 2);
        cr_assert_eq(unit->first, next[unit->group]);
        cr_assert(unit->count > 0 && unit->count <= GW_UNIT_ELEMENTS);
        next[unit->group] += unit->count;
    }
    cr_assert_eq(next[0], 210000);
    cr_assert_eq(next[1], 13);
    gw_layout_free(&layout);
}

static void refuse(const gw_tensor *tensors, uint32_t count, const char *part) {
    gw_plan plan = {.tensors = tensors, .tensor_count = count};
    gw_layout layout;
    gw_err err;
    cr_assert_not(gw_layout_make(&plan, 0, &layout, &err), "accepted, expected: %s", part);
    cr_assert(strstr(err.text, part) != NULL, "'%s' does not say '%s'", err.text, part);
}

Test(layout, bad_plans_are_refused_by_name) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    refuse(tensors, 0, "no tensors");
    refuse(tensors + GRAD, 2, "no state tensor");
    tensors[M].name = "p";
    refuse(tensors, TENSORS, "two tensors are named 'p'");
    fill(tensors);
    tensors[M].name = "";
    refuse(tensors, TENSORS, "tensor 1 has no name");
    fill(tensors);
    tensors[M].rank = 9;
    refuse(tensors, TENSORS, "'m': rank 9");
    fill(tensors);
    tensors[FLAGS].dim[0] = 0;
    refuse(tensors, TENSORS, "'flags': its dimensions");
    fill(tensors);
    tensors[FLAGS].dim[0] = UINT64_MAX;
    refuse(tensors, TENSORS, "'flags': its dimensions");
    fill(tensors);
    tensors[P].dim[0] = tensors[P].dim[1] = UINT64_C(1) << 32; /* the product is 2^64 */
    refuse(tensors, TENSORS, "'p': its dimensions");
    fill(tensors);
    tensors[GRAD].frac_bits = 53;
    refuse(tensors, TENSORS, "'g': 53 fraction bits");
    fill(tensors);
    tensors[GRAD].dim[0] = 299;
    refuse(tensors, TENSORS, "'p' and 'g' share group 0");
    fill(tensors);
    tensors[P].dtype = 0;
    refuse(tensors, TENSORS, "'p': unknown dtype");
    fill(tensors);
    tensors[LOSS].role = 0;
    refuse(tensors, TENSORS, "'loss': unknown role");
    fill(tensors);
    tensors[P].dtype = GW_DTYPE_LAST + 1;
    refuse(tensors, TENSORS, "'p': unknown dtype");
    tensors[P].name = NULL;
    refuse(tensors, TENSORS, "tensor 0 has no name");
    fill(tensors);
    fill(tensors);
    tensors[M].rank = 0;
    refuse(tensors, TENSORS, "'m': rank 0");
    fill(tensors);
    tensors[GRAD].rank = 1;
    refuse(tensors, TENSORS, "'p' and 'g' share group 0");
}

/* The longest and the oddest names are good, and messages say what is wrong with others, and where. */
Test(layout, names_are_utf8_without_control_characters) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    char name[GW_MAX_TENSOR_NAME + 2] = {0};
    memset(name, 'x', GW_MAX_TENSOR_NAME + 1);
    tensors[M].name = name;
    refuse(tensors, TENSORS, "tensor 1: its name 'xxxxxxx");
    refuse(tensors, TENSORS, "xxx...' has more than 255 bytes");
    name[GW_MAX_TENSOR_NAME] = '\0';
    const char *const good[] = {
        name,
        "Big Name",
        "model.layers.0.attn/Wq'\"\\%s{}",
        " ",
        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xa6",
        "\xc2\xa0",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        tensors[M].name = good[i];
        gw_layout layout = make(tensors);
        gw_layout_free(&layout);
    }
    static const struct {
        const char *name, *part;
    } bad[] = {
        {"a\nb", "tensor 1: its name 'a?b' has a control character at byte 1"},
        {"\x7f", "'?' has a control character at byte 0"},
        {"ab\xc2\x9bm", "'ab??m' has a control character at byte 2"},
        {"\xe2\x82", "?' has bytes that are not UTF-8 at byte 0"},
        {"x\xff", "'x?' has bytes that are not UTF-8 at byte 1"},
        {"\xc0\xaf", "not UTF-8 at byte 0"},
        {"\xed\xa0\x80", "not UTF-8 at byte 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tensors[M].name = bad[i].name;
        refuse(tensors, TENSORS, bad[i].part);
    }
}

/* A plan of many small tensors: each state tensor has a group of its own with the sum behind it, and three
 * tensors in a row share a bucket, whose numbers fall. The caller frees the tensors; `names` is theirs. */
static gw_tensor *fill_most(uint32_t count, char (*names)[8]) {
    gw_tensor *tensors = calloc(count, sizeof *tensors);
    for (uint32_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof names[t], "t%u", t);
        tensors[t] = (gw_tensor){.name = names[t],
                                 .dtype = GW_F32,
                                 .role = t % 2 == 0 ? GW_STATE : GW_SUMMED,
                                 .rank = 1,
                                 .dim = {16 + t / 2 % 3},
                                 .group = t / 2,
                                 .bucket = (count - t) / 3,
                                 .frac_bits = 20};
    }
    return tensors;
}

Test(layout, the_most_tensors_are_laid_out_and_one_more_is_refused) {
    enum { COUNT_MOST = GW_MAX_TENSORS, STATES = COUNT_MOST / 2 };
    static char names[COUNT_MOST + 1][8];
    gw_tensor *tensors = fill_most(COUNT_MOST + 1, names);
    gw_plan plan = {.tensors = tensors, .tensor_count = COUNT_MOST};
    gw_layout layout;
    gw_err err;
    refuse(tensors, COUNT_MOST + 1,
           "the job declares 65537 tensors, of which 65536 are the most: tensor 65536, 't65536'");
    cr_assert(gw_layout_make(&plan, 0, &layout, &err), "%s", err.text);
    cr_assert_eq(layout.unit_count, STATES);
    uint64_t at = 0, words = 0, within, length;
    for (uint32_t t = 0; t < COUNT_MOST; t += 2) {
        uint64_t elements = 16 + t / 2 % 3;
        cr_assert_eq(layout.of[t].image_offset, at);
        cr_assert_eq(layout.of[t].next, GW_NO_TENSOR);
        cr_assert_eq(layout.units[t / 2].tensor, t);
        cr_assert_eq(layout.units[t / 2].range.count, elements);
        cr_assert_eq(gw_layout_find(&layout, at, 1000, &within, &length), t);
        cr_assert(within == 0 && length == 4 * elements);
        at += 4 * elements;
        cr_assert_eq(gw_layout_find(&layout, at - 1, 1, &within, &length), t);
    }
    cr_assert_eq(layout.image_bytes, at);
    for (uint32_t b = 0; b < layout.bucket_count; b++) {
        cr_assert_eq(layout.buckets[b].header, words);
        words = layout.buckets[b].data + layout.buckets[b].count;
    }
    cr_assert_eq(layout.words, words);
    cr_assert_eq(layout.of[COUNT_MOST - 1].bucket, 0, "the last tensor has the lowest bucket");
    /* Batches cover the units in order, and none but a single unit is too large. */
    uint64_t next = 0;
    for (uint64_t i = 0; i < layout.batch_count; i++) {
        uint64_t elements = 0;
        cr_assert_eq(layout.batches[i], next);
        cr_assert_lt(next, layout.batches[i + 1]);
        for (; next < layout.batches[i + 1]; next++) elements += layout.units[next].range.count;
        cr_assert_leq(elements, GW_BATCH_ELEMENTS);
    }
    cr_assert_eq(next, STATES);
    cr_assert_lt(layout.batch_count, STATES / 100);
    gw_layout_free(&layout);
    tensors[COUNT_MOST - 1].name = "t7";
    refuse(tensors, COUNT_MOST, "two tensors are named 't7': number 7 and number 65535");
    free(tensors);
}

/* All state tensors of a group follow each other in the chain that begins with its first. */
Test(layout, groups_are_chained_in_declared_order) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    gw_layout layout = make(tensors);
    cr_assert_eq(layout.units[0].tensor, P);
    cr_assert_eq(layout.of[P].next, M);
    cr_assert_eq(layout.of[M].next, GW_NO_TENSOR);
    cr_assert_eq(layout.units[layout.unit_count - 1].tensor, FLAGS);
    cr_assert_eq(layout.of[FLAGS].next, GW_NO_TENSOR);
    gw_layout_free(&layout);
}

/* Each of them is small enough, but not all together. */
Test(layout, tensors_that_are_too_large_together_are_refused) {
    gw_tensor tensors[TENSORS];
    fill(tensors);
    const uint64_t most = UINT64_C(1) << 43; /* elements of one */
    tensors[COUNT].dim[0] = most;
    refuse(tensors, TENSORS, "2^46 bytes");
    fill(tensors);
    for (int t = P; t <= M; t++) {
        tensors[t] = (gw_tensor){.name = t == P ? "p" : "m", .dtype = GW_F64, .rank = 1, .dim = {most}};
        tensors[t].role = GW_STATE;
    }
    tensors[GRAD].group = 9;
    refuse(tensors, TENSORS, "2^46 bytes");
}

Test(layout, sums_declared_before_the_state_change_nothing) {
    gw_tensor tensors[TENSORS], other[TENSORS];
    fill(tensors);
    for (int t = 0; t < TENSORS; t++) other[t] = tensors[(t + GRAD) % TENSORS];
    gw_layout a = make(tensors), b = make(other);
    uint64_t within, length;
    cr_assert_eq(a.image_bytes, b.image_bytes);
    cr_assert_eq(a.unit_count, b.unit_count);
    for (uint64_t offset = 0; offset < a.image_bytes; offset += 4999)
        cr_assert_eq(other[gw_layout_find(&b, offset, 1, &within, &length)].name,
                     tensors[gw_layout_find(&a, offset, 1, &within, &length)].name);
    gw_layout_free(&a);
    gw_layout_free(&b);
}
