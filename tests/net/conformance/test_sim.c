/* The conformance suite over the simulator's network: the same requesting, serving and summing code under
 * delays that a seed decides, in virtual time. */
#include "tests/net/conformance/conformance.h"

#include <criterion/criterion.h>

enum { SEEDS = 3 };

#define SIMULATED(name)                                                                                      \
    Test(conformance_sim, name) {                                                                            \
        for (uint32_t seed = 1; seed <= SEEDS; seed++) conform_##name(RIG_SIMULATED | seed, false);          \
    }
CONFORMANCE_LIST(SIMULATED)
