/* Opens NCCL and the CUDA driver. */
#include "core/os/library.h"
#include "net/nccl/api.h"

#include <stdio.h>

static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
                                      "/usr/local/nvidia/lib64", NULL};

#define NCCL(field, symbol)                                                                                  \
    { #symbol, offsetof(gw_nccl_api, field), false }
static const gw_library_function nccl_functions[] = {
    NCCL(get_version, ncclGetVersion),
    NCCL(get_unique_id, ncclGetUniqueId),
    NCCL(comm_init_rank_config, ncclCommInitRankConfig),
    NCCL(comm_get_async_error, ncclCommGetAsyncError),
    NCCL(comm_abort, ncclCommAbort),
    NCCL(all_reduce, ncclAllReduce),
    NCCL(group_start, ncclGroupStart),
    NCCL(group_end, ncclGroupEnd),
    NCCL(get_error_string, ncclGetErrorString),
    NCCL(get_last_error, ncclGetLastError),
};

#define CUDA(field, symbol)                                                                                  \
    { #symbol, offsetof(gw_cuda_api, field), false }
static const gw_library_function cuda_functions[] = {
    CUDA(init, cuInit),
    CUDA(device_get, cuDeviceGet),
    CUDA(primary_context_retain, cuDevicePrimaryCtxRetain),
    CUDA(primary_context_release, cuDevicePrimaryCtxRelease_v2),
    CUDA(context_set_current, cuCtxSetCurrent),
    CUDA(event_create, cuEventCreate),
    CUDA(event_record, cuEventRecord),
    CUDA(event_query, cuEventQuery),
    CUDA(event_destroy, cuEventDestroy_v2),
    CUDA(stream_create, cuStreamCreate),
    CUDA(stream_query, cuStreamQuery),
    CUDA(stream_destroy, cuStreamDestroy_v2),
    CUDA(get_error_string, cuGetErrorString),
};

enum { NEW_NUMBERS = 10000 }; /* NCCL counts 2.8.4 as 2804, 2.9.6 as 20906 */

void gw_nccl_version_text(int version, char text[24]) {
    int major = version < NEW_NUMBERS ? 1000 : 10000;
    snprintf(text, 24, "%d.%d.%d", version / major, version % major / 100, version % 100);
}

bool gw_nccl_judge(int version, char warning[160], gw_err *err) {
    char text[24], oldest[24];
    gw_nccl_version_text(version, text);
    gw_nccl_version_text(GW_NCCL_OLDEST, oldest);
    warning[0] = '\0';
    if (version < GW_NCCL_OLDEST)
        return gw_fail(err, GW_E_UNSUPPORTED, "NCCL %s is too old: %s at least is needed", text, oldest);
    if (version >= GW_NCCL_CRASHES_FROM && version <= GW_NCCL_CRASHES_TO)
        snprintf(warning, 160,
                 "NCCL %s is known to crash when a peer dies (2.28.3 to 2.28.8): use 2.28.9 or later", text);
    return true;
}

bool gw_nccl_load(gw_nccl_api *api, gw_nccl_found *found, gw_err *err) {
    const gw_library_wanted wanted = {
        .file = "libnccl.so.2",
        .variable = "GODWIT_NCCL",
        .folders = folders,
        .advice = "install NCCL 2.27 or later (package libnccl2), or name the file in GODWIT_NCCL",
        .functions = nccl_functions,
        .function_count = sizeof nccl_functions / sizeof nccl_functions[0],
    };
    if (!gw_library_open(&wanted, api, found->path, err)) return false;
    int result = api->get_version(&found->version);
    if (result != GW_NCCL_SUCCESS)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s: ncclGetVersion: %s", found->path,
                       api->get_error_string(result));
    return gw_nccl_judge(found->version, found->warning, err) || gw_fail_in(err, "%s", found->path);
}

const char *gw_cuda_text(const gw_cuda_api *api, int result) {
    const char *text = NULL;
    if (api->get_error_string(result, &text) != GW_CUDA_SUCCESS || text == NULL) return "an unknown error";
    return text;
}

bool gw_cuda_load(gw_cuda_api *api, gw_err *err) {
    const gw_library_wanted wanted = {
        .file = "libcuda.so.1",
        .folders = folders,
        .advice = "install NVIDIA's driver",
        .functions = cuda_functions,
        .function_count = sizeof cuda_functions / sizeof cuda_functions[0],
    };
    char path[GW_LIBRARY_PATH];
    if (!gw_library_open(&wanted, api, path, err)) return false;
    int result = api->init(0);
    if (result != GW_CUDA_SUCCESS)
        return gw_fail(err, GW_E_UNSUPPORTED, "%s: cuInit: %s", path, gw_cuda_text(api, result));
    return true;
}
