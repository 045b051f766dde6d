/* For suites that need an RDMA device. */
#ifndef GODWIT_TESTS_NET_RDMA_HERE_H
#define GODWIT_TESTS_NET_RDMA_HERE_H

#include <stdint.h>

/* Skips the test, visibly, where there is none that could be used. */
void rdma_here(void);

/* What the kernel has of a kind ("qp", "cq", "mr", "cm_id") for this process. */
uint32_t rdma_count(const char *kind);
/* How many there are once there are no more than `most`, or after a minute: connections end some seconds
 * after they were dropped. Others than the calling thread must turn their loops. */
uint32_t rdma_count_down_to(const char *kind, uint32_t most);

#endif
