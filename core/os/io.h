/* The system calls by which durable files change the disk, as a table, so that tests can make the k-th call
 * fail or be the last of the process. Each function has the contract of the POSIX function of the same name:
 * -1 and errno on failure; short writes and EINTR are possible. Descriptors are opened with O_CLOEXEC.
 *
 * Any thread; a table must be safe for several threads at once. */
#ifndef GODWIT_CORE_OS_IO_H
#define GODWIT_CORE_OS_IO_H

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

/* The table of the operating system's own calls. Never NULL; shared by all callers, who do not free it. */
gw_io *gw_io_system(void);

/* A table that passes every call on to another table and counts the calls that change the disk, when they
 * return. A watcher of a slow disk sees from the count whether the disk makes progress. */
typedef struct gw_io_counted {
    gw_io io; /* the first member, because the functions cast back from it */
    gw_io *under;
    atomic_uint_fast64_t changes; /* any thread may read it */
} gw_io_counted;

/* Initializes `counted`, which passes calls on to `under`; `under` must outlive it. */
void gw_io_count(gw_io_counted *counted, gw_io *under);

#endif
