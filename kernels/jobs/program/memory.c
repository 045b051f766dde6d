#include "kernels/jobs/program/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

bool program_arena_open(program_arena *arena, const char *name, uint64_t size, bool lasting, gw_err *err) {
    *arena = (program_arena){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), .size = size};
    if (arena->fd < 0) {
        int why = errno;
        *arena = (program_arena){0};
        return gw_fail_errno(err, why, "memory for the workers (%s)", name);
    }
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    bool good = ftruncate(arena->fd, (off_t)size) == 0;
    if (good && size > 0) {
        void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0);
        good = bytes != MAP_FAILED;
        arena->bytes = good ? bytes : NULL;
    }
    /* The mapping that there is stays writable. */
    good = good && fcntl(arena->fd, F_ADD_SEALS, seals | (lasting ? F_SEAL_FUTURE_WRITE : 0)) == 0;
    if (good) return true;
    gw_fail_errno(err, errno, "%llu bytes of memory for the workers (%s)", (unsigned long long)size, name);
    program_arena_close(arena);
    return false;
}

void program_arena_close(program_arena *arena) {
    if (arena->bytes != NULL) munmap(arena->bytes, arena->size);
    if (arena->fd > 0) close(arena->fd);
    *arena = (program_arena){0};
}
