#include "kernels/host/read_progress.h"

#include "core/base/log.h"
#include "core/os/clock.h"

/* The time between two lines, and before the first one. */
#define LOG_EVERY_NS INT64_C(3000000000)

void gw_read_progress_begin(gw_read_progress *p, uint64_t bytes) {
    p->bytes = bytes;
    p->began_ns = (int64_t)gw_now_ns();
    atomic_init(&p->done, 0);
    atomic_init(&p->next_log_ns, p->began_ns + LOG_EVERY_NS);
}

void gw_read_progress_add(gw_read_progress *p, const char *path, uint64_t bytes) {
    double done = (double)(atomic_fetch_add(&p->done, bytes) + bytes);
    int64_t now = (int64_t)gw_now_ns(), due = atomic_load(&p->next_log_ns);
    if (now < due || !atomic_compare_exchange_strong(&p->next_log_ns, &due, now + LOG_EVERY_NS))
        return; /* it is too early, or another thread logs the line */
    gw_log(GW_INFO, "data", "reading %s; %.2f of %.2f GB of data, %.0f MB/s", path, done * 1e-9,
           (double)p->bytes * 1e-9, 1e3 * done / (double)(now - p->began_ns));
}

void gw_read_progress_end(const gw_read_progress *p) {
    if (atomic_load(&p->next_log_ns) == p->began_ns + LOG_EVERY_NS) return; /* no line was logged */
    gw_log(GW_INFO, "data", "read %.2f GB of data in %.0f s", (double)p->bytes * 1e-9,
           (double)((int64_t)gw_now_ns() - p->began_ns) * 1e-9);
}
