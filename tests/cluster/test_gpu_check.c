/* tools/gpu/check.sh where no GPU is to be seen: what needs one is skipped and said to be, the rest is tried;
 * and what it packs runs elsewhere. What it finds on a GPU, only a GPU tells. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Output of a shell command; its exit code in *code. */
static char *output_of(const char *command, int *code) {
    size_t size = 0;
    char *text = NULL, chunk[4096];
    FILE *out = open_memstream(&text, &size), *pipe = popen(command, "r");
    cr_assert(out != NULL && pipe != NULL);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, pipe)) > 0;) fwrite(chunk, 1, got, out);
    int status = pclose(pipe);
    fclose(out);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

/* The folder of the build that this test is of. */
static const char *build(void) {
    static char folder[1000];
    snprintf(folder, sizeof folder, "%s", GODWIT_BINARY);
    *strrchr(folder, '/') = '\0';
    return folder;
}

/* And the marks of this suite's runner, which those of the suites that the script runs would take for theirs.
 */
static void hide_gpus(void) {
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    unsetenv("BXFI_MAP");
}

/* How many rows begin with this verdict; the table begins below the first line of '='. */
static unsigned rows(const char *text, const char *verdict) {
    unsigned count = 0;
    const char *at = strstr(text, "\n====");
    cr_assert_not_null(at, "%s", text);
    for (; (at = strchr(at, '\n')) != NULL; at++) count += strncmp(at + 1, verdict, strlen(verdict)) == 0;
    return count;
}

Test(gpu_check, without_a_gpu_it_skips_visibly_and_tries_the_rest) {
    char command[2200];
    int code;
    hide_gpus();
    snprintf(command, sizeof command, "%s/tools/gpu/check.sh --build %s 2>&1", GODWIT_SOURCE, build());
    char *text = output_of(command, &code);
    cr_assert_eq(code, 0, "%s", text);
    cr_assert_not_null(strstr(text, "There is no GPU here"), "%s", text);
    cr_assert_geq(rows(text, "pass"), 7, "%s", text);
    cr_assert_geq(rows(text, "skip"), 10, "%s", text);
    cr_assert_eq(rows(text, "FAIL"), 0, "%s", text);
    free(text);
}

/* A program that does not do what it should is a failed row, and the exit code says so. */
Test(gpu_check, what_fails_is_a_row_and_the_exit_code) {
    char command[2200];
    int code;
    hide_gpus();
    snprintf(command, sizeof command, "python3 %s/tools/gpu/check.py %s /bin/false 2>&1", GODWIT_SOURCE,
             GODWIT_BINARY);
    char *text = output_of(command, &code);
    cr_assert_eq(code, 1, "%s", text);
    cr_assert_eq(rows(text, "FAIL"), 1, "%s", text);
    free(text);
    snprintf(command, sizeof command, "python3 %s/tools/gpu/check.py --seconds 1 %s 2>&1", GODWIT_SOURCE,
             GODWIT_BINARY);
    text = output_of(command, &code);
    cr_assert_eq(code, 1, "there was no time: %s", text);
    free(text);
}

Test(gpu_check, what_is_packed_runs_by_itself) {
    char folder[] = "/tmp/godwit-pack-XXXXXX", command[3200];
    int code;
    hide_gpus();
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "%s/tools/gpu/check.sh --build %s --pack %s/p && cd / && %s/p/tools/gpu/check.sh 2>&1",
             GODWIT_SOURCE, build(), folder, folder);
    char *text = output_of(command, &code);
    cr_assert_eq(code, 0, "%s", text);
    cr_assert_geq(rows(text, "pass"), 7, "%s", text);
    free(text);
    snprintf(command, sizeof command, "rm -r %s", folder);
    free(output_of(command, &code));
    cr_assert_eq(code, 0);
}
