/* NVIDIA GPUs: which there are, and why one cannot be used. The CUDA runtime is linked statically and finds
 * the driver by itself, so that the same program starts on a node that has neither driver nor GPU. A build
 * made without nvcc has none of this: there every function fails with GW_E_UNSUPPORTED and says so. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_CUDA_H
#define GODWIT_KERNELS_CUDA_RUNTIME_CUDA_H

#include "core/base/err.h"

#include <stdint.h>

enum {
    GW_CUDA_GPUS = 64,       /* of one machine, at most */
    GW_CUDA_LEAST_MAJOR = 8, /* of compute capability: from Ampere on products know TF32 and bfloat16 */
};

typedef struct gw_cuda_info {
    uint32_t ordinal;      /* as in --device cuda:N; CUDA_VISIBLE_DEVICES renumbers */
    char name[96];         /* "NVIDIA H200" */
    char bus[16];          /* PCI address, "0000:3b:00.0" */
    uint32_t major, minor; /* compute capability: 9.0 */
    uint32_t sms;          /* streaming multiprocessors */
    uint64_t memory_bytes;
    uint32_t l2_bytes;
    bool mig; /* a slice of a GPU */
    gw_err
        trouble; /* code not GW_OK: the driver cannot tell of it, and only ordinal and name mean something */
} gw_cuda_info;

/* Versions as CUDA counts them: 13000 is 13.0. 0: there is none. */
typedef struct gw_cuda_versions {
    uint32_t driver;  /* the newest CUDA that the installed driver knows */
    uint32_t runtime; /* what this program was built with */
} gw_cuda_versions;

/* Any thread. Fills list[0 .. *count) in order of ordinals; there is at least one on success, and some may be
 * in trouble. Fails with
 * GW_E_UNSUPPORTED when the build has no CUDA, the driver is missing or too old, or there is no GPU, and
 * GW_E_IO when the driver fails; the text says what to do. Does not occupy the GPUs' memory. */
bool gw_cuda_list(gw_cuda_info list[GW_CUDA_GPUS], uint32_t *count, gw_err *err);

/* Any thread. Whether GPUs are there as far as the driver can tell, although they may be of no use: it is not
 * ready, too old, or fails. */
bool gw_cuda_present(void);

/* Any thread. Whether jobs can compute on such a GPU; if not, its trouble, or GW_E_UNSUPPORTED if it is too
 * old. */
bool gw_cuda_enough(const gw_cuda_info *gpu, gw_err *err);

/* Any thread. Whether the libraries that jobs on GPUs need (cuBLASLt) can be opened; if not, the text says
 * which one is missing or too old, and where it was looked for. */
bool gw_cuda_libraries(gw_err *err);
/* Any thread. The version of cuBLASLt that gw_cuda_libraries has opened, as it counts: 130102 is 13.1.2. 0:
 * none. */
uint32_t gw_cuda_cublaslt_version(void);

/* Any thread; never fails. */
gw_cuda_versions gw_cuda_versions_found(void);

#endif
