#include "core/os/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a whole number; 0 where the variable is none. */
static uint64_t number_of(const char *name) {
    const char *text = getenv(name);
    if (text == NULL || *text < '0' || *text > '9') return 0;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? value : 0;
}

static uint64_t read_watchdog(void) {
    uint64_t us = number_of("WATCHDOG_USEC");
    bool ours = getenv("WATCHDOG_PID") == NULL || number_of("WATCHDOG_PID") == (uint64_t)getpid();
    return ours && us <= UINT64_MAX / 1000 ? us * 1000 : 0;
}

static bool set_address(gw_notify *notify, const char *name, gw_err *err) {
    size_t length = strlen(name);
    bool abstract = name[0] == '@';
    if ((!abstract && name[0] != '/') || length < 2)
        return gw_fail(err, GW_E_INVALID, "'%.100s' is neither a path nor an abstract socket", name);
    if (length >= sizeof notify->address.sun_path)
        return gw_fail(err, GW_E_INVALID, "'%.100s...' is too long for the name of a socket", name);
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, name, length + 1);
    if (abstract) notify->address.sun_path[0] = '\0'; /* such a name has no zero at its end */
    notify->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (abstract ? 0 : 1));
    return true;
}

bool gw_notify_open(gw_notify *notify, gw_err *err) {
    *notify = (gw_notify){.fd = -1};
    const char *name = getenv("NOTIFY_SOCKET");
    bool given = name != NULL && name[0] != '\0';
    bool good = !given || set_address(notify, name, err);
    if (given && good) {
        notify->watchdog_ns = read_watchdog();
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (notify->fd < 0) good = gw_fail_errno(err, errno, "socket");
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return good || gw_fail_in(err, "NOTIFY_SOCKET");
}

bool gw_notify_send(const gw_notify *notify, const char *lines) {
    if (notify->fd < 0) return true;
    ssize_t sent;
    do
        sent = sendto(notify->fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT,
                      (const struct sockaddr *)&notify->address, notify->address_bytes);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

void gw_notify_close(gw_notify *notify) {
    if (notify->fd >= 0) close(notify->fd);
    notify->fd = -1;
}
