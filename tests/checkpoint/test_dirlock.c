/* A directory admits one process. */
#include "checkpoint/dirlock.h"

#include "tests/checkpoint/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];
static void setup(void) {
    fixture_folder(folder);
}
static void teardown(void) {
    fixture_remove(folder);
}
TestSuite(dirlock, .init = setup, .fini = teardown);

/* A child takes the lock, reports it, and holds it until it is killed. */
static pid_t start_holder(const char *dir) {
    int ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        gw_dirlock lock;
        gw_err err;
        char answer = gw_dirlock_take(gw_io_system(), dir, &lock, &err) ? 'y' : 'n';
        if (write(ready[1], &answer, 1) != 1) _exit(1);
        pause();
        _exit(0);
    }
    char answer = 0;
    cr_assert_eq(read(ready[0], &answer, 1), 1);
    cr_assert_eq(answer, 'y');
    close(ready[0]);
    close(ready[1]);
    return child;
}

Test(dirlock, a_second_process_is_told_who_has_it) {
    pid_t holder = start_holder(folder);
    gw_dirlock lock;
    gw_err err;
    char pid[32];
    snprintf(pid, sizeof pid, "process %d:", (int)holder);
    bool taken = gw_dirlock_take(gw_io_system(), folder, &lock, &err);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    cr_assert_not(taken);
    cr_assert_eq(err.code, GW_E_DENIED);
    cr_assert_not_null(strstr(err.text, pid), "%s", err.text);
    cr_assert_not_null(strstr(err.text, folder), "%s", err.text);
    cr_assert(gw_dirlock_take(gw_io_system(), folder, &lock, &err), "its death gives it back: %s", err.text);
    gw_dirlock_release(&lock);
}

static int held_for; /* so many more tries another process has it */
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation) {
    if (held_for == 0) return __real_flock(fd, operation);
    held_for--;
    errno = EWOULDBLOCK;
    return -1;
}

Test(dirlock, one_that_only_looks_whether_it_is_held_keeps_nobody_out) {
    gw_dirlock lock;
    gw_err err;
    held_for = 3;
    cr_assert(gw_dirlock_take(gw_io_system(), folder, &lock, &err), "%s", err.text);
    cr_assert_eq(held_for, 0);
    gw_dirlock_release(&lock);
}

Test(dirlock, can_be_taken_again_after_release_and_makes_the_directory) {
    char inner[300];
    snprintf(inner, sizeof inner, "%s/new", folder);
    gw_dirlock lock;
    gw_err err;
    for (int i = 0; i < 2; i++) {
        cr_assert(gw_dirlock_take(gw_io_system(), inner, &lock, &err), "%s", err.text);
        gw_dirlock_release(&lock);
        gw_dirlock_release(&lock);
    }
}

Test(dirlock, a_directory_that_cannot_be_is_an_error) {
    char file[300], below[320];
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(below, sizeof below, "%s/dir", file);
    FILE *stream = fopen(file, "w");
    cr_assert_not_null(stream);
    fclose(stream);
    gw_dirlock lock;
    gw_err err;
    cr_assert_not(gw_dirlock_take(gw_io_system(), file, &lock, &err));
    cr_assert_not_null(strstr(err.text, "Not a directory"), "%s", err.text);
    cr_assert_not(gw_dirlock_take(gw_io_system(), below, &lock, &err));
    cr_assert_eq(lock.fd, -1);
    snprintf(below, sizeof below, "%s/no/dir", folder);
    cr_assert_not(gw_dirlock_take(gw_io_system(), below, &lock, &err));
    cr_assert_not_null(strstr(err.text, "/no/dir (make the folder above it first, by mkdir -p): No such"),
                       "%s", err.text);
    cr_assert_not(gw_dirlock_take(gw_io_system(), "/proc/x", &lock, &err));
    cr_assert_not_null(strstr(err.text, "/proc/x (the file system there takes no new folders): No such"),
                       "%s", err.text);
}
