/* The conformance suite over shared memory. */
#include "tests/net/conformance/conformance.h"

#include <criterion/criterion.h>

#define SHM(name)                                                                                            \
    Test(conformance_shm, name) {                                                                            \
        conform_##name(GW_FABRIC_SHM, true);                                                                 \
    }
CONFORMANCE_LIST(SHM)
