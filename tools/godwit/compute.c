#include "tools/godwit/compute.h"

#include "kernels/cuda/cuda.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_WORKERS = 2 }; /* lanes that keep one GPU busy: a shard waits behind the one that runs */

bool gw_compute_parse(const char *text, gw_compute *compute, gw_err *err) {
    if (strcmp(text, "auto") == 0) {
        compute->kind = GW_COMPUTE_AUTO;
        return true;
    }
    if (strcmp(text, "cpu") == 0) {
        compute->kind = GW_COMPUTE_CPU;
        return true;
    }
    if (strncmp(text, "cuda", 4) != 0 || (text[4] != '\0' && text[4] != ':'))
        return gw_fail(err, GW_E_USAGE, "--device: '%s' is none of auto, cpu, cuda and cuda:N", text);
    compute->kind = GW_COMPUTE_CUDA;
    compute->gpu.ordinal = 0;
    if (text[4] == '\0') return true;
    if (strchr(text, ',') != NULL)
        return gw_fail(err, GW_E_USAGE,
                       "--device: '%s' names several GPUs: a peer computes on one, so start a peer for each "
                       "(with a --dir and a --listen of its own)",
                       text);
    char *end;
    long number = strtol(text + 5, &end, 10);
    if (text[5] < '0' || text[5] > '9' || *end != '\0' || number >= GW_CUDA_GPUS)
        return gw_fail(err, GW_E_USAGE, "--device: '%s' is not the number of a GPU, as in cuda:0", text);
    compute->gpu.ordinal = (int)number;
    return true;
}

bool gw_compute_parse_precision(const char *text, gw_compute *compute, gw_err *err) {
    static const struct {
        const char *name;
        gw_precision precision;
    } known[] = {{"fp32", GW_PRECISION_FP32}, {"tf32", GW_PRECISION_TF32}, {"bf16", GW_PRECISION_BF16}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, known[i].name) != 0) continue;
        compute->gpu.precision = known[i].precision;
        return true;
    }
    return gw_fail(err, GW_E_USAGE, "--precision: '%s' is none of fp32, tf32 and bf16", text);
}

static uint32_t cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

/* Whether the GPU can be used for the job, and if not, why. */
static bool usable(gw_compute *compute, const gw_job_type *job, gw_err *err) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    if (!gw_cuda_list(list, &count, err)) return false;
    if (job->gpu == NULL) return gw_fail(err, GW_E_UNSUPPORTED, "job %s has no code for GPUs", job->name);
    if ((uint32_t)compute->gpu.ordinal >= count)
        return gw_fail(err, GW_E_USAGE, "there is no GPU %d: this machine's are 0 to %u",
                       compute->gpu.ordinal, count - 1);
    snprintf(compute->text, sizeof compute->text, "GPU %d, %s", compute->gpu.ordinal,
             list[compute->gpu.ordinal].name);
    return gw_cuda_libraries(err);
}

bool gw_compute_settle(gw_compute *compute, const gw_job_type *job, uint32_t *workers, gw_err *err) {
    if (compute->kind == GW_COMPUTE_CUDA && !usable(compute, job, err))
        return gw_fail_in(err, "--device cuda (--device cpu computes on the processors)");
    if (compute->kind == GW_COMPUTE_AUTO) {
        gw_err why;
        bool found = usable(compute, job, &why);
        if (!found) snprintf(compute->text, sizeof compute->text, "processors; %.250s", why.text);
        compute->kind = found ? GW_COMPUTE_CUDA : GW_COMPUTE_CPU;
    } else if (compute->kind == GW_COMPUTE_CPU) {
        snprintf(compute->text, sizeof compute->text, "processors");
    }
    bool cuda = compute->kind == GW_COMPUTE_CUDA;
    if (!cuda && compute->gpu.precision != 0)
        return gw_fail(err, GW_E_USAGE,
                       "--precision is for GPUs (--device cuda): processors compute in fp32 and double");
    if (compute->gpu.precision == 0) compute->gpu.precision = GW_PRECISION_TF32;
    if (*workers == 0) *workers = !cuda ? cores() : job->gpu->lanes > 0 ? job->gpu->lanes : GPU_WORKERS;
    return true;
}
