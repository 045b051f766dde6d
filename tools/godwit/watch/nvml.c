#include "tools/godwit/watch/nvml.h"

#include "core/base/assert.h"
#include "core/os/library.h"

#include <stdlib.h>
#include <string.h>

/* Constants of nvml.h. */
enum {
    SENSOR_GPU = 0,
    THRESHOLD_SLOWDOWN = 1,
    ECC_CORRECTED = 0,
    ECC_UNCORRECTED = 1,
    ECC_SINCE_DRIVER = 0,
    P2P_OK = 0,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
};

struct gw_nvml {
    gw_nvml_api api;
    uint32_t count;
    gw_nvml_device *devices[GW_NVML_GPUS]; /* NULL = NVML does not know the GPU, which never answers */
    gw_nvml_set *set;                      /* NULL = this machine reports no events */
};

#define NVML(field, symbol)                                                                                  \
    { #symbol, offsetof(gw_nvml_api, field), false }
/* A function for one figure may be missing: newer versions of NVML drop old functions, and the other figures
 * are still of use. */
#define MAYBE(field, symbol)                                                                                 \
    { #symbol, offsetof(gw_nvml_api, field), true }
static const gw_library_function functions[] = {
    NVML(init, nvmlInit_v2),
    NVML(shutdown, nvmlShutdown),
    NVML(error_string, nvmlErrorString),
    MAYBE(driver_version, nvmlSystemGetDriverVersion),
    NVML(device_by_bus, nvmlDeviceGetHandleByPciBusId_v2),
    MAYBE(utilisation, nvmlDeviceGetUtilizationRates),
    MAYBE(memory, nvmlDeviceGetMemoryInfo),
    MAYBE(temperature, nvmlDeviceGetTemperature),
    MAYBE(temperature_threshold, nvmlDeviceGetTemperatureThreshold),
    MAYBE(power, nvmlDeviceGetPowerUsage),
    MAYBE(power_limit, nvmlDeviceGetEnforcedPowerLimit),
    MAYBE(ecc_errors, nvmlDeviceGetTotalEccErrors),
    MAYBE(throttle, nvmlDeviceGetCurrentClocksThrottleReasons),
    MAYBE(p2p_status, nvmlDeviceGetP2PStatus),
    MAYBE(event_set_create, nvmlEventSetCreate),
    MAYBE(event_register, nvmlDeviceRegisterEvents),
    MAYBE(event_wait, nvmlEventSetWait_v2),
    MAYBE(event_set_free, nvmlEventSetFree),
    MAYBE(energy, nvmlDeviceGetTotalEnergyConsumption),
    MAYBE(processes, nvmlDeviceGetComputeRunningProcesses_v3),
    MAYBE(mig_mode, nvmlDeviceGetMigMode),
    MAYBE(clock, nvmlDeviceGetClockInfo),
    MAYBE(uuid, nvmlDeviceGetUUID),
    MAYBE(index, nvmlDeviceGetIndex),
    MAYBE(minor, nvmlDeviceGetMinorNumber),
};

bool gw_nvml_load(gw_nvml_api *api, gw_err *err) {
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64", NULL};
    const gw_library_wanted wanted = {.file = "libnvidia-ml.so.1",
                                      .folders = folders,
                                      .advice = "it comes with NVIDIA's driver",
                                      .functions = functions,
                                      .function_count = sizeof functions / sizeof functions[0]};
    char path[GW_LIBRARY_PATH];
    return gw_library_open(&wanted, api, path, err);
}

/* The result of a function, or GW_NVML_NO_FUNCTION where the library lacks it. */
#define ASK(n, function, ...)                                                                                \
    ((n)->api.function != NULL ? (n)->api.function(__VA_ARGS__) : GW_NVML_NO_FUNCTION)

static bool has_events(const gw_nvml_api *api) {
    return api->event_set_create != NULL && api->event_register != NULL && api->event_wait != NULL &&
           api->event_set_free != NULL;
}

/* Events are optional: some GPUs and virtual machines report none. */
static void register_events(gw_nvml *n) {
    if (!has_events(&n->api) || n->api.event_set_create(&n->set) != GW_NVML_SUCCESS) {
        n->set = NULL;
        return;
    }
    bool any = false;
    for (uint32_t i = 0; i < n->count; i++)
        any |= n->devices[i] != NULL &&
               n->api.event_register(n->devices[i], GW_NVML_XID, n->set) == GW_NVML_SUCCESS;
    if (any) return;
    (void)n->api.event_set_free(n->set);
    n->set = NULL;
}

/* Looks up the devices; at least one must be found. */
static bool find_devices(gw_nvml *n, const char *const *buses, gw_err *err) {
    bool any = false;
    for (uint32_t i = 0; i < n->count; i++) {
        int result = n->api.device_by_bus(buses[i], &n->devices[i]);
        any |= result == GW_NVML_SUCCESS;
        if (result == GW_NVML_SUCCESS) continue;
        n->devices[i] = NULL;
        if (!any) gw_fail(err, GW_E_NOTFOUND, "NVML: GPU at %s: %s", buses[i], n->api.error_string(result));
    }
    return any;
}

gw_nvml *gw_nvml_open(const gw_nvml_api *api, const char *const *buses, uint32_t count, gw_err *err) {
    GW_ASSERT(count >= 1 && count <= GW_NVML_GPUS);
    gw_nvml *n = calloc(1, sizeof *n);
    if (!n) {
        gw_fail(err, GW_E_NOMEM, "NVML: out of memory");
        return NULL;
    }
    n->api = *api;
    n->count = count;
    int result = api->init();
    if (result != GW_NVML_SUCCESS) {
        gw_fail(err, GW_E_UNSUPPORTED, "NVML: nvmlInit: %s", api->error_string(result));
        free(n);
        return NULL;
    }
    if (!find_devices(n, buses, err)) {
        gw_nvml_close(n);
        return NULL;
    }
    register_events(n);
    return n;
}

void gw_nvml_close(gw_nvml *n) {
    if (!n) return;
    if (n->set) (void)n->api.event_set_free(n->set);
    (void)n->api.shutdown();
    free(n);
}

/* Notes that a figure was read. A GPU that answers any call counts as answering. */
static bool note(gw_gpu_reading *r, int result, gw_gpu_figure figure) {
    if (result != GW_NVML_SUCCESS) return false;
    r->answers = true;
    r->known |= figure;
    return true;
}

/* Reads who computes on a GPU, and how much energy it has taken. */
static void read_energy(gw_nvml *n, gw_nvml_device *device, gw_gpu_reading *r) {
    gw_nvml_process list[GW_GPU_READ_PROCESSES];
    unsigned count = GW_GPU_READ_PROCESSES, now = 0, pending = 0;
    unsigned long long energy = 0;
    if (note(r, ASK(n, energy, device, &energy), GW_GPU_ENERGY)) r->energy_mj = energy;
    if (note(r, ASK(n, mig_mode, device, &now, &pending), GW_GPU_MIG)) r->divided = now != 0;
    int result = ASK(n, processes, device, &count, list);
    if (!note(r, result == GW_NVML_TOO_SMALL ? GW_NVML_SUCCESS : result, GW_GPU_PROCESSES)) return;
    r->process_count = count;
    for (unsigned i = 0; result == GW_NVML_SUCCESS && i < count && i < GW_GPU_READ_PROCESSES; i++)
        r->processes[i] = list[i].pid;
}

void gw_nvml_identify(gw_nvml *n, uint32_t index, gw_gpu_names *names) {
    gw_nvml_device *device = n->devices[index];
    unsigned number;
    *names = (gw_gpu_names){.index = -1, .minor = -1};
    if (device == NULL) return;
    if (ASK(n, uuid, device, names->uuid, sizeof names->uuid) != GW_NVML_SUCCESS) names->uuid[0] = '\0';
    if (ASK(n, index, device, &number) == GW_NVML_SUCCESS) names->index = (int)number;
    if (ASK(n, minor, device, &number) == GW_NVML_SUCCESS) names->minor = (int)number;
}

static void read_clocks(gw_nvml *n, gw_nvml_device *device, gw_gpu_reading *r) {
    unsigned sm = 0, memory = 0;
    if (ASK(n, clock, device, CLOCK_SM, &sm) != GW_NVML_SUCCESS ||
        !note(r, ASK(n, clock, device, CLOCK_MEMORY, &memory), GW_GPU_CLOCKS))
        return;
    r->sm_clock_mhz = sm;
    r->memory_clock_mhz = memory;
}

void gw_nvml_read(gw_nvml *n, uint32_t index, gw_gpu_reading *r) {
    gw_nvml_device *device = n->devices[index];
    gw_nvml_utilisation utilisation = {0};
    gw_nvml_memory memory = {0};
    unsigned number = 0;
    unsigned long long corrected = 0, uncorrected = 0, throttle = 0;
    *r = (gw_gpu_reading){.answers = false};
    if (device == NULL) return;
    if (note(r, ASK(n, utilisation, device, &utilisation), GW_GPU_UTILISATION)) {
        r->busy_percent = utilisation.gpu;
        r->memory_busy_percent = utilisation.memory;
    }
    if (note(r, ASK(n, memory, device, &memory), GW_GPU_MEMORY)) {
        r->memory_used_bytes = memory.used;
        r->memory_total_bytes = memory.total;
    }
    if (note(r, ASK(n, temperature, device, SENSOR_GPU, &number), GW_GPU_TEMPERATURE))
        r->temperature_c = number;
    if (note(r, ASK(n, temperature_threshold, device, THRESHOLD_SLOWDOWN, &number), GW_GPU_SLOWDOWN))
        r->slowdown_c = number;
    if (note(r, ASK(n, power, device, &number), GW_GPU_POWER)) r->power_mw = number;
    if (note(r, ASK(n, power_limit, device, &number), GW_GPU_POWER_LIMIT)) r->power_limit_mw = number;
    if (ASK(n, ecc_errors, device, ECC_CORRECTED, ECC_SINCE_DRIVER, &corrected) == GW_NVML_SUCCESS &&
        note(r, ASK(n, ecc_errors, device, ECC_UNCORRECTED, ECC_SINCE_DRIVER, &uncorrected), GW_GPU_ECC)) {
        r->ecc_corrected = corrected;
        r->ecc_uncorrected = uncorrected;
    }
    if (note(r, ASK(n, throttle, device, &throttle), GW_GPU_THROTTLE)) r->throttle = throttle;
    read_clocks(n, device, r);
    read_energy(n, device, r);
}

bool gw_nvml_take_xid(gw_nvml *n, uint32_t *index, uint32_t *xid) {
    gw_nvml_event event = {0};
    while (n->set && n->api.event_wait(n->set, &event, 0) == GW_NVML_SUCCESS) {
        if (event.kind != GW_NVML_XID) continue;
        for (uint32_t i = 0; i < n->count; i++) {
            if (n->devices[i] != event.device) continue;
            *index = i;
            *xid = (uint32_t)event.data;
            return true;
        }
    }
    return false;
}

const char *gw_nvml_path(gw_nvml *n, uint32_t a, uint32_t b) {
    int status;
    if (n->devices[a] == NULL || n->devices[b] == NULL) return "unknown";
    if (ASK(n, p2p_status, n->devices[a], n->devices[b], GW_NVML_P2P_NVLINK, &status) == GW_NVML_SUCCESS &&
        status == P2P_OK)
        return "NVLink";
    if (ASK(n, p2p_status, n->devices[a], n->devices[b], GW_NVML_P2P_READ, &status) == GW_NVML_SUCCESS &&
        status == P2P_OK)
        return "PCIe";
    return "host";
}

void gw_nvml_driver(gw_nvml *n, char text[80]) {
    if (ASK(n, driver_version, text, 80) != GW_NVML_SUCCESS) text[0] = '\0';
}
