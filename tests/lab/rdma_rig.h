/* Queue pairs of this machine's RDMA device, connected to each other in one process by rdma_cm. */
#ifndef GODWIT_TESTS_LAB_RDMA_RIG_H
#define GODWIT_TESTS_LAB_RDMA_RIG_H

#include "net/rdma/cm.h"

enum { RDMA_RIG_ENDS = 2 }; /* of a pair: 0 dials, 1 answers */

typedef struct rdma_rig {
    const gw_rdma_device *device;
    gw_rdma_memory *memory;
    gw_loop *loop;
    gw_rdma_cm *cm;
    gw_addr address;
    uint8_t secret[GW_RDMA_SECRET];
    /* the pair that is being connected, or is */
    gw_rdma_queue *queues[RDMA_RIG_ENDS];
    gw_rdma_connection *connections[RDMA_RIG_ENDS];
    bool connected, accepted, ended, lost;
    gw_err why;
} rdma_rig;

/* Skips the test, visibly, where there is no RDMA device. */
void rdma_rig_open(rdma_rig *rig);
void rdma_rig_close(rdma_rig *rig);
/* Connects a new pair. */
void rdma_rig_connect(rdma_rig *rig, const gw_rdma_queue_options *options);
/* Connects the pair that is in `queues`. */
void rdma_rig_connect_made(rdma_rig *rig);
void rdma_rig_disconnect(rdma_rig *rig);

/* Runs one piece of work on a queue to its end. */
gw_rdma_outcome rdma_rig_do(gw_rdma_queue *queue, gw_rdma_work *work);

#endif
