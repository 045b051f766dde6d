/* When N is no power of two, each of the first 2 (N - 2^m) members is one of a pair, of which the odd one
 * takes part in the exchanges for both. */
#include "net/collective/doubling.h"

#include <stdbool.h>

uint32_t gw_doubling_rounds(uint32_t members) {
    uint32_t rounds = 0;
    while (2u << rounds <= members) rounds++;
    return rounds;
}

uint32_t gw_doubling_partner(uint32_t members, uint32_t rank, uint32_t stage) {
    uint32_t rounds = gw_doubling_rounds(members), folded = members - (1u << rounds);
    bool folds = rank < 2 * folded;
    if (stage == 0 || stage > rounds) return folds ? rank ^ 1 : rank;
    if (folds && rank % 2 == 0) return rank;
    uint32_t number = folds ? rank / 2 : rank - folded; /* among the 2^m that take part */
    uint32_t other = number ^ (1u << (stage - 1));
    return other < folded ? 2 * other + 1 : other + folded;
}
