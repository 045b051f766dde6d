#include "net/loop/reserve.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

static _Atomic uint32_t reserve;

void gw_reserve_set(uint32_t count) {
    atomic_store(&reserve, count);
}

/* A new descriptor is the lowest one that is free: one so high is among the last. */
bool gw_reserve_holds(int fd) {
    struct rlimit limit;
    uint32_t count = atomic_load(&reserve);
    return count > 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd + count >= limit.rlim_cur;
}

int gw_reserve_spare(int fd) {
    if (fd < 0 || !gw_reserve_holds(fd)) return fd;
    close(fd);
    errno = EMFILE;
    return -1;
}
