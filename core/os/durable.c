#include "core/os/durable.h"

#include "core/base/assert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool gw_durable_path(char path[GW_PATH_BYTES], gw_err *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, GW_PATH_BYTES, format, args);
    va_end(args);
    GW_ASSERT(length >= 0);
    if (length >= GW_PATH_BYTES)
        return gw_fail(err, GW_E_LIMIT, "a path is over %d bytes: %.60s...", GW_PATH_BYTES - 1, path);
    return true;
}

int gw_durable_stat(gw_io *io, const char *path, struct stat *status) {
    int fd = io->open(io, path, O_PATH, 0);
    if (fd < 0) return -1;
    int answer = fstat(fd, status), why = errno;
    close(fd); /* not by the table, as nothing of the disk changes */
    errno = why;
    return answer;
}

bool gw_durable_folder(gw_io *io, const char *path, bool *created, gw_err *err) {
    if (created != NULL) *created = false;
    if (io->mkdir(io, path, 0700) == 0) {
        if (created != NULL) *created = true;
        return true;
    }
    int mkdir_errno = errno;
    struct stat status;
    if (gw_durable_stat(io, path, &status) == 0) {
        if (S_ISDIR(status.st_mode)) return true;
        mkdir_errno = ENOTDIR;
    } else if (mkdir_errno == EEXIST && errno != ENOENT) {
        return gw_fail_errno(err, errno, "cannot look at the folder %s", path);
    }
    char above[GW_PATH_BYTES];
    bool known = mkdir_errno == ENOENT && gw_durable_folder_of(path, above, err);
    /* A file system whose folders come from the kernel alone, as /proc, gives the same error. */
    const char *next = !known                      ? ""
                       : stat(above, &status) == 0 ? " (the file system there takes no new folders)"
                                                   : " (make the folder above it first, by mkdir -p)";
    gw_fail_errno(err, mkdir_errno, "cannot create the folder %s%s", path, next);
    if (known || mkdir_errno == ENOTDIR) err->code = GW_E_NOTFOUND;
    return false;
}

static int flush(gw_io *io, int fd, bool folder) {
    int result;
    do result = folder ? io->fsync(io, fd) : io->fdatasync(io, fd);
    while (result < 0 && errno == EINTR);
    return result;
}

bool gw_durable_sync_folder(gw_io *io, const char *path, gw_err *err) {
    int fd = io->open(io, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot open the folder %s", path);
    bool done = flush(io, fd, true) == 0;
    if (!done) gw_fail_errno(err, errno, "cannot flush the folder %s", path);
    io->close(io, fd);
    return done;
}

bool gw_durable_folder_of(const char *path, char folder[GW_PATH_BYTES], gw_err *err) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return gw_durable_path(folder, err, ".");
    return gw_durable_path(folder, err, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

bool gw_durable_root(gw_io *io, const char *path, gw_err *err) {
    bool created;
    char parent[GW_PATH_BYTES];
    gw_err ignored;
    if (!gw_durable_folder(io, path, &created, err) || !gw_durable_path(parent, err, "%s/..", path))
        return false;
    return gw_durable_sync_folder(io, parent, created ? err : &ignored) || !created;
}

/* Returns false, with errno set, if not all could be written. */
static bool write_all(gw_io *io, int fd, const void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t count = io->write(io, fd, (const uint8_t *)bytes + done, length - done);
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO;
        if (count <= 0) return false;
        done += (size_t)count;
        GW_ASSERT(done <= length);
    }
    return true;
}

bool gw_durable_write_fd(gw_io *io, int fd, const char *path, const void *bytes, size_t count, gw_err *err) {
    return write_all(io, fd, bytes, count) || gw_fail_errno(err, errno, "cannot write %s", path);
}

/* Whether the bytes may be written past the page cache. */
static bool fits_direct(const void *bytes, size_t length) {
    return length > 0 && length % GW_DURABLE_ALIGN == 0 && (uintptr_t)bytes % GW_DURABLE_ALIGN == 0;
}

/* Returns 0, or the errno of the call that failed; then *err is set and no file is left. */
static int create_and_write(gw_io *io, const char *path, int more_flags, const void *bytes, size_t length,
                            int *fd, gw_err *err) {
    *fd = io->open(io, path, O_WRONLY | O_CREAT | O_TRUNC | more_flags, 0600);
    if (*fd >= 0 && write_all(io, *fd, bytes, length)) return 0;
    int why = errno;
    gw_fail_errno(err, why, "cannot %s %s", *fd < 0 ? "create" : "write", path);
    if (*fd >= 0) {
        io->close(io, *fd);
        io->unlink(io, path);
    }
    return why;
}

bool gw_durable_begin(gw_io *io, const char *path, const void *bytes, size_t length, int *fd, gw_err *err) {
    if (fits_direct(bytes, length)) {
        int why = create_and_write(io, path, O_DIRECT, bytes, length, fd, err);
        if (why != EINVAL) return why == 0; /* EINVAL: not on this file system, or not at this alignment */
    }
    return create_and_write(io, path, 0, bytes, length, fd, err) == 0;
}

bool gw_durable_finish(gw_io *io, const char *path, int fd, gw_err *err) {
    bool done = flush(io, fd, false) == 0;
    if (!done) gw_fail_errno(err, errno, "cannot flush %s", path);
    if (io->close(io, fd) < 0 && errno != EINTR && done)
        done = gw_fail_errno(err, errno, "cannot close %s", path);
    if (!done) io->unlink(io, path);
    return done;
}

bool gw_durable_create(gw_io *io, const char *path, const void *bytes, size_t length, gw_err *err) {
    char folder[GW_PATH_BYTES];
    if (!gw_durable_folder_of(path, folder, err)) return false;
    int fd = io->open(io, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST)
        return gw_fail(err, GW_E_DENIED, "%s exists already; it is not overwritten", path);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot create %s", path);
    if (!gw_durable_write_fd(io, fd, path, bytes, length, err)) {
        io->close(io, fd);
        io->unlink(io, path);
        return false;
    }
    return gw_durable_finish(io, path, fd, err) && gw_durable_sync_folder(io, folder, err);
}

bool gw_durable_replace(gw_io *io, const char *temporary, const char *folder, const char *path,
                        const void *bytes, size_t length, gw_err *err) {
    int fd;
    if (!gw_durable_begin(io, temporary, bytes, length, &fd, err)) return false;
    if (!gw_durable_finish(io, temporary, fd, err)) return false;
    if (io->rename(io, temporary, path) < 0) {
        gw_fail_errno(err, errno, "cannot rename %s to %s", temporary, path);
        io->unlink(io, temporary);
        return false;
    }
    return gw_durable_sync_folder(io, folder, err);
}

bool gw_durable_read_fd(gw_io *io, int fd, const char *path, void *bytes, size_t count, size_t *got,
                        gw_err *err) {
    *got = 0;
    while (*got < count) {
        ssize_t part = io->read(io, fd, (uint8_t *)bytes + *got, count - *got);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return gw_fail_errno(err, errno, "cannot read %s", path);
        if (part == 0) break;
        *got += (size_t)part;
    }
    return true;
}

static bool read_open(gw_io *io, int fd, const char *path, size_t limit, void **bytes, size_t *length,
                      gw_err *err) {
    struct stat status;
    if (fstat(fd, &status) < 0) return gw_fail_errno(err, errno, "cannot look at %s", path);
    if (!S_ISREG(status.st_mode)) return gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
    if ((uint64_t)status.st_size > limit)
        return gw_fail(err, GW_E_LIMIT, "%s has %lld bytes, more than %zu", path, (long long)status.st_size,
                       limit);
    size_t size = (size_t)status.st_size;
    *bytes = malloc(size > 0 ? size : 1);
    if (*bytes == NULL) return gw_fail_errno(err, ENOMEM, "cannot read %s", path);
    if (gw_durable_read_fd(io, fd, path, *bytes, size, length, err)) return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

bool gw_durable_read(gw_io *io, const char *path, size_t limit, void **bytes, size_t *length, gw_err *err) {
    int fd = io->open(io, path, O_RDONLY | O_NONBLOCK, 0); /* O_NONBLOCK: opening a FIFO does not hang */
    if (fd < 0 && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no file %s", path);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    bool done = read_open(io, fd, path, limit, bytes, length, err);
    io->close(io, fd);
    return done;
}

bool gw_durable_list(gw_io *io, const char *folder, gw_durable_name_fn *each, void *context, gw_err *err) {
    int found = io->open(io, folder, O_PATH | O_DIRECTORY, 0);
    if (found < 0 && errno == ENOENT) return true;
    int fd = found >= 0 ? openat(found, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    int why = errno;
    if (found >= 0) close(found);
    if (stream == NULL && fd >= 0) close(fd);
    if (stream == NULL) return gw_fail_errno(err, why, "cannot open the folder %s", folder);
    bool done = true;
    while (done) {
        errno = 0; /* readdir leaves it unchanged at the end of the folder */
        const struct dirent *entry = readdir(stream);
        if (entry == NULL && errno != 0)
            done = gw_fail_errno(err, errno, "cannot read the folder %s", folder);
        if (entry == NULL) break;
        done = entry->d_name[0] == '.' || each(context, folder, entry->d_name, err);
    }
    closedir(stream);
    return done;
}
