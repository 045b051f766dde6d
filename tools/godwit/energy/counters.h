/* Counters of the energy of this machine's processors, as the kernel shows them under ROOT/sys/class. The
 * best of these sources is used:
 *
 *   powercap  RAPL, of Intel and of AMD: all packages, and memory (dram) where it has a counter of its own.
 *             The domains inside of a package (core, uncore) are parts of it, and the second way to the same
 *             package (intel-rapl-mmio) counts nothing new. The whole platform (psys) is taken only where no
 *             package can be read.
 *   hwmon     the counters of sockets (amd_energy)
 *   hwmon     a meter of the whole machine's power (power_meter), unless GPUs are counted by themselves,
 *             whose power is a part of it
 *
 * Counters wrap around after minutes to hours: they are to be read at least once a minute.
 *
 * Thread: one at a time. A read may wait for the hardware. */
#ifndef GODWIT_TOOLS_GODWIT_ENERGY_COUNTERS_H
#define GODWIT_TOOLS_GODWIT_ENERGY_COUNTERS_H

#include "tools/godwit/energy/energy.h"

#include <stdint.h>

enum { GW_ENERGY_ZONES = 64, GW_ENERGY_FILE = 96, GW_ENERGY_NAME = 64 };

/* A counter in microjoules, or a power in microwatts. */
typedef struct gw_energy_zone {
    char file[GW_ENERGY_FILE]; /* below sys/class */
    char name[GW_ENERGY_NAME]; /* "package-0", "package-0/dram" */
    uint64_t range;         /* the greatest value, after which the counter begins at 0 again; 0 = not known */
    uint64_t last, last_ns; /* the value of the last read, and its time; 0 = it has not been read yet */
    bool gone;              /* it could not be read */
} gw_energy_zone;

typedef struct gw_energy_counters {
    char root[256];
    gw_energy_source source; /* GW_ENERGY_NONE: none of the files can be read */
    uint32_t count;
    gw_energy_zone zones[GW_ENERGY_ZONES];
    bool incomplete;                /* some of the counters could not be read any more */
    char lack[GW_ENERGY_LACK_TEXT]; /* why there is none, or what is missing; "" = nothing is */
    bool denied;                    /* for want of permission */
} gw_energy_counters;

/* Looks for the counters. `root` is "" for the machine's own. */
void gw_energy_counters_open(gw_energy_counters *counters, const char *root, bool gpus);

/* Reads all of them; returns the joules since the last read. The first read of each counter only begins
 * it. A counter that cannot be read any more (its driver was unloaded, a processor was taken out) is left
 * out from then on, and `lack` says so; when none is left, the source becomes GW_ENERGY_NONE. */
double gw_energy_counters_read(gw_energy_counters *counters, uint64_t now_ns);

#endif
