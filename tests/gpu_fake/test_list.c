/* Drivers that cannot run this program. */
#include "tests/gpu_fake/fake_cuda.h"

#include "kernels/cuda/runtime/cuda.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is said of a driver that knows CUDA up to `version`; "": there are GPUs. */
static const char *said_of(int version) {
    static gw_err err;
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    char text[16];
    err = (gw_err){0};
    snprintf(text, sizeof text, "%d", version);
    cr_assert_eq(setenv("FAKE_CUDA_DRIVER", text, 1), 0);
    bool listed = gw_cuda_list(list, &count, &err);
    cr_assert_eq(count > 0, listed);
    cr_assert_eq(err.code, listed ? GW_OK : GW_E_UNSUPPORTED, "%s", err.text);
    cr_assert_eq(cudaGetLastError(), cudaSuccess); /* nobody takes it for an error of what comes next */
    return err.text;
}

/* What there is, what is needed, and what to do. */
Test(gpu_list, a_driver_that_is_too_old) {
    int major = CUDART_VERSION / 1000;
    char needed[40];
    snprintf(needed, sizeof needed, "this program needs %d.0;", major);
    const char *said = said_of(12040);
    cr_expect_not_null(strstr(said, "driver is too old: it supports CUDA 12.4,"), "%s", said);
    cr_expect_not_null(strstr(said, needed), "%s", said);
    cr_expect_not_null(strstr(said, "install a newer NVIDIA driver"), "%s", said);
    if (major == 13) cr_expect_not_null(strstr(said, "580 or later"), "%s", said);
}

Test(gpu_list, a_driver_that_is_missing) {
    const char *said = said_of(0);
    cr_expect_not_null(strstr(said, "no NVIDIA driver was found (libcuda.so.1)"), "%s", said);
}

Test(gpu_list, a_driver_of_the_same_major_version_is_enough) {
    cr_expect_str_eq(said_of(CUDART_VERSION / 1000 * 1000), "");
    cr_expect_eq(gw_cuda_versions_found().driver, CUDART_VERSION / 1000 * 1000);
}
