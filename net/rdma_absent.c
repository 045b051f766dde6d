/* In a build without libibverbs' headers, in place of the other net/rdma_*.c. */
#include "net/rdma.h"

bool gw_rdma_list(gw_rdma_info **devices, uint32_t *count, gw_err *err) {
    *devices = NULL;
    *count = 0;
    return gw_fail(
        err, GW_E_UNSUPPORTED,
        "net/rdma: this build has no RDMA: install libibverbs-dev and librdmacm-dev and build again");
}
