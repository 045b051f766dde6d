/* The processor time that a process's control groups allow, from files like the kernel's. */
#include "kernels/host/cores.h"
#include "scratch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

TestSuite(cores, .init = scratch_open, .fini = scratch_close);

static size_t
    possible; /* number of cores of a simulated machine, half of which are allowed; 0: this machine's */

/* Replaces the C library's function. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
    memset(set, 0, bytes);
    if (possible == 0) return syscall(SYS_sched_getaffinity, pid, bytes, set) < 0 ? -1 : 0;
    if (8 * bytes < possible) {
        errno = EINVAL;
        return -1;
    }
    for (size_t i = 0; i < possible; i += 2) CPU_SET_S(i, bytes, set);
    return 0;
}

static uint64_t cores_with(const char *groups) {
    scratch_write_text("list", groups);
    return gw_cores_of_groups(scratch_path("list"), scratch_folder());
}

Test(cores, the_least_of_a_group_and_those_above_counts) {
    scratch_make_folder("a");
    scratch_make_folder("a/b");
    cr_expect_eq(cores_with("0::/a/b\n"), UINT64_MAX, "no file has a bound");
    scratch_write_text("a/b/cpu.max", "max 100000\n");
    cr_expect_eq(cores_with("0::/a/b\n"), UINT64_MAX);
    scratch_write_text("a/cpu.max", "400000 100000\n");
    cr_expect_eq(cores_with("0::/a/b\n"), 4);
    scratch_write_text("a/b/cpu.max", "800000 100000\n");
    cr_expect_eq(cores_with("0::/a/b\n"), 4);
    scratch_write_text("a/b/cpu.max", "25000 20000\n");
    cr_expect_eq(cores_with("0::/a/b\n"), 2, "a part of one is one");
    scratch_write_text("a/b/cpu.max", "1000 100000");
    cr_expect_eq(cores_with("0::/a/b\n"), 1);
    cr_expect_eq(cores_with("0::/a\n"), 4);
    cr_expect_eq(cores_with("0::/\n"), UINT64_MAX);
    scratch_write_text("cpu.max", "50000 100000\n");
    cr_expect_eq(cores_with("0::/docker/0123\n"), 1, "a container's own group is the root");
}

Test(cores, the_first_version_has_a_hierarchy_of_its_own) {
    const char *groups = "9:cpu,cpuacct:/job\n4:hugetlb,memory:/x\n0::/\n";
    scratch_make_folder("cpu");
    scratch_make_folder("cpu/job");
    scratch_write_text("cpu/cpu.cfs_quota_us", "-1\n");
    cr_expect_eq(cores_with(groups), UINT64_MAX, "half of it");
    scratch_write_text("cpu/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(cores_with(groups), UINT64_MAX);
    scratch_write_text("cpu/job/cpu.cfs_quota_us", "650000\n");
    scratch_write_text("cpu/job/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(cores_with(groups), 7);
    scratch_write_text("cpu/cpu.cfs_quota_us", "300000\n");
    cr_expect_eq(cores_with(groups), 3);
    cr_expect_eq(cores_with("4:hugetlb,memory:/job\n"), UINT64_MAX);
}

Test(cores, what_makes_no_sense_is_no_quota) {
    static const char *const bad[] = {"",           "\n",         "200000\n", "-5 100000\n",
                                      "200000 0\n", "200000 x\n", "2x 1\n",   "99999999999999999999999 1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        scratch_write_text("cpu.max", bad[i]);
        cr_expect_eq(cores_with("0::/\n"), UINT64_MAX, "'%s'", bad[i]);
    }
    cr_expect_eq(gw_cores_of_groups(scratch_path("nothing"), scratch_folder()), UINT64_MAX);
}

Test(cores, there_is_one) {
    cr_expect_geq(gw_cores(), 1);
    cr_expect_leq(gw_cores(), gw_cores_allowed());
}

Test(cores, a_machine_may_have_more_than_a_usual_set_has_room_for) {
    static const size_t machines[] = {64, 1024, 1088, 4096, 8192};
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        possible = machines[i];
        cr_expect_eq(gw_cores_allowed(), possible / 2, "%zu", possible);
    }
    possible = SIZE_MAX; /* larger than any set */
    cr_expect_eq(gw_cores_allowed(), 1);
}
