/* NCCL, and the few functions of the CUDA driver that it needs, as tables of functions. They are opened while
 * the program runs; tests provide their own.
 *
 * The types are those of the libraries' binary interfaces (nccl.h since 2.27, and cuda.h), declared here so
 * that a build needs neither header. A test compares them with nccl.h where that is installed. */
#ifndef GODWIT_NET_NCCL_API_H
#define GODWIT_NET_NCCL_API_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    GW_NCCL_OLDEST = 22700, /* version numbers: major x 10000 + minor x 100 + patch */
    GW_NCCL_CRASHES_FROM = 22803,
    GW_NCCL_CRASHES_TO = 22808,
    GW_NCCL_ID_BYTES = 128,
    GW_NCCL_MAGIC = (int)0xcafebeef,
    GW_NCCL_UNDEFINED = INT32_MIN, /* the value of a configuration's field that stands for NCCL's default */
};

typedef enum gw_nccl_result {
    GW_NCCL_SUCCESS = 0,
    GW_NCCL_REMOTE_ERROR = 6,
    GW_NCCL_IN_PROGRESS = 7,
} gw_nccl_result; /* other values are failures, which only their text tells apart */

typedef enum gw_nccl_type { GW_NCCL_INT32 = 2, GW_NCCL_INT64 = 4, GW_NCCL_FLOAT32 = 7 } gw_nccl_type;
enum { GW_NCCL_SUM = 0, GW_NCCL_MAX = 2 };

typedef struct gw_nccl_id {
    char bytes[GW_NCCL_ID_BYTES];
} gw_nccl_id;

typedef struct gw_nccl_comm gw_nccl_comm; /* NCCL's communicator, one for each GPU */

/* ncclConfig_t as of 2.27. A later library knows by `size` and `version` which fields are missing. */
typedef struct gw_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share, traffic_class;
    const char *comm_name;
    int collnet_enable, cta_policy, shrink_share, nvls_ctas;
} gw_nccl_config;

/* NCCL's functions return gw_nccl_result, the driver's CUresult; 0 is success. */
typedef struct gw_nccl_api {
    int (*get_version)(int *version);
    int (*get_unique_id)(gw_nccl_id *id);
    int (*comm_init_rank_config)(gw_nccl_comm **comm, int ranks, gw_nccl_id id, int rank,
                                 gw_nccl_config *config);
    int (*comm_get_async_error)(gw_nccl_comm *comm, int *result);
    int (*comm_abort)(gw_nccl_comm *comm);
    int (*all_reduce)(const void *send, void *receive, size_t count, int type, int op, gw_nccl_comm *comm,
                      void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(gw_nccl_comm *comm);
} gw_nccl_api;

enum {
    GW_CUDA_SUCCESS = 0,
    GW_CUDA_NOT_READY = 600,
    GW_CUDA_STREAM_OWN = 1, /* the stream is not ordered with the default stream */
    GW_CUDA_EVENT_NO_TIMING = 2,
};

typedef struct gw_cuda_api {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*primary_context_retain)(void **context, int device);
    int (*primary_context_release)(int device);
    int (*context_set_current)(void *context);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_destroy)(void *event);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_query)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*get_error_string)(int result, const char **text);
} gw_cuda_api;

typedef struct gw_nccl_found {
    int version;
    char path[256];
    char warning[160]; /* a warning about this version; empty: none */
} gw_nccl_found;

/* Opens libnccl.so.2 (GODWIT_NCCL names another file). Fails with GW_E_UNSUPPORTED if it is missing or
 * older than GW_NCCL_OLDEST; the text says where it looked and what to do. Needs no GPU and no driver. Any
 * thread. */
bool gw_nccl_load(gw_nccl_api *api, gw_nccl_found *found, gw_err *err);
/* Judges a version. False, and *err, if it is too old; else fills in `warning`, which may be empty. */
bool gw_nccl_judge(int version, char warning[160], gw_err *err);
/* Writes a version as text, such as "2.28.9". */
void gw_nccl_version_text(int version, char text[24]);

/* Opens libcuda.so.1, which comes with NVIDIA's driver, and initialises it. Fails with GW_E_UNSUPPORTED if
 * there is no driver or no GPU. */
bool gw_cuda_load(gw_cuda_api *api, gw_err *err);
/* The text for a result of the driver. */
const char *gw_cuda_text(const gw_cuda_api *api, int result);

#endif
