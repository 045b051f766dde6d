#include "core/os/private_file.h"

#include "core/base/assert.h"
#include "core/base/log.h"
#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the path and a suffix of at most 4 bytes behind it fit a path of the system's. The path comes from
 * the user. */
static bool fits(const char *path, gw_err *err) {
    return strlen(path) + strlen(".new") < GW_PATH_BYTES ||
           gw_fail(err, GW_E_USAGE, "the path %.100s... is too long", path);
}

static bool is_shared(const struct stat *stat) {
    return (stat->st_mode & 077) != 0;
}

/* Whether this process belongs to `group`. */
static bool is_member(gid_t group) {
    if (group == getegid() || group == getgid()) return true;
    int count = getgroups(0, NULL);
    gid_t *groups = count > 0 ? malloc((size_t)count * sizeof *groups) : NULL;
    bool member = false;
    if (groups != NULL) count = getgroups(count, groups);
    for (int i = 0; groups != NULL && i < count; i++) member = member || groups[i] == group;
    free(groups);
    return member;
}

/* Refuses a user's file that others can read, with what would mend it. */
static bool check_given(const struct stat *stat, const char *path, gw_err *err) {
    bool ours = stat->st_uid == geteuid();
    if (!is_shared(stat)) return true;
    if ((stat->st_mode & 07) == 0 && (ours || stat->st_uid == 0) && is_member(stat->st_gid)) return true;
    unsigned mode = (unsigned)(stat->st_mode & 07777);
    if (ours)
        return gw_fail(err, GW_E_DENIED, "%s is accessible to others (mode %04o); run: chmod 600 %s", path,
                       mode, path);
    return gw_fail(
        err, GW_E_DENIED,
        "%s is accessible to others (mode %04o, user %u, group %u): take that access away. A group may "
        "have it if this process belongs to the group (for a secret of Kubernetes: defaultMode 0440)",
        path, mode, (unsigned)stat->st_uid, (unsigned)stat->st_gid);
}

/* Makes an own file private again. Where that cannot be done, a refusal would mend nothing: it is logged,
 * once. */
static bool mend_own(int fd, struct stat *stat, const char *path, gw_err *err) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!is_shared(stat)) return true;
    unsigned before = (unsigned)(stat->st_mode & 07777);
    bool changed = fchmod(fd, 0600) == 0;
    if (fstat(fd, stat) != 0) return gw_fail_errno(err, errno, "cannot look at %s", path);
    if (changed && !is_shared(stat)) {
        gw_log(GW_INFO, "core/os", "%s was accessible to others (mode %04o): its mode is 0600 again", path,
               before);
        return true;
    }
    if (!atomic_flag_test_and_set(&told))
        gw_log(GW_WARN, "core/os",
               "%s is accessible to others (mode %04o), and its mode cannot be changed: its file system "
               "keeps no "
               "modes, or it belongs to another user. Everybody who can read it can pretend to be this peer",
               path, before);
    return true;
}

static bool check_access(int fd, const char *path, gw_private_kind kind, gw_err *err) {
    struct stat stat;
    if (fstat(fd, &stat) != 0) return gw_fail_errno(err, errno, "cannot look at %s", path);
    if (!S_ISREG(stat.st_mode)) return gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
    return kind == GW_PRIVATE_OWN ? mend_own(fd, &stat, path, err) : check_given(&stat, path, err);
}

static bool fail_to_open(const char *path, gw_private_kind kind, int failure, gw_err *err) {
    if (failure == EACCES && kind == GW_PRIVATE_GIVEN)
        return gw_fail(
            err, GW_E_DENIED,
            "cannot open %s: Permission denied. This process is of user %u and group %u: give the file to "
            "that user (mode 0400) or to a group of the process (mode 0440; in Kubernetes fsGroup)",
            path, (unsigned)geteuid(), (unsigned)getegid());
    gw_fail_errno(err, failure, "cannot open %s", path);
    if (failure == ENOENT) err->code = GW_E_NOTFOUND;
    return false;
}

bool gw_private_file_read(gw_io *io, const char *path, gw_private_kind kind, char *text, size_t capacity,
                          gw_err *err) {
    GW_ASSERT(capacity > 1);
    if (!fits(path, err)) return false;
    int fd = io->open(io, path, O_RDONLY | O_NONBLOCK, 0); /* O_NONBLOCK: opening a FIFO does not hang */
    if (fd < 0) return fail_to_open(path, kind, errno, err);
    size_t length = 0;
    bool good =
        check_access(fd, path, kind, err) && gw_durable_read_fd(io, fd, path, text, capacity, &length, err);
    io->close(io, fd);
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

/* Looks at the mode that a new file got: a file system that keeps no modes is logged at the first start. */
static bool check_new(gw_io *io, const char *path, gw_err *err) {
    int fd = io->open(io, path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) return gw_fail_errno(err, errno, "cannot open %s", path);
    bool good = check_access(fd, path, GW_PRIVATE_OWN, err);
    io->close(io, fd);
    return good;
}

bool gw_private_file_replace(gw_io *io, const char *path, const char *text, gw_err *err) {
    char fresh[GW_PATH_BYTES], folder[GW_PATH_BYTES];
    return fits(path, err) && gw_durable_path(fresh, err, "%s.new", path) &&
           gw_durable_folder_of(path, folder, err) &&
           gw_durable_replace(io, fresh, folder, path, text, strlen(text), err) && check_new(io, path, err);
}
