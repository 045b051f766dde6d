/* What a process says before it ends of what cannot be. */
#include "core/check.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void break_invariant(const char *said) {
    errno = ENOMEM; /* left there long ago by what went on without */
    GW_CHECK(said == NULL);
}

static void miss_memory(const char *said) {
    GW_CHECK_MEMORY(said == NULL);
}

/* What a child writes to stderr in which `check` ends the process. */
static void fail_in(void (*check)(const char *said), char *said, size_t size) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        check(said);
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; used + 1 < size && (got = read(ends[0], said + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %d, said: %s", status, said);
}

Test(check, a_broken_invariant_ends_the_process_and_says_where) {
    char said[1000];
    fail_in(break_invariant, said, sizeof said);
    cr_expect_not_null(strstr(said, "broken invariant: said == NULL"), "%s", said);
    cr_expect_not_null(strstr(said, "test_check.c"), "%s", said);
    cr_expect_not_null(strstr(said, "report it"), "%s", said);
}

Test(check, where_memory_has_run_out_it_is_not_called_a_bug) {
    char said[1000];
    fail_in(miss_memory, said, sizeof said);
    cr_expect_not_null(strstr(said, "memory has run out"), "%s", said);
    cr_expect_not_null(strstr(said, "test_check.c"), "%s", said);
    cr_expect_null(strstr(said, "broken invariant"), "%s", said);
}
