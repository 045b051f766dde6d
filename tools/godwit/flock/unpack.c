#include "tools/godwit/flock/unpack.h"

#include "core/base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct unpacking {
    int root;
    gw_unpack_read *read;
    void *context;
    uint8_t *chunk;
} unpacking;

static bool write_all(int fd, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        ssize_t done = write(fd, bytes, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes += done;
        count -= (size_t)done;
    }
    return true;
}

/* Opens, or makes, the folder that holds a file. Returns -1 on failure; the caller closes the descriptor. */
static int enter(const unpacking *u, const gw_job_file *file, const char **name, gw_err *err) {
    char part[GW_JOB_PATH_BYTES + 1];
    int fd = dup(u->root), next;
    *name = file->path;
    for (const char *slash; fd >= 0 && (slash = strchr(*name, '/')) != NULL; *name = slash + 1) {
        memcpy(part, *name, (size_t)(slash - *name));
        part[slash - *name] = '\0';
        bool there = mkdirat(fd, part, 0700) == 0 || errno == EEXIST;
        next = there ? openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        int why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    if (fd >= 0) return fd;
    if (errno == ENOTDIR || errno == ELOOP)
        gw_fail(err, GW_E_INVALID, "a folder of %s is there already, and is no folder", file->path);
    else
        gw_fail_errno(err, errno, "the folder of %s cannot be made", file->path);
    return -1;
}

static bool write_file(const unpacking *u, const gw_job_file *file, int fd, gw_err *err) {
    for (uint32_t i = 0; i < gw_chunk_count(file->bytes); i++) {
        uint32_t length = gw_chunk_length(file->bytes, i);
        if (!u->read(u->context, &file->chunks[i], u->chunk, length, err))
            return gw_fail_in(err, "%s", file->path);
        if (!write_all(fd, u->chunk, length))
            return gw_fail_errno(err, errno, "%s cannot be written", file->path);
    }
    return true;
}

static bool unpack_file(const unpacking *u, const gw_job_file *file, gw_err *err) {
    const char *name;
    struct stat status;
    int folder = enter(u, file, &name, err);
    if (folder < 0) return false;
    bool good = true;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        good = S_ISREG(status.st_mode)
                   ? unlinkat(folder, name, 0) == 0 ||
                         gw_fail_errno(err, errno, "%s cannot be replaced", file->path)
                   : gw_fail(err, GW_E_INVALID, "%s is there already, and is no file", file->path);
    int fd = good ? openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           file->executable ? 0700 : 0600)
                  : -1;
    if (good && fd < 0) good = gw_fail_errno(err, errno, "%s cannot be made", file->path);
    good = good && write_file(u, file, fd, err);
    if (fd >= 0 && close(fd) != 0 && good)
        good = gw_fail_errno(err, errno, "%s cannot be written", file->path);
    close(folder);
    return good;
}

bool gw_unpack(const char *folder, const gw_job_files *files, gw_unpack_read *read, void *context,
               gw_err *err) {
    unpacking u = {.read = read, .context = context};
    u.root = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (u.root < 0) return gw_fail_errno(err, errno, "the folder %s cannot be opened", folder);
    u.chunk = malloc(GW_CHUNK_BYTES);
    GW_ASSERT_MEMORY(u.chunk != NULL);
    bool good = true;
    for (uint32_t i = 0; i < files->count && good; i++) good = unpack_file(&u, &files->list[i], err);
    free(u.chunk);
    close(u.root);
    return good;
}
