/* Judges the health of a GPU from a series of readings. It reports when the GPU turns bad and when it is
 * well again, and nothing in between. Pure.
 *
 * Temperatures and throttling have two thresholds or need several readings in a row, so that a GPU at a
 * threshold is not reported again and again. Power caps and idle clocks are normal. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_GPU_HEALTH_H
#define GODWIT_TOOLS_GODWIT_WATCH_GPU_HEALTH_H

#include "core/base/log.h"

#include <stdbool.h>
#include <stdint.h>

/* Figures that NVML may have of a GPU. */
typedef enum gw_gpu_figure {
    GW_GPU_UTILISATION = 1 << 0,
    GW_GPU_MEMORY = 1 << 1,
    GW_GPU_TEMPERATURE = 1 << 2,
    GW_GPU_SLOWDOWN = 1 << 3, /* the temperature at which the GPU slows itself down */
    GW_GPU_POWER = 1 << 4,
    GW_GPU_POWER_LIMIT = 1 << 5,
    GW_GPU_ECC = 1 << 6,
    GW_GPU_THROTTLE = 1 << 7,
    GW_GPU_ENERGY = 1 << 8,
    GW_GPU_PROCESSES = 1 << 9,
    GW_GPU_MIG = 1 << 10,
    GW_GPU_CLOCKS = 1 << 11,
} gw_gpu_figure;

enum { GW_GPU_READ_PROCESSES = 16 };

typedef struct gw_gpu_reading {
    bool answers;   /* false = the GPU did not answer, and nothing else is known */
    uint32_t known; /* bits of gw_gpu_figure: the figures that are known */
    uint32_t busy_percent, memory_busy_percent;
    uint64_t memory_used_bytes, memory_total_bytes;
    uint32_t temperature_c, slowdown_c;
    uint32_t power_mw, power_limit_mw;
    uint64_t ecc_corrected, ecc_uncorrected; /* since the driver was loaded */
    uint64_t throttle;                       /* NVML's bits: GW_GPU_THROTTLE_... and harmless ones */
    uint64_t energy_mj;                      /* since the driver was loaded */
    uint32_t process_count;                  /* processes that compute on it, of which the first are listed */
    uint32_t processes[GW_GPU_READ_PROCESSES];
    bool divided; /* into instances (MIG) */
    uint32_t sm_clock_mhz, memory_clock_mhz;
} gw_gpu_reading;

/* What other programs call a GPU. */
typedef struct gw_gpu_names {
    char uuid[96]; /* "GPU-604ac76c-..."; "" = not known */
    int index;     /* NVML's number; -1 = not known */
    int minor;     /* of /dev/nvidia<minor>; -1 = not known */
} gw_gpu_names;

/* Reasons why the clocks are lower than they should be, as NVML numbers them. Only those that are trouble
 * are here. */
enum {
    GW_GPU_THROTTLE_HARDWARE = 0x08, /* power brake or heat, in hardware */
    GW_GPU_THROTTLE_SOFTWARE_HEAT = 0x20,
    GW_GPU_THROTTLE_HARDWARE_HEAT = 0x40,
    GW_GPU_THROTTLE_POWER_BRAKE = 0x80,
    GW_GPU_THROTTLE_TROUBLE = 0xe8,
};

enum {
    GW_GPU_ROW = 3,         /* readings in a row that change the verdict */
    GW_GPU_HOT_MARGIN = 3,  /* a GPU is hot from so many degrees below its slow-down on */
    GW_GPU_COOL_MARGIN = 8, /* it is cool again from so many degrees below on */
    GW_GPU_SLOWDOWN_C = 90, /* the slow-down temperature where the GPU does not tell it */
    GW_GPU_ECC_MANY = 100,  /* corrected errors are reported in portions of so many */
};

/* The verdict so far. Starts as zeros. */
typedef struct gw_gpu_health {
    bool begun;
    uint64_t ecc_corrected_reported, ecc_uncorrected; /* counters as of the last report */
    uint32_t throttled_row, free_row, silent_row;
    bool hot, throttled, silent;
    uint64_t xids; /* errors reported so far */
    uint32_t last_xid;
} gw_gpu_health;

/* Reports a change of the GPU's health: `text` goes on from the name of the GPU ("is hot: ...") and is
 * valid during the call. */
typedef void gw_gpu_report(void *context, gw_level level, const char *text);

void gw_gpu_health_look(gw_gpu_health *health, const gw_gpu_reading *reading, gw_gpu_report *report,
                        void *context);
/* Notes that the driver reported Xid `xid`: an error of the GPU, by NVIDIA's numbers. */
void gw_gpu_health_xid(gw_gpu_health *health, uint32_t xid, gw_gpu_report *report, void *context);

/* Whether something is wrong that a later reading may take back. */
bool gw_gpu_health_is_bad(const gw_gpu_health *health);
/* Writes the reasons among GW_GPU_THROTTLE_TROUBLE, such as "heat (driver), power brake"; "" = none.
 * Returns `text`. */
const char *gw_gpu_throttle_text(uint64_t throttle, char text[96]);

#endif
