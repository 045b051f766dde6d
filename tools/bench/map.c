/* Commands a second by `godwit map`, beside what a bare loop of posix_spawn and wait reaches with as many processes at a
 * time, and beside GNU parallel; and the share of the slots' time in which commands of 50 ms run. All in turn, in one run,
 * medians of some rounds. */
#include "core/os/clock.h"
#include "tools/bench/bench.h"
#include "tools/godwit/text/number.h"
#include "tools/godwit/text/suggest.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, SLEEP_MS = 50, SLOT_TASKS = 20, PATH_BYTES = 4096, PARALLEL_TASKS = 300 };

#define SLEEP_TEXT "0.05"

typedef struct options {
    const char *program; /* that does nothing */
    uint32_t jobs, tasks;
    bool no_parallel;
} options;

extern char **environ;

/* Finds a program in PATH. */
static bool find(const char *name, char path[PATH_BYTES]) {
    const char *at = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return snprintf(path, PATH_BYTES, "%s", name) < PATH_BYTES && access(path, X_OK) == 0;
    while (at != NULL && *at != '\0') {
        size_t part = strcspn(at, ":");
        snprintf(path, PATH_BYTES, "%.*s/%s", (int)part, at, name);
        if (access(path, X_OK) == 0) return true;
        at += part + (at[part] == ':');
    }
    return false;
}

/* Runs `tasks` processes, `jobs` at a time, by nothing but posix_spawn and wait. Returns the seconds; less than 0: it
 * failed. */
static double run_bare(char *const *argv, uint32_t jobs, uint32_t tasks) {
    uint64_t begun_ns = gw_now_ns();
    uint32_t started = 0, ended = 0;
    while (ended < tasks) {
        pid_t pid;
        if (started < tasks && started - ended < jobs) {
            if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0) return -1;
            started++;
        } else {
            int status;
            if (wait(&status) < 0 || status != 0) return -1;
            ended++;
        }
    }
    return (double)(gw_now_ns() - begun_ns) * 1e-9;
}

/* Runs a map, or GNU parallel, whose inputs are the lines of a file. */
static double run_map(char *const *argv, const char *inputs) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    uint64_t begun_ns = gw_now_ns();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, inputs, O_RDONLY, 0);
    bool good = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) == 0 &&
                waitpid(pid, &status, 0) == pid && status == 0;
    posix_spawn_file_actions_destroy(&actions);
    return good ? (double)(gw_now_ns() - begun_ns) * 1e-9 : -1;
}

/* A file with this many lines of `line`. */
static bool write_inputs(char path[PATH_BYTES], uint32_t count, const char *line) {
    static const char pattern[] = "/tmp/godwit-bench-XXXXXX";
    memcpy(path, pattern, sizeof pattern);
    int fd = mkostemp(path, O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    for (uint32_t i = 0; file != NULL && i < count; i++) fprintf(file, "%s\n", line);
    return file != NULL && fclose(file) == 0;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds) {
    qsort(seconds, ROUNDS, sizeof *seconds, compare);
    return seconds[0] < 0 ? -1 : seconds[ROUNDS / 2];
}

static char *mutable(const char *text) {
    return (char *)(uintptr_t)text;
}

/* What of a map, a bare loop and GNU parallel took, in seconds. */
typedef struct times {
    double bare, map, parallel; /* parallel: 0 where it is not measured */
} times;

/* Measures a program with an argument; parallel gets fewer tasks, as it is slow, and its time is scaled. */
static bool measure(const options *o, const char *program, const char *argument, uint32_t jobs,
                    uint32_t tasks, times *t) {
    char self[PATH_BYTES] = "", parallel[PATH_BYTES], slots[16], inputs[PATH_BYTES], few_inputs[PATH_BYTES];
    double bare[ROUNDS], map[ROUNDS], other[ROUNDS];
    uint32_t few = tasks < PARALLEL_TASKS ? tasks : PARALLEL_TASKS;
    bool compared = !o->no_parallel && find("parallel", parallel);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0 || !write_inputs(inputs, tasks, argument) || !write_inputs(few_inputs, few, argument))
        return false;
    snprintf(slots, sizeof slots, "%u", jobs);
    char *bare_line[] = {mutable(program), mutable(argument), NULL};
    char *map_line[] = {self, mutable("map"), mutable("-j"), slots, mutable(program), NULL};
    char *other_line[] = {parallel, mutable("--will-cite"), mutable("-j"), slots, mutable(program), NULL};
    for (int i = 0; i < ROUNDS; i++) {
        bare[i] = run_bare(bare_line, jobs, tasks);
        map[i] = run_map(map_line, inputs);
        other[i] = compared && i == 0 ? run_map(other_line, few_inputs) * tasks / few : 0;
    }
    unlink(inputs);
    unlink(few_inputs);
    *t = (times){.bare = median(bare), .map = median(map), .parallel = other[0]};
    return t->bare > 0 && t->map > 0;
}

static bool print_rates(const options *o, const char *program) {
    times t;
    if (!measure(o, program, "1", o->jobs, o->tasks, &t)) return false;
    const double bare = o->tasks / t.bare;
    printf("%s, %u at a time:\n", program, o->jobs);
    printf("  %-28s %8.0f a second\n", "posix_spawn and wait", bare);
    printf("  %-28s %8.0f a second, %.1f %% of it\n", "godwit map", o->tasks / t.map, 100 * t.bare / t.map);
    if (t.parallel > 0)
        printf("  %-28s %8.0f a second, %.1f %% of it\n", "GNU parallel", o->tasks / t.parallel,
               100 * t.bare / t.parallel);
    return true;
}

static bool print_efficiency(const options *o) {
    static const uint32_t jobs[] = {2, 8, 64};
    char program[PATH_BYTES];
    if (!find("sleep", program)) return false;
    printf("sleep " SLEEP_TEXT ", share of the slots' time in which it sleeps:\n");
    printf("  %5s %14s %14s %14s\n", "slots", "posix_spawn", "godwit map", "GNU parallel");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        times t;
        if (!measure(o, program, SLEEP_TEXT, jobs[i], jobs[i] * SLOT_TASKS, &t)) return false;
        const double ideal = SLOT_TASKS * SLEEP_MS * 1e-3;
        printf("  %5u %12.1f %% %12.1f %%", jobs[i], 100 * ideal / t.bare, 100 * ideal / t.map);
        if (t.parallel > 0)
            printf(" %12.1f %%\n", 100 * ideal / t.parallel);
        else
            printf(" %14s\n", "-");
    }
    return true;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    options *o = state->input;
    switch (key) {
    case 'j':
        o->jobs = (uint32_t)gw_number_of_option(state, "--jobs", argument, 1, 1000);
        return 0;
    case 'n':
        o->tasks = (uint32_t)gw_number_of_option(state, "--tasks", argument, 1, 1000000);
        return 0;
    case 'p':
        o->program = argument;
        return 0;
    case 'x':
        o->no_parallel = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int gw_bench_map(int argc, char **argv) {
    static const struct argp_option table[] = {
        {"jobs", 'j', "N", 0, "Run N commands at a time (2)", 0},
        {"tasks", 'n', "N", 0, "Run N commands in each round (4000)", 0},
        {"program", 'p', "FILE", 0, "The command that does nothing (true)", 0},
        {"no-parallel", 'x', 0, 0, "Do not compare with GNU parallel", 0},
        {0}};
    const struct argp argp = {
        .options = table, .parser = parse, .doc = "Measures commands a second by 'godwit map'."};
    options o = {.program = "true", .jobs = 2, .tasks = 4000};
    char program[PATH_BYTES];
    if (gw_argp_parse(&argp, argc, argv, &o) != 0) return 2;
    if (!find(o.program, program)) {
        fprintf(stderr, "%s: there is no program '%s'\n", argv[0], o.program);
        return 1;
    }
    if (print_rates(&o, program) && print_efficiency(&o)) return 0;
    fprintf(stderr, "%s: a command failed, or could not be started\n", argv[0]);
    return 1;
}
