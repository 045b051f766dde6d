/* A rail's channel over a queue pair, both ends driven by hand in one thread. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "net/rdma/channel.h"
#include "tests/lab/rdma_rig.h"

#include "core/rng.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { ENDS = RDMA_RIG_ENDS, MOST = GW_RAIL_PAYLOAD };

/* What the messages of a run are made of: everything follows from their number. */
static uint32_t length_of(uint32_t number) {
    static const uint32_t interesting[] = {0,   1, 63, 64, 4096, 128 * 1024, 128 * 1024 + 1, 128 * 1024 - 128,
                                           MOST};
    uint32_t count = sizeof interesting / sizeof interesting[0];
    gw_philox random = gw_philox_at(7, 0, number);
    return number < count             ? interesting[number]
           : random.words[0] % 8 != 0 ? random.words[1] % 5000
                                      : random.words[1] % MOST;
}

static uint8_t byte_of(uint32_t number, uint32_t at) {
    return (uint8_t)(number * 31 + at + at / 253);
}

typedef struct user {
    gw_rail_user calls;
    gw_channel *channel;
    uint32_t to_send, sent, taken; /* messages */
    uint8_t *out;
    struct iovec out_parts[3];
    uint32_t arrived, landed, dropped, bytes, folded;
    uint8_t *in;
    struct iovec in_parts[2];
    uint32_t park_every, drop_every, fold_every; /* 0: never */
    bool parked_once;
} user;

static bool on_next(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    user *u = context;
    (void)peer;
    if (u->taken == u->to_send || u->taken != u->sent) return false;
    uint32_t number = u->taken++, bytes = length_of(number);
    for (uint32_t i = 0; i < bytes; i++) u->out[i] = byte_of(number, i);
    *message = (gw_rail_message){.bytes = bytes, .part_count = 3, .parts = u->out_parts};
    memcpy(message->header, &number, sizeof number);
    message->header[GW_RAIL_HEADER - 1] = (uint8_t)number;
    u->out_parts[0] = (struct iovec){u->out, bytes / 3};
    u->out_parts[1] = (struct iovec){u->out, 0};
    u->out_parts[2] = (struct iovec){u->out + bytes / 3, bytes - bytes / 3};
    return true;
}

static void on_sent(void *context, gw_rail_peer *peer) {
    user *u = context;
    (void)peer;
    memset(u->out, 0xee, length_of(u->sent)); /* it is ours again */
    u->sent++;
}

static gw_arrival on_arrive(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    user *u = context;
    (void)peer;
    uint32_t number;
    memcpy(&number, message->header, sizeof number);
    cr_assert_eq(number, u->arrived, "in order");
    cr_assert_eq(message->header[GW_RAIL_HEADER - 1], (uint8_t)number);
    cr_assert_eq(message->bytes, length_of(number));
    if (u->park_every != 0 && number % u->park_every == 0 && !u->parked_once) {
        u->parked_once = true;
        return GW_ARRIVAL_PARK;
    }
    u->parked_once = false;
    u->arrived++;
    if (u->drop_every != 0 && number % u->drop_every == 0) {
        u->dropped++;
        return GW_ARRIVAL_DROP;
    }
    u->bytes = message->bytes;
    u->in_parts[0] = (struct iovec){u->in, message->bytes / 2};
    u->in_parts[1] = (struct iovec){u->in + message->bytes / 2, message->bytes - message->bytes / 2};
    message->parts = u->in_parts;
    message->part_count = 2;
    message->fold = u->fold_every != 0 && number % u->fold_every == 0;
    u->folded = 0;
    return GW_ARRIVAL_LAND;
}

static void on_fold(void *context, gw_rail_peer *peer, uint32_t offset, const void *payload, uint32_t bytes) {
    user *u = context;
    (void)peer;
    cr_assert_eq(offset, u->folded);
    cr_assert(bytes % 64 == 0 || offset + bytes == u->bytes);
    cr_assert_eq((uintptr_t)payload % 64, 0);
    memcpy(u->in + offset, payload, bytes);
    u->folded += bytes;
}

static void on_landed(void *context, gw_rail_peer *peer) {
    user *u = context;
    (void)peer;
    for (uint32_t i = 0; i < u->bytes; i++) cr_assert_eq(u->in[i], byte_of(u->arrived - 1, i));
    u->landed++;
}

static void open_ends(rdma_rig *rig, user users[ENDS]) {
    gw_err err;
    for (int i = 0; i < ENDS; i++) {
        users[i] = (user){.calls = {.next = on_next,
                                    .sent = on_sent,
                                    .arrive = on_arrive,
                                    .fold = on_fold,
                                    .landed = on_landed},
                          .out = malloc(MOST),
                          .in = malloc(MOST)};
        users[i].calls.context = &users[i];
        users[i].channel = gw_rdma_channel_open(rig->memory, MOST, &err);
        cr_assert(users[i].channel, "%s", err.text);
        rig->queues[i] = gw_rdma_channel_queue(users[i].channel);
    }
    for (int i = 0; i < ENDS; i++) {
        gw_rdma_slots slots = gw_rdma_channel_slots(users[1 - i].channel);
        cr_assert(gw_rdma_channel_aim(users[i].channel, &slots, &err));
    }
    rdma_rig_connect_made(rig);
}

static void close_ends(rdma_rig *rig, user users[ENDS]) {
    for (int i = 0; i < ENDS; i++) {
        rig->queues[i] = NULL; /* the channel's */
        users[i].channel->ops->close(users[i].channel);
        free(users[i].out);
        free(users[i].in);
    }
    rdma_rig_disconnect(rig);
}

/* One round of sending and receiving; false: nothing moved. */
static bool move(user *u) {
    gw_err err;
    gw_channel *c = u->channel;
    gw_flow sent = c->ops->send(c, &u->calls, &err);
    cr_assert_neq(sent, GW_FLOW_BROKEN, "%s", err.text);
    gw_flow received = c->ops->receive(c, &u->calls, &err);
    cr_assert_neq(received, GW_FLOW_BROKEN, "%s", err.text);
    c->in.parked = false;
    return sent == GW_FLOW_MORE || received != GW_FLOW_BLOCKED;
}

static bool is_through(const user *from, const user *to) {
    return from->sent == from->to_send && to->landed + to->dropped == from->to_send;
}

Test(rdma_channel, messages_of_all_sizes_both_ways) {
    rdma_rig rig;
    static user users[ENDS];
    rdma_rig_open(&rig);
    open_ends(&rig, users);
    users[0].to_send = 60;
    users[1].to_send = 40;
    users[1].park_every = 3;
    users[1].fold_every = 2;
    users[0].drop_every = 5;
    while (!is_through(&users[0], &users[1]) || !is_through(&users[1], &users[0])) {
        move(&users[0]);
        move(&users[1]);
    }
    cr_assert_eq(users[0].dropped, 8);
    close_ends(&rig, users);
    rdma_rig_close(&rig);
}

/* As a rail that sleeps does it: nobody is called without the descriptor's word, and none is lost. */
Test(rdma_channel, sleeps_and_is_woken) {
    rdma_rig rig;
    static user users[ENDS];
    rdma_rig_open(&rig);
    open_ends(&rig, users);
    users[0].to_send = users[1].to_send = 30;
    while (!is_through(&users[0], &users[1]) || !is_through(&users[1], &users[0])) {
        struct pollfd fds[ENDS];
        bool idle = true;
        for (int i = 0; i < ENDS; i++) {
            gw_channel *c = users[i].channel;
            while (move(&users[i])) {
            }
            fds[i] = (struct pollfd){.fd = c->fd, .events = POLLIN};
            idle = c->ops->arm(c, true, users[i].taken < users[i].to_send) && idle;
        }
        if (idle && !(is_through(&users[0], &users[1]) && is_through(&users[1], &users[0])))
            cr_assert_geq(poll(fds, ENDS, 20000), 1, "asleep for ever");
    }
    close_ends(&rig, users);
    rdma_rig_close(&rig);
}

/* The user takes its memory back in the middle of a message, on both sides. */
Test(rdma_channel, lets_go_of_memory) {
    rdma_rig rig;
    static user users[ENDS];
    rdma_rig_open(&rig);
    open_ends(&rig, users);
    users[0].to_send = 9; /* the last is the longest */
    gw_channel *from = users[0].channel, *to = users[1].channel;
    while (users[0].taken < 9) {
        move(&users[0]);
        move(&users[1]);
    }
    cr_assert_eq(users[0].sent, 8, "in the middle of the last");
    cr_assert(gw_channel_release(from));
    memset(users[0].out, 0xee, MOST);
    while (users[1].landed < 9) {
        move(&users[0]);
        move(&users[1]);
    }
    cr_assert_eq(users[0].sent, 8, "no 'sent' follows a release");
    users[0].sent = 9;
    users[0].taken = 8;
    users[0].sent = 8; /* the longest again */
    users[1].arrived = 8;
    while (users[1].arrived < 9) {
        move(&users[0]);
        move(&users[1]);
    }
    cr_assert(gw_channel_release(to));
    memset(users[1].in, 0xdd, MOST);
    users[0].to_send = 10;
    while (users[1].landed < 10) {
        move(&users[0]);
        move(&users[1]);
        if (users[1].arrived == 9)
            for (uint32_t i = 0; i < MOST; i += 999) cr_assert_eq(users[1].in[i], 0xdd);
    }
    close_ends(&rig, users);
    rdma_rig_close(&rig);
}

Test(rdma_channel, a_break_is_said_after_what_had_arrived) {
    rdma_rig rig;
    static user users[ENDS];
    gw_err err;
    rdma_rig_open(&rig);
    open_ends(&rig, users);
    users[0].to_send = 3;
    while (users[0].sent < 3) {
        cr_assert_neq(users[0].channel->ops->send(users[0].channel, &users[0].calls, &err), GW_FLOW_BROKEN);
    }
    while (gw_rdma_queue_is_busy(rig.queues[0]) && users[1].landed == 0) move(&users[1]);
    gw_err why = {.code = GW_E_ABORTED, .text = "for a test"};
    while (users[1].landed < 3) move(&users[1]);
    gw_rdma_queue_break(rig.queues[1], &why);
    gw_channel *c = users[1].channel;
    cr_assert_eq(c->ops->receive(c, &users[1].calls, &err), GW_FLOW_BROKEN);
    cr_assert(strstr(err.text, "for a test"), "%s", err.text);
    cr_assert(!c->ops->arm(c, true, false), "a broken channel does not sleep");
    close_ends(&rig, users);
    rdma_rig_close(&rig);
}
#endif
