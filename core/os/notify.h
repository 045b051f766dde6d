/* Messages to the service manager that has started this process, by the protocol of sd_notify(3): a
 * message is a datagram of lines VARIABLE=VALUE to the socket that the environment names in NOTIFY_SOCKET.
 * Without that variable nobody listens, and everything here does nothing. */
#ifndef GODWIT_CORE_OS_NOTIFY_H
#define GODWIT_CORE_OS_NOTIFY_H

#include "core/base/err.h"

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

typedef struct gw_notify {
    int fd; /* -1 = nobody listens */
    struct sockaddr_un address;
    socklen_t address_bytes;
    uint64_t watchdog_ns; /* the longest time between two WATCHDOG=1 (WATCHDOG_USEC); 0 = nobody watches */
} gw_notify;

/* Reads the environment, and takes the variables out of it, so that no child talks to the service manager
 * in this process's name. Fails where NOTIFY_SOCKET is neither a path nor the name of an abstract socket
 * ("@name"), or no socket can be had; then, too, nobody listens. No other thread may use the environment
 * meanwhile. */
bool gw_notify_open(gw_notify *notify, gw_err *err);

/* Sends the lines, and never waits: returns false where the socket does not take them now. True where
 * nobody listens. Any thread. */
bool gw_notify_send(const gw_notify *notify, const char *lines);

void gw_notify_close(gw_notify *notify);

#endif
