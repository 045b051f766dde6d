#include "tools/godwit/command/devices_gpus.h"

#include "core/base/assert.h"
#include "kernels/cuda/runtime/cuda.h"
#include "net/nccl/api.h"
#include "tools/godwit/text/json.h"
#include "tools/godwit/text/wrap.h"
#include "tools/godwit/watch/nvml.h"

#include <stdio.h>
#include <stdlib.h>

struct gw_gpu_survey {
    gw_cuda_info gpus[GW_CUDA_GPUS];
    uint32_t count;
    gw_err missing; /* why there are no GPUs */
    gw_cuda_versions cuda;
    gw_nvml *nvml;
    gw_err nvml_missing;
    char driver[80];
    bool has_nccl, has_cublas;
    gw_nccl_found nccl;
    gw_err nccl_missing, cublas_missing;
};

static void look_with_nvml(gw_gpu_survey *s) {
    gw_nvml_api api;
    const char *buses[GW_CUDA_GPUS];
    if (!gw_nvml_load(&api, &s->nvml_missing) || s->count == 0) return;
    for (uint32_t i = 0; i < s->count; i++) buses[i] = s->gpus[i].bus;
    s->nvml = gw_nvml_open(&api, buses, s->count, &s->nvml_missing);
    if (s->nvml) gw_nvml_driver(s->nvml, s->driver);
}

gw_gpu_survey *gw_gpu_survey_take(void) {
    gw_nccl_api api;
    gw_gpu_survey *s = calloc(1, sizeof *s);
    GW_ASSERT_MEMORY(s != NULL);
    if (!gw_cuda_list(s->gpus, &s->count, &s->missing)) s->count = 0;
    s->cuda = gw_cuda_versions_found();
    s->has_nccl = gw_nccl_load(&api, &s->nccl, &s->nccl_missing);
    s->has_cublas = gw_cuda_libraries(&s->cublas_missing);
    look_with_nvml(s);
    return s;
}

void gw_gpu_survey_free(gw_gpu_survey *s) {
    gw_nvml_close(s->nvml);
    free(s);
}

bool gw_gpu_survey_usable(const gw_gpu_survey *s) {
    bool any = false;
    for (uint32_t i = 0; i < s->count; i++) any = any || gw_cuda_enough(&s->gpus[i], &(gw_err){0});
    return any && s->has_cublas;
}

/* CUDA counts 13.0 as 13000, cuBLAS 13.1.2 as 130102. */
static const char *cuda_text(uint32_t version, char text[16]) {
    snprintf(text, 16, "%u.%u", version / 1000, version % 1000 / 10);
    return text;
}

static const char *cublas_text(char text[24]) {
    uint32_t version = gw_cuda_cublaslt_version();
    snprintf(text, 24, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    return text;
}

/* Text for people, at most 80 columns wide. */

static void print_paths(const gw_gpu_survey *s) {
    if (s->nvml == NULL || s->count < 2) return;
    for (uint32_t a = 0; a < s->count; a++) {
        printf("  GPU %u reaches", s->gpus[a].ordinal);
        for (uint32_t b = 0; b < s->count; b++)
            if (a != b) printf(" %u:%s", s->gpus[b].ordinal, gw_nvml_path(s->nvml, a, b));
        puts("");
    }
}

static void print_library(const char *name, bool has, const char *version, const char *path,
                          const gw_err *missing) {
    if (has) {
        printf("%s %s", name, version);
        if (path != NULL) printf(" (%s)", path);
        puts("");
        return;
    }
    printf("%s cannot be used:\n", name);
    gw_print_wrapped("  ", missing->text);
}

static void print_gpus(const gw_gpu_survey *s) {
    char driver[16], runtime[16];
    gw_err why;
    for (uint32_t i = 0; i < s->count; i++) {
        const gw_cuda_info *gpu = &s->gpus[i];
        if (gpu->trouble.code != GW_OK) {
            printf("GPU %u  cannot be used:\n", gpu->ordinal);
            gw_print_wrapped("  ", gpu->trouble.text);
            continue;
        }
        printf("GPU %u  %s%s at %s\n", gpu->ordinal, gpu->name, gpu->mig ? " (a MIG slice)" : "", gpu->bus);
        printf("  SM %u.%u, %u multiprocessors, %.1f GB of memory, %.0f MB of L2\n", gpu->major, gpu->minor,
               gpu->sms, (double)gpu->memory_bytes * 1e-9, gpu->l2_bytes * 1e-6);
        if (!gw_cuda_enough(gpu, &why)) gw_print_wrapped("  ! ", why.text);
    }
    print_paths(s);
    if (s->count == 0) {
        puts("GPUs cannot be used:");
        gw_print_wrapped("  ", s->missing.text);
        return;
    }
    printf("driver %s, for CUDA up to %s; this program is built with %s\n",
           s->driver[0] ? s->driver : "unknown", cuda_text(s->cuda.driver, driver),
           cuda_text(s->cuda.runtime, runtime));
    if (s->nvml == NULL) {
        puts("the load, temperature and errors of GPUs cannot be read:");
        gw_print_wrapped("  ", s->nvml_missing.text);
    }
}

void gw_gpu_survey_print(const gw_gpu_survey *s) {
    char text[24];
    print_gpus(s);
    print_library("cuBLASLt", s->has_cublas, cublas_text(text), NULL, &s->cublas_missing);
    gw_nccl_version_text(s->nccl.version, text);
    print_library("NCCL", s->has_nccl, text, s->nccl.path, &s->nccl_missing);
    if (s->has_nccl && s->nccl.warning[0] != '\0') gw_print_wrapped("  ! ", s->nccl.warning);
    puts("");
}

/* JSON for programs. */

static json_t *gpu_json(const gw_gpu_survey *s, uint32_t index) {
    const gw_cuda_info *gpu = &s->gpus[index];
    json_t *object = json_object(), *paths = json_object();
    char text[24];
    gw_err why;
    gw_json_count(object, "gpu", gpu->ordinal);
    gw_json_text(object, "name", gpu->name);
    gw_json_text(object, "bus", gpu->bus);
    snprintf(text, sizeof text, "%u.%u", gpu->major, gpu->minor);
    gw_json_text(object, "sm", text);
    gw_json_count(object, "multiprocessors", gpu->sms);
    gw_json_count(object, "memory_bytes", gpu->memory_bytes);
    gw_json_count(object, "l2_bytes", gpu->l2_bytes);
    gw_json_flag(object, "mig", gpu->mig);
    if (!gw_cuda_enough(gpu, &why)) gw_json_text(object, "error", why.text);
    for (uint32_t other = 0; s->nvml != NULL && other < s->count; other++) {
        if (other == index) continue;
        snprintf(text, sizeof text, "%u", s->gpus[other].ordinal);
        gw_json_text(paths, text, gw_nvml_path(s->nvml, index, other));
    }
    json_object_set_new(object, "reaches", paths);
    return object;
}

static json_t *library_json(bool has, const char *version, const char *path, const gw_err *missing) {
    json_t *object = json_object();
    if (has) {
        gw_json_text(object, "version", version);
        if (path != NULL) gw_json_text(object, "path", path);
    } else {
        gw_json_text(object, "error", missing->text);
    }
    return object;
}

void gw_gpu_survey_json(const gw_gpu_survey *s, json_t *object) {
    json_t *list = json_array();
    char text[24], version[16];
    for (uint32_t i = 0; i < s->count; i++) json_array_append_new(list, gpu_json(s, i));
    json_object_set_new(object, "gpus", list);
    gw_json_flag(object, "gpu_usable", gw_gpu_survey_usable(s));
    if (s->count == 0) gw_json_text(object, "gpu_error", s->missing.text);
    if (s->count > 0 && s->nvml == NULL) gw_json_text(object, "nvml_error", s->nvml_missing.text);
    if (s->driver[0] != '\0') gw_json_text(object, "driver", s->driver);
    if (s->cuda.driver != 0) gw_json_text(object, "driver_cuda", cuda_text(s->cuda.driver, version));
    if (s->cuda.runtime != 0) gw_json_text(object, "cuda", cuda_text(s->cuda.runtime, version));
    json_t *cublas = library_json(s->has_cublas, cublas_text(text), NULL, &s->cublas_missing);
    json_object_set_new(object, "cublaslt", cublas);
    gw_nccl_version_text(s->nccl.version, text);
    json_t *nccl = library_json(s->has_nccl, text, s->nccl.path, &s->nccl_missing);
    if (s->has_nccl && s->nccl.warning[0] != '\0') gw_json_text(nccl, "warning", s->nccl.warning);
    json_object_set_new(object, "nccl", nccl);
}
