#include "tests/net/rdma/here.h"

#include "net/rdma/rdma.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

uint32_t rdma_count(const char *kind) {
    char command[64], line[512], mine[32];
    uint32_t count = 0;
    snprintf(command, sizeof command, "rdma resource show %s", kind);
    snprintf(mine, sizeof mine, " pid %d ", (int)getpid());
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    while (fgets(line, sizeof line, pipe) != NULL) count += strstr(line, mine) != NULL;
    cr_assert_eq(pclose(pipe), 0, "'%s' failed", command);
    return count;
}

uint32_t rdma_count_down_to(const char *kind, uint32_t most) {
    uint32_t count = rdma_count(kind);
    for (int i = 0; count > most && i < 600; i++) {
        (void)poll(NULL, 0, 100);
        count = rdma_count(kind);
    }
    return count;
}
