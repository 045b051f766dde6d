/* SIGTERM, SIGINT, SIGHUP, SIGQUIT and SIGALRM, on a thread of their own, so that they are obeyed whatever
 * the loop, a worker or a disk does. Until the loop runs nobody depends on this peer: a signal ends the
 * process as it is. Then the first one asks it to leave, and the next one ends it at once. So does one while
 * it closes, and CLOSE_S: what then still runs cannot be ended from outside; the process can. SIGQUIT always
 * does, with the core that it is for. What is said at such an end may wait for what hangs, so that the kernel
 * has been told to kill the process by then: it needs no lock, no thread and no disk for that.
 *
 * SIGHUP is that of a terminal which was closed only where there was one. Elsewhere it is logrotate's or
 * systemd's way of asking for files to be opened anew: there is nothing to do then, and least of all to end.
 */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "tools/godwit/node/inside.h"
#include "tools/godwit/watch/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS   UINT64_C(1000000000)
#define AT_ONCE_NS UINT64_C(200000000) /* a terminal that stands still must not hold what ends at once */

/* timeout(1) and some shells signal a process and then its group: it gets two for one. */
#define ECHO_NS UINT64_C(500000000)

/* What is logged at the end may take most of LAST_S, where many threads take no signal. */
enum { CLOSE_S = 30, LAST_S = 25 };

/* Blocked signals are queued although they are ignored: those that whoever started this process had it ignore
 * (nohup(1), a shell's `&`) stay out. SIGALRM is needed for closing. */
static void our_signals(sigset_t *ours) {
    static const int ending[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};
    struct sigaction inherited;
    sigemptyset(ours);
    sigaddset(ours, SIGALRM);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (sigaction(ending[i], NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
            sigaddset(ours, ending[i]);
}

static bool has_terminal(void) {
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* With the lock held. */
_Noreturn static void end_at_once(gw_node *node, int number) {
    if (number != SIGQUIT) gw_signals_end_soon(node); /* a core takes as long as it takes */
    gw_claims_clear(node->signals.claims);
    gw_log(GW_INFO, "node", "%s: ended at once", strsignal(number));
    gw_display_flush(node->console->display, AT_ONCE_NS);
    if (number == SIGQUIT) {
        sigset_t quit;
        sigemptyset(&quit);
        sigaddset(&quit, SIGQUIT);
        raise(SIGQUIT);
        pthread_sigmask(SIG_UNBLOCK, &quit, NULL);
    }
    _exit(128 + number);
}

/* With the lock held. */
static void obey(gw_node *node, int number) {
    gw_signals *s = &node->signals;
    if (number == SIGALRM && s->closing) {
        gw_signals_end_soon(node);
        gw_claims_clear(s->claims);
        gw_log(GW_WARN, "node", "closing takes more than %d s: ending as it is", CLOSE_S);
        gw_stacks_log_first();
        gw_stacks_log("gw");
        gw_display_flush(node->console->display, FLUSH_NS);
        _exit(s->code);
    }
    if (number == SIGHUP && !s->terminal) {
        gw_log(GW_INFO, "node", "%s: no terminal was closed; going on (SIGTERM asks this peer to leave)",
               strsignal(number));
        return;
    }
    if (number == SIGQUIT) end_at_once(node, number);
    if (s->asked_ns != 0 && gw_now_ns() < s->asked_ns + ECHO_NS) return;
    if (!s->polite) end_at_once(node, number);
    s->polite = false;
    s->asked_ns = gw_now_ns();
    gw_log(GW_INFO, "node", "%s: leaving (once more ends it at once)", strsignal(number));
    gw_mailbox_post(node->mail, gw_mail_new(GW_EV_LEAVE, 0));
}

static void *signals_main(void *context) {
    gw_node *node = context;
    sigset_t ours;
    our_signals(&ours);
    int number, before;
    while (sigwait(&ours, &number) == 0) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* not with the lock */
        pthread_mutex_lock(&node->signals.lock);
        obey(node, number);
        pthread_mutex_unlock(&node->signals.lock);
        pthread_setcancelstate(before, NULL);
    }
    return NULL;
}

bool gw_signals_open(gw_node *node, gw_err *err) {
    struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    sigset_t ours;
    our_signals(&ours);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &ours, &node->signals.before);
    pthread_mutex_init(&node->signals.lock, NULL);
    node->signals.terminal = has_terminal(); /* when it is closed it is gone */
    if (timer_create(CLOCK_MONOTONIC, &kill, &node->signals.last) != 0)
        return gw_fail_errno(err, errno, "timer_create");
    int failure = pthread_create(&node->signals.thread, NULL, signals_main, node);
    node->signals.open = failure == 0;
    return failure == 0 || gw_fail_thread(err, failure, "signal thread");
}

void gw_signals_polite(gw_node *node) {
    pthread_mutex_lock(&node->signals.lock);
    node->signals.polite = true;
    node->signals.claims = node->claims;
    pthread_mutex_unlock(&node->signals.lock);
}

void gw_signals_closing(gw_node *node, int code) {
    pthread_mutex_lock(&node->signals.lock);
    node->signals.polite = false;
    node->signals.closing = true;
    node->signals.code = code;
    pthread_mutex_unlock(&node->signals.lock);
    alarm(CLOSE_S);
}

void gw_signals_end_soon(gw_node *node) {
    const struct itimerspec when = {.it_value = {.tv_sec = LAST_S}};
    int failed = timer_settime(node->signals.last, 0, &when, NULL);
    GW_ASSERT(failed == 0);
}

void gw_signals_end(gw_node *node, int code) {
    gw_display_flush(node->console->display, FLUSH_NS);
    pthread_mutex_lock(&node->signals.lock);
    gw_claims_clear(node->signals.claims);
    _exit(code);
}

void gw_signals_forget_claims(gw_node *node) {
    pthread_mutex_lock(&node->signals.lock);
    node->signals.claims = NULL;
    pthread_mutex_unlock(&node->signals.lock);
}

void gw_signals_close(gw_node *node) {
    alarm(0);
    if (node->signals.open) {
        pthread_cancel(node->signals.thread);
        pthread_join(node->signals.thread, NULL);
        timer_delete(node->signals.last);
    }
    pthread_mutex_destroy(&node->signals.lock);
    pthread_sigmask(SIG_SETMASK, &node->signals.before, NULL);
}
