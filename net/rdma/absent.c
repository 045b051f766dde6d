/* Stands in for the other files of net/rdma in a build without libibverbs. */
#include "net/rdma/path.h"

static bool fail(gw_err *err) {
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "net/rdma: this build has no RDMA: install libibverbs-dev and librdmacm-dev, build again");
}

bool gw_rdma_list(gw_rdma_info **devices, uint32_t *count, gw_err *err) {
    *devices = NULL;
    *count = 0;
    return fail(err);
}

gw_path *gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err) {
    (void)host;
    (void)options;
    (void)fail(err);
    return NULL;
}
