/* NVML, NVIDIA's library for the state of GPUs. It comes with the driver and is opened at run time. */
#ifndef GODWIT_TOOLS_GODWIT_WATCH_NVML_H
#define GODWIT_TOOLS_GODWIT_WATCH_NVML_H

#include "core/base/err.h"
#include "tools/godwit/watch/gpu_health.h"

enum {
    GW_NVML_SUCCESS = 0,
    GW_NVML_TOO_SMALL = 7,    /* the array has no room for all */
    GW_NVML_NO_FUNCTION = 13, /* the library lacks the function */
    GW_NVML_XID = 8,          /* the kind of event that reports an Xid */
    GW_NVML_P2P_NVLINK = 2,
    GW_NVML_P2P_READ = 0,
};

typedef struct gw_nvml_device gw_nvml_device; /* NVML's */
typedef struct gw_nvml_set gw_nvml_set;

typedef struct gw_nvml_utilisation {
    unsigned gpu, memory;
} gw_nvml_utilisation;

typedef struct gw_nvml_memory {
    unsigned long long total, free, used;
} gw_nvml_memory;

typedef struct gw_nvml_event {
    gw_nvml_device *device;
    unsigned long long kind, data;
    unsigned gpu_instance, compute_instance;
} gw_nvml_event;

typedef struct gw_nvml_process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} gw_nvml_process;

/* NVML's functions, with the types of nvml.h since version 11. The result 0 means success. A function may
 * be NULL where the library lacks it, and its figure is not known then; init, shutdown, error_string and
 * device_by_bus are always there. */
typedef struct gw_nvml_api {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*driver_version)(char *text, unsigned size);
    int (*device_by_bus)(const char *bus, gw_nvml_device **device);
    int (*utilisation)(gw_nvml_device *device, gw_nvml_utilisation *utilisation);
    int (*memory)(gw_nvml_device *device, gw_nvml_memory *memory);
    int (*temperature)(gw_nvml_device *device, int sensor, unsigned *degrees);
    int (*temperature_threshold)(gw_nvml_device *device, int threshold, unsigned *degrees);
    int (*power)(gw_nvml_device *device, unsigned *milliwatts);
    int (*power_limit)(gw_nvml_device *device, unsigned *milliwatts);
    int (*ecc_errors)(gw_nvml_device *device, int kind, int counter, unsigned long long *count);
    int (*throttle)(gw_nvml_device *device, unsigned long long *reasons);
    int (*p2p_status)(gw_nvml_device *a, gw_nvml_device *b, int capability, int *status);
    int (*event_set_create)(gw_nvml_set **set);
    int (*event_register)(gw_nvml_device *device, unsigned long long kinds, gw_nvml_set *set);
    int (*event_wait)(gw_nvml_set *set, gw_nvml_event *event, unsigned timeout_ms);
    int (*event_set_free)(gw_nvml_set *set);
    int (*energy)(gw_nvml_device *device, unsigned long long *millijoules);
    /* The count is the room of the array before the call, and the number of processes after it. */
    int (*processes)(gw_nvml_device *device, unsigned *count, gw_nvml_process *list);
    int (*mig_mode)(gw_nvml_device *device, unsigned *now, unsigned *pending);
    int (*clock)(gw_nvml_device *device, int which, unsigned *megahertz);
    int (*uuid)(gw_nvml_device *device, char *text, unsigned size);
    int (*index)(gw_nvml_device *device, unsigned *index);
    int (*minor)(gw_nvml_device *device, unsigned *minor);
} gw_nvml_api;

/* Opens libnvidia-ml.so.1. Fails with GW_E_UNSUPPORTED and a text that says what is missing and where it
 * was looked for. */
bool gw_nvml_load(gw_nvml_api *api, gw_err *err);

enum { GW_NVML_GPUS = 64 };
typedef struct gw_nvml gw_nvml;

/* Opens NVML for the GPUs at these PCI addresses ("0000:3b:00.0"), 1 to GW_NVML_GPUS. A GPU that NVML does
 * not know never answers. Returns NULL on failure, and where NVML knows none of them. The api is copied.
 * Only one thread at a time may call the functions below; calls may take milliseconds. */
gw_nvml *gw_nvml_open(const gw_nvml_api *api, const char *const *buses, uint32_t count, gw_err *err);
void gw_nvml_close(gw_nvml *nvml); /* NULL is allowed */
/* Reads what other programs call GPU `index` of the list. */
void gw_nvml_identify(gw_nvml *nvml, uint32_t index, gw_gpu_names *names);
/* Reads the current figures of GPU `index` of the list. */
void gw_nvml_read(gw_nvml *nvml, uint32_t index, gw_gpu_reading *reading);
/* Takes the next Xid reported since gw_nvml_open; false = there is none. */
bool gw_nvml_take_xid(gw_nvml *nvml, uint32_t *index, uint32_t *xid);
/* Returns how two GPUs of the list reach each other: "NVLink", "PCIe", "host" (only through host memory),
 * or "unknown". */
const char *gw_nvml_path(gw_nvml *nvml, uint32_t a, uint32_t b);
/* Writes the driver's version, "580.159.04", or "". */
void gw_nvml_driver(gw_nvml *nvml, char text[80]);

#endif
