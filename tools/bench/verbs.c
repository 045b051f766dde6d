#include "tools/bench/verbs.h"

#ifdef GODWIT_RDMA
#include "core/os/clock.h"
#include "net/rdma/queue.h"

#include <stdlib.h>

enum { WARM_UP = 1000 };

typedef struct bare {
    gw_rdma_memory *memory;
    gw_rdma_queue *queue; /* only its queue pair is used */
    const gw_rdma_region *remote, *local;
    _Alignas(64) uint64_t word;
    _Alignas(64) uint64_t found;
} bare;

/* Runs one operation, from posting it to its completion. */
static bool run_operation(bare *b, enum ibv_wr_opcode opcode, uint64_t expected, uint64_t operand,
                          gw_err *err) {
    struct ibv_qp *qp = gw_rdma_queue_pair(b->queue);
    struct ibv_sge place = {(uintptr_t)&b->found, sizeof b->found, b->local->lkey};
    struct ibv_send_wr request = {
        .sg_list = &place, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_wc completion;
    if (opcode == IBV_WR_RDMA_READ) {
        request.wr.rdma.remote_addr = (uintptr_t)&b->word;
        request.wr.rdma.rkey = b->remote->rkey;
    } else {
        request.wr.atomic.remote_addr = (uintptr_t)&b->word;
        request.wr.atomic.rkey = b->remote->rkey;
        request.wr.atomic.compare_add = expected;
        request.wr.atomic.swap = operand;
    }
    int failed = ibv_post_send(qp, &request, &bad), count = 0;
    if (failed != 0) return gw_fail_errno(err, failed, "ibv_post_send");
    while (count == 0) count = ibv_poll_cq(qp->send_cq, 1, &completion);
    if (count < 0) return gw_fail(err, GW_E_IO, "ibv_poll_cq failed");
    return completion.status == IBV_WC_SUCCESS ||
           gw_fail(err, GW_E_IO, "the RDMA device reports: %s", ibv_wc_status_str(completion.status));
}

static bool steal(bare *b, double *read_ns, double *cas_ns, double *steal_ns, gw_err *err) {
    uint64_t start = gw_now_ns();
    if (!run_operation(b, IBV_WR_RDMA_READ, 0, 0, err)) return false;
    uint64_t middle = gw_now_ns(), word = b->found;
    if (!run_operation(b, IBV_WR_ATOMIC_CMP_AND_SWP, word, word + 1, err)) return false;
    uint64_t end = gw_now_ns();
    if (b->found != word) return gw_fail(err, GW_E_IO, "a word that no other process uses has changed");
    *read_ns = (double)(middle - start);
    *cas_ns = (double)(end - middle);
    *steal_ns = (double)(end - start);
    return true;
}

static bool prepare(bare *b, gw_err *err) {
    static const gw_rdma_options best = {0};
    static const gw_rdma_queue_options options = {.send_depth = 4};
    gw_rdma_device device;
    if (!gw_rdma_device_open(&device, &best, err)) return false;
    b->memory = gw_rdma_memory_open(&device, err);
    if (b->memory == NULL) return false;
    b->remote = gw_rdma_memory_take(b->memory, &b->word, sizeof b->word, GW_RDMA_WRITABLE, err);
    if (b->remote == NULL) return false;
    b->local = gw_rdma_memory_take(b->memory, &b->found, sizeof b->found, GW_RDMA_LOCAL, err);
    if (b->local == NULL) return false;
    b->queue = gw_rdma_queue_open(b->memory, &options, err);
    return b->queue != NULL && gw_rdma_queue_connect_self(b->queue, err);
}

static void drop(bare *b) {
    gw_rdma_queue_close(b->queue);
    if (b->memory == NULL) return;
    gw_rdma_memory_drop(b->memory, b->local);
    gw_rdma_memory_drop(b->memory, b->remote);
    gw_rdma_memory_close(b->memory);
}

bool gw_bench_verbs(uint32_t count, double *read_ns, double *cas_ns, double *steal_ns, gw_err *err) {
    bare b = {0};
    double ignored[3];
    bool good = prepare(&b, err);
    for (uint32_t i = 0; i < WARM_UP && good; i++)
        good = steal(&b, &ignored[0], &ignored[1], &ignored[2], err);
    for (uint32_t i = 0; i < count && good; i++) good = steal(&b, &read_ns[i], &cas_ns[i], &steal_ns[i], err);
    drop(&b);
    return good;
}
#else
bool gw_bench_verbs(uint32_t count, double *read_ns, double *cas_ns, double *steal_ns, gw_err *err) {
    (void)count;
    (void)read_ns;
    (void)cas_ns;
    (void)steal_ns;
    return gw_fail(err, GW_E_UNSUPPORTED, "this build has no RDMA");
}
#endif
