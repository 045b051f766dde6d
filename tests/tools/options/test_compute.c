/* The choice of the device. The tests run with a GPU, without one, and in a build without CUDA. */
#include "tools/godwit/options/compute.h"

#include "kernels/cuda/runtime/cuda.h"
#include "kernels/jobs/synthetic/synthetic.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool large_machine;
static const char *quota; /* control group of this process; NULL = the real one */

/* This function replaces the C library's. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
    memset(set, large_machine ? 0xff : 0, bytes);
    return large_machine || syscall(SYS_sched_getaffinity, pid, bytes, set) >= 0 ? 0 : -1;
}

/* This function replaces the C library's, too. */
FILE *fopen(const char *path, const char *mode) {
    static char list[] = "0::/\n", text[40];
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    if (quota == NULL) return real(path, mode);
    snprintf(text, sizeof text, "%s", quota);
    if (strcmp(path, "/proc/self/cgroup") == 0) return fmemopen(list, strlen(list), "r");
    if (strcmp(path, "/sys/fs/cgroup/cpu.max") == 0) return fmemopen(text, strlen(text), "r");
    return real(path, mode);
}

Test(compute, parses_devices) {
    gw_compute compute = {0};
    gw_err err;
    cr_assert(gw_compute_parse("cpu", &compute, &err));
    cr_assert_eq(compute.kind, GW_COMPUTE_CPU);
    cr_assert(gw_compute_parse("cuda", &compute, &err));
    cr_assert_eq(compute.kind, GW_COMPUTE_CUDA);
    cr_assert(compute.gpu_count == 1 && compute.gpus[0] == 0);
    cr_assert(gw_compute_parse("cuda:13", &compute, &err));
    cr_assert(compute.gpu_count == 1 && compute.gpus[0] == 13);
    cr_assert(gw_compute_parse("cuda:5,0,12", &compute, &err));
    cr_assert_eq(compute.gpu_count, 3);
    cr_assert(compute.gpus[0] == 5 && compute.gpus[1] == 0 && compute.gpus[2] == 12);
    cr_assert(gw_compute_parse("cuda:all", &compute, &err));
    cr_assert_eq(compute.gpu_count, 0);
    cr_assert(gw_compute_parse("auto", &compute, &err));
    cr_assert_eq(compute.kind, GW_COMPUTE_AUTO);
}

Test(compute, refuses_what_is_no_device) {
    static const char *const wrong[] = {
        "",        "gpu",     "cudax",      "cuda:",      "cuda:x",
        "cuda:1x", "cuda:-1", "cuda: 1",    "cuda:64",    "cuda:99999999999999999999",
        "cuda:0,", "cuda:,1", "cuda:0,1,0", "cuda:all,1", "cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        gw_compute compute = {0};
        gw_err err;
        cr_assert_not(gw_compute_parse(wrong[i], &compute, &err), "%s", wrong[i]);
        cr_assert_eq(err.code, GW_E_USAGE);
        cr_assert(strstr(err.text, wrong[i]), "%s", err.text);
    }
}

Test(compute, parses_precisions) {
    gw_compute compute = {0};
    gw_err err;
    cr_assert(gw_compute_parse_precision("fp32", &compute, &err));
    cr_assert_eq(compute.precision, GW_PRECISION_FP32);
    cr_assert(gw_compute_parse_precision("bf16", &compute, &err));
    cr_assert_eq(compute.precision, GW_PRECISION_BF16);
    cr_assert(gw_compute_parse_precision("tf32", &compute, &err));
    cr_assert_eq(compute.precision, GW_PRECISION_TF32);
    cr_assert_not(gw_compute_parse_precision("fp16", &compute, &err));
    cr_assert_eq(err.code, GW_E_USAGE);
}

static bool gpu_here(void) {
    gw_cuda_info list[GW_CUDA_GPUS];
    uint32_t count;
    gw_err err;
    return gw_cuda_list(list, &count, &err) && gw_cuda_libraries(&err);
}

Test(compute, settles_on_a_gpu_where_there_is_one) {
    gw_compute compute = {.kind = GW_COMPUTE_AUTO};
    uint32_t workers = 0;
    gw_err err;
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_assert_eq(compute.kind, gpu_here() ? GW_COMPUTE_CUDA : GW_COMPUTE_CPU);
    cr_assert(strstr(compute.text, gpu_here() ? "GPU 0" : "processors; "), "%s", compute.text);
    cr_assert_geq(workers, 1);
    workers = 5;
    compute.kind = GW_COMPUTE_AUTO;
    compute.precision = 0;
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_assert_eq(workers, 5);
}

Test(compute, there_are_no_more_workers_than_may_multiply_at_once) {
    gw_compute compute = {.kind = GW_COMPUTE_CPU};
    uint32_t workers = 0;
    gw_err err;
    large_machine = true;
    quota = "max 100000\n";
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_assert_eq(workers, GW_MAX_WORKERS);
    cr_assert_str_eq(compute.text, "processors");
}

/* A container has a share of a large machine. */
Test(compute, there_are_no_more_workers_than_a_quota_gives_time_to) {
    gw_compute compute = {.kind = GW_COMPUTE_CPU};
    uint32_t workers = 0;
    gw_err err;
    large_machine = true;
    quota = "250000 100000\n";
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_expect_eq(workers, 3);
    cr_expect_str_eq(compute.text, "processors; the container's quota allows the time of 3 of 1024 cores");
    workers = 7;
    compute.precision = 0;
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_expect_eq(workers, 7, "who says how many gets them");
}

/* Without affinity or groups a task sees the whole machine. */
Test(compute, there_are_no_more_workers_than_a_scheduler_gave_cores) {
    gw_compute compute = {.kind = GW_COMPUTE_CPU, .most_cores = 6};
    uint32_t workers = 0;
    gw_err err;
    large_machine = true;
    quota = "1000000 100000\n";
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_expect_eq(workers, 6);
    cr_expect_not_null(strstr(compute.text, "; the scheduler gave this peer 6 of 10 cores"), "%s",
                       compute.text);
    compute = (gw_compute){.kind = GW_COMPUTE_CPU, .most_cores = 20};
    workers = 0;
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_expect_eq(workers, 10);
}

Test(compute, gpus_that_a_scheduler_gave_are_taken_or_none) {
    gw_compute compute = {.kind = GW_COMPUTE_AUTO, .given_gpus = true, .gpu_count = 1, .gpus = {63}};
    uint32_t workers = 0;
    gw_err err;
    cr_assert(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err), "%s", err.text);
    cr_expect_eq(compute.kind, GW_COMPUTE_CPU);
    cr_expect(!gpu_here() || strstr(compute.text, "there is no GPU 63") != NULL, "%s", compute.text);
}

Test(compute, a_job_without_code_for_gpus_computes_on_processors) {
    gw_job_type job = gw_job_synthetic;
    gw_compute compute = {.kind = GW_COMPUTE_AUTO};
    uint32_t workers = 0;
    gw_err err;
    job.gpu = NULL;
    cr_assert(gw_compute_settle(&compute, &job, &workers, &err), "%s", err.text);
    cr_assert_eq(compute.kind, GW_COMPUTE_CPU);
    compute = (gw_compute){.kind = GW_COMPUTE_CUDA, .gpu_count = 1};
    cr_assert_not(gw_compute_settle(&compute, &job, &workers, &err));
    cr_assert_eq(err.code, GW_E_UNSUPPORTED);
}

Test(compute, says_why_cuda_cannot_be_had) {
    gw_compute compute = {
        .kind = GW_COMPUTE_CUDA, .gpu_count = 2, .gpus = {0, gpu_here() ? GW_CUDA_GPUS - 1 : 1}};
    uint32_t workers = 0;
    gw_err err;
    cr_assert_not(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err));
    cr_assert(strstr(err.text, "--device cuda"), "%s", err.text);
    cr_assert(strstr(err.text, "--device cpu"), "%s", err.text);
}

Test(compute, precision_is_for_gpus) {
    gw_compute compute = {.kind = GW_COMPUTE_CPU, .precision = GW_PRECISION_TF32};
    uint32_t workers = 0;
    gw_err err;
    cr_assert_not(gw_compute_settle(&compute, &gw_job_synthetic, &workers, &err));
    cr_assert_eq(err.code, GW_E_USAGE);
}
