/* What is reported about a GPU, and when: with readings that a test makes up, and an NVML in memory. */
#include "tools/godwit/watch/gpu_health.h"
#include "tools/godwit/watch/gpu_watch.h"
#include "tools/godwit/watch/nvml.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct heard {
    unsigned count;
    gw_level level;
    char text[240];
} heard;

static void hear(void *context, gw_level level, const char *text) {
    heard *h = context;
    h->count++;
    h->level = level;
    strncpy(h->text, text, sizeof h->text - 1);
}

static gw_gpu_reading well(void) {
    return (gw_gpu_reading){.answers = true,
                            .known = 0xff,
                            .temperature_c = 50,
                            .slowdown_c = 90,
                            .ecc_corrected = 7,
                            .ecc_uncorrected = 1};
}

static void look(gw_gpu_health *health, const gw_gpu_reading *reading, heard *h) {
    gw_gpu_health_look(health, reading, hear, h);
}

Test(gpu_health, a_gpu_that_is_well_is_not_talked_about) {
    gw_gpu_health health = {0};
    gw_gpu_reading r = well();
    heard h = {0};
    r.throttle = 0x1 | 0x2 | 0x4; /* idle, clocks set by a user, the power cap */
    for (int i = 0; i < 100; i++) look(&health, &r, &h);
    cr_assert_eq(h.count, 0, "%s", h.text);
    cr_assert_not(gw_gpu_health_is_bad(&health));
}

Test(gpu_health, heat_is_told_once_and_so_is_its_end) {
    gw_gpu_health health = {0};
    gw_gpu_reading r = well();
    heard h = {0};
    for (uint32_t c = 60; c <= 86; c++) {
        r.temperature_c = c;
        look(&health, &r, &h);
    }
    cr_assert_eq(h.count, 0);
    r.temperature_c = 87;
    look(&health, &r, &h);
    cr_assert(h.count == 1 && h.level == GW_WARN && strstr(h.text, "87 C") && strstr(h.text, "90 C"), "%s",
              h.text);
    for (uint32_t i = 0; i < 20; i++) { /* at the threshold */
        r.temperature_c = i % 2 ? 83 : 88;
        look(&health, &r, &h);
    }
    cr_assert_eq(h.count, 1);
    cr_assert(gw_gpu_health_is_bad(&health));
    r.temperature_c = 82;
    look(&health, &r, &h);
    cr_assert(h.count == 2 && h.level == GW_INFO, "%s", h.text);
    cr_assert_not(gw_gpu_health_is_bad(&health));
}

Test(gpu_health, a_gpu_that_does_not_tell_its_limit_has_a_usual_one) {
    gw_gpu_health health = {0};
    gw_gpu_reading r = well();
    heard h = {0};
    r.known &= ~(uint32_t)GW_GPU_SLOWDOWN;
    r.slowdown_c = 0;
    look(&health, &r, &h);
    cr_assert_eq(h.count, 0, "%s", h.text);
    r.temperature_c = GW_GPU_SLOWDOWN_C;
    look(&health, &r, &h);
    cr_assert_eq(h.count, 1);
    r.known &= ~(uint32_t)GW_GPU_TEMPERATURE; /* nothing is known, so nothing is reported */
    r.temperature_c = 0;
    look(&health, &r, &h);
    cr_assert_eq(h.count, 1);
}

Test(gpu_health, throttling_counts_when_it_lasts) {
    gw_gpu_health health = {0};
    gw_gpu_reading r = well(), slow = well();
    heard h = {0};
    slow.throttle = GW_GPU_THROTTLE_HARDWARE_HEAT | GW_GPU_THROTTLE_POWER_BRAKE | 0x4;
    for (int i = 0; i < 20; i++) { /* throttling now and then is not reported */
        look(&health, &slow, &h);
        look(&health, &slow, &h);
        look(&health, &r, &h);
    }
    cr_assert_eq(h.count, 0, "%s", h.text);
    for (int i = 0; i < 10; i++) look(&health, &slow, &h);
    cr_assert_eq(h.count, 1);
    cr_assert(strstr(h.text, "heat (hardware), power brake") != NULL, "%s", h.text);
    look(&health, &r, &h);
    look(&health, &slow, &h);
    cr_assert_eq(h.count, 1);
    for (int i = 0; i < 10; i++) look(&health, &r, &h);
    cr_assert(h.count == 2 && h.level == GW_INFO);
}

Test(gpu_health, memory_errors_are_told_when_they_happen_in_this_run) {
    gw_gpu_health health = {0};
    gw_gpu_reading r = well();
    heard h = {0};
    look(&health, &r, &h); /* an earlier error is not reported */
    cr_assert_eq(h.count, 0, "%s", h.text);
    r.ecc_uncorrected = 3;
    look(&health, &r, &h);
    cr_assert(h.count == 1 && h.level == GW_ERROR && strstr(h.text, "2 new memory errors"), "%s", h.text);
    look(&health, &r, &h);
    cr_assert_eq(h.count, 1);
    r.ecc_corrected += GW_GPU_ECC_MANY - 1;
    look(&health, &r, &h);
    cr_assert_eq(h.count, 1);
    r.ecc_corrected++;
    look(&health, &r, &h);
    cr_assert(h.count == 2 && h.level == GW_WARN, "%s", h.text);
    r.ecc_corrected = r.ecc_uncorrected = 0; /* the driver was loaded again */
    look(&health, &r, &h);
    r.ecc_uncorrected = 1;
    look(&health, &r, &h);
    cr_assert(h.count == 3 && h.level == GW_ERROR);
}

Test(gpu_health, a_gpu_that_falls_silent_is_told) {
    gw_gpu_health health = {0};
    gw_gpu_reading r = well(), silent = {.answers = false};
    heard h = {0};
    look(&health, &r, &h);
    look(&health, &silent, &h);
    look(&health, &silent, &h);
    cr_assert_eq(h.count, 0);
    for (int i = 0; i < 10; i++) look(&health, &silent, &h);
    cr_assert(h.count == 1 && h.level == GW_ERROR, "%s", h.text);
    cr_assert(gw_gpu_health_is_bad(&health));
    look(&health, &r, &h);
    cr_assert(h.count == 2 && h.level == GW_INFO);
}

Test(gpu_health, every_xid_is_told_and_counted) {
    gw_gpu_health health = {0};
    heard h = {0};
    gw_gpu_health_xid(&health, 79, hear, &h);
    cr_assert(h.level == GW_ERROR && strstr(h.text, "Xid 79") && strstr(h.text, "fallen off the bus"), "%s",
              h.text);
    gw_gpu_health_xid(&health, 999, hear, &h);
    cr_assert_eq(h.count, 2);
    cr_assert_eq(health.xids, 2);
    cr_assert_eq(health.last_xid, 999);
}

/* An NVML in memory. */

struct gw_nvml_device {
    int index;
};
struct gw_nvml_set {
    int unused;
};

static struct gw_nvml_device devices[2] = {{0}, {1}};
static struct gw_nvml_set the_set;
static struct {
    int init, sets; /* calls that have begun and not ended */
    bool no_events, dead, crowded;
    unsigned asked;
    atomic_uint xids; /* events that wait */
} fake;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* NVML hangs while it is held */
static atomic_bool at_gate;

static int answer(void) {
    return fake.dead ? 15 : 0;
}
static int init(void) {
    fake.init++;
    return 0;
}
static int ends(void) {
    fake.init--;
    return 0;
}
static const char *error_string(int result) {
    return result == 6 ? "Not Found" : "GPU is lost";
}
static int driver_version(char *text, unsigned size) {
    strncpy(text, "580.1", size);
    return 0;
}
static int by_bus(const char *bus, gw_nvml_device **device) {
    *device = &devices[bus[5] == '3'];
    return strncmp(bus, "0000:", 5) == 0 ? 0 : 6;
}
static int utilisation(gw_nvml_device *device, gw_nvml_utilisation *u) {
    if (pthread_mutex_trylock(&gate) != 0) {
        atomic_store(&at_gate, true);
        pthread_mutex_lock(&gate);
    }
    pthread_mutex_unlock(&gate);
    *u = (gw_nvml_utilisation){.gpu = 90 + (unsigned)device->index, .memory = 40};
    return answer();
}
static int memory(gw_nvml_device *device, gw_nvml_memory *m) {
    (void)device;
    *m = (gw_nvml_memory){.total = 1000, .free = 400, .used = 600};
    return answer();
}
static int temperature(gw_nvml_device *device, int sensor, unsigned *degrees) {
    (void)device;
    *degrees = sensor == 0 ? 61 : 0;
    return answer();
}
static int threshold(gw_nvml_device *device, int kind, unsigned *degrees) {
    (void)device;
    *degrees = kind == 1 ? 92 : 0;
    return answer();
}
static int power(gw_nvml_device *device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = 350000;
    return answer();
}
static int power_limit(gw_nvml_device *device, unsigned *milliwatts) {
    (void)device, (void)milliwatts;
    return 3; /* not supported */
}
static int ecc(gw_nvml_device *device, int kind, int counter, unsigned long long *count) {
    (void)device;
    *count = counter == 0 ? (kind == 0 ? 5 : 2) : 0;
    return answer();
}
static int throttle(gw_nvml_device *device, unsigned long long *reasons) {
    (void)device;
    *reasons = 0x4;
    return answer();
}
static int p2p(gw_nvml_device *a, gw_nvml_device *b, int capability, int *status) {
    *status = a->index == b->index ? 0 : capability == GW_NVML_P2P_NVLINK ? 1 : 0;
    return 0;
}
static int set_create(gw_nvml_set **set) {
    if (fake.no_events) return 3;
    fake.sets++;
    *set = &the_set;
    return 0;
}
static int event_register(gw_nvml_device *device, unsigned long long kinds, gw_nvml_set *set) {
    (void)device, (void)set;
    return kinds == GW_NVML_XID ? 0 : 2;
}
static int event_wait(gw_nvml_set *set, gw_nvml_event *event, unsigned timeout_ms) {
    (void)set;
    cr_assert_eq(timeout_ms, 0);
    if (atomic_load(&fake.xids) == 0) return 10;
    atomic_fetch_sub(&fake.xids, 1);
    *event = (gw_nvml_event){.device = &devices[1], .kind = GW_NVML_XID, .data = 48};
    return 0;
}
static int set_free(gw_nvml_set *set) {
    (void)set;
    fake.sets--;
    return 0;
}

static int energy(gw_nvml_device *device, unsigned long long *millijoules) {
    (void)device;
    *millijoules = 123456789;
    return answer();
}
static int processes(gw_nvml_device *device, unsigned *count, gw_nvml_process *list) {
    (void)device;
    if (fake.crowded) {
        *count = 20;
        return GW_NVML_TOO_SMALL;
    }
    *count = 2;
    list[0].pid = 17;
    list[1].pid = 18;
    return answer();
}
static int mig_mode(gw_nvml_device *device, unsigned *now, unsigned *pending) {
    (void)device;
    *now = *pending = 1;
    return answer();
}
static int clock_of(gw_nvml_device *device, int which, unsigned *megahertz) {
    (void)device;
    *megahertz = which == 1 ? 1980 : which == 2 ? 3201 : 7;
    return answer();
}
static int uuid(gw_nvml_device *device, char *text, unsigned size) {
    snprintf(text, size, "GPU-%d", device->index);
    return answer();
}
static int number(gw_nvml_device *device, unsigned *index) {
    *index = (unsigned)device->index + 10;
    return answer();
}
static int minor_of(gw_nvml_device *device, unsigned *minor) {
    *minor = (unsigned)device->index + 20;
    return answer();
}

static const gw_nvml_api api = {init,     ends,        error_string, driver_version, by_bus,      utilisation,
                                memory,   temperature, threshold,    power,          power_limit, ecc,
                                throttle, p2p,         set_create,   event_register, event_wait,  set_free,
                                energy,   processes,   mig_mode,     clock_of,       uuid,        number,
                                minor_of};
enum { ALL_FIGURES = 0xfff };
static const char *const buses[] = {"0000:01:00.0", "0000:3b:00.0"};

Test(nvml, figures_that_are_not_told_are_not_known) {
    gw_err err;
    gw_nvml *nvml = gw_nvml_open(&api, buses, 2, &err);
    cr_assert(nvml != NULL, "%s", err.text);
    gw_gpu_reading r;
    gw_nvml_read(nvml, 1, &r);
    cr_assert(r.answers);
    cr_assert_eq(r.known, ALL_FIGURES & ~(unsigned)GW_GPU_POWER_LIMIT);
    cr_assert_eq(r.energy_mj, 123456789);
    cr_assert(r.process_count == 2 && r.processes[0] == 17 && r.processes[1] == 18);
    cr_assert(r.divided);
    fake.crowded = true;
    gw_nvml_read(nvml, 1, &r);
    cr_assert((r.known & GW_GPU_PROCESSES) && r.process_count == 20);
    fake.crowded = false;
    cr_assert_eq(r.busy_percent, 91);
    cr_assert_eq(r.memory_used_bytes, 600);
    cr_assert_eq(r.temperature_c, 61);
    cr_assert_eq(r.slowdown_c, 92);
    cr_assert_eq(r.power_mw, 350000);
    cr_assert_eq(r.ecc_corrected, 5);
    cr_assert_eq(r.ecc_uncorrected, 2);
    cr_assert(r.sm_clock_mhz == 1980 && r.memory_clock_mhz == 3201);
    gw_gpu_names names;
    gw_nvml_identify(nvml, 1, &names);
    cr_assert(strcmp(names.uuid, "GPU-1") == 0 && names.index == 11 && names.minor == 21);
    fake.dead = true;
    gw_nvml_identify(nvml, 1, &names);
    cr_assert(names.uuid[0] == '\0' && names.index == -1 && names.minor == -1);
    gw_nvml_read(nvml, 1, &r);
    cr_assert(!r.answers && r.known == 0);
    cr_assert_str_eq(gw_nvml_path(nvml, 0, 1), "PCIe");
    gw_nvml_close(nvml);
    cr_assert(fake.init == 0 && fake.sets == 0);
}

/* An old function of NVML may be missing: only its figure is missing then. */
Test(nvml, figures_without_a_function_are_not_known) {
    gw_nvml_api newer = api;
    gw_err err;
    gw_gpu_reading r;
    char driver[80] = "?";
    uint32_t index, xid;
    newer.temperature_threshold = NULL;
    newer.throttle = NULL;
    newer.driver_version = NULL;
    newer.p2p_status = NULL;
    newer.event_wait = NULL;
    newer.clock = NULL;
    newer.uuid = NULL;
    gw_nvml *nvml = gw_nvml_open(&newer, buses, 2, &err);
    cr_assert(nvml != NULL, "%s", err.text);
    gw_nvml_read(nvml, 1, &r);
    cr_assert(r.answers);
    const unsigned without = GW_GPU_POWER_LIMIT | GW_GPU_SLOWDOWN | GW_GPU_THROTTLE | GW_GPU_CLOCKS;
    cr_assert_eq(r.known, ALL_FIGURES & ~without);
    cr_assert_eq(r.busy_percent, 91);
    gw_nvml_driver(nvml, driver);
    cr_assert_str_eq(driver, "");
    cr_assert_str_eq(gw_nvml_path(nvml, 0, 1), "host");
    cr_assert(!gw_nvml_take_xid(nvml, &index, &xid));
    gw_nvml_close(nvml);
}

Test(nvml, xids_name_their_gpu) {
    gw_err err;
    gw_nvml *nvml = gw_nvml_open(&api, buses, 2, &err);
    uint32_t index = 9, xid = 0;
    cr_assert(!gw_nvml_take_xid(nvml, &index, &xid));
    atomic_store(&fake.xids, 2);
    for (int i = 0; i < 2; i++) cr_assert(gw_nvml_take_xid(nvml, &index, &xid) && index == 1 && xid == 48);
    cr_assert(!gw_nvml_take_xid(nvml, &index, &xid));
    gw_nvml_close(nvml);
}

Test(nvml, a_machine_without_events_gives_figures_all_the_same) {
    gw_err err;
    fake.no_events = true;
    gw_nvml *nvml = gw_nvml_open(&api, buses, 1, &err);
    uint32_t index, xid;
    cr_assert(nvml != NULL);
    atomic_store(&fake.xids, 1);
    cr_assert(!gw_nvml_take_xid(nvml, &index, &xid));
    gw_nvml_close(nvml);
}

Test(nvml, a_gpu_that_is_not_there_is_named) {
    const char *const odd[] = {"ffff:01:00.0"};
    gw_err err;
    cr_assert_null(gw_nvml_open(&api, odd, 1, &err));
    cr_assert(strstr(err.text, "ffff:01:00.0") && strstr(err.text, "Not Found"), "%s", err.text);
    cr_assert_eq(fake.init, 0);
}

Test(nvml, a_gpu_that_is_not_there_does_not_hide_another) {
    const char *const one_odd[] = {"ffff:01:00.0", buses[1]};
    gw_err err;
    gw_gpu_reading r;
    gw_nvml *nvml = gw_nvml_open(&api, one_odd, 2, &err);
    cr_assert(nvml != NULL, "%s", err.text);
    gw_nvml_read(nvml, 0, &r);
    cr_assert(!r.answers && r.known == 0);
    gw_nvml_read(nvml, 1, &r);
    cr_assert(r.answers && r.busy_percent == 91);
    cr_assert_str_eq(gw_nvml_path(nvml, 0, 1), "unknown");
    gw_nvml_close(nvml);
}

#define LONG_NS UINT64_C(600000000000)

static atomic_uint errors, hangs, recoveries;
static const gw_watched_gpu gpus[2] = {{.ordinal = 4, .name = "Big GPU", .bus = "0000:01:00.0"},
                                       {.ordinal = 5, .name = "Big GPU", .bus = "0000:3b:00.0"}};

static void sink(void *context, gw_level level, const char *room, const char *text) {
    (void)context, (void)room;
    if (level == GW_ERROR && strstr(text, "GPU 5 (Big GPU) reports Xid 48")) atomic_fetch_add(&errors, 1);
    if (level == GW_ERROR && strstr(text, "NVML has not answered")) atomic_fetch_add(&hangs, 1);
    if (level == GW_INFO && strstr(text, "NVML answers again")) atomic_fetch_add(&recoveries, 1);
}

Test(gpu_watch, looks_logs_and_can_be_copied) {
    const gw_gpu_watch_times times = {1000000, LONG_NS, LONG_NS};
    gw_watched_gpu seen[GW_WATCHED_GPUS] = {0};
    gw_err err;
    gw_log_set_sink(sink, NULL);
    gw_gpu_watch *watch = gw_gpu_watch_open(&api, gpus, 2, &times, &err);
    cr_assert(watch != NULL, "%s", err.text);
    cr_assert_eq(gw_gpu_watch_copy(watch, seen), 2);
    cr_assert(seen[1].ordinal == 5 && seen[1].reading.busy_percent == 91 && !seen[1].bad &&
              seen[1].xids == 0);
    atomic_store(&fake.xids, 1);
    while (seen[1].xids == 0) gw_gpu_watch_copy(watch, seen);
    cr_assert_eq(seen[1].last_xid, 48);
    cr_assert_str_eq(seen[1].names.uuid, "GPU-1");
    cr_assert_eq(seen[0].xids, 0);
    cr_assert_eq(atomic_load(&errors), 1);
    gw_gpu_watch_close(watch);
    cr_assert(fake.init == 0 && fake.sets == 0);
}

/* The watch would otherwise show the last figures, which were good, for ever. */
Test(gpu_watch, figures_that_do_not_come_any_more_are_not_shown) {
    const gw_gpu_watch_times times = {1000000, LONG_NS, 1000000};
    gw_watched_gpu seen[GW_WATCHED_GPUS] = {0};
    gw_err err;
    gw_log_set_sink(sink, NULL);
    gw_gpu_watch *watch = gw_gpu_watch_open(&api, gpus, 2, &times, &err);
    cr_assert(watch != NULL, "%s", err.text);
    pthread_mutex_lock(&gate);
    while (!atomic_load(&at_gate)) sched_yield();
    while (!seen[0].bad) gw_gpu_watch_copy(watch, seen);
    for (int i = 0; i < 2; i++)
        cr_assert(seen[i].bad && !seen[i].reading.answers && seen[i].reading.known == 0);
    cr_assert_str_eq(seen[1].name, "Big GPU");
    unsigned told = atomic_load(&hangs); /* on a busy machine earlier looks may have been slow, too */
    for (int i = 0; i < 10; i++) gw_gpu_watch_copy(watch, seen);
    cr_assert(told >= 1 && atomic_load(&hangs) == told);
    pthread_mutex_unlock(&gate);
    while (seen[0].bad || seen[1].bad) gw_gpu_watch_copy(watch, seen);
    cr_assert(seen[0].reading.answers && seen[1].reading.busy_percent == 91);
    cr_assert_geq(atomic_load(&recoveries), 1);
    gw_gpu_watch_close(watch);
    cr_assert(fake.init == 0 && fake.sets == 0);
}

Test(gpu_watch, an_nvml_that_hangs_does_not_keep_a_peer_from_starting) {
    const gw_gpu_watch_times times = {1000000, 1000000, LONG_NS};
    gw_watched_gpu seen[GW_WATCHED_GPUS] = {0};
    gw_err err;
    pthread_mutex_lock(&gate);
    gw_gpu_watch *watch = gw_gpu_watch_open(&api, gpus, 2, &times, &err);
    cr_assert(watch != NULL);
    cr_assert_eq(gw_gpu_watch_copy(watch, seen), 2);
    cr_assert(!seen[0].reading.answers && seen[0].reading.known == 0);
    pthread_mutex_unlock(&gate);
    while (!seen[1].reading.answers) gw_gpu_watch_copy(watch, seen);
    gw_gpu_watch_close(watch);
    cr_assert(fake.init == 0 && fake.sets == 0);
}

Test(gpu_watch, without_the_gpus_there_is_no_watch) {
    const gw_watched_gpu odd = {.bus = "ffff:01:00.0"};
    const gw_gpu_watch_times times = {1000000, LONG_NS, LONG_NS};
    gw_err err;
    cr_assert_null(gw_gpu_watch_open(&api, &odd, 1, &times, &err));
    cr_assert(strstr(err.text, "Not Found") != NULL, "%s", err.text);
    cr_assert_eq(fake.init, 0);
}
