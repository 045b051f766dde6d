/* The conformance suite in the simulator's network: the same serving, asking and summing code, under delays
 * that a seed makes, in virtual time. */
#include "tests/net/conformance/conformance.h"

#include <criterion/criterion.h>

enum { SEEDS = 3 };

#define SIMULATED(name)                                                                                      \
    Test(conformance_sim, name) {                                                                            \
        for (uint32_t seed = 1; seed <= SEEDS; seed++) conform_##name(RIG_SIMULATED | seed, false);          \
    }
CONFORMANCE_LIST(SIMULATED)
