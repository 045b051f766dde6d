#include "net/rdma/queue.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIN_RNR_TIMER = 12, /* 0.64 ms; rdma_cm's value, 0, means 655 ms */
    RNR_RETRIES = 7,    /* 7 means for ever; receives are always posted, so the retries end */
    POLL = 16,          /* completions taken at once */
    RECEIVE_BATCH = 64, /* receives posted at once */
    RECEIVE = 1,        /* wr_id of receives; those of sends are sequence << 1 */
};

/* A work request at the device. */
typedef struct sent {
    gw_rdma_work *work;
    bool last; /* the last request of its work */
} sent;

struct gw_rdma_queue {
    gw_rdma_memory *memory;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint32_t send_depth, receive_depth, inline_bytes;
    unsigned access;            /* the access rights of the other side */
    sent *sent;                 /* [sequence % send_depth] */
    uint64_t posted, retired;   /* sequence numbers: [retired, posted) are at the device */
    uint64_t signalled;         /* one past the last request that completes by itself */
    gw_rdma_work *first, *last; /* work that waits for room at the device */
    uint32_t receives_owed;     /* receives that must be posted again */
    uint32_t events;            /* events read from the channel and not acknowledged yet */
    bool broken, refused;
    gw_err trouble;
};

/* Life. */

static const gw_rdma_device *device_of(const gw_rdma_queue *queue) {
    return gw_rdma_memory_device(queue->memory);
}

static bool fail(const gw_rdma_queue *queue, int failed, const char *what, gw_err *err) {
    const gw_rdma_device *device = device_of(queue);
    return gw_fail_errno(err, failed, "net/rdma: %s port %u: %s", device->name, device->port, what);
}

static bool make(gw_rdma_queue *queue, const gw_rdma_queue_options *options, gw_err *err) {
    struct ibv_context *verbs = device_of(queue)->verbs;
    queue->channel = ibv_create_comp_channel(verbs);
    if (queue->channel == NULL) return fail(queue, errno, "no completion channel", err);
    int flags = fcntl(queue->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(queue->channel->fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return fail(queue, errno, "fcntl of a completion channel", err);
    queue->cq =
        ibv_create_cq(verbs, (int)(options->send_depth + options->receive_depth), NULL, queue->channel, 0);
    if (queue->cq == NULL) return fail(queue, errno, "no completion queue", err);
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .send_cq = queue->cq,
        .recv_cq = queue->cq,
        .cap = {.max_send_wr = options->send_depth,
                .max_recv_wr = options->receive_depth > 0 ? options->receive_depth : 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = options->inline_bytes},
    };
    queue->qp = ibv_create_qp(gw_rdma_memory_domain(queue->memory), &attr);
    if (queue->qp == NULL) { /* the device cannot copy so many bytes into a request */
        attr.cap.max_inline_data = 0;
        queue->qp = ibv_create_qp(gw_rdma_memory_domain(queue->memory), &attr);
    }
    if (queue->qp == NULL) return fail(queue, errno, "no queue pair", err);
    queue->inline_bytes = attr.cap.max_inline_data;
    return true;
}

gw_rdma_queue *gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options, gw_err *err) {
    gw_rdma_queue *queue = calloc(1, sizeof *queue);
    sent *ring = calloc(options->send_depth, sizeof *ring);
    if (queue == NULL || ring == NULL) {
        free(queue);
        free(ring);
        gw_fail(err, GW_E_NOMEM, "net/rdma: no memory for a queue pair");
        return NULL;
    }
    queue->memory = gw_rdma_memory_hold(memory);
    queue->sent = ring;
    queue->send_depth = options->send_depth;
    queue->receive_depth = options->receive_depth;
    queue->receives_owed = options->receive_depth;
    queue->access = IBV_ACCESS_REMOTE_READ;
    if (!options->lends) queue->access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if (make(queue, options, err)) return queue;
    gw_rdma_queue_close(queue);
    return NULL;
}

static void acknowledge(gw_rdma_queue *queue) {
    if (queue->events > 0) ibv_ack_cq_events(queue->cq, queue->events);
    queue->events = 0;
}

void gw_rdma_queue_close(gw_rdma_queue *queue) {
    if (queue == NULL) return;
    if (queue->qp != NULL) gw_rdma_device_freed(ibv_destroy_qp(queue->qp));
    if (queue->cq != NULL) {
        acknowledge(queue);
        gw_rdma_device_freed(ibv_destroy_cq(queue->cq));
    }
    if (queue->channel != NULL) gw_rdma_device_freed(ibv_destroy_comp_channel(queue->channel));
    gw_rdma_memory_close(queue->memory);
    free(queue->sent);
    free(queue);
}

uint32_t gw_rdma_queue_number(const gw_rdma_queue *queue) {
    return queue->qp->qp_num;
}
struct ibv_qp *gw_rdma_queue_pair(const gw_rdma_queue *queue) {
    return queue->qp;
}
uint32_t gw_rdma_queue_inline(const gw_rdma_queue *queue) {
    return queue->inline_bytes;
}
int gw_rdma_queue_fd(const gw_rdma_queue *queue) {
    return queue->channel->fd;
}
const gw_err *gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused) {
    if (refused != NULL) *refused = queue->refused;
    return queue->broken ? &queue->trouble : NULL;
}
bool gw_rdma_queue_is_busy(const gw_rdma_queue *queue) {
    return queue->posted != queue->retired || queue->first != NULL;
}

void gw_rdma_queue_break(gw_rdma_queue *queue, const gw_err *why) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    (void)ibv_modify_qp(queue->qp, &attr,
                        IBV_QP_STATE); /* fails if the queue pair is in that state already */
    if (queue->broken) return;
    queue->broken = true;
    queue->trouble = *why;
}

/* Connecting. */

static void post_receives(gw_rdma_queue *queue) {
    struct ibv_recv_wr requests[RECEIVE_BATCH], *bad;
    while (queue->receives_owed > 0) {
        uint32_t count = queue->receives_owed < RECEIVE_BATCH ? queue->receives_owed : RECEIVE_BATCH;
        for (uint32_t i = 0; i < count; i++)
            requests[i] =
                (struct ibv_recv_wr){.wr_id = RECEIVE, .next = i + 1 < count ? &requests[i + 1] : NULL};
        if (ibv_post_recv(queue->qp, requests, &bad) != 0) return; /* broken: a completion says so */
        queue->receives_owed -= count;
    }
}

static bool modify(gw_rdma_queue *queue, struct ibv_qp_attr *attr, int mask, gw_err *err) {
    int failed = ibv_modify_qp(queue->qp, attr, mask);
    return failed == 0 || fail(queue, failed, "changing a queue pair's state", err);
}

/* Sets the attributes that rdma_cm leaves open, or would set unwisely. */
static void be_ready(const gw_rdma_queue *queue, struct ibv_qp_attr *attr) {
    const gw_rdma_device *device = device_of(queue);
    if (attr->qp_state == IBV_QPS_INIT) attr->qp_access_flags = queue->access;
    if (attr->qp_state == IBV_QPS_RTR) {
        attr->min_rnr_timer = MIN_RNR_TIMER;
        attr->max_dest_rd_atomic = device->reads_in;
    }
    if (attr->qp_state == IBV_QPS_RTS) {
        attr->timeout = device->ack_timeout;
        attr->retry_cnt = device->retries;
        attr->rnr_retry = RNR_RETRIES;
        attr->max_rd_atomic = device->reads_out;
    }
}

bool gw_rdma_queue_connect(gw_rdma_queue *queue, struct rdma_cm_id *id, gw_err *err) {
    static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        struct ibv_qp_attr attr = {.qp_state = states[i]};
        int mask;
        if (rdma_init_qp_attr(id, &attr, &mask) != 0) return fail(queue, errno, "rdma_init_qp_attr", err);
        mask &= (1 << 21) - 1; /* some kernels return bits that ibv_modify_qp refuses */
        uint8_t reads_out = attr.max_rd_atomic, reads_in = attr.max_dest_rd_atomic;
        be_ready(queue, &attr);
        /* The limits must not exceed those that both sides have agreed on. */
        if (states[i] == IBV_QPS_RTS && reads_out < attr.max_rd_atomic) attr.max_rd_atomic = reads_out;
        if (states[i] == IBV_QPS_RTR && reads_in < attr.max_dest_rd_atomic)
            attr.max_dest_rd_atomic = reads_in;
        if (!modify(queue, &attr, mask, err)) return false;
        if (states[i] == IBV_QPS_INIT) post_receives(queue);
    }
    return true;
}

bool gw_rdma_queue_bar(gw_rdma_queue *queue, gw_err *err) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = 0};
    return modify(queue, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, err);
}

static void address_self(const gw_rdma_queue *queue, struct ibv_qp_attr *attr) {
    const gw_rdma_device *device = device_of(queue);
    attr->path_mtu = device->mtu;
    attr->dest_qp_num = queue->qp->qp_num;
    attr->ah_attr.port_num = device->port;
    attr->ah_attr.dlid = device->lid;
    attr->ah_attr.is_global = device->ethernet;
    attr->ah_attr.grh.dgid = device->gid;
    attr->ah_attr.grh.sgid_index = (uint8_t)device->gid_index;
    attr->ah_attr.grh.hop_limit = 1;
}

bool gw_rdma_queue_connect_self(gw_rdma_queue *queue, gw_err *err) {
    static const struct {
        enum ibv_qp_state state;
        int mask;
    } steps[] = {
        {IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
        {IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
        {IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct ibv_qp_attr attr = {.qp_state = steps[i].state, .port_num = device_of(queue)->port};
        address_self(queue, &attr);
        be_ready(queue, &attr);
        if (!modify(queue, &attr, steps[i].mask, err)) return false;
        if (steps[i].state == IBV_QPS_INIT) post_receives(queue);
    }
    return true;
}

/* Posting. */

static uint64_t piece_bytes(const gw_rdma_queue *queue, const gw_rdma_work *work) {
    uint64_t left = work->bytes - work->posted_bytes, most = device_of(queue)->message_most;
    if (work->verb == GW_RDMA_CAS || work->verb == GW_RDMA_FETCH_ADD) return 8;
    return left < most ? left : most;
}

static bool is_last_piece(const gw_rdma_work *work, uint64_t bytes) {
    bool atomic = work->verb == GW_RDMA_CAS || work->verb == GW_RDMA_FETCH_ADD;
    return atomic || work->posted_bytes + bytes == work->bytes;
}

static void fill_request(const gw_rdma_queue *queue, const gw_rdma_work *work, uint64_t bytes, bool last,
                         struct ibv_send_wr *request, struct ibv_sge *place) {
    *place = (struct ibv_sge){(uintptr_t)work->local + work->posted_bytes, (uint32_t)bytes, work->lkey};
    *request =
        (struct ibv_send_wr){.wr_id = queue->posted << 1, .sg_list = place, .num_sge = bytes > 0 ? 1 : 0};
    uint64_t remote = work->remote + work->posted_bytes;
    bool writes = work->verb == GW_RDMA_WRITE || work->verb == GW_RDMA_WRITE_IMMEDIATE;
    if (work->verb == GW_RDMA_CAS || work->verb == GW_RDMA_FETCH_ADD) {
        request->opcode = work->verb == GW_RDMA_CAS ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
        request->wr.atomic.remote_addr = remote;
        request->wr.atomic.rkey = work->rkey;
        request->wr.atomic.compare_add = work->verb == GW_RDMA_CAS ? work->expected : work->operand;
        request->wr.atomic.swap = work->operand;
    } else {
        request->opcode = work->verb == GW_RDMA_READ    ? IBV_WR_RDMA_READ
                          : work->verb == GW_RDMA_WRITE ? IBV_WR_RDMA_WRITE
                                                        : IBV_WR_RDMA_WRITE_WITH_IMM;
        request->wr.rdma.remote_addr = remote;
        request->wr.rdma.rkey = work->rkey;
        request->imm_data = htonl(work->immediate);
    }
    if (writes && bytes > 0 && bytes <= queue->inline_bytes) request->send_flags |= IBV_SEND_INLINE;
    /* At least every half of the queue completes by itself, so that its places come back. */
    if ((last && !work->unsignalled) || queue->posted - queue->signalled + 1 >= queue->send_depth / 2)
        request->send_flags |= IBV_SEND_SIGNALED;
}

/* Posts waiting work while there is room at the device. */
static void post_waiting(gw_rdma_queue *queue) {
    while (queue->first != NULL && queue->posted - queue->retired < queue->send_depth && !queue->broken) {
        gw_rdma_work *work = queue->first;
        struct ibv_send_wr request, *bad;
        struct ibv_sge place;
        uint64_t bytes = piece_bytes(queue, work);
        bool last = is_last_piece(work, bytes);
        fill_request(queue, work, bytes, last, &request, &place);
        int failed = ibv_post_send(queue->qp, &request, &bad);
        if (failed != 0) {
            gw_err why;
            fail(queue, failed, "posting work", &why);
            gw_rdma_queue_break(queue, &why);
            return;
        }
        queue->sent[queue->posted % queue->send_depth] = (sent){work, last};
        queue->posted++;
        if (request.send_flags & IBV_SEND_SIGNALED) queue->signalled = queue->posted;
        work->posted_bytes += bytes;
        if (last) queue->first = work->next;
    }
}

void gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work) {
    work->next = NULL;
    work->posted_bytes = 0;
    if (queue->first == NULL)
        queue->first = work;
    else
        queue->last->next = work;
    queue->last = work;
    post_waiting(queue);
}

/* Completions. */

static bool is_refusal(enum ibv_wc_status status) {
    return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR;
}

static gw_code code_of(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return GW_E_TIMEOUT;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
        return GW_E_IO;
    default:
        return GW_E_PEER;
    }
}

static void note_trouble(gw_rdma_queue *queue, const struct ibv_wc *wc) {
    if (queue->broken) return;
    const gw_rdma_device *device = device_of(queue);
    queue->broken = true;
    queue->refused = is_refusal(wc->status);
    gw_fail(&queue->trouble, code_of(wc->status), "net/rdma: %s port %u: %s (status %d, vendor's 0x%x)",
            device->name, device->port, ibv_wc_status_str(wc->status), (int)wc->status, wc->vendor_err);
}

/* Handles the completion of work request `sequence`. All requests before it have completed without an error,
 * since an error is always signalled. Work that was split ends with its last piece, which cannot succeed
 * after an error in an earlier one. */
static void retire(gw_rdma_queue *queue, uint64_t sequence, gw_rdma_outcome outcome,
                   const gw_rdma_handlers *handlers) {
    if (sequence >= queue->posted)
        return; /* posting failed and yet the device completed it: the work still waits */
    while (queue->retired <= sequence) {
        sent *s = &queue->sent[queue->retired % queue->send_depth];
        gw_rdma_outcome own = queue->retired == sequence ? outcome : GW_RDMA_DONE;
        queue->retired++;
        if (s->last) handlers->done(handlers->context, s->work, own);
    }
}

static void handle(gw_rdma_queue *queue, const struct ibv_wc *wc, const gw_rdma_handlers *handlers) {
    bool good = wc->status == IBV_WC_SUCCESS;
    if (!good) note_trouble(queue, wc);
    if (wc->wr_id == RECEIVE) {
        queue->receives_owed++;
        if (good) handlers->received(handlers->context, ntohl(wc->imm_data), wc->byte_len);
        return;
    }
    retire(queue, wc->wr_id >> 1,
           good             ? GW_RDMA_DONE
           : queue->refused ? GW_RDMA_REFUSED
                            : GW_RDMA_BROKEN,
           handlers);
}

/* Ends work that has never reached the device. */
static void end_waiting(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    while (queue->first != NULL && queue->posted == queue->retired) {
        gw_rdma_work *work = queue->first;
        queue->first = work->next;
        handlers->done(handlers->context, work, queue->refused ? GW_RDMA_REFUSED : GW_RDMA_BROKEN);
    }
}

uint32_t gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    struct ibv_wc completions[POLL];
    int count = ibv_poll_cq(queue->cq, POLL, completions);
    if (count < 0) {
        gw_err why;
        fail(queue, EIO, "polling a completion queue", &why);
        gw_rdma_queue_break(queue, &why);
        count = 0;
    }
    for (int i = 0; i < count; i++) handle(queue, &completions[i], handlers);
    if (queue->broken) {
        end_waiting(queue, handlers);
    } else {
        post_receives(queue);
        post_waiting(queue);
    }
    return (uint32_t)count;
}

bool gw_rdma_queue_arm(gw_rdma_queue *queue) {
    struct ibv_cq *cq;
    void *context;
    while (ibv_get_cq_event(queue->channel, &cq, &context) == 0) queue->events++;
    if (queue->events >= 1024) acknowledge(queue);
    return ibv_req_notify_cq(queue->cq, 0) == 0;
}
