/* A loop without memory ends the process, but not as a bug. */
#include "last_words.h"
#include "tools/godwit/thread/mail.h"
#include "tools/godwit/watch/loop_watch.h"

#include <criterion/criterion.h>
#include <string.h>

bool __wrap_gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err);
bool __wrap_gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call,
                         void *context, gw_err *err);

bool __wrap_gw_loop_post(gw_loop *loop, gw_loop_call *call, void *context, gw_err *err) {
    (void)loop, (void)call, (void)context;
    return gw_fail(err, GW_E_NOMEM, "no memory for a posted call");
}

bool __wrap_gw_timer_set(gw_loop *loop, gw_timer *timer, uint64_t deadline_ns, gw_loop_call *call,
                         void *context, gw_err *err) {
    (void)loop, (void)timer, (void)deadline_ns, (void)call, (void)context;
    return gw_fail(err, GW_E_NOMEM, "no memory for a timer");
}

static void deliver(void *context, gw_mail *mail) {
    (void)context, (void)mail;
}

static void post_mail(void *unused) {
    (void)unused;
    gw_err err;
    gw_mailbox *box = gw_mailbox_open(NULL, deliver, NULL, &err);
    gw_mailbox_post(box, gw_mail_new(GW_EV_STOP, 0));
}

static void hangs(void *context, double seconds) {
    (void)context, (void)seconds;
}

static void watch_loop(void *unused) {
    (void)unused;
    gw_err err;
    (void)gw_loop_watch_open(NULL, UINT64_C(1000000000), hangs, NULL, &err);
}

/* Posts a mail without memory, which ends the process. */
static void expect_no_bug(void (*act)(void *unused), const char *call) {
    char said[1000];
    last_words(act, NULL, said, sizeof said);
    cr_expect_not_null(strstr(said, "memory has run out"), "%s", said);
    cr_expect_not_null(strstr(said, call), "%s", said);
    cr_expect_null(strstr(said, "broken invariant"), "%s", said);
}

Test(mail, what_cannot_be_posted_has_no_memory) {
    expect_no_bug(post_mail, "gw_loop_post");
}

Test(mail, a_timer_that_cannot_be_set_has_no_memory) {
    expect_no_bug(watch_loop, "gw_timer_set");
}
