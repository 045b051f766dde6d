#include "tools/godwit/journal/read.h"

#include "core/os/durable.h"
#include "tools/godwit/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a file of the directory without following a link. Returns false with GW_E_NOTFOUND where there is
 * none. */
static bool open_file(const char *dir, const char *name, int *fd, uint64_t *bytes, gw_err *err) {
    char path[GW_PATH_BYTES];
    struct stat status;
    if (!gw_durable_path(path, err, "%s/%s", dir, name)) return false;
    *fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return gw_fail(err, GW_E_NOTFOUND, "there is no %s", path);
    if (*fd < 0 && errno == ELOOP)
        return gw_fail(err, GW_E_INVALID, "%s is a symbolic link: Godwit follows none inside its directory",
                       path);
    if (*fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    if (fstat(*fd, &status) == 0 && S_ISREG(status.st_mode)) {
        *bytes = (uint64_t)status.st_size;
        return true;
    }
    close(*fd);
    return gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
}

/* Reads the last `most` bytes into memory that the caller frees. `*begins` is whether they begin with the
 * file, and therefore with a whole line. */
static bool read_end(const char *dir, const char *name, size_t most, char **bytes, size_t *length,
                     bool *begins, gw_err *err) {
    int fd;
    uint64_t size;
    *bytes = NULL;
    *length = 0;
    if (!open_file(dir, name, &fd, &size, err)) return false;
    size_t count = size < most ? (size_t)size : most;
    *begins = count == size;
    *bytes = malloc(count + 1);
    bool good = *bytes != NULL || gw_fail(err, GW_E_NOMEM, "%s: out of memory", name);
    if (good && lseek(fd, (off_t)(size - count), SEEK_SET) < 0) good = gw_fail_errno(err, errno, "%s", name);
    good = good && gw_durable_read_fd(gw_io_system(), fd, name, *bytes, count, length, err);
    close(fd);
    if (good) return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

const char *gw_journal_text(const json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}

double gw_journal_number(const json_t *event, const char *key, double other) {
    const json_t *value = json_object_get(event, key);
    return json_is_number(value) ? json_number_value(value) : other;
}

bool gw_journal_is(const json_t *event, const char *kind) {
    const char *is = gw_journal_text(event, "event");
    return is != NULL && strcmp(is, kind) == 0;
}

/* Calls `each` for the events in whole lines; *more becomes false where it wishes no further ones. */
static void read_lines(const char *bytes, size_t length, bool begins, gw_journal_event *each, void *context,
                       gw_journal_found *found, bool *more) {
    const char *at = bytes, *end = bytes + length;
    if (!begins) {
        const char *line_end = memchr(at, '\n', length);
        at = line_end != NULL ? line_end + 1 : end;
    }
    while (*more && at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL) line_end = end; /* it is being written, or was torn by a crash */
        size_t count = (size_t)(line_end - at);
        json_t *event = count > 0 && count < GW_JOURNAL_LINE_BYTES
                            ? json_loadb(at, count, JSON_REJECT_DUPLICATES, NULL)
                            : NULL;
        if (event != NULL && gw_journal_text(event, "event") != NULL &&
            json_is_number(json_object_get(event, "time"))) {
            found->lines++;
            *more = each(context, at, count, event);
        } else if (count > 0)
            found->damaged++;
        json_decref(event);
        at = line_end < end ? line_end + 1 : end;
    }
}

static bool read_file(const char *dir, const char *name, size_t most, gw_journal_event *each, void *context,
                      gw_journal_found *found, bool *more, gw_err *err) {
    char *bytes;
    size_t length;
    bool begins;
    if (!read_end(dir, name, most, &bytes, &length, &begins, err)) return false;
    found->bytes += length;
    read_lines(bytes, length, begins, each, context, found, more);
    free(bytes);
    return true;
}

bool gw_journal_read(const char *dir, gw_journal_event *each, void *context, gw_journal_found *found,
                     gw_err *err) {
    gw_journal_found all = {0};
    bool more = true;
    const size_t most = GW_JOURNAL_FILE_BYTES + GW_JOURNAL_LINE_BYTES;
    bool good = read_file(dir, GW_JOURNAL_EARLIER, most, each, context, &all, &more, err) ||
                err->code == GW_E_NOTFOUND; /* the journal has not been that long */
    good = good && (!more || read_file(dir, GW_JOURNAL_NAME, most, each, context, &all, &more, err) ||
                    (err->code == GW_E_NOTFOUND && all.lines > 0)); /* the file is turned over just now */
    if (found != NULL) *found = all;
    return good;
}

bool gw_journal_read_last(const char *dir, size_t bytes, gw_journal_event *each, void *context, gw_err *err) {
    gw_journal_found found = {0};
    bool more = true;
    return read_file(dir, GW_JOURNAL_NAME, bytes, each, context, &found, &more, err);
}
