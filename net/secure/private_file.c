#include "net/secure/private_file.h"

#include "core/base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_all(int fd, const char *path, char *text, size_t capacity, size_t *length, gw_err *err) {
    size_t used = 0;
    for (;;) {
        ssize_t got = read(fd, text + used, capacity - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gw_fail_errno(err, errno, "cannot read %s", path);
        if (got == 0) break;
        used += (size_t)got;
        if (used == capacity)
            return gw_fail(err, GW_E_INVALID, "%s is longer than %zu bytes", path, capacity - 1);
    }
    text[used] = '\0';
    *length = used;
    return true;
}

bool gw_private_file_read(const char *path, char *text, size_t capacity, gw_err *err) {
    GW_ASSERT(capacity > 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: do not hang on a FIFO */
    if (fd < 0) {
        gw_fail_errno(err, errno, "cannot open %s", path);
        if (errno == ENOENT) err->code = GW_E_NOTFOUND;
        return false;
    }
    struct stat stat;
    size_t length = 0;
    bool good;
    if (fstat(fd, &stat) != 0)
        good = gw_fail_errno(err, errno, "cannot look at %s", path);
    else if (!S_ISREG(stat.st_mode))
        good = gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
    else if ((stat.st_mode & 077) != 0)
        good = gw_fail(err, GW_E_DENIED, "%s is accessible to others (mode %04o); run: chmod 600 %s", path,
                       (unsigned)(stat.st_mode & 07777), path);
    else
        good = read_all(fd, path, text, capacity, &length, err);
    close(fd);
    if (good && strlen(text) != length)
        good = gw_fail(err, GW_E_INVALID, "%s is not a text file: a zero byte at offset %zu", path,
                       strlen(text));
    return good;
}

static bool write_all(int fd, const char *path, const char *text, gw_err *err) {
    size_t length = strlen(text);
    for (size_t done = 0; done < length;) {
        ssize_t put = write(fd, text + done, length - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return gw_fail_errno(err, errno, "cannot write %s", path);
        done += (size_t)put;
    }
    if (fsync(fd) != 0) return gw_fail_errno(err, errno, "cannot make %s durable", path);
    return true;
}

static bool sync_folder_of(const char *path, gw_err *err) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) return gw_fail(err, GW_E_USAGE, "the path %.100s... is too long", path);
    memcpy(folder, slash == NULL ? "." : path, length);
    folder[length] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot open the folder %s", folder);
    int failed = fsync(fd);
    int why = errno;
    close(fd);
    return failed == 0 || gw_fail_errno(err, why, "cannot make the folder %s durable", folder);
}

static bool write_new(const char *path, int flags, const char *text, gw_err *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    if (fd < 0 && errno == EEXIST)
        return gw_fail(err, GW_E_DENIED, "%s exists already; it is not overwritten", path);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot create %s", path);
    bool good = write_all(fd, path, text, err);
    if (close(fd) != 0 && good) good = gw_fail_errno(err, errno, "cannot write %s", path);
    if (!good) unlink(path);
    return good;
}

bool gw_private_file_create(const char *path, const char *text, gw_err *err) {
    return write_new(path, O_EXCL, text, err) && sync_folder_of(path, err);
}

bool gw_private_file_replace(const char *path, const char *text, gw_err *err) {
    char fresh[PATH_MAX];
    int length = snprintf(fresh, sizeof fresh, "%s.new", path);
    if (length < 0 || (size_t)length >= sizeof fresh)
        return gw_fail(err, GW_E_USAGE, "the path %.100s... is too long", path);
    if (!write_new(fresh, O_TRUNC, text, err)) return false;
    if (rename(fresh, path) != 0) {
        gw_fail_errno(err, errno, "cannot rename %s to %s", fresh, path);
        unlink(fresh);
        return false;
    }
    return sync_folder_of(path, err);
}
