/* A path that breaks by itself is excluded for a while, whichever side notices first, and the log says why
 * TCP is used then. Functions that the linker calls __wrap_ replace RDMA by a path whose channels carry
 * nothing, and break when the test says so. */
#include "tests/net/data_rig.h"

#include "core/base/log.h"
#include "net/rail/path.h"
#include "net/rdma/path.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HOUR_NS UINT64_C(3600000000000)

typedef struct frail_path {
    gw_path base; /* first */
    atomic_uint ends;
    atomic_int breaks; /* 0: they do not break; else the error code with which its channels break */
    int bell;          /* wakes the threads of its channels, which watch copies of it */
} frail_path;

typedef struct frail_channel {
    gw_channel base; /* first */
    const frail_path *path;
} frail_channel;

static frail_path paths[2]; /* the paths of the peers, in order */
static uint32_t opened;

gw_path *__wrap_gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err);

/* Its channels. */

static gw_flow look(const gw_channel *channel, gw_flow good, gw_err *err) {
    int code = ((const frail_channel *)channel)->path->breaks;
    if (code == GW_OK) return good;
    gw_fail(err, (gw_code)code, "the cable is out");
    return GW_FLOW_BROKEN;
}

static gw_flow frail_send(gw_channel *channel, const gw_rail_user *user, gw_err *err) {
    (void)user;
    return look(channel, GW_FLOW_IDLE, err);
}

static gw_flow frail_receive(gw_channel *channel, const gw_rail_user *user, gw_err *err) {
    (void)user;
    return look(channel, GW_FLOW_BLOCKED, err);
}

static bool frail_arm(gw_channel *channel, bool receive, bool send) {
    (void)receive, (void)send;
    gw_err err;
    return look(channel, GW_FLOW_IDLE, &err) == GW_FLOW_IDLE;
}

static void frail_close(gw_channel *channel) {
    close(channel->fd);
    free(channel);
}

static gw_channel *frail_channel_open(gw_path_endpoint *end, uint32_t stream, uint32_t rail, gw_err *err) {
    static const gw_channel_ops ops = {
        .send = frail_send, .receive = frail_receive, .arm = frail_arm, .close = frail_close};
    (void)err;
    frail_channel *channel = calloc(1, sizeof *channel);
    cr_assert_not_null(channel);
    channel->path = (const frail_path *)end->path;
    channel->base.peer.id = end->peer;
    channel->base.peer.link = end->link;
    channel->base.peer.rail = rail;
    channel->base.ops = &ops;
    channel->base.fd = dup(channel->path->bell);
    channel->base.payload_most = end->path->host->payload_most[stream];
    cr_assert_geq(channel->base.fd, 0);
    return &channel->base;
}

/* The path. */

static uint32_t frail_card(gw_path *base, uint8_t bytes[GW_PATH_CARD_BYTES], gw_err *why) {
    (void)base, (void)why;
    bytes[0] = 1;
    return 1;
}

static bool frail_suits(gw_path *base, const uint8_t *card, uint32_t count, gw_err *why) {
    (void)base, (void)card, (void)count, (void)why;
    return true;
}

static gw_path_endpoint *frail_open(gw_path *base, const gw_path_endpoint *as, const uint8_t *card,
                                    uint32_t count, gw_err *err) {
    (void)card, (void)count, (void)err;
    gw_path_endpoint *end = malloc(sizeof *end);
    cr_assert_not_null(end);
    *end = *as;
    ((frail_path *)base)->ends++;
    if (end->leads) base->host->ready(end);
    return end;
}

static gw_path_posted frail_post(gw_path_endpoint *end, const gw_op *op, gw_completion *completion) {
    (void)end, (void)op, (void)completion;
    return GW_PATH_PASS;
}

static void frail_close_endpoint(gw_path_endpoint *end) {
    free(end);
}

static void frail_path_close(gw_path *base) {
    close(((frail_path *)base)->bell);
}

gw_path *__wrap_gw_rdma_path_open(const gw_path_host *host, const gw_rdma_options *options, gw_err *err) {
    static const gw_path_ops ops = {.kind = GW_PATH_RDMA,
                                    .card = frail_card,
                                    .suits = frail_suits,
                                    .open = frail_open,
                                    .channel = frail_channel_open,
                                    .post = frail_post,
                                    .close_endpoint = frail_close_endpoint,
                                    .close = frail_path_close};
    (void)options, (void)err;
    frail_path *path = &paths[opened++];
    path->base = (gw_path){&ops, host};
    path->ends = 0;
    path->breaks = GW_OK;
    path->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    cr_assert_geq(path->bell, 0);
    return &path->base;
}

/* The tests. */

static atomic_uint reasons; /* how often the log has said why TCP is used */

static void count_reason(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)level, (void)room;
    if (strcmp(text, "the link to peer 02020202 uses TCP: the cable is out") == 0) reasons++;
}

/* Two peers linked by the path. The first one's channels break with this code, and there is another link. */
static rig *open_broken(uint32_t leader, gw_code code) {
    const uint32_t kinds[] = {GW_FABRIC_TCP | GW_FABRIC_RDMA, GW_FABRIC_TCP | GW_FABRIC_RDMA};
    const uint64_t ring = 1;
    opened = reasons = 0;
    gw_log_set_sink(count_reason, NULL);
    rig *r = rig_open_patient(kinds, 2, 1, true, HOUR_NS);
    rig_link(r, leader, 1 - leader);
    for (uint32_t i = 0; i < 2; i++) rig_wait_kind(&r->peers[i], GW_PATH_RDMA);
    cr_assert_eq(paths[0].ends + paths[1].ends, 2);
    paths[0].breaks = (int)code;
    cr_assert_eq(write(paths[0].bell, &ring, sizeof ring), (ssize_t)sizeof ring);
    for (uint32_t i = 0; i < 2; i++) rig_wait_downs(&r->peers[i], 1);
    paths[0].breaks = GW_OK;
    rig_link(r, leader, 1 - leader);
    return r;
}

/* The path of that link, how many endpoints have been opened by then, and how often the log says why. */
static void expect_next_link(gw_code code, gw_path_kind kind, uint32_t ends, uint32_t told) {
    for (uint32_t leader = 0; leader < 2; leader++) {
        rig *r = open_broken(leader, code);
        for (uint32_t i = 0; i < 2; i++) rig_wait_kind(&r->peers[i], kind);
        cr_expect_eq(paths[0].ends + paths[1].ends, ends);
        rig_close(r);
        gw_log_set_sink(NULL, NULL);
        cr_expect_eq(reasons, told);
    }
}

TestSuite(path_break, .timeout = 60);

/* The endpoint goes with the link and reports nothing any more. */
Test(path_break, what_its_channels_find_broken_is_left_alone_and_said) {
    expect_next_link(GW_E_TIMEOUT, GW_PATH_TCP, 2, 1);
}

Test(path_break, what_the_other_side_has_ended_is_tried_again_at_once) {
    expect_next_link(GW_E_PEER, GW_PATH_RDMA, 4, 0);
}
