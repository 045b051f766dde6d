#include "tools/godwit/thread/descriptors.h"

#include "core/base/log.h"
#include "net/loop/reserve.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/resource.h>

/* Descriptors that a peer uses, measured on a machine without GPUs and RDMA. GPUs, RDMA and the files of a
 * large text take more. */
enum {
    OWN = 28, /* loops, sockets, the lock */
    HTTP = 5,
    A_PEER = 12, /* four streams; shared memory while they still stand */
};

void gw_descriptors_take(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Descriptors that are open now, without the standard ones, which OWN counts. */
static uint32_t open_now(void) {
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) return 0;
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    enum { OTHERS = 6 }; /* ".", "..", the folder's own, standard input, output and error */
    return count > OTHERS ? count - OTHERS : 0;
}

uint64_t gw_descriptors_needed(uint32_t peers, bool http, uint32_t open) {
    uint64_t own = OWN + GW_DESCRIPTORS_RESERVE + (uint64_t)(http ? HTTP : 0);
    return own + (uint64_t)(peers - 1) * A_PEER + open;
}

bool gw_descriptors_check(uint32_t peers, bool http, gw_err *err) {
    struct rlimit limit;
    gw_reserve_set(GW_DESCRIPTORS_RESERVE);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return true;
    uint32_t open = open_now(), expected = peers > 2 ? peers : 2;
    uint64_t least = gw_descriptors_needed(2, http, open), all = gw_descriptors_needed(expected, http, open);
    if (limit.rlim_cur < least)
        return gw_fail(err, GW_E_IO,
                       "a peer of a run of two needs about %" PRIu64
                       " descriptors, and `ulimit -n` allows %" PRIu64 ": raise the limit",
                       least, (uint64_t)limit.rlim_cur);
    if (limit.rlim_cur < all)
        gw_log(GW_WARN, "node",
               "a peer of a run of %" PRIu32 " needs about %" PRIu64
               " descriptors, and `ulimit -n` allows %" PRIu64
               " here: raise the limit, or this peer may be left out",
               expected, all, (uint64_t)limit.rlim_cur);
    return true;
}
