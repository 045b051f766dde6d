/* The GPUs of this node's device: their sums by NCCL (tools/godwit/work/gpus.h) and the thread that
 * watches them (tools/godwit/watch/gpu_watch.h).
 *
 * Threads: the main thread's, unless a function says otherwise. */
#ifndef GODWIT_TOOLS_GODWIT_NODE_GPU_H
#define GODWIT_TOOLS_GODWIT_NODE_GPU_H

#include "kernels/device/device.h"
#include "tools/godwit/node/network.h"
#include "tools/godwit/watch/gpu_watch.h"
#include "tools/godwit/work/gpus.h"
#include "tools/godwit/work/reduce.h"

typedef struct gw_node_gpu {
    gw_nccl_api nccl;
    gw_cuda_api cuda;
    gw_gpu_watch *watch; /* NULL = the device has no GPU, or NVML cannot be used */
    gw_gpus *sums;       /* NULL = the device has no GPU, or NCCL cannot be used */
    gw_network *network; /* The pointers from here on are borrowed. */
    gw_reduction *reduction;
    gw_mailbox *mail;
} gw_node_gpu;

/* Opens both if the device has a GPU. Where NVML cannot be used there are no figures; where NCCL or the
 * driver does not let it sum, sums go through host memory. The log says so. The borrowed pointers are set
 * before. */
void gw_node_gpu_open(gw_node_gpu *gpu, const gw_device *device);

/* Returns as gw_gpus_close. */
bool gw_node_gpu_close(gw_node_gpu *gpu);

/* Any thread, as a callback of a device; the context is the node's mailbox: the brain hears that the
 * device is lost. */
void gw_node_device_lost(void *mail, const gw_err *why);

/* "GPU 0", "GPUs 0, 1, 3": the GPUs of the device. */
enum { GW_GPUS_TEXT = 80 };
const char *gw_node_gpus_text(const gw_device *device, char text[GW_GPUS_TEXT]);

#endif
