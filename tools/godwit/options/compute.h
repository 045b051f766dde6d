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
    uint32_t gpu_count; /* CUDA: 0: all there are; and for AUTO, until it is settled */
    int gpus[GW_DEVICE_PARTS];
    gw_precision precision; /* 0: not given */
    char text[300];         /* settled: what a person calls it, and for AUTO why it is no GPU */
} gw_compute;

/* "auto", "cpu", "cuda" (GPU 0), "cuda:2", "cuda:0,1,3" or "cuda:all", as --device takes it; changes kind and
 * GPUs. */
bool gw_compute_parse(const char *text, gw_compute *compute, gw_err *err);
/* "fp32", "tf32" or "bf16", as --precision takes it. */
bool gw_compute_parse_precision(const char *text, gw_compute *compute, gw_err *err);

/* Makes AUTO one of the other two, and logs a warning where it passes over GPUs that are there; fills in the
 * text, the precision and, where it is 0, the number of workers: one a processor core that there is time
 * for (gw_cores), or a few a GPU, which needs one at least; no more than GW_MAX_WORKERS. Fails with
 * GW_E_USAGE where the wishes exclude each other, and as the GPU does where CUDA was asked for and cannot be
 * had. */
bool gw_compute_settle(gw_compute *compute, const gw_job_type *job, uint32_t *workers, gw_err *err);

#endif
