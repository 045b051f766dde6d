/* For suites that need an RDMA device. */
#ifndef GODWIT_TESTS_NET_RDMA_HERE_H
#define GODWIT_TESTS_NET_RDMA_HERE_H

#include <stdint.h>

/* Skips the test, visibly, where there is none that could be used. */
void rdma_here(void);

/* Counts the objects of a kind ("qp", "cq", "mr", "cm_id") that the kernel has for this process. */
uint32_t rdma_count(const char *kind);
/* Waits until there are no more than `most`, or for a minute, and returns how many there are: connections end
 * some seconds after they were dropped. Threads other than the caller must run their loops meanwhile. */
uint32_t rdma_count_down_to(const char *kind, uint32_t most);

#endif
