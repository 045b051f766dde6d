#include "tools/godwit/flock/unpack.h"

#include "core/base/assert.h"
#include "tools/godwit/flock/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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
    int fd = gw_beneath_make(u->root, file->path, file->executable, err);
    if (fd < 0) return false;
    bool good = write_file(u, file, fd, err);
    if (close(fd) != 0 && good) good = gw_fail_errno(err, errno, "%s cannot be written", file->path);
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
