/* The processes of a job, on this machine. */
#include "tools/godwit/limit/family.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

/* Starts a process that fills memory, and waits until it has. With `shares`, it starts another one which has the same
 * memory as it. Both live until the first is killed. */
static pid_t fill(size_t bytes, bool shares) {
    int ready[2];
    char byte = 0;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(memory, 1, bytes);
        if (shares && fork() == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(ready[1], &byte, 1);
        for (;;) pause();
    }
    for (int i = 0; i < 1 + shares; i++) cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* What a sanitizer keeps about memory is the process's own, too, and several times as much. */
static void skip_with_sanitizer(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("a sanitizer takes memory of its own");
#endif
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(family, its_memory_is_that_of_all_descendants_and_the_largest_is_named) {
    pid_t largest;
    skip_with_sanitizer();
    cr_expect_eq(gw_family_memory(getpid(), 0, &largest), 0);
    cr_expect_eq(largest, 0);
    pid_t small = fill(8 * MIB, false), large = fill(24 * MIB, false);
    uint64_t bytes = gw_family_memory(getpid(), 0, &largest);
    cr_expect(bytes >= 32 * MIB && bytes < 48 * MIB, "%llu", (unsigned long long)bytes);
    cr_expect_eq(largest, large);
    end(large);
    bytes = gw_family_memory(getpid(), 0, &largest);
    cr_expect(bytes >= 8 * MIB && bytes < 16 * MIB, "%llu", (unsigned long long)bytes);
    cr_expect_eq(largest, small);
    end(small);
}

Test(family, memory_that_two_share_counts_once_where_it_matters) {
    skip_with_sanitizer();
    pid_t largest, pid = fill(32 * MIB, true);
    uint64_t careful = gw_family_memory(getpid(), 0, &largest),
             quick = gw_family_memory(getpid(), 1024 * (uint64_t)MIB, &largest);
    cr_expect(careful >= 32 * MIB && careful < 48 * MIB, "%llu", (unsigned long long)careful);
    cr_expect(quick >= 64 * MIB, "%llu", (unsigned long long)quick);
    end(pid);
}

Test(family, its_threads_move_to_other_processors_but_for_those_that_have_chosen_theirs) {
    cpu_set_t all, one, found;
    size_t processor = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) cr_skip_test("there is one processor");
    while (!CPU_ISSET(processor, &all)) processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    pid_t plain = fill(MIB, true), chosen = fill(MIB, false);
    cpu_set_t others = all;
    CPU_CLR(processor, &others);
    cr_assert_eq(sched_setaffinity(chosen, sizeof others, &others), 0);
    gw_family_set_cores(getpid(), &all, &one);
    cr_assert_eq(sched_getaffinity(plain, sizeof found, &found), 0);
    cr_expect(CPU_EQUAL(&found, &one));
    cr_assert_eq(sched_getaffinity(0, sizeof found, &found), 0);
    cr_expect(CPU_EQUAL(&found, &one));
    cr_assert_eq(sched_getaffinity(chosen, sizeof found, &found), 0);
    cr_expect(CPU_EQUAL(&found, &others) || CPU_EQUAL(&others, &all));
    gw_family_set_cores(getpid(), &one, &all);
    cr_assert_eq(sched_getaffinity(plain, sizeof found, &found), 0);
    cr_expect(CPU_EQUAL(&found, &all));
    end(plain);
    end(chosen);
}
