/* Watches this peer's GPUs while it runs: reads figures from NVML every second, for people (snapshot.h),
 * and logs a line when a GPU turns bad. It uses a thread of its own, because a sick GPU answers late or
 * never. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_GPU_WATCH_H
#define GODWIT_TOOLS_GODWIT_WATCH_GPU_WATCH_H

#include "tools/godwit/watch/nvml.h"

enum { GW_WATCHED_GPUS = 16 };

typedef struct gw_watched_gpu {
    int ordinal;        /* CUDA's number */
    char name[96];      /* "NVIDIA H200" */
    char bus[16];       /* "0000:3b:00.0" */
    gw_gpu_names names; /* set by the watch */
    gw_gpu_reading reading;
    uint64_t xids; /* errors that the driver reported */
    uint32_t last_xid;
    bool bad; /* the GPU is hot, slowed down, or silent */
} gw_watched_gpu;

typedef struct gw_gpu_watch gw_gpu_watch;

typedef struct gw_gpu_watch_times {
    uint64_t interval_ns; /* time between two looks */
    uint64_t open_ns;     /* how long gw_gpu_watch_open may wait for the first look */
    uint64_t hang_ns;     /* a look that takes longer counts as hanging */
} gw_gpu_watch_times;

/* Starts to watch the GPUs; the caller sets ordinal, name and bus of gpus[count], which are copied. The
 * first look has been made when the function returns, unless NVML takes longer than open_ns: until it
 * answers, no GPU answers. Returns NULL on failure. */
gw_gpu_watch *gw_gpu_watch_open(const gw_nvml_api *api, const gw_watched_gpu *gpus, uint32_t count,
                                const gw_gpu_watch_times *times, gw_err *err);
/* Ends the watch. Waits at most two seconds for the thread; a thread that hangs in the driver is left
 * behind. NULL is allowed. */
void gw_gpu_watch_close(gw_gpu_watch *watch);
/* Copies the GPUs as of the last look; while a look hangs they are bad and silent. Returns the number of
 * GPUs. Thread: any. */
uint32_t gw_gpu_watch_copy(gw_gpu_watch *watch, gw_watched_gpu gpus[GW_WATCHED_GPUS]);

#endif
