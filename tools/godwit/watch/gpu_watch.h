/* Looks after this peer's GPUs while it runs: figures from NVML every second, for people (snapshot.h), and a
 * line in the log when a GPU turns bad. On a thread of its own, because a sick GPU answers late or never. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_GPU_WATCH_H
#define GODWIT_TOOLS_GODWIT_WATCH_GPU_WATCH_H

#include "tools/godwit/watch/nvml.h"

enum { GW_WATCHED_GPUS = 16 };

typedef struct gw_watched_gpu {
    int ordinal;   /* CUDA's */
    char name[96]; /* "NVIDIA H200" */
    char bus[16];  /* "0000:3b:00.0" */
    gw_gpu_reading reading;
    uint64_t xids; /* errors that the driver reported; the last one */
    uint32_t last_xid;
    bool bad; /* hot, slowed down, or silent */
} gw_watched_gpu;

typedef struct gw_gpu_watch gw_gpu_watch;

typedef struct gw_gpu_watch_times {
    uint64_t interval_ns; /* between looks */
    uint64_t open_ns;     /* what the first look may keep the caller of gw_gpu_watch_open */
    uint64_t hang_ns;     /* a look that takes longer hangs */
} gw_gpu_watch_times;

/* gpus[count]: ordinal, name and bus are the caller's, copied. Has looked once when it returns, unless NVML
 * takes longer than open_ns: then until it answers no GPU does. NULL on failure. */
gw_gpu_watch *gw_gpu_watch_open(const gw_nvml_api *api, const gw_watched_gpu *gpus, uint32_t count,
                                const gw_gpu_watch_times *times, gw_err *err);
/* Waits a moment for the thread; one that hangs in the driver is left behind. NULL is allowed. */
void gw_gpu_watch_close(gw_gpu_watch *watch);
/* Any thread: how they were when they were looked at last; bad, and silent, while a look hangs. Returns how
 * many. */
uint32_t gw_gpu_watch_copy(gw_gpu_watch *watch, gw_watched_gpu gpus[GW_WATCHED_GPUS]);

#endif
