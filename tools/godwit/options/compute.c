#include "tools/godwit/options/compute.h"

#include "core/base/log.h"
#include "kernels/cuda/runtime/cuda.h"
#include "kernels/host/cores.h"
#include "kernels/jobs/program/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPU_WORKERS = 2 }; /* lanes that keep one GPU busy: while one shard runs, the next one waits */

static bool add_gpu(gw_compute *compute, int ordinal, const char *text, gw_err *err) {
    for (uint32_t i = 0; i < compute->gpu_count; i++)
        if (compute->gpus[i] == ordinal)
            return gw_fail(err, GW_E_USAGE, "--device: '%s' names GPU %d twice", text, ordinal);
    if (compute->gpu_count == GW_DEVICE_PARTS)
        return gw_fail(err, GW_E_USAGE,
                       "--device: '%s' names more than %d GPUs, the most that a peer can use", text,
                       (int)GW_DEVICE_PARTS);
    compute->gpus[compute->gpu_count++] = ordinal;
    return true;
}

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
        return gw_fail(err, GW_E_USAGE,
                       "--device: '%s' is none of auto, cpu, cuda, cuda:N[,...] and cuda:all", text);
    compute->kind = GW_COMPUTE_CUDA;
    compute->gpu_count = 0;
    if (strcmp(text, "cuda:all") == 0) return true;
    if (text[4] == '\0') return add_gpu(compute, 0, text, err);
    for (const char *at = text + 5;; at++) {
        char *end;
        long number = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || (*end != '\0' && *end != ',') || number >= GW_CUDA_GPUS)
            return gw_fail(err, GW_E_USAGE,
                           "--device: '%s' does not list the numbers of GPUs, as in cuda:0 or cuda:0,1",
                           text);
        if (!add_gpu(compute, (int)number, text, err)) return false;
        if (*end == '\0') return true;
        at = end;
    }
}

bool gw_compute_parse_precision(const char *text, gw_compute *compute, gw_err *err) {
    static const struct {
        const char *name;
        gw_precision precision;
    } known[] = {{"fp32", GW_PRECISION_FP32}, {"tf32", GW_PRECISION_TF32}, {"bf16", GW_PRECISION_BF16}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, known[i].name) != 0) continue;
        compute->precision = known[i].precision;
        return true;
    }
    return gw_fail(err, GW_E_USAGE, "--precision: '%s' is none of fp32, tf32 and bf16", text);
}

/* Returns the number of workers for processors. It stays within a container's quota: more threads than the
 * quota has time for are all stopped until its period ends. */
static uint32_t cores(gw_compute *compute) {
    uint32_t count = gw_cores(), allowed = gw_cores_allowed();
    size_t used = strlen(compute->text);
    if (count < allowed)
        snprintf(compute->text + used, sizeof compute->text - used,
                 "; the container's quota allows the time of %u of %u cores", count, allowed);
    used = strlen(compute->text);
    if (compute->most_cores > 0 && compute->most_cores < count) {
        snprintf(compute->text + used, sizeof compute->text - used,
                 "; the scheduler gave this peer %u of %u cores", compute->most_cores, count);
        count = compute->most_cores;
    }
    return count < GW_MAX_WORKERS ? count : GW_MAX_WORKERS;
}

/* Writes "GPU 0, NVIDIA H100" or "GPUs 0, 1, NVIDIA H100" into the text. */
static void name_gpus(gw_compute *compute, const gw_cuda_info *list) {
    char *to = compute->text;
    size_t room = sizeof compute->text;
    int length = snprintf(to, room, "GPU%s ", compute->gpu_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < compute->gpu_count; i++)
        length += snprintf(to + length, room - (size_t)length, "%d, ", compute->gpus[i]);
    snprintf(to + length, room - (size_t)length, "%s", list[compute->gpus[0]].name);
}

/* Checks whether the GPUs can be used for the job, and lists them where the option means all. */
static bool usable(gw_compute *compute, const gw_job_type *job, gw_err *err) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    if (!gw_cuda_list(list, &count, err)) return false;
    if (job->gpu == NULL) return gw_fail(err, GW_E_UNSUPPORTED, "job %s has no code for GPUs", job->name);
    if (compute->gpu_count == 0 && count > GW_DEVICE_PARTS)
        return gw_fail(err, GW_E_USAGE, "there are %u GPUs, and a peer can use %d: name them, as in cuda:0,1",
                       count, (int)GW_DEVICE_PARTS);
    for (uint32_t i = 0; compute->gpu_count == 0 && i < count; i++) compute->gpus[i] = (int)i;
    if (compute->gpu_count == 0) compute->gpu_count = count;
    for (uint32_t i = 0; i < compute->gpu_count; i++) {
        if ((uint32_t)compute->gpus[i] >= count)
            return gw_fail(err, GW_E_USAGE, "there is no GPU %d: this machine has the GPUs 0 to %u",
                           compute->gpus[i], count - 1);
        if (!gw_cuda_enough(&list[compute->gpus[i]], err)) return false;
    }
    name_gpus(compute, list);
    return gw_cuda_libraries(err);
}

/* Fills in the number of workers where it is 0, and checks that each GPU has one. */
static bool count_workers(gw_compute *compute, const gw_job_type *job, uint32_t *workers, gw_err *err) {
    bool cuda = compute->kind == GW_COMPUTE_CUDA;
    if (*workers == 0 && !cuda) *workers = cores(compute);
    if (*workers == 0) *workers = compute->gpu_count * (job->gpu->lanes > 0 ? job->gpu->lanes : GPU_WORKERS);
    if (!cuda || *workers >= compute->gpu_count) return true;
    return gw_fail(err, GW_E_USAGE, "--workers %u: each of %u GPUs needs at least one", *workers,
                   compute->gpu_count);
}

bool gw_compute_settle(gw_compute *compute, const gw_job_type *job, uint32_t *workers, gw_err *err) {
    if (compute->kind == GW_COMPUTE_CUDA && !usable(compute, job, err))
        return gw_fail_in(err, "--device cuda (--device cpu computes on the processors)");
    if (compute->kind == GW_COMPUTE_AUTO) {
        gw_err why;
        if (!compute->given_gpus) {
            compute->gpu_count = 1; /* only GPU 0: other processes may use the others */
            compute->gpus[0] = 0;
        }
        bool found = usable(compute, job, &why);
        bool says_why =
            !found && job != &gw_job_program; /* what a program computes on is its libraries' matter */
        if (!found)
            snprintf(compute->text, sizeof compute->text, "processors%s%.250s", says_why ? "; " : "",
                     says_why ? why.text : "");
        /* a user who has a GPU hardly wants the processors to compute */
        if (!found && job->gpu != NULL && gw_cuda_present())
            gw_log(GW_WARN, "godwit",
                   "this machine's GPUs cannot be used, and processors compute instead (--device cuda would "
                   "refuse that): %s",
                   why.text);
        compute->kind = found ? GW_COMPUTE_CUDA : GW_COMPUTE_CPU;
    } else if (compute->kind == GW_COMPUTE_CPU) {
        snprintf(compute->text, sizeof compute->text, "processors");
    }
    bool cuda = compute->kind == GW_COMPUTE_CUDA;
    if (!cuda && compute->precision != 0)
        return gw_fail(err, GW_E_USAGE,
                       "--precision is for GPUs (--device cuda): processors compute in fp32 and double");
    if (compute->precision == 0) compute->precision = GW_PRECISION_TF32;
    return count_workers(compute, job, workers, err);
}
