/* The sums of this peer's GPU, if it has one: opened beside its device, told of links and views by the loop
 * (node_links.c, node_actions.c), used by reductions (node_reduce.c). And who looks after the GPU. */
#include "core/check.h"
#include "core/log.h"
#include "kernels/cuda/cuda.h"
#include "tools/godwit/node_inside.h"

#include <stdlib.h>
#include <string.h>

#define CLOSE_NS UINT64_C(10000000000) /* what an abort may take: NCCL ends its threads */
#define WATCH_NS UINT64_C(1000000000)

static void send(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    gw_node *node = context;
    gw_err err;
    if (gw_links_send(node->links, to, bytes, length, &err))
        node->shown.counter[GW_COUNT_CONTROL_SENT] += length;
    else if (err.code != GW_E_NOTFOUND)
        gw_log(GW_WARN, "node/gpus", "message: %s", err.text);
}

void gw_node_device_lost(void *context, const gw_err *why) {
    gw_node *node = context;
    gw_mail *mail = gw_mail_new(GW_EV_DEVICE_LOST, 0);
    gw_mail_text(mail, why->text);
    gw_mailbox_post(node->mail, mail);
}

/* Figures are for people: a run goes on without them. */
static void watch(gw_node *node) {
    gw_nvml_api nvml;
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count, ordinal = (uint32_t)node->device->gpu;
    gw_err err = {.text = "CUDA does not know it"};
    if (gw_nvml_load(&nvml, &err) && gw_cuda_list(list, &count, &err) && ordinal < count) {
        gw_watched_gpu gpu = {.ordinal = node->device->gpu};
        snprintf(gpu.name, sizeof gpu.name, "%s", list[ordinal].name);
        snprintf(gpu.bus, sizeof gpu.bus, "%s", list[ordinal].bus);
        node->gpu_watch = gw_gpu_watch_open(&nvml, &gpu, 1, WATCH_NS, &err);
    }
    if (!node->gpu_watch) gw_log(GW_WARN, "node/gpu", "no figures of the GPU: %s", err.text);
}

bool gw_node_gpus_open(gw_node *node, gw_err *err) {
    gw_nccl_found found;
    gw_err missing;
    if (node->device->gpu < 0) return true;
    watch(node);
    if (!gw_nccl_load(&node->nccl, &found, &missing)) {
        gw_log(GW_WARN, "node/gpus", "sums go through host memory: %s", missing.text);
        return true;
    }
    if (!gw_cuda_load(&node->cuda, err)) return false;
    if (found.warning[0] != '\0') gw_log(GW_WARN, "node/gpus", "%s", found.warning);
    gw_gpus_options options = {.nccl = &node->nccl,
                               .cuda = &node->cuda,
                               .ordinals = &node->device->gpu,
                               .count = 1,
                               .loop = node->loop,
                               .self = node->self.id,
                               .time_scale_percent = node->options->time_scale_percent,
                               .context = node,
                               .send = send,
                               .done = gw_node_collective_done,
                               .lost = gw_node_device_lost};
    node->gpus = gw_gpus_open(&options, err);
    return node->gpus != NULL;
}

bool gw_node_gpus_close(gw_node *node) {
    gw_gpu_watch_close(node->gpu_watch);
    node->gpu_watch = NULL;
    return gw_gpus_close(node->gpus, CLOSE_NS);
}
