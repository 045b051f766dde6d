/* `godwit devices --gpus` where there are GPUs: the program on the stand-ins of test_flock.c. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void find_stand_ins(void) {
    char libraries[] = GODWIT_FAKE_NCCL;
    *strrchr(libraries, '/') = '\0';
    setenv("GODWIT_NCCL", GODWIT_FAKE_NCCL, 1);
    setenv("LD_LIBRARY_PATH", libraries, 1);
    setenv("FAKE_CUDA_DRIVER", "13040", 1);
}

TestSuite(gpu_devices, .init = find_stand_ins);

/* What the program prints, and its exit code; valid until the next call. */
static const char *output_of(const char *arguments, int *code) {
    static char text[8192];
    char line[1000];
    snprintf(line, sizeof line, "%s %s 2>&1", GODWIT_BINARY, arguments);
    FILE *out = popen(line, "r");
    cr_assert_not_null(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    int status = pclose(out);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

static json_t *json_of(const char *arguments, int *code) {
    const char *text = output_of(arguments, code);
    json_t *object = json_loads(text, 0, NULL);
    cr_assert_not_null(object, "%s", text);
    return object;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "(none)";
}

static long long number_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

Test(gpu_devices, gpus_and_libraries_are_listed_for_people) {
    int code;
    const char *text = output_of("devices --gpus", &code);
    cr_expect_eq(code, 0);
    cr_expect_not_null(strstr(text, "GPU 0  a stand-in at 0000:01:00.0\n"
                                    "  SM 9.0, 7 multiprocessors, 2.1 GB of memory, 50 MB of L2\n"
                                    "GPU 1  a stand-in at 0000:02:00.0\n"),
                       "%s", text);
    cr_expect_not_null(strstr(text, "driver unknown, for CUDA up to 13.4; this program is built with 13."),
                       "%s", text);
    cr_expect_not_null(strstr(text, "\ncuBLASLt 13."), "%s", text);
    cr_expect_not_null(strstr(text, "\nNCCL 2.28.9 (" GODWIT_FAKE_NCCL ")\n"), "%s", text);
    cr_expect_null(strstr(text, "cannot be used"), "%s", text);
}

Test(gpu_devices, gpus_and_libraries_are_listed_for_programs) {
    int code;
    json_t *found = json_of("devices --gpus --json", &code), *gpus = json_object_get(found, "gpus");
    cr_expect_eq(code, 0);
    cr_assert_eq(json_array_size(gpus), 2);
    const json_t *second = json_array_get(gpus, 1);
    cr_expect_eq(number_of(second, "gpu"), 1);
    cr_expect_str_eq(text_of(second, "name"), "a stand-in");
    cr_expect_str_eq(text_of(second, "bus"), "0000:02:00.0");
    cr_expect_str_eq(text_of(second, "sm"), "9.0");
    cr_expect_eq(number_of(second, "multiprocessors"), 7);
    cr_expect_eq(number_of(second, "memory_bytes"), 2LL << 30);
    cr_expect_eq(number_of(second, "l2_bytes"), 50 * 1000 * 1000);
    cr_expect(json_is_false(json_object_get(second, "mig")));
    cr_expect_null(json_object_get(second, "error"));
    cr_expect(json_is_true(json_object_get(found, "gpu_usable")));
    cr_expect_null(json_object_get(found, "gpu_error"));
    cr_expect_str_eq(text_of(found, "driver_cuda"), "13.4");
    cr_expect_eq(strncmp(text_of(found, "cuda"), "13.", 3), 0);
    cr_expect_eq(strncmp(text_of(json_object_get(found, "cublaslt"), "version"), "13.", 3), 0);
    cr_expect_str_eq(text_of(json_object_get(found, "nccl"), "version"), "2.28.9");
    cr_expect_str_eq(text_of(json_object_get(found, "nccl"), "path"), GODWIT_FAKE_NCCL);
    json_decref(found);
}

/* NVML is a machine's own: there are no stand-ins' figures where it is, and none where it is not. */
Test(gpu_devices, why_there_are_no_figures_is_told_to_programs_too) {
    int code;
    bool without = strstr(output_of("devices --gpus", &code),
                          "\nthe load, temperature and errors of GPUs cannot be read:\n") != NULL;
    json_t *found = json_of("devices --gpus --json", &code);
    cr_expect_eq(json_object_get(found, "nvml_error") != NULL, without);
    json_decref(found);
}

/* Wherever somebody asks for GPUs it is said that the driver is too old, and what to do. */
Test(gpu_devices, a_driver_that_is_too_old) {
    int code;
    setenv("FAKE_CUDA_DRIVER", "12040", 1);
    const char *text = output_of("devices --gpus", &code);
    cr_expect_eq(code, 1);
    cr_expect_not_null(
        strstr(text, "GPUs cannot be used:\n  the NVIDIA driver is too old: it supports CUDA 12.4,"), "%s",
        text);
    json_t *found = json_of("devices --gpus --json", &code);
    cr_expect_eq(code, 1);
    cr_expect_eq(json_array_size(json_object_get(found, "gpus")), 0);
    cr_expect(json_is_false(json_object_get(found, "gpu_usable")));
    cr_expect_not_null(strstr(text_of(found, "gpu_error"), "install a newer NVIDIA driver"));
    cr_expect_str_eq(text_of(found, "driver_cuda"), "12.4");
    json_decref(found);
    text = output_of("run digits --device cuda --dir /nonexistent/godwit", &code);
    cr_expect_eq(code, 1, "%d: %s", code, text);
    cr_expect_not_null(strstr(text, "install a newer NVIDIA driver"), "%s", text);
}

/* It is shown with its error; the other one is there for who wants it. */
Test(gpu_devices, a_gpu_that_cannot_be_read_does_not_hide_another) {
    int code;
    setenv("FAKE_CUDA_UNREADABLE", "0", 1);
    const char *text = output_of("devices --gpus", &code);
    cr_expect_eq(code, 0);
    cr_expect_not_null(strstr(text, "GPU 0  cannot be used:\n  GPU 0: cudaGetDeviceProperties: "), "%s",
                       text);
    cr_expect_not_null(strstr(text, "GPU 1  a stand-in at 0000:02:00.0\n"), "%s", text);
    json_t *found = json_of("devices --gpus --json", &code), *gpus = json_object_get(found, "gpus");
    cr_assert_eq(json_array_size(gpus), 2);
    cr_expect_not_null(strstr(text_of(json_array_get(gpus, 0), "error"), "cudaGetDeviceProperties"));
    cr_expect_null(json_object_get(json_array_get(gpus, 1), "error"));
    json_decref(found);
    text = output_of("run digits --device cuda --dir /nonexistent/godwit", &code);
    cr_expect_not_null(strstr(text, "GPU 0: cudaGetDeviceProperties: "), "%s", text);
    text = output_of("run digits --device cuda:1 --dir /nonexistent/godwit", &code);
    cr_expect_null(strstr(text, "GPU"), "%s", text);
}

#define PASSED_OVER "GPUs cannot be used, and processors compute instead"

/* Machines with NVSwitch, before their fabric manager: who has GPUs and computes without them is told. */
Test(gpu_devices, gpus_that_are_not_ready) {
    int code;
    setenv("FAKE_CUDA_COUNTED", "802", 1); /* cudaErrorSystemNotReady */
    const char *text = output_of("devices --gpus", &code);
    cr_expect_eq(code, 1);
    cr_expect_not_null(strstr(text, "nvidia-fabricmanager (of the driver's"), "%s", text);
    text = output_of("run digits --device cuda --dir /nonexistent/godwit", &code);
    cr_expect_eq(code, 1);
    cr_expect_not_null(strstr(text, "nvidia-fabricmanager (of the driver's"), "%s", text);
    text = output_of("run digits --dir /nonexistent/godwit", &code);
    cr_expect_not_null(strstr(text, PASSED_OVER), "%s", text);
    cr_expect_not_null(strstr(text, "nvidia-fabricmanager (of the driver's"), "%s", text);
}

Test(gpu_devices, whether_gpus_are_passed_over_is_said_where_there_are_some) {
    int code;
    setenv("FAKE_CUDA_DRIVER", "12040", 1);
    const char *text = output_of("run digits --dir /nonexistent/godwit", &code);
    cr_expect_not_null(strstr(text, PASSED_OVER), "%s", text);
    setenv("FAKE_CUDA_DRIVER", "0", 1);
    text = output_of("run digits --dir /nonexistent/godwit", &code);
    cr_expect_null(strstr(text, PASSED_OVER), "%s", text);
    setenv("FAKE_CUDA_DRIVER", "13040", 1);
    setenv("FAKE_CUDA_COUNTED", "100", 1); /* cudaErrorNoDevice */
    text = output_of("run digits --dir /nonexistent/godwit", &code);
    cr_expect_null(strstr(text, PASSED_OVER), "%s", text);
}
