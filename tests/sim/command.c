#include "tests/sim/command.h"

#include "tools/sim/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 32 };

static void run_in_child(char *arguments, int out) {
    char *argv[MOST_WORDS + 1] = {NULL}, *rest = NULL;
    int argc = 0;
    for (char *word = strtok_r(arguments, " ", &rest); word != NULL && argc < MOST_WORDS;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    int code = gw_sim_main(argc, argv);
    fflush(NULL);
    _exit(code);
}

const outcome *sim_command(const char *options) {
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
    return &o;
}

bool sim_next_line(const char **text, char *line, size_t size) {
    size_t length = strcspn(*text, "\n");
    if ((*text)[length] == '\0') return false;
    cr_assert_lt(length, size);
    memcpy(line, *text, length);
    line[length] = '\0';
    *text += length + 1;
    return true;
}

const char *sim_read_traced(const char *line, double *at_s) {
    int end = 0;
    cr_assert_eq(sscanf(line, " %lf %n", at_s, &end), 1, "%s", line);
    cr_assert(end > 12 && line[end] != '\0', "%s", line);
    for (const char *c = line; *c != '\0'; c++) cr_assert(*c >= ' ' && *c <= '~', "%s", line);
    return line + end;
}
