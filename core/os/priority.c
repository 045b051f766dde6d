#include "core/os/priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LOW_NICE = 10,
    /* Values of linux/ioprio.h, which not every system has: class best effort, the lowest of its eight
     * levels. */
    IOPRIO_WHO_THREAD = 1,
    IOPRIO_LOWEST_BEST_EFFORT = 2 << 13 | 7,
};

void gw_priority_lower(void) {
    long thread = syscall(SYS_gettid);
    (void)!setpriority(PRIO_PROCESS, (id_t)thread, LOW_NICE);
    (void)!syscall(SYS_ioprio_set, IOPRIO_WHO_THREAD, 0, IOPRIO_LOWEST_BEST_EFFORT);
}
