/* A lane's thread: what it promises about time. What it does with channels is in conformance_*.c. */
#include "net/lane_thread.h"
#include "net/tcp_channel.h"
#include "stopped_child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { FRAME = 8 + GW_LANE_HEADER };

/* ---- a process that is stopped ---- */

typedef struct waiting {
    gw_lane_thread *lane;
    uint64_t deadline_ns;
    int output;
} waiting;

static void set_alarm(void *context, gw_lane_peer *peer) {
    const waiting *w = context;
    (void)peer;
    gw_lane_thread_alarm(w->lane, w->deadline_ns);
    cr_assert_eq(write(w->output, "", 1), 1);
}

static bool say_nothing(void *context, gw_lane_peer *peer, gw_lane_message *message) {
    (void)context, (void)peer, (void)message;
    return false;
}

static gw_arrival leave_as_input(void *context, gw_lane_peer *peer, gw_lane_message *message) {
    (void)context, (void)peer, (void)message;
    _exit(STOPPED_INPUT_FIRST);
}

static void leave_as_late(void *context, uint32_t lane) {
    (void)context, (void)lane;
    _exit(STOPPED_LATE_FIRST);
}

static void ignore_wake(void *context, uint32_t lane) {
    (void)context, (void)lane;
}

static void wait_for_either(int input, int output, uint64_t deadline_ns) {
    static const uint8_t key[32];
    gw_err err;
    gw_detached stream = {.fd = input};
    waiting w = {.deadline_ns = deadline_ns, .output = output};
    gw_lane_user user = {.context = &w,
                         .up = set_alarm,
                         .next = say_nothing,
                         .arrive = leave_as_input,
                         .woken = ignore_wake,
                         .alarmed = leave_as_late};
    gw_data_link *link = calloc(1, sizeof *link);
    atomic_init(&link->references, 1);
    cr_assert_eq(fcntl(input, F_SETFL, O_NONBLOCK), 0);
    gw_cipher_start(&stream.seal, GW_ALGORITHM_PLAIN, key, GW_RECORD_DATA);
    gw_cipher_start(&stream.open, GW_ALGORITHM_PLAIN, key, GW_RECORD_DATA);
    w.lane = gw_lane_thread_open("test-lane", 0, NULL, NULL, &err);
    cr_assert_not_null(w.lane, "%s", err.text);
    gw_lane_thread_enter(w.lane);
    gw_lane_thread_use(w.lane, &user);
    gw_lane_thread_leave(w.lane);
    gw_channel *channel = gw_tcp_channel_open(&stream, 0, 0, &err);
    cr_assert(channel != NULL && gw_lane_thread_add(w.lane, channel, link, &err), "%s", err.text);
    for (;;) pause();
}

Test(lane_thread, who_was_stopped_hears_what_came_before_what_is_late) {
    static const uint8_t frame[FRAME] = {1};
    cr_assert_eq(stopped_child(wait_for_either, frame, sizeof frame), STOPPED_INPUT_FIRST);
}
