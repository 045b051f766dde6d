#include "core/os/output.h"

#include "core/os/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS = 40, TRIES = 10, MOST_OPEN = 4096 };

/* The partial names of the outputs that are open, for the signal handler; those beyond MOST_OPEN are not
 * in it. */
static _Atomic(const char *) partials[MOST_OPEN];

/* Replaces a name in the list by another one; NULL stands for a free place. */
static void change_partial(const char *from, const char *to) {
    for (int i = 0; i < MOST_OPEN; i++) {
        const char *expected = from;
        if (atomic_compare_exchange_strong(&partials[i], &expected, to)) return;
    }
}

/* The default action, which SA_RESETHAND has restored, follows when the handler returns. */
static void remove_partials(int signal) {
    for (int i = 0; i < MOST_OPEN; i++) {
        const char *partial = atomic_load(&partials[i]);
        if (partial != NULL) unlink(partial);
    }
    raise(signal);
}

void gw_output_clean_on_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction remove = {.sa_handler = remove_partials, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &remove, NULL);
    }
}

/* The path to which a symbolic link leads, relative to the same folder as `path`; the caller frees it.
 * Returns NULL, with errno, if the link cannot be read. */
static char *read_link(const char *path) {
    char text[PATH_MAX], *next = NULL;
    ssize_t length = readlink(path, text, sizeof text);
    if (length < 0) return NULL;
    const char *slash = text[0] == '/' ? NULL : strrchr(path, '/');
    int folder = slash != NULL ? (int)(slash - path + 1) : 0;
    if (asprintf(&next, "%.*s%.*s", folder, path, (int)length, text) >= 0) return next;
    errno = ENOMEM;
    return NULL;
}

/* The name of a file, which need not exist, behind all symbolic links; the caller frees it. Returns NULL,
 * with errno, on failure. */
static char *follow(const char *path) {
    struct stat stat;
    char *target = strdup(path);
    for (int i = 0; target != NULL && lstat(target, &stat) == 0 && S_ISLNK(stat.st_mode); i++) {
        char *next = i < LINKS ? read_link(target) : NULL;
        if (i == LINKS) errno = ELOOP;
        int reason = errno;
        free(target);
        target = next;
        errno = reason;
    }
    return target;
}

static bool lock(int fd, const char *path, gw_err *err) {
    int result;
    do result = flock(fd, LOCK_EX | LOCK_NB);
    while (result < 0 && errno == EINTR);
    if (result == 0) return true;
    if (errno == EWOULDBLOCK) return gw_fail(err, GW_E_DENIED, "%s: another process writes it", path);
    return gw_fail_errno(err, errno, "cannot lock %s", path);
}

/* The loop is there because another writer may rename or remove the file between open and flock. */
int gw_output_lock(const char *path, int flags, gw_err *err) {
    for (int i = 0; i < TRIES; i++) {
        struct stat opened, named;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);
        if (fd < 0) {
            int why = errno;
            gw_fail_errno(err, why, "cannot write %s", path);
            if (why == ENOENT || why == ENOTDIR) err->code = GW_E_NOTFOUND; /* there is no such folder */
            return -1;
        }
        bool locked = lock(fd, path, err);
        if (locked && fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_ino == named.st_ino &&
            opened.st_dev == named.st_dev) {
            if (S_ISREG(opened.st_mode)) return fd;
            locked = gw_fail(err, GW_E_INVALID, "%s is not a regular file", path);
        }
        close(fd);
        if (!locked) return -1;
    }
    gw_fail(err, GW_E_DENIED, "%s: another process writes it", path);
    return -1;
}

static int open_partial(const char *path, gw_err *err) {
    int fd = gw_output_lock(path, O_NOFOLLOW, err);
    if (fd < 0 || ftruncate(fd, 0) == 0) return fd;
    gw_fail_errno(err, errno, "cannot shorten %s", path);
    close(fd);
    return -1;
}

/* Fails where the folder of a file is missing, in words of the path that was given. */
static bool check_folder(const char *path, const char *target, gw_err *err) {
    const char *slash = strrchr(target, '/');
    int length = slash == NULL ? 0 : slash == target ? 1 : (int)(slash - target);
    char folder[GW_PATH_BYTES];
    if (length == 0) return true;
    if (!gw_durable_path(folder, err, "%.*s", length, target)) return false;
    return access(folder, F_OK) == 0 || errno != ENOENT ||
           gw_fail(err, GW_E_NOTFOUND, "cannot write %s: there is no folder %s", path, folder);
}

bool gw_output_open(const char *path, gw_output *output, gw_err *err) {
    struct stat there;
    int fd = -1;
    *output = (gw_output){.fd = -1};
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return gw_fail(err, GW_E_INVALID, "%s is there and is not a regular file: name another one", path);
    output->target = follow(path);
    if (output->target == NULL) return gw_fail_errno(err, errno, "cannot write %s", path);
    if (!check_folder(path, output->target, err)) {
        output->partial = NULL;
    } else if (asprintf(&output->partial, "%s.godwit-partial", output->target) < 0) {
        output->partial = NULL;
        gw_fail(err, GW_E_NOMEM, "out of memory");
    } else {
        fd = open_partial(output->partial, err);
    }
    output->fd = fd;
    if (fd >= 0) {
        change_partial(NULL, output->partial);
        return true;
    }
    free(output->target);
    free(output->partial);
    return false;
}

bool gw_output_is_own(const char *path, const void *mark, size_t length, gw_err *err) {
    struct stat there;
    char head[GW_OUTPUT_HEAD];
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode) || there.st_size == 0) return true;
    FILE *file = fopen(path, "re");
    if (file == NULL) return gw_fail_errno(err, errno, "cannot look at %s, which is there", path);
    size_t got = fread(head, 1, sizeof head, file);
    int reason = ferror(file) != 0 ? errno : 0;
    fclose(file);
    if (reason != 0) return gw_fail_errno(err, reason, "cannot read %s, which is there", path);
    return memmem(head, got, mark, length) != NULL ||
           gw_fail(err, GW_E_DENIED,
                   "%s exists and is none that this command wrote: name another file, move it away, or give "
                   "--force",
                   path);
}

bool gw_output_write(const gw_output *output, const void *bytes, size_t count, gw_err *err) {
    return gw_durable_write_fd(gw_io_system(), output->fd, output->target, bytes, count, err);
}

bool gw_output_flush(const gw_output *output, gw_err *err) {
    return fsync(output->fd) == 0 || gw_fail_errno(err, errno, "cannot write %s", output->target);
}

/* The lock of output->fd stays with the file that is being written, whatever its name. */
bool gw_output_move(gw_output *output, const char *path, gw_err *err) {
    gw_output other;
    if (!gw_output_open(path, &other, err)) return false;
    if (rename(output->partial, other.partial) != 0) {
        gw_fail_errno(err, errno, "cannot write %s", path);
        return gw_output_end(&other, false, err);
    }
    close(other.fd);
    change_partial(output->partial, NULL);
    free(output->target);
    free(output->partial);
    output->target = other.target;
    output->partial = other.partial;
    return true;
}

/* The descriptor, which holds the lock, is closed after the partial name is gone: otherwise the next
 * writer could truncate the file that is about to be renamed, or lose its own file to this unlink. */
bool gw_output_end(gw_output *output, bool good, gw_err *err) {
    good = good && gw_output_flush(output, err);
    if (good && rename(output->partial, output->target) != 0)
        good = gw_fail_errno(err, errno, "cannot write %s", output->target);
    if (!good) unlink(output->partial);
    change_partial(output->partial, NULL);
    close(output->fd);
    free(output->target);
    free(output->partial);
    *output = (gw_output){.fd = -1};
    return good;
}
