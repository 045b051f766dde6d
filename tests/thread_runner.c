/* The runner of the suites of a thread-sanitizer build. Criterion's own cannot start there, as it maps memory at fixed
 * addresses that the sanitizer keeps for itself. Tests and assertions stay Criterion's; each test runs in a child process,
 * one after another. The runner knows Criterion's option --tap=FILE and ignores the others. */
#include <criterion/criterion.h>
#include <criterion/logging.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASSERTION_FAILED = 99, SKIPPED = 98 };

/* The linker's names for the ends of the sections that Test() and TestSuite() fill. */
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

static _Atomic bool failed;

void criterion_internal_test_setup(void) {}

void criterion_internal_test_main(void (*test)(void)) {
    test();
}

void criterion_internal_test_teardown(void) {}

void criterion_send_assert(struct criterion_assert_stats *stats) {
    if (stats->passed) return;
    atomic_store(&failed, true);
    fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line,
            stats->message != NULL ? stats->message : "assertion failed");
}

void criterion_abort_test(void) {
    _exit(ASSERTION_FAILED);
}

void criterion_continue_test(void) {}

void criterion_skip_test(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    _exit(SKIPPED);
}

void criterion_test_die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    _exit(ASSERTION_FAILED);
}

void cr_log(enum criterion_severity severity, const char *format, ...) {
    (void)severity;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test) {
    for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
        if (strcmp((*suite)->name, test->category) == 0) return (*suite)->data;
    static const struct criterion_test_extra_data none;
    return &none;
}

_Noreturn static void run_here(const struct criterion_test *test) {
    const struct criterion_test_extra_data *suite = suite_of(test);
    if (suite->init != NULL) suite->init();
    if (test->data->init != NULL) test->data->init();
    test->test();
    if (test->data->fini != NULL) test->data->fini();
    if (suite->fini != NULL) suite->fini();
    exit(atomic_load(&failed) ? ASSERTION_FAILED : 0);
}

static bool as_expected(const struct criterion_test *test, int status) {
    if (test->data->signal != 0) return WIFSIGNALED(status) && WTERMSIG(status) == test->data->signal;
    if (!WIFEXITED(status)) return false;
    return WEXITSTATUS(status) == test->data->exit_code || WEXITSTATUS(status) == SKIPPED;
}

static FILE *open_tap(int argc, char **argv) {
    static const char option[] = "--tap=";
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], option, sizeof option - 1) == 0) return fopen(argv[i] + sizeof option - 1, "we");
    return NULL;
}

int main(int argc, char **argv) {
    int failures = 0;
    FILE *tap = open_tap(argc, argv);
    if (tap != NULL) fprintf(tap, "1..%td\n", __stop_cr_tst - __start_cr_tst);
    for (struct criterion_test **at = __start_cr_tst; at < __stop_cr_tst; at++) {
        const struct criterion_test *test = *at;
        fflush(NULL);
        if (test->data->disabled) {
            if (tap != NULL) fprintf(tap, "ok - %s::%s # SKIP disabled\n", test->category, test->name);
            continue;
        }
        pid_t child = fork();
        if (child == 0) run_here(test);
        int status = 0;
        bool right = child > 0 && waitpid(child, &status, 0) == child && as_expected(test, status);
        fprintf(stderr, "[%s] %s::%s\n", right ? "PASS" : "FAIL", test->category, test->name);
        if (tap != NULL) {
            bool skipped = right && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
            fprintf(tap, "%s - %s::%s%s\n", right ? "ok" : "not ok", test->category, test->name,
                    skipped ? " # SKIP" : "");
        }
        failures += !right;
    }
    if (tap != NULL) fclose(tap);
    return failures > 0;
}
