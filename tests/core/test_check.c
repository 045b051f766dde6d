/* What a process says before it ends of what cannot be. */
#include "core/check.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child writes to stderr that checks a false condition with errno set so. */
static void fail_with(int error, char *said, size_t size) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        errno = error;
        GW_CHECK(said == NULL);
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
    fail_with(0, said, sizeof said);
    cr_expect_not_null(strstr(said, "broken invariant: said == NULL"), "%s", said);
    cr_expect_not_null(strstr(said, "test_check.c"), "%s", said);
    cr_expect_not_null(strstr(said, "report it"), "%s", said);
}

Test(check, where_memory_has_run_out_it_is_not_called_a_bug) {
    char said[1000];
    fail_with(ENOMEM, said, sizeof said);
    cr_expect_not_null(strstr(said, "memory has run out"), "%s", said);
    cr_expect_not_null(strstr(said, "test_check.c"), "%s", said);
    cr_expect_null(strstr(said, "broken invariant"), "%s", said);
}
