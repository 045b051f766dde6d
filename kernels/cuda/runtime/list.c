#include "kernels/cuda/runtime/call.h"
#include "kernels/cuda/runtime/cuda.h"

#include <stdio.h>
#include <string.h>

gw_cuda_versions gw_cuda_versions_found(void) {
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
    (void)cudaGetLastError();
    return (gw_cuda_versions){(uint32_t)driver, (uint32_t)runtime};
}

/* A driver runs programs built with the CUDA that it supports, with earlier ones, and with others of the same
 * major version. */
static bool too_old(gw_cuda_versions found, gw_err *err) {
    uint32_t needed = found.runtime / 1000;
    return gw_fail(
        err, GW_E_UNSUPPORTED,
        "the NVIDIA driver is too old: it supports CUDA %u.%u, and this program needs %u.0; install a "
        "newer NVIDIA driver%s",
        found.driver / 1000, found.driver % 1000 / 10, needed, needed == 13 ? " (580 or later)" : "");
}

/* Fails with the reason why there is no GPU to list. */
static bool explain(cudaError_t status, gw_err *err) {
    gw_cuda_versions found = gw_cuda_versions_found();
    (void)cudaGetLastError();
    if (status == cudaErrorInsufficientDriver && found.driver == 0)
        return gw_fail(err, GW_E_UNSUPPORTED, "no NVIDIA driver was found (libcuda.so.1)");
    if (status == cudaErrorInsufficientDriver) return too_old(found, err);
    if (status == cudaErrorNoDevice || status == cudaSuccess)
        return gw_fail(err, GW_E_UNSUPPORTED,
                       "no NVIDIA GPU was found (see nvidia-smi; CUDA_VISIBLE_DEVICES may hide them)");
    return gw_cuda_try(-1, status, err, "cudaGetDeviceCount");
}

/* Describes a GPU. Where the driver cannot, info->trouble has the reason, and the list goes on. */
static void describe(int ordinal, gw_cuda_info *info) {
    struct cudaDeviceProp properties;
    *info = (gw_cuda_info){.ordinal = (uint32_t)ordinal, .name = "unknown"};
    if (!gw_cuda_try(ordinal, cudaGetDeviceProperties(&properties, ordinal), &info->trouble,
                     "cudaGetDeviceProperties"))
        return;
    *info = (gw_cuda_info){.ordinal = (uint32_t)ordinal,
                           .major = (uint32_t)properties.major,
                           .minor = (uint32_t)properties.minor,
                           .sms = (uint32_t)properties.multiProcessorCount,
                           .memory_bytes = properties.totalGlobalMem,
                           .l2_bytes = (uint32_t)properties.l2CacheSize};
    snprintf(info->name, sizeof info->name, "%.95s", properties.name);
    snprintf(info->bus, sizeof info->bus, "%04x:%02x:%02x.0", (unsigned)properties.pciDomainID & 0xffffu,
             (unsigned)properties.pciBusID & 0xffu, (unsigned)properties.pciDeviceID & 0xffu);
    info->mig = strstr(info->name, " MIG ") != NULL; /* the runtime shows it in the name only */
}

bool gw_cuda_present(void) {
    int found = 0;
    cudaError_t status = cudaGetDeviceCount(&found);
    (void)cudaGetLastError();
    if (status == cudaErrorInsufficientDriver) return gw_cuda_versions_found().driver != 0;
    return status == cudaSuccess ? found > 0 : status != cudaErrorNoDevice;
}

bool gw_cuda_enough(const gw_cuda_info *gpu, gw_err *err) {
    if (gpu->trouble.code != GW_OK) {
        *err = gpu->trouble;
        return false;
    }
    if (gpu->major >= GW_CUDA_LEAST_MAJOR) return true;
    return gw_fail(err, GW_E_UNSUPPORTED,
                   "GPU %u, %s, is too old: its compute capability is %u.%u, and %d.0 is needed at least",
                   gpu->ordinal, gpu->name, gpu->major, gpu->minor, GW_CUDA_LEAST_MAJOR);
}

bool gw_cuda_list(gw_cuda_info list[GW_CUDA_GPUS], uint32_t *count, gw_err *err) {
    int found = 0;
    *count = 0;
    cudaError_t status = cudaGetDeviceCount(&found);
    if (status != cudaSuccess || found < 1) return explain(status, err);
    for (int ordinal = 0; ordinal < found && ordinal < GW_CUDA_GPUS; ordinal++)
        describe(ordinal, &list[ordinal]);
    *count = found < GW_CUDA_GPUS ? (uint32_t)found : GW_CUDA_GPUS;
    return true;
}
