/* SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGALRM, on a thread of their own, so that they are obeyed whatever
 * the loop, a worker or a disk does.
 *
 * Before gw_signals_polite no other peer depends on this one, and a signal ends the process as it is. After
 * it, the first signal asks the peer to leave and the next one ends the process at once. While the peer
 * closes, a signal ends the process, and so does an alarm: a thread that hangs cannot be ended from outside,
 * but the process can. SIGQUIT always ends it, with a core. The last messages may block on what hangs; before
 * they are written, the kernel's timer is set to kill the process, which needs no lock, no thread and no
 * disk.
 *
 * SIGUSR1 and SIGUSR2 are what schedulers send some time before the end (sbatch --signal). They ask the peer to
 * leave as well, once others depend on it, and do not count as its first signal. Where a scheduler runs the peer
 * (gw_signals_scheduled), SIGTERM does not end the process at once either: it sends several, and then SIGKILL.
 *
 * SIGHUP means that a terminal was closed only where the process was started with one. Elsewhere logrotate or
 * systemd sends it to have files opened anew, and there is nothing to do.
 *
 * Threads: any, unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_SIGNALS_H
#define GODWIT_TOOLS_GODWIT_NODE_SIGNALS_H

#include "tools/godwit/show/display.h"
#include "tools/godwit/work/claim_journal.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* On the signals' thread: a signal asks this peer to leave. */
typedef void gw_signals_leave(void *context);

typedef struct gw_signals {
    gw_display *display; /* flushed before the process ends */
    pthread_t thread;
    bool open;
    bool terminal;        /* the process was started with a controlling terminal */
    sigset_t before;      /* the mask of the thread that opened this */
    timer_t last;         /* when it expires, the kernel kills the process */
    pthread_mutex_t lock; /* of the members below */
    bool polite;          /* the next signal asks this peer to leave; otherwise it ends the process */
    bool noticed;         /* SIGUSR1 or SIGUSR2 has asked this peer to leave, which is no first signal */
    bool scheduled;       /* SIGTERM does not end the process at once */
    uint64_t asked_ns;    /* when a signal asked this peer to leave; 0 = none has */
    bool closing;         /* SIGALRM is the alarm of closing; before that it is a signal like the others */
    int code;             /* exit code of the process when closing takes too long */
    gw_claim_journal *claims; /* cleared when a signal ends the process: no shard is to blame. NULL = none */
    gw_signals_leave *leave;
    void *context;
} gw_signals;

/* Main thread, before any other is created: blocks the signals and starts the thread. `display` outlives
 * it. */
bool gw_signals_open(gw_signals *signals, gw_display *display, gw_err *err);
/* A scheduler runs this peer. */
void gw_signals_scheduled(gw_signals *signals);
/* From here on the first signal asks this peer to leave. */
void gw_signals_polite(gw_signals *signals, gw_claim_journal *claims, gw_signals_leave *leave, void *context);
/* This peer closes: from here on a signal ends the process, and so does closing for too long, with `code`. */
void gw_signals_closing(gw_signals *signals, int code);
/* The job has ended, and its state is saved. What comes behind it may take any time: from here on a signal ends the
 * process. */
void gw_signals_ended(gw_signals *signals);
/* The process is about to end: should that hang, the kernel kills it some time later. */
void gw_signals_end_soon(gw_signals *signals);
/* Ends the process as it is, at once; no shard that runs is to blame. */
_Noreturn void gw_signals_end(gw_signals *signals, int code);
/* The claims are about to be closed. */
void gw_signals_forget_claims(gw_signals *signals);
/* Main thread: ends the thread and restores the mask. */
void gw_signals_close(gw_signals *signals);

#endif
