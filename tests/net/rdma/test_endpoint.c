/* One side of an RDMA path whose queue pair for operations cannot be connected at first. Functions that the
 * linker calls __wrap_ replace the device, the connection manager, this peer's own words and the clock; the
 * test plays the other side. */
#include <criterion/criterion.h>

#ifdef GODWIT_RDMA
#include "core/base/log.h"
#include "net/rdma/endpoint.h"
#include "tests/net/rdma/wraps.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

enum { REGION = 1, WORDS = 8, AT_ONCE = 16 /* completions that a poll takes */ };

/* The device: it does what it was given at the next poll. */

static gw_rdma_device card_device = {.mbits = 100000};
static const gw_rdma_region memory_region = {.lkey = 1};
static gw_rdma_work *posted;
static uint32_t completions,
    given_back; /* completions of another queue pair that wait; after them the slots come back */

/* The connection manager. */

typedef enum step { NOTHING, CONNECTED, REJECTED } step;

static gw_rdma_cm_events cm_events;
static void *dialler; /* NULL: there is no dial */
static uint32_t dials, connections;

/* The endpoint. */

static _Atomic uint64_t now_ns = 1000 * SECOND;
static gw_loop *loop;
static gw_rail_thread *thread;
static gw_rdma_endpoints ends;
static gw_path_endpoint *end;
static uint32_t warnings, infos;
static char last_line[300];

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
gw_rdma_cm *__wrap_gw_rdma_cm_open(const gw_rdma_device *device, gw_loop *on, const gw_rdma_cm_events *events,
                                   uint16_t *port, gw_err *err);
void __wrap_gw_rdma_cm_close(gw_rdma_cm *cm);
gw_rdma_connection *__wrap_gw_rdma_cm_dial(gw_rdma_cm *cm, const gw_addr *address, gw_rdma_queue *queue,
                                           const uint8_t hello[GW_RDMA_HELLO], void *owner, gw_err *err);
void __wrap_gw_rdma_connection_drop(gw_rdma_connection *connection);
gw_rdma_loans *__wrap_gw_rdma_owner_loans(gw_rdma_owner *owner);
void __wrap_gw_rdma_guest_enter(gw_rdma_guest *guest, gw_rdma_owner *owner, gw_path_endpoint *of);
void __wrap_gw_rdma_guest_leave(gw_rdma_guest *guest);
void __wrap_gw_rdma_guest_stand(gw_rdma_guest *guest);

/* A microsecond passes between two readings: threads wait for time to pass. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    uint64_t ns = atomic_fetch_add(&now_ns, 1000);
    *now = (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    return 0;
}

gw_rdma_memory *__wrap_gw_rdma_memory_hold(gw_rdma_memory *memory) {
    return memory;
}

void __wrap_gw_rdma_memory_close(gw_rdma_memory *memory) {
    (void)memory;
}

const gw_rdma_device *__wrap_gw_rdma_memory_device(const gw_rdma_memory *memory) {
    (void)memory;
    return &card_device;
}

const gw_rdma_region *__wrap_gw_rdma_memory_take(gw_rdma_memory *memory, const void *start, size_t bytes,
                                                 gw_rdma_access access, gw_err *err) {
    (void)memory, (void)start, (void)bytes, (void)access, (void)err;
    return &memory_region;
}

void __wrap_gw_rdma_memory_drop(gw_rdma_memory *memory, const gw_rdma_region *region) {
    (void)memory, (void)region;
}

/* A queue pair is represented by the descriptor of its events. */
gw_rdma_queue *__wrap_gw_rdma_queue_open(gw_rdma_memory *memory, const gw_rdma_queue_options *options,
                                         gw_err *err) {
    (void)memory, (void)options, (void)err;
    int *queue = malloc(sizeof *queue);
    cr_assert_not_null(queue);
    *queue = eventfd(0, EFD_NONBLOCK);
    return (gw_rdma_queue *)(void *)queue;
}

void __wrap_gw_rdma_queue_close(gw_rdma_queue *queue) {
    if (queue == NULL) return;
    close(*(int *)(void *)queue);
    free(queue);
}

int __wrap_gw_rdma_queue_fd(const gw_rdma_queue *queue) {
    return *(const int *)(const void *)queue;
}

bool __wrap_gw_rdma_queue_arm(gw_rdma_queue *queue) {
    (void)queue;
    return true;
}

void __wrap_gw_rdma_queue_post(gw_rdma_queue *queue, gw_rdma_work *work) {
    (void)queue;
    posted = work;
}

uint32_t __wrap_gw_rdma_queue_poll(gw_rdma_queue *queue, const gw_rdma_handlers *handlers) {
    (void)queue;
    if (completions > 0) { /* of the channel: only the last one reports how many slots have come back */
        uint32_t now = completions < AT_ONCE ? completions : AT_ONCE;
        completions -= now;
        if (completions == 0) handlers->received(handlers->context, given_back, 0);
        return now;
    }
    gw_rdma_work *work = posted;
    posted = NULL;
    if (work == NULL) return 0;
    uint64_t word = 41;
    if (work->verb == GW_RDMA_FETCH_ADD) memcpy(work->local, &word, sizeof word);
    handlers->done(handlers->context, work, GW_RDMA_DONE);
    return 1;
}

bool __wrap_gw_rdma_queue_is_busy(const gw_rdma_queue *queue) {
    (void)queue;
    return posted != NULL;
}

const gw_err *__wrap_gw_rdma_queue_trouble(const gw_rdma_queue *queue, bool *refused) {
    (void)queue, (void)refused;
    return NULL;
}

gw_rdma_cm *__wrap_gw_rdma_cm_open(const gw_rdma_device *device, gw_loop *on, const gw_rdma_cm_events *events,
                                   uint16_t *port, gw_err *err) {
    (void)device, (void)on, (void)port, (void)err;
    cm_events = *events;
    return (gw_rdma_cm *)(void *)&cm_events;
}

void __wrap_gw_rdma_cm_close(gw_rdma_cm *cm) {
    (void)cm;
    cr_assert_eq(connections, 0);
}

gw_rdma_connection *__wrap_gw_rdma_cm_dial(gw_rdma_cm *cm, const gw_addr *address, gw_rdma_queue *queue,
                                           const uint8_t hello[GW_RDMA_HELLO], void *owner, gw_err *err) {
    (void)cm, (void)address, (void)queue, (void)hello, (void)err;
    if (hello[1] == 0) { /* dials of rails are not answered here */
        cr_assert_null(dialler, "one at a time");
        dialler = owner;
        dials++;
    }
    connections++;
    return (gw_rdma_connection *)(void *)&connections;
}

void __wrap_gw_rdma_connection_drop(gw_rdma_connection *connection) {
    connections -= connection != NULL;
}

gw_rdma_loans *__wrap_gw_rdma_owner_loans(gw_rdma_owner *owner) {
    (void)owner;
    return NULL;
}

void __wrap_gw_rdma_guest_enter(gw_rdma_guest *guest, gw_rdma_owner *owner, gw_path_endpoint *of) {
    (void)guest, (void)owner, (void)of;
}

void __wrap_gw_rdma_guest_leave(gw_rdma_guest *guest) {
    (void)guest;
}

void __wrap_gw_rdma_guest_stand(gw_rdma_guest *guest) {
    (void)guest;
}

/* The fabric, and the other side. */

static void tell(gw_path_endpoint *of, const void *bytes, uint32_t count) {
    (void)of, (void)bytes, (void)count;
}

static void failed(gw_path_endpoint *of, const gw_err *why) {
    (void)of;
    cr_assert_fail("%s", why->text);
}

static void count_line(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    if (level < GW_INFO) return;
    *(level == GW_WARN ? &warnings : &infos) += 1;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static gw_path_host host = {.streams = 2, .payload_most = {0, 1 << 20}, .tell = tell, .failed = failed};
static gw_path path = {.host = &host};

static void slots(gw_path_endpoint *of) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_slots_message told = {
        .count = 2, .addressee = {.bytes = {1}}, .slots[1] = {.slot_bytes = 65664, .count = 16}};
    gw_rdma_endpoint_message(of, bytes, gw_rdma_slots_encode(&told, bytes));
}

/* Sends the keys of the other side's words. */
static void words(uint64_t epoch) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_words_message told = {.fence = {.epoch = epoch}, .address = 0x1000, .rkey = 7, .count = 1};
    told.regions[0].region = REGION;
    told.regions[0].bytes = 8 * WORDS;
    gw_rdma_endpoint_message(end, bytes, gw_rdma_words_encode(&told, bytes));
}

static void none(void) {
    uint8_t bytes[GW_PATH_MESSAGE_BYTES];
    gw_rdma_words_message told = {.address = 0};
    gw_rdma_endpoint_message(end, bytes, gw_rdma_words_encode(&told, bytes));
}

static void answer(step how) {
    static const gw_err rejected = {.code = GW_E_PEER, .text = "the connection was rejected"};
    void *owner = dialler;
    cr_assert_not_null(owner, "nobody dials");
    dialler = NULL;
    if (how == CONNECTED)
        cm_events.connected(cm_events.context, owner);
    else
        cm_events.ended(cm_events.context, owner, &rejected);
    gw_loop_turn(loop, 0);
}

static void wait_s(uint64_t seconds) {
    atomic_fetch_add(&now_ns, seconds * SECOND);
    gw_loop_turn(loop, 0);
}

static bool goes_directly(uint64_t epoch) {
    gw_op op = {.kind = GW_OP_FETCH_ADD, .region = REGION, .fence = {.epoch = epoch}, .operand = 1};
    gw_completion completion;
    gw_path_posted how = gw_rdma_endpoint_post(end, &op, &completion);
    cr_assert(how == GW_PATH_DONE || how == GW_PATH_PASS);
    return how == GW_PATH_DONE && completion.value == 41;
}

static void setup(void) {
    gw_err err;
    uint16_t port;
    loop = gw_loop_open(&err);
    thread = gw_rail_thread_open("test-rail", 0, NULL, NULL, &err);
    cr_assert(loop != NULL && thread != NULL, "%s", err.text);
    host.loop = loop;
    host.direct = thread;
    ends.host = &host;
    ends.packing_mbits = 100000;
    cr_assert(gw_rdma_endpoints_open(&ends, &port, &err), "%s", err.text);
    gw_path_endpoint as = {.path = &path, .peer = {.bytes = {2}}, .serial = 1};
    gw_rdma_card card = {.address = {.family = 4}, .mbits = 100000};
    end = gw_rdma_endpoint_open(&ends, &as, &card, &err);
    cr_assert_not_null(end, "%s", err.text);
    slots(end);
    gw_log_set_sink(count_line, NULL); /* of the tests, not of the opening */
}

static void teardown(void) {
    gw_rdma_endpoint_close(end);
    gw_rdma_endpoints_close(&ends);
    gw_rail_thread_stop(thread);
    gw_rail_thread_close(thread);
    gw_loop_close(loop);
    gw_log_set_sink(NULL, NULL);
}

TestSuite(rdma_endpoint, .init = setup, .fini = teardown);

/* The tests. */

/* The keys stay valid, and no view changes. */
Test(rdma_endpoint, a_queue_pair_for_operations_that_was_not_connected_is_dialled_again) {
    words(1);
    cr_assert_eq(dials, 1);
    answer(REJECTED);
    cr_assert_eq(dials, 2, "at once");
    cr_expect_eq(warnings, 0);
    answer(REJECTED);
    cr_expect_not(goes_directly(1));
    for (uint64_t pause = 30, tries = 3; pause < 1000; pause *= 2, tries++) {
        wait_s((pause < 600 ? pause : 600) - 1);
        cr_assert_eq(dials, tries - 1, "%lu s", pause);
        wait_s(1);
        cr_assert_eq(dials, tries, "%lu s", pause);
        answer(pause < 500 ? REJECTED : CONNECTED);
        cr_expect_eq(warnings, 1, "once");
        if (pause >= 500) break;
    }
    cr_expect_not_null(strstr(last_line, "go directly again"), "%s", last_line);
    cr_expect_eq(infos, 1);
    cr_expect(goes_directly(1));
    wait_s(3600);
    cr_expect(goes_directly(1));
}

/* The thief dials while the owner's fence admits no member. The keys go by another connection, and overtake
 * the refusal. */
Test(rdma_endpoint, keys_that_overtake_the_refusal_of_a_dial_are_not_in_vain) {
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        words(epoch);
        words(epoch + 10); /* another view, before the dial has come to its end */
        answer(REJECTED);
        answer(CONNECTED);
        cr_expect(goes_directly(epoch + 10));
        none();
        cr_expect_not(goes_directly(epoch + 10));
    }
    cr_expect_eq(dials, 6);
    cr_expect_eq(warnings, 0);
}

/* Withdrawn keys cause no dial, and new ones cause a dial at once. */
Test(rdma_endpoint, who_has_no_keys_does_not_dial) {
    words(1);
    answer(REJECTED);
    answer(REJECTED);
    none();
    wait_s(3600);
    cr_expect_eq(dials, 2);
    words(2);
    cr_expect_eq(dials, 3);
    answer(REJECTED);
    answer(REJECTED);
    words(3);
    cr_expect_eq(dials, 5, "not when the pause is over, but now");
    answer(CONNECTED);
    cr_expect(goes_directly(3));
    wait_s(3600);
    cr_expect_eq(dials, 5);
}

/* A rail's channel that is about to sleep. */

static bool send_once(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context, (void)peer;
    *message = (gw_rail_message){.bytes = 0};
    return true;
}

static void note_sent(void *context, gw_rail_peer *peer) {
    (void)context, (void)peer;
}

/* More work completed before the arming than one poll takes. The last completion gives the slots back, and
 * makes no event any more. */
Test(rdma_endpoint, a_channel_sleeps_over_no_completion) {
    static const gw_rail_user user = {.next = send_once, .sent = note_sent};
    gw_err err;
    gw_channel *channel = gw_rdma_endpoint_channel(end, 1, 0, &err);
    cr_assert_not_null(channel, "%s", err.text);
    uint32_t sent = 0;
    while (channel->ops->send(channel, &user, &err) == GW_FLOW_MORE) sent++;
    cr_assert_eq(sent, 16, "all slots of the other side are full");
    cr_expect(channel->ops->arm(channel, false, true));
    completions = 3 * AT_ONCE;
    given_back = sent;
    channel->in.parked = true;
    cr_expect_not(channel->ops->arm(channel, false, true));
    channel->ops->close(channel);
}

/* Whether a path to a card that carries so much has channels that pack; the log tells it if `tells`. */
static bool packs(uint32_t their_mbits, bool tells) {
    gw_err err;
    gw_path_endpoint as = {.path = &path, .peer = {.bytes = {3}}, .serial = 2};
    gw_rdma_card card = {.address = {.family = 4}, .mbits = their_mbits};
    infos = 0;
    gw_path_endpoint *other = gw_rdma_endpoint_open(&ends, &as, &card, &err);
    cr_assert_not_null(other, "%s", err.text);
    gw_channel *channel = gw_rdma_endpoint_channel(other, 1, 0, &err);
    cr_assert_not_null(channel, "%s", err.text);
    bool packs = channel->peer.packs;
    cr_expect(channel->peer.unpacks, "the other side decides for itself");
    cr_expect_eq(infos, tells);
    channel->ops->close(channel);
    gw_rdma_endpoint_close(other);
    return packs;
}

/* Cores that pack 100 Gbit a second. */
Test(rdma_endpoint, sums_travel_packed_where_the_slower_port_is_slower_than_packing) {
    cr_expect_not(packs(100000, false), "as to the peer that is there");
    cr_expect(packs(25000, true));
    cr_expect_not_null(strstr(last_line,
                              "packed: the slower port carries 25.0 Gbit a second, and this machine "
                              "packs and unpacks 100.0 on 1 core"),
                       "%s", last_line);
    cr_expect(packs(25000, false), "told once");
    card_device.mbits = 400000;
    cr_expect_not(packs(200000, true));
    cr_expect_not_null(strstr(last_line, "as they are: the slower port carries 200.0"), "%s", last_line);
    cr_expect(packs(50000, true), "theirs is the slower one");
    card_device.mbits = 40000;
    cr_expect(packs(200000, true), "ours is");
    host.streams = 4; /* two rails */
    host.payload_most[2] = host.payload_most[3] = 1 << 20;
    card_device.mbits = 400000;
    cr_expect(packs(199000, true));
    cr_expect_not(packs(200000, true));
    host.streams = 2;
    cr_expect_not(packs(0, true));
    cr_expect_not_null(strstr(last_line, "is not known"), "%s", last_line);
    card_device.mbits = 100000;
}
#endif
