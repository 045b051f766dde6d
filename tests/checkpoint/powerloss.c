#include "tests/checkpoint/powerloss.h"

#include "tests/checkpoint/fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum entry_kind { CONTENTS, NAME, DELETION, FOLDER, OPEN_FOLDER } entry_kind;

/* Something that is not on disk yet or, as OPEN_FOLDER, the folder of a descriptor. */
typedef struct entry {
    entry_kind kind;
    int fd;
    unsigned serial; /* in the order of calls */
    char path[512];
} entry;

enum { ENTRIES = 512 };
static entry entries[ENTRIES];
static unsigned entry_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static powerloss_kind loss;
static int calls_left;
static unsigned serial;
static const char *shadows;

static void add(entry_kind kind, const char *path, int fd) {
    if (entry_count == ENTRIES || strlen(path) >= sizeof entries->path) abort();
    entries[entry_count].kind = kind;
    entries[entry_count].fd = fd;
    entries[entry_count].serial = serial++;
    strcpy(entries[entry_count++].path, path);
}

static void forget(unsigned i) {
    entries[i] = entries[--entry_count];
}

static bool lies_in(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/' &&
           strchr(path + length + 1, '/') == NULL;
}

static const entry *find(entry_kind kind, const char *path) {
    for (unsigned i = 0; i < entry_count; i++)
        if (entries[i].kind == kind && strcmp(entries[i].path, path) == 0) return &entries[i];
    return NULL;
}

static void shadow_path(unsigned number, char path[sizeof entries->path]) {
    snprintf(path, sizeof entries->path, "%s/%u", shadows, number);
}

/* Before a name is removed: keeps its file under another name, unless that name is not on disk yet. */
static void keep_shadow(const char *path) {
    char shadow[sizeof entries->path];
    if (loss < LOSE_NAMES || find(NAME, path) != NULL) return;
    shadow_path(serial, shadow);
    if (link(path, shadow) == 0) add(DELETION, path, -1);
}

static void bring_back(const entry *deleted) {
    char shadow[sizeof entries->path];
    shadow_path(deleted->serial, shadow);
    if (rename(shadow, deleted->path) < 0) abort();
}

static void bring_back_first(void) {
    const entry *first = NULL;
    for (unsigned i = 0; i < entry_count; i++)
        if (entries[i].kind == DELETION && (first == NULL || entries[i].serial < first->serial))
            first = &entries[i];
    if (first != NULL) bring_back(first);
}

_Noreturn void powerloss_now(void) {
    for (unsigned i = 0; i < entry_count; i++) {
        const entry *e = &entries[i];
        if (loss == LOSE_CONTENTS && e->kind == CONTENTS && truncate(e->path, 0) < 0) abort();
        if (loss == LOSE_NAMES && e->kind == NAME) unlink(e->path);
        if (loss == LOSE_NAMES && e->kind == FOLDER) fixture_remove(e->path);
    }
    for (unsigned i = 0; loss == LOSE_NAMES && i < entry_count; i++)
        if (entries[i].kind == DELETION) bring_back(&entries[i]);
    if (loss == LOSE_DELETION) bring_back_first();
    raise(SIGKILL);
    abort();
}

/* Counts a call and takes the lock, which the end of the call releases. */
static void begin_call(void) {
    pthread_mutex_lock(&lock);
    if (calls_left-- == 0) powerloss_now();
}

/* Resolves "a/b/.." to "a". */
static void add_folder(const char *path, int fd) {
    char folder[sizeof entries->path];
    snprintf(folder, sizeof folder, "%s", path);
    size_t length = strlen(folder);
    if (length > 3 && strcmp(folder + length - 3, "/..") == 0) {
        folder[length - 3] = '\0';
        *strrchr(folder, '/') = '\0';
    }
    add(OPEN_FOLDER, folder, fd);
}

static int loss_open(gw_io *io, const char *path, int flags, mode_t mode) {
    if (flags & O_PATH) return gw_io_system()->open(io, path, flags, mode); /* it only looks */
    begin_call();
    bool created = (flags & O_CREAT) && access(path, F_OK) < 0;
    int fd = gw_io_system()->open(io, path, flags, mode);
    if (fd >= 0 && created) add(NAME, path, -1);
    if (fd >= 0 && (flags & O_CREAT)) add(CONTENTS, path, fd);
    if (fd >= 0 && (flags & O_DIRECTORY)) add_folder(path, fd);
    pthread_mutex_unlock(&lock);
    return fd;
}

static ssize_t loss_read(gw_io *io, int fd, void *bytes, size_t count) {
    begin_call();
    pthread_mutex_unlock(&lock);
    return gw_io_system()->read(io, fd, bytes, count);
}

/* A long write does a half, and the one behind it the rest: a crash leaves nothing of a file, its first half, or all of it. */
static ssize_t loss_write(gw_io *io, int fd, const void *bytes, size_t count) {
    static int halved = -1; /* the descriptor of which the last write was a half */
    begin_call();
    bool halves = count > 2000 && fd != halved;
    halved = halves ? fd : -1;
    ssize_t written = gw_io_system()->write(io, fd, bytes, halves ? count / 2 : count);
    pthread_mutex_unlock(&lock);
    return written;
}

static int loss_fdatasync(gw_io *io, int fd) {
    (void)io;
    begin_call();
    for (unsigned i = entry_count; i-- > 0;)
        if (entries[i].kind == CONTENTS && entries[i].fd == fd) forget(i);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int loss_fsync(gw_io *io, int fd) {
    (void)io;
    begin_call();
    const char *folder = NULL;
    for (unsigned i = 0; i < entry_count; i++)
        if (entries[i].kind == OPEN_FOLDER && entries[i].fd == fd) folder = entries[i].path;
    if (folder == NULL) abort();
    char path[sizeof entries->path];
    strcpy(path, folder);
    for (unsigned i = entry_count; i-- > 0;)
        if (entries[i].kind != CONTENTS && entries[i].kind != OPEN_FOLDER && lies_in(entries[i].path, path))
            forget(i);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int loss_close(gw_io *io, int fd) {
    begin_call();
    for (unsigned i = entry_count; i-- > 0;) {
        if (entries[i].fd != fd) continue;
        if (entries[i].kind == OPEN_FOLDER)
            forget(i);
        else
            entries[i].fd = -1; /* closing flushes nothing */
    }
    int result = gw_io_system()->close(io, fd);
    pthread_mutex_unlock(&lock);
    return result;
}

static int loss_rename(gw_io *io, const char *from, const char *to) {
    begin_call();
    keep_shadow(to);
    int result = gw_io_system()->rename(io, from, to);
    for (unsigned i = entry_count; result == 0 && i-- > 0;) {
        if (strcmp(entries[i].path, from) != 0) continue;
        if (entries[i].kind == CONTENTS) strcpy(entries[i].path, to);
        if (entries[i].kind == NAME) forget(i);
    }
    if (result == 0) add(NAME, to, -1);
    pthread_mutex_unlock(&lock);
    return result;
}

static int loss_unlink(gw_io *io, const char *path) {
    begin_call();
    keep_shadow(path);
    int result = gw_io_system()->unlink(io, path);
    for (unsigned i = entry_count; i-- > 0;)
        if (entries[i].kind != DELETION && strcmp(entries[i].path, path) == 0) forget(i);
    pthread_mutex_unlock(&lock);
    return result;
}

static int loss_mkdir(gw_io *io, const char *path, mode_t mode) {
    begin_call();
    int result = gw_io_system()->mkdir(io, path, mode);
    if (result == 0) add(FOLDER, path, -1);
    pthread_mutex_unlock(&lock);
    return result;
}

gw_io *powerloss_io(powerloss_kind kind, int k, const char *shadow_folder) {
    static gw_io table = {
        .open = loss_open,
        .read = loss_read,
        .write = loss_write,
        .fdatasync = loss_fdatasync,
        .fsync = loss_fsync,
        .close = loss_close,
        .rename = loss_rename,
        .unlink = loss_unlink,
        .mkdir = loss_mkdir,
    };
    entry_count = 0;
    loss = kind;
    calls_left = k;
    serial = 0;
    shadows = shadow_folder;
    return &table;
}
