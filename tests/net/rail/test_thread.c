/* A rail's thread: what it promises about time. What it does with channels is tested in
 * tests/net/conformance. */
#include "net/rail/tcp_channel.h"
#include "net/rail/thread.h"
#include "tests/net/sealed_frame.h"
#include "tests/net/shm/stopped_child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FRAME = GW_FRAME_BYTES };

/* A process that is stopped. */

typedef struct waiting {
    gw_rail_thread *rail;
    uint64_t deadline_ns;
    int output;
} waiting;

static void set_alarm(void *context, gw_rail_peer *peer) {
    const waiting *w = context;
    (void)peer;
    gw_rail_thread_alarm(w->rail, w->deadline_ns);
    cr_assert_eq(write(w->output, "", 1), 1);
}

static bool say_nothing(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context, (void)peer, (void)message;
    return false;
}

static gw_arrival leave_as_input(void *context, gw_rail_peer *peer, gw_rail_message *message) {
    (void)context, (void)peer, (void)message;
    _exit(STOPPED_INPUT_FIRST);
}

static void leave_as_late(void *context, uint32_t rail) {
    (void)context, (void)rail;
    _exit(STOPPED_LATE_FIRST);
}

static void ignore_wake(void *context, uint32_t rail) {
    (void)context, (void)rail;
}

static void wait_for_either(int input, int output, uint64_t deadline_ns) {
    static const uint8_t key[32];
    gw_err err;
    gw_detached stream = {.fd = input};
    waiting w = {.deadline_ns = deadline_ns, .output = output};
    gw_rail_user user = {.context = &w,
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
    w.rail = gw_rail_thread_open("test-rail", 0, NULL, NULL, &err);
    cr_assert_not_null(w.rail, "%s", err.text);
    gw_rail_thread_enter(w.rail);
    gw_rail_thread_use(w.rail, &user);
    gw_rail_thread_leave(w.rail);
    gw_channel *channel = gw_tcp_channel_open(&stream, 0, 0, &err);
    cr_assert(channel != NULL && gw_rail_thread_add(w.rail, channel, link, &err), "%s", err.text);
    for (;;) pause();
}

Test(rail_thread, who_was_stopped_hears_what_came_before_what_is_late) {
    uint8_t frame[FRAME] = {0};
    seal_frame(frame);
    cr_assert_eq(stopped_child(wait_for_either, frame, sizeof frame), STOPPED_INPUT_FIRST);
}

/* A thread that polls. */

enum { READ_NS = 1000, SPUN_NS = 100000, MOST_NS = 10 * SPUN_NS, MOST_LOOKS = SPUN_NS / READ_NS / 2 };

/* Used by the rail's thread until that has ended. */
static struct {
    bool counts;                /* the clock advances by READ_NS whenever it is read */
    uint64_t now_ns, woken_ns;  /* woken_ns: when the thread was last woken */
    uint64_t spun_ns;           /* how long it polled after that */
    uint32_t looks, most_looks; /* polls since it last yielded the processor, and the most there were */
    bool ended;
    sem_t end;
} polling;

uint64_t __real_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void);
uint64_t __wrap_gw_now_ns(void) {
    return polling.counts ? polling.now_ns += READ_NS : __real_gw_now_ns();
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
    polling.looks = 0;
    return __real_sched_yield();
}

static void end_polling(void) {
    polling.ended = true;
    polling.spun_ns = polling.now_ns - polling.woken_ns;
    (void)sem_post(&polling.end);
}

static bool look(void *context) {
    (void)context;
    if (polling.ended) return false;
    if (++polling.looks > polling.most_looks) polling.most_looks = polling.looks;
    if (polling.now_ns > polling.woken_ns + MOST_NS) end_polling();
    return false;
}

static bool sleep_now(void *context) {
    (void)context;
    if (!polling.ended) end_polling();
    return true;
}

static void note_wake(void *context, uint32_t rail) {
    (void)context, (void)rail;
    if (!polling.ended) polling.woken_ns = polling.now_ns;
}

static void ignore_alarm(void *context, uint32_t rail) {
    (void)context, (void)rail;
}

/* A polling thread may occupy the core that the peer's thread waits for. */
Test(rail_thread, who_polls_yields_between_looks_and_sleeps_soon, .timeout = 60) {
    gw_err err;
    gw_rail_user user = {.woken = note_wake, .alarmed = ignore_alarm};
    gw_rail_watch watch = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .poll = look, .arm = sleep_now};
    polling.counts = true;
    polling.now_ns = 1;
    cr_assert(watch.fd >= 0 && sem_init(&polling.end, 0, 0) == 0);
    gw_rail_thread *rail = gw_rail_thread_open("test-rail", 0, NULL, NULL, &err);
    cr_assert_not_null(rail, "%s", err.text);
    gw_rail_thread_enter(rail);
    gw_rail_thread_use(rail, &user);
    gw_rail_thread_leave(rail);
    gw_rail_thread_spin(rail, true);
    cr_assert(gw_rail_thread_watch(rail, &watch, &err), "%s", err.text); /* which wakes it */
    cr_assert_eq(sem_wait(&polling.end), 0);
    gw_rail_thread_unwatch(rail, &watch);
    gw_rail_thread_stop(rail);
    gw_rail_thread_close(rail);
    cr_expect_geq(polling.spun_ns, SPUN_NS);
    cr_expect_lt(polling.spun_ns, 2 * SPUN_NS, "%lu", polling.spun_ns);
    cr_expect(polling.most_looks > 0 && polling.most_looks < MOST_LOOKS, "%u", polling.most_looks);
    close(watch.fd);
}
