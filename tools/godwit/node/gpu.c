#include "tools/godwit/node/gpu.h"

#include "core/base/log.h"
#include "kernels/cuda/runtime/cuda.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/work/narrow.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(GW_DEVICE_PARTS <= (int)GW_NCCL_GPUS && GW_DEVICE_PARTS <= (int)GW_WATCHED_GPUS,
               "all GPUs of a device take part in sums and are watched");

#define CLOSE_NS UINT64_C(10000000000) /* what an abort may take: NCCL ends its threads */

static const gw_gpu_watch_times watch_times = {
    .interval_ns = UINT64_C(1000000000), .open_ns = UINT64_C(2000000000), .hang_ns = UINT64_C(10000000000)};

static void send(void *context, const gw_peer_id *to, const uint8_t *bytes, size_t length) {
    gw_network_send_message(((gw_node_gpu *)context)->network, to, bytes, length);
}

static void sum_done(void *context, const gw_collective_result *result) {
    gw_reduction_call_done(((gw_node_gpu *)context)->reduction, result);
}

static void lost(void *context, const gw_err *why) {
    gw_node_device_lost(((gw_node_gpu *)context)->mail, why);
}

void gw_node_device_lost(void *context, const gw_err *why) {
    gw_mail *mail = gw_mail_new(GW_EV_DEVICE_LOST, 0);
    gw_mail_text(mail, why->text);
    gw_mailbox_post(context, mail);
}

static void open_watch(gw_node_gpu *gpu, const gw_device *device) {
    gw_nvml_api nvml;
    gw_cuda_info list[GW_CUDA_GPUS];
    gw_watched_gpu gpus[GW_DEVICE_PARTS] = {0};
    uint32_t count, known = 0;
    gw_err err;
    if (gw_nvml_load(&nvml, &err) && gw_cuda_list(list, &count, &err)) {
        for (; known < device->gpu_count; known++) {
            const gw_cuda_info *info = &list[device->gpus[known]]; /* the GPU is open, so the list has it */
            gpus[known].ordinal = (int)info->ordinal;
            snprintf(gpus[known].name, sizeof gpus[known].name, "%s", info->name);
            snprintf(gpus[known].bus, sizeof gpus[known].bus, "%s", info->bus);
        }
        gpu->watch = gw_gpu_watch_open(&nvml, gpus, known, &watch_times, &err);
    }
    if (!gpu->watch) gw_log(GW_WARN, "node/gpu", "no figures of the GPU: %s", err.text);
}

/* From how many bytes on exact sums are narrowed, by GODWIT_NCCL_NARROW, which all peers must have alike; 0: by
 * NCCL's part of this program. */
static uint64_t narrow_from(void) {
    const char *text = getenv("GODWIT_NCCL_NARROW");
    uint64_t bytes = 0;
    if (text != NULL && !gw_number_read(text, 1, UINT64_MAX, &bytes))
        gw_log(GW_WARN, "node/gpu", "GODWIT_NCCL_NARROW=%s is not a number of bytes, and is not used", text);
    return bytes;
}

static void open_sums(gw_node_gpu *gpu, const gw_device *device) {
    const gw_network *network = gpu->network;
    gw_nccl_found found;
    gw_err err;
    if (gw_nccl_load(&gpu->nccl, &found, &err) && gw_cuda_load(&gpu->cuda, &err)) {
        if (found.warning[0] != '\0') gw_log(GW_WARN, "node/gpu", "%s", found.warning);
        gw_gpus_options options = {.nccl = &gpu->nccl,
                                   .cuda = &gpu->cuda,
                                   .ordinals = device->gpus,
                                   .count = device->gpu_count,
                                   .loop = network->loop,
                                   .self = network->local.identity->id,
                                   .time_scale_percent = network->options->time_scale_percent,
                                   .narrow = &gw_gpus_narrow,
                                   .narrow_bytes = narrow_from(),
                                   .context = gpu,
                                   .send = send,
                                   .done = sum_done,
                                   .lost = lost};
        gpu->sums = gw_gpus_open(&options, &err);
    }
    if (gpu->sums == NULL) gw_log(GW_WARN, "node/gpu", "sums go through host memory: %s", err.text);
}

void gw_node_gpu_open(gw_node_gpu *gpu, const gw_device *device) {
    if (device->gpu_count == 0) return;
    open_watch(gpu, device);
    open_sums(gpu, device);
}

bool gw_node_gpu_close(gw_node_gpu *gpu) {
    gw_gpu_watch_close(gpu->watch);
    gpu->watch = NULL;
    return gw_gpus_close(gpu->sums, CLOSE_NS);
}

const char *gw_node_gpus_text(const gw_device *device, char text[GW_GPUS_TEXT]) {
    int length = snprintf(text, GW_GPUS_TEXT, "GPU%s", device->gpu_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < device->gpu_count; i++)
        length += snprintf(text + length, (size_t)(GW_GPUS_TEXT - length), "%s%d", i == 0 ? " " : ", ",
                           device->gpus[i]);
    return text;
}
