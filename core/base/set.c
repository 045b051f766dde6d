#include "core/base/set.h"

#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 1 << 30 }; /* stands in the place of the number of runs, which is always smaller */

static uint32_t words_of(uint32_t size) {
    return (size + 63) / 64;
}

gw_set gw_set_of(uint32_t size) {
    GW_ASSERT(size <= GW_SET_MAX);
    gw_set set = {.size = size};
    if (size > 0) {
        set.words = calloc(words_of(size), sizeof *set.words);
        GW_ASSERT_MEMORY(set.words != NULL);
    }
    return set;
}

gw_set gw_set_copy(const gw_set *set) {
    gw_set copy = gw_set_of(set->size);
    if (set->size > 0) memcpy(copy.words, set->words, words_of(set->size) * sizeof *copy.words);
    return copy;
}

void gw_set_free(gw_set *set) {
    free(set->words);
    *set = (gw_set){0};
}

void gw_set_add(gw_set *set, uint32_t element) {
    GW_ASSERT(element < set->size);
    set->words[element / 64] |= UINT64_C(1) << (element % 64);
}

void gw_set_fill(gw_set *set) {
    for (uint32_t i = 0; i < words_of(set->size); i++) set->words[i] = UINT64_MAX;
    if (set->size % 64 != 0) set->words[set->size / 64] = (UINT64_C(1) << (set->size % 64)) - 1;
}

bool gw_set_has(const gw_set *set, uint32_t element) {
    return element < set->size && (set->words[element / 64] >> (element % 64) & 1) != 0;
}

uint32_t gw_set_count(const gw_set *set) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < words_of(set->size); i++) count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

void gw_set_unite(gw_set *into, const gw_set *other) {
    GW_ASSERT(into->size == other->size);
    for (uint32_t i = 0; i < words_of(into->size); i++) into->words[i] |= other->words[i];
}

bool gw_set_overlaps(const gw_set *a, const gw_set *b) {
    GW_ASSERT(a->size == b->size);
    for (uint32_t i = 0; i < words_of(a->size); i++)
        if (a->words[i] & b->words[i]) return true;
    return false;
}

void gw_set_complement(gw_set *set) {
    gw_set all = gw_set_of(set->size);
    gw_set_fill(&all);
    for (uint32_t i = 0; i < words_of(set->size); i++) set->words[i] ^= all.words[i];
    gw_set_free(&all);
}

uint32_t gw_set_next(const gw_set *set, uint32_t from) {
    if (from >= set->size) return set->size;
    uint32_t i = from / 64;
    uint64_t word = set->words[i] >> (from % 64) << (from % 64);
    while (word == 0) {
        if (++i == words_of(set->size)) return set->size;
        word = set->words[i];
    }
    return i * 64 + (uint32_t)__builtin_ctzll(word);
}

/* The first number >= from that is not in the set, or size. */
static uint32_t next_absent(const gw_set *set, uint32_t from) {
    while (from < set->size && gw_set_has(set, from)) from++;
    return from;
}

static uint32_t count_runs(const gw_set *set) {
    uint32_t runs = 0;
    uint64_t before = 0; /* the last bit of the word before */
    for (uint32_t i = 0; i < words_of(set->size); i++) {
        uint64_t word = set->words[i], begins = word & ~(word << 1 | before);
        runs += (uint32_t)__builtin_popcountll(begins);
        before = word >> 63;
    }
    return runs;
}

/* A run takes as many bytes on the wire as a word. */
static bool is_sent_as_words(uint32_t runs, uint32_t size) {
    return runs > words_of(size);
}

void gw_set_put(gw_writer *w, const gw_set *set) {
    uint32_t runs = count_runs(set);
    gw_put_u32(w, set->size);
    if (is_sent_as_words(runs, set->size)) {
        gw_put_u32(w, WORDS);
        for (uint32_t i = 0; i < words_of(set->size); i++) gw_put_u64(w, set->words[i]);
        return;
    }
    gw_put_u32(w, runs);
    for (uint32_t i = gw_set_next(set, 0); i < set->size;) {
        uint32_t end = next_absent(set, i);
        gw_put_u32(w, i);
        gw_put_u32(w, end - i);
        i = gw_set_next(set, end);
    }
}

static void get_runs(gw_reader *r, gw_set *set, uint32_t runs) {
    uint32_t previous_end = 0;
    for (uint32_t i = 0; i < runs; i++) { /* the reader has the bytes of so many */
        uint32_t start = gw_get_u32(r), length = gw_get_u32(r);
        bool ordered = length > 0 && (i == 0 || start > previous_end) && start < set->size &&
                       length <= set->size - start;
        if (!ordered) {
            r->failed = true;
            return;
        }
        previous_end = start + length;
        for (uint32_t k = start; k < previous_end; k++) gw_set_add(set, k);
    }
}

static void get_words(gw_reader *r, gw_set *set) {
    uint32_t words = words_of(set->size), beyond = set->size % 64;
    for (uint32_t i = 0; i < words; i++) set->words[i] = gw_get_u64(r);
    bool fits = beyond == 0 || set->words[words - 1] >> beyond == 0;
    if (!fits || !is_sent_as_words(count_runs(set), set->size)) r->failed = true;
}

gw_set gw_set_get(gw_reader *r) {
    uint32_t size = gw_get_u32(r), runs = gw_get_u32(r);
    bool words = runs == WORDS;
    if (r->failed || size > GW_SET_MAX || (words ? words_of(size) : runs) > gw_reader_left(r) / 8 ||
        (!words && is_sent_as_words(runs, size))) {
        r->failed = true;
        return (gw_set){0};
    }
    gw_set set = gw_set_of(size);
    if (words)
        get_words(r, &set);
    else
        get_runs(r, &set, runs);
    if (r->failed) gw_set_free(&set);
    return set;
}
