#include "checkpoint/dirlock.h"

#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 20, BETWEEN_NS = 10000000 };

static bool refuse(int fd, const char *dir, gw_err *err) {
    char text[24] = "";
    ssize_t count = pread(fd, text, sizeof text - 1, 0);
    text[count > 0 ? count : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    const char *by = text[0] != '\0'
                         ? "process "
                         : "another process"; /* the owner has locked but not yet written its pid */
    return gw_fail(err, GW_E_DENIED, "%s is in use by %s%s: stop that one, or give this one another --dir",
                   dir, by, text);
}

static bool note_pid(int fd) {
    char text[24];
    int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)length, 0) == length;
}

/* Another process may hold it for a moment, only to see whether it can. */
static int lock_soon(int fd) {
    for (int tries = 1;; tries++) {
        int result;
        do result = flock(fd, LOCK_EX | LOCK_NB);
        while (result < 0 && errno == EINTR);
        if (result == 0 || errno != EWOULDBLOCK || tries == TRIES) return result;
        nanosleep(&(struct timespec){.tv_nsec = BETWEEN_NS}, NULL);
    }
}

bool gw_dirlock_take(gw_io *io, const char *dir, gw_dirlock *lock, gw_err *err) {
    lock->fd = -1;
    char path[GW_PATH_BYTES];
    if (!gw_durable_path(path, err, "%s/lock", dir)) return false;
    if (!gw_durable_root(io, dir, err)) return false;
    int fd = io->open(io, path, O_RDWR | O_CREAT, 0600);
    if (fd < 0) {
        const char *next = errno == EACCES
                               ? " (does it belong to another user? Run as that user, or name another --dir)"
                               : "";
        return gw_fail_errno(err, errno, "cannot open %s%s", path, next);
    }
    int result = lock_soon(fd);
    if (result < 0 && errno == EWOULDBLOCK)
        refuse(fd, dir, err);
    else if (result < 0)
        gw_fail_errno(err, errno, "cannot lock %s", path);
    else if (!note_pid(fd))
        gw_fail_errno(err, errno, "cannot write %s", path);
    else
        lock->fd = fd;
    if (lock->fd < 0) close(fd);
    return lock->fd >= 0;
}

void gw_dirlock_release(gw_dirlock *lock) {
    if (lock->fd < 0) return;
    close(lock->fd);
    lock->fd = -1;
}
