#include "core/os/io.h"

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

/* The counting table. */

static gw_io *under(gw_io *io) {
    return ((gw_io_counted *)io)->under;
}

/* Counts a call that has returned, with success or not: errors are reported elsewhere. */
static ssize_t count(gw_io *io, ssize_t answer) {
    atomic_fetch_add(&((gw_io_counted *)io)->changes, 1);
    return answer;
}

static int counted_open(gw_io *io, const char *path, int flags, mode_t mode) {
    return under(io)->open(under(io), path, flags, mode);
}
static ssize_t counted_read(gw_io *io, int fd, void *bytes, size_t size) {
    return under(io)->read(under(io), fd, bytes, size);
}
static ssize_t counted_write(gw_io *io, int fd, const void *bytes, size_t size) {
    return count(io, under(io)->write(under(io), fd, bytes, size));
}
static int counted_fdatasync(gw_io *io, int fd) {
    return (int)count(io, under(io)->fdatasync(under(io), fd));
}
static int counted_fsync(gw_io *io, int fd) {
    return (int)count(io, under(io)->fsync(under(io), fd));
}
static int counted_close(gw_io *io, int fd) {
    return under(io)->close(under(io), fd);
}
static int counted_rename(gw_io *io, const char *from, const char *to) {
    return (int)count(io, under(io)->rename(under(io), from, to));
}
static int counted_unlink(gw_io *io, const char *path) {
    return (int)count(io, under(io)->unlink(under(io), path));
}
static int counted_mkdir(gw_io *io, const char *path, mode_t mode) {
    return (int)count(io, under(io)->mkdir(under(io), path, mode));
}

void gw_io_count(gw_io_counted *counted, gw_io *passed_to) {
    counted->io = (gw_io){
        .open = counted_open,
        .read = counted_read,
        .write = counted_write,
        .fdatasync = counted_fdatasync,
        .fsync = counted_fsync,
        .close = counted_close,
        .rename = counted_rename,
        .unlink = counted_unlink,
        .mkdir = counted_mkdir,
    };
    counted->under = passed_to;
    atomic_init(&counted->changes, 0);
}
