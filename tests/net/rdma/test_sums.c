/* All-reduces of two members over RDMA channels whose device is a stand-in: a WRITE is a copy into the other side's
 * slots. The test is the rails' thread of both. Each side decides for itself whether it packs. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "core/rng.h"
#include "net/collective/collective.h"
#include "net/rdma/channel.h"
#include "net/rdma/packing.h"
#include "tests/net/rdma/wraps.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 200003, ATTEMPTS = 1000000 };

/* The device. */

enum { QUEUED = 256 };

struct gw_rdma_queue {
    gw_rdma_queue *other;
    gw_rdma_work *done[QUEUED]; /* work that has completed and was not polled */
    uint32_t posted, polled;
    uint32_t immediates[QUEUED], bytes[QUEUED]; /* WRITEs that have arrived and were not polled */
    uint32_t arrived, taken;
    uint64_t written_bytes;
};

static const gw_rdma_region memory_region = {.lkey = 1, .rkey = 2};

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *memory) {
    return memory;
}

void __wrap_gw_rdma_memory_close(gw_rdma_memory *memory) {
    (void)memory;
}

const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err) {
    (void)memory, (void)start, (void)bytes, (void)access, (void)err;
    return &memory_region;
}

void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region) {
    (void)memory, (void)region;
}

gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err) {
    (void)memory, (void)options, (void)err;
    gw_rdma_queue *queue = calloc(1, sizeof *queue);
    cr_assert_not_null(queue);
    return queue;
}

void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue) {
    free(queue);
}

int __wrap_gw_rdma_queue_fd(const gw_rdma_queue *queue) {
    (void)queue;
    return -1;
}

bool __wrap_gw_rdma_queue_arm(gw_rdma_queue *queue) {
    (void)queue;
    return true;
}

void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work) {
    gw_rdma_queue *other = queue->other;
    cr_assert(queue->posted - queue->polled < QUEUED && other->arrived - other->taken < QUEUED);
    if (work->bytes > 0) memcpy((void *)(uintptr_t)work->remote, work->local, work->bytes);
    queue->written_bytes += work->bytes;
    queue->done[queue->posted++ % QUEUED] = work;
    other->immediates[other->arrived % QUEUED] = work->immediate;
    other->bytes[other->arrived++ % QUEUED] = (uint32_t)work->bytes;
}

uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    uint32_t count = 0;
    for (; queue->polled != queue->posted; count++)
        handlers->done(handlers->context, queue->done[queue->polled++ % QUEUED], GW_RDMA_DONE);
    for (; queue->taken != queue->arrived; queue->taken++, count++)
        handlers->received(handlers->context, queue->immediates[queue->taken % QUEUED],
                           queue->bytes[queue->taken % QUEUED]);
    return count;
}

const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused) {
    (void)queue, (void)refused;
    return NULL;
}

/* A member, with one rail. */

typedef struct member {
    gw_transport base; /* first */
    gw_channel *channel;
    gw_rail_user user;
    bool woken, pushed;
    gw_collective *collective;
    int64_t *in, *out;
    uint32_t results;
    gw_collective_result result;
} member;

static member *member_of(gw_transport *transport) {
    return (member *)transport;
}

static uint32_t count_rails(const gw_transport *transport) {
    (void)transport;
    return 1;
}

static void use(gw_transport *transport, const gw_rail_user *user) {
    if (user != NULL) member_of(transport)->user = *user;
}

static void wake(gw_transport *transport, uint32_t rail) {
    (void)rail;
    member_of(transport)->woken = true;
}

static void refresh(gw_transport *transport, uint32_t rail) {
    (void)transport, (void)rail;
}

static void push(gw_transport *transport, gw_rail_peer *peer) {
    (void)peer;
    member_of(transport)->pushed = true;
}

static void resume(gw_transport *transport, gw_rail_peer *peer) {
    (void)transport;
    gw_channel_of(peer)->in.parked = false;
}

static bool release(gw_transport *transport, gw_rail_peer *peer) {
    (void)transport;
    return gw_channel_release(gw_channel_of(peer));
}

static void set_alarm(gw_transport *transport, uint32_t rail, uint64_t at_ns) {
    (void)transport, (void)rail, (void)at_ns;
}

static void refuse(gw_transport *transport, gw_rail_peer *peer, const gw_err *why) {
    (void)transport, (void)peer;
    cr_assert_fail("%s", why->text);
}

static const gw_transport_ops ops = {.rails = count_rails,
                                     .sure_rails = count_rails,
                                     .rail_use = use,
                                     .rail_wake = wake,
                                     .rail_refresh = refresh,
                                     .rail_push = push,
                                     .rail_resume = resume,
                                     .rail_release = release,
                                     .rail_alarm = set_alarm,
                                     .rail_refuse = refuse};

static void note(void *context, const gw_collective_result *result) {
    member *m = context;
    m->results++;
    m->result = *result;
    cr_assert_eq(result->status, GW_COLLECTIVE_OK, "%s", result->err != NULL ? result->err->text : "aborted");
}

static gw_peer_id id_of(uint32_t rank) {
    return (gw_peer_id){.bytes = {(uint8_t)(rank + 1)}};
}

static void sit_down(member *m, uint32_t rank, bool packs) {
    gw_err err;
    *m = (member){.base.ops = &ops};
    m->channel = gw_rdma_channel_open(NULL, 1 << 20, &err);
    cr_assert_not_null(m->channel, "%s", err.text);
    m->channel->peer = (gw_rail_peer){.id = id_of(1 - rank), .packs = packs, .unpacks = true};
    cr_assert(gw_collective_open(&m->base, note, m, &m->collective, &err), "%s", err.text);
    m->user.up(m->user.context, &m->channel->peer);
    m->in = malloc(ELEMENTS * sizeof *m->in);
    m->out = calloc(ELEMENTS, sizeof *m->out);
    cr_assert(m->in != NULL && m->out != NULL);
    gw_rng rng = gw_rng_seeded(rank);
    for (int i = 0; i < ELEMENTS; i++) m->in[i] = (int64_t)gw_rng_next(&rng) >> 36; /* 28 bits */
}

static void link_channels(member m[2]) {
    gw_err err;
    for (int i = 0; i < 2; i++) {
        gw_rdma_slots theirs = gw_rdma_channel_slots(m[1 - i].channel);
        cr_assert(gw_rdma_channel_aim(m[i].channel, &theirs, &err), "%s", err.text);
        gw_rdma_channel_queue(m[i].channel)->other = gw_rdma_channel_queue(m[1 - i].channel);
    }
}

static void get_up(member *m) {
    gw_collective_close(m->collective);
    m->channel->ops->close(m->channel);
    free(m->in);
    free(m->out);
}

static void start(member *m, uint32_t rank) {
    gw_err err;
    const gw_peer_id members[] = {id_of(0), id_of(1)};
    gw_collective_piece piece = {m->in, m->out, ELEMENTS};
    gw_collective_call call = {.tag = {.fence = {.epoch = 1, .view = {{1}}}, .step = 1},
                               .type = GW_SUM_I64,
                               .members = members,
                               .member_count = 2,
                               .rank = rank,
                               .pieces = &piece,
                               .piece_count = 1,
                               .progress_ms = 60000};
    cr_assert(gw_collective_start(m->collective, &call, &err), "%s", err.text);
}

/* What the rail's thread does in a round. */
static void turn(member *m) {
    gw_err err;
    if (m->woken) {
        m->woken = false;
        m->user.woken(m->user.context, 0);
    }
    gw_flow flow = m->channel->ops->receive(m->channel, &m->user, &err);
    cr_assert_neq(flow, GW_FLOW_BROKEN, "%s", err.text);
    if (!m->pushed) return;
    flow = m->channel->ops->send(m->channel, &m->user, &err);
    cr_assert_neq(flow, GW_FLOW_BROKEN, "%s", err.text);
    m->pushed = flow != GW_FLOW_IDLE;
}

static void check(member m[2], uint32_t rank, bool packs) {
    uint64_t plain = ELEMENTS * sizeof(int64_t); /* a half is sent to be added, and a half as the sum */
    const gw_collective_result *r = &m[rank].result;
    for (int i = 0; i < ELEMENTS; i++) cr_assert_eq(m[rank].out[i], m[0].in[i] + m[1].in[i]);
    cr_assert_leq(plain - (r->sent_bytes + r->saved_bytes), sizeof(int64_t), "the halves may differ by one");
    cr_assert_eq(r->received_bytes, m[1 - rank].result.sent_bytes);
    uint64_t written = gw_rdma_channel_queue(m[rank].channel)->written_bytes;
    cr_assert(written >= r->sent_bytes && written < r->sent_bytes + plain / 100);
    if (packs)
        cr_assert_lt(written, plain / 2, "28 or 29 bits an element: %lu bytes", written);
    else
        cr_assert_eq(r->saved_bytes, 0);
}

static void reduce(bool first_packs, bool second_packs) {
    member m[2];
    sit_down(&m[0], 0, first_packs);
    sit_down(&m[1], 1, second_packs);
    link_channels(m);
    start(&m[0], 0);
    start(&m[1], 1);
    for (int i = 0; i < ATTEMPTS && m[0].results + m[1].results < 2; i++) turn(&m[i % 2]);
    cr_assert_eq(m[0].results + m[1].results, 2, "the sum does not end");
    check(m, 0, first_packs);
    check(m, 1, second_packs);
    get_up(&m[0]);
    get_up(&m[1]);
}

Test(rdma_sums, both_sides_pack) {
    reduce(true, true);
}

Test(rdma_sums, neither_side_packs) {
    reduce(false, false);
}

Test(rdma_sums, a_side_that_does_not_pack_reads_what_the_other_has_packed) {
    reduce(true, false);
    reduce(false, true);
}

/* The decision. */

Test(rdma_sums, the_rate_of_a_port) {
    enum { X1 = 1, X4 = 2, X8 = 4, X12 = 8, X2 = 16 };
    cr_expect_eq(gw_rdma_port_mbits(1, X1), 2500);     /* what Soft-RoCE says */
    cr_expect_eq(gw_rdma_port_mbits(32, X1), 25000);   /* 25GbE */
    cr_expect_eq(gw_rdma_port_mbits(4, X4), 40000);    /* QDR, 40GbE */
    cr_expect_eq(gw_rdma_port_mbits(16, X4), 56000);   /* FDR */
    cr_expect_eq(gw_rdma_port_mbits(32, X4), 100000);  /* EDR, 100GbE */
    cr_expect_eq(gw_rdma_port_mbits(64, X2), 100000);  /* HDR100 */
    cr_expect_eq(gw_rdma_port_mbits(64, X4), 200000);  /* HDR, 200GbE */
    cr_expect_eq(gw_rdma_port_mbits(128, X4), 400000); /* NDR, 400GbE */
    cr_expect_eq(gw_rdma_port_mbits(64, X8), 400000);
    cr_expect_eq(gw_rdma_port_mbits(128, X12), 1200000);
    cr_expect_eq(gw_rdma_port_mbits(3, X4), 0);
    cr_expect_eq(gw_rdma_port_mbits(64, 0), 0);
}

Test(rdma_sums, packed_where_the_link_is_slower_than_the_cores) {
    cr_expect(gw_rdma_packs(99999, 100000, 1));
    cr_expect_not(gw_rdma_packs(100000, 100000, 1));
    cr_expect(gw_rdma_packs(199999, 100000, 2));
    cr_expect_not(gw_rdma_packs(200000, 100000, 2));
    cr_expect(gw_rdma_packs(UINT32_MAX, UINT32_MAX, 2));
    cr_expect_not(gw_rdma_packs(0, 100000, 1), "a rate that is not known");
    cr_expect_not(gw_rdma_packs(2500, 0, 1), "a speed that could not be measured");
}

Test(rdma_sums, the_speed_of_packing_is_measured) {
    uint32_t mbits = gw_rdma_packing_mbits();
    cr_expect(mbits > 10 && mbits < 10000000, "%u Mbit a second", mbits);
}
#endif
