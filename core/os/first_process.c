#include "core/os/first_process.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reaps all children that have ended. Returns whether `child` is one of them, or is no child of this
 * process any more; *status is then how it has ended. */
static bool reap(pid_t child, int *status) {
    for (;;) {
        int ended;
        pid_t pid = waitpid(-1, &ended, WNOHANG);
        if (pid < 0 && errno == EINTR) continue;
        if (pid <= 0) return pid < 0 && errno == ECHILD;
        if (pid != child) continue;
        *status = ended;
        return true;
    }
}

/* The kernel sends the signals of a terminal to the whole group in its foreground, of which the child is
 * one. */
static bool is_of_terminal(const siginfo_t *info) {
    return info->si_code == SI_KERNEL;
}

static int serve(pid_t child, const sigset_t *all) {
    int status = 0;
    while (!reap(child, &status)) {
        siginfo_t info;
        if (sigwaitinfo(all, &info) < 0 || info.si_signo == SIGCHLD || is_of_terminal(&info)) continue;
        kill(child, info.si_signo);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool gw_first_process(int *code) {
    if (getpid() != 1) return false;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* a signal that comes before the child is there waits for it */
    signal(SIGCHLD, SIG_DFL);                /* where it is ignored, no status of a child is kept */
    pid_t child = fork();
    if (child > 0) {
        *code = serve(child, &all);
        return true;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return false;
}
