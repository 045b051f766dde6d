#include "kernels/map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool map_opened(const char *path, int fd, const uint8_t **map, uint64_t *bytes, gw_err *err) {
    struct stat about;
    if (fstat(fd, &about) != 0) return gw_fail_errno(err, errno, "fstat of %s", path);
    if (!S_ISREG(about.st_mode)) return gw_fail(err, GW_E_INVALID, "%s is not a plain file", path);
    if (about.st_size == 0) return gw_fail(err, GW_E_INVALID, "%s is empty", path);
    void *mapped = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return gw_fail_errno(err, errno, "cannot map %s", path);
    *map = mapped;
    *bytes = (uint64_t)about.st_size;
    return true;
}

bool gw_map_file(const char *path, int *fd, const uint8_t **map, uint64_t *bytes, gw_err *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no file %s", path);
    if (*fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    if (map_opened(path, *fd, map, bytes, err)) return true;
    close(*fd);
    *fd = -1;
    return false;
}
