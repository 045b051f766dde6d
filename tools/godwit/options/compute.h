/* What a peer computes on: its processors, or some of its GPUs. */
#ifndef GODWIT_TOOLS_GODWIT_OPTIONS_COMPUTE_H
#define GODWIT_TOOLS_GODWIT_OPTIONS_COMPUTE_H

#include "core/gpu.h"
#include "kernels/device/device.h"
#include "kernels/math/blas.h"

enum { GW_MAX_WORKERS = GW_BLAS_THREADS };

typedef enum gw_compute_kind {
    GW_COMPUTE_AUTO = 0, /* a GPU if one can be used and the job has code for it */
    GW_COMPUTE_CPU,
    GW_COMPUTE_CUDA,
} gw_compute_kind;

typedef struct gw_compute {
    gw_compute_kind kind;
    uint32_t gpu_count; /* number of GPUs; 0 = all of them (CUDA), or not settled yet (AUTO) */
    int gpus[GW_DEVICE_PARTS];
    bool given_gpus; /* AUTO: whoever started the peer gave it these GPUs; otherwise AUTO takes GPU 0 */
    uint32_t
        most_cores; /* processors that a scheduler gave this peer, whatever others it may use; 0 = not told */
    gw_precision precision; /* 0 = not given */
    /* after gw_compute_settle: a description for people, and for AUTO why no GPU is used */
    char text[300];
} gw_compute;

/* Parses a value of --device: "auto", "cpu", "cuda" (GPU 0), "cuda:2", "cuda:0,1,3" or "cuda:all". Sets
 * the kind and the GPUs. */
bool gw_compute_parse(const char *text, gw_compute *compute, gw_err *err);
/* Parses a value of --precision: "fp32", "tf32" or "bf16". */
bool gw_compute_parse_precision(const char *text, gw_compute *compute, gw_err *err);

/* Decides what the peer computes on. AUTO becomes CPU or CUDA, and a warning is logged where the machine
 * has GPUs that are not used. The text, the precision and, where it is 0, the number of workers are filled
 * in: one worker a processor core that the process has time for (gw_cores), or a few a GPU; at most
 * GW_MAX_WORKERS. Fails with GW_E_USAGE where options contradict each other, and with the GPU's error
 * where CUDA was asked for and cannot be used. */
bool gw_compute_settle(gw_compute *compute, const gw_job_type *job, uint32_t *workers, gw_err *err);

#endif
