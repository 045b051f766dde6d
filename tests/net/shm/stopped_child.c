#include "tests/net/shm/stopped_child.h"

#include "core/os/clock.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOON_NS UINT64_C(50000000)

/* Whether the child sleeps or has ended. */
static bool sleeps(const char *tasks, const char *task) {
    char path[320], line[512] = "";
    snprintf(path, sizeof path, "%s/%s/stat", tasks, task);
    FILE *file = fopen(path, "r");
    bool there = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL) fclose(file);
    return !there || strstr(line, ") S ") != NULL || strstr(line, ") Z ") != NULL;
}

/* Waits until all threads of the child sleep, each where it waits, or until its deadline has passed and it is
 * gone. */
static void await_sleep(pid_t child) {
    char tasks[64];
    snprintf(tasks, sizeof tasks, "/proc/%d/task", (int)child);
    for (bool all = false; !all;) {
        DIR *directory = opendir(tasks);
        cr_assert_not_null(directory); /* a zombie still has the directory */
        all = true;
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
            all = all && (entry->d_name[0] == '.' || sleeps(tasks, entry->d_name));
        closedir(directory);
    }
}

/* Returns 0 if it was stopped too late. */
static int stop_and_continue(void (*wait)(int input, int output, uint64_t deadline_ns), const void *bytes,
                             size_t count, uint64_t ns) {
    int input[2], output[2], status;
    char byte;
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, input) == 0 && pipe(output) == 0);
    uint64_t deadline_ns = gw_now_ns() + ns;
    pid_t child = fork();
    if (child == 0) wait(input[0], output[1], deadline_ns);
    cr_assert_eq(read(output[0], &byte, 1), 1);
    await_sleep(child);
    cr_assert_eq(kill(child, SIGSTOP), 0);
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    bool in_time = WIFSTOPPED(status) && gw_now_ns() < deadline_ns;
    cr_assert_eq(send(input[1], bytes, count, 0), (ssize_t)count);
    struct timespec due = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                           .tv_nsec = (long)(deadline_ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    if (WIFSTOPPED(status)) {
        cr_assert_eq(kill(child, SIGCONT), 0);
        cr_assert_eq(waitpid(child, &status, 0), child);
    }
    for (int i = 0; i < 2; i++) {
        close(input[i]);
        close(output[i]);
    }
    cr_assert(WIFEXITED(status));
    return in_time ? WEXITSTATUS(status) : 0;
}

int stopped_child(void (*wait)(int input, int output, uint64_t deadline_ns), const void *bytes,
                  size_t count) {
    int ended = 0;
    for (uint64_t ns = SOON_NS; ended == 0; ns *= 2) ended = stop_and_continue(wait, bytes, count, ns);
    return ended;
}
