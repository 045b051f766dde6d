#include "core/shard/range.h"

#include "core/base/assert.h"

enum {
    POSITION_BITS = 20,
    TAG_BITS = 24,
    POSITION_MASK = (1 << POSITION_BITS) - 1,
    TAG_MASK = (1 << TAG_BITS) - 1
};

uint64_t gw_word_pack(gw_word word) {
    GW_ASSERT(word.tag <= TAG_MASK && word.next <= word.end && word.end <= POSITION_MASK);
    return (uint64_t)word.tag << (2 * POSITION_BITS) | (uint64_t)word.next << POSITION_BITS | word.end;
}

gw_word gw_word_unpack(uint64_t bits) {
    return (gw_word){.tag = (uint32_t)(bits >> (2 * POSITION_BITS)),
                     .next = (uint32_t)(bits >> POSITION_BITS) & POSITION_MASK,
                     .end = (uint32_t)bits & POSITION_MASK};
}

uint32_t gw_word_tag(uint64_t epoch, uint64_t step) {
    /* Twelve bits of each: a word or compare-and-swap would have to be 4096 epochs or steps late to be
     * mistaken. */
    uint32_t tag = (uint32_t)(epoch & 0xFFF) << 12 | (uint32_t)(step & 0xFFF);
    return tag == 0 ? TAG_MASK : tag;
}

uint32_t gw_word_left(gw_word word) {
    return word.end > word.next ? word.end - word.next : 0;
}

bool gw_word_take(gw_word *word, uint32_t most, uint32_t *first, uint32_t *count) {
    uint32_t left = gw_word_left(*word);
    if (left == 0 || most == 0) return false;
    *first = word->next;
    *count = left < most ? left : most;
    word->next += *count;
    GW_ASSERT(word->next <= word->end);
    return true;
}

bool gw_word_split(gw_word word, uint64_t thief_speed, uint64_t victim_speed, gw_word *rest, uint32_t *first,
                   uint32_t *end) {
    uint32_t left = gw_word_left(word);
    if (left == 0) return false;
    if (thief_speed == 0 || victim_speed == 0) thief_speed = victim_speed = 1;
    /* Speeds beyond 2^40 carry no information and would overflow the product. */
    while (thief_speed >> 40 != 0 || victim_speed >> 40 != 0)
        thief_speed = thief_speed / 2 + 1, victim_speed = victim_speed / 2 + 1;
    uint32_t take = /* rounded up: 1 to left */
        (uint32_t)((left * thief_speed + thief_speed + victim_speed - 1) / (thief_speed + victim_speed));
    *rest = (gw_word){.tag = word.tag, .next = word.next, .end = word.end - take};
    *first = word.end - take;
    *end = word.end;
    GW_ASSERT(*first >= word.next && *first < *end);
    return true;
}
