/* The conformance suite over RDMA, on this machine's device; skipped if there is none. CTest runs it in the
 * lab, too. */
#include "tests/net/conformance/conformance.h"
#include "tests/net/rdma/here.h"

#include <criterion/criterion.h>

#define RDMA(name)                                                                                           \
    Test(conformance_rdma, name) {                                                                           \
        rdma_here();                                                                                         \
        conform_##name(GW_FABRIC_RDMA, true);                                                                \
    }
CONFORMANCE_LIST(RDMA)
