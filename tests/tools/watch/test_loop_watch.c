/* The watching thread notices a loop that gets stuck, and is silent about one that turns. */
#include "core/os/clock.h"
#include "tools/godwit/watch/loop_watch.h"

#include <criterion/criterion.h>
#include <semaphore.h>

#define MS UINT64_C(1000000)

typedef struct scene {
    gw_loop *loop;
    gw_loop_watch *watch;
    gw_timer timer;
    sem_t noticed;
    double seconds;
    int times, turns;
} scene;

static void notice(void *context, double seconds) {
    scene *s = context;
    s->seconds = seconds;
    s->times++;
    sem_post(&s->noticed);
}

static void open_scene(scene *s, uint64_t patience_ns) {
    gw_err err;
    *s = (scene){0};
    sem_init(&s->noticed, 0, 0);
    s->loop = gw_loop_open(&err);
    cr_assert_not_null(s->loop);
    s->watch = gw_loop_watch_open(s->loop, patience_ns, notice, s, &err);
    cr_assert_not_null(s->watch, "%s", err.text);
}

static void close_scene(scene *s) {
    gw_loop_watch_close(s->watch);
    gw_loop_close(s->loop);
}

/* Does not return before the hang is noticed. */
static void get_stuck(void *context) {
    scene *s = context;
    while (sem_wait(&s->noticed) != 0) {
    }
    gw_loop_stop(s->loop);
}

Test(loop_watch, a_stuck_loop_is_told_once) {
    scene s;
    gw_err err;
    open_scene(&s, 200 * MS);
    cr_assert(gw_loop_post(s.loop, get_stuck, &s, &err));
    gw_loop_run(s.loop);
    cr_expect_geq(s.seconds, 0.2);
    close_scene(&s);
    cr_expect_eq(s.times, 1);
}

static void turn(void *context) {
    scene *s = context;
    gw_err err;
    if (++s->turns == 16)
        gw_loop_stop(s->loop);
    else
        cr_assert(gw_timer_set(s->loop, &s->timer, gw_now_ns() + 250 * MS, turn, s, &err));
}

/* The loop runs for longer than the patience, and has nothing to do most of the time; a busy machine does
 * not use up the patience. */
Test(loop_watch, a_loop_that_turns_is_left_alone) {
    scene s;
    open_scene(&s, 3000 * MS);
    turn(&s);
    gw_loop_run(s.loop);
    close_scene(&s);
    cr_expect_eq(s.times, 0);
}
