#include "checkpoint/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int system_open(gw_io *io, const char *path, int flags, mode_t mode) {
    (void)io;
    return open(path, flags | O_CLOEXEC, mode);
}
static ssize_t system_read(gw_io *io, int fd, void *bytes, size_t count) {
    (void)io;
    return read(fd, bytes, count);
}
static ssize_t system_write(gw_io *io, int fd, const void *bytes, size_t count) {
    (void)io;
    return write(fd, bytes, count);
}
static int system_fdatasync(gw_io *io, int fd) {
    (void)io;
    return fdatasync(fd);
}
static int system_fsync(gw_io *io, int fd) {
    (void)io;
    return fsync(fd);
}
static int system_close(gw_io *io, int fd) {
    (void)io;
    return close(fd);
}
static int system_rename(gw_io *io, const char *from, const char *to) {
    (void)io;
    return rename(from, to);
}
static int system_unlink(gw_io *io, const char *path) {
    (void)io;
    return unlink(path);
}
static int system_mkdir(gw_io *io, const char *path, mode_t mode) {
    (void)io;
    return mkdir(path, mode);
}

gw_io *gw_io_system(void) {
    static gw_io table = {
        .open = system_open,
        .read = system_read,
        .write = system_write,
        .fdatasync = system_fdatasync,
        .fsync = system_fsync,
        .close = system_close,
        .rename = system_rename,
        .unlink = system_unlink,
        .mkdir = system_mkdir,
    };
    return &table;
}
