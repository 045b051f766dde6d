#include "tools/godwit/flock/socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Opens a socket, and writes the address of the one of this name. */
static int open_socket(const char *directory, const char *name, int type, struct sockaddr_un *address,
                       gw_err *err) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof address->sun_path) {
        gw_fail(err, GW_E_USAGE, "the path of the directory is too long for a socket in it: %s", directory);
        return -1;
    }
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0) gw_fail_errno(err, errno, "a socket");
    return fd;
}

int gw_flock_listen(const char *directory, const char *name, int type, int backlog, gw_err *err) {
    struct sockaddr_un address;
    int fd = open_socket(directory, name, type | SOCK_NONBLOCK, &address, err);
    if (fd < 0) return -1;
    unlink(address.sun_path);
    mode_t before = umask(0177);
    bool good = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 && listen(fd, backlog) == 0;
    int why = errno;
    umask(before);
    if (good) return fd;
    gw_fail_errno(err, why, "the socket %s", address.sun_path);
    close(fd);
    return -1;
}

int gw_flock_knock(const char *directory, const char *name, int type, gw_err *err) {
    struct sockaddr_un address;
    int fd = open_socket(directory, name, type, &address, err);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) return fd;
    int why = errno;
    close(fd);
    gw_fail_errno(err, why, "the socket %s", address.sun_path);
    if (why == ENOENT || why == ECONNREFUSED) err->code = GW_E_NOTFOUND;
    return -1;
}
