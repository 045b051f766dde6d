/* The simulator's command line: what it prints, and its exit codes. */
#include "tools/sim/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 32, OUTPUT_BYTES = 32768 };

typedef struct outcome {
    int code; /* exit code, or -signal */
    char out[OUTPUT_BYTES];
} outcome;

static void run_in_child(char *arguments, int out) {
    char *argv[MOST_WORDS + 1] = {NULL}, *rest = NULL;
    int argc = 0;
    for (char *word = strtok_r(arguments, " ", &rest); word != NULL && argc < MOST_WORDS;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    dup2(out, STDOUT_FILENO);
    int code = gw_sim_main(argc, argv);
    fflush(NULL);
    _exit(code);
}

static outcome sim(const char *options) {
    static outcome o;
    char arguments[500];
    int out = memfd_create("out", 0), status = 0;
    snprintf(arguments, sizeof arguments, "sim %s", options);
    fflush(NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) run_in_child(arguments, out);
    cr_assert_eq(waitpid(child, &status, 0), child);
    ssize_t got = pread(out, o.out, OUTPUT_BYTES - 1, 0);
    cr_assert_geq(got, 0);
    o.out[got] = '\0';
    close(out);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return o;
}

/* Whatever must be done within a millisecond fails. */
Test(main, a_schedule_of_repairs_is_shrunk_as_one) {
    outcome o = sim("--repairs --seed 3 --fast 0 --core 0 --steps 300 --bound-ms 1 --shrink");
    cr_expect_eq(o.code, 1, "%d", o.code);
    cr_expect_not_null(strstr(o.out, " --steps 1 "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " --shard-us 4000 "), "%s", o.out);
    cr_expect_not_null(strstr(o.out, " --restart-ms 60 "), "%s", o.out);
}

Test(main, a_seed_that_does_not_fail_is_not_shrunk) {
    outcome o = sim("--repairs --seed 3 --shrink");
    cr_expect_eq(o.code, 0, "%d", o.code);
    cr_expect_not_null(strstr(o.out, "seed 3 does not fail"), "%s", o.out);
}
