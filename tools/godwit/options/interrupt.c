#include "tools/godwit/options/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool gw_interrupt_open(gw_interrupt *interrupt, gw_err *err) {
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    interrupt->fd = signalfd(-1, &ending, SFD_CLOEXEC);
    if (interrupt->fd < 0) return gw_fail_errno(err, errno, "signalfd");
    sigprocmask(SIG_BLOCK, &ending, &interrupt->before);
    return true;
}

void gw_interrupt_close(gw_interrupt *interrupt) {
    close(interrupt->fd);
    sigprocmask(SIG_SETMASK, &interrupt->before, NULL);
}

/* The signal stays pending. */
bool gw_interrupt_wait(const gw_interrupt *interrupt, int input, gw_err *err) {
    struct pollfd fds[] = {{.fd = interrupt->fd, .events = POLLIN}, {.fd = input, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR) return gw_fail_errno(err, errno, "poll");
    return fds[0].revents == 0 || gw_fail(err, GW_E_ABORTED, "told to end");
}
