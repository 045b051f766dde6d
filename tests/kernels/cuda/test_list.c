/* GPUs and libraries of this machine. These tests pass with a GPU, without one, and in a build without CUDA.
 */
#include "kernels/cuda/runtime/cuda.h"
#include "kernels/cuda/runtime/driver.h"
#include "kernels/cuda/runtime/library.h"

#include "scratch.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(cuda_list, lists_gpus_or_says_what_is_missing) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count = 7;
    gw_err err = {0};
    if (!gw_cuda_list(list, &count, &err)) {
        cr_assert_eq(count, 0);
        cr_assert_eq(err.code, GW_E_UNSUPPORTED);
        cr_assert(strstr(err.text, "driver") || strstr(err.text, "GPU") || strstr(err.text, "nvcc"), "%s",
                  err.text);
        return;
    }
    cr_assert(count >= 1 && count <= GW_CUDA_GPUS);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(list[i].ordinal, i);
        cr_assert_gt(list[i].sms, 0);
        cr_assert_gt(list[i].memory_bytes, 0);
        cr_assert_gt(list[i].major, 0);
        cr_assert_neq(list[i].name[0], '\0');
    }
}

/* Needs no GPU. */
Test(cuda_list, a_gpu_that_is_too_old_is_named) {
    gw_err err = {0};
    gw_cuda_info old = {.ordinal = 3, .name = "NVIDIA T4", .major = 7, .minor = 5};
    cr_assert_not(gw_cuda_enough(&old, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
#ifdef GODWIT_CUDA
    cr_assert(strstr(err.text, "GPU 3") && strstr(err.text, "NVIDIA T4") && strstr(err.text, "7.5"), "%s",
              err.text);
    cr_assert(gw_cuda_enough(&(gw_cuda_info){.name = "NVIDIA A100", .major = 8}, &err));
    cr_assert(gw_cuda_enough(&(gw_cuda_info){.name = "NVIDIA H200", .major = 9}, &err));
#endif
}

/* Needs no GPU. The message names a library that cannot be opened and where it was looked for. */
Test(cuda_list, libraries_can_be_opened_or_are_named) {
    gw_err err;
    if (gw_cuda_libraries(&err)) return;
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "nvcc") ||
                  (strstr(err.text, "libcublasLt.so") && strstr(err.text, "LD_LIBRARY_PATH")),
              "%s", err.text);
}

#ifdef GODWIT_CUDA
/* A library that exists on every machine. */
static void copy_library(const char *file) {
    struct link_map *map = NULL;
    void *any = dlopen("libz.so.1", RTLD_LAZY);
    cr_assert(any != NULL && dlinfo(any, RTLD_DI_LINKMAP, &map) == 0);
    FILE *from = fopen(map->l_name, "rb"), *to = fopen(file, "wb");
    cr_assert(from != NULL && to != NULL, "%s", map->l_name);
    char bytes[4096];
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, from)) > 0;)
        cr_assert_eq(fwrite(bytes, 1, got, to), got);
    fclose(from);
    cr_assert_eq(fclose(to), 0);
}

/* Makes and opens a library like the driver's: the link `name` leads to `file`. */
static void *open_driver(const char *file, const char *name) {
    copy_library(file);
    cr_assert_eq(symlink(file, name), 0);
    return dlopen(name, RTLD_LAZY);
}

Test(cuda_list, the_version_of_a_library_is_in_its_files_name, .init = scratch_open, .fini = scratch_close) {
    char text[40], file[300], name[300];
    snprintf(file, sizeof file, "%s", scratch_path("libdriver.so.580.95.05"));
    snprintf(name, sizeof name, "%s", scratch_path("libdriver.so.1"));
    cr_expect_not(gw_cuda_library_version(name, text, sizeof text)); /* it is not open */
    cr_assert_not_null(open_driver(file, name), "%s", dlerror());
    cr_expect(gw_cuda_library_version(name, text, sizeof text));
    cr_expect_str_eq(text, "580.95.05");
    cr_expect_not(gw_cuda_library_version("libc.so.6", text, sizeof text), "%s", text);
    cr_expect_not(gw_cuda_library_version("libgodwit-none.so.1", text, sizeof text));
    cr_expect_str_eq(text, "");
    gw_cuda_driver_build(text, sizeof text);
    cr_expect(strcmp(text, "unknown") == 0 || strchr(text, '.') != NULL, "%s", text);
}

Test(cuda_list, a_library_of_the_toolkit_is_searched_for_in_the_toolkits_folders, .init = scratch_open,
     .fini = scratch_close) {
    const gw_library_wanted wanted = {.file = "libgodwit-some.so"};
    char file[400];
    gw_err err;
    cr_assert_eq(setenv("CUDA_HOME", "/nonexistent/home", 1), 0);
    cr_assert_eq(setenv("CUDA_PATH", scratch_path("toolkit"), 1), 0);
    cr_assert_not(gw_cuda_library_open(&wanted, NULL, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
    cr_assert(strstr(err.text, "/nonexistent/home/lib64") && strstr(err.text, "the CUDA toolkit") &&
                  strstr(err.text, "/toolkit/lib64") && strstr(err.text, "/usr/local/cuda/lib64"),
              "%s", err.text);
    cr_assert_eq(mkdir(scratch_path("toolkit"), 0700), 0);
    cr_assert_eq(mkdir(scratch_path("toolkit/lib64"), 0700), 0);
    snprintf(file, sizeof file, "%s", scratch_path("toolkit/lib64/libgodwit-some.so"));
    copy_library(file);
    cr_assert(gw_cuda_library_open(&wanted, NULL, &err), "%s", err.text);
}
#endif

Test(cuda_list, versions) {
    gw_cuda_versions found = gw_cuda_versions_found();
#ifdef GODWIT_CUDA
    cr_assert_geq(found.runtime, 12000);
#else
    cr_assert_eq(found.runtime, 0);
#endif
    cr_assert(found.driver == 0 || found.driver >= 10000);
}
