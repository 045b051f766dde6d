#include "tools/godwit/map/results.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes a folder below another one and opens it; the one above is closed. -1 on failure. */
static int enter(int above, const char *name) {
    int fd = -1;
    if (mkdirat(above, name, 0777) == 0 || errno == EEXIST)
        fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int why = errno;
    close(above);
    errno = why;
    return fd;
}

/* Writes the name of the folder of an input. A name that is too long is cut, as GNU parallel does. */
static void write_name(const char *input, char name[NAME_MAX + 1]) {
    size_t length = 0;
    for (const char *at = input; *at != '\0' && length + 2 < NAME_MAX; at++) {
        const char *escaped = *at == '\\' ? "\\\\" : *at == '/' ? "\\_" : *at == '\t' ? "\\t" : NULL;
        if (escaped != NULL) {
            name[length++] = escaped[0];
            name[length++] = escaped[1];
        } else {
            name[length++] = *at;
        }
    }
    name[length] = '\0';
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        name[0] == '\0') { /* these are no names of folders */
        memmove(name + 1, name, length + 1);
        name[0] = '\\';
    }
}

static bool write_all(int fd, const uint8_t *bytes, size_t length) {
    while (length > 0) {
        ssize_t wrote = write(fd, bytes, length);
        if (wrote < 0 && errno != EINTR) return false;
        if (wrote > 0) {
            bytes += wrote;
            length -= (size_t)wrote;
        }
    }
    return true;
}

static bool write_output(int folder, const char *name, gw_map_store *store, const gw_map_output *output,
                         gw_err *err) {
    uint8_t *piece = output->piece_count > 0 ? malloc(GW_MAP_PIECE_BYTES) : NULL;
    if (output->piece_count > 0 && piece == NULL) return gw_fail(err, GW_E_NOMEM, "no memory for --results");
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = fd >= 0 || gw_fail_errno(err, errno, "cannot create %s", name);
    for (uint32_t i = 0; good && i < output->piece_count; i++)
        good = gw_map_output_read(store, output, i, piece, err) &&
               (write_all(fd, piece, output->pieces[i].length) ||
                gw_fail_errno(err, errno, "cannot write %s", name));
    if (good && !write_all(fd, output->bytes, output->length))
        good = gw_fail_errno(err, errno, "cannot write %s", name);
    if (fd >= 0 && close(fd) != 0 && good) good = gw_fail_errno(err, errno, "cannot write %s", name);
    free(piece);
    return good;
}

bool gw_map_results_write(const char *folder, const gw_map_values *values, uint64_t task, gw_map_store *store,
                          const gw_map_output *output, const gw_map_output *errors, gw_err *err) {
    char name[NAME_MAX + 2], number[24];
    int fd = AT_FDCWD;
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == AT_FDCWD) fd = -1;
    for (uint32_t i = 0; fd >= 0 && i < values->count; i++) {
        snprintf(number, sizeof number, "%u", i + 1);
        write_name(values->text[i], name);
        fd = enter(fd, number);
        if (fd >= 0) fd = enter(fd, name);
    }
    if (fd < 0)
        return gw_fail_errno(err, errno, "--results: cannot make the folder of task %llu in '%s'",
                             (unsigned long long)task, folder);
    int length = snprintf(number, sizeof number, "%llu", (unsigned long long)task);
    gw_map_output seq = {.bytes = (uint8_t *)number, .length = (uint32_t)length};
    bool good = write_output(fd, "stdout", store, output, err) &&
                write_output(fd, "stderr", store, errors, err) && write_output(fd, "seq", store, &seq, err);
    close(fd);
    return good || gw_fail_in(err, "--results: task %llu", (unsigned long long)task);
}
