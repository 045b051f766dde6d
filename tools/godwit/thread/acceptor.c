#include "tools/godwit/thread/acceptor.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "net/link/listener.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { REST_MS = 100 };

struct gw_acceptor {
    int listen_fd, wake_fd;
    pthread_t thread;
    gw_accepted *accepted;
    void *context;
};

/* Waits a moment instead of polling. What the kernel lacks for poll() comes back, and requests for the
 * peer's status must be heard then. */
static void wait_without_poll(bool *warned, int why) {
    if (!*warned)
        gw_log(GW_WARN, "acceptor",
               "cannot poll for connections of `godwit status`, `godwit stop` or --http: %s; the peer looks "
               "for them ten times a second",
               strerror(why));
    *warned = true;
    nanosleep(&(struct timespec){.tv_nsec = REST_MS * 1000000L}, NULL);
}

static bool was_woken(const gw_acceptor *acceptor) {
    uint64_t count;
    return read(acceptor->wake_fd, &count, sizeof count) == sizeof count;
}

static void *accept_main(void *argument) {
    gw_acceptor *acceptor = argument;
    struct pollfd fds[2] = {{.fd = acceptor->wake_fd, .events = POLLIN},
                            {.fd = acceptor->listen_fd, .events = POLLIN}};
    bool waits = false, warned = false;
    for (;;) {
        bool failed = poll(fds, waits ? 1 : 2, waits ? REST_MS : -1) < 0 && errno != EINTR;
        if (failed) wait_without_poll(&warned, errno);
        if (was_woken(acceptor)) break;
        if (!failed && !waits && fds[1].revents == 0) continue;
        struct sockaddr_storage from;
        socklen_t bytes = sizeof from;
        int fd = accept4(acceptor->listen_fd, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC);
        waits = fd < 0 && gw_accept_lacks_resources(errno);
        if (fd >= 0) acceptor->accepted(acceptor->context, fd, (const struct sockaddr *)&from, bytes);
    }
    return NULL;
}

gw_acceptor *gw_acceptor_open(int listen_fd, gw_accepted *accepted, void *context, gw_err *err) {
    gw_acceptor *acceptor = calloc(1, sizeof *acceptor);
    if (acceptor == NULL) {
        gw_fail(err, GW_E_NOMEM, "out of memory");
        return NULL;
    }
    *acceptor = (gw_acceptor){.listen_fd = listen_fd, .accepted = accepted, .context = context};
    acceptor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = acceptor->wake_fd < 0 ? errno : 0;
    if (failed != 0)
        gw_fail_errno(err, failed, "eventfd");
    else if ((failed = pthread_create(&acceptor->thread, NULL, accept_main, acceptor)) != 0)
        gw_fail_thread(err, failed, "pthread_create");
    if (failed == 0) return acceptor;
    if (acceptor->wake_fd >= 0) close(acceptor->wake_fd);
    free(acceptor);
    return NULL;
}

void gw_acceptor_close(gw_acceptor *acceptor) {
    if (acceptor == NULL) return;
    uint64_t one = 1;
    GW_ASSERT(write(acceptor->wake_fd, &one, sizeof one) == sizeof one);
    pthread_join(acceptor->thread, NULL);
    close(acceptor->wake_fd);
    free(acceptor);
}
