#include "rdma_here.h"

#include "net/rdma.h"

#include <criterion/criterion.h>
#include <stdlib.h>

void rdma_here(void) {
    gw_rdma_info *devices;
    uint32_t count, device, port, gid;
    gw_err err;
    gw_rdma_options best = {0};
    bool here = gw_rdma_list(&devices, &count, &err) &&
                gw_rdma_choose(devices, count, &best, &device, &port, &gid, &err);
    free(devices);
    if (!here) cr_skip_test("%s", err.text);
}
