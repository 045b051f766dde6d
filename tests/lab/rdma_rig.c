#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "tests/lab/rdma_rig.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const gw_peer_id dialler = {{1}}, acceptor = {{2}};

static gw_rdma_queue *on_asked(void *context, const uint8_t *bytes, size_t count, void **owner) {
    rdma_rig *rig = context;
    gw_rdma_hello hello;
    if (!gw_rdma_hello_decode(bytes, count, &hello)) return NULL;
    hello.acceptor = acceptor;
    if (!gw_rdma_hello_verify(&hello, rig->secret, bytes)) return NULL;
    *owner = rig;
    return rig->queues[1];
}

static void on_accepted(void *context, void *owner, gw_rdma_connection *connection) {
    rdma_rig *rig = context;
    cr_assert_eq(owner, rig);
    rig->connections[1] = connection;
    rig->accepted = true;
}

static void on_connected(void *context, void *owner) {
    (void)owner;
    ((rdma_rig *)context)->connected = true;
}

static void on_ended(void *context, void *owner, const gw_err *why) {
    rdma_rig *rig = context;
    (void)owner;
    rig->ended = true;
    rig->why = *why;
}

static void on_lost(void *context, const gw_err *why, bool removed) {
    rdma_rig *rig = context;
    (void)removed;
    rig->lost = true;
    rig->why = *why;
}

static void on_found(void *context) {
    ((rdma_rig *)context)->lost = false;
}

void rdma_rig_open(rdma_rig *rig) {
    gw_err err;
    uint16_t port;
    *rig = (rdma_rig){.secret = {7}};
    cr_assert(sodium_init() >= 0);
    gw_rdma_options options = {0};
    gw_rdma_device device;
    if (!gw_rdma_device_open(&device, &options, &err)) cr_skip_test("%s", err.text);
    rig->memory = gw_rdma_memory_open(&device, &err);
    cr_assert(rig->memory, "%s", err.text);
    rig->device = gw_rdma_memory_device(rig->memory);
    rig->loop = gw_loop_open(&err);
    cr_assert(rig->loop);
    gw_rdma_cm_events events = {rig, on_asked, on_accepted, on_connected, on_ended, on_lost, on_found};
    rig->cm = gw_rdma_cm_open(rig->device, rig->loop, &events, &port, &err);
    cr_assert(rig->cm, "%s", err.text);
    rig->address = rig->device->address;
    rig->address.port = port;
}

void rdma_rig_close(rdma_rig *rig) {
    rdma_rig_disconnect(rig);
    gw_rdma_cm_close(rig->cm);
    gw_loop_close(rig->loop);
    gw_rdma_memory_close(rig->memory);
}

void rdma_rig_connect(rdma_rig *rig, const gw_rdma_queue_options *options) {
    gw_err err;
    for (int i = 0; i < RDMA_RIG_ENDS; i++) {
        rig->queues[i] = gw_rdma_queue_open(rig->memory, options, &err);
        cr_assert(rig->queues[i], "%s", err.text);
    }
    rdma_rig_connect_made(rig);
}

void rdma_rig_connect_made(rdma_rig *rig) {
    gw_err err;
    uint8_t bytes[GW_RDMA_HELLO];
    gw_rdma_hello hello = {.queue = 1, .serial = 5, .dialler = dialler, .acceptor = acceptor};
    gw_rdma_hello_encode(&hello, rig->secret, bytes);
    rig->connected = rig->accepted = rig->ended = false;
    rig->connections[0] = gw_rdma_cm_dial(rig->cm, &rig->address, rig->queues[0], bytes, rig, &err);
    cr_assert(rig->connections[0], "%s", err.text);
    while (!(rig->connected && rig->accepted) && !rig->ended) gw_loop_turn(rig->loop, UINT64_MAX);
    cr_assert(!rig->ended, "%s", rig->why.text);
}

void rdma_rig_disconnect(rdma_rig *rig) {
    for (int i = 0; i < RDMA_RIG_ENDS; i++) {
        gw_rdma_connection_drop(rig->connections[i]);
        gw_rdma_queue_close(rig->queues[i]);
        rig->connections[i] = NULL;
        rig->queues[i] = NULL;
    }
}

static void on_done(void *context, gw_rdma_work *work, gw_rdma_outcome outcome) {
    (void)work;
    *(gw_rdma_outcome *)context = outcome;
}

gw_rdma_outcome rdma_rig_do(gw_rdma_queue *queue, gw_rdma_work *work) {
    gw_rdma_outcome outcome = 0;
    gw_rdma_handlers handlers = {.context = &outcome, .done = on_done};
    gw_rdma_queue_post(queue, work);
    while (outcome == 0) gw_rdma_queue_poll(queue, &handlers);
    return outcome;
}
#endif
