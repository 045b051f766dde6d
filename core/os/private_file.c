#include "core/os/private_file.h"

#include "core/base/assert.h"
#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the path and a suffix of at most 4 bytes behind it fit a path of the system's. The path comes from
 * the user. */
static bool fits(const char *path, gw_err *err) {
    return strlen(path) + strlen(".new") < GW_PATH_BYTES ||
           gw_fail(err, GW_E_USAGE, "the path %.100s... is too long", path);
}

static bool is_private(int fd, const char *path, gw_err *err) {
    struct stat stat;
    if (fstat(fd, &stat) != 0) return gw_fail_errno(err, errno, "cannot look at %s", path);
    if (!S_ISREG(stat.st_mode)) return gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
    if ((stat.st_mode & 077) != 0)
        return gw_fail(err, GW_E_DENIED, "%s is accessible to others (mode %04o); run: chmod 600 %s", path,
                       (unsigned)(stat.st_mode & 07777), path);
    return true;
}

bool gw_private_file_read(const char *path, char *text, size_t capacity, gw_err *err) {
    GW_ASSERT(capacity > 1);
    if (!fits(path, err)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: opening a FIFO does not hang */
    if (fd < 0) {
        gw_fail_errno(err, errno, "cannot open %s", path);
        if (errno == ENOENT) err->code = GW_E_NOTFOUND;
        return false;
    }
    size_t length = 0;
    bool good = is_private(fd, path, err) &&
                gw_durable_read_fd(gw_io_system(), fd, path, text, capacity, &length, err);
    close(fd);
    if (!good) return false;
    if (length == capacity)
        return gw_fail(err, GW_E_INVALID, "%s is longer than %zu bytes", path, capacity - 1);
    text[length] = '\0';
    if (strlen(text) != length)
        return gw_fail(err, GW_E_INVALID, "%s is not a text file: a zero byte at offset %zu", path,
                       strlen(text));
    return true;
}

bool gw_private_file_create(const char *path, const char *text, gw_err *err) {
    return fits(path, err) && gw_durable_create(gw_io_system(), path, text, strlen(text), err);
}

bool gw_private_file_replace(const char *path, const char *text, gw_err *err) {
    char fresh[GW_PATH_BYTES], folder[GW_PATH_BYTES];
    return fits(path, err) && gw_durable_path(fresh, err, "%s.new", path) &&
           gw_durable_folder_of(path, folder, err) &&
           gw_durable_replace(gw_io_system(), fresh, folder, path, text, strlen(text), err);
}
