#include "kernels/host/memory.h"

#include "core/base/assert.h"

#include <errno.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t mapped(size_t bytes) {
    return bytes > 0 ? bytes : 1;
}

bool gw_memory_map(size_t bytes, void **memory, gw_err *err) {
    void *taken = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED) {
        *memory = NULL;
        return gw_fail_errno(err, errno, "mmap of %zu bytes", bytes);
    }
    /* Huge pages are only faster, so a refusal is ignored. */
    if (bytes >= 4 * (size_t)HUGE_PAGE) (void)madvise(taken, bytes, MADV_HUGEPAGE);
    *memory = taken;
    return true;
}

void gw_memory_unmap(void *memory, size_t bytes) {
    if (memory == NULL) return;
    int result = munmap(memory, mapped(bytes));
    GW_ASSERT(result == 0);
}
