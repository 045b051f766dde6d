#include "core/os/directory.h"

#include "core/base/assert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char marker_text[] =
    "This folder belongs to Godwit (godwit run --dir): it holds the key, the votes and the checkpoints of "
    "one peer.\n"
    "Godwit changes and deletes files in it. Keep nothing else here, and share it with no other peer.\n";

/* The calls beneath an open directory. */

static gw_directory *directory_of(gw_io *io) {
    return (gw_directory *)io;
}

/* The part of a path behind the directory's path; "." for the directory itself. */
static const char *inside(const gw_directory *directory, const char *path) {
    size_t length = strlen(directory->path);
    GW_ASSERT(strncmp(path, directory->path, length) == 0 && (path[length] == '/' || path[length] == '\0'));
    path += length;
    while (*path == '/') path++;
    return *path == '\0' ? "." : path;
}

/* Opens the folder that holds the last component of `path`, and sets *name to that component. Returns -1 with
 * errno; the caller closes the descriptor with leave(). */
static int enter(const gw_directory *directory, const char *path, const char **name) {
    const char *rest = inside(directory, path), *slash;
    int fd = directory->fd;
    if (strcmp(rest, "..") == 0 || strncmp(rest, "../", 3) == 0 || strstr(rest, "/..") != NULL) {
        errno = EXDEV;
        return -1;
    }
    while ((slash = strchr(rest, '/')) != NULL) {
        char folder[NAME_MAX + 1];
        size_t length = (size_t)(slash - rest);
        GW_ASSERT(length > 0 && length <= NAME_MAX);
        memcpy(folder, rest, length);
        folder[length] = '\0';
        int next = openat(fd, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int why = errno;
        if (fd != directory->fd) close(fd);
        if (next < 0) {
            errno = why;
            return -1;
        }
        fd = next;
        rest = slash + 1;
    }
    *name = rest;
    return fd;
}

/* Closes what enter() opened, and returns `answer` with its errno. */
static int leave(const gw_directory *directory, int fd, int answer) {
    int why = errno;
    if (fd != directory->fd) close(fd);
    errno = why;
    return answer;
}

static int beneath_open(gw_io *io, const char *path, int flags, mode_t mode) {
    const gw_directory *directory = directory_of(io);
    const char *name;
    int folder = enter(directory, path, &name);
    if (folder < 0) return -1;
    return leave(directory, folder, openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, mode));
}

static int beneath_rename(gw_io *io, const char *from, const char *to) {
    const gw_directory *directory = directory_of(io);
    const char *old_name, *new_name;
    int old_folder = enter(directory, from, &old_name);
    if (old_folder < 0) return -1;
    int new_folder = enter(directory, to, &new_name);
    if (new_folder < 0) return leave(directory, old_folder, -1);
    int answer = renameat(old_folder, old_name, new_folder, new_name);
    return leave(directory, old_folder, leave(directory, new_folder, answer));
}

static int beneath_unlink(gw_io *io, const char *path) {
    const gw_directory *directory = directory_of(io);
    const char *name;
    int folder = enter(directory, path, &name);
    return folder < 0 ? -1 : leave(directory, folder, unlinkat(folder, name, 0));
}

static int beneath_mkdir(gw_io *io, const char *path, mode_t mode) {
    const gw_directory *directory = directory_of(io);
    const char *name;
    int folder = enter(directory, path, &name);
    return folder < 0 ? -1 : leave(directory, folder, mkdirat(folder, name, mode));
}

/* The owner of a directory. */

typedef enum owner { NOBODY, GODWIT, OTHERS } owner;

static bool is_file(int fd, const char *name) {
    struct stat status;
    return fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

/* Builds from before the marker made these files at the first start, in this order. */
static bool is_of_older_build(int fd) {
    enum { KEY_BYTES = 65 };
    struct stat status;
    return is_file(fd, "lock") && is_file(fd, "boot") &&
           fstatat(fd, "identity", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
           status.st_size == KEY_BYTES;
}

/* Whether the folder has nothing in it but what a file system puts at its own root. Returns -1 with errno
 * where it cannot be read. */
static int is_empty(int fd) {
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = again >= 0 ? fdopendir(again) : NULL;
    if (stream == NULL) {
        int why = errno;
        if (again >= 0) close(again);
        errno = why;
        return -1;
    }
    int empty = 1;
    while (empty > 0) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (entry == NULL && errno != 0) empty = -1;
        if (entry == NULL) break;
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "lost+found") != 0) empty = 0;
    }
    int why = errno;
    closedir(stream);
    errno = why;
    return empty;
}

static bool find_owner(int fd, const char *path, owner *found, gw_err *err) {
    struct stat status;
    if (fstatat(fd, GW_DIRECTORY_MARKER, &status, AT_SYMLINK_NOFOLLOW) == 0 || is_of_older_build(fd)) {
        *found = GODWIT;
        return true;
    }
    int empty = is_empty(fd);
    if (empty < 0) return gw_fail_errno(err, errno, "cannot read the folder %s", path);
    *found = empty ? NOBODY : OTHERS;
    return true;
}

/* Sets *fd to -1 where there is no such folder. */
static bool look(const char *path, int *fd, owner *found, gw_err *err) {
    *found = NOBODY;
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT) return true;
    if (*fd < 0 && errno == ENOTDIR)
        return gw_fail(err, GW_E_NOTFOUND, "%s is no folder, or lies below what is none: name another folder",
                       path);
    if (*fd < 0)
        return gw_fail_errno(err, errno, "cannot open the folder %s%s", path,
                             errno == EACCES ? " (does it belong to another user? Run as that user, or name "
                                               "another --dir)"
                                             : "");
    if (find_owner(*fd, path, found, err)) return true;
    close(*fd);
    *fd = -1;
    return false;
}

/* A link where Godwit keeps a file or a folder of its own is refused at once, by its name. */
static bool check_links(const gw_directory *directory, gw_err *err) {
    static const char *const names[] = {
        GW_DIRECTORY_MARKER, "lock",          "identity",        "boot",   "tmp",   "chunks", "manifests",
        "known-peers",       "journal.jsonl", "journal.1.jsonl", "energy", "series"};
    struct stat status;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (fstatat(directory->fd, names[i], &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
            return gw_fail(err, GW_E_DENIED,
                           "%s/%s is a symbolic link: Godwit follows none inside its directory. Put the "
                           "directory itself where the files shall be, or name another --dir",
                           directory->path, names[i]);
    return true;
}

static bool mark(gw_directory *directory, gw_err *err) {
    char path[GW_PATH_BYTES];
    if (is_file(directory->fd, GW_DIRECTORY_MARKER)) return true;
    return gw_durable_path(path, err, "%s/" GW_DIRECTORY_MARKER, directory->path) &&
           (gw_durable_create(&directory->io, path, marker_text, sizeof marker_text - 1, err) ||
            err->code == GW_E_DENIED); /* another peer was faster: its lock decides */
}

/* Opens directory->path, which is nobody's or Godwit's; `fd` is of it, or -1 where it has to be made. */
static bool take(gw_directory *directory, int fd, gw_err *err) {
    gw_io *system = gw_io_system();
    if (fd < 0) {
        if (!gw_durable_root(system, directory->path, err)) return false;
        fd = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) return gw_fail_errno(err, errno, "cannot open the folder %s", directory->path);
        directory->made = true;
    }
    directory->fd = fd;
    directory->io = *system; /* reads, writes and flushes need no path */
    directory->io.open = beneath_open;
    directory->io.rename = beneath_rename;
    directory->io.unlink = beneath_unlink;
    directory->io.mkdir = beneath_mkdir;
    if (check_links(directory, err) && mark(directory, err)) return true;
    gw_directory_close(directory);
    return false;
}

static bool has_marker(int folder, const char *name) {
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool has = fd >= 0 && is_file(fd, GW_DIRECTORY_MARKER);
    if (fd >= 0) close(fd);
    return has;
}

/* Refuses a folder inside a directory of Godwit: whoever names one has gone a level too deep. */
static bool check_above(const char *given, gw_err *err) {
    char above[GW_PATH_BYTES];
    size_t length = strlen(given);
    while (length > 1 && given[length - 1] == '/') length--;
    while (length > 0 && given[length - 1] != '/') length--;
    if (!gw_durable_path(above, err, "%.*s", length > 0 ? (int)length : 1, length > 0 ? given : "."))
        return false;
    return !has_marker(AT_FDCWD, above) ||
           gw_fail(err, GW_E_DENIED,
                   "%s is inside of %s, a directory of Godwit: give that, or name another --dir", given,
                   above);
}

/* Refuses a folder with other things in it, one of which is a directory of Godwit: whoever names it has
 * not gone deep enough, and a peer beside that one would begin the job anew. */
static bool check_below(const char *given, int folder, gw_err *err) {
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    if (list == NULL) {
        gw_fail_errno(err, errno, "cannot read the folder %s", given);
        if (again >= 0) close(again);
        return false;
    }
    uint32_t count = 0;
    char first[NAME_MAX + 1] = "";
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !has_marker(folder, name)) continue;
        if (count++ == 0 || strcmp(name, first) < 0) snprintf(first, sizeof first, "%s", name);
    }
    closedir(list);
    if (count > 1)
        return gw_fail(
            err, GW_E_DENIED,
            "%s holds %u directories of Godwit, such as %s/%s: give the one that is meant, or a new "
            "one beside them, by --dir",
            given, count, given, first);
    return count == 0 || gw_fail(err, GW_E_DENIED,
                                 "%s holds %s/%s, a directory of Godwit: give that, or a new one beside it, "
                                 "by --dir",
                                 given, given, first);
}

bool gw_directory_open(const char *given, gw_directory *directory, gw_err *err) {
    owner found;
    int fd;
    *directory = (gw_directory){.fd = -1};
    if (!gw_durable_path(directory->path, err, "%s", given) || !look(given, &fd, &found, err)) return false;
    if (found != GODWIT && !check_above(given, err)) {
        if (fd >= 0) close(fd);
        return false;
    }
    if (found != OTHERS) return take(directory, fd, err);
    bool inner = has_marker(fd, GW_DIRECTORY_INNER), good = inner || check_below(given, fd, err);
    close(fd);
    if (!good) return false;
    if (!gw_durable_path(directory->path, err, "%s/" GW_DIRECTORY_INNER, given) ||
        !look(directory->path, &fd, &found, err))
        return false;
    if (found != OTHERS) return take(directory, fd, err);
    close(fd);
    return gw_fail(err, GW_E_DENIED,
                   "%s holds other files, and so does %s: name a missing or an empty folder by --dir", given,
                   directory->path);
}

void gw_directory_close(gw_directory *directory) {
    if (directory->fd >= 0) close(directory->fd);
    directory->fd = -1;
}

/* The files of a peer that has only just begun to start. */
static const char *const first_files[] = {GW_DIRECTORY_MARKER, "lock",  "identity", "boot",
                                          "journal.jsonl",     "energy"};
enum { FIRST_FILES = sizeof first_files / sizeof first_files[0] };
/* Its first folders, which are empty then. */
static const char *const first_folders[] = {"tmp", "chunks", "manifests"};
enum { FIRST_FOLDERS = sizeof first_folders / sizeof first_folders[0] };

static bool is_empty_folder(int fd, const char *name) {
    int folder = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool empty = folder >= 0 && is_empty(folder) == 1;
    if (folder >= 0) close(folder);
    return empty;
}

/* Whether the folder has other things in it than the first files and folders, or cannot be read. */
static bool has_more(int fd) {
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = again >= 0 ? fdopendir(again) : NULL;
    bool more = stream == NULL;
    if (more && again >= 0) close(again);
    for (const struct dirent *entry; !more && (entry = readdir(stream)) != NULL;) {
        more = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
        for (int i = 0; more && i < FIRST_FILES; i++) more = strcmp(entry->d_name, first_files[i]) != 0;
        for (int i = 0; more && i < FIRST_FOLDERS; i++)
            more = strcmp(entry->d_name, first_folders[i]) != 0 || !is_empty_folder(fd, first_folders[i]);
    }
    if (stream != NULL) closedir(stream);
    return more;
}

void gw_directory_discard(gw_directory *directory) {
    if (directory->fd < 0 || !directory->made || has_more(directory->fd)) return;
    for (int i = 0; i < FIRST_FOLDERS; i++) unlinkat(directory->fd, first_folders[i], AT_REMOVEDIR);
    for (int i = 0; i < FIRST_FILES; i++) unlinkat(directory->fd, first_files[i], 0);
    rmdir(directory->path); /* if it fails, an empty folder stays, which the next peer takes */
}

bool gw_directory_find(const char *given, char path[GW_PATH_BYTES], gw_err *err) {
    owner found;
    gw_err ignored;
    int fd;
    bool own = look(given, &fd, &found, &ignored) && found != OTHERS;
    if (fd >= 0) close(fd);
    if (!own && gw_durable_path(path, err, "%s/" GW_DIRECTORY_INNER, given)) {
        own = look(path, &fd, &found, &ignored) && found == GODWIT;
        if (fd >= 0) close(fd);
        if (own) return true;
    }
    return gw_durable_path(path, err, "%s", given);
}

gw_directory_place gw_directory_look(const gw_directory *directory, char now[GW_PATH_BYTES]) {
    struct stat opened, named;
    char link[40];
    if (fstat(directory->fd, &opened) != 0) return GW_DIRECTORY_THERE;
    if (opened.st_nlink == 0) return GW_DIRECTORY_REMOVED;
    bool found = stat(directory->path, &named) == 0;
    if (found ? named.st_ino == opened.st_ino && named.st_dev == opened.st_dev : errno != ENOENT)
        return GW_DIRECTORY_THERE;
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory->fd);
    ssize_t length = readlink(link, now, GW_PATH_BYTES - 1);
    if (length <= 0) return GW_DIRECTORY_THERE;
    now[length] = '\0';
    return GW_DIRECTORY_MOVED;
}
