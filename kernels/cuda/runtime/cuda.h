/* NVIDIA GPUs: which ones there are, and why one cannot be used. The CUDA runtime is linked statically and
 * looks for the driver itself, so that the program also starts on a machine that has neither driver nor GPU.
 * In a build without nvcc every function fails with GW_E_UNSUPPORTED and says so. */
#ifndef GODWIT_KERNELS_CUDA_RUNTIME_CUDA_H
#define GODWIT_KERNELS_CUDA_RUNTIME_CUDA_H

#include "core/base/err.h"

#include <stdint.h>

enum {
    GW_CUDA_GPUS = 64, /* the most GPUs of one machine */
    /* the least major compute capability: since Ampere, products support TF32 and bfloat16 */
    GW_CUDA_LEAST_MAJOR = 8,
};

typedef struct gw_cuda_info {
    uint32_t ordinal;      /* as in --device cuda:N, after the renumbering of CUDA_VISIBLE_DEVICES */
    char name[96];         /* "NVIDIA H200" */
    char bus[16];          /* PCI address, "0000:3b:00.0" */
    uint32_t major, minor; /* compute capability: 9.0 */
    uint32_t sms;          /* streaming multiprocessors */
    uint64_t memory_bytes;
    uint32_t l2_bytes;
    bool mig; /* a slice of a GPU (multi-instance GPU) */
    /* If its code is not GW_OK, the driver cannot describe the GPU, and only ordinal and name are set. */
    gw_err trouble;
} gw_cuda_info;

/* Versions as CUDA counts them: 13000 is 13.0. 0: none. */
typedef struct gw_cuda_versions {
    uint32_t driver;  /* the newest CUDA that the installed driver supports */
    uint32_t runtime; /* the CUDA that this program was built with */
} gw_cuda_versions;

/* Fills list[0 .. *count) in order of ordinals. On success there is at least one GPU; some may have
 * `trouble`. Fails with GW_E_UNSUPPORTED where the build has no CUDA, the driver is missing or too old, or
 * there is no GPU, and with GW_E_IO where the driver fails; the message says what to do. Takes no memory on
 * the GPUs. Any thread. */
bool gw_cuda_list(gw_cuda_info list[GW_CUDA_GPUS], uint32_t *count, gw_err *err);

/* Whether the machine has GPUs as far as the driver can tell, even if they cannot be used because the driver
 * is not ready, too old, or failing. Any thread. */
bool gw_cuda_present(void);

/* Whether jobs can compute on this GPU. Fails with the GPU's trouble, or with GW_E_UNSUPPORTED where it is
 * too old. Any thread. */
bool gw_cuda_enough(const gw_cuda_info *gpu, gw_err *err);

/* Whether the libraries that jobs on GPUs need (cuBLASLt) can be opened. The message of a failure says which
 * one is missing or too old, and where it was looked for. Any thread. */
bool gw_cuda_libraries(gw_err *err);
/* The version of cuBLASLt that gw_cuda_libraries has opened: 130102 is 13.1.2. 0: none. Any thread. */
uint32_t gw_cuda_cublaslt_version(void);

/* The versions found. Never fails. Any thread. */
gw_cuda_versions gw_cuda_versions_found(void);

#endif
