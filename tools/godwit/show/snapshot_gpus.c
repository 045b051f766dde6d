#include "tools/godwit/show/snapshot_gpus.h"

#include <stdio.h>
#include <unistd.h>

/* A figure of every GPU that has it. */
typedef struct gpu_metric {
    const char *name;
    gw_metric_kind kind;
    const char *help;
    uint32_t needs; /* the gw_gpu_figure that must be known; 0 = none */
    double (*value)(const gw_watched_gpu *gpu);
} gpu_metric;

/* Whole ones, as NVIDIA's programs tell them. */
static double mebibytes(uint64_t bytes) {
    uint64_t whole = bytes >> 20;
    return (double)whole;
}

static double busy_percent(const gw_watched_gpu *gpu) {
    return gpu->reading.busy_percent;
}
static double busy(const gw_watched_gpu *gpu) {
    return gpu->reading.busy_percent / 100.0;
}
static double memory_busy_percent(const gw_watched_gpu *gpu) {
    return gpu->reading.memory_busy_percent;
}
static double memory_busy(const gw_watched_gpu *gpu) {
    return gpu->reading.memory_busy_percent / 100.0;
}
static double memory_used(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.memory_used_bytes;
}
static double memory_used_mib(const gw_watched_gpu *gpu) {
    return mebibytes(gpu->reading.memory_used_bytes);
}
static double memory_free_mib(const gw_watched_gpu *gpu) {
    const gw_gpu_reading *r = &gpu->reading;
    return r->memory_total_bytes < r->memory_used_bytes
               ? 0
               : mebibytes(r->memory_total_bytes - r->memory_used_bytes);
}
static double memory(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.memory_total_bytes;
}
static double temperature(const gw_watched_gpu *gpu) {
    return gpu->reading.temperature_c;
}
static double power(const gw_watched_gpu *gpu) {
    return gpu->reading.power_mw / 1000.0;
}
static double power_limit(const gw_watched_gpu *gpu) {
    return gpu->reading.power_limit_mw / 1000.0;
}
static double energy(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.energy_mj / 1000.0;
}
static double energy_mj(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.energy_mj;
}
static double sm_clock_mhz(const gw_watched_gpu *gpu) {
    return gpu->reading.sm_clock_mhz;
}
static double sm_clock(const gw_watched_gpu *gpu) {
    return gpu->reading.sm_clock_mhz * 1e6;
}
static double memory_clock_mhz(const gw_watched_gpu *gpu) {
    return gpu->reading.memory_clock_mhz;
}
static double memory_clock(const gw_watched_gpu *gpu) {
    return gpu->reading.memory_clock_mhz * 1e6;
}
static double ecc_corrected(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.ecc_corrected;
}
static double ecc_uncorrected(const gw_watched_gpu *gpu) {
    return (double)gpu->reading.ecc_uncorrected;
}
static double throttled(const gw_watched_gpu *gpu) {
    return (gpu->reading.throttle & GW_GPU_THROTTLE_TROUBLE) != 0;
}
static double xids(const gw_watched_gpu *gpu) {
    return (double)gpu->xids;
}
static double last_xid(const gw_watched_gpu *gpu) {
    return gpu->last_xid;
}
static double bad(const gw_watched_gpu *gpu) {
    return gpu->bad;
}

static const gpu_metric own[] = {
    {"godwit_gpu_utilization_ratio", GW_METRIC_GAUGE,
     "Share of the time during which a kernel ran on the GPU.", GW_GPU_UTILISATION, busy},
    {"godwit_gpu_memory_utilization_ratio", GW_METRIC_GAUGE,
     "Share of the time during which the GPU's memory was read or written.", GW_GPU_UTILISATION, memory_busy},
    {"godwit_gpu_memory_used_bytes", GW_METRIC_GAUGE, "Memory of the GPU in use, by all processes.",
     GW_GPU_MEMORY, memory_used},
    {"godwit_gpu_memory_bytes", GW_METRIC_GAUGE, "Total memory of the GPU.", GW_GPU_MEMORY, memory},
    {"godwit_gpu_temperature_celsius", GW_METRIC_GAUGE, "Temperature of the GPU's chip.", GW_GPU_TEMPERATURE,
     temperature},
    {"godwit_gpu_power_watts", GW_METRIC_GAUGE, "Power that the GPU draws.", GW_GPU_POWER, power},
    {"godwit_gpu_power_limit_watts", GW_METRIC_GAUGE, "Power limit of the GPU.", GW_GPU_POWER_LIMIT,
     power_limit},
    {"godwit_gpu_energy_joules_total", GW_METRIC_COUNTER,
     "Energy that the GPU has taken, for all processes, since the driver was loaded.", GW_GPU_ENERGY, energy},
    {"godwit_gpu_sm_clock_hertz", GW_METRIC_GAUGE, "Clock of the GPU's multiprocessors.", GW_GPU_CLOCKS,
     sm_clock},
    {"godwit_gpu_memory_clock_hertz", GW_METRIC_GAUGE, "Clock of the GPU's memory.", GW_GPU_CLOCKS,
     memory_clock},
    {"godwit_gpu_ecc_corrected_total", GW_METRIC_COUNTER,
     "Memory errors that ECC corrected, since the driver was loaded.", GW_GPU_ECC, ecc_corrected},
    {"godwit_gpu_ecc_uncorrected_total", GW_METRIC_COUNTER,
     "Memory errors that ECC could not correct, since the driver was loaded.", GW_GPU_ECC, ecc_uncorrected},
    {"godwit_gpu_throttled", GW_METRIC_GAUGE, "1 while heat or a power brake lowers the GPU's clocks.",
     GW_GPU_THROTTLE, throttled},
    {"godwit_gpu_xid_errors_total", GW_METRIC_COUNTER, "Xid errors that the driver reported during this run.",
     0, xids},
    {"godwit_gpu_bad", GW_METRIC_GAUGE, "1 while the GPU is hot, slowed down or silent.", 0, bad},
};

/* All of them are gauges here: two are counters there whose names do not end as a counter's must, which
 * makes a page with them one that OpenMetrics forbids. A board asks no type. */
static const gpu_metric dcgm[] = {
    {"DCGM_FI_DEV_SM_CLOCK", GW_METRIC_GAUGE, "SM clock frequency (in MHz).", GW_GPU_CLOCKS, sm_clock_mhz},
    {"DCGM_FI_DEV_MEM_CLOCK", GW_METRIC_GAUGE, "Memory clock frequency (in MHz).", GW_GPU_CLOCKS,
     memory_clock_mhz},
    {"DCGM_FI_DEV_GPU_TEMP", GW_METRIC_GAUGE, "GPU temperature (in C).", GW_GPU_TEMPERATURE, temperature},
    {"DCGM_FI_DEV_POWER_USAGE", GW_METRIC_GAUGE, "Power draw (in W).", GW_GPU_POWER, power},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", GW_METRIC_GAUGE,
     "Total energy consumption since the driver was loaded (in mJ).", GW_GPU_ENERGY, energy_mj},
    {"DCGM_FI_DEV_GPU_UTIL", GW_METRIC_GAUGE, "GPU utilization (in %).", GW_GPU_UTILISATION, busy_percent},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", GW_METRIC_GAUGE, "Memory utilization (in %).", GW_GPU_UTILISATION,
     memory_busy_percent},
    {"DCGM_FI_DEV_XID_ERRORS", GW_METRIC_GAUGE, "Value of the last Xid error encountered during this run.", 0,
     last_xid},
    {"DCGM_FI_DEV_FB_FREE", GW_METRIC_GAUGE, "Frame buffer memory free (in MiB).", GW_GPU_MEMORY,
     memory_free_mib},
    {"DCGM_FI_DEV_FB_USED", GW_METRIC_GAUGE, "Frame buffer memory used (in MiB).", GW_GPU_MEMORY,
     memory_used_mib},
    {"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", GW_METRIC_GAUGE, "Number of single-bit volatile ECC errors.",
     GW_GPU_ECC, ecc_corrected},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", GW_METRIC_GAUGE, "Number of double-bit volatile ECC errors.",
     GW_GPU_ECC, ecc_uncorrected},
};

typedef void put_labels(gw_exposition *page, const gw_watched_gpu *gpu, const char *host);

static void own_labels(gw_exposition *page, const gw_watched_gpu *gpu, const char *host) {
    char ordinal[16];
    (void)host;
    snprintf(ordinal, sizeof ordinal, "%d", gpu->ordinal);
    gw_exposition_label(page, "gpu", ordinal);
    gw_exposition_label(page, "bus", gpu->bus);
}

/* The labels of the exporter. NVML numbers GPUs by their place on the bus, whatever the process sees of
 * them; CUDA's number stands in where NVML tells none. */
static void dcgm_labels(gw_exposition *page, const gw_watched_gpu *gpu, const char *host) {
    const gw_gpu_names *names = &gpu->names;
    char number[16], device[32];
    int index = names->index >= 0 ? names->index : gpu->ordinal;
    snprintf(number, sizeof number, "%d", index);
    snprintf(device, sizeof device, "nvidia%d", names->minor >= 0 ? names->minor : index);
    gw_exposition_label(page, "gpu", number);
    gw_exposition_label(page, "UUID", names->uuid);
    gw_exposition_label(page, "pci_bus_id", gpu->bus);
    gw_exposition_label(page, "device", device);
    gw_exposition_label(page, "modelName", gpu->name);
    gw_exposition_label(page, "Hostname", host);
}

static void put_all(gw_exposition *page, const gw_node_snapshot *s, const gpu_metric *list, size_t count,
                    put_labels *labels, const char *host) {
    for (size_t m = 0; m < count; m++) {
        gw_exposition_family(page, list[m].name, list[m].kind, list[m].help);
        for (uint32_t i = 0; i < s->gpu_count; i++) {
            const gw_watched_gpu *gpu = &s->gpus[i];
            if ((gpu->reading.known & list[m].needs) != list[m].needs) continue;
            labels(page, gpu, host);
            gw_exposition_number(page, list[m].value(gpu));
        }
    }
}

void gw_snapshot_gpus(gw_exposition *page, const gw_node_snapshot *s) {
    char host[65] = "";
    if (s->gpu_count == 0) return;
    (void)gethostname(host, sizeof host - 1);
    put_all(page, s, own, sizeof own / sizeof own[0], own_labels, host);
    put_all(page, s, dcgm, sizeof dcgm / sizeof dcgm[0], dcgm_labels, host);
}
