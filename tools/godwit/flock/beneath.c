#include "tools/godwit/flock/beneath.h"

#include "core/flock/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 64 }; /* of folders: each takes a descriptor */

/* Cuts the first component off a path. */
static void cut(const char **rest, char part[GW_JOB_PATH_BYTES + 1]) {
    size_t length = strcspn(*rest, "/");
    snprintf(part, GW_JOB_PATH_BYTES + 1, "%.*s", (int)length, *rest);
    *rest += length + ((*rest)[length] == '/');
}

int gw_beneath_open(int root, const char *path, struct stat *status, gw_err *err) {
    char part[GW_JOB_PATH_BYTES + 1];
    const char *rest = path[0] != '\0' ? path : ".";
    int fd = dup(root), why = errno;
    bool good = fd >= 0;
    while (good && *rest != '\0') {
        cut(&rest, part);
        good = fstatat(fd, part, status, AT_SYMLINK_NOFOLLOW) == 0;
        why = errno;
        if (good && !S_ISREG(status->st_mode) && !S_ISDIR(status->st_mode)) {
            close(fd);
            gw_fail(err, GW_E_USAGE, "%s is %s: only files and folders travel", path,
                    S_ISLNK(status->st_mode) ? "a link, or leads through one"
                                             : "neither a file nor a folder");
            return -1;
        }
        int next = good ? openat(fd, part, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
        if (good) why = errno;
        good = next >= 0;
        close(fd);
        fd = next;
    }
    if (good && fstat(fd, status) == 0) return fd;
    if (fd >= 0) close(fd);
    gw_fail_named(err, why, "%s cannot be read", path[0] != '\0' ? path : ".");
    return -1;
}

/* Opens, or makes, the folder that holds a file. Returns -1 on failure. */
static int enter(int root, const char *path, const char **name, gw_err *err) {
    char part[GW_JOB_PATH_BYTES + 1];
    int fd = dup(root);
    *name = path;
    while (fd >= 0 && strchr(*name, '/') != NULL) {
        cut(name, part);
        bool there = mkdirat(fd, part, 0700) == 0 || errno == EEXIST;
        int next = there ? openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        int why = errno;
        close(fd);
        errno = why;
        fd = next;
    }
    if (fd >= 0) return fd;
    if (errno == ENOTDIR || errno == ELOOP)
        gw_fail(err, GW_E_INVALID, "a folder of %s is there already, and is no folder", path);
    else
        gw_fail_errno(err, errno, "the folder of %s cannot be made", path);
    return -1;
}

int gw_beneath_make(int root, const char *path, bool executable, gw_err *err) {
    const char *name;
    struct stat status;
    int folder = enter(root, path, &name, err), fd = -1;
    if (folder < 0) return -1;
    bool good = true, there = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISREG(status.st_mode))
        good = gw_fail(err, GW_E_INVALID, "%s is there already, and is no file", path);
    else if (there && unlinkat(folder, name, 0) != 0)
        good = gw_fail_errno(err, errno, "%s cannot be replaced", path);
    if (good) {
        fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    executable ? 0700 : 0600);
        if (fd < 0) gw_fail_errno(err, errno, "%s cannot be made", path);
    }
    close(folder);
    return fd;
}

/* Walking. */

typedef struct walk {
    gw_beneath_file *each; /* NULL: everything is removed */
    void *context;
    gw_err *err;
} walk;

static bool walk_folder(const walk *w, int fd, const char *path, int depth);

/* Goes on with a folder in the folder `above`. */
static bool walk_inner(const walk *w, int above, const char *name, const char *path, int depth) {
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT || gw_fail_errno(w->err, errno, "the folder %s", path);
    if (depth == DEPTH) {
        close(fd);
        return gw_fail(w->err, GW_E_LIMIT, "%s: more than %d folders in each other", path, DEPTH);
    }
    return walk_folder(w, fd, path, depth + 1);
}

static bool walk_entry(const walk *w, int fd, const char *name, const char *path, int depth) {
    struct stat status;
    if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || gw_fail_errno(w->err, errno, "%s", path);
    if (S_ISDIR(status.st_mode) && !walk_inner(w, fd, name, path, depth)) return false;
    if (w->each != NULL) return !S_ISREG(status.st_mode) || w->each(w->context, path, &status);
    return unlinkat(fd, name, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT ||
           gw_fail_errno(w->err, errno, "%s cannot be removed", path);
}

/* Takes the descriptor. */
static bool walk_folder(const walk *w, int fd, const char *path, int depth) {
    char inner[2 * GW_JOB_PATH_BYTES];
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        int why = errno;
        close(fd);
        return gw_fail_errno(w->err, why, "the folder %s", path);
    }
    bool good = true;
    for (const struct dirent *entry; good && (errno = 0, entry = readdir(folder)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        int length = snprintf(inner, sizeof inner, "%s%s%s", path, path[0] != '\0' ? "/" : "", entry->d_name);
        if (length > GW_JOB_PATH_BYTES && w->each != NULL) continue; /* no path that could be asked for */
        good = walk_entry(w, fd, entry->d_name, inner, depth);
    }
    if (good && errno != 0) good = gw_fail_errno(w->err, errno, "the folder %s", path);
    closedir(folder);
    return good;
}

bool gw_beneath_list(int root, gw_beneath_file *each, void *context, gw_err *err) {
    walk w = {each, context, err};
    return walk_inner(&w, root, ".", "", 0);
}

bool gw_beneath_remove(int above, const char *name, gw_err *err) {
    walk w = {NULL, NULL, err};
    return walk_entry(&w, above, name, name, 0);
}
