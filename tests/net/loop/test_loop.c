/* What the loop promises: the order of timers and posted calls, and no call after a removal. */
#include "core/os/clock.h"
#include "tests/net/flock.h"
#include "tests/net/shm/stopped_child.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static gw_loop *open_loop(void) {
    gw_err err;
    gw_loop *loop = gw_loop_open(&err);
    flock_need(loop != NULL, &err);
    return loop;
}

static int order[4096], order_count;
static int marks[4096];

static void note(void *context) {
    order[order_count++] = *(int *)context;
}

static void set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, int *mark) {
    gw_err err;
    flock_need(gw_timer_set(loop, timer, deadline_ns, note, mark, &err), &err);
}

Test(loop, timers_run_by_deadline_and_equal_ones_in_the_order_they_were_set) {
    enum { COUNT = 500 };
    static gw_timer timers[COUNT];
    gw_loop *loop = open_loop();
    uint64_t now = gw_now_ns();
    for (int i = 0; i < COUNT; i++) {
        marks[i] = i;
        set(loop, &timers[i], now - 1000 + (uint64_t)(i * 37 % 10), &marks[i]); /* ten deadlines, all past */
    }
    gw_loop_turn(loop, UINT64_MAX);
    cr_assert_eq(order_count, COUNT);
    for (int i = 1; i < COUNT; i++) {
        int a = order[i - 1], b = order[i];
        cr_assert(a * 37 % 10 < b * 37 % 10 || (a * 37 % 10 == b * 37 % 10 && a < b));
    }
    gw_loop_close(loop);
}

Test(loop, a_timer_can_be_cancelled_and_moved) {
    gw_timer timers[3] = {0};
    gw_loop *loop = open_loop();
    for (int i = 0; i < 3; i++) {
        marks[i] = i;
        set(loop, &timers[i], (uint64_t)i, &marks[i]);
    }
    gw_timer_cancel(&timers[0]);
    gw_timer_cancel(&timers[0]);
    set(loop, &timers[1], 10, &marks[1]);
    gw_loop_turn(loop, 0);
    cr_assert_eq(order_count, 2);
    cr_assert_eq(order[0], 2);
    cr_assert_eq(order[1], 1);
    gw_loop_close(loop);
}

typedef struct again {
    gw_loop *loop;
    gw_timer timer;
    int calls;
} again;

static void set_again(void *context) {
    again *a = context;
    gw_err err;
    a->calls++;
    flock_need(gw_timer_set(a->loop, &a->timer, 0, set_again, a, &err), &err);
}

Test(loop, a_timer_that_sets_itself_again_runs_once_a_turn) {
    again a = {.loop = open_loop()};
    set_again(&a);
    gw_loop_turn(a.loop, 0);
    cr_assert_eq(a.calls, 2);
    gw_loop_turn(a.loop, UINT64_MAX);
    cr_assert_eq(a.calls, 3);
    gw_timer_cancel(&a.timer);
    gw_loop_close(a.loop);
}

Test(loop, a_deadline_is_not_early) {
    gw_loop *loop = open_loop();
    gw_timer timer = {0};
    uint64_t deadline = gw_now_ns() + 3000000;
    set(loop, &timer, deadline, &marks[0]);
    while (order_count == 0) gw_loop_turn(loop, UINT64_MAX);
    cr_assert(gw_now_ns() >= deadline);
    gw_loop_close(loop);
}

enum { POSTERS = 4, POSTS = 500 };
static gw_loop *posted_to;

static void *post_many(void *context) {
    int first = *(int *)context;
    for (int i = 0; i < POSTS; i++) {
        gw_err err;
        flock_need(gw_loop_post(posted_to, note, &marks[first + i], &err), &err);
    }
    return NULL;
}

static bool all_posted(void *context) {
    (void)context;
    return order_count == POSTERS * POSTS;
}

Test(loop, posts_of_many_threads_all_run_and_each_threads_in_order) {
    posted_to = open_loop();
    pthread_t threads[POSTERS];
    int firsts[POSTERS], next[POSTERS];
    for (int i = 0; i < POSTERS * POSTS; i++) marks[i] = i;
    for (int i = 0; i < POSTERS; i++) {
        firsts[i] = next[i] = i * POSTS;
        cr_assert_eq(pthread_create(&threads[i], NULL, post_many, &firsts[i]), 0);
    }
    flock_turn_until(posted_to, all_posted, NULL);
    for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < order_count; i++) cr_assert_eq(order[i], next[order[i] / POSTS]++);
    gw_loop_close(posted_to);
}

static void stop(void *context) {
    gw_loop_stop(context);
}

static void *stop_from_elsewhere(void *context) {
    gw_loop_stop(context);
    return NULL;
}

Test(loop, stops_from_a_callback_from_a_thread_and_before_it_runs) {
    gw_loop *loop = open_loop();
    gw_err err;
    pthread_t thread;
    gw_loop_stop(loop);
    gw_loop_run(loop);
    flock_need(gw_loop_post(loop, stop, loop, &err), &err);
    gw_loop_run(loop);
    cr_assert_eq(pthread_create(&thread, NULL, stop_from_elsewhere, loop), 0);
    gw_loop_run(loop);
    pthread_join(thread, NULL);
    gw_loop_close(loop);
}

typedef struct twins {
    gw_watch watch[2];
    int fd[2], calls;
} twins;

static void remove_both(void *context, uint32_t events) {
    twins *t = context;
    cr_assert(events & EPOLLIN);
    t->calls++;
    gw_watch_remove(&t->watch[0]);
    gw_watch_remove(&t->watch[1]);
}

Test(loop, a_removed_watch_is_not_called_though_its_event_has_arrived) {
    gw_loop *loop = open_loop();
    gw_err err;
    twins t = {0};
    for (int i = 0; i < 2; i++) {
        t.fd[i] = eventfd(1, EFD_CLOEXEC);
        flock_need(gw_watch_add(loop, &t.watch[i], t.fd[i], EPOLLIN, remove_both, &t, &err), &err);
    }
    gw_loop_turn(loop, 0);
    gw_loop_turn(loop, 0);
    cr_assert_eq(t.calls, 1);
    for (int i = 0; i < 2; i++) close(t.fd[i]);
    gw_loop_close(loop);
}

static void count_call(void *context, uint32_t events) {
    (void)events;
    ++*(int *)context;
}

Test(loop, a_watch_is_level_triggered_and_can_change_what_it_waits_for) {
    gw_loop *loop = open_loop();
    gw_err err;
    gw_watch watch = {0};
    int calls = 0, fd = eventfd(1, EFD_CLOEXEC);
    flock_need(gw_watch_add(loop, &watch, fd, EPOLLIN, count_call, &calls, &err), &err);
    flock_turn(loop, 2);
    cr_assert_eq(calls, 2);
    gw_watch_change(&watch, 0);
    flock_turn(loop, 2);
    cr_assert_eq(calls, 2);
    gw_watch_change(&watch, EPOLLIN);
    flock_turn(loop, 1);
    cr_assert_eq(calls, 3);
    gw_watch_remove(&watch);
    close(fd);
    gw_loop_close(loop);
}

typedef struct look {
    gw_loop *loop;
    uint64_t seen_ns;
} look;

static void look_at_turn(void *context) {
    look *l = context;
    l->seen_ns = gw_loop_busy_since(l->loop);
}

Test(loop, says_since_when_it_is_busy) {
    look l = {.loop = open_loop()};
    gw_err err;
    uint64_t before = gw_now_ns();
    flock_need(gw_loop_post(l.loop, look_at_turn, &l, &err), &err);
    cr_assert_eq(gw_loop_busy_since(l.loop), 0);
    gw_loop_turn(l.loop, 0);
    cr_assert(l.seen_ns >= before && l.seen_ns <= gw_now_ns());
    cr_assert_eq(gw_loop_busy_since(l.loop), 0, "it waits again");
    gw_loop_close(l.loop);
}

Test(loop, all_that_is_ready_comes_before_timers) {
    enum { COUNT = 300 };
    static gw_watch watches[COUNT];
    gw_loop *loop = open_loop();
    gw_timer timer = {0};
    int fds[COUNT], calls = 0;
    gw_err err;
    for (int i = 0; i < COUNT; i++) {
        fds[i] = eventfd(1, EFD_CLOEXEC);
        flock_need(gw_watch_add(loop, &watches[i], fds[i], EPOLLIN, count_call, &calls, &err), &err);
    }
    set(loop, &timer, 0, &calls); /* the timer notes how many calls there were */
    gw_loop_turn(loop, 0);
    cr_assert_eq(order_count, 1);
    cr_assert_geq(order[0], COUNT);
    for (int i = 0; i < COUNT; i++) {
        gw_watch_remove(&watches[i]);
        close(fds[i]);
    }
    gw_loop_close(loop);
}

/* A process that is stopped. */

static void leave_as_input(void *context, uint32_t events) {
    (void)context, (void)events;
    _exit(STOPPED_INPUT_FIRST);
}

static void leave_as_late(void *context) {
    (void)context;
    _exit(STOPPED_LATE_FIRST);
}

static void wait_for_either(int input, int output, uint64_t deadline_ns) {
    gw_loop *loop = open_loop();
    gw_watch watch = {0};
    gw_timer timer = {0};
    gw_err err;
    flock_need(gw_watch_add(loop, &watch, input, EPOLLIN, leave_as_input, NULL, &err), &err);
    flock_need(gw_timer_set(loop, &timer, deadline_ns, leave_as_late, NULL, &err), &err);
    cr_assert_eq(write(output, "", 1), 1);
    for (;;) gw_loop_turn(loop, UINT64_MAX);
}

Test(loop, who_was_stopped_hears_what_came_before_what_is_late) {
    cr_assert_eq(stopped_child(wait_for_either, "x", 1), STOPPED_INPUT_FIRST);
}
