#include "core/os/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool look(gw_plain_file *file, gw_err *err) {
    struct stat about;
    if (fstat(file->fd, &about) != 0) return gw_fail_errno(err, errno, "fstat of %s", file->path);
    if (!S_ISREG(about.st_mode)) return gw_fail(err, GW_E_INVALID, "%s is not a plain file", file->path);
    if (about.st_size == 0) return gw_fail(err, GW_E_INVALID, "%s is empty", file->path);
    file->bytes = (uint64_t)about.st_size;
    file->written = about.st_mtim;
    return true;
}

bool gw_plain_open(const char *path, gw_plain_file *file, gw_err *err) {
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK; /* O_NONBLOCK: opening a FIFO does not hang */
    *file = (gw_plain_file){.path = path, .fd = open(path, flags)};
    if (file->fd < 0 && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no file %s", path);
    if (file->fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    if (look(file, err)) return true;
    gw_plain_close(file);
    return false;
}

void gw_plain_close(gw_plain_file *file) {
    if (file->fd >= 0) close(file->fd);
    file->fd = -1;
}

bool gw_plain_map(const gw_plain_file *file, const uint8_t **map, gw_err *err) {
    void *mapped = mmap(NULL, (size_t)file->bytes, PROT_READ, MAP_SHARED, file->fd, 0);
    if (mapped == MAP_FAILED) return gw_fail_errno(err, errno, "cannot map %s", file->path);
    *map = mapped;
    return true;
}

bool gw_plain_read(const gw_plain_file *file, uint64_t at, void *bytes, size_t count, gw_err *err) {
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(file->fd, (uint8_t *)bytes + done, count - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gw_fail_errno(err, errno, "cannot read %s", file->path);
        if (got == 0)
            return gw_fail(err, GW_E_CORRUPT, "%s has shrunk: it had %llu bytes, and ends at %llu",
                           file->path, (unsigned long long)file->bytes, (unsigned long long)(at + done));
        done += (size_t)got;
    }
    return true;
}

bool gw_plain_unchanged(const gw_plain_file *file, gw_err *err) {
    struct stat about;
    if (fstat(file->fd, &about) != 0) return gw_fail_errno(err, errno, "fstat of %s", file->path);
    if ((uint64_t)about.st_size == file->bytes && about.st_mtim.tv_sec == file->written.tv_sec &&
        about.st_mtim.tv_nsec == file->written.tv_nsec)
        return true;
    return gw_fail(err, GW_E_CORRUPT, "%s was written to after this process had opened it", file->path);
}
