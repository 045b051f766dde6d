/* The conformance suite over TCP, bare and in sealed records. */
#include "tests/net/conformance/conformance.h"

#include <criterion/criterion.h>

#define PLAIN(name)                                                                                          \
    Test(conformance_tcp, name) {                                                                            \
        conform_##name(GW_FABRIC_TCP, false);                                                                \
    }
#define SEALED(name)                                                                                         \
    Test(conformance_tcp_sealed, name) {                                                                     \
        conform_##name(GW_FABRIC_TCP, true);                                                                 \
    }
CONFORMANCE_LIST(PLAIN)
CONFORMANCE_LIST(SEALED)
