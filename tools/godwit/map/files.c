#include "tools/godwit/map/files.h"

#include "core/base/assert.h"
#include "core/base/wire.h"
#include "core/flock/files.h"
#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 2 + GW_JOB_PATH_BYTES + 9, FOLDER_MODE = 0777 };

/* Opens the folder of a file beneath `root`, through no link, and makes what is missing where `make`. Returns -1, with
 * errno, on failure; *name is the file's own name. */
static int open_folder(int root, const char *path, bool make, const char **name) {
    char part[GW_JOB_PATH_BYTES + 1];
    int fd = dup(root);
    const char *slash;
    for (*name = path; fd >= 0 && (slash = strchr(*name, '/')) != NULL; *name = slash + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - *name), *name);
        if (make && mkdirat(fd, part, FOLDER_MODE) != 0 && errno != EEXIST) {
            close(fd);
            return -1;
        }
        int next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    return fd;
}

/* Taking. */

static bool copy_in(gw_map_store *store, int fd, uint64_t left, gw_map_output *files, const char *path,
                    gw_err *err) {
    uint8_t *bytes = malloc(GW_MAP_PIECE_BYTES);
    GW_ASSERT_MEMORY(bytes != NULL);
    bool good = true;
    while (good && left > 0) {
        ssize_t got = read(fd, bytes, left < GW_MAP_PIECE_BYTES ? (size_t)left : GW_MAP_PIECE_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) memset(bytes, 0, (size_t)(got = GW_MAP_PIECE_BYTES)); /* it has become shorter: zeros */
        if ((uint64_t)got > left) got = (ssize_t)left;
        good = gw_map_output_add(store, files, bytes, (size_t)got, err);
        left -= (uint64_t)got;
    }
    free(bytes);
    return good || gw_fail_in(err, "%s", path);
}

bool gw_map_files_take(gw_map_store *store, int root, const char *path, gw_map_output *files, gw_err *err) {
    struct stat status;
    const char *name;
    uint8_t head[HEAD_BYTES];
    while (path[0] == '.' && path[1] == '/') path += 2;
    if (!gw_job_path_is_valid(path))
        return gw_fail(err, GW_E_USAGE,
                       "%.200s cannot be brought back: it is not below the working directory", path);
    int folder = open_folder(root, path, false, &name);
    int fd = folder >= 0 ? openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1,
        why = errno;
    if (folder >= 0) close(folder);
    if (fd < 0)
        return why == ENOENT ? gw_fail(err, GW_E_NOTFOUND, "there is no file %s to be brought back", path)
                             : gw_fail_errno(err, why, "%s cannot be brought back", path);
    bool good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (!good) gw_fail(err, GW_E_USAGE, "%s is no file, and cannot be brought back", path);
    gw_writer w = gw_writer_on(head, sizeof head);
    gw_put_string(&w, path);
    gw_put_u8(&w, (status.st_mode & S_IXUSR) != 0);
    gw_put_u64(&w, (uint64_t)status.st_size);
    good = good && gw_map_output_add(store, files, head, w.length, err) &&
           copy_in(store, fd, (uint64_t)status.st_size, files, path, err);
    close(fd);
    return good;
}

/* Putting. */

/* Goes through the bytes of an output. */
typedef struct cursor {
    gw_map_store *store;
    const gw_map_output *files;
    uint8_t *piece; /* the one that is read now */
    uint32_t index; /* of the next piece */
    const uint8_t *at;
    size_t left; /* bytes there */
} cursor;

static bool advance(cursor *c, gw_err *err) {
    if (c->index > c->files->piece_count) return false;
    if (c->index == c->files->piece_count) {
        c->at = c->files->bytes;
        c->left = c->files->length;
    } else {
        if (!gw_map_output_read(c->store, c->files, c->index, c->piece, err)) return false;
        c->at = c->piece;
        c->left = c->files->pieces[c->index].length;
    }
    c->index++;
    return true;
}

/* Gives some bytes, up to `most`. 0: there are no more. */
static size_t next_bytes(cursor *c, uint64_t most, const uint8_t **bytes, gw_err *err) {
    while (c->left == 0)
        if (!advance(c, err)) return 0;
    size_t count = c->left < most ? c->left : (size_t)most;
    *bytes = c->at;
    c->at += count;
    c->left -= count;
    return count;
}

static bool get(cursor *c, void *to, size_t count, gw_err *err) {
    for (size_t done = 0; done < count;) {
        const uint8_t *bytes;
        size_t got = next_bytes(c, count - done, &bytes, err);
        if (got == 0) return false;
        memcpy((uint8_t *)to + done, bytes, got);
        done += got;
    }
    return true;
}

static bool put_file(cursor *c, int root, const char *path, bool executable, uint64_t left, gw_err *err) {
    const char *name;
    char temporary[64];
    int folder = open_folder(root, path, true, &name);
    snprintf(temporary, sizeof temporary, ".godwit-%ld", (long)getpid());
    int fd = folder >= 0 ? openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                                  executable ? 0777 : 0666)
                         : -1;
    bool good = fd >= 0 || gw_fail_named(err, errno, "%s cannot be written", path);
    while (good && left > 0) {
        const uint8_t *bytes;
        size_t got = next_bytes(c, left, &bytes, err);
        good = got > 0 && gw_durable_write_fd(gw_io_system(), fd, path, bytes, got, err);
        left -= got;
    }
    if (fd >= 0 && close(fd) != 0 && good) good = gw_fail_errno(err, errno, "%s cannot be written", path);
    if (good && renameat(folder, temporary, folder, name) != 0)
        good = gw_fail_errno(err, errno, "%s cannot be written", path);
    if (!good && fd >= 0) unlinkat(folder, temporary, 0);
    if (folder >= 0) close(folder);
    return good;
}

bool gw_map_files_put(gw_map_store *store, int root, const gw_map_output *files, gw_err *err) {
    cursor c = {.store = store, .files = files, .piece = malloc(GW_MAP_PIECE_BYTES)};
    GW_ASSERT_MEMORY(c.piece != NULL);
    bool good = true;
    while (good && (c.left > 0 || c.index < files->piece_count ||
                    (c.index == files->piece_count && files->length > 0))) {
        char path[GW_JOB_PATH_BYTES + 1];
        uint8_t head[9], length_bytes[2];
        gw_fail(err, GW_E_INVALID, "the files of a task are malformed");
        good = get(&c, length_bytes, sizeof length_bytes, err);
        gw_reader r = gw_reader_on(length_bytes, sizeof length_bytes);
        uint16_t length = gw_get_u16(&r);
        good = good && length <= GW_JOB_PATH_BYTES && get(&c, path, length, err) &&
               get(&c, head, sizeof head, err);
        if (!good) break;
        path[length] = '\0';
        r = gw_reader_on(head, sizeof head);
        uint8_t executable = gw_get_u8(&r);
        uint64_t bytes = gw_get_u64(&r);
        good = strlen(path) == length && executable <= 1 && gw_job_path_is_valid(path) &&
               put_file(&c, root, path, executable, bytes, err);
    }
    free(c.piece);
    return good;
}
