#include "core/base/set.h"
#include "core/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static gw_set random_set(gw_rng *rng, uint32_t size, uint64_t of) {
    gw_set set = gw_set_of(size);
    for (uint32_t i = 0; i < size; i++)
        if (gw_rng_below(rng, of) == 0) gw_set_add(&set, i);
    return set;
}

Test(set, survives_the_wire_at_awkward_sizes) {
    gw_rng rng = gw_rng_seeded(1);
    const uint32_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 1000};
    for (size_t s = 0; s < 5 * sizeof sizes / sizeof sizes[0]; s++) { /* runs and words */
        gw_set set = random_set(&rng, sizes[s / 5], 1 + 30 * (s % 5));
        uint8_t bytes[8 * 1024];
        gw_writer w = gw_writer_on(bytes, sizeof bytes);
        gw_set_put(&w, &set);
        gw_reader r = gw_reader_on(bytes, w.length);
        gw_set back = gw_set_get(&r);
        cr_assert(gw_reader_done(&r));
        cr_assert_eq(back.size, set.size);
        for (uint32_t i = 0; i < set.size; i++) cr_assert_eq(gw_set_has(&back, i), gw_set_has(&set, i));
        gw_set_free(&set);
        gw_set_free(&back);
    }
}

Test(set, complement_has_exactly_the_rest) {
    gw_rng rng = gw_rng_seeded(2);
    gw_set set = random_set(&rng, 130, 2), rest = gw_set_copy(&set);
    gw_set_complement(&rest);
    cr_assert_eq(gw_set_count(&set) + gw_set_count(&rest), 130);
    cr_assert(!gw_set_overlaps(&set, &rest));
    gw_set_unite(&rest, &set);
    cr_assert_eq(gw_set_count(&rest), 130);
    gw_set_free(&set);
    gw_set_free(&rest);
}

Test(set, next_walks_the_elements_in_order) {
    gw_set set = gw_set_of(200);
    const uint32_t elements[] = {0, 63, 64, 130, 199};
    for (int i = 0; i < 5; i++) gw_set_add(&set, elements[i]);
    uint32_t at = 0;
    for (int i = 0; i < 5; i++, at++) {
        at = gw_set_next(&set, at);
        cr_assert_eq(at, elements[i]);
    }
    cr_assert_eq(gw_set_next(&set, at), 200);
    gw_set_free(&set);
}

static bool is_refused(const uint32_t *words, size_t count) {
    uint8_t bytes[64];
    gw_writer w = gw_writer_on(bytes, sizeof bytes);
    for (size_t i = 0; i < count; i++) gw_put_u32(&w, words[i]);
    gw_reader r = gw_reader_on(bytes, w.length);
    gw_set set = gw_set_get(&r);
    bool refused = r.failed && set.size == 0 && set.words == NULL;
    gw_set_free(&set);
    return refused;
}

Test(set, malformed_bytes_are_refused) {
    cr_assert(is_refused((uint32_t[]){100, 1, 98, 3}, 4), "a run past the end");
    cr_assert(is_refused((uint32_t[]){100, 2, 5, 2, 3, 1}, 6), "runs out of order");
    cr_assert(is_refused((uint32_t[]){100, 2, 1, 2, 3, 1}, 6), "runs that touch");
    cr_assert(is_refused((uint32_t[]){100, 1, 2, 0}, 4), "an empty run");
    cr_assert(is_refused((uint32_t[]){100, 2, 1, 1}, 4), "fewer runs than said");
    cr_assert(is_refused((uint32_t[]){UINT32_MAX, 0}, 2), "too large");
    cr_assert(is_refused((uint32_t[]){10, 2, 1, 2, 5, 1}, 6), "runs where a word is shorter");
    const uint32_t words = 1 << 30;
    cr_assert(!is_refused((uint32_t[]){10, words, 0x25, 0}, 4));
    cr_assert(is_refused((uint32_t[]){10, words, 0x27, 1U << 31}, 4), "an element past the end");
    cr_assert(is_refused((uint32_t[]){10, words, 0x27 | 1 << 10, 0}, 4), "the first past the end");
    cr_assert(is_refused((uint32_t[]){10, words, 0x7, 0}, 4), "a word where a run is as short");
    cr_assert(is_refused((uint32_t[]){10, words, 0x25}, 3), "half a word");
    cr_assert(is_refused((uint32_t[]){0, words}, 2), "words of an empty set");
    cr_assert(is_refused((uint32_t[]){GW_SET_MAX, words, 0x25, 0}, 4), "fewer words than there are");
}
