#include "kernels/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS = 40 };

/* What the link says, seen from where the link is; the caller frees. NULL, with errno: it cannot be read. */
static char *read_link(const char *path) {
    char said[PATH_MAX], *next = NULL;
    ssize_t length = readlink(path, said, sizeof said);
    if (length < 0) return NULL;
    const char *slash = said[0] == '/' ? NULL : strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path + 1) : 0;
    if (asprintf(&next, "%.*s%.*s", folder, path, (int)length, said) >= 0) return next;
    errno = ENOMEM;
    return NULL;
}

/* The name behind all links, of a file that need not be there; the caller frees. NULL, with errno: none. */
static char *follow(const char *path) {
    struct stat stat;
    char *target = strdup(path);
    for (int i = 0; target != NULL && lstat(target, &stat) == 0 && S_ISLNK(stat.st_mode); i++) {
        char *next = i < LINKS ? read_link(target) : NULL;
        if (i == LINKS) errno = ELOOP;
        int reason = errno;
        free(target);
        target = next;
        errno = reason;
    }
    return target;
}

bool gw_output_open(const char *path, gw_output *output, gw_err *err) {
    struct stat there;
    *output = (gw_output){.fd = -1};
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return gw_fail(err, GW_E_INVALID, "%s is there and is not a regular file: name another one", path);
    output->target = follow(path);
    if (output->target != NULL && asprintf(&output->partial, "%s.partial", output->target) < 0) {
        output->partial = NULL;
        errno = ENOMEM;
    }
    if (output->partial != NULL)
        output->fd = open(output->partial, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (output->fd >= 0) return true;
    gw_fail_errno(err, errno, "cannot write %s", path);
    free(output->target);
    free(output->partial);
    return false;
}

bool gw_output_write(const gw_output *output, const void *bytes, size_t count, gw_err *err) {
    for (const char *next = bytes; count > 0;) {
        ssize_t written = write(output->fd, next, count);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return gw_fail_errno(err, errno, "cannot write %s", output->target);
        next += written;
        count -= (size_t)written;
    }
    return true;
}

bool gw_output_end(gw_output *output, bool good, gw_err *err) {
    if (good && fsync(output->fd) != 0) good = gw_fail_errno(err, errno, "cannot write %s", output->target);
    if (close(output->fd) != 0 && good) good = gw_fail_errno(err, errno, "cannot write %s", output->target);
    if (good && rename(output->partial, output->target) != 0)
        good = gw_fail_errno(err, errno, "cannot write %s", output->target);
    if (!good) unlink(output->partial);
    free(output->target);
    free(output->partial);
    *output = (gw_output){.fd = -1};
    return good;
}
