#include "machine.h"
#include "scratch.h"
#include "tools/godwit/energy/counters.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define RANGE     UINT64_C(262143328850)

TestSuite(energy_counters, .init = scratch_open, .fini = scratch_close);

static gw_energy_counters counters;

static void open_counters(bool gpus) {
    gw_energy_counters_open(&counters, machine_root(), gpus);
}

/* Whether the joules that are read at this second are these. */
static void expect(uint64_t second, double joules) {
    double read = gw_energy_counters_read(&counters, second * SECOND_NS);
    cr_assert(fabs(read - joules) < 1e-6, "%g, not %g", read, joules);
}

Test(energy_counters, packages_and_their_memory_count_once) {
    machine_zone("intel-rapl:0", "package-0", 1000000, RANGE);
    machine_zone("intel-rapl:0:0", "core", 1000000, RANGE);
    machine_zone("intel-rapl:0:1", "dram", 1000000, RANGE);
    machine_zone("intel-rapl:1", "package-1", 1000000, RANGE);
    machine_zone("intel-rapl:1:0", "uncore", 1000000, RANGE);
    machine_zone("intel-rapl:1:1", "dram", 1000000, RANGE);
    machine_zone("intel-rapl:2", "psys", 1000000, RANGE);
    machine_zone("intel-rapl-mmio:0", "package-0", 1000000, RANGE);
    machine_write("sys/class/powercap/intel-rapl/enabled", "1\n");
    open_counters(false);
    cr_assert_eq(counters.source, GW_ENERGY_RAPL);
    cr_assert_eq(counters.count, 4);
    expect(10, 0);
    machine_count("intel-rapl:0", 3000000);
    machine_count("intel-rapl:0:0", 9000000);
    machine_count("intel-rapl:0:1", 1500000);
    machine_count("intel-rapl:1", 2000000);
    machine_count("intel-rapl:1:1", 1250000);
    machine_count("intel-rapl:2", 9000000);
    machine_count("intel-rapl-mmio:0", 3000000);
    expect(11, 2 + 0.5 + 1 + 0.25);
    cr_assert_str_eq(counters.lack, "");
}

Test(energy_counters, dies_of_a_package_and_the_second_way_alone_count) {
    machine_zone("intel-rapl-mmio:0", "package-0", 0, RANGE);
    machine_zone("intel-rapl:0", "package-1-die-0", 0, RANGE);
    machine_zone("intel-rapl:1", "package-1-die-1", 0, RANGE);
    open_counters(false);
    cr_assert_eq(counters.count, 3);
}

Test(energy_counters, the_whole_platform_counts_where_no_package_does) {
    machine_zone("intel-rapl:0", "psys", 0, RANGE);
    open_counters(false);
    cr_assert_eq(counters.count, 1);
    expect(1, 0);
    machine_count("intel-rapl:0", 4000000);
    expect(2, 4);
}

Test(energy_counters, a_counter_that_wraps_around_goes_on) {
    machine_zone("intel-rapl:0", "package-0", RANGE - 3000000, RANGE);
    open_counters(false);
    expect(1, 0);
    machine_count("intel-rapl:0", 2000000);
    expect(2, 5);
}

Test(energy_counters, a_counter_that_began_again_counts_nothing_that_was_not) {
    machine_zone("intel-rapl:0", "package-0", 9000000, RANGE);
    open_counters(false);
    expect(1, 0);
    machine_count("intel-rapl:0", 10); /* as if it had wrapped around, after 262 kJ in a second */
    expect(2, 0);
    machine_count("intel-rapl:0", 1000010);
    expect(3, 1);
}

Test(energy_counters, a_counter_without_its_range_is_not_taken_to_wrap_around) {
    machine_zone("intel-rapl:0", "package-0", 5000000, 0);
    machine_remove("sys/class/powercap/intel-rapl:0/max_energy_range_uj");
    open_counters(false);
    expect(1, 0);
    machine_count("intel-rapl:0", 1000000);
    expect(2, 0);
    machine_count("intel-rapl:0", 2000000);
    expect(3, 1);
}

Test(energy_counters, a_zone_that_goes_is_told_and_the_others_go_on) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_zone("intel-rapl:1", "package-1", 0, RANGE);
    open_counters(false);
    expect(1, 0);
    machine_count("intel-rapl:0", 1000000);
    machine_remove("sys/class/powercap/intel-rapl:1/energy_uj");
    expect(2, 1);
    cr_assert_eq(counters.source, GW_ENERGY_RAPL);
    cr_assert_not_null(strstr(counters.lack, "intel-rapl:1/energy_uj"), "%s", counters.lack);
    machine_remove("sys/class/powercap/intel-rapl:0/energy_uj");
    expect(3, 0);
    cr_assert_eq(counters.source, GW_ENERGY_NONE);
}

Test(energy_counters, what_holds_no_number_is_no_counter) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_write("sys/class/powercap/intel-rapl:0/energy_uj", "-1\n");
    open_counters(false);
    cr_assert_eq(counters.source, GW_ENERGY_NONE);
    cr_assert_not_null(strstr(counters.lack, "cannot be read"), "%s", counters.lack);
}

Test(energy_counters, a_missing_right_is_told_with_what_gives_it) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    char path[600];
    snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:0/energy_uj", machine_root());
    cr_assert_eq(chmod(path, 0), 0);
    cr_assert_eq(chmod(scratch_folder(), 0755), 0);
    uid_t self = geteuid();
    if (self == 0) cr_assert_eq(seteuid(65534), 0);
    open_counters(false);
    if (self == 0) cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(counters.source, GW_ENERGY_NONE);
    cr_assert(counters.denied);
    cr_assert_not_null(strstr(counters.lack, "chmod a+r"), "%s", counters.lack);
}

Test(energy_counters, sockets_of_amd_count_and_their_cores_do_not) {
    machine_write("sys/class/hwmon/hwmon0/name", "coretemp\n");
    machine_write("sys/class/hwmon/hwmon1/name", "amd_energy\n");
    machine_write("sys/class/hwmon/hwmon1/energy1_label", "Ecore000\n");
    machine_write("sys/class/hwmon/hwmon1/energy1_input", "100\n");
    machine_write("sys/class/hwmon/hwmon1/energy2_label", "Esocket0\n");
    machine_write("sys/class/hwmon/hwmon1/energy2_input", "1000000\n");
    open_counters(true);
    cr_assert_eq(counters.source, GW_ENERGY_HWMON);
    cr_assert_eq(counters.count, 1);
    expect(1, 0);
    machine_write("sys/class/hwmon/hwmon1/energy2_input", "3500000\n");
    expect(2, 2.5);
}

/* The power of the GPUs is a part of the machine's, and NVML tells it, too. */
Test(energy_counters, a_meter_of_the_machine_counts_where_no_gpu_is_counted) {
    machine_write("sys/class/hwmon/hwmon0/name", "power_meter\n");
    machine_write("sys/class/hwmon/hwmon0/power1_average", "100000000\n");
    open_counters(true);
    cr_assert_eq(counters.source, GW_ENERGY_NONE);
    open_counters(false);
    cr_assert_eq(counters.source, GW_ENERGY_METER);
    expect(10, 0);
    machine_write("sys/class/hwmon/hwmon0/power1_average", "300000000\n");
    expect(13, 600);
}

Test(energy_counters, a_machine_without_any_says_so) {
    machine_write("sys/class/powercap/dtpm/enabled", "1\n");
    open_counters(false);
    cr_assert_eq(counters.source, GW_ENERGY_NONE);
    cr_assert_not_null(strstr(counters.lack, "no counter"), "%s", counters.lack);
    cr_assert(!counters.denied);
}
