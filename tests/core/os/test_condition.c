/* Waits for conditions end when they are signalled, and at their time. */
#include "core/os/clock.h"
#include "core/os/condition.h"

#include <criterion/criterion.h>

typedef struct flag {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool up;
} flag;

static void *raise_it(void *context) {
    flag *f = context;
    pthread_mutex_lock(&f->lock);
    f->up = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* Whether the flag, which another thread raises once this one waits, is up before the time. */
static bool is_up_by(uint64_t end_ns, bool raised) {
    flag f = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    gw_cond_init(&f.changed);
    pthread_mutex_lock(&f.lock);
    if (raised) cr_assert_eq(pthread_create(&thread, NULL, raise_it, &f), 0);
    bool in_time = true;
    while (!f.up && in_time) in_time = gw_cond_wait_until(&f.changed, &f.lock, end_ns);
    pthread_mutex_unlock(&f.lock);
    if (raised) pthread_join(thread, NULL);
    pthread_cond_destroy(&f.changed);
    return f.up && in_time;
}

Test(condition, a_signal_ends_a_wait) {
    cr_expect(is_up_by(UINT64_MAX, true), "a wait without end");
    cr_expect(is_up_by(gw_now_ns() + UINT64_C(600000000000), true));
}

Test(condition, a_wait_ends_at_its_time_and_not_before) {
    const uint64_t end = gw_now_ns() + 20000000;
    cr_expect_not(is_up_by(end, false));
    cr_expect_geq(gw_now_ns(), end);
    cr_expect_not(is_up_by(0, false), "long ago");
}
