/* The functions that tests put in the place of a device: each test defines those with which its target is
 * linked (--wrap), and describes its device there. */
#ifndef GODWIT_TESTS_NET_RDMA_WRAPS_H
#define GODWIT_TESTS_NET_RDMA_WRAPS_H

#include "net/rdma/memory.h"
#include "net/rdma/queue.h"

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *memory);
void __wrap_gw_rdma_memory_close(gw_rdma_memory *memory);
const gw_rdma_device *__wrap_gw_rdma_memory_device(const gw_rdma_memory *memory);
const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err);
void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region);
gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err);
void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue);
int __wrap_gw_rdma_queue_fd(const gw_rdma_queue *queue);
bool __wrap_gw_rdma_queue_arm(gw_rdma_queue *queue);
void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work);
uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers);
bool __wrap_gw_rdma_queue_is_busy(const gw_rdma_queue *queue);
const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused);

#endif
