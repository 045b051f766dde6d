/* Tests of tools/gpu/check.sh on a machine without a GPU: it skips what needs one and lists it as skipped, tries the rest,
 * and packs an archive that runs elsewhere. */
#include "tests/cluster/lab.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The folder of the build that this test is of. */
static const char *build(void) {
    static char folder[1000];
    snprintf(folder, sizeof folder, "%s", GODWIT_BINARY);
    *strrchr(folder, '/') = '\0';
    return folder;
}

/* The script sees no GPU. It does not inherit the variables of this suite's runner either, which the suites that it runs
 * would take for their own. */
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

/* A build is what a tool in the place of ninja makes of it: a godwit that fails in its own words. */
Test(gpu_check, a_build_is_brought_up_to_date_unless_it_is_taken_as_it_is) {
    char folder[] = "/tmp/godwit-stale-XXXXXX", command[3200], *text;
    int code;
    hide_gpus();
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cd %s && mkdir bin build build/tests && echo >build/build.ninja && "
             "printf '#!/bin/sh\\necho old >&2\\nexit 3\\n' >build/godwit && chmod +x build/godwit && "
             "printf '#!/bin/sh\\nsed -i s/old/new/ $2/godwit\\n' >bin/ninja && chmod +x bin/ninja",
             folder);
    free(lab_shell(command, &code));
    cr_assert_eq(code, 0);
    for (int as_is = 1; as_is >= 0; as_is--) {
        snprintf(command, sizeof command, "PATH=%s/bin:$PATH %s/tools/gpu/check.sh %s --build %s/build 2>&1",
                 folder, GODWIT_SOURCE, as_is ? "--as-is" : "", folder);
        text = lab_shell(command, &code);
        cr_assert_eq(code, 1, "%s", text);
        cr_assert_not_null(strstr(text, as_is ? "exit code 3: old" : "exit code 3: new"), "%s", text);
        free(text);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    free(lab_shell(command, &code));
}

/* A program that does not do what it should is a failed row, and the exit code says so. */
Test(gpu_check, what_fails_is_a_row_and_the_exit_code) {
    char command[2200];
    int code;
    hide_gpus();
    snprintf(command, sizeof command, "python3 %s/tools/gpu/check.py %s /bin/false 2>&1", GODWIT_SOURCE,
             GODWIT_BINARY);
    char *text = lab_shell(command, &code);
    cr_assert_eq(code, 1, "%s", text);
    cr_assert_eq(rows(text, "FAIL"), 1, "%s", text);
    free(text);
    snprintf(command, sizeof command, "python3 %s/tools/gpu/check.py --seconds 1 %s 2>&1", GODWIT_SOURCE,
             GODWIT_BINARY);
    text = lab_shell(command, &code);
    cr_assert_eq(code, 1, "there was no time: %s", text);
    free(text);
}

/* Our programs are told where their libraries are; PyTorch, whose own are others, is not. Here it is a module
 * that says what it was started with, and ends. */
Test(gpu_check, pytorch_is_measured_with_its_own_libraries) {
    static const char script[] =
        "import json, os, pathlib, sys, tempfile\n"
        "sys.path.insert(0, sys.argv[1] + '/tools/gpu')\n"
        "import check\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    pathlib.Path(folder, 'torch.py').write_text('import json, os, sys\\n'\n"
        "        'print(json.dumps({\"path\": os.environ[\"LD_LIBRARY_PATH\"]}))\\nsys.exit(0)\\n')\n"
        "    os.environ['PYTHONPATH'] = folder\n"
        "    checks = check.Checks(sys.executable, [], 60, '/ours:/theirs')\n"
        "    show = ['-c', 'import os; print(os.environ[\"LD_LIBRARY_PATH\"])']\n"
        "    ours = checks.godwit(show, 30, {'ANY': 'thing'})[0].strip()\n"
        "    ours_too = checks.run([sys.executable, *show], 30)[0].strip()\n"
        "    print(ours, ours_too, check.SharedGpu(0).environment['LD_LIBRARY_PATH'], "
        "checks.torch['path'])\n";
    char command[3200];
    int code;
    hide_gpus();
    setenv("LD_LIBRARY_PATH", "/theirs", 1);
    setenv("SCRIPT", script, 1);
    snprintf(command, sizeof command, "python3 -c \"$SCRIPT\" %s 2>&1", GODWIT_SOURCE);
    char *text = lab_shell(command, &code);
    cr_assert_eq(code, 0, "%s", text);
    cr_assert_str_eq(text, "/ours:/theirs /ours:/theirs /ours:/theirs /theirs\n");
    free(text);
}

/* Rows of figures, with what a GPU and PyTorch might have said: all are as asked; then each is a little worse
 * than asked, and its row fails; then there is no PyTorch, and what needs it is skipped. */
Test(gpu_check, a_figure_that_is_worse_than_asked_fails) {
    static const char script[] =
        "import sys\n"
        "sys.path.insert(0, sys.argv[1] + '/tools/gpu')\n"
        "import check\n"
        "FIGURES = dict(copy_bytes_per_s=4e12, accumulate_bytes_per_s=3.3e12, optimizer_bytes_per_s=3.3e12,\n"
        "    gemm_bf16_flops=7e14, attention_64_flops=3e14, attention_64_back_flops=2e14,\n"
        "    attention_128_flops=3e14, attention_128_back_flops=2e14, digits_exact_samples_per_s=4.6e5,\n"
        "    digits_fast_samples_per_s=5e5, digits_adding_share=0.1, gpt2_exact_tokens_per_s=4.9e5,\n"
        "    gpt2_fast_tokens_per_s=5e5, gpt2_adding_share=0.05, gpt2_memory_bytes=1e10,\n"
        "    small_gpt_tokens_per_s=2e6, small_gpt_single_tokens_per_s=1.9e6, digits_other_fingerprints=0,\n"
        "    gpt2_other_fingerprints=0)\n"
        "TORCH = dict(gemm_bf16_flops=7.1e14, attention_64_flops=4e14, attention_64_back_flops=3.9e14,\n"
        "    attention_128_flops=4e14, attention_128_back_flops=3.9e14, digits_samples_per_s=4.9e5)\n"
        "GPT = dict(tokens_per_s=4.99e5, compiled=True, memory_bytes=1.1e10)\n"
        "def verdicts(worse={}, torch=TORCH, gpt=GPT, rate=5e5, last=10.0, digits=5e5):\n"
        "    checks = check.Checks('/bin/false', [], 60)\n"
        "    checks.devices = dict(gpu_usable=True, gpus=[dict(name='NVIDIA H200')])\n"
        "    checks.figures = dict(FIGURES, **worse)\n"
        "    checks.found = dict(torch=(torch, None), torch_gpt=(gpt, None), gpt_run=((rate, [11.0, last]), "
        "None))\n"
        "    checks.measured = lambda: 'given'\n"
        "    checks.samples_per_second = lambda extra: digits\n"
        "    checks.check_figures()\n"
        "    return [row[1] for row in checks.rows], checks\n"
        "def failed(**how):\n"
        "    return [row[0] for row in verdicts(**how)[1].rows if row[1] == check.FAIL]\n"
        "good, _ = verdicts()\n"
        "assert good == [check.PASS] * (len(good) - 1) + [check.SKIP], good\n"
        "for name, worse in (('accumulate_bytes_per_s', 3.1e12), ('optimizer_bytes_per_s', 3.1e12),\n"
        "        ('gemm_bf16_flops', 6.8e14), ('attention_64_flops', 2.7e14), ('attention_64_back_flops', "
        "1.9e14),\n"
        "        ('attention_128_flops', 2.7e14), ('attention_128_back_flops', 1.9e14),\n"
        "        ('digits_exact_samples_per_s', 4.5e5), ('digits_adding_share', 0.26),\n"
        "        ('gpt2_exact_tokens_per_s', 4.7e5), ('gpt2_adding_share', 0.13), ('gpt2_memory_bytes', "
        "1.2e10),\n"
        "        ('small_gpt_single_tokens_per_s', 2.1e6), ('digits_other_fingerprints', 1),\n"
        "        ('gpt2_other_fingerprints', 2)):\n"
        "    assert len(failed(worse={name: worse})) == 1, name\n"
        "assert failed(digits=4.8e5) == ['digits 8192,8192, TF32']\n"
        "assert failed(rate=4.95e5) == ['GPT-2 124M: speed']\n"
        "assert 'GPT-2 124M: utilisation' in failed(rate=4.5e5)\n"
        "assert failed(last=10.6) == ['GPT-2 124M: loss']\n"
        "assert verdicts(torch=None, gpt=None)[0].count(check.SKIP) == 9\n"
        "assert len(failed(torch='it fails', gpt='it fails')) == 8\n"
        "assert verdicts(gpt=dict(GPT, compiled=False))[0].count(check.SKIP) == 3\n"
        "print('as it should be')\n";
    char command[2200];
    int code;
    setenv("SCRIPT", script, 1);
    snprintf(command, sizeof command, "python3 -c \"$SCRIPT\" %s 2>&1", GODWIT_SOURCE);
    char *text = lab_shell(command, &code);
    cr_assert_eq(code, 0, "%s", text);
    cr_assert_not_null(strstr(text, "as it should be"), "%s", text);
    free(text);
}

/* What is carried stays below 64 MiB, with room for what comes. Programs with a sanitizer are larger. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MOST_PACKED_KIB = 200 << 10 };
#else
enum { MOST_PACKED_KIB = 52 << 10 };
#endif

Test(gpu_check, what_is_packed_runs_by_itself_and_without_a_gpu_skips_visibly_and_tries_the_rest) {
    char folder[] = "/tmp/godwit-pack-XXXXXX", command[3200];
    int code;
    hide_gpus();
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "%s/tools/gpu/check.sh --as-is --build %s --pack %s/p && du -sk %s/p && cd / && "
             "%s/p/tools/gpu/check.sh 2>&1",
             GODWIT_SOURCE, build(), folder, folder, folder);
    char *text = lab_shell(command, &code), *size = strchr(text, '\n'); /* the script says it first */
    cr_assert_eq(code, 0, "%s", text);
    cr_assert_not_null(size, "%s", text);
    long packed = strtol(size, NULL, 10);
    cr_assert(packed > 1024 && packed < MOST_PACKED_KIB, "%ld KiB", packed);
    cr_assert_not_null(strstr(text, "There is no GPU here"), "%s", text);
    cr_assert_geq(rows(text, "pass"), 7, "%s", text);
    cr_assert_geq(rows(text, "skip"), 10, "%s", text);
    cr_assert_eq(rows(text, "FAIL"), 0, "%s", text);
    free(text);
    snprintf(command, sizeof command, "rm -r %s", folder);
    free(lab_shell(command, &code));
    cr_assert_eq(code, 0);
}
