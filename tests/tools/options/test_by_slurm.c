/* What `godwit run --join slurm` makes of the options that are not given. */
#include "tools/godwit/options/options.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The environment of task 3 of `srun -N2 -n4 -c2` in job 21; tests change it afterwards. */
static void enter_slurm(void) {
    static const char *const variables[][2] = {
        {"SLURM_JOB_ID", "21"},      {"SLURM_JOB_NODELIST", "node[1-2]"},
        {"SLURM_STEP_ID", "0"},      {"SLURM_STEP_NODELIST", "node[1-2]"},
        {"SLURM_PROCID", "3"},       {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
        {"SLURM_LOCALID", "1"},      {"SLURM_STEP_NUM_TASKS", "4"},
        {"SLURM_NODEID", "1"},       {"SLURMD_NODENAME", "node2"},
        {"SLURM_CPUS_PER_TASK", "2"}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        setenv(variables[i][0], variables[i][1], 1);
    unsetenv("SLURM_RESTART_COUNT");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* Parses `godwit run synthetic` with these options, which end with NULL. */
static bool parse(gw_run_options *options, gw_err *err, ...) {
    char *argv[20] = {(char[]){"godwit run"}, (char[]){"synthetic"}}, *word;
    int argc = 2;
    va_list list;
    va_start(list, err);
    while ((word = va_arg(list, char *)) != NULL) argv[argc++] = word;
    va_end(list);
    return gw_run_options_parse(argc, argv, options, err);
}

static void expect_seeds(const gw_run_options *options, const char *expected) {
    char all[1000] = "";
    for (uint32_t i = 0; i < options->seed_count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? " " : "", options->seeds[i]);
    cr_expect_str_eq(all, expected);
}

Test(by_slurm, what_is_not_given_follows_from_the_job) {
    gw_run_options o;
    gw_err err;
    enter_slurm();
    cr_assert(parse(&o, &err, "--join", "slurm", "--key", "k", NULL), "%s", err.text);
    expect_seeds(&o, "node1:20168 node2:20168 node1:20169 node2:20169");
    cr_expect_str_eq(o.listen, "[::]:20169");
    cr_expect_str_eq(o.dir, "godwit-data/3");
    cr_expect_str_eq(o.cluster, "slurm-21");
    cr_expect_str_eq(o.name, "node2.1");
    cr_expect(o.peers == 4 && o.compute.most_cores == 2 && !o.compute.given_gpus);
    cr_expect_not_null(strstr(o.place_text, "task 3 of 4, on node node2"), "%s", o.place_text);
    gw_run_options_free(&o);
}

Test(by_slurm, what_is_given_stays) {
    gw_run_options o;
    gw_err err;
    enter_slurm();
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    cr_assert(parse(&o, &err, "--join", "slurm,h:1", "--key", "k", "--listen", "[::]:9000", "--dir", "/d/%N",
                    "--peers", "2", "--name", "me", "--cluster", "c", "--metrics", "m-%t.csv", NULL),
              "%s", err.text);
    expect_seeds(&o, "h:1 node1:9000 node2:9000 node1:9001 node2:9001");
    cr_expect_str_eq(o.listen, "[::]:9001");
    cr_expect_str_eq(o.dir, "/d/node2");
    cr_expect_str_eq(o.metrics, "m-3.csv");
    cr_expect_str_eq(o.cluster, "c");
    cr_expect_str_eq(o.name, "me");
    cr_expect(o.peers == 2 && o.compute.given_gpus && o.compute.gpu_count == 1 && o.compute.gpus[0] == 1);
    gw_run_options_free(&o);
    /* A percent sign is an ordinary character elsewhere. */
    cr_assert(parse(&o, &err, "--dir", "/d/%N", NULL), "%s", err.text);
    cr_expect_str_eq(o.dir, "/d/%N");
    gw_run_options_free(&o);
}

Test(by_slurm, on_one_node_peers_meet_on_loopback_without_a_key) {
    gw_run_options o;
    gw_err err;
    enter_slurm();
    setenv("SLURM_JOB_NODELIST", "node2", 1);
    setenv("SLURM_STEP_NODELIST", "node2", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "2", 1);
    setenv("SLURM_NODEID", "0", 1);
    cr_assert(parse(&o, &err, "--join", "slurm", NULL), "%s", err.text);
    expect_seeds(&o, "127.0.0.1:20168 127.0.0.1:20169");
    cr_expect_str_eq(o.listen, "127.0.0.1:20169");
    gw_run_options_free(&o);
}

static void refuse(const char *join, const char *option, const char *value, gw_code code, const char *text) {
    gw_run_options o;
    gw_err err;
    cr_assert_not(parse(&o, &err, "--join", join, option, value, NULL), "%s %s", join, text);
    cr_expect_eq(err.code, code, "%s", err.text);
    cr_expect_not_null(strstr(err.text, text), "%s", err.text);
}

Test(by_slurm, what_cannot_be_is_refused_with_what_to_do) {
    enter_slurm();
    refuse("slurm", NULL, NULL, GW_E_USAGE, "godwit keygen");
    refuse("slurm:x", NULL, NULL, GW_E_USAGE, "slurm.:PORT");
    refuse("slurm:0", NULL, NULL, GW_E_USAGE, "'slurm:0'");
    refuse("slurm", "--listen", "127.0.0.1:0", GW_E_USAGE, "godwit keygen");
    setenv("SLURM_JOB_NODELIST", "node2", 1);
    refuse("slurm", "--listen", "127.0.0.1:0", GW_E_USAGE, "port 0");
    refuse("slurm", "--listen", "127.0.0.1:65535", GW_E_USAGE, "no port for task 1");
    refuse("slurm", "--dir", "d/%q", GW_E_USAGE, "--dir: 'd/%q'");
    setenv("SLURM_STEP_NUM_TASKS", "300", 1);
    refuse("slurm", NULL, NULL, GW_E_USAGE, "at most 256 peers");
    unsetenv("SLURM_JOB_ID");
    refuse("slurm", NULL, NULL, GW_E_USAGE, "no job of Slurm");
}

/* Puts a program of this name first into the PATH. */
static void put_squeue(const char *script) {
    static char folder[] = "/tmp/godwit-squeue-XXXXXX";
    static bool made;
    char path[100], search[4200];
    if (!made) {
        cr_assert_not_null(mkdtemp(folder));
        snprintf(search, sizeof search, "%s:%s", folder, getenv("PATH"));
        setenv("PATH", search, 1);
    }
    made = true;
    snprintf(path, sizeof path, "%s/squeue", folder);
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out);
    fprintf(out, "#!/bin/sh\n%s\n", script);
    fclose(out);
    chmod(path, 0700);
}

static void remove_squeue(void) {
    char line[200];
    const char *path = getenv("PATH");
    snprintf(line, sizeof line, "rm -r %.*s", (int)strcspn(path, ":"), path);
    cr_expect_eq(system(line), 0);
}

Test(by_slurm, a_second_job_joins_the_peers_of_the_first) {
    gw_run_options o;
    gw_err err;
    enter_slurm();
    put_squeue("[ \"$*\" = '--noheader --states=all --format=%T %N --jobs=7' ] || exit 3\n"
               "echo a warning >&2; echo 'RUNNING far[1-2]'");
    cr_assert(parse(&o, &err, "--join", "slurm:7", "--key", "k", NULL), "%s", err.text);
    expect_seeds(&o, "far1:20056 far2:20056 node1:20168 node2:20168 node1:20169 node2:20169");
    cr_expect_str_eq(o.cluster, "slurm-7");
    cr_expect_str_eq(o.dir, "godwit-data/21.3");
    cr_expect_str_eq(o.listen, "[::]:20169");
    gw_run_options_free(&o);
    refuse("slurm:7", NULL, NULL, GW_E_USAGE, "godwit keygen");
    put_squeue("echo 'PENDING '");
    refuse("slurm:7", "--key", "k", GW_E_NOTFOUND, "the job does not run");
    put_squeue("echo 'RUNNING far[1-'");
    refuse("slurm:7", "--key", "k", GW_E_USAGE, "a bracket in it is not closed");
    put_squeue("head -c 200000 /dev/zero | tr '\\0' x");
    refuse("slurm:7", "--key", "k", GW_E_NOTFOUND, "the job does not run");
    put_squeue("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
    refuse("slurm:7", "--key", "k", GW_E_NOTFOUND, "Invalid job id");
    /* Once it has been requeued it goes on by itself. */
    setenv("SLURM_RESTART_COUNT", "1", 1);
    cr_assert(parse(&o, &err, "--join", "slurm:7", "--key", "k", NULL), "%s", err.text);
    expect_seeds(&o, "node1:20168 node2:20168 node1:20169 node2:20169");
    gw_run_options_free(&o);
    remove_squeue();
}
