/* The GPUs of this peer's device, if it has any: their sums (work/gpus.h), which links.c and actions.c tell
 * of links and views, and the thread that watches them (watch/gpu_watch.h). */
#include "core/base/assert.h"
#include "core/base/log.h"
#include "kernels/cuda/runtime/cuda.h"
#include "tools/godwit/node/inside.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(GW_DEVICE_PARTS <= (int)GW_NCCL_GPUS && GW_DEVICE_PARTS <= (int)GW_WATCHED_GPUS,
               "all GPUs of a device are summed with and watched");

#define CLOSE_NS UINT64_C(10000000000) /* what an abort may take: NCCL ends its threads */

static const gw_gpu_watch_times watch_times = {
    .interval_ns = UINT64_C(1000000000), .open_ns = UINT64_C(2000000000), .hang_ns = UINT64_C(10000000000)};

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
    gw_watched_gpu gpus[GW_DEVICE_PARTS] = {0};
    uint32_t count, known = 0;
    gw_err err;
    if (gw_nvml_load(&nvml, &err) && gw_cuda_list(list, &count, &err)) {
        for (; known < node->device->gpu_count; known++) {
            const gw_cuda_info *info = &list[node->device->gpus[known]]; /* it is open, and so it is there */
            gpus[known].ordinal = (int)info->ordinal;
            snprintf(gpus[known].name, sizeof gpus[known].name, "%s", info->name);
            snprintf(gpus[known].bus, sizeof gpus[known].bus, "%s", info->bus);
        }
        node->gpu_watch = gw_gpu_watch_open(&nvml, gpus, known, &watch_times, &err);
    }
    if (!node->gpu_watch) gw_log(GW_WARN, "node/gpu", "no figures of the GPU: %s", err.text);
}

const char *gw_node_gpus_text(const gw_node *node, char text[GW_GPUS_TEXT]) {
    const gw_device *device = node->device;
    int length = snprintf(text, GW_GPUS_TEXT, "GPU%s", device->gpu_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < device->gpu_count; i++)
        length += snprintf(text + length, (size_t)(GW_GPUS_TEXT - length), "%s%d", i == 0 ? " " : ", ",
                           device->gpus[i]);
    return text;
}

static void gpu_sum_done(void *context, const gw_collective_result *result) {
    gw_reduction_call_done(&((gw_node *)context)->reduction, result);
}

/* NULL: sums cannot go from GPU to GPU. */
static gw_gpus *open_sums(gw_node *node, gw_err *err) {
    gw_nccl_found found;
    if (!gw_nccl_load(&node->nccl, &found, err) || !gw_cuda_load(&node->cuda, err)) return NULL;
    if (found.warning[0] != '\0') gw_log(GW_WARN, "node/gpus", "%s", found.warning);
    gw_gpus_options options = {.nccl = &node->nccl,
                               .cuda = &node->cuda,
                               .ordinals = node->device->gpus,
                               .count = node->device->gpu_count,
                               .loop = node->loop,
                               .self = node->self.id,
                               .time_scale_percent = node->options->time_scale_percent,
                               .context = node,
                               .send = send,
                               .done = gpu_sum_done,
                               .lost = gw_node_device_lost};
    return gw_gpus_open(&options, err);
}

void gw_node_gpus_open(gw_node *node) {
    gw_err err;
    if (node->device->gpu_count == 0) return;
    watch(node);
    node->gpus = open_sums(node, &err);
    if (node->gpus == NULL) gw_log(GW_WARN, "node/gpus", "sums go through host memory: %s", err.text);
}

bool gw_node_gpus_close(gw_node *node) {
    gw_gpu_watch_close(node->gpu_watch);
    node->gpu_watch = NULL;
    return gw_gpus_close(node->gpus, CLOSE_NS);
}
