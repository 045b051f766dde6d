#include "kernels/jobs/program/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MADV_COLLAPSE /* since Linux 6.1 */
#define MADV_COLLAPSE 25
#endif

#define HUGE_PAGE ((size_t)2 << 20)

enum { SMALLEST_PAGE = 4096 };

/* Maps the memory behind a descriptor at a multiple of the size of a huge page. Returns NULL and sets
 * errno where that fails. */
static uint8_t *map_aligned(int fd, size_t size) {
    size_t reserved = size + HUGE_PAGE;
    uint8_t *room = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)room % HUGE_PAGE), page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped = (size + page - 1) / page * page;
    uint8_t *bytes = mmap(room + before, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (bytes == MAP_FAILED) {
        int why = errno;
        munmap(room, reserved);
        errno = why;
        return NULL;
    }
    if (before > 0) munmap(room, before);
    if (before + mapped < reserved) munmap(bytes + mapped, reserved - before - mapped);
    return bytes;
}

/* Whether most of the memory of a huge page has been written. */
static bool is_mostly_there(uint8_t *at, size_t page) {
    unsigned char there[HUGE_PAGE / SMALLEST_PAGE];
    size_t pages = HUGE_PAGE / page, count = 0;
    if (mincore(at, HUGE_PAGE, there) != 0) return false;
    for (size_t i = 0; i < pages; i++) count += there[i] & 1;
    return 4 * count >= 3 * pages;
}

void program_arena_take_huge_pages(program_arena *arena) {
    if (arena->has_huge_pages) return;
    arena->has_huge_pages = true;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (page < SMALLEST_PAGE || page > HUGE_PAGE) return;
    for (size_t at = 0; at + HUGE_PAGE <= arena->size; at += HUGE_PAGE) {
        uint8_t *bytes = (uint8_t *)arena->bytes + at;
        if (is_mostly_there(bytes, page)) (void)madvise(bytes, HUGE_PAGE, MADV_COLLAPSE);
    }
}

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
        arena->bytes = map_aligned(arena->fd, size);
        good = arena->bytes != NULL;
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
