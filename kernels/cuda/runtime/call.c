#include "kernels/cuda/runtime/call.h"

#include <stdarg.h>
#include <stdio.h>

bool gw_cuda_broken(cudaError_t status) {
    switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
        return true;
    default:
        return false;
    }
}

bool gw_cuda_sticky(cudaError_t status) {
    switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorUnknown:
        return true;
    default:
        return gw_cuda_broken(status);
    }
}

static gw_code code_of(cudaError_t status) {
    switch (status) {
    case cudaErrorMemoryAllocation:
        return GW_E_NOMEM;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorCompatNotSupportedOnDevice:
        return GW_E_UNSUPPORTED;
    default:
        return GW_E_IO;
    }
}

/* What a person can do about the error; "" where CUDA's own message is enough. */
static const char *advice(cudaError_t status) {
    switch (status) {
    case cudaErrorMemoryAllocation:
        return GW_CUDA_LESS_MEMORY;
    case cudaErrorNoKernelImageForDevice:
        return "; this build has no code for this GPU: configure with -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return "; install a newer NVIDIA driver";
    case cudaErrorSystemNotReady: /* returned on NVSwitch machines until their fabric is up */
        return "; start nvidia-fabricmanager (of the driver's version), or wait until it is ready";
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
        return "; its memory is damaged: reset the GPU or take the node out (nvidia-smi -q -d ECC)";
    case cudaErrorDevicesUnavailable: /* in mode EXCLUSIVE_PROCESS, returned to all processes but one */
        return "; another process may use the GPU exclusively, or its compute mode may forbid all use: the "
               "mode must be Default (nvidia-smi -q -d COMPUTE), or that process must end";
    case cudaErrorExternalDevice:
    case cudaErrorNvlinkUncorrectable:
        return "; the GPU is lost to this process: see dmesg for Xid messages, and nvidia-smi";
    default:
        return gw_cuda_sticky(status) ? "; this process cannot use the GPU any more" : "";
    }
}

bool gw_cuda_try(int gpu, cudaError_t status, gw_err *err, const char *call, ...) {
    if (status == cudaSuccess) return true;
    (void)cudaGetLastError(); /* otherwise the next call that asks would find this error */
    char what[200], where[32] = "CUDA";
    va_list arguments;
    va_start(arguments, call);
    vsnprintf(what, sizeof what, call, arguments);
    va_end(arguments);
    if (gpu >= 0) snprintf(where, sizeof where, "GPU %d", gpu);
    return gw_fail(err, code_of(status), "%s: %s: %s (%s)%s", where, what, cudaGetErrorString(status),
                   cudaGetErrorName(status), advice(status));
}
