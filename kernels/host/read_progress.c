#include "kernels/host/read_progress.h"

#include "core/base/log.h"

#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define TELL_NS   (3 * SECOND_NS) /* between two lines, and before the first */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

void gw_read_progress_begin(gw_read_progress *p, uint64_t bytes) {
    p->bytes = bytes;
    p->began_ns = now_ns();
    atomic_init(&p->done, 0);
    atomic_init(&p->tell_ns, p->began_ns + TELL_NS);
}

void gw_read_progress_add(gw_read_progress *p, const char *path, uint64_t bytes) {
    double done = (double)(atomic_fetch_add(&p->done, bytes) + bytes);
    int64_t now = now_ns(), due = atomic_load(&p->tell_ns);
    if (now < due || !atomic_compare_exchange_strong(&p->tell_ns, &due, now + TELL_NS))
        return; /* or another thread tells it */
    gw_log(GW_INFO, "data", "reading %s; %.2f of %.2f GB of data, %.0f MB/s", path, done * 1e-9,
           (double)p->bytes * 1e-9, 1e3 * done / (double)(now - p->began_ns));
}

void gw_read_progress_end(const gw_read_progress *p) {
    if (atomic_load(&p->tell_ns) == p->began_ns + TELL_NS) return; /* nothing was told */
    gw_log(GW_INFO, "data", "read %.2f GB of data in %.0f s", (double)p->bytes * 1e-9,
           (double)(now_ns() - p->began_ns) * 1e-9);
}
