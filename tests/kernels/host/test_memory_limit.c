/* The memory that a process may use, from files like the kernel's. */
#include "kernels/host/memory_limit.h"
#include "scratch.h"

#include <criterion/criterion.h>

TestSuite(memory_limit, .init = scratch_open, .fini = scratch_close);

static uint64_t limit_with(const char *groups) {
    scratch_write_text("list", groups);
    return gw_memory_limit_of_groups(scratch_path("list"), scratch_folder());
}

Test(memory_limit, the_least_of_a_group_and_those_above_counts) {
    scratch_make_folder("a");
    scratch_make_folder("a/b");
    cr_assert_eq(limit_with("0::/a/b\n"), UINT64_MAX, "no file has a limit");
    scratch_write_text("a/b/memory.max", "max\n");
    cr_assert_eq(limit_with("0::/a/b\n"), UINT64_MAX);
    scratch_write_text("a/memory.max", "7000\n");
    cr_assert_eq(limit_with("0::/a/b\n"), 7000);
    scratch_write_text("a/b/memory.max", "9000\n");
    cr_assert_eq(limit_with("0::/a/b\n"), 7000);
    scratch_write_text("a/b/memory.max", "5000");
    cr_assert_eq(limit_with("0::/a/b\n"), 5000);
    cr_assert_eq(limit_with("0::/a\n"), 7000);
    cr_assert_eq(limit_with("0::/\n"), UINT64_MAX);
}

/* A container sees its own group as the root, while the list names it by its path in the container or on the
 * host. */
Test(memory_limit, a_containers_own_group_is_the_root) {
    scratch_write_text("memory.max", "4096\n");
    cr_assert_eq(limit_with("0::/\n"), 4096);
    cr_assert_eq(limit_with("0::/docker/0123\n"), 4096);
    cr_assert_eq(limit_with("0::/../..\n"), 4096);
}

Test(memory_limit, the_first_version_has_a_hierarchy_of_its_own) {
    const char *groups = "9:cpu,cpuacct:/x\n4:hugetlb,memory:/job\n0::/\n";
    scratch_make_folder("memory");
    scratch_make_folder("memory/job");
    scratch_write_text("memory/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(limit_with(groups), UINT64_C(9223372036854771712));
    scratch_write_text("memory/job/memory.limit_in_bytes", "123456\n");
    cr_assert_eq(limit_with(groups), 123456);
    scratch_make_folder("unified");
    scratch_write_text("unified/memory.max", "99\n");
    cr_assert_eq(limit_with(groups), 99);
}

Test(memory_limit, what_makes_no_sense_is_no_limit) {
    static const char *const bad[] = {"", "\n", "-5\n", "12x\n", "99999999999999999999999\n", " \n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        scratch_write_text("memory.max", bad[i]);
        cr_assert_eq(limit_with("0::/\n"), UINT64_MAX, "'%s'", bad[i]);
    }
    scratch_write_text("memory.max", "5\n");
    cr_assert_eq(limit_with("\n0:\n0::\n::\n"), UINT64_MAX);
    cr_assert_eq(gw_memory_limit_of_groups(scratch_path("nothing"), scratch_folder()), UINT64_MAX);
}

static uint64_t left_with(const char *groups) {
    scratch_write_text("list", groups);
    return gw_memory_left_of_groups(scratch_path("list"), scratch_folder());
}

Test(memory_limit, what_is_left_is_the_least_of_limits_less_use) {
    scratch_make_folder("a");
    scratch_make_folder("a/b");
    scratch_write_text("a/memory.current", "3000\n");
    cr_expect_eq(left_with("0::/a/b\n"), UINT64_MAX, "no limit");
    scratch_write_text("a/memory.max", "7000\n");
    cr_expect_eq(left_with("0::/a/b\n"), 4000);
    scratch_write_text("a/b/memory.max", "5000\n");
    cr_expect_eq(left_with("0::/a/b\n"), 4000);
    scratch_write_text("a/b/memory.current", "2000\n");
    cr_expect_eq(left_with("0::/a/b\n"), 3000);
    scratch_write_text("a/b/memory.current", "6000\n");
    cr_expect_eq(left_with("0::/a/b\n"), 0);
    scratch_write_text("a/b/memory.stat",
                       "anon 1\ninactive_file_of_another 9\ninactive_file 2500\nactive_file 500\n");
    cr_expect_eq(left_with("0::/a/b\n"), 1500, "pages of files that may go are not in use");
    scratch_write_text("a/b/memory.stat", "inactive_file 99999\n");
    cr_expect_eq(left_with("0::/a/b\n"), 4000, "they are counted at another moment");
    cr_expect_eq(limit_with("0::/a/b\n"), 5000);
}

Test(memory_limit, what_is_left_in_the_first_version) {
    scratch_make_folder("memory");
    scratch_write_text("memory/memory.limit_in_bytes", "10000\n");
    scratch_write_text("memory/memory.usage_in_bytes", "6000\n");
    scratch_write_text("memory/memory.stat", "inactive_file 7\ntotal_inactive_file 2000\n");
    cr_expect_eq(left_with("4:memory:/\n"), 6000);
    scratch_write_text("memory/memory.usage_in_bytes", "?\n");
    cr_expect_eq(left_with("4:memory:/\n"), 10000, "the use is unknown");
}

Test(memory_limit, something_is_left) {
    cr_expect_gt(gw_memory_left(), 0);
    cr_expect_leq(gw_memory_left(), gw_memory_limit());
}

Test(memory_limit, there_is_some) {
    cr_assert_gt(gw_memory_limit(), UINT64_C(1) << 20);
    cr_assert_lt(gw_memory_limit(), UINT64_C(1) << 50);
}
