/* For suites that need an RDMA device. */
#ifndef GODWIT_TESTS_NET_RDMA_HERE_H
#define GODWIT_TESTS_NET_RDMA_HERE_H

/* Skips the test, visibly, where there is none that could be used. */
void rdma_here(void);

#endif
