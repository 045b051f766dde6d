#include "tools/godwit/node/signals.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/clock.h"
#include "tools/godwit/journal/life.h"
#include "tools/godwit/watch/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_NS   UINT64_C(1000000000)
#define AT_ONCE_NS UINT64_C(200000000) /* a terminal that blocks must not delay an end at once */

/* timeout(1) and some shells signal a process and then its group: the process gets two signals for one. */
#define ECHO_NS UINT64_C(500000000)

/* Logging where the threads are may take most of LAST_S, if many threads do not answer. */
enum { CLOSE_S = 30, LAST_S = 25 };

/* A blocked signal is queued even if it is ignored. Signals that this process was started to ignore
 * (nohup(1), a shell's `&`) are therefore left out. SIGALRM is the alarm of closing. */
static void our_signals(sigset_t *ours) {
    static const int ending[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2};
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

/* Called with the lock held. */
_Noreturn static void end_at_once(gw_signals *s, int number) {
    if (number != SIGQUIT) gw_signals_end_soon(s); /* writing a core may take any time */
    gw_claim_journal_clear(s->claims);
    gw_log(GW_INFO, "node", "%s: " GW_LIFE_LAST_WORDS " at once", strsignal(number));
    gw_display_flush(s->display, AT_ONCE_NS);
    if (number == SIGQUIT) {
        sigset_t quit;
        sigemptyset(&quit);
        sigaddset(&quit, SIGQUIT);
        raise(SIGQUIT);
        pthread_sigmask(SIG_UNBLOCK, &quit, NULL);
    }
    _exit(128 + number);
}

static bool is_notice(int number) {
    return number == SIGUSR1 || number == SIGUSR2;
}

/* Whether the signal asks for what this peer does already, and is not meant to hurry it. */
static bool leaves_already(const gw_signals *s, int number) {
    if (s->leave == NULL) return false; /* it has not begun */
    return (is_notice(number) && (s->noticed || !s->polite)) ||
           (number == SIGTERM && s->scheduled && !s->polite);
}

/* Called with the lock held. */
static void obey(gw_signals *s, int number) {
    if (number == SIGALRM && s->closing) {
        gw_signals_end_soon(s);
        gw_claim_journal_clear(s->claims);
        gw_log(GW_WARN, "node", "closing takes more than %d s: " GW_LIFE_LAST_WORDS " as it is", CLOSE_S);
        gw_stacks_log_first();
        gw_stacks_log("gw");
        gw_display_flush(s->display, FLUSH_NS);
        _exit(s->code);
    }
    if (number == SIGHUP && !s->terminal) {
        gw_log(GW_INFO, "node", "%s: no terminal was closed, so this peer goes on (SIGTERM asks it to leave)",
               strsignal(number));
        return;
    }
    if (number == SIGQUIT) end_at_once(s, number);
    if (leaves_already(s, number)) {
        gw_log(GW_INFO, "node", "%s: this peer leaves already", strsignal(number));
        return;
    }
    if (s->asked_ns != 0 && gw_now_ns() < s->asked_ns + ECHO_NS) return;
    if (!s->polite) end_at_once(s, number);
    const bool again = s->noticed;
    if (is_notice(number)) {
        s->noticed = true;
    } else {
        s->polite = false;
        s->asked_ns = gw_now_ns();
    }
    gw_log(GW_INFO, "node", "%s: this peer leaves%s", strsignal(number),
           s->scheduled || is_notice(number) ? "" : " (a second signal ends the process at once)");
    if (!again) s->leave(s->context);
}

static void *signals_main(void *context) {
    gw_signals *s = context;
    sigset_t ours;
    our_signals(&ours);
    int number, before;
    while (sigwait(&ours, &number) == 0) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                               &before); /* the thread must not be cancelled while it holds the lock */
        pthread_mutex_lock(&s->lock);
        obey(s, number);
        pthread_mutex_unlock(&s->lock);
        pthread_setcancelstate(before, NULL);
    }
    return NULL;
}

bool gw_signals_open(gw_signals *s, gw_display *display, gw_err *err) {
    struct sigevent kill = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    sigset_t ours;
    *s = (gw_signals){.display = display};
    our_signals(&ours);
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &ours, &s->before);
    pthread_mutex_init(&s->lock, NULL);
    s->terminal = has_terminal(); /* asked now, because a closed terminal cannot be opened any more */
    if (timer_create(CLOCK_MONOTONIC, &kill, &s->last) != 0) return gw_fail_errno(err, errno, "timer_create");
    int failure = pthread_create(&s->thread, NULL, signals_main, s);
    s->open = failure == 0;
    return failure == 0 || gw_fail_thread(err, failure, "signal thread");
}

void gw_signals_polite(gw_signals *s, gw_claim_journal *claims, gw_signals_leave *leave, void *context) {
    pthread_mutex_lock(&s->lock);
    s->polite = true;
    s->claims = claims;
    s->leave = leave;
    s->context = context;
    pthread_mutex_unlock(&s->lock);
}

void gw_signals_scheduled(gw_signals *s) {
    pthread_mutex_lock(&s->lock);
    s->scheduled = true;
    pthread_mutex_unlock(&s->lock);
}

void gw_signals_ended(gw_signals *s) {
    pthread_mutex_lock(&s->lock);
    s->polite = false;
    pthread_mutex_unlock(&s->lock);
}

void gw_signals_closing(gw_signals *s, int code) {
    pthread_mutex_lock(&s->lock);
    s->polite = false;
    s->closing = true;
    s->code = code;
    pthread_mutex_unlock(&s->lock);
    alarm(CLOSE_S);
}

void gw_signals_end_soon(gw_signals *s) {
    const struct itimerspec when = {.it_value = {.tv_sec = LAST_S}};
    int failed = timer_settime(s->last, 0, &when, NULL);
    GW_ASSERT(failed == 0);
}

void gw_signals_end(gw_signals *s, int code) {
    gw_display_flush(s->display, FLUSH_NS);
    pthread_mutex_lock(&s->lock);
    gw_claim_journal_clear(s->claims);
    _exit(code);
}

void gw_signals_forget_claims(gw_signals *s) {
    pthread_mutex_lock(&s->lock);
    s->claims = NULL;
    pthread_mutex_unlock(&s->lock);
}

void gw_signals_close(gw_signals *s) {
    alarm(0);
    if (s->open) {
        pthread_cancel(s->thread);
        pthread_join(s->thread, NULL);
        timer_delete(s->last);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}
