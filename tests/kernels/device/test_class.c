#include "kernels/device/class.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REACHED = 42 };

static const char *const harmful[][2] = {{"OPENBLAS_NUM_THREADS", "3"},        {"OMP_NUM_THREADS", "3"},
                                         {"CUBLAS_WORKSPACE_CONFIG", ":16:8"}, {"NVIDIA_TF32_OVERRIDE", "1"},
                                         {"CUDA_FORCE_PTX_JIT", "1"},          {"CUDA_FORCE_JIT", "1"},
                                         {"NCCL_COMM_ID", "10.0.0.1:9999"},    {"GODWIT_CORE_FOUND", "Zen"}};

/* Whether this processor computes as skylakex by default. */
static bool wide(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
#else
    return false;
#endif
}

/* Runs before main when this program is started by the test below with GODWIT_TEST_CLASS set, and once more
 * when gw_cpu_class_apply has executed it again: it only ends with REACHED if the second life is clean. */
__attribute__((constructor)) static void second_life(int argc, char **argv, char **environment) {
    (void)argc, (void)environment;
    const char *name = getenv("GODWIT_TEST_CLASS");
    if (name == NULL) return;
    gw_err err;
    if (!gw_cpu_class_apply(name[0] != '\0' ? name : NULL, argv, &err)) {
        fprintf(stderr, "%s\n", err.text);
        _exit(err.code == GW_E_UNSUPPORTED ? REACHED : 1);
    }
    bool clean = true;
    for (size_t i = 0; i < sizeof harmful / sizeof harmful[0]; i++)
        clean = clean && getenv(harmful[i][0]) == NULL;
    const char *core = getenv("OPENBLAS_CORETYPE");
    const char *expected = name[0] != '\0' ? "Haswell" : wide() ? "SkylakeX" : NULL;
    const char *blocking = getenv("NCCL_COMM_BLOCKING");
    clean = clean && blocking != NULL && strcmp(blocking, "0") == 0;
    bool set = expected == NULL ? core == NULL : core != NULL && strcmp(core, expected) == 0;
    set = set && (expected == NULL || strcmp(gw_cpu_class_instructions(), expected) == 0);
    _exit(clean && set && getenv("HOME") != NULL ? REACHED : 2);
}

static int run_with(const char *name) {
    pid_t child = fork();
    if (child == 0) {
        setenv("GODWIT_TEST_CLASS", name, 1);
        for (size_t i = 0; i < sizeof harmful / sizeof harmful[0]; i++)
            setenv(harmful[i][0], harmful[i][1], 1);
        setenv("OPENBLAS_CORETYPE", "Prescott", 1);
        setenv("NCCL_COMM_BLOCKING", "1", 1);
        setenv("HOME", "/", 0);
        char name_of_program[] = "test", *argv[] = {name_of_program, NULL};
        execv("/proc/self/exe", argv);
        _exit(3);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

Test(class, second_life_has_a_clean_environment_and_the_class) {
    cr_assert_eq(run_with("haswell"), REACHED);
    cr_assert_eq(run_with(""), REACHED);
}

/* OpenBLAS 0.3.21 does not know Intel processors made after 2021. */
Test(class, a_processor_that_openblas_does_not_know_computes_with_what_it_has) {
    cr_expect_str_eq(gw_cpu_class_for("Prescott", true, false), "Haswell");
    cr_expect_str_eq(gw_cpu_class_for("Nehalem", true, false), "Haswell");
    cr_expect_str_eq(gw_cpu_class_for("Sandybridge", true, false), "Haswell");
    cr_expect_str_eq(gw_cpu_class_for("Prescott", true, true), "SkylakeX");
    cr_expect_str_eq(gw_cpu_class_for("Cooperlake", true, true), "SkylakeX");
    cr_expect_null(gw_cpu_class_for("Prescott", false, false));
    cr_expect_null(gw_cpu_class_for("Haswell", true, false));
    cr_expect_null(gw_cpu_class_for("Zen", true, false));
    cr_expect_null(gw_cpu_class_for("armv8", false, false));
}

/* Other libraries are told which instructions to compute with also where OpenBLAS chooses by itself. */
Test(class, instructions_are_those_of_the_family_or_of_the_processor) {
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const char *narrow = __builtin_cpu_supports("avx") ? "Sandybridge" : "Nehalem";
    unsetenv("OPENBLAS_CORETYPE");
    cr_expect_str_eq(gw_cpu_class_instructions(), wide() ? "SkylakeX" : avx2 ? "Haswell" : narrow);
    setenv("OPENBLAS_CORETYPE", "Zen", 1);
    cr_expect_str_eq(gw_cpu_class_instructions(), "Haswell");
    setenv("OPENBLAS_CORETYPE", "Cooperlake", 1);
    cr_expect_str_eq(gw_cpu_class_instructions(), "SkylakeX");
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    cr_expect_str_eq(gw_cpu_class_instructions(), "Nehalem");
#else
    cr_expect_str_eq(gw_cpu_class_instructions(), "");
#endif
}

Test(class, unknown_names_are_refused) {
    gw_err err;
    char name_of_program[] = "test", *argv[] = {name_of_program, NULL};
    cr_assert_not(gw_cpu_class_apply("pentium", argv, &err));
    cr_assert_eq(err.code, GW_E_USAGE);
    cr_assert(strstr(err.text, "pentium") != NULL && strstr(err.text, "is not one of ") != NULL);
}

Test(class, text_has_its_parts) {
    char text[200], openblas[33], core[33];
    int kernels;
    gw_cpu_class_text(text, sizeof text);
    cr_assert_eq(sscanf(text, "cpu kernels=%d openblas=%32s core=%32s", &kernels, openblas, core), 3, "%s",
                 text);
    cr_assert_eq(kernels, gw_kernel_class());
    cr_assert(strchr(openblas, '.') != NULL, "%s", text);
}
