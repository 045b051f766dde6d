/* The system calls through which everything in this wing changes the disk, as a table, so that tests can make
 * the k-th one fail or be the process's last. Each function has its POSIX namesake's contract: -1 and errno
 * on failure, short writes and EINTR possible. Thread: any; a table must be safe for several threads at once.
 */
#ifndef GODWIT_CHECKPOINT_IO_H
#define GODWIT_CHECKPOINT_IO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct gw_io gw_io;
struct gw_io {
    int (*open)(gw_io *io, const char *path, int flags, mode_t mode);
    ssize_t (*read)(gw_io *io, int fd, void *bytes, size_t count);
    ssize_t (*write)(gw_io *io, int fd, const void *bytes, size_t count);
    int (*fdatasync)(gw_io *io, int fd);
    int (*fsync)(gw_io *io, int fd);
    int (*close)(gw_io *io, int fd);
    int (*rename)(gw_io *io, const char *from, const char *to);
    int (*unlink)(gw_io *io, const char *path);
    int (*mkdir)(gw_io *io, const char *path, mode_t mode);
};

/* The operating system's. Never NULL; shared; not to be freed. */
gw_io *gw_io_system(void);

/* A table that passes every call on to another one and counts those that change the disk, when they return:
 * who waits for a disk sees by that whether it gets on. */
typedef struct gw_io_counted {
    gw_io io; /* first: the functions cast back */
    gw_io *under;
    atomic_uint_fast64_t changes; /* any thread reads */
} gw_io_counted;

/* `under` must outlive it. */
void gw_io_count(gw_io_counted *counted, gw_io *under);

#endif
