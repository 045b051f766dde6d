/* The meter on a machine of files, by a clock that the test moves. */
#include "core/os/clock.h"
#include "machine.h"
#include "scratch.h"
#include "tools/godwit/energy/meter.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANGE       UINT64_C(262143328850)
#define PATIENCE_NS UINT64_C(120000000000)

static atomic_long skipped_s; /* the clock is ahead by so much */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int result = __real_clock_gettime(clock, now);
    now->tv_sec += atomic_load(&skipped_s);
    return result;
}

TestSuite(energy_meter, .init = scratch_open, .fini = scratch_close);

static gw_directory directory;
static gw_energy_options options;
static gw_energy_meter *meter;
static gw_energy energy;
static uint64_t steps, shards;

static void open_meter(void) {
    gw_err err;
    options.root = machine_root();
    options.directory = &directory;
    options.job = (gw_hash){{7}};
    if (directory.path[0] == '\0')
        cr_assert(gw_directory_open(scratch_path("d"), &directory, &err), "%s", err.text);
    meter = gw_energy_meter_open(&options, &err);
    cr_assert_not_null(meter, "%s", err.text);
    gw_energy_meter_finish(meter, 0, 0, &energy); /* the first read is done */
    steps = shards = 0;
}

/* Reads some seconds later, in which so many steps and shards were made. */
static void read_after(long seconds, uint64_t more_steps, uint64_t more_shards) {
    atomic_fetch_add(&skipped_s, seconds);
    steps += more_steps;
    shards += more_shards;
    gw_energy_meter_finish(meter, steps, shards, &energy);
}

/* Whether two numbers are the same, but for the time that passes beside the seconds that are skipped. */
static bool near(double a, double b) {
    return fabs(a - b) <= 0.05 * fabs(b) + 1e-9;
}

Test(energy_meter, a_process_has_its_share_of_the_machine) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    open_meter();
    cr_assert_eq(energy.processors, GW_ENERGY_RAPL);
    machine_count("intel-rapl:0", 400000000);
    machine_ticks(1400, 200); /* a quarter of it */
    read_after(4, 8, 16);
    cr_assert(near(gw_energy_joules(&energy), 100), "%g", gw_energy_joules(&energy));
    cr_assert(near(energy.watts, 25), "%g", energy.watts);
    cr_assert(near(energy.step_joules, 12.5) && near(energy.shard_joules, 6.25));
    uint64_t shard = gw_energy_meter_shard(meter);
    cr_assert(shard > 6000000 && shard < 6500000, "%lu", (unsigned long)shard);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

/* What the machine takes while nobody computes belongs to those who compute next. */
Test(energy_meter, energy_waits_for_somebody_who_computes) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    open_meter();
    machine_count("intel-rapl:0", 50000000);
    read_after(1, 0, 0);
    cr_assert_eq(gw_energy_joules(&energy), 0);
    machine_count("intel-rapl:0", 100000000);
    machine_ticks(1100, 200);
    read_after(1, 1, 1);
    cr_assert(near(gw_energy_joules(&energy), 100));
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, workers_that_are_processes_count) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    machine_write("proc/self/task/7/children", "8 ");
    machine_write("proc/8/stat", "8 (python) S 7 7 7 0 -1 4194560 9 9 9 9 0 0 0 0 20 0 3 0\n");
    machine_write("proc/8/task/8/children", "9 ");
    machine_write("proc/9/stat", "9 (loader) S 8 7 7 0 -1 4194560 9 9 9 9 0 0 0 0 20 0 3 0\n");
    options.workers = true;
    open_meter();
    machine_count("intel-rapl:0", 100000000);
    machine_ticks(1100, 100);
    machine_write("proc/8/stat", "8 (python) S 7 7 7 0 -1 4194560 9 9 9 9 20 10 0 0 20 0 3 0\n");
    machine_write("proc/9/stat", "9 (loader) S 8 7 7 0 -1 4194560 9 9 9 9 15 5 0 0 20 0 3 0\n");
    read_after(1, 1, 1);
    cr_assert(near(gw_energy_joules(&energy), 50), "%g", gw_energy_joules(&energy));
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, without_a_counter_nothing_is_invented) {
    machine_ticks(1000, 100);
    open_meter();
    machine_ticks(1100, 200);
    read_after(100, 10, 10);
    cr_assert_eq(gw_energy_joules(&energy), 0);
    cr_assert_eq(energy.processors, GW_ENERGY_NONE);
    cr_assert_not_null(strstr(energy.lack, "no counter"), "%s", energy.lack);
    cr_assert_eq(gw_energy_meter_shard(meter), 0);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, an_estimate_is_called_one) {
    machine_ticks(1000, 100);
    options.cpu_watts = 20;
    open_meter();
    machine_ticks(9999, 100 + 3 * (uint64_t)sysconf(_SC_CLK_TCK));
    read_after(2, 1, 1);
    cr_assert_eq(energy.processors, GW_ENERGY_ESTIMATE);
    cr_assert(near(energy.joules[GW_ENERGY_ESTIMATE], 60));
    cr_assert(gw_energy_is_estimate(&energy));
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, a_counter_that_is_there_needs_no_estimate) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    options.cpu_watts = 20;
    open_meter();
    machine_count("intel-rapl:0", 10000000);
    machine_ticks(1100, 200);
    read_after(1, 1, 1);
    cr_assert(near(energy.joules[GW_ENERGY_RAPL], 10));
    cr_assert(!gw_energy_is_estimate(&energy));
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, a_right_that_is_given_later_is_found) {
    machine_ticks(1000, 100);
    open_meter();
    cr_assert_eq(energy.processors, GW_ENERGY_NONE);
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    read_after(61, 0, 0);
    machine_count("intel-rapl:0", 10000000);
    machine_ticks(1100, 200);
    read_after(1, 1, 1);
    cr_assert(near(energy.joules[GW_ENERGY_RAPL], 10));
    cr_assert_str_eq(energy.lack, "");
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, a_counter_that_goes_and_comes_back_counts_again) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_zone("intel-rapl:1", "package-1", 0, RANGE);
    machine_ticks(1000, 100);
    open_meter();
    machine_count("intel-rapl:0", 10000000);
    machine_remove("sys/class/powercap/intel-rapl:1/energy_uj");
    machine_ticks(1100, 200);
    read_after(1, 1, 1);
    cr_assert(near(energy.joules[GW_ENERGY_RAPL], 10));
    cr_assert_not_null(strstr(energy.lack, "intel-rapl:1"), "%s", energy.lack);
    machine_count("intel-rapl:0", 20000000);
    machine_count("intel-rapl:1", 777000000);
    machine_ticks(1200, 300);
    read_after(61, 1, 1); /* it finds the counter, and has lost nothing of the other */
    cr_assert(near(energy.joules[GW_ENERGY_RAPL], 20), "%g", energy.joules[GW_ENERGY_RAPL]);
    machine_count("intel-rapl:1", 782000000);
    machine_ticks(1300, 400);
    read_after(1, 1, 1);
    cr_assert(near(energy.joules[GW_ENERGY_RAPL], 25), "%g", energy.joules[GW_ENERGY_RAPL]);
    cr_assert_str_eq(energy.lack, "");
    gw_energy_meter_close(meter, PATIENCE_NS);
}

Test(energy_meter, without_the_machines_time_the_share_is_not_known) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    machine_remove("proc/stat");
    open_meter();
    machine_count("intel-rapl:0", 10000000);
    read_after(1, 1, 1);
    cr_assert_eq(gw_energy_joules(&energy), 0);
    cr_assert_eq(energy.processors, GW_ENERGY_NONE);
    cr_assert_not_null(strstr(energy.lack, "proc/stat"), "%s", energy.lack);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, what_was_taken_outlives_the_peer) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    open_meter();
    machine_count("intel-rapl:0", 10000000);
    machine_ticks(1100, 200);
    read_after(1, 1, 1);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
    open_meter();
    cr_assert(near(gw_energy_joules(&energy), 10));
    machine_count("intel-rapl:0", 15000000);
    machine_ticks(1200, 300);
    read_after(1, 1, 1);
    cr_assert(near(gw_energy_joules(&energy), 15));
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
    options.fresh = true;
    open_meter();
    cr_assert_eq(gw_energy_joules(&energy), 0);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

Test(energy_meter, it_is_kept_with_a_checkpoint_and_a_damaged_file_ends_nothing) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    open_meter();
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
    char path[GW_PATH_BYTES];
    snprintf(path, sizeof path, "%s/energy", directory.path);
    FILE *out = fopen(path, "w");
    cr_assert(out != NULL && fputs("godwit-energy 1\nrubbish\n", out) >= 0 && fclose(out) == 0);
    open_meter();
    cr_assert_eq(gw_energy_joules(&energy), 0);
    machine_count("intel-rapl:0", 10000000);
    machine_ticks(1100, 200);
    gw_energy_meter_keep(meter);
    read_after(1, 1, 1);
    char text[200] = "";
    FILE *in = fopen(path, "r");
    cr_assert_not_null(in);
    cr_assert(fread(text, 1, sizeof text - 1, in) > 0);
    fclose(in);
    cr_assert_not_null(strstr(text, " rapl 10\n"), "%s", text);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

static pthread_mutex_t hung = PTHREAD_MUTEX_INITIALIZER;

static int hang_fsync(gw_io *io, int fd) {
    (void)io, (void)fd;
    pthread_mutex_lock(&hung);
    pthread_mutex_unlock(&hung);
    return 0;
}

Test(energy_meter, a_disk_that_hangs_does_not_hold_up_the_end) {
    machine_zone("intel-rapl:0", "package-0", 0, RANGE);
    machine_ticks(1000, 100);
    open_meter();
    machine_count("intel-rapl:0", 10000000);
    machine_ticks(1100, 200);
    read_after(1, 1, 1);
    pthread_mutex_lock(&hung);
    directory.io.fsync = directory.io.fdatasync = hang_fsync;
    cr_assert(!gw_energy_meter_close(meter, 1000000));
    pthread_mutex_unlock(&hung);
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
}

/* GPUs. */

struct gw_nvml_device {
    int index;
};
static gw_nvml_device device;
static atomic_ullong millijoules;
static atomic_uint process_count, divided, no_list, no_counter;

static int succeed(void) {
    return 0;
}
static const char *error_string(int result) {
    (void)result;
    return "error";
}
static int by_bus(const char *bus, gw_nvml_device **found) {
    (void)bus;
    *found = &device;
    return 0;
}
static int read_energy(gw_nvml_device *of, unsigned long long *energy_mj) {
    (void)of;
    *energy_mj = atomic_load(&millijoules);
    return atomic_load(&no_counter) ? 3 : 0;
}
static int read_power(gw_nvml_device *of, unsigned *milliwatts) {
    (void)of;
    *milliwatts = 300000;
    return 0;
}
static int list_processes(gw_nvml_device *of, unsigned *count, gw_nvml_process *list) {
    (void)of;
    *count = atomic_load(&process_count);
    for (unsigned i = 0; i < *count; i++) list[i].pid = i == 0 ? (unsigned)getpid() : 1000000000 + i;
    return atomic_load(&no_list) ? 4 : 0;
}
static int read_mig(gw_nvml_device *of, unsigned *now, unsigned *pending) {
    (void)of;
    *now = *pending = atomic_load(&divided);
    return 0;
}

static const gw_nvml_api nvml = {.init = succeed,
                                 .shutdown = succeed,
                                 .error_string = error_string,
                                 .device_by_bus = by_bus,
                                 .power = read_power,
                                 .energy = read_energy,
                                 .processes = list_processes,
                                 .mig_mode = read_mig};

/* Opens the watch and the meter. */
static void open_gpu(void) {
    static const gw_gpu_watch_times times = {
        .interval_ns = 100000, .open_ns = UINT64_C(60000000000), .hang_ns = UINT64_C(60000000000)};
    gw_err err;
    const gw_watched_gpu gpu = {.bus = "0000:01:00.0"};
    options.gpus = gw_gpu_watch_open(&nvml, &gpu, 1, &times, &err);
    cr_assert_not_null(options.gpus, "%s", err.text);
    machine_ticks(1000, 100);
    open_meter();
}

/* Sets the counter, and waits until the watch has read it. */
static void count_gpu(unsigned long long energy_mj) {
    gw_watched_gpu gpus[GW_WATCHED_GPUS];
    atomic_store(&millijoules, energy_mj);
    do gw_gpu_watch_copy(options.gpus, gpus);
    while (gpus[0].reading.energy_mj != energy_mj);
}

static void close_gpu(void) {
    cr_assert(gw_energy_meter_close(meter, PATIENCE_NS));
    gw_gpu_watch_close(options.gpus);
}

Test(energy_meter, a_gpu_counts_what_its_driver_counts) {
    atomic_store(&millijoules, 5000);
    open_gpu();
    count_gpu(45000);
    read_after(1, 1, 1);
    cr_assert_eq(energy.gpus, GW_ENERGY_NVML);
    cr_assert(near(energy.joules[GW_ENERGY_NVML], 40), "%g", energy.joules[GW_ENERGY_NVML]);
    count_gpu(1000); /* the driver was loaded anew */
    read_after(1, 1, 1);
    count_gpu(3000);
    read_after(1, 1, 1);
    cr_assert(near(energy.joules[GW_ENERGY_NVML], 42), "%g", energy.joules[GW_ENERGY_NVML]);
    close_gpu();
}

Test(energy_meter, a_gpu_that_others_use_too_counts_in_part) {
    atomic_store(&process_count, 4);
    open_gpu();
    count_gpu(40000);
    read_after(1, 1, 1);
    cr_assert(near(energy.joules[GW_ENERGY_NVML], 10), "%g", energy.joules[GW_ENERGY_NVML]);
    close_gpu();
}

Test(energy_meter, a_divided_gpu_of_whose_users_nothing_is_told_does_not_count) {
    atomic_store(&divided, 1);
    atomic_store(&no_list, 1);
    open_gpu();
    count_gpu(40000);
    read_after(1, 1, 1);
    cr_assert_eq(energy.gpus, GW_ENERGY_NONE);
    cr_assert_eq(gw_energy_joules(&energy), 0);
    close_gpu();
}

Test(energy_meter, the_power_of_a_gpu_without_a_counter_is_added_up) {
    atomic_store(&no_counter, 1);
    open_gpu();
    read_after(2, 1, 1);
    cr_assert_eq(energy.gpus, GW_ENERGY_NVML_POWER);
    cr_assert(near(energy.joules[GW_ENERGY_NVML_POWER], 600), "%g", energy.joules[GW_ENERGY_NVML_POWER]);
    close_gpu();
}
